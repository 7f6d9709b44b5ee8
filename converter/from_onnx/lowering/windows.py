"""The windows of ONNX's poolings: their places, and explicit pads for them.

Engines differ in what ``auto_pad``, ``ceil_mode`` and the divisor mean. Where the spatial dimensions are static,
these attributes are replaced by explicit pads here. Where they are dynamic, pads and counts are computed at run time.

``auto_pad`` follows onnxruntime in two cases in which the specification's formulas contradict each other: the padding
of SAME_* is computed from the kernel without its dilations, and it may be negative (which crops) where the stride is
larger than the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.operations import padding
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import arange, concat_lists, dimension_list

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@record
class Axis:
    """The window along one spatial dimension, by the node's attributes."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    auto_pad: str
    ceil: bool
    crops: bool
    """True if SAME_* with a stride larger than the kernel crops; otherwise it does not pad."""

    @property
    def span(self) -> int:
        """The elements from the first to the last one under the window."""
        return (self.kernel - 1) * self.dilation + 1

    def pads(self, size: int) -> tuple[int, int]:
        """Padding in front and behind; negative where elements are cropped."""
        if not self.auto_pad.startswith("SAME"):
            return self.begin, self.end
        total = (-(-size // self.stride) - 1) * self.stride + self.kernel - size
        total = total if self.crops else max(0, total)
        half = math.trunc((total + (self.auto_pad == "SAME_LOWER")) / 2)
        return half, total - half

    def count(self, size: int) -> int:
        """The number of window positions; not positive where no window fits."""
        begin, end = self.pads(size)
        room = size + begin + end - self.span
        if not self.ceil:
            return math.trunc(room / self.stride) + 1
        count = -(-room // self.stride) + 1
        # A window that starts in the padding behind the data is dropped.
        return count - 1 if (count - 1) * self.stride >= size + begin else count


@record
class Placed:
    """The windows along a static dimension: ``count`` positions, with explicit pads."""

    begin: int
    end: int
    count: int
    beyond: int
    """The number of elements that the last window covers behind data and padding; the divisor never counts them."""
    reach: int
    """The end of the last window, relative to the end of the data."""


@record
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

    @property
    def may_start_behind(self) -> bool:
        """True if a window may start in the padding behind the data, where ``ceil_mode`` drops it."""
        return any(axis.end + axis.stride > axis.span for axis in self.axes)

    def place(self, ctx: Context, x: Output) -> list[Placed] | None:
        """The places of all windows; None where a spatial dimension is dynamic."""
        spatial = x.shape.dims[2:] if x.shape.has_rank else ()
        if not spatial or not all(size.is_static for size in spatial):
            return None
        placed = []
        for axis, size in zip(self.axes, (dimension.value for dimension in spatial)):
            begin, end = axis.pads(size)
            count = axis.count(size)
            if count < 1:
                raise ctx.invalid(
                    f"a window of {axis.span} elements does not fit into {size} with {begin + end} of padding"
                )
            reach = (count - 1) * axis.stride + axis.span - (size + begin)
            # Windows that would start in the padding behind are dropped, so that less of it is needed.
            needed = max(min(end, reach), min(end, 0))
            placed.append(Placed(begin, needed, count, max(0, reach - end), reach))
        return placed

    def layer(self, pads_begin: Sequence[int], pads_end: Sequence[int], **more: object) -> dict[str, Any]:
        """The attributes of a pooling layer in the IR."""
        attributes: dict[str, Any] = {
            "kernel": self.kernel,
            "strides": [axis.stride for axis in self.axes],
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "auto_pad": "explicit",
            "rounding_type": "floor",
        }
        return attributes | more


def make_geometry(
    ctx: Context,
    x: Output,
    crops: bool = True,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Geometry:
    """Check the attributes and fill in ONNX's defaults."""
    rank = len(kernel_shape)
    if rank == 0:
        raise ctx.invalid("kernel_shape must have at least one entry")
    if x.shape.has_rank and x.shape.rank != rank + 2:
        raise ctx.invalid(f"kernel_shape {list(kernel_shape)} needs an input of rank {rank + 2}, but got {x.shape}")
    auto_pad = auto_pad or "NOTSET"  # some exporters leave it empty
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


def pad(ctx: Context, x: Output, begin: Sequence[int], end: Sequence[int]) -> Output:
    """Zeros around the spatial dimensions; negative numbers crop."""
    if not any(begin) and not any(end):
        return x
    op = padding.Pad12(pad_mode="constant")
    return ctx.emit(op, x, ctx.constant([0, 0, *begin]), ctx.constant([0, 0, *end]), ctx.like(0, x))


def cropped(ctx: Context, x: Output, placed: Sequence[Placed]) -> Output:
    """``x`` without the elements that negative padding crops."""
    return pad(ctx, x, [min(0, p.begin) for p in placed], [min(0, p.end) for p in placed])


@record
class DynamicWindows:
    """Pads and window counts of all spatial dimensions as tensors, for dynamic dimensions."""

    begin: Output
    end: Output
    beyond: Output
    counts: Output
    geometry: Geometry

    def dimensions_of(self, ctx: Context, x: Output) -> Output:
        """``[1, 1, D1, D2, ...]`` of ``x``."""
        return concat_lists(ctx, [ctx.constant([1, 1]), spatial_dimensions(ctx, x, len(self.geometry.axes))])

    def pad(self, ctx: Context, x: Output, value: Output) -> Output:
        """``x`` with the padding in front and behind, filled with ``value``."""
        begin, end = (concat_lists(ctx, [ctx.constant([0, 0]), side]) for side in (self.begin, self.end))
        return ctx.emit(padding.Pad12(pad_mode="constant"), x, begin, end, value)

    def pad_beyond(self, ctx: Context, x: Output, value: Output) -> Output:
        """Add padding for the last window where it covers more than the data and its padding."""
        none = ctx.constant([0] * (2 + len(self.geometry.axes)))
        end = concat_lists(ctx, [ctx.constant([0, 0]), self.beyond])
        return ctx.emit(padding.Pad12(pad_mode="constant"), x, none, end, value)

    def cut(self, ctx: Context, pooled: Output) -> Output:
        """The pooled data without windows behind the last one that ONNX has."""
        for index in range(len(self.geometry.axes)):
            first = arange(ctx, layers.take(ctx, self.counts, index, 0))
            pooled = layers.gather(ctx, pooled, first, ctx.constant(2 + index))
        return pooled


def spatial_dimensions(ctx: Context, x: Output, rank: int) -> Output:
    """The ``rank`` dimensions behind batch and channels, as a list."""
    return dimension_list(ctx, x, *range(2, 2 + rank))


def windows_dynamic(ctx: Context, x: Output, geometry: Geometry) -> DynamicWindows:
    """Compute pads and window counts from the shape of ``x``."""
    from ir_runtime.rewriting.expressions import Expression  # few models need it

    axes = geometry.axes
    sizes = Expression(ctx, spatial_dimensions(ctx, x, len(axes)))
    strides, unit = sizes.of([axis.stride for axis in axes]), sizes.of(1)
    if axes[0].auto_pad.startswith("SAME"):
        total = (sizes - unit).truncated(strides) * strides + geometry.kernel - sizes
        total = total if axes[0].crops else total.maximum(0)
        begin = (total + int(axes[0].auto_pad == "SAME_LOWER")).truncated(2)
        end = total - begin
    else:
        begin, end = sizes.of([axis.begin for axis in axes]), sizes.of([axis.end for axis in axes])
    front = sizes + begin
    room = front + end - [axis.span for axis in axes]
    if axes[0].ceil:
        # No window starts behind the data.
        steps = (room + strides - unit).truncated(strides).minimum((front - unit).truncated(strides))
    else:
        steps = room.truncated(strides)
    beyond = (steps * strides - room).maximum(0)
    return DynamicWindows(begin.value, end.value, beyond.value, (steps + unit).value, geometry)
