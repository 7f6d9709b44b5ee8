"""The windows of ONNX's poolings: where each lies, and what pads say just that.

Where the spatial extents are known, every attribute that engines understand differently (``auto_pad``,
``ceil_mode``, what a divisor counts) is worked out here and said in plain pads. Where they are not,
pads and counts are computed at run time.

``auto_pad`` follows onnxruntime in two corners of which the specification's formulas contradict each
other: the padding of SAME_* is computed from the kernel without its dilations, and may be negative
(which crops) where the stride is larger than the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from converter.lowering import layers
from converter.translation.context import Context
from ir_runtime import element_types
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, generation, movement, padding

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

    @property
    def may_start_behind(self) -> bool:
        """Whether a window may start in the padding behind the data, where ``ceil_mode`` drops it."""
        return any(axis.end + axis.stride > axis.span for axis in self.axes)

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
    """``x`` without what negative padding takes away."""
    return pad(ctx, x, [min(0, p.begin) for p in placed], [min(0, p.end) for p in placed])


@dataclass(frozen=True)
class DynamicWindows:
    """Pads and window counts of all spatial dimensions as tensors, for extents known at run time."""

    begin: Output
    end: Output
    beyond: Output
    counts: Output
    geometry: Geometry

    def extents_of(self, ctx: Context, x: Output) -> Output:
        """``[1, 1, D1, D2, ...]`` of ``x``."""
        spatial = spatial_extents(ctx, x, len(self.geometry.axes))
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
            count = layers.gather(ctx, self.counts, ctx.constant(index), ctx.constant(0))
            numbers = generation.Range4(output_type=element_types.i64)
            first = ctx.emit(numbers, ctx.constant(0), count, ctx.constant(1))
            pooled = layers.gather(ctx, pooled, first, ctx.constant(2 + index))
        return pooled


def spatial_extents(ctx: Context, x: Output, rank: int) -> Output:
    extents = ctx.emit(generation.ShapeOf3(output_type=element_types.i64), x)
    return layers.gather(ctx, extents, ctx.constant(list(range(2, 2 + rank))), ctx.constant(0))


def windows_dynamic(ctx: Context, x: Output, geometry: Geometry) -> DynamicWindows:
    axes = geometry.axes
    add, sub, mul = elementwise.Add1(), elementwise.Subtract1(), elementwise.Multiply1()
    extents = spatial_extents(ctx, x, len(axes))
    strides = ctx.constant([axis.stride for axis in axes])
    one = ctx.constant(1)

    def divided(value: Output, by: Output) -> Output:
        return ctx.emit(elementwise.Divide1(m_pythondiv=False), value, by)

    if axes[0].auto_pad.startswith("SAME"):
        steps = divided(ctx.emit(sub, extents, one), strides)
        reach = ctx.emit(add, ctx.emit(mul, steps, strides), ctx.constant(geometry.kernel))
        total = ctx.emit(sub, reach, extents)
        if not axes[0].crops:
            total = layers.maximum(ctx, total, ctx.constant(0))
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
        steps = layers.minimum(ctx, rounded, last)
    else:
        steps = divided(room, strides)
    beyond = layers.maximum(ctx, ctx.emit(sub, ctx.emit(mul, steps, strides), room), ctx.constant(0))
    return DynamicWindows(begin, end, beyond, ctx.emit(add, steps, one), geometry)
