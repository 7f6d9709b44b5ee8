"""Plain functions on a graph that passes and edits call."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..graph import Model, Node, Output


def known_tensors(model: Model) -> dict[str, Output]:
    """Return the tensors by their names, and by those of layers of one output."""
    tensors: dict[str, Output] = {}
    for node in model.nodes():
        for output in node.outputs:
            tensors.update(dict.fromkeys(output.names, output))
            if len(node.outputs) == 1:
                tensors.setdefault(node.name, output)
    for node in model.results:
        tensors.update(dict.fromkeys(node.end_names, node.inputs[0]))
    return tensors


def dependents(model: Model, values: Iterable[Output]) -> set[Output]:
    """Return the values that follow from these, themselves included."""
    reached = set(values)
    for node in model.nodes():
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


def needed_values(values: Iterable[Output], starts: Collection[Output] = ()) -> set[Output]:
    """Return the values that these are computed from, themselves included; of ``starts`` nothing before them."""
    read, pending = set[Output](), list(values)
    while pending:
        value = pending.pop()
        if value not in read:
            read.add(value)
            if value not in starts:
                pending += value.node.inputs
    return read


def replace_parameter(model: Model, node: Node, *new: Node) -> None:
    """Let parameters, or none, be in the place of one."""
    model.parameters = [other for end in model.parameters for other in (new if end is node else (end,))]
