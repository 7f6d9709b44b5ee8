"""Resized data, and values interpolated at the positions of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, dimension, int64_list, list_of, product_along, rank_of, with_shape
from ir_runtime.graph import INFINITY, Dimension, ElementType, element_types
from ir_runtime.operations.grid_sample import GridSample9
from ir_runtime.operations.interpolate import Interpolate1, Interpolate4, Interpolate11, scaled_dimension

_MODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}


@ir_op(Interpolate4)
def interpolate_4(
    ctx: Context, op: Interpolate4, x: Value, sizes: Value, scales: Value, axes: Value | None = None
) -> Value:
    """Resize"""
    return _resized(ctx, op, x, sizes if op.shape_calculation_mode == "sizes" else scales, axes)


@ir_op(Interpolate11)
def interpolate_11(ctx: Context, op: Interpolate11, x: Value, given: Value, axes: Value | None = None) -> Value:
    """Resize; the filters of Pillow as products with their weights"""
    return _resized(ctx, op, x, given, axes)


@ir_op(Interpolate1)
def interpolate_1(ctx: Context, op: Interpolate1, x: Value, sizes: Value) -> Value:
    """Resize"""
    return _resized(ctx, op.as_revision_11(), x, sizes, ctx.constant(list(op.axes)))


def _resized(ctx: Context, op: Interpolate4 | Interpolate11, x: Value, target: Value, axes: Value | None) -> Value:
    rank = rank_of(ctx, x, "the data")
    chosen = list(range(rank)) if axes is None else list_of(ctx, axes, "the axes")
    chosen = [axis % rank for axis in chosen]
    begin, end = op.pads_of(op.pads_begin, rank), op.pads_of(op.pads_end, rank)
    if any([*begin, *end]):
        dims = [
            extent.value + first + last if extent.is_static else None
            for extent, first, last in zip(x.shape.dims, begin, end)
        ]
        x = with_shape(ctx.emit("Pad", x, ctx.constant([*begin, *end])), dims)
    if _is_matrix(op):
        return _by_products(ctx, op, x, target, chosen)
    if op.mode == "nearest" and op.nearest_mode == "simple" and ctx.opset >= 11:
        return _simple(ctx, op, x, target, chosen)
    return _resize(ctx, op, x, target, chosen, op.nearest_mode)


def _simple(ctx: Context, op: Interpolate4 | Interpolate11, x: Value, target: Value, axes: Sequence[int]) -> Value:
    """Places are rounded up along dimensions that shrink, and down along the others: one Resize for each."""
    constant, sizes = ctx.constant_values(target), [x.shape[axis] for axis in axes]
    in_sizes = op.shape_calculation_mode == "sizes"
    if constant is None or (in_sizes and not all(size.is_static for size in sizes)):
        unit = concat(ctx, [dimension(ctx, x, axis) for axis in axes], 0) if in_sizes else ctx.like(1, target)
        if in_sizes:
            target = int64_list(ctx, target)
        # A Resize by 1, or to the size of the data, moves nothing.
        grown = _resize(ctx, op, x, ctx.emit("Max", target, unit), axes, "floor")
        dims = [Dimension() if axis in axes else dim for axis, dim in enumerate(x.shape.dims)]
        last = target if in_sizes else ctx.emit("Min", target, unit)
        return _resize(ctx, op, with_shape(grown, dims), last, axes, "ceil")
    numbers = constant.reshape(-1)
    shrinks = [bool(number < (size.low if in_sizes else 1)) for number, size in zip(numbers, sizes)]
    for rounding, is_smaller in (("ceil", True), ("floor", False)):
        chosen = [index for index, shrink in enumerate(shrinks) if shrink is is_smaller]
        if not chosen:
            continue
        part, part_axes = numbers[chosen], [axes[index] for index in chosen]
        part_resized = _resize(ctx, op, x, ctx.constant(part, target.element_type), part_axes, rounding)
        dims = list(x.shape.dims)
        for axis, number in zip(part_axes, part):
            if in_sizes:
                dims[axis] = Dimension(int(number), int(number))
            else:
                dims[axis] = scaled(dims[axis], np.float32(number))
        x = with_shape(part_resized, dims)
    return x


def _resize(
    ctx: Context, op: Interpolate4 | Interpolate11, x: Value, target: Value, chosen: Sequence[int], rounding: str
) -> Value:
    rank = x.shape.rank
    attributes: dict[str, Any] = {
        "mode": _MODES[op.mode],
        "coordinate_transformation_mode": op.coordinate_transformation_mode,
        "cubic_coeff_a": op.cube_coeff if op.mode == "cubic" else None,
        "nearest_mode": rounding if op.mode == "nearest" else None,
    }
    element_type = x.element_type
    if op.mode != "nearest" and not element_type.is_real:
        x = ctx.cast(x, element_types.f32)
    if op.shape_calculation_mode == "scales" and op.coordinate_transformation_mode == "align_corners":
        # ONNX's corners are those of a product with the scale, which need not be whole; the IR's are the data's.
        op, target = op.with_attributes(shape_calculation_mode="sizes"), _counts(ctx, x, target, chosen)
    if op.shape_calculation_mode == "sizes":
        resized = ctx.emit("Resize", x, None, None, _full(ctx, x, target, chosen, rank, scales=False), **attributes)
    else:
        resized = ctx.emit("Resize", x, None, _full(ctx, x, target, chosen, rank, scales=True), **attributes)
    if resized.element_type is element_type:
        return resized
    return ctx.cast(_rounded(ctx, resized, element_type), element_type)


def scaled(dimension: Dimension, scale: np.float32) -> Dimension:
    """A dimension times a scale, rounded down."""
    high = INFINITY if dimension.high == INFINITY else scaled_dimension(dimension.high, scale)
    return Dimension(scaled_dimension(dimension.low, scale), high)


def _counts(ctx: Context, x: Value, scales: Value, axes: Sequence[int]) -> Value:
    """The dimensions that scales give, rounded down."""
    sizes = concat(ctx, [ctx.cast(dimension(ctx, x, axis), element_types.f32) for axis in axes], 0)
    product = ctx.emit("Mul", sizes, ctx.cast(scales, element_types.f32))
    return ctx.cast(ctx.emit("Floor", ctx.emit("Add", product, ctx.constant(1e-5))), element_types.i64)


def _full(ctx: Context, x: Value, target: Value, axes: Sequence[int], rank: int, *, scales: bool) -> Value:
    """Sizes or scales of all dimensions."""
    constant = ctx.constant_values(target)
    if constant is not None and (scales or all(x.shape[i].is_static for i in range(rank) if i not in axes)):
        numbers = [1.0 if scales else float(x.shape[i].low) for i in range(rank)]
        for axis, number in zip(axes, constant.reshape(-1).tolist()):
            numbers[axis] = number
        return ctx.constant(np.array(numbers, np.float32) if scales else [int(number) for number in numbers])
    values = ctx.cast(target, element_types.f32) if scales else int64_list(ctx, target)
    if list(axes) == list(range(rank)):
        return values
    parts = []
    for axis in range(rank):
        if axis in axes:
            parts.append(ctx.emit("Gather", values, ctx.constant([list(axes).index(axis)]), axis=0))
        else:
            parts.append(ctx.constant(np.array([1], np.float32)) if scales else dimension(ctx, x, axis))
    return concat(ctx, parts, 0)


def _is_matrix(op: Interpolate4 | Interpolate11) -> bool:
    """True if ONNX's Resize has no such mode, so that each axis is a product with the weights."""
    return (
        op.mode.endswith("_pillow")
        or (op.mode == "linear" and op.antialias)
        or op.coordinate_transformation_mode == "tf_half_pixel_for_nn"
    )


def _by_products(ctx: Context, op: Interpolate4 | Interpolate11, x: Value, target: Value, axes: Sequence[int]) -> Value:
    """Along each axis the product with the weights of each element in each place of the output."""
    constant = ctx.constant_values(target)
    if constant is None or not all(x.shape[axis].is_static for axis in axes):
        ctx.fail(f"the mode {op.mode} in ONNX needs known dimensions before and after")
    element_type, rank = x.element_type, x.shape.rank
    work = x if element_type in (element_types.f32, element_types.f64) else ctx.cast(x, element_types.f32)
    rounds_each = op.mode.endswith("_pillow") and not element_type.is_real
    for axis, number in sorted(zip(axes, constant.reshape(-1).tolist()), reverse=rounds_each):
        size = x.shape[axis].value
        if op.shape_calculation_mode == "sizes":
            count, scale = int(number), np.float32(np.float32(number) / np.float32(size))
        else:
            count, scale = scaled_dimension(size, np.float32(number)), np.float32(number)
        if count == size and (scale == 1 or op.shape_calculation_mode == "sizes"):
            continue
        weights = op.taps(size, count, scale).apply(np.eye(size), 0)
        work = product_along(ctx, work, axis, rank, ctx.like(weights.T, work))
        if rounds_each:
            work = _rounded(ctx, work, element_type)
    return work if element_type.is_real else _rounded(ctx, work, element_type)


def _rounded(ctx: Context, x: Value, element_type: ElementType) -> Value:
    """The nearest whole numbers that ``element_type`` has, still as floats."""
    low, high = (ctx.like(limit, x) for limit in element_type.limits)
    return ctx.emit("Clip", ctx.emit("Round", x), low, high)


_MODES_SINCE_20 = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
"""Modes of the IR -> names that opset 20 gave them in ONNX; before it, both are the same."""


@ir_op(GridSample9)
def grid_sample(ctx: Context, op: GridSample9, x: Value, grid: Value) -> Value:
    """GridSample (opset 16)"""
    mode = _MODES_SINCE_20[op.mode] if ctx.opset >= 20 else op.mode
    positions = ctx.cast(grid, x.element_type) if x.element_type.is_real else grid
    return ctx.emit(
        "GridSample", x, positions, mode=mode, padding_mode=op.padding_mode, align_corners=int(op.align_corners)
    )
