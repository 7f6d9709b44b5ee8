"""Attention that no fusion before export has made an operator of."""

from __future__ import annotations

from converter.onnx_file.domains import MICROSOFT
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import reshape, transpose
from converter.to_onnx.registry import write_inline
from ir_runtime.operations.attention import GroupQueryAttention, ScaledDotProductAttention13

write_inline(ScaledDotProductAttention13)


@ir_op(GroupQueryAttention)
def group_query_attention_of_the_importer(ctx: Context, op: GroupQueryAttention, *inputs: Value) -> list[Value]:
    """GroupQueryAttention, where contrib operators may be used"""
    if not ctx.contrib:
        ctx.fail("only the operator of com.microsoft computes it, which needs --contrib")
    flat = [
        reshape(ctx, transpose(ctx, value, [0, 2, 1, 3]), [0, 0, -1]) if index < 3 else value
        for index, value in enumerate(inputs)
    ]
    return ctx.emit_many(
        "GroupQueryAttention",
        *(None if source.element_type.is_dynamic else value for source, value in zip(ctx.node.inputs, flat)),
        count=3,
        domain=MICROSOFT,
        types=[inputs[0].element_type] * 3,
        causal=None if op.causal else 0,
        do_rotary=int(op.do_rotary) or None,
        kv_num_heads=op.kv_num_heads,
        local_window_size=op.local_window_size,
        num_heads=op.num_heads,
        rotary_interleaved=int(op.rotary_interleaved) or None,
        scale=op.scale or None,
        smooth_softmax=int(op.smooth_softmax) or None,
    )
