"""ONNX's Resize and Upsample.

Where the IR's Interpolate computes the same, it is used, with dimensions or scales that may be computed at
execution. Everything else that Resize can do (a region of interest, ``exclude_outside``, antialiasing,
``keep_aspect_ratio_policy`` ...) is done one dimension at a time by a Gather (nearest), or a product with a matrix of
how much every output position takes of every input position: a constant one where the dimensions are known, and else
one that layers compute at execution. Beyond its ends the data repeat their outermost element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Array, Dimension, ElementType, Output, element_types, normalize_axes
from ir_runtime.operations import activation, elementwise, generation, interpolate, movement, padding
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, Operand, where
from ir_runtime.rewriting.shape_layers import shape_of

MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
"""ONNX's modes, and Interpolate's names for them."""
NATIVE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
"""The coordinate transformations that Interpolate has, too."""


@record
class Request:
    """The attributes and inputs; ``scales`` or ``sizes`` (the other is None) and ``roi`` have entries for all ``axes``.

    A region of interest holds the starts of all axes, and then their ends. ``keep_aspect_ratio_policy`` goes with
    ``sizes`` alone.
    """

    mode: Literal["nearest", "linear", "cubic"] = "nearest"
    coordinate_transformation_mode: Literal[
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
        "tf_crop_and_resize", "half_pixel_symmetric",
    ] = "half_pixel"  # fmt: skip
    nearest_mode: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"] = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    antialias: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch"
    axes: tuple[int, ...] = ()
    scales: Output | None = None
    sizes: Output | None = None
    roi: Output | None = None

    @property
    def is_cropped(self) -> bool:
        """True if a region of interest is resized, and not all of the data."""
        return self.coordinate_transformation_mode == "tf_crop_and_resize"

    def rounds_each_dimension(self, element_type: ElementType) -> bool:
        """Return whether integers of this type are rounded after each dimension, from the last to the first.

        ONNX says nothing on it. onnxruntime's antialiasing does so; its int8 is left out, which it clips like uint8.
        """
        return bool(self.antialias) and element_type in (element_types.u8, element_types.i32)

    def rounds(self, element_type: ElementType) -> bool:
        """Return whether integers of this type are rounded, as onnx's evaluator does.

        onnxruntime drops their fractions where it interpolates linearly, in each type for which it has a kernel.
        """
        is_truncated = self.mode == "linear" and not self.antialias
        return not is_truncated or element_type not in (element_types.u8, element_types.i8, element_types.i32)

    def round_off(self, ctx: Context, y: Output, element_type: ElementType) -> Output:
        """Return ``y`` rounded to integers of the type, still as floats."""
        halves = "half_away_from_zero" if self.rounds_each_dimension(element_type) else "half_to_even"
        y = ctx.emit(elementwise.Round5(mode=halves), y)
        if self.mode != "cubic" or element_type.bits > 16:  # f32 does not represent the limits of wider types
            return y
        low, high = element_type.limits
        return ctx.emit(activation.Clamp1(min=low, max=high), y)


@record
class _Axis:
    """One dimension: its number, and float32 scalars but for ``count``."""

    axis: int
    dimension: Expression
    count: Expression
    scale: Expression
    start: Expression
    end: Expression
    exact: Expression
    """The output's dimension before it was rounded to a whole number."""


def resize_dynamic(
    ctx: Context, x: Output, request: Request, resized: Sequence[int], element_type: ElementType
) -> Output:
    """The layers that resize ``x`` (of a float type unless ``mode`` is nearest).

    ``resized`` are the indices into the request's ``axes`` of the dimensions that may change, ``element_type`` is that
    of the node's data.
    """
    y = Expression(ctx, x)
    masks: list[Expression] = []
    for axis in sorted(_axes(ctx, x, request, resized), key=lambda axis: -axis.axis):
        places = _dynamic_places(axis, request.coordinate_transformation_mode)
        if request.is_cropped:
            outside = (places < 0) | ((axis.dimension - 1) < places)
            masks.append(outside.reshape(*(-1 if i == axis.axis else 1 for i in range(y.rank))))
        if request.mode == "nearest":
            y = _nearest(y, axis, places, request)
            continue
        y = _apply_weights(y, axis, places, request)
        if request.rounds_each_dimension(element_type):
            y = Expression(ctx, request.round_off(ctx, y.value, element_type))
    for mask in masks:
        y = where(mask, y.of(request.extrapolation_value), y)
    return y.value


def _axes(ctx: Context, x: Output, request: Request, resized: Sequence[int]) -> list[_Axis]:
    def real(value: Output) -> Expression:
        return Expression(ctx, value).as_type("f32")

    count = len(request.axes)
    dimensions = Expression(ctx, shape_of(ctx, x)).gather(request.axes).as_type("f32")
    starts, ends = dimensions.of(np.zeros(count)), dimensions.of(np.ones(count))
    if request.roi is not None and request.is_cropped:
        region = real(request.roi)
        starts, ends = region.gather(range(count)), region.gather(range(count, 2 * count))
    if request.scales is not None:
        scales = real(request.scales)
        exact = dimensions * scales  # without the region of interest, as onnxruntime
        counts = exact.floor().as_type("i64")
    else:
        assert request.sizes is not None
        counts, exact = Expression(ctx, request.sizes).as_type("i64"), real(request.sizes)
        scales = exact / dimensions
        if request.keep_aspect_ratio_policy != "stretch":
            reduce = scales.min if request.keep_aspect_ratio_policy == "not_larger" else scales.max
            scales = scales.of(np.ones(count)) * reduce(0, keep_dims=True)
            counts = (dimensions * scales + 0.5).floor().as_type("i64")
    lists = (dimensions, counts, scales, starts, ends, exact)
    return [_Axis(request.axes[i], *[values.gather(i) for values in lists]) for i in resized]


def _numbers(start: Expression, stop: Expression) -> Expression:
    """The whole numbers from start up to, but without, stop, in float32."""
    return start.emit(generation.Range4(output_type=element_types.i64), stop, start.of(1)).as_type("f32")


def _dynamic_places(axis: _Axis, mode: str) -> Expression:
    """The input coordinate of each output position."""
    steps = _numbers(axis.count.of(0), axis.count)
    count = axis.count.as_type("f32")
    if mode == "asymmetric":
        return steps / axis.scale
    if mode == "align_corners":
        return steps * (axis.dimension - 1) / (count - 1).maximum(1)
    if mode == "tf_crop_and_resize":
        last = axis.dimension - 1
        step = (axis.end - axis.start) * last / (count - 1).maximum(1)
        several = axis.start * last + steps * step
        middle = (axis.start + axis.end) * 0.5 * last
        return where(count > 1, several, middle)
    centres = (steps + 0.5) / axis.scale
    if mode == "tf_half_pixel_for_nn":
        return centres
    places = centres - 0.5
    if mode == "pytorch_half_pixel":
        return where(count > 1, places, 0)
    if mode == "half_pixel_symmetric":
        return places + axis.dimension * 0.5 * (1 - count / axis.exact)
    return places


def _nearest(y: Expression, axis: _Axis, places: Expression, request: Request) -> Expression:
    if request.nearest_mode == "simple":
        chosen = where(axis.scale < 1, places.ceil(), places.floor())
    elif request.nearest_mode == "floor":
        chosen = places.floor()
    elif request.nearest_mode == "ceil":
        chosen = places.ceil()
    elif request.nearest_mode == "round_prefer_ceil":
        chosen = (places + 0.5).floor()
    else:
        chosen = (places - 0.5).ceil()
    return y.gather(chosen.maximum(0).minimum(axis.dimension - 1).as_type("i64"), axis.axis)


def _apply_weights(y: Expression, axis: _Axis, places: Expression, request: Request) -> Expression:
    shrink = axis.scale.minimum(1) if request.antialias else axis.scale.of(1)
    margin = axis.count.of(0)
    if not request.exclude_outside:
        margin = ((1.0 if request.mode == "linear" else 2.0) / shrink).ceil().as_type("i64")
    inputs = _numbers(0 - margin, axis.dimension.as_type("i64") + margin)
    weights = _kernel(abs(places.unsqueeze(1) - inputs) * shrink, request)
    if request.antialias or request.exclude_outside:
        weights = weights / weights.sum(1, keep_dims=True)
    if not request.exclude_outside:
        pads = margin.of(np.eye(y.rank, dtype=np.int64)[axis.axis]) * margin
        y = y.emit(padding.Pad12(pad_mode="edge"), pads, pads)
    return multiplied(y, weights.as_type(y.element_type), axis.axis)


def _kernel(distance: Expression, request: Request) -> Expression:
    if request.mode == "linear":
        return (1 - distance).relu()
    a = request.cubic_coeff_a
    square = distance * distance
    near = (distance * (a + 2) - (a + 3)) * square + 1
    far = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
    return where(distance > 1, where(distance < 2, far, 0), near)


def multiplied(y: Expression, weights: Operand, axis: int) -> Expression:
    """The matrix ``[out, in]`` applied to dimension ``axis``."""
    weights = y.of(weights)
    if axis == y.rank - 1:
        return y.matmul(weights, transpose_b=True)
    if axis == y.rank - 2:
        return weights.matmul(y)
    order = [i for i in range(y.rank) if i != axis] + [axis]
    return y.transpose(*order).matmul(weights, transpose_b=True).transpose(*np.argsort(order))


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
    ctx.rank(x, "the data", 4)
    return _scale(ctx, x, ctx.constant([1, 1, height_scale, width_scale], "f32"), mode)
