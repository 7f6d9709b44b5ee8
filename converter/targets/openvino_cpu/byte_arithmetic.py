"""Arithmetic of 8-bit integers, which the plug-in saturates, and whose quotients it rounds to the nearest number
where extents come at execution.

Seen from 2023.3 to 2026.4. ONNX's integers wrap, as the lowest bits of a wider type do, and quotients are
rounded towards zero.

    Add(u8, u8)      becomes   Convert(Add(Convert(i32), Convert(i32)), u8)
"""

from __future__ import annotations

from converter.lowering.layers import in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Abs1, Add1, Divide1, Multiply1, Negative1, Subtract1
from ir_runtime.rewrite import Uses

_BYTES = (element_types.i8, element_types.u8)


@openvino_cpu.register("byte_arithmetic", after=["fake_quantize"])
def byte_arithmetic(model: Model) -> int:
    """Compute 8-bit integers as i32."""
    return legalise(model, (Add1, Subtract1, Multiply1, Divide1, Negative1, Abs1), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    kind = node.outputs[0].element_type
    if kind not in _BYTES:
        return None
    wide = [in_type(builder, value, element_types.i32) for value in node.inputs]
    return in_type(builder, builder.emit(node.op, *wide), kind)
