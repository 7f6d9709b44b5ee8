"""Convolutions over the spatial dimensions of ``[N, C, D1, D2, ...]``: plain, transposed, deformable, binary.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/convolution/convolution-1.html
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, INFINITY, Array, Dimension, ElementType, PartialShape
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, integers, operation, real
from ir_runtime.graph.shapes import require_rank
from ir_runtime.operations.windows import Window, pad_for, shifted

from .elementwise import merge_types

_COLUMN_BYTES = 1 << 23
"""The size limit of a block of unfolded windows, so that it stays in the cache."""


class _Convolution(Operation):
    """Base of all convolutions: how the window moves. Lists have one entry for each spatial dimension.

    ``pads_begin`` and ``pads_end`` are used where ``auto_pad`` is ``explicit``.
    """

    inputs = (2, 2)
    strides: Sequence[int] = integers(default=(1, 1))
    pads_begin: Sequence[int] = integers(default=(0, 0))
    pads_end: Sequence[int] = integers(default=(0, 0))
    dilations: Sequence[int] = integers(default=(1, 1))
    auto_pad: str = enum("explicit", "same_upper", "same_lower", "valid", default="explicit")
    channel_axes: ClassVar[tuple[int, ...]] = ()
    """The axes of the weights that make an output channel, where the operation has one for each."""

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """Each output element is a sum over the weights of its channel; the weights are the last input."""
        return _for_each_weight_of_a_channel(outputs[0], inputs[-1])

    def checked_lists(self, rank: int) -> list[Sequence[int]]:
        """Strides, dilations and both pads, which must have ``rank`` entries each."""
        lists = [self.strides, self.dilations]
        if any(len(values) != rank for values in lists) or min(*self.strides, *self.dilations, 1) < 1:
            raise InferenceError(f"strides and dilations must be {rank} positive numbers each")
        if self.auto_pad != "explicit":
            return [*lists, (0,) * rank, (0,) * rank]
        if len(self.pads_begin) != rank or len(self.pads_end) != rank:
            raise InferenceError(f"pads_begin and pads_end must be {rank} numbers each")
        return [*lists, self.pads_begin, self.pads_end]

    def windows(self, kernel: Sequence[int]) -> list[Window]:
        """The window of every spatial dimension, for a kernel of these dimensions."""
        strides, dilations, begins, ends = self.checked_lists(len(kernel))
        return [
            Window(size, stride, dilation, begin, end, self.auto_pad)
            for size, stride, dilation, begin, end in zip(kernel, strides, dilations, begins, ends)
        ]

    def moved_over(self, sizes: Sequence[Dimension], kernel: Sequence[Dimension]) -> list[Dimension]:
        """The number of positions of the window along each of ``dimensions``."""
        # The larger the kernel, the fewer positions. One is the least where the kernel's size is unknown.
        small = self.windows([max(size.low, 1) for size in kernel])
        large = self.windows([max(size.high, 1) for size in kernel])
        windows = []
        for most, fewest, size in zip(small, large, sizes):
            count = most.count_dimension(size)
            if most != fewest and not self.auto_pad.startswith("same"):
                fits = fewest.span <= size.low + fewest.pad_begin + fewest.pad_end
                least = fewest.count(size.low) if fits else 1
                count = Dimension(min(least, count.high), count.high)
            windows.append(count)
        return windows


def _for_each_weight_of_a_channel(pixels: TensorType, weights: TensorType) -> float:
    channels = pixels.shape[1].value if pixels.element_count else 1
    return float(pixels.element_count * weights.element_count) / channels


def _spatial_rank(
    subject: str, data: PartialShape, weights: PartialShape, lead: int, target: TensorType | None = None
) -> int | None:
    """The number of spatial dimensions, where ``lead`` is how many others the weights have.

    A ``target`` lists their dimensions.
    """
    if data.has_rank and weights.has_rank and data.rank - 2 != weights.rank - lead:
        raise InferenceError(f"{subject} of the shape {weights} do not fit data of the shape {data}")
    if data.has_rank:
        if data.rank < 3:
            raise InferenceError(f"data must have at least three dimensions, but are {data}")
        return data.rank - 2
    if weights.has_rank:
        return weights.rank - lead
    count = DYNAMIC if target is None else target.shape.element_count()
    return count.value if count.is_static else None


def _with_rank(shape: PartialShape, rank: int) -> PartialShape:
    return shape if shape.has_rank else PartialShape.of_rank(rank)


def _check_channels(channels: Dimension, dimension: Dimension, data: PartialShape, weights: PartialShape) -> None:
    if channels.merge(dimension) is None:
        raise InferenceError(f"weights {weights} need {dimension} channels, but the data {data} have {channels}")


def _working(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in a type that BLAS sums them up in: float32 for smaller floats, float64 for integers."""
    dtype = arrays[0].dtype
    if dtype.kind in "iub":
        return tuple(array.astype(np.float64) for array in arrays)
    if dtype.itemsize < 4:
        return tuple(array.astype(np.float32) for array in arrays)
    return arrays


def convolve(data: Array, weights: Array, windows: Sequence[Window]) -> Array:
    """The convolution of ``[N, G*C, ...]`` with ``[G, M, C, ...]`` to ``[N, G*M, ...]``.

    A depthwise one adds up one product a kernel element; any other unfolds the windows a block of
    output positions at a time and leaves the sums to BLAS.
    """
    groups, per_group, depth = weights.shape[:3]
    counts = [window.count(size) for window, size in zip(windows, data.shape[2:])]
    padded = pad_for(data, windows, 0)
    padded = padded.reshape(data.shape[0], groups, depth, *padded.shape[2:])
    shape = (data.shape[0], groups, per_group, *counts)
    result: Array
    if 0 in shape or depth == 0 or math.prod(weights.shape) == 0:
        result = np.zeros(shape, data.dtype)
    elif depth == 1 and groups > 1:
        result = _depthwise(padded, weights, windows, counts)
    else:
        result = _unfold(padded, weights, windows, counts)
    return result.reshape(data.shape[0], groups * per_group, *counts)


def _view(padded: Array, windows: Sequence[Window], taps: Sequence[int], counts: Sequence[int], lead: int) -> Array:
    for axis, (window, tap, count) in enumerate(zip(windows, taps, counts), lead):
        padded = shifted(padded, axis, window, tap, count)
    return padded


def _all_taps(windows: Sequence[Window]) -> list[tuple[int, ...]]:
    return list(itertools.product(*[range(window.kernel) for window in windows]))


def _depthwise(padded: Array, weights: Array, windows: Sequence[Window], counts: Sequence[int]) -> Array:
    batch, groups = padded.shape[:2]
    per_group = weights.shape[1]
    out = np.empty((batch, groups, per_group, *counts), padded.dtype)
    # Blocks of groups whose sums stay in the cache while the kernel's elements pass over them.
    step = max(1, (1 << 18) // max(1, per_group * math.prod(counts)))
    for start in range(0, groups, step):
        part = slice(start, start + step)
        total = out[:, part]
        product = np.empty_like(total)
        for index, taps in enumerate(_all_taps(windows)):
            view = _view(padded[:, part], windows, taps, counts, 3)
            place: tuple[Any, ...] = (part, slice(None), 0, *taps)
            factor = weights[place].reshape(1, -1, per_group, *[1] * len(counts))
            if index == 0:
                np.multiply(view, factor, out=total)
            else:
                np.multiply(view, factor, out=product)
                total += product
    return out


def _unfold(padded: Array, weights: Array, windows: Sequence[Window], counts: Sequence[int]) -> Array:
    batch, groups, depth = padded.shape[:3]
    per_group = weights.shape[1]
    taps = _all_taps(windows)
    matrix = weights.reshape(groups, per_group, depth * len(taps))
    out = np.empty((batch, groups, per_group, *counts), padded.dtype)
    if len(taps) == 1:
        view = _view(padded, windows, taps[0], counts, 3)
        np.matmul(
            matrix,
            view.reshape(batch, groups, depth, -1),
            out=out.reshape(batch, groups, per_group, -1),
        )
        return out
    rest = math.prod(counts[1:])
    row_bytes = groups * depth * len(taps) * rest * padded.itemsize
    rows = max(1, min(counts[0], _COLUMN_BYTES // max(1, row_bytes)))
    columns = np.empty((groups, depth, len(taps), rows, *counts[1:]), padded.dtype)
    for item in range(batch):
        source = padded[item]
        for start in range(0, counts[0], rows):
            stop = min(start + rows, counts[0])
            block = columns if stop - start == rows else np.empty_like(columns[:, :, :, : stop - start])
            for index, tap in enumerate(taps):
                view = _view(source, windows, tap, counts, 2)
                block[:, :, index] = view[:, :, start:stop]
            flat = block.reshape(groups, depth * len(taps), -1)
            unfolded = np.matmul(matrix, flat)
            out[item, :, :, start:stop] = unfolded.reshape(groups, per_group, stop - start, *counts[1:])
    return out


class _Dense(_Convolution):
    """A convolution whose weights meet all channels of the data, or all those of a group."""

    is_grouped: ClassVar[bool] = False
    """True if the groups are the first dimension of the weights."""
    is_transposed: ClassVar[bool] = False
    """True if the weights have the channels of the data in front of those of the output."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, weights = inputs[0].shape, inputs[1].shape
        element_type = self.result_type(inputs)
        target = inputs[2] if len(inputs) > 2 else None
        lead = 3 if self.is_grouped else 2
        rank = _spatial_rank("weights", data, weights, lead, target)
        if rank is None:
            return [TensorType(element_type, PartialShape.dynamic())]
        data, weights = _with_rank(data, rank + 2), _with_rank(weights, rank + lead)
        filters, depth = weights.dims[lead - 2 : lead][:: -1 if self.is_transposed else 1]
        if self.is_grouped:
            depth, filters = weights[0] * depth, weights[0] * filters
        _check_channels(data[1], depth, data, weights)
        spatial = self.output_sizes(data.dims[2:], weights.dims[lead:], target)
        return [TensorType(element_type, PartialShape([data[0], filters, *spatial]))]

    def result_type(self, inputs: Sequence[TensorType]) -> ElementType:
        return merge_types(inputs[:2])

    def output_sizes(
        self, sizes: Sequence[Dimension], kernel: Sequence[Dimension], target: TensorType | None
    ) -> list[Dimension]:
        """The spatial dimensions of the output; ``target`` is the third input."""
        return self.moved_over(sizes, kernel)


class _Correlation(_Dense):
    """A convolution of data ``[N, G*C, ...]`` with weights ``[G, M, C, ...]``, or ``[M, C, ...]`` without groups."""

    def evaluate(self, *inputs: Array) -> Array:
        data, weights = _working(*inputs)
        weights = weights if self.is_grouped else weights[None]
        out = convolve(data, weights, self.windows(weights.shape[3:]))
        return out.astype(inputs[0].dtype, copy=False)


@operation("Convolution", opset=1)
class Convolution1(_Correlation):
    """``[N, C, ...]`` with weights ``[O, C, ...]`` to ``[N, O, ...]``; the weights are not mirrored."""

    channel_axes = (0,)


@operation("GroupConvolution", opset=1)
class GroupConvolution1(_Correlation):
    """``[N, G*C, ...]`` with weights ``[G, M, C, ...]`` to ``[N, G*M, ...]``: G convolutions side by side."""

    is_grouped = True
    channel_axes = (0, 1)


class _Backprop(_Dense):
    """The transpose of a convolution: every element is spread over a window, and overlapping parts are added up.

    The output's dimension is ``stride*(in-1) + span - pads + output_padding``, or that of the third input; the
    pads of ``same_upper`` and ``same_lower`` then follow from it.
    """

    inputs = (2, 3)
    is_transposed = True

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """Each input element meets the weights of its channel."""
        return _for_each_weight_of_a_channel(inputs[0], inputs[1])

    output_padding: Sequence[int] = integers(default=(0, 0))

    def paddings(self, rank: int) -> Sequence[int]:
        padding = self.output_padding or (0,) * rank
        if len(padding) != rank:
            if any(padding):
                raise InferenceError(f"output_padding must be {rank} numbers, but is {list(padding)}")
            padding = (0,) * rank
        return padding

    def output_sizes(
        self, sizes: Sequence[Dimension], kernel: Sequence[Dimension], target: TensorType | None
    ) -> list[Dimension]:
        rank = len(kernel)
        strides, dilations, begins, ends = self.checked_lists(rank)
        if target is not None:
            bounds = target.known_bounds
            if bounds is None:
                return [DYNAMIC] * rank
            if bounds.lower.size != rank:
                raise InferenceError(f"output_shape must be {rank} numbers, but is {bounds.lower.tolist()}")
            return bounds.dimensions()
        grown = []
        rows = zip(sizes, kernel, strides, dilations, begins, ends, self.paddings(rank))
        for dimension, size, stride, dilation, begin, end, more in rows:
            if self.auto_pad.startswith("same"):
                begin = end = 0

            def spread(n: int, k: int, fixed: int = more - begin - end, s: int = stride, d: int = dilation) -> int:
                return s * (n - 1) + (k - 1) * d + 1 + fixed

            low = max(0, spread(dimension.low, max(size.low, 1)))
            high = INFINITY if INFINITY in (dimension.high, size.high) else spread(dimension.high, size.high)
            if high < 0:
                raise InferenceError(f"pads {begin} and {end} leave less than nothing of the output")
            grown.append(Dimension(min(low, INFINITY), min(high, INFINITY)))
        return grown

    def whole_sizes(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """The spatial dimensions of the output with its padding, of which nothing is cut off."""
        strides, dilations, *_ = self.checked_lists(len(kernel))
        rows = zip(strides, sizes, kernel, dilations, self.paddings(len(kernel)))
        return [s * (n - 1) + (k - 1) * d + 1 + more for s, n, k, d, more in rows]

    def cuts_in_front(self, whole: Sequence[int], target: Sequence[int]) -> Sequence[int]:
        """What is cut off the front of the ``whole`` sizes where the output is to have the ``target`` sizes."""
        if not self.auto_pad.startswith("same"):
            return self.checked_lists(len(whole))[2]
        totals = [max(size - target_size, 0) for size, target_size in zip(whole, target)]
        # Unlike in a convolution, same_upper cuts more off the front.
        return [total - total // 2 if self.auto_pad == "same_upper" else total // 2 for total in totals]

    def transposed(self, data: Array, weights: Array, target: Sequence[int] | None) -> Array:
        """``[N, G*C, ...]`` with weights ``[G, C, M, ...]`` to ``[N, G*M, ...]``."""
        groups, depth, per_group = weights.shape[:3]
        kernel, sizes = weights.shape[3:], data.shape[2:]
        strides, dilations, begins, ends = self.checked_lists(len(kernel))
        whole = self.whole_sizes(sizes, kernel)
        if target is None:
            target = [size - begin - end for size, begin, end in zip(whole, begins, ends)]
        else:
            begins = self.cuts_in_front(whole, target)
        batch = data.shape[0]
        shape = [max(size, begin + target_size) for size, begin, target_size in zip(whole, begins, target)]
        out = np.zeros((batch, groups, per_group, *shape), data.dtype)
        if data.size and out.size:
            source = data.reshape(batch, groups, depth, -1)
            for taps in itertools.product(*[range(k) for k in kernel]):
                tap_of_all: tuple[Any, ...] = (..., *taps)
                matrix = weights[tap_of_all].swapaxes(1, 2)
                part = np.matmul(matrix, source).reshape(batch, groups, per_group, *sizes)
                places: tuple[Any, ...] = tuple(
                    slice(tap * d, tap * d + s * (n - 1) + 1, s)
                    for tap, d, s, n in zip(taps, dilations, strides, sizes)
                )
                out[(..., *places)] += part
        window: tuple[Any, ...] = tuple(slice(begin, begin + target_size) for begin, target_size in zip(begins, target))
        return out[(..., *window)].reshape(batch, groups * per_group, *target)

    def evaluate(self, *inputs: Array) -> Array:
        data, weights = _working(*inputs[:2])
        target = inputs[2].reshape(-1).tolist() if len(inputs) > 2 else None
        out = self.transposed(data, weights if self.is_grouped else weights[None], target)
        return out.astype(inputs[0].dtype, copy=False)


@operation("ConvolutionBackpropData", opset=1)
class ConvolutionBackpropData1(_Backprop):
    """``[N, C, ...]`` with weights ``[C, O, ...]`` to ``[N, O, ...]``."""

    channel_axes = (1,)


@operation("GroupConvolutionBackpropData", opset=1)
class GroupConvolutionBackpropData1(_Backprop):
    """``[N, G*C, ...]`` with weights ``[G, C, M, ...]`` to ``[N, G*M, ...]``."""

    is_grouped = True
    channel_axes = (0, 2)


class _Deformable(_Convolution):
    """A convolution in which each element of the window has an offset of its own.

    Inputs: data ``[N, C, H, W]``, offsets ``[N, 2*D*KH*KW, OH, OW]`` (first rows, then columns, for
    each kernel element), weights ``[O, C/G, KH, KW]``. Values between elements are interpolated.
    """

    inputs = (3, 3)
    group: int = integer(default=1)
    deformable_group: int = integer(default=1)

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """As a convolution; a mask may follow the weights."""
        return _for_each_weight_of_a_channel(outputs[0], inputs[2])

    def fades_out(self) -> bool:
        """True if positions up to one element outside are still interpolated with the data beside them."""
        return False

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, offsets, weights = (value.shape for value in inputs[:3])
        element_type = merge_types(inputs)
        if self.group < 1 or self.deformable_group < 1:
            raise InferenceError("group and deformable_group must be positive")
        subjects = ("data", "offsets", "weights")
        data, offsets, weights = (require_rank(*pair, 4) for pair in zip(subjects, (data, offsets, weights)))
        _check_channels(data[1], weights[1] * self.group, data, weights)
        taps = weights[2] * weights[3] * (2 * self.deformable_group)
        if offsets[1].merge(taps) is None:
            raise InferenceError(f"offsets must have {taps} channels, but have the shape {offsets}")
        spatial = self.moved_over(data.dims[2:], weights.dims[2:])
        positions = [a.merge(b) for a, b in zip(spatial, offsets.dims[2:])]
        if None in positions:
            raise InferenceError(f"offsets of the shape {offsets} do not fit the output's {PartialShape(spatial)}")
        batch = data[0].merge(offsets[0]) or data[0]
        return [TensorType(element_type, PartialShape([batch, weights[0], *positions]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, offsets, weights, *rest = _working(*inputs)
        mask = rest[0] if rest else None
        batch, channels, height, width = data.shape
        out_channels, depth, kernel_h, kernel_w = weights.shape
        window_h, window_w = self.windows((kernel_h, kernel_w))
        rows, columns = window_h.count(height), window_w.count(width)
        taps, parts = kernel_h * kernel_w, self.deformable_group
        shift = offsets.reshape(batch, parts, taps, 2, rows, columns)
        y = self._grid(window_h, height, rows, kernel_h, kernel_w, 0) + shift[:, :, :, 0]
        x = self._grid(window_w, width, columns, kernel_h, kernel_w, 1) + shift[:, :, :, 1]
        seen = self._sample(data.reshape(batch, parts, channels // parts, height * width), y, x, (height, width))
        if mask is not None:
            seen = seen * mask.reshape(batch, parts, 1, taps, rows, columns)
        flat = seen.reshape(batch, self.group, depth * taps, rows * columns)
        matrix = weights.reshape(self.group, out_channels // self.group, depth * taps)
        out = np.matmul(matrix, flat).reshape(batch, out_channels, rows, columns)
        return out.astype(inputs[0].dtype, copy=False)

    @staticmethod
    def _grid(window: Window, size: int, count: int, kernel_h: int, kernel_w: int, axis: int) -> Array:
        """The position of each kernel element without offsets: ``[taps, rows or 1, columns or 1]``."""
        start = np.arange(count) * window.stride - window.pads(size)[0]
        tap = np.arange(window.kernel) * window.dilation
        every = np.repeat(tap, kernel_w) if axis == 0 else np.tile(tap, kernel_h)
        return every[:, None, None] + (start[None, :, None] if axis == 0 else start[None, None, :])

    def _sample(self, data: Array, y: Array, x: Array, sizes: tuple[int, int]) -> Array:
        """Bilinear samples of ``[N, D, C, H*W]`` at ``[N, D, taps, OH, OW]``, with C put third."""
        height, width = sizes
        batch, parts, channels = data.shape[:3]
        edge = 1 if self.fades_out() else 0
        if edge:
            inside = (y > -1) & (y < height) & (x > -1) & (x < width)
        else:
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        top, left = np.floor(y), np.floor(x)
        total = np.zeros((batch, parts, channels, *y.shape[2:]), data.dtype)
        for dy, dx in itertools.product((0, 1), (0, 1)):
            row, column = top + dy, left + dx
            weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column)) * inside
            if self.fades_out():
                weight = weight * ((row >= 0) & (row < height) & (column >= 0) & (column < width))
            place = (np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)).astype(np.intp)
            flat = place.reshape(batch, parts, 1, -1)
            picked = np.take_along_axis(data, np.broadcast_to(flat, (batch, parts, channels, flat.shape[-1])), 3)
            total += picked.reshape(total.shape) * weight[:, :, None].astype(data.dtype)
        return total


@operation("DeformableConvolution", opset=1)
class DeformableConvolution1(_Deformable):
    """Deformable convolution without a mask."""

    group: int = integer()
    deformable_group: int = integer()


@operation("DeformableConvolution", opset=8)
class DeformableConvolution8(_Deformable):
    """Adds a mask ``[N, D*KH*KW, OH, OW]`` that scales each sample.

    With ``bilinear_interpolation_pad`` elements outside the data are zero in the
    interpolation; without, the data's last row and column are repeated, and samples outside are zero.
    """

    inputs = (3, 4)
    group: int = integer()
    deformable_group: int = integer()
    bilinear_interpolation_pad: bool = boolean(default=False)

    def fades_out(self) -> bool:
        return self.bilinear_interpolation_pad


@operation("BinaryConvolution", opset=1)
class BinaryConvolution1(_Dense):
    """A convolution of bits: a bit of the weights (u1) means -1 or 1, and so do data that are 0 or not.

    ``pad_value`` is the bit that padding has. Each sum is the number of equal bits less that of
    differing ones.
    """

    mode: str = enum("xnor-popcount", default="xnor-popcount")
    pad_value: float = real(default=0.0)

    def result_type(self, inputs: Sequence[TensorType]) -> ElementType:
        return inputs[0].element_type

    def evaluate(self, *inputs: Array) -> Array:
        data, weights = inputs
        windows = self.windows(weights.shape[2:])
        signs = np.where(data != 0, np.float32(1), np.float32(-1))
        fill = np.float32(1 if self.pad_value else -1)
        padded = pad_for(signs, windows, fill)
        inner = [
            Window(w.kernel, w.stride, w.dilation, 0, padded.shape[i] - size, "explicit")
            for i, (w, size) in enumerate(zip(windows, padded.shape[2:]), 2)
        ]
        kernel = np.where(weights != 0, np.float32(1), np.float32(-1))
        counts = tuple(window.count(size) for window, size in zip(windows, data.shape[2:]))
        out = convolve(padded, kernel[None], inner)
        kept: tuple[Any, ...] = tuple(slice(0, count) for count in counts)
        return out[(..., *kept)].astype(data.dtype)
