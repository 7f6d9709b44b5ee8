"""ONNX's poolings: AveragePool, MaxPool, LpPool and their global forms.

Where the spatial extents are known, every attribute that engines understand differently (``auto_pad``,
``ceil_mode``, what a divisor counts) is worked out here and said in plain pads. Where they are not,
the IR's own attributes are used if they say just that, and otherwise the pads are computed at execution.

``auto_pad`` follows onnxruntime in two corners of which the specification's formulas contradict each
other: the padding of SAME_* is computed from the kernel without its dilations, and may be negative
(which crops) where the stride is larger than the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ir_runtime import element_types
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, generation, indexing, movement, padding, pooling, reduction

from ..context import Context
from ..registry import onnx_op

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Axis:
    """How the window moves along one spatial dimension, as the node's attributes say it."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    auto_pad: str
    ceil: bool
    crops: bool
    """Whether SAME_* with a stride beyond the kernel crops, or just does not pad."""

    @property
    def span(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    def pads(self, extent: int) -> tuple[int, int]:
        """Padding in front and behind; negative where elements are cropped."""
        if not self.auto_pad.startswith("SAME"):
            return self.begin, self.end
        total = (-(-extent // self.stride) - 1) * self.stride + self.kernel - extent
        total = total if self.crops else max(0, total)
        half = math.trunc((total + (self.auto_pad == "SAME_LOWER")) / 2)
        return half, total - half

    def count(self, extent: int) -> int:
        """The number of window positions; not positive where no window fits."""
        begin, end = self.pads(extent)
        room = extent + begin + end - self.span
        if not self.ceil:
            return math.trunc(room / self.stride) + 1
        count = -(-room // self.stride) + 1
        # A window that starts in the padding behind the data is dropped.
        return count - 1 if (count - 1) * self.stride >= extent + begin else count


@dataclass(frozen=True)
class Placed:
    """The same with the extent known: windows of ``count`` positions, and pads that say so exactly."""

    begin: int
    end: int
    count: int
    beyond: int
    """Elements that the last window covers beyond the data and its padding; they never count."""
    reach: int
    """Where the last window ends, relative to the end of the data."""


@dataclass(frozen=True)
class Geometry:
    """The window of a pooling in all spatial dimensions."""

    axes: tuple[Axis, ...]

    @property
    def kernel(self) -> list[int]:
        return [axis.kernel for axis in self.axes]

    @property
    def dilations(self) -> list[int]:
        return [axis.dilation for axis in self.axes]

    @property
    def is_dilated(self) -> bool:
        return any(axis.dilation != 1 for axis in self.axes)

    @property
    def is_padded(self) -> bool:
        return any(axis.begin or axis.end or axis.auto_pad.startswith("SAME") for axis in self.axes)

    def place(self, ctx: Context, x: Output) -> list[Placed] | None:
        """Where every window lies, if the extents are known."""
        spatial = x.shape.dims[2:] if x.shape.has_rank else ()
        if not spatial or not all(extent.is_static for extent in spatial):
            return None
        placed = []
        for axis, extent in zip(self.axes, (dimension.value for dimension in spatial)):
            begin, end = axis.pads(extent)
            count = axis.count(extent)
            if count < 1:
                raise ctx.invalid(
                    f"a window of {axis.span} elements does not fit into {extent} with {begin + end} of padding"
                )
            reach = (count - 1) * axis.stride + axis.span - (extent + begin)
            # Less padding behind, where windows that would start in it are dropped.
            needed = max(min(end, reach), min(end, 0))
            placed.append(Placed(begin, needed, count, max(0, reach - end), reach))
        return placed

    def layer(self, pads_begin: Sequence[int], pads_end: Sequence[int], **more: object) -> dict[str, object]:
        """The attributes of a pooling layer in the IR."""
        attributes: dict[str, object] = {
            "kernel": self.kernel,
            "strides": [axis.stride for axis in self.axes],
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "auto_pad": "explicit",
            "rounding_type": "floor",
        }
        return attributes | more


def _geometry(
    ctx: Context,
    x: Output,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    crops: bool = True,
) -> Geometry:
    """Check the attributes and fill in ONNX's defaults."""
    rank = len(kernel_shape)
    if rank == 0:
        raise ctx.invalid("kernel_shape must have at least one entry")
    if x.shape.has_rank and x.shape.rank != rank + 2:
        raise ctx.invalid(f"kernel_shape {list(kernel_shape)} needs an input of rank {rank + 2}, but got {x.shape}")
    if auto_pad not in _AUTO_PADS:
        raise ctx.invalid(f"auto_pad must be one of {', '.join(_AUTO_PADS)}, but is {auto_pad!r}")
    lists = [list(kernel_shape), list(strides or [1] * rank), list(dilations or [1] * rank)]
    for name, values in zip(("kernel_shape", "strides", "dilations"), lists):
        if len(values) != rank or min(values) < 1:
            raise ctx.invalid(f"{name} must be {rank} positive numbers, but is {values}")
    both = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    if len(both) != 2 * rank or min(both) < 0:
        raise ctx.invalid(f"pads must be {2 * rank} numbers from 0 on, but is {both}")
    columns = zip(*lists, both[:rank], both[rank:])
    return Geometry(
        tuple(Axis(k, s, d, begin, end, auto_pad, bool(ceil_mode), crops) for k, s, d, begin, end in columns)
    )


def _pad(ctx: Context, x: Output, begin: Sequence[int], end: Sequence[int]) -> Output:
    """Zeros around the spatial dimensions; negative numbers crop."""
    if not any(begin) and not any(end):
        return x
    op = padding.Pad12(pad_mode="constant")
    return ctx.emit(op, x, ctx.constant([0, 0, *begin]), ctx.constant([0, 0, *end]), ctx.like(0, x))


def _cropped(ctx: Context, x: Output, placed: Sequence[Placed]) -> Output:
    """``x`` without what negative padding takes away."""
    return _pad(ctx, x, [min(0, p.begin) for p in placed], [min(0, p.end) for p in placed])


# --- AveragePool ---


def _average_layer(geometry: Geometry, begin: Sequence[int], end: Sequence[int], exclude: bool) -> pooling.AvgPool:
    attributes = geometry.layer(begin, end, exclude_pad=exclude)
    if geometry.is_dilated:
        return pooling.AvgPool16(**attributes, dilations=geometry.dilations)
    return pooling.AvgPool1(**attributes)


def _average(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    placed = geometry.place(ctx, x)
    if placed is None:
        return _average_of_unknown(ctx, x, geometry, include_padding and geometry.is_padded)
    x = _cropped(ctx, x, placed)
    begin, end = [max(0, p.begin) for p in placed], [max(0, p.end) for p in placed]
    beyond = [p.beyond for p in placed]
    if include_padding and any(begin + end):
        if not any(beyond):
            return ctx.emit(_average_layer(geometry, begin, end, exclude=False), x)
        # Padding that counts becomes data; what lies beyond it stays padding, and does not count.
        x, begin, end = _pad(ctx, x, begin, end), [0] * len(begin), [0] * len(end)
    return ctx.emit(_average_layer(geometry, begin, [e + b for e, b in zip(end, beyond)], exclude=True), x)


def _average_of_unknown(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    """For extents that are only known at execution."""
    attributes = _dynamic_attributes(geometry)
    ceil = attributes is not None and attributes["rounding_type"] == "ceil_torch"
    if attributes is None or (ceil and include_padding):
        return _average_by_ratio(ctx, x, geometry, include_padding)
    attributes["exclude_pad"] = not include_padding
    if geometry.is_dilated:
        return ctx.emit(pooling.AvgPool16(**attributes, dilations=geometry.dilations), x)
    return ctx.emit((pooling.AvgPool14 if ceil else pooling.AvgPool1)(**attributes), x)


def _dynamic_attributes(geometry: Geometry) -> dict[str, object] | None:
    """A layer's attributes where the IR can say at execution what ONNX means; else None."""
    axes = geometry.axes
    ceil = axes[0].ceil
    begin, end = [axis.begin for axis in axes], [axis.end for axis in axes]
    if not axes[0].auto_pad.startswith("SAME"):
        return geometry.layer(begin, end, rounding_type="ceil_torch" if ceil else "floor")
    if geometry.is_dilated or any(axis.stride > axis.kernel and axis.crops for axis in axes):
        return None
    return geometry.layer(begin, end, auto_pad=axes[0].auto_pad.lower())


def _average_by_ratio(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    """Pads computed at execution; the mean of the data divided by the mean of what counts as data."""
    windows = _windows_at_execution(ctx, x, geometry)
    ones = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(1, x), windows.extents_of(ctx, x))
    zero, one = ctx.like(0, x), ctx.like(1, x)
    data = windows.pad(ctx, x, zero)
    counted = windows.pad(ctx, ones, one if include_padding else zero)
    none = [0] * len(geometry.axes)
    layer = _average_layer(geometry, none, none, exclude=False)
    means = [ctx.emit(layer, windows.pad_beyond(ctx, value, zero)) for value in (data, counted)]
    return windows.cut(ctx, ctx.emit(elementwise.Divide1(), means[0], means[1]))


@dataclass(frozen=True)
class DynamicWindows:
    """Pads and window counts of all spatial dimensions as tensors, for extents known at execution."""

    begin: Output
    end: Output
    beyond: Output
    counts: Output
    geometry: Geometry

    def extents_of(self, ctx: Context, x: Output) -> Output:
        """``[1, 1, D1, D2, ...]`` of ``x``."""
        spatial = _spatial_extents(ctx, x, len(self.geometry.axes))
        return ctx.emit(movement.Concat1(axis=0), ctx.constant([1, 1]), spatial)

    def pad(self, ctx: Context, x: Output, value: Output) -> Output:
        zeros = ctx.constant([0, 0])
        begin = ctx.emit(movement.Concat1(axis=0), zeros, self.begin)
        end = ctx.emit(movement.Concat1(axis=0), zeros, self.end)
        return ctx.emit(padding.Pad12(pad_mode="constant"), x, begin, end, value)

    def pad_beyond(self, ctx: Context, x: Output, value: Output) -> Output:
        """Room for the last window where it covers more than the data and its padding."""
        zeros = ctx.constant([0, 0])
        none = ctx.constant([0] * (2 + len(self.geometry.axes)))
        end = ctx.emit(movement.Concat1(axis=0), zeros, self.beyond)
        return ctx.emit(padding.Pad12(pad_mode="constant"), x, none, end, value)

    def cut(self, ctx: Context, pooled: Output) -> Output:
        """Only the windows that count."""
        for index in range(len(self.geometry.axes)):
            count = ctx.emit(indexing.Gather8(), self.counts, ctx.constant(index), ctx.constant(0))
            numbers = generation.Range4(output_type="i64")
            first = ctx.emit(numbers, ctx.constant(0), count, ctx.constant(1))
            pooled = ctx.emit(indexing.Gather8(), pooled, first, ctx.constant(2 + index))
        return pooled


def _spatial_extents(ctx: Context, x: Output, rank: int) -> Output:
    extents = ctx.emit(generation.ShapeOf3(output_type="i64"), x)
    return ctx.emit(indexing.Gather8(), extents, ctx.constant(list(range(2, 2 + rank))), ctx.constant(0))


def _windows_at_execution(ctx: Context, x: Output, geometry: Geometry) -> DynamicWindows:
    axes = geometry.axes
    add, sub, mul = elementwise.Add1(), elementwise.Subtract1(), elementwise.Multiply1()
    extents = _spatial_extents(ctx, x, len(axes))
    strides = ctx.constant([axis.stride for axis in axes])
    one = ctx.constant(1)

    def divided(value: Output, by: Output) -> Output:
        return ctx.emit(elementwise.Divide1(m_pythondiv=False), value, by)

    if axes[0].auto_pad.startswith("SAME"):
        steps = divided(ctx.emit(sub, extents, one), strides)
        reach = ctx.emit(add, ctx.emit(mul, steps, strides), ctx.constant(geometry.kernel))
        total = ctx.emit(sub, reach, extents)
        if not axes[0].crops:
            total = ctx.emit(elementwise.Maximum1(), total, ctx.constant(0))
        more = ctx.constant(1 if axes[0].auto_pad == "SAME_LOWER" else 0)
        begin = divided(ctx.emit(add, total, more), ctx.constant(2))
        end = ctx.emit(sub, total, begin)
    else:
        begin = ctx.constant([axis.begin for axis in axes])
        end = ctx.constant([axis.end for axis in axes])
    front = ctx.emit(add, extents, begin)
    room = ctx.emit(sub, ctx.emit(add, front, end), ctx.constant([axis.span for axis in axes]))
    if axes[0].ceil:
        # Not beyond the last position that still starts on the data or before it.
        rounded = divided(ctx.emit(sub, ctx.emit(add, room, strides), one), strides)
        last = divided(ctx.emit(sub, front, one), strides)
        steps = ctx.emit(elementwise.Minimum1(), rounded, last)
    else:
        steps = divided(room, strides)
    beyond = ctx.emit(elementwise.Maximum1(), ctx.emit(sub, ctx.emit(mul, steps, strides), room), ctx.constant(0))
    return DynamicWindows(begin, end, beyond, ctx.emit(add, steps, one), geometry)


@onnx_op("AveragePool", versions=(1,))
def average_pool_1(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
) -> Output:
    """The divisor never counts padding."""
    return _average(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad), include_padding=False)


@onnx_op("AveragePool", versions=(7,))
def average_pool_7(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    count_include_pad: int = 0,
) -> Output:
    """Adds ``count_include_pad``."""
    return _average(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad), bool(count_include_pad))


@onnx_op("AveragePool", versions=(10, 11))
def average_pool_10(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    count_include_pad: int = 0,
    ceil_mode: int = 0,
) -> Output:
    """Adds ``ceil_mode``."""
    geometry = _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, ceil_mode=ceil_mode)
    return _average(ctx, x, geometry, bool(count_include_pad))


@onnx_op("AveragePool", versions=(19, 22))
def average_pool(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    count_include_pad: int = 0,
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
) -> Output:
    """Adds ``dilations``."""
    geometry = _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, dilations, ceil_mode)
    return _average(ctx, x, geometry, bool(count_include_pad))


# --- MaxPool ---


def _max(ctx: Context, x: Output, geometry: Geometry, column_major: bool) -> Output | tuple[Output, ...]:
    """The maxima, and where the model asks for them their indices into the whole, flattened input."""
    placed = geometry.place(ctx, x)
    wants_indices = ctx.wants(1)
    if placed is None:
        attributes = _dynamic_attributes(geometry)
        if attributes is None:
            return _max_by_pad(ctx, x, geometry)
    else:
        # Negative padding behind the data takes nothing away from a maximum; it only ends the windows.
        end = [p.reach if p.end < 0 else p.end + p.beyond for p in placed]
        if wants_indices and min([p.begin for p in placed] + end) < 0:
            raise ctx.unsupported("indices of a MaxPool whose stride is larger than its kernel under auto_pad SAME")
        x = _pad(ctx, x, [min(0, p.begin) for p in placed], [min(0, e) for e in end])
        attributes = geometry.layer([max(0, p.begin) for p in placed], [max(0, e) for e in end])
    if not wants_indices and not geometry.is_dilated and attributes["rounding_type"] == "floor":
        return ctx.emit(pooling.MaxPool1(**attributes), x)
    cls = pooling.MaxPool14 if attributes["rounding_type"] == "ceil_torch" else pooling.MaxPool8
    layer = cls(**attributes, dilations=geometry.dilations, index_element_type="i64", axis=0)
    values, indices = ctx.emit_all(layer, x)
    if not wants_indices:
        return values
    return values, _column_major(ctx, x, indices) if column_major else indices


def _max_by_pad(ctx: Context, x: Output, geometry: Geometry) -> Output:
    """Pads computed at execution, filled with what never wins."""
    if ctx.wants(1):
        raise ctx.unsupported("indices of a MaxPool under auto_pad SAME whose extents are not known")
    windows = _windows_at_execution(ctx, x, geometry)
    lowest = ctx.like(pooling.lowest(x.element_type.dtype), x)
    padded = windows.pad_beyond(ctx, windows.pad(ctx, x, lowest), lowest)
    none = [0] * len(geometry.axes)
    layer = pooling.MaxPool8(
        **geometry.layer(none, none), dilations=geometry.dilations, index_element_type="i64", axis=0
    )
    return windows.cut(ctx, ctx.emit_all(layer, padded)[0])


def _column_major(ctx: Context, x: Output, indices: Output) -> Output:
    """Indices that count the spatial dimensions with the first one fastest (``storage_order`` 1)."""
    spatial = x.shape.rank - 2
    extents = [
        ctx.emit(indexing.Gather8(), _spatial_extents(ctx, x, spatial), ctx.constant(i), ctx.constant(0))
        for i in range(spatial)
    ]
    add, sub, mul = elementwise.Add1(), elementwise.Subtract1(), elementwise.Multiply1()
    rest, result, weight = indices, None, ctx.constant(1)
    positions: list[Output] = []
    for extent in reversed(extents):
        quotient = ctx.emit(elementwise.Divide1(m_pythondiv=False), rest, extent)
        positions.insert(0, ctx.emit(sub, rest, ctx.emit(mul, quotient, extent)))
        rest = quotient
    for position, extent in zip(positions, extents):
        term = ctx.emit(mul, position, weight)
        result = term if result is None else ctx.emit(add, result, term)
        weight = ctx.emit(mul, weight, extent)
    assert result is not None
    return ctx.emit(add, result, ctx.emit(mul, rest, weight))


@onnx_op("MaxPool", versions=(1,))
def max_pool_1(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
) -> Output | tuple[Output, ...]:
    """One output."""
    return _max(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, crops=False), column_major=False)


@onnx_op("MaxPool", versions=(8,))
def max_pool_8(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    storage_order: int = 0,
) -> Output | tuple[Output, ...]:
    """Adds the indices, and the order in which they count."""
    geometry = _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, crops=False)
    return _max(ctx, x, geometry, _is_column_major(ctx, storage_order))


@onnx_op("MaxPool", versions=(10, 11, 12, 22))
def max_pool(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    storage_order: int = 0,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Output | tuple[Output, ...]:
    """Adds ``dilations`` and ``ceil_mode``."""
    # onnxruntime crops with dilations only; without, it refuses to.
    crops = any(dilation != 1 for dilation in dilations or ())
    geometry = _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, dilations, ceil_mode, crops)
    return _max(ctx, x, geometry, _is_column_major(ctx, storage_order))


def _is_column_major(ctx: Context, storage_order: int) -> bool:
    if storage_order not in (0, 1):
        raise ctx.invalid(f"storage_order must be 0 or 1, but is {storage_order}")
    return storage_order == 1


# --- LpPool ---


def _lp(ctx: Context, x: Output, geometry: Geometry, p: float) -> Output:
    """(sum of |x|^p)^(1/p) under each window, as a mean times the number of elements."""
    if p <= 0:
        raise ctx.invalid(f"p must be positive, but is {p}")
    kind = x.element_type
    wide = element_types.f32 if kind.bits < 32 else kind
    values = _converted(ctx, x, wide)
    powers = _raised(ctx, ctx.emit(elementwise.Abs1(), values), p)
    placed = geometry.place(ctx, x)
    none = [0] * len(geometry.axes)
    layer = _average_layer(geometry, none, none, exclude=False)
    if placed is not None:
        padded = _pad(ctx, powers, [q.begin for q in placed], [q.end + q.beyond for q in placed])
        means = ctx.emit(layer, padded)
    else:
        windows = _windows_at_execution(ctx, x, geometry)
        zero = ctx.like(0, powers)
        padded = windows.pad_beyond(ctx, windows.pad(ctx, powers, zero), zero)
        means = windows.cut(ctx, ctx.emit(layer, padded))
    sums = ctx.emit(elementwise.Multiply1(), means, ctx.like(math.prod(geometry.kernel), means))
    return _converted(ctx, _raised(ctx, sums, 1 / p), kind)


def _converted(ctx: Context, x: Output, kind: element_types.ElementType) -> Output:
    return x if x.element_type is kind else ctx.emit(elementwise.Convert1(destination_type=kind), x)


def _raised(ctx: Context, x: Output, exponent: float) -> Output:
    return x if exponent == 1 else ctx.emit(elementwise.Power1(), x, ctx.like(exponent, x))


@onnx_op("LpPool", versions=(1,))
def lp_pool_1(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    p: float = 2.0,
) -> Output:
    """A fractional ``p``; without ``kernel_shape`` the window is the whole image."""
    if kernel_shape is None:
        if not x.shape.has_rank or not all(extent.is_static for extent in x.shape.dims[2:]):
            raise ctx.invalid("kernel_shape is needed where the input's extents are not known")
        kernel_shape = [extent.value for extent in x.shape.dims[2:]]
    return _lp(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad), p)


@onnx_op("LpPool", versions=(2, 11))
def lp_pool_2(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    p: int = 2,
) -> Output:
    """A whole ``p``."""
    return _lp(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad), p)


@onnx_op("LpPool", versions=(18, 22))
def lp_pool(
    ctx: Context,
    x: Output,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    p: int = 2,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Output:
    """Adds ``dilations`` and ``ceil_mode``."""
    return _lp(ctx, x, _geometry(ctx, x, kernel_shape, strides, pads, auto_pad, dilations, ceil_mode), p)


# --- the global forms ---


def _spatial_axes(ctx: Context, x: Output) -> Output:
    if x.shape.has_rank:
        if x.shape.rank < 2:
            raise ctx.invalid(f"the input must have at least two dimensions, but has the shape {x.shape}")
        return ctx.constant(np.arange(2, x.shape.rank))
    extents = ctx.emit(generation.ShapeOf3(output_type="i64"), ctx.emit(generation.ShapeOf3(output_type="i64"), x))
    rank = ctx.emit(movement.Squeeze1(), extents, ctx.constant([0]))
    return ctx.emit(generation.Range4(output_type="i64"), ctx.constant(2), rank, ctx.constant(1))


def _global(op_type: str, reduce: Callable[..., reduction.Reduction]) -> None:
    def translate(ctx: Context, x: Output) -> Output:
        return ctx.emit(reduce(keep_dims=True), x, _spatial_axes(ctx, x))

    onnx_op(op_type, versions=(1, 22))(translate)


_global("GlobalAveragePool", reduction.ReduceMean1)
_global("GlobalMaxPool", reduction.ReduceMax1)


@onnx_op("GlobalLpPool", versions=(1,))
def global_lp_pool_1(ctx: Context, x: Output, *, p: float = 2.0) -> Output:
    """(sum of |x|^p)^(1/p) over all spatial dimensions."""
    if p <= 0:
        raise ctx.invalid(f"p must be positive, but is {p}")
    axes = _spatial_axes(ctx, x)
    if p in (1, 2):
        return ctx.emit((reduction.ReduceL1_4 if p == 1 else reduction.ReduceL2_4)(keep_dims=True), x, axes)
    kind = x.element_type
    wide = _converted(ctx, x, element_types.f32 if kind.bits < 32 else kind)
    powers = _raised(ctx, ctx.emit(elementwise.Abs1(), wide), p)
    sums = ctx.emit(reduction.ReduceSum1(keep_dims=True), powers, axes)
    return _converted(ctx, _raised(ctx, sums, 1 / p), kind)


@onnx_op("GlobalLpPool", versions=(2, 22))
def global_lp_pool(ctx: Context, x: Output, *, p: int = 2) -> Output:
    """As the first version, for a whole ``p``."""
    return global_lp_pool_1(ctx, x, p=p)
