"""Patches added up to an image."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_list, rank_of, squeeze, unsqueeze
from ir_runtime.graph import element_types
from ir_runtime.operations.patches import Col2Im15

_SMALL = (element_types.f32, element_types.f16, element_types.bf16)
"""Types whose sums float32 holds."""


@ir_op(Col2Im15)
def col2im(ctx: Context, op: Col2Im15, x: Value, image: Value, block: Value) -> Value:
    """Col2Im; ScatterElements of types that onnxruntime's Col2Im would round"""
    is_known = known_list(ctx, image) is not None and known_list(ctx, block) is not None
    if x.element_type not in _SMALL or (is_known and not ctx.at_least(18)):
        return ctx.decompose()[0]
    is_single = rank_of(ctx, x, "the data") == 2
    image_of_columns = ctx.emit(
        "Col2Im",
        unsqueeze(ctx, x, [0]) if is_single else x,
        *(ctx.cast(dimensions_input, element_types.i64) for dimensions_input in (image, block)),
        strides=list(op.strides),
        dilations=list(op.dilations),
        pads=[*op.pads_begin, *op.pads_end],
    )
    return squeeze(ctx, image_of_columns, [0]) if is_single else image_of_columns
