"""States, slices and joined outputs of loops in narrow types, in wider types that hold all their values.

The plug-in refuses many of them: slices and joined outputs of f4e2m1, f8e8m0 and u2, and some layers of f8e4m3 and
f8e5m2 that it adds around a loop.

    x (u4) -> Loop (parameter u4 ... result u4)      becomes      x -> Convert(i32) -> Loop (parameter i32 ->
                                                     Convert(u4) ... -> Convert(i32) result) -> Convert(u4)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import ElementType, Node, Output, SubGraph, TensorType, element_types, make_node
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

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


@openvino_cpu.edits("loop_states_of_narrow_types", seen_in=("2025.4", "2026.4"))
def loop_states_of_narrow_types(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Convert to wider types around loops, and back inside."""
    count = sum(_widen(node, sub, unique) for sub in node.op.subgraphs)
    return count or fail("no state, slice or joined output has a type that the plug-in refuses")


def _widen(node: Node, sub: SubGraph, unique: UniqueNames) -> bool:
    inner, changed = UniqueNames(sub.body), False
    # An input that is neither a state nor sliced stays as it is: it may be a table of weights.
    carried = {parameter for _, parameter in sub.back_edges}
    for entry in sub.inputs:
        parameter = sub.body.parameters[entry.parameter]
        value = parameter.outputs[0]
        narrow = value.element_type in _WIDER and (entry.parameter in carried or entry.axis is not None)
        if entry.external is None or not narrow:
            continue
        element_type, changed = value.element_type, True
        node.replace_input(entry.external, _convert(node.inputs[entry.external], _WIDER[element_type], unique))
        value.type = TensorType(_WIDER[element_type], value.shape)
        parameter.op = parameter.op.of_type(value.type)
        value.replace_by(_convert(value, element_type, inner), move_names=False)
    for result in sub.body.results:
        (value,) = result.inputs
        if value.element_type in _WIDER:
            result.replace_input(0, _convert(value, _WIDER[value.element_type], inner))
            changed = True
    for exit in sub.outputs:
        if exit.external is not None and node.outputs[exit.external].element_type in _WIDER:
            output = node.outputs[exit.external]
            element_type = output.element_type
            output.type = TensorType(_WIDER[element_type], output.shape)
            back = _convert(output, element_type, unique)
            back.names, output.names = output.names, []
            output.replace_by(back, move_names=False)
    return changed


def _convert(value: Output, element_type: ElementType, unique: UniqueNames) -> Output:
    node = make_node(Convert1(destination_type=element_type), [value], unique(f"{value.node.name}/{element_type}"))
    node.origin = value.node.origin
    return node.outputs[0]
