"""The tensors that a model returns: each Result has one of its own, with the names that the model promised.

OpenVINO gives a tensor the names of one Result alone, and looks inputs and outputs up by these names. A change
that replaces one returned value by another, or by an input, would leave two of them on one tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..graph import Model, Node, Output, element_types, make_node
from ..operations.elementwise import Convert1
from ..operations.inputs_outputs import Identity16
from .unique_names import UniqueNames

Promised = Mapping[Node, list[str]]


def promised_names(model: Model) -> Promised:
    """The tensor names by which callers know each Parameter and Result."""
    return {node: node.end_names for node in [*model.parameters, *model.results]}


def copied(source: Output, name: str) -> Output:
    """The same value as another tensor, made by a layer of that name."""
    element_type = source.element_type
    # What changes nothing in every release; Identity is younger, and needed for texts alone.
    same = Identity16() if element_type is element_types.string else Convert1(destination_type=element_type)
    return make_node(same, [source], name).outputs[0]


def give_own_tensors(model: Model, promised: Promised) -> int:
    """Let each Result return a tensor of its own with its promised names; how many got another tensor.

    Results that shared a tensor under the same names from the start keep it.
    """
    returned: dict[Output, list[Node]] = defaultdict(list)
    for result in model.results:
        if result in promised:
            returned[result.inputs[0]].append(result)
    unique: UniqueNames | None = None
    count = 0
    for source, results in returned.items():
        others = _others(source, results, promised)
        for result in others:
            names = promised[result]
            unique = unique or UniqueNames(model)
            tensor = copied(source, unique(names[0] if names else f"{source.node.name}/returned"))
            tensor.node.origin = source.node.origin
            tensor.names = list(names)
            result.replace_inputs([tensor])
            count += 1
    _give_names(model, promised)
    return count


def _others(source: Output, results: list[Node], promised: Promised) -> list[Node]:
    """The Results that cannot stay on a tensor: all but one, and those that would give an input other names."""
    first = source.names[:1]
    if source.node.op.role == "parameter":
        own = promised.get(source.node, source.names)
        staying = [result for result in results if set(promised[result]) <= set(own)]
    else:
        staying = [result for result in results if promised[result][:1] == first] or results
    keeper = staying[0] if staying else None
    return [result for result in results if keeper is None or promised[result] != promised[keeper]]


def _give_names(model: Model, promised: Promised) -> None:
    """Let the promised names stand on the tensors they belong to, before all others, and on no other tensors."""
    ends = [(node, node.inputs[0]) for node in model.results] + [(node, node.outputs[0]) for node in model.parameters]
    owners = {name: owner for node, owner in ends for name in promised.get(node, ())}
    if any(owners.get(name, owner) is not owner for owner in set(owners.values()) for name in owner.names) or any(
        name not in owner.names for name, owner in owners.items()
    ):
        for node in model.nodes():
            for output in node.outputs:
                output.names = [name for name in output.names if owners.get(name, output) is output]
    for node, owner in ends:
        names = promised.get(node, [])
        if owner.names[: len(names)] != names and all(owners[name] is owner for name in names):
            owner.names = [*names, *(name for name in owner.names if name not in names)]
