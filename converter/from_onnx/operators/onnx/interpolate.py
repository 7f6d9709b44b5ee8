"""ONNX's Resize and Upsample.

Where the IR's Interpolate computes the same, it is used, with dimensions or scales that may be computed at
execution. Everything else that Resize can do (a region of interest, ``exclude_outside``, antialiasing,
``keep_aspect_ratio_policy`` ...) is done one dimension at a time by a Gather or a product with a
matrix: a constant one where the dimensions are known, and else one that layers compute at execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from converter.from_onnx.operators.onnx.interpolate_request import MODES, NATIVE_COORDINATES, Request
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Array, Dimension, Output, element_types, normalize_axes
from ir_runtime.operations import elementwise, generation, interpolate, movement
from ir_runtime.records import record
from ir_runtime.rewriting import layers

_INTERPOLATED = (
    element_types.f32, element_types.f16, element_types.bf16, element_types.f64,
    element_types.i8, element_types.u8,
)  # fmt: skip


@record
class _Along:
    """One dimension to resize, where everything is known: its size and that of the output, scale and region."""

    axis: int
    size: int
    count: int
    scale: float
    start: float
    end: float


def _non_empty(value: Output | None) -> Output | None:
    """The input, or None where it is empty: exporters pass empty tensors for scales or sizes that they leave out."""
    return None if value is None or value.shape.element_count().high == 0 else value


def _without_scalar_scales(ctx: Context, x: Output, request: Request) -> Request:
    """The request without its scales where they are one number for several dimensions, and the sizes fit."""
    if request.scales is None or request.sizes is None or not x.shape.has_rank:
        return request
    rank = len(request.axes) or x.shape.rank
    expected = Dimension(rank, rank)
    scales, sizes = (value.shape.element_count() for value in (request.scales, request.sizes))
    if not scales.is_static or scales == expected or sizes != expected:
        return request
    ctx.tolerate(f"scales and sizes are both given, but only the sizes have a number for each of {expected} dimensions")
    return replace(request, scales=None)


def _resize(ctx: Context, x: Output, request: Request) -> Output:
    request = _without_scalar_scales(ctx, x, request)
    if (request.scales is None) == (request.sizes is None):
        raise ctx.invalid("needs either scales or sizes")
    target = request.scales if request.scales is not None else request.sizes
    assert target is not None
    count = target.shape.element_count()
    if not count.contains(len(request.axes)):
        raise ctx.invalid(f"{count} scales or sizes were given for {len(request.axes)} dimensions")
    if request.scales is not None:
        constant = request.scales.type.constant
        if constant is not None and not (constant > 0).all():
            raise ctx.invalid(f"scales must be positive, but are {constant.tolist()}")
    plan = _plan(ctx, x, request)
    if (
        plan is not None
        and all(along.size == along.count and along.scale == 1 for along in plan)
        and not request.is_cropped
    ):
        return x
    if _is_native(x, request, plan):
        return _interpolate(ctx, x, request, plan)
    if plan is None:
        return _at_execution(ctx, x, request)
    return _separately(ctx, x, request, plan)


def _at_execution(ctx: Context, x: Output, request: Request) -> Output:
    from converter.from_onnx.operators.onnx.interpolate_dynamic import resize_dynamic  # few models need it

    resized = range(len(request.axes)) if request.is_cropped else _resized(x, request, None)
    work = x if request.mode == "nearest" else _computable(ctx, x, request)
    return _back(ctx, resize_dynamic(ctx, work, request, resized, x.element_type), x, request)


# --- sizes, scales and regions that are constant ---


def _plan(ctx: Context, x: Output, request: Request) -> list[_Along] | None:
    """Sizes before and after, and scales, of every dimension to resize, where all of them are known."""
    if request.is_cropped:
        if request.roi is None:
            raise ctx.invalid("tf_crop_and_resize needs a region of interest")
        numbers = request.roi.shape.element_count()
        if not numbers.contains(2 * len(request.axes)):
            raise ctx.invalid(f"the region of interest has {numbers} numbers for {len(request.axes)} dimensions")
    dimensions = [x.shape[axis] for axis in request.axes]
    if not all(dimension.is_static for dimension in dimensions):
        return None
    sizes = [dimension.value for dimension in dimensions]
    starts, ends = [0.0] * len(sizes), [1.0] * len(sizes)
    if request.is_cropped and request.roi is not None:
        known_region = request.roi.type.constant
        if known_region is None:
            return None
        region = known_region.astype(np.float32).reshape(-1).tolist()
        starts, ends = region[: len(sizes)], region[len(sizes) :]
    if request.scales is not None:
        constant = request.scales.type.constant
        if constant is None:
            return None
        scales = constant.reshape(-1).astype(np.float32)
        # The specification multiplies the length of the region of interest; onnxruntime and onnx's evaluator do not.
        counts = np.floor(np.array(sizes, np.float32) * scales).astype(np.int64).tolist()
    else:
        assert request.sizes is not None
        size_values = request.sizes.type.constant
        if size_values is None:
            return None
        counts = size_values.reshape(-1).tolist()
        if min(counts, default=0) < 0:
            raise ctx.invalid(f"sizes must not be negative, but are {counts}")
        scales = (np.array(counts, np.float32) / np.maximum(np.array(sizes, np.float32), 1)).astype(np.float32)
        if request.keep_aspect_ratio_policy != "stretch":
            scale = scales.min() if request.keep_aspect_ratio_policy == "not_larger" else scales.max()
            scales = np.full(len(sizes), scale, np.float32)
            counts = [int(np.floor(np.float32(size) * scale + np.float32(0.5))) for size in sizes]
    if any(size == 0 and count > 0 for size, count in zip(sizes, counts)):
        raise ctx.invalid("an empty dimension cannot be resized to one that is not")
    rows = zip(request.axes, sizes, counts, scales.tolist(), starts, ends)
    return [_Along(*row) for row in rows]


def _is_native(x: Output, request: Request, plan: list[_Along] | None) -> bool:
    if request.coordinate_transformation_mode == "half_pixel_symmetric" and request.sizes is None:
        # Only scales that leave no fraction of an element make no difference to half_pixel.
        constant = None if request.scales is None else request.scales.type.constant
        if constant is None or (constant != np.floor(constant)).any():
            return False
    elif request.coordinate_transformation_mode not in (*NATIVE_COORDINATES, "half_pixel_symmetric"):
        return False
    if request.antialias and request.mode != "nearest":
        return False
    if request.keep_aspect_ratio_policy != "stretch" and request.sizes is not None:
        return False
    if request.mode == "cubic" and request.exclude_outside:
        return False
    if request.mode == "linear" and x.shape.rank > 5:
        return False
    if plan is not None and request.scales is not None:
        sizes = [interpolate.scaled_dimension(a.size, np.float32(a.scale)) for a in plan]
        if sizes != [a.count for a in plan]:
            return False
    if request.mode == "nearest" and x.element_type not in _INTERPOLATED:
        return plan is None and x.element_type is not element_types.string
    return True


def _resized(x: Output, request: Request, plan: list[_Along] | None) -> list[int]:
    """Indices into ``axes`` of the dimensions that may change."""
    if plan is not None:
        return [i for i, along in enumerate(plan) if along.size != along.count or along.scale != 1]
    if request.scales is not None:
        constant = request.scales.type.constant
        return [i for i in range(len(request.axes)) if constant is None or constant.reshape(-1)[i] != 1]
    assert request.sizes is not None
    bounds = request.sizes.type.known_bounds
    dimensions: list[Dimension] = [Dimension()] * len(request.axes)
    if bounds is not None and bounds.lower.size == len(request.axes):
        dimensions = bounds.dimensions()
    return [
        i
        for i, (size, axis) in enumerate(zip(dimensions, request.axes))
        if not (size.is_static and size == x.shape[axis]) and not _is_dimension_of(request.sizes, i, x, axis)
    ]


def _is_dimension_of(sizes: Output, index: int, x: Output, axis: int) -> bool:
    """True if element ``index`` of ``sizes`` is the dimension of ``x`` along ``axis``: such a dimension is not resized.

    Exporters concatenate the dimensions that stay with those that the node resizes.
    """
    while True:
        op, inputs = sizes.node.op, sizes.node.inputs
        if isinstance(op, (generation.ShapeOf1, generation.ShapeOf3)):
            return inputs[0] is x and index == axis
        if isinstance(op, movement.Concat1):
            for part in inputs:
                size = part.shape.element_count()
                if not size.is_static:
                    return False
                if index < size.value:
                    break
                index -= size.value
            else:
                return False
            sizes = part
            continue
        size = inputs[0].shape.element_count() if inputs else Dimension()
        rest = [source.type.constant for source in inputs[1:]]
        if not size.is_static or any(value is None for value in rest):
            return False
        if isinstance(op, elementwise.Convert1):
            sizes = inputs[0]
        elif op.movement:
            numbers = np.arange(size.value).reshape(inputs[0].shape.static())
            sources = op.evaluate(numbers, *[value for value in rest if value is not None])
            if isinstance(sources, tuple):
                return False
            sizes, index = inputs[0], int(sources.reshape(-1)[index])
        else:
            return False


# --- by the IR's Interpolate ---


def _interpolate(ctx: Context, x: Output, request: Request, plan: list[_Along] | None) -> Output:
    resized = _resized(x, request, plan)
    if not resized:
        return x
    by_scales = request.scales is not None
    if plan is not None:
        # Sizes give the same numbers as scales, and are plainer, wherever their quotient is the scale.
        exact = all(np.float32(a.count) / np.float32(a.size) == np.float32(a.scale) for a in plan)
        by_scales = by_scales and not exact
    y = _computable(ctx, x, request)
    target = _dimensions_or_scales(ctx, request, plan, resized, by_scales)
    y = ctx.emit(_layer(x, request, by_scales), y, target, ctx.constant([request.axes[i] for i in resized]))
    return _back(ctx, y, x, request)


def _dimensions_or_scales(
    ctx: Context, request: Request, plan: list[_Along] | None, chosen: list[int], by_scales: bool
) -> Output:
    if plan is not None and not by_scales:
        return ctx.constant([plan[i].count for i in chosen])
    target = request.scales if by_scales else request.sizes
    assert target is not None
    if len(chosen) < len(request.axes):
        target = layers.gather(ctx, target, ctx.constant(chosen), ctx.constant(0))
    if by_scales and target.element_type is not element_types.f32:
        target = ctx.emit(elementwise.Convert1(destination_type=element_types.f32), target)
    return target


def _layer(x: Output, request: Request, by_scales: bool) -> interpolate.Interpolate11:
    symmetric = request.coordinate_transformation_mode == "half_pixel_symmetric"
    return interpolate.Interpolate11(
        mode=MODES[request.mode],
        shape_calculation_mode="scales" if by_scales else "sizes",
        coordinate_transformation_mode="half_pixel" if symmetric else request.coordinate_transformation_mode,
        nearest_mode=request.nearest_mode,
        antialias=False,
        pads_begin=[0] * x.shape.rank,
        pads_end=[0] * x.shape.rank,
        cube_coeff=request.cubic_coeff_a,
    )


def _computable(ctx: Context, x: Output, request: Request) -> Output:
    """``x`` in a type whose values engines interpolate without rounding."""
    if request.mode == "nearest":
        if x.element_type in (*_INTERPOLATED, element_types.i32, element_types.i64):
            return x
        wide = element_types.i64 if x.element_type.bits >= 32 else element_types.i32
        return ctx.emit(elementwise.Convert1(destination_type=wide), x)
    if x.element_type in (element_types.f32, element_types.f64):
        return x
    return ctx.emit(elementwise.Convert1(destination_type=element_types.f32), x)


def _back(ctx: Context, y: Output, x: Output, request: Request) -> Output:
    """``y`` in the type of ``x``."""
    element_type = x.element_type
    if y.element_type is element_type:
        return y
    if element_type is element_types.boolean:
        return layers.not_equal(ctx, y, ctx.like(0, y))
    is_whole = not element_type.is_integral or request.mode == "nearest" or request.rounds_each_dimension(element_type)
    if not is_whole and request.rounds(element_type):
        y = request.round_off(ctx, y, element_type)
    return ctx.emit(elementwise.Convert1(destination_type=element_type), y)


# --- one dimension at a time ---


def _separately(ctx: Context, x: Output, request: Request, plan: list[_Along]) -> Output:
    from converter.from_onnx.operators.onnx.interpolate_dynamic import multiplied  # few models need it
    from ir_runtime.rewriting.expressions import Expression

    y = x if request.mode == "nearest" else _computable(ctx, x, request)
    outside: list[tuple[int, Array]] = []
    for along in sorted(plan, key=lambda along: -along.axis):
        places = _places(request, along)
        if request.is_cropped:
            beyond = (places < 0) | (places > along.size - 1)
            if beyond.any():
                outside.append((along.axis, beyond))
        elif along.size == along.count and along.scale == 1:
            continue
        if request.mode == "nearest":
            chosen = interpolate.nearest(request.nearest_mode, places, along.scale < 1)
            index = np.clip(chosen, 0, along.size - 1).astype(np.int64)
            y = layers.gather(ctx, y, ctx.constant(index), ctx.constant(along.axis))
        else:
            y = multiplied(Expression(ctx, y), _matrix(request, along, places), along.axis).value
            if request.rounds_each_dimension(x.element_type):
                y = request.round_off(ctx, y, x.element_type)
    for axis, beyond in outside:
        column = beyond.reshape([-1 if i == axis else 1 for i in range(y.shape.rank)])
        mask = ctx.constant(column, element_types.boolean)
        y = layers.select(ctx, mask, ctx.like(request.extrapolation_value, y), y)
    return _back(ctx, y, x, request)


def _places(request: Request, along: _Along) -> Array:
    """The input coordinate of each output position."""
    f = np.float32
    steps = np.arange(along.count, dtype=np.float32)
    if request.is_cropped:
        last = f(along.size - 1)
        if along.count == 1:
            return np.full(1, f(0.5) * (f(along.start) + f(along.end)) * last, np.float32)
        step = (f(along.end) - f(along.start)) * last / f(along.count - 1)
        return f(along.start) * last + steps * step
    if request.coordinate_transformation_mode == "half_pixel_symmetric":
        exact = f(along.size) * f(along.scale)
        adjustment = f(along.count) / exact if request.scales is not None else f(1)
        offset = f(along.size / 2) * (f(1) - adjustment)
        return offset + (steps + f(0.5)) / f(along.scale) - f(0.5)
    return interpolate.coordinates(request.coordinate_transformation_mode, along.size, along.count, f(along.scale))


def _matrix(request: Request, along: _Along, places: Array) -> Array:
    """``[out, in]``: the weight of each input position in each output position."""
    shrink = min(along.scale, 1.0) if request.antialias else 1.0
    reach = (1.0 if request.mode == "linear" else 2.0) / shrink
    low = np.floor(places).astype(np.int64)
    first = int(np.floor(-reach)) + 1
    offsets = np.arange(first, 2 - first)
    around = low[:, None] + offsets
    distance = shrink * np.abs((places.astype(np.float64) - low)[:, None] - offsets)
    if request.mode == "linear":
        weights = np.maximum(0, 1 - distance)
    else:
        weights = interpolate.cubic_kernel(distance, request.cubic_coeff_a)
    if request.exclude_outside:
        weights = np.where((around >= 0) & (around < along.size), weights, 0)
    total = weights.sum(1, keepdims=True)
    if request.antialias or request.exclude_outside:
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    matrix = np.zeros((along.count, along.size))
    rows = np.broadcast_to(np.arange(along.count)[:, None], around.shape)
    np.add.at(matrix, (rows, np.clip(around, 0, along.size - 1)), weights)
    return matrix


# --- the operators ---


@onnx_op("Resize", versions=(11, 13), without=("antialias", "axes", "keep_aspect_ratio_policy"))
@onnx_op("Resize", versions=(18, 19))
@attributes_of(Request, without=("scales", "sizes", "roi"))
def resize(
    ctx: Context,
    x: Output,
    roi: Output | None = None,
    scales: Output | None = None,
    sizes: Output | None = None,
    *,
    axes: Sequence[int] | None = None,
    **attributes: Any,
) -> Output:
    """``x`` resized along ``axes`` (by default all), by ``scales`` or to ``sizes``."""
    rank = ctx.rank(x, "the data")
    chosen = tuple(range(rank)) if axes is None else normalize_axes(axes, rank)
    scales, sizes, roi = (_non_empty(value) for value in (scales, sizes, roi))
    return _resize(ctx, x, Request(axes=chosen, scales=scales, sizes=sizes, roi=roi, **attributes))


_Mode = Literal["nearest", "linear", "bilinear", "trilinear", "cubic"]


def _scale(ctx: Context, x: Output, scales: Output, mode: Any) -> Output:
    """Resizing as the first versions define it: ``asymmetric``, and nearest rounds down where data grow."""
    mode = "linear" if mode in ("bilinear", "trilinear") else mode
    axes = tuple(range(ctx.rank(x, "the data")))
    return _resize(ctx, x, Request(mode, "asymmetric", "simple", axes=axes, scales=scales))


@onnx_op("Resize", versions=(10,))
@onnx_op("Upsample", versions=(9, 10))
def resize_by_scales(ctx: Context, x: Output, scales: Output, *, mode: _Mode = "nearest") -> Output:
    """``x`` resized along every dimension by ``scales``."""
    return _scale(ctx, x, scales, mode)


@onnx_op("Upsample", versions=(7,))
def upsample_by_attribute(ctx: Context, x: Output, *, scales: Sequence[float], mode: _Mode = "nearest") -> Output:
    """``x`` enlarged along every dimension."""
    return _scale(ctx, x, ctx.constant(scales, "f32"), mode)


@onnx_op("Upsample", versions=(1,))
def upsample_image(
    ctx: Context, x: Output, *, height_scale: float, width_scale: float, mode: _Mode = "nearest"
) -> Output:
    """Images ``[N, C, H, W]`` enlarged."""
    if ctx.rank(x, "the data") != 4:
        raise ctx.invalid(f"needs images of four dimensions, but got {x.shape}")
    return _scale(ctx, x, ctx.constant([1, 1, height_scale, width_scale], "f32"), mode)
