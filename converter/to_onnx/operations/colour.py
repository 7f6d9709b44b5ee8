"""Colours of images: NV12 and I420 to red, green and blue, and back to NV12.

Each number is computed as the IR's executor does it, product by product, so that whole numbers are rounded alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reshape, slice_along, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import divide, multiply, shape_list, size_of
from ir_runtime.graph import ElementType, element_types
from ir_runtime.operations.colour import (
    OFFSETS,
    WEIGHTS,
    BGRtoNV12_17,
    I420toBGR8,
    I420toRGB8,
    NV12toBGR8,
    NV12toRGB8,
    RGBtoNV12_17,
)

_END = np.iinfo(np.int64).max


def _wide(ctx: Context, plane: Value) -> Value:
    kind = plane.element_type
    return ctx.cast(plane, kind if kind is element_types.f64 else element_types.f32)


def _clipped(ctx: Context, values: Value) -> Value:
    return ctx.emit("Clip", values, ctx.like(0, values), ctx.like(255, values))


def _times(ctx: Context, plane: Value, factor: float) -> Value:
    return ctx.emit("Mul", plane, ctx.like(factor, plane))


@ir_op(NV12toRGB8, NV12toBGR8, I420toRGB8, I420toBGR8, local_function=True)
def to_colours(ctx: Context, op: Any, *planes: Value) -> Value:
    """Sums of the planes times their weights; colour differences are spread over their four pixels by Expand"""
    kind = planes[0].element_type
    y, u, v = _brightness_and_differences(ctx, op, [_wide(ctx, plane) for plane in planes])
    c, d, e = (ctx.emit("Sub", one, ctx.like(base, one)) for one, base in ((y, 16), (u, 128), (v, 128)))
    bright = _times(ctx, c, 1.164)
    red = ctx.emit("Add", bright, _times(ctx, e, 1.596))
    green = ctx.emit("Sub", ctx.emit("Sub", bright, _times(ctx, d, 0.391)), _times(ctx, e, 0.813))
    blue = ctx.emit("Add", bright, _times(ctx, d, 2.018))
    made = _clipped(ctx, concat(ctx, [blue, green, red] if op.blue_first else [red, green, blue], 3))
    return ctx.cast(made if kind.is_real else ctx.emit("Round", made), kind)


def _brightness_and_differences(ctx: Context, op: Any, planes: Sequence[Value]) -> tuple[Value, Value, Value]:
    """Brightness and both colour differences, each ``[n, h, w, 1]``."""
    bright, *chroma = planes
    width = size_of(ctx, bright, 2)
    if chroma:
        height = size_of(ctx, bright, 1)
    else:
        height = divide(ctx, multiply(ctx, size_of(ctx, bright, 1), 2), 3)
        below = slice_along(ctx, bright, 1, height, _END)
        bright = slice_along(ctx, bright, 1, 0, height)
        if op.chroma == 2:
            chroma = [reshape(ctx, below, [0, 0, -1, 2])]
        else:
            shape = shape_list(ctx, [0, 2, -1, divide(ctx, width, 2)])
            below = ctx.emit("Reshape", below, shape)
            # [n, 2, h / 2, w / 2]: the plane's own dimension becomes that of its channel.
            chroma = [transpose(ctx, slice_along(ctx, below, 1, i, i + 1), [0, 2, 3, 1]) for i in range(2)]
    if op.chroma == 2:
        chroma = [slice_along(ctx, chroma[0], 3, i, i + 1) for i in range(2)]
    target = shape_list(ctx, [0, height, width, 1])
    spread = []
    for plane in chroma:
        # [n, h / 2, w / 2, 1] -> [n, h / 2, 2, w / 2, 2]
        four = ctx.emit("Expand", unsqueeze(ctx, plane, [2]), ctx.constant([1, 1, 2, 1, 2]))
        spread.append(ctx.emit("Reshape", four, target))
    return bright, spread[0], spread[1]


def _to_whole(ctx: Context, values: Value, kind: ElementType) -> Value:
    """Colours between 0 and 255, rounded in whole types, halves up."""
    clipped = _clipped(ctx, values)
    if kind.is_real:
        return clipped
    whole = ctx.emit("Floor", clipped)
    is_up = ctx.emit("GreaterOrEqual", ctx.emit("Sub", clipped, whole), ctx.like(0.5, clipped))
    return ctx.emit("Add", whole, ctx.cast(is_up, whole.element_type))


@ir_op(RGBtoNV12_17, BGRtoNV12_17, local_function=True)
def to_nv12(ctx: Context, op: Any, image: Value) -> list[Value]:
    """Sums of the colours times their weights, and the means of four pixels' colour differences"""
    kind, wide = image.element_type, _wide(ctx, image)
    found: Value | None = None
    for place, weights in enumerate(WEIGHTS.T):
        at = 2 - place if op.blue_first else place
        part = ctx.emit("Mul", slice_along(ctx, wide, 3, at, at + 1), ctx.like(weights, wide))
        found = part if found is None else ctx.emit("Add", found, part)
    assert found is not None
    planes = _to_whole(ctx, ctx.emit("Add", found, ctx.like(OFFSETS, wide)), kind)
    # In smaller types the planes are rounded before means are taken.
    planes = _wide(ctx, ctx.cast(planes, kind))
    bright = slice_along(ctx, planes, 3, 0, 1)
    total: Value | None = None
    for row in range(2):
        for column in range(2):
            starts, ends = ctx.constant([row, column, 1]), ctx.constant([_END, _END, 3])
            part = ctx.emit("Slice", planes, starts, ends, ctx.constant([1, 2, 3]), ctx.constant([2, 2, 1]))
            total = part if total is None else ctx.emit("Add", total, part)
    assert total is not None
    pairs = _to_whole(ctx, ctx.emit("Div", total, ctx.like(4, total)), kind)
    bright, pairs = ctx.cast(bright, kind), ctx.cast(pairs, kind)
    if not op.single_plane:
        return [bright, pairs]
    return [concat(ctx, [bright, reshape(ctx, pairs, [0, 0, -1, 1])], 1)]
