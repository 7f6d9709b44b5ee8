"""Tables of 2 bits a number, stored in 4.

The plug-in gathers u2 as if each element had a byte of its own, so that others arrive.

    table (u2) -> Gather -> Convert(f32)      becomes      table (u4) -> Gather -> Convert(f32)

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import numpy as np

from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.rewrite import Uses


@openvino_cpu.register("gathered_tables")
def gathered_tables(model: Model) -> int:
    """Store tables of 2 bits, what is gathered from which is converted at once, in 4 bits."""
    return legalise(model, (Convert1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    gather = node.inputs[0].node
    if not isinstance(gather.op, Gather8) or gather.inputs[0].element_type is not element_types.u2:
        return None
    table = gather.inputs[0].tensor
    if table is None:
        return None
    stored = builder.constant(table.array().astype(np.uint8), element_types.u4)
    return builder.emit(node.op, builder.emit(gather.op, stored, *gather.inputs[1:]))
