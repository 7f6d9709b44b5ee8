"""Gates of linear attention, as onnxruntime's language models have them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, element_types
from ir_runtime.operations.activation import Sigmoid1, SoftPlus4
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type


@onnx_op("LinearAttentionGate", versions=(1,), domain=MICROSOFT)
def linear_attention_gate(
    ctx: Context, a: Output, dt_bias: Output, decay_scale: Output, b: Output | None = None
) -> list[Output]:
    """decay_scale softplus(a + dt_bias), which is rounded to a's type once, and sigmoid(b)."""
    wide = layers.add(ctx, in_type(ctx, a, element_types.f32), dt_bias)
    decay = in_type(ctx, layers.multiply(ctx, ctx.emit(SoftPlus4(), wide), decay_scale), a.element_type)
    if b is not None:
        return [decay, ctx.emit(Sigmoid1(), b)]
    if ctx.wants(1):
        raise ctx.invalid("the output beta requires the input b, which is missing")
    return [decay]
