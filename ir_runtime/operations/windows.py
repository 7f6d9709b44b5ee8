"""Sliding windows over spatial dimensions, as convolution and pooling share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InferenceError
from ..graph import INFINITY, Array, Dimension
from ..records import record


@record
class Window:
    """The geometry of a window along one dimension; ``rounding`` is floor, ceil or ceil_torch."""

    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int
    auto_pad: str = "explicit"
    rounding: str = "floor"

    @property
    def span(self) -> int:
        """The number of elements from the first to the last one in the window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    def count(self, dimension: int) -> int:
        """The number of positions of the window along ``dimension`` elements."""
        if self.auto_pad in ("same_upper", "same_lower"):
            return -(-dimension // self.stride)
        pads = 0 if self.auto_pad == "valid" else self.pad_begin + self.pad_end
        room = dimension + pads - self.span
        if room < 0:
            raise InferenceError(
                f"a window of {self.span} elements does not fit into {dimension} with {pads} of padding"
            )
        if self.rounding == "floor":
            return room // self.stride + 1
        positions = -(-room // self.stride) + 1
        # A window may not start beyond the data and the padding in front of it.
        begin = 0 if self.auto_pad == "valid" else self.pad_begin
        if self.rounding == "ceil_torch" and (positions - 1) * self.stride >= dimension + begin:
            positions -= 1
        return positions

    def count_dimension(self, dimension: Dimension) -> Dimension:
        """:meth:`count` of a dimension that may be unknown."""
        is_same = self.auto_pad.startswith("same")
        pads = self.pad_begin + self.pad_end if self.auto_pad == "explicit" else 0
        # Where the window does not fit there is no output at all.
        least = 0 if is_same else self.span - pads
        if self.stride == 1 and (is_same or pads == self.span - 1) and dimension.low >= least:
            return dimension
        low = self.count(min(max(dimension.low, least), dimension.high))
        return Dimension(low, INFINITY if dimension.high == INFINITY else self.count(dimension.high))

    def pads(self, dimension: int) -> tuple[int, int]:
        """Padding in front and behind, as ``auto_pad`` gives it."""
        if self.auto_pad == "valid":
            return 0, 0
        if self.auto_pad == "explicit":
            return self.pad_begin, self.pad_end
        total = max((self.count(dimension) - 1) * self.stride + self.span - dimension, 0)
        smaller, larger = total // 2, total - total // 2
        return (smaller, larger) if self.auto_pad == "same_upper" else (larger, smaller)


def pad_for(data: Array, windows: Sequence[Window], value: object) -> Array:
    """``data`` with its trailing dimensions padded so that every window position lies inside."""
    lead = data.ndim - len(windows)
    widths = [(0, 0)] * lead
    for window, dimension in zip(windows, data.shape[lead:]):
        begin, end = window.pads(dimension)
        reach = (window.count(dimension) - 1) * window.stride + window.span
        widths.append((begin, max(end, reach - dimension - begin)))
    if not any(begin or end for begin, end in widths):
        return data
    shape = [n + begin + end for n, (begin, end) in zip(data.shape, widths)]
    padded = np.full(shape, value, data.dtype)
    padded[tuple(slice(begin, begin + n) for n, (begin, _) in zip(data.shape, widths))] = data
    return padded


def shifted(padded: Array, axis: int, window: Window, tap: int, count: int) -> Array:
    """Element ``tap`` of the window at each of ``count`` positions along ``axis``: a view."""
    start = tap * window.dilation
    index: list[slice] = [slice(None)] * padded.ndim
    index[axis] = slice(start, start + (count - 1) * window.stride + 1, window.stride)
    if count <= 0:
        index[axis] = slice(0, 0)
    return padded[tuple(index)]


def covered(window: Window, dimension: int, include_padding: bool) -> Array:
    """For each window position, how many of its elements lie on data (or data and padding)."""
    begin, end = window.pads(dimension)
    positions = np.arange(window.count(dimension))[:, None] * window.stride
    elements = positions + np.arange(window.kernel)[None, :] * window.dilation
    low, high = (0, dimension + begin + end) if include_padding else (begin, begin + dimension)
    return ((elements >= low) & (elements < high)).sum(axis=1)
