"""OneHot of a scalar index, with a depth that comes at run time.

The plug-in refuses a scalar, but supports a list of one index.

    index -> OneHot(axis 0)      becomes      index -> Unsqueeze(0) -> OneHot(axis 1) -> Squeeze(0)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.indexing import OneHot1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("one_hot_of_a_scalar", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def one_hot_of_a_scalar(builder: Builder, node: Node) -> Replacement:
    """Reshape the index to a list."""
    index, *others = node.inputs
    if not index.shape.has_rank or index.shape.rank or others[0].type.constant is not None:
        return fail("the index is not known to be a scalar, or the depth is constant")
    rows = builder.emit(OneHot1(axis=1), layers.unsqueeze(builder, index, 0), *others)
    return layers.squeeze(builder, rows, builder.constant([0]))
