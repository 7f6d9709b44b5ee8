"""States of loops in memory of their own.

What a body hands on may lie in the memory of a parameter: views of it do, and what is computed element by element
from it, which the plug-in writes in its place. For the next iteration the plug-in fills that memory before it reads
the state there, if it is the memory of another parameter: a slice of the input, or another state.

    state', x -> Add(x, state) -> Result (state)      becomes      ... -> Add(x, state) -> Maximum(y, y) -> Result

A layer that changes nothing and reads its input twice has its output elsewhere.
Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import keep_apart
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.graph import Model, Node, Output, SubGraph
from ir_runtime.operations.activation import PReLU1
from ir_runtime.operations.control_flow import Loop5, TensorIterator1
from ir_runtime.operations.elementwise import Binary, Convert1, Unary
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewrite import UniqueNames

_VIEWS = (Concat1, Convert1, Reshape1, Slice8, Split1, Squeeze1, StridedSlice1, Unsqueeze1, VariadicSplit1)
"""Layers whose output may lie in the memory of their input."""
_IN_PLACE = (Binary, PReLU1, Unary)
"""Layers that may write their output into the memory of their first input."""


@openvino_cpu.register("loop_states", after=["fake_quantize", "fusion_guards", "integer_products", "narrow_states"])
def loop_states(model: Model) -> int:
    """Keep the next values of states out of the memory of other parameters."""
    return sum(
        _kept_apart(sub)
        for part in model.parts()
        for node in part.nodes_of((Loop5, TensorIterator1))
        for sub in node.op.subgraphs
    )


def _kept_apart(sub: SubGraph) -> int:
    acted, unique = 0, UniqueNames(sub.body)
    for result, parameter in sub.back_edges:
        returned, own = sub.body.results[result], sub.body.parameters[parameter]
        value = returned.inputs[0]
        place = _memory_of(value)
        if place.op.role != "parameter" or place is own or value.element_type is element_types.string:
            continue
        keep_apart(value, [returned], unique)
        acted += 1
    return acted


def _memory_of(value: Output) -> Node:
    """The layer in whose memory a value may lie."""
    while isinstance(value.node.op, _VIEWS) or _is_in_place(value):
        value = value.node.inputs[0]
    return value.node


def _is_in_place(value: Output) -> bool:
    if not isinstance(value.node.op, _IN_PLACE):
        return False
    first = value.node.inputs[0]
    once = value.node.inputs.count(first) == 1
    return once and first.element_type is value.element_type and first.shape.merge(value.shape) is not None
