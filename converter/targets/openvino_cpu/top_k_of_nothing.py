"""TopK of 0 elements, as an empty Slice.

The plug-in refuses to return no elements, or crashes.

    x -> TopK(0)      becomes      x -> Slice(0, 0) -> values
                                             -> Convert -> indices
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import cut, in_type


@openvino_cpu.replaces("top_k_of_nothing", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def top_k_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Slice no elements."""
    data, count = node.inputs
    constant = count.type.constant
    if constant is None or constant.any() or not isinstance(node.op, TopK11):
        return fail("K is not 0, or comes at run time")
    nothing = cut(builder, data, 0, 0, node.op.axis)
    return [nothing, in_type(builder, nothing, node.outputs[1].element_type)]
