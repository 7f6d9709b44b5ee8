"""ONNX's Resize and Upsample.

Where the IR's Interpolate says the same, it is used, with extents or scales that may be computed at
execution. Everything else that Resize can do (a region of interest, ``exclude_outside``, antialiasing,
``keep_aspect_ratio_policy`` ...) is done one dimension at a time by a Gather or a product with a
matrix: a constant one where the extents are known, and else one that layers work out at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from converter.lowering import layers
from converter.operators.onnx.interpolate_dynamic import Wanted, multiplied, resize_dynamic
from converter.translation.context import Context
from converter.translation.registry import onnx_op
from ir_runtime import element_types
from ir_runtime.element_types import Array
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, generation, indexing, interpolate, movement
from ir_runtime.shapes import Dimension, normalize_axes

_MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
_NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_SAID_BY_THE_IR = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
_COORDINATES = (*_SAID_BY_THE_IR, "tf_crop_and_resize", "half_pixel_symmetric")
_INTERPOLATED = (
    element_types.f32, element_types.f16, element_types.bf16, element_types.f64,
    element_types.i8, element_types.u8,
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a node asks for; all lists have an entry for each of ``axes``."""

    mode: str
    places: str
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0
    policy: str = "stretch"
    axes: tuple[int, ...] = ()
    scales: Output | None = None
    sizes: Output | None = None
    roi: Output | None = None

    def check(self, ctx: Context) -> None:
        for name, value, known in (
            ("mode", self.mode, tuple(_MODES)),
            ("coordinate_transformation_mode", self.places, _COORDINATES),
            ("nearest_mode", self.nearest_mode, (*_NEAREST_MODES, "simple")),
            ("keep_aspect_ratio_policy", self.policy, _POLICIES),
        ):
            if value not in known:
                raise ctx.invalid(f"{name} must be one of {', '.join(known)}, but is '{value}'")


@dataclass(frozen=True)
class _Along:
    """One dimension to resize, all of it known."""

    axis: int
    extent: int
    count: int
    scale: float
    start: float
    end: float


def _given(value: Output | None) -> Output | None:
    """An input that counts: exporters pass empty tensors for scales or sizes they leave out."""
    return None if value is None or value.shape.element_count().high == 0 else value


def _without_scalar_scales(ctx: Context, x: Output, request: Request) -> Request:
    """Without scales that cannot be meant, because sizes fit and they do not: one number for several dimensions."""
    if request.scales is None or request.sizes is None or not x.shape.has_rank:
        return request
    rank = len(request.axes) or x.shape.rank
    wanted = Dimension(rank, rank)
    scales, sizes = (value.shape.element_count() for value in (request.scales, request.sizes))
    if not scales.is_static or scales == wanted or sizes != wanted:
        return request
    ctx.tolerate(f"scales and sizes are both given, but only the sizes have a number for each of {wanted} dimensions")
    return replace(request, scales=None)


def _resize(ctx: Context, x: Output, request: Request) -> Output:
    request.check(ctx)
    request = _without_scalar_scales(ctx, x, request)
    if (request.scales is None) == (request.sizes is None):
        raise ctx.invalid("needs either scales or sizes")
    given = request.scales if request.scales is not None else request.sizes
    assert given is not None
    count = given.shape.element_count()
    if not count.contains(len(request.axes)):
        raise ctx.invalid(f"{count} scales or sizes were given for {len(request.axes)} dimensions")
    if request.scales is not None:
        known = request.scales.type.constant
        if known is not None and not (known > 0).all():
            raise ctx.invalid(f"scales must be positive, but are {known.tolist()}")
    plan = _plan(ctx, x, request)
    if (
        plan is not None
        and all(along.extent == along.count and along.scale == 1 for along in plan)
        and (request.places != "tf_crop_and_resize")
    ):
        return x
    if _is_said_by_the_ir(x, request, plan):
        return _interpolated(ctx, x, request, plan)
    if plan is None:
        return _at_execution(ctx, x, request)
    return _separately(ctx, x, request, plan)


def _at_execution(ctx: Context, x: Output, request: Request) -> Output:
    cropped = request.places == "tf_crop_and_resize"
    moving = range(len(request.axes)) if cropped else _moving(x, request, None)
    wanted = Wanted(
        request.mode,
        request.places,
        request.nearest_mode,
        request.cubic_coeff,
        request.exclude_outside,
        request.antialias,
        request.extrapolation,
        request.policy if request.sizes is not None else "stretch",
        request.axes,
        tuple(moving),
        request.scales,
        request.sizes,
        request.roi,
    )
    work = x if request.mode == "nearest" else _computable(ctx, x, request)
    return _back(ctx, resize_dynamic(ctx, work, wanted), x)


# --- what is known ---


def _plan(ctx: Context, x: Output, request: Request) -> list[_Along] | None:
    """Extents, counts and scales of every dimension to resize, where all of them are known."""
    if request.places == "tf_crop_and_resize":
        if request.roi is None:
            raise ctx.invalid("tf_crop_and_resize needs a region of interest")
        numbers = request.roi.shape.element_count()
        if not numbers.contains(2 * len(request.axes)):
            raise ctx.invalid(f"the region of interest has {numbers} numbers for {len(request.axes)} dimensions")
    extents = [x.shape[axis] for axis in request.axes]
    if not all(extent.is_static for extent in extents):
        return None
    sizes = [extent.value for extent in extents]
    starts, ends = [0.0] * len(sizes), [1.0] * len(sizes)
    if request.places == "tf_crop_and_resize" and request.roi is not None:
        known_region = request.roi.type.constant
        if known_region is None:
            return None
        region = known_region.astype(np.float32).reshape(-1).tolist()
        starts, ends = region[: len(sizes)], region[len(sizes) :]
    if request.scales is not None:
        known = request.scales.type.constant
        if known is None:
            return None
        scales = known.reshape(-1).astype(np.float32)
        widths = np.array(sizes, np.float32) * (np.array(ends, np.float32) - np.array(starts, np.float32))
        counts = np.floor(widths * scales).astype(np.int64).tolist()
    else:
        assert request.sizes is not None
        wanted = request.sizes.type.constant
        if wanted is None:
            return None
        counts = wanted.reshape(-1).tolist()
        if min(counts, default=0) < 0:
            raise ctx.invalid(f"sizes must not be negative, but are {counts}")
        scales = (np.array(counts, np.float32) / np.maximum(np.array(sizes, np.float32), 1)).astype(np.float32)
        if request.policy != "stretch":
            scale = scales.min() if request.policy == "not_larger" else scales.max()
            scales = np.full(len(sizes), scale, np.float32)
            counts = [int(np.floor(np.float32(size) * scale + np.float32(0.5))) for size in sizes]
    if any(size == 0 and count > 0 for size, count in zip(sizes, counts)):
        raise ctx.invalid("an empty dimension cannot be resized to one that is not")
    rows = zip(request.axes, sizes, counts, scales.tolist(), starts, ends)
    return [_Along(*row) for row in rows]


def _is_said_by_the_ir(x: Output, request: Request, plan: list[_Along] | None) -> bool:
    if request.places == "half_pixel_symmetric" and request.sizes is None:
        # Only scales that leave no fraction of an element make no difference to half_pixel.
        known = None if request.scales is None else request.scales.type.constant
        if known is None or (known != np.floor(known)).any():
            return False
    elif request.places not in (*_SAID_BY_THE_IR, "half_pixel_symmetric"):
        return False
    if request.antialias and request.mode != "nearest":
        return False
    if request.policy != "stretch" and request.sizes is not None:
        return False
    if request.mode == "cubic" and request.exclude_outside:
        return False
    if request.mode == "linear" and x.shape.rank > 5:
        return False
    if plan is not None and request.scales is not None:
        extents = [interpolate.scaled_extent(a.extent, np.float32(a.scale)) for a in plan]
        if extents != [a.count for a in plan]:
            return False
    if request.mode == "nearest" and x.element_type not in _INTERPOLATED:
        return plan is None and x.element_type is not element_types.string
    return True


def _moving(x: Output, request: Request, plan: list[_Along] | None) -> list[int]:
    """Indices into ``axes`` of the dimensions that may change."""
    if plan is not None:
        return [i for i, along in enumerate(plan) if along.extent != along.count or along.scale != 1]
    if request.scales is not None:
        known = request.scales.type.constant
        return [i for i in range(len(request.axes)) if known is None or known.reshape(-1)[i] != 1]
    assert request.sizes is not None
    bounds = request.sizes.type.known_bounds
    wanted: list[Dimension] = [Dimension()] * len(request.axes)
    if bounds is not None and bounds.lower.size == len(request.axes):
        wanted = bounds.dimensions()
    return [
        i
        for i, (extent, axis) in enumerate(zip(wanted, request.axes))
        if not (extent.is_static and extent == x.shape[axis]) and not _is_extent_of(request.sizes, i, x, axis)
    ]


def _is_extent_of(sizes: Output, index: int, x: Output, axis: int) -> bool:
    """Whether element ``index`` of ``sizes`` is the extent of ``x`` along ``axis``, moved but not changed.

    Exporters put the extents that stay as they are in front of those that a resizing is about.
    """
    while True:
        op, inputs = sizes.node.op, sizes.node.inputs
        if isinstance(op, (generation.ShapeOf1, generation.ShapeOf3)):
            return inputs[0] is x and index == axis
        if isinstance(op, movement.Concat1):
            for part in inputs:
                extent = part.shape.element_count()
                if not extent.is_static:
                    return False
                if index < extent.value:
                    break
                index -= extent.value
            else:
                return False
            sizes = part
            continue
        extent = inputs[0].shape.element_count() if inputs else Dimension()
        rest = [source.type.constant for source in inputs[1:]]
        if not extent.is_static or any(value is None for value in rest):
            return False
        if isinstance(op, elementwise.Convert1):
            sizes = inputs[0]
        elif op.movement or isinstance(op, (indexing.Gather8, movement.Reshape1)):
            numbers = np.arange(extent.value).reshape(inputs[0].shape.static())
            moved = op.evaluate(numbers, *[value for value in rest if value is not None])
            if isinstance(moved, tuple):
                return False
            sizes, index = inputs[0], int(moved.reshape(-1)[index])
        else:
            return False


# --- by the IR's Interpolate ---


def _interpolated(ctx: Context, x: Output, request: Request, plan: list[_Along] | None) -> Output:
    moving = _moving(x, request, plan)
    if not moving:
        return x
    by_scales = request.scales is not None
    if plan is not None:
        # Extents say the same as scales, and more plainly, wherever their quotient is the scale.
        exact = all(np.float32(a.count) / np.float32(a.extent) == np.float32(a.scale) for a in plan)
        by_scales = by_scales and not exact
    y = _computable(ctx, x, request)
    given = _extents_or_scales(ctx, request, plan, moving, by_scales)
    y = ctx.emit(_layer(x, request, by_scales), y, given, ctx.constant([request.axes[i] for i in moving]))
    return _back(ctx, y, x)


def _extents_or_scales(
    ctx: Context, request: Request, plan: list[_Along] | None, chosen: list[int], by_scales: bool
) -> Output:
    if plan is not None and not by_scales:
        return ctx.constant([plan[i].count for i in chosen])
    given = request.scales if by_scales else request.sizes
    assert given is not None
    if len(chosen) < len(request.axes):
        given = layers.gather(ctx, given, ctx.constant(chosen), ctx.constant(0))
    if by_scales and given.element_type is not element_types.f32:
        given = ctx.emit(elementwise.Convert1(destination_type=element_types.f32), given)
    return given


def _layer(x: Output, request: Request, by_scales: bool) -> interpolate.Interpolate11:
    symmetric = request.places == "half_pixel_symmetric"
    return interpolate.Interpolate11(
        mode=_MODES[request.mode],
        shape_calculation_mode="scales" if by_scales else "sizes",
        coordinate_transformation_mode="half_pixel" if symmetric else request.places,
        nearest_mode=request.nearest_mode,
        antialias=False,
        pads_begin=[0] * x.shape.rank,
        pads_end=[0] * x.shape.rank,
        cube_coeff=request.cubic_coeff,
    )


def _computable(ctx: Context, x: Output, request: Request) -> Output:
    """``x`` in a type that engines interpolate without rounding."""
    if request.mode == "nearest":
        if x.element_type in (*_INTERPOLATED, element_types.i32, element_types.i64):
            return x
        wide = element_types.i64 if x.element_type.bits >= 32 else element_types.i32
        return ctx.emit(elementwise.Convert1(destination_type=wide), x)
    if x.element_type in (element_types.f32, element_types.f64):
        return x
    return ctx.emit(elementwise.Convert1(destination_type=element_types.f32), x)


def _back(ctx: Context, y: Output, x: Output) -> Output:
    """``y`` in the type of ``x``; integers lose their fractions."""
    if y.element_type is x.element_type:
        return y
    if x.element_type is element_types.boolean:
        return layers.not_equal(ctx, y, ctx.like(0, y))
    return ctx.emit(elementwise.Convert1(destination_type=x.element_type), y)


# --- one dimension at a time ---


def _separately(ctx: Context, x: Output, request: Request, plan: list[_Along]) -> Output:
    y = x if request.mode == "nearest" else _computable(ctx, x, request)
    outside: list[tuple[int, Array]] = []
    for along in plan:
        cropped = request.places == "tf_crop_and_resize"
        places = _places(request, along)
        if cropped:
            beyond = (places < 0) | (places > along.extent - 1)
            if beyond.any():
                outside.append((along.axis, beyond))
        elif along.extent == along.count and along.scale == 1:
            continue
        if request.mode == "nearest":
            chosen = interpolate.nearest(request.nearest_mode, places, along.scale < 1)
            index = np.clip(chosen, 0, along.extent - 1).astype(np.int64)
            y = layers.gather(ctx, y, ctx.constant(index), ctx.constant(along.axis))
        else:
            weights = ctx.constant(_matrix(request, along, places), y.element_type)
            y = multiplied(ctx, y, weights, along.axis)
    for axis, beyond in outside:
        column = beyond.reshape([-1 if i == axis else 1 for i in range(y.shape.rank)])
        mask = ctx.constant(column, element_types.boolean)
        y = layers.select(ctx, mask, ctx.like(request.extrapolation, y), y)
    return _back(ctx, y, x)


def _places(request: Request, along: _Along) -> Array:
    """Where each output position lies between the input's."""
    f = np.float32
    steps = np.arange(along.count, dtype=np.float32)
    if request.places == "tf_crop_and_resize":
        last = f(along.extent - 1)
        if along.count == 1:
            return np.full(1, f(0.5) * (f(along.start) + f(along.end)) * last, np.float32)
        step = (f(along.end) - f(along.start)) * last / f(along.count - 1)
        return f(along.start) * last + steps * step
    if request.places == "half_pixel_symmetric":
        exact = f(along.extent) * f(along.scale)
        adjustment = f(along.count) / exact if request.scales is not None else f(1)
        offset = f(along.extent / 2) * (f(1) - adjustment)
        return offset + (steps + f(0.5)) / f(along.scale) - f(0.5)
    return interpolate.coordinates(request.places, along.extent, along.count, f(along.scale))


def _matrix(request: Request, along: _Along, places: Array) -> Array:
    """``[out, in]``: what each output position takes of each input position."""
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
        weights = interpolate.cubic_kernel(distance, request.cubic_coeff)
    if request.exclude_outside:
        weights = np.where((around >= 0) & (around < along.extent), weights, 0)
    total = weights.sum(1, keepdims=True)
    if request.antialias or request.exclude_outside:
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    matrix = np.zeros((along.count, along.extent))
    rows = np.broadcast_to(np.arange(along.count)[:, None], around.shape)
    np.add.at(matrix, (rows, np.clip(around, 0, along.extent - 1)), weights)
    return matrix


# --- the operators ---


@onnx_op("Resize", versions=(11, 13))
def resize(
    ctx: Context,
    x: Output,
    roi: Output | None = None,
    scales: Output | None = None,
    sizes: Output | None = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Output:
    """``x`` resized along every dimension, by ``scales`` or to ``sizes``."""
    return resize_along(
        ctx,
        x,
        roi,
        scales,
        sizes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        mode=mode,
        nearest_mode=nearest_mode,
    )


@onnx_op("Resize", versions=(18, 19))
def resize_along(
    ctx: Context,
    x: Output,
    roi: Output | None = None,
    scales: Output | None = None,
    sizes: Output | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Output:
    """``x`` resized along ``axes``, by ``scales`` or to ``sizes``."""
    rank = ctx.rank(x, "the data")
    chosen = tuple(range(rank)) if axes is None else normalize_axes(axes, rank)
    request = Request(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
        keep_aspect_ratio_policy,
        chosen,
        _given(scales),
        _given(sizes),
        _given(roi),
    )
    return _resize(ctx, x, request)


def _scaled(ctx: Context, x: Output, scales: Output, mode: str) -> Output:
    """The earliest meaning: positions count from the first element; nearest rounds down where data grow."""
    mode = "linear" if mode in ("bilinear", "trilinear") else mode
    axes = tuple(range(ctx.rank(x, "the data")))
    return _resize(ctx, x, Request(mode, "asymmetric", "simple", axes=axes, scales=scales))


@onnx_op("Resize", versions=(10,))
@onnx_op("Upsample", versions=(9, 10))
def resize_by_scales(ctx: Context, x: Output, scales: Output, *, mode: str = "nearest") -> Output:
    """``x`` resized along every dimension by ``scales``."""
    return _scaled(ctx, x, scales, mode)


@onnx_op("Upsample", versions=(7,))
def upsample_by_attribute(ctx: Context, x: Output, *, scales: Sequence[float], mode: str = "nearest") -> Output:
    """``x`` enlarged along every dimension."""
    return _scaled(ctx, x, ctx.constant(scales, "f32"), mode)


@onnx_op("Upsample", versions=(1,))
def upsample_image(
    ctx: Context, x: Output, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Output:
    """Images ``[N, C, H, W]`` enlarged."""
    if ctx.rank(x, "the data") != 4:
        raise ctx.invalid(f"needs images of four dimensions, but got {x.shape}")
    return _scaled(ctx, x, ctx.constant([1, 1, height_scale, width_scale], "f32"), mode)
