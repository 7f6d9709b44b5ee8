"""Inputs and outputs that an IR and the reference have under other names: they are paired by their order.

Front ends name them by habits of their own: OpenVINO's for PyTorch after the module's arguments and results, exporters
after the last layer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from converter.equivalence.reference.engines import Engine
from converter.equivalence.reference.references import Reference
from ir_runtime import Model, Port


def with_reference_names(
    model: Model, reference: Reference, frozen: Collection[str], requested: Sequence[str] | None
) -> tuple[Model, list[str]]:
    """Return the model with the reference's names added where it has none of them, and notes on what was paired.

    Ends are paired where as many are left on both sides. The model is copied where names are added.
    """
    inputs, outputs = _pairs(
        [node.end_names for node in model.parameters],
        [node.end_names for node in model.results],
        reference,
        frozen,
        requested,
    )
    if not inputs and not outputs:
        return model, []
    taken = {name for node in model.nodes() for output in node.outputs for name in output.names}
    if not taken.isdisjoint((*inputs.values(), *outputs.values())):
        return model, []  # another tensor has the name
    copy, notes = model.clone(), []
    for role, pairs, ends in (("inputs", inputs, copy.parameters), ("outputs", outputs, copy.results)):
        notes += _note(role, {next(iter(ends[place].end_names), ""): pairs[place] for place in pairs})
        for place, name in pairs.items():
            node = ends[place]
            if node.output_names:
                node.output_names = [*node.output_names, name]
            (node.inputs or node.outputs)[0].add_name(name)
    return copy, notes


def with_reference_names_of_ports(
    engine: Engine, reference: Reference, frozen: Collection[str], requested: Sequence[str] | None
) -> tuple[Engine, list[str]]:
    """As :func:`with_reference_names`, for the ports of an engine without an IR."""
    names_of_inputs, names_of_outputs = ([port.names for port in ports] for ports in (engine.inputs, engine.outputs))
    inputs, outputs = _pairs(names_of_inputs, names_of_outputs, reference, frozen, requested)
    notes = [
        *_note("inputs", {engine.inputs[place].name: name for place, name in inputs.items()}),
        *_note("outputs", {engine.outputs[place].name: name for place, name in outputs.items()}),
    ]
    return replace(engine, inputs=_named(engine.inputs, inputs), outputs=_named(engine.outputs, outputs)), notes


def _named(ports: Sequence[Port], pairs: Mapping[int, str]) -> list[Port]:
    return [
        replace(port, names=(*port.names, pairs[place])) if place in pairs else port for place, port in enumerate(ports)
    ]


def _note(role: str, pairs: Mapping[str, str]) -> list[str]:
    text = ", ".join(f"'{name}' with '{other}'" for name, other in pairs.items())
    return [f"{role} have other names, and were paired in their order: {text}"] if pairs else []


def _pairs(
    input_names: Sequence[Collection[str]],
    output_names: Sequence[Collection[str]],
    reference: Reference,
    frozen: Collection[str],
    requested: Sequence[str] | None,
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the names in the reference of inputs and of outputs that have none of its names, by their position."""
    expected = list(requested or reference.output_names)
    required = [name for name in reference.required_inputs(requested) if name not in frozen]
    return _left(input_names, reference.input_names, required), _left(output_names, expected, expected)


def _left(names: Sequence[Collection[str]], expected_names: Collection[str], expected: Sequence[str]) -> dict[int, str]:
    """Return the places of ends without a known name, with the names that no end has; empty where numbers differ."""
    places = [place for place, own in enumerate(names) if not any(name in expected_names for name in own)]
    own_names = {name for own in names for name in own}
    missing = [name for name in expected if name not in own_names]
    return dict(zip(places, missing)) if len(places) == len(missing) else {}
