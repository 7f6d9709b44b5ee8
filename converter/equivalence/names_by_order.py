"""Inputs and outputs that an IR and the reference have under other names: they are paired by their order.

Front ends name them by habits of their own: OpenVINO's for PyTorch after the module's arguments and results, exporters
after the last layer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from converter.equivalence.references import Reference
from ir_runtime import Model
from ir_runtime.graph import Node


def with_reference_names(
    model: Model, reference: Reference, frozen: Collection[str], requested: Sequence[str] | None
) -> tuple[Model, list[str]]:
    """Return the model with the reference's names added where it has none of them, and notes on what was paired.

    Ends are paired where as many are left on both sides. The model is copied where names are added.
    """
    input_names, expected = reference.input_names, list(requested or reference.output_names)
    required = [name for name in reference.required_inputs(requested) if name not in frozen]
    inputs = _left(model.parameters, input_names, required)
    outputs = _left(model.results, expected, expected)
    if not inputs and not outputs:
        return model, []
    taken = {name for node in model.nodes() for output in node.outputs for name in output.names}
    if not taken.isdisjoint((*inputs.values(), *outputs.values())):
        return model, []  # another tensor has the name
    copy, notes = model.clone(), []
    for role, pairs, ends in (("inputs", inputs, copy.parameters), ("outputs", outputs, copy.results)):
        for place, name in pairs.items():
            node = ends[place]
            if node.output_names:
                node.output_names = [*node.output_names, name]
            (node.inputs or node.outputs)[0].add_name(name)
        if pairs:
            pairs_text = ", ".join(
                f"'{next(iter(ends[place].end_names), '')}' with '{pairs[place]}'" for place in pairs
            )
            notes.append(f"{role} have other names, and were paired in their order: {pairs_text}")
    return copy, notes


def _left(nodes: Sequence[Node], expected_names: Collection[str], expected: Sequence[str]) -> dict[int, str]:
    """Return the places of ends without a known name, with the names that no end has; empty where numbers differ."""
    names = [node.end_names for node in nodes]
    places = [place for place, own in enumerate(names) if not any(name in expected_names for name in own)]
    own_names = {name for own in names for name in own}
    missing = [name for name in expected if name not in own_names]
    return dict(zip(places, missing)) if len(places) == len(missing) else {}
