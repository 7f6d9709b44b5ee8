"""Gather from a stored table of u2, as Gather from one of u4.

The plug-in gathers u2 as if each element had a byte of its own, and so returns other elements.

    table (u2) -> Gather -> Convert(f32)      becomes      table (u4) -> Gather -> Convert(f32)
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, element_types
from ir_runtime.operations.indexing import Gather8
from ir_runtime.rewriting import Builder, Replacement, fail


@openvino_cpu.replaces("gather_from_2_bit_tables", seen_in=("2024.6", "2025.4", "2026.4"))
def gather_from_2_bit_tables(builder: Builder, node: Node) -> Replacement:
    """Store in 4 bits a table of 2 bits whose gathered elements are converted at once."""
    gather = node.inputs[0].node
    if not isinstance(gather.op, Gather8) or gather.inputs[0].element_type is not element_types.u2:
        return fail("its input is not gathered from u2")
    table = gather.inputs[0].tensor
    if table is None:
        return fail("the table is not constant")
    stored = builder.constant(table.array().astype(np.uint8), element_types.u4)
    return builder.emit(node.op, builder.emit(gather.op, stored, *gather.inputs[1:]))
