"""What goes into and out of loops in narrow types, carried in wider ones that hold all their values.

The plug-in copies no states, slices and joined results of 8 bits and fewer that are not plain integers, nor states
of bf16.

    x (u4) -> Loop (parameter u4 ... result u4)      becomes      x -> Convert(i32) -> Loop (parameter i32 ->
                                                     Convert(u4) ... -> Convert(i32) result) -> Convert(u4)

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from converter.targets.legalisation import redirect
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Model, Node, Output, SubGraph
from ir_runtime.operation import TensorType
from ir_runtime.operations.control_flow import Loop5, TensorIterator1
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewrite import UniqueNames, Uses, replace_uses, uses_of
from ir_runtime.shape_inference import make_node

_WIDER = {
    element_types.bf16: element_types.f32,
    element_types.f8e4m3: element_types.f32,
    element_types.f8e5m2: element_types.f32,
    element_types.f8e8m0: element_types.f32,
    element_types.f4e2m1: element_types.f32,
    element_types.i4: element_types.i32,
    element_types.u4: element_types.i32,
    element_types.u2: element_types.i32,
}


@openvino_cpu.register("narrow_states", after=["lowest_bits"])
def narrow_states(model: Model) -> int:
    """Carry narrow types through loops in wider ones."""
    acted = 0
    for part in model.parts():
        loops = part.nodes_of((Loop5, TensorIterator1))
        if loops:
            # A loop around this one may have changed the body.
            uses, unique = uses_of(part.model), UniqueNames(part.model)
            acted += sum(_widen(node, sub, uses, unique) for node in loops for sub in node.op.subgraphs)
    return acted


def _widen(node: Node, sub: SubGraph, uses: Uses, unique: UniqueNames) -> bool:
    within, inner, acted = uses_of(sub.body), UniqueNames(sub.body), False
    # What neither changes nor is cut is read where it lies, and may be a table of weights.
    carried = {parameter for _, parameter in sub.back_edges}
    for entry in sub.inputs:
        parameter = sub.body.parameters[entry.parameter]
        value = parameter.outputs[0]
        narrow = value.element_type in _WIDER and (entry.parameter in carried or entry.axis is not None)
        if entry.external is None or not narrow:
            continue
        kind, acted = value.element_type, True
        node.inputs[entry.external] = _converted(node.inputs[entry.external], _WIDER[kind], unique)
        value.type = TensorType(_WIDER[kind], value.shape)
        parameter.op = parameter.op.of_type(value.type)
        _read(value, _converted(value, kind, inner), within[value])
    for result in sub.body.results:
        (value,) = result.inputs
        if value.element_type in _WIDER:
            result.inputs, acted = [_converted(value, _WIDER[value.element_type], inner)], True
    for exit in sub.outputs:
        if exit.external is not None and node.outputs[exit.external].element_type in _WIDER:
            given = node.outputs[exit.external]
            kind = given.element_type
            given.type = TensorType(_WIDER[kind], given.shape)
            back = _converted(given, kind, unique)
            redirect(uses, given, back)
    return acted


def _converted(value: Output, kind: ElementType, unique: UniqueNames) -> Output:
    made = make_node(Convert1(destination_type=kind), [value], unique(f"{value.node.name}/{kind}"))
    made.origin = value.node.origin
    return made.outputs[0]


def _read(old: Output, new: Output, readers: Iterable[Node]) -> None:
    replace_uses(old, new, [reader for reader in readers if reader is not new.node])
