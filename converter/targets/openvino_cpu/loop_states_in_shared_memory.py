"""States of loops, each in memory of its own.

What a body returns as the next value of a state may lie in the memory of a parameter: a view of it does, and so does
arithmetic that the plug-in computes in place. Before the next iteration the plug-in fills the parameters. Where the
value lies in the memory of another parameter (a slice of the input, or another state), it is overwritten before it
is copied.

    state', x -> Add(x, state) -> Result (state)      becomes      ... -> Add(x, state) -> Maximum(y, y) -> Result

Maximum changes nothing. It reads its input twice, and so is not computed in place.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import prevent_fusion
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, SubGraph, element_types
from ir_runtime.operations.activation import PReLU1
from ir_runtime.operations.elementwise import Binary, Convert1, Unary
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Transpose1, Unsqueeze1
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

_VIEWS = (Concat1, Convert1, Reshape1, Slice8, Split1, Squeeze1, StridedSlice1, Transpose1, Unsqueeze1, VariadicSplit1)
"""Layers whose output may lie in the memory of their input: a Transpose where it moves only dimensions of 1."""
ELEMENTWISE = (Binary, PReLU1, Unary)
"""Layers that may write their output into the memory of their first input."""


@openvino_cpu.edits("loop_states_in_shared_memory", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def loop_states_in_shared_memory(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Give the next values of states memory of their own."""
    count = sum(map(_give_own_memory, node.op.subgraphs))
    return count or fail("no next state lies in the memory of another parameter")


def _give_own_memory(sub: SubGraph) -> int:
    count, unique = 0, UniqueNames(sub.body)
    for result, parameter in sub.back_edges:
        returned, own = sub.body.results[result], sub.body.parameters[parameter]
        value = returned.inputs[0]
        place = _memory_of(value)
        if place.op.role != "parameter" or place is own or value.element_type is element_types.string:
            continue
        prevent_fusion(value, [returned], unique)
        count += 1
    return count


def _memory_of(value: Output) -> Node:
    """The layer in whose memory a value may lie."""
    _, value = source_of_views(value)
    while _is_in_place(value):
        _, value = source_of_views(value.node.inputs[0])
    return value.node


def source_of_views(value: Output) -> tuple[int, Output]:
    """Return how many views in a row a value may be made by, and the value in whose memory these lie."""
    count = 0
    while isinstance(value.node.op, _VIEWS):
        count, value = count + 1, value.node.inputs[0]
    return count, value


def _is_in_place(value: Output) -> bool:
    if not isinstance(value.node.op, ELEMENTWISE):
        return False
    first = value.node.inputs[0]
    once = value.node.inputs.count(first) == 1
    return once and first.element_type is value.element_type and first.shape.merge(value.shape) is not None
