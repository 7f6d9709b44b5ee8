"""The positions of the elements of sliding windows in images, and the data under them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.records import record


@record
class Axis:
    """A spatial dimension: its length, and the window's positions along it."""

    dimension: int
    count: int
    kernel: int
    stride: int
    dilation: int
    begin: int

    def place(self, tap: int) -> tuple[int, int]:
        """The remainder and the shift of an element of the kernel."""
        return (tap * self.dilation) % self.stride, tap * self.dilation // self.stride

    @property
    def padded(self) -> int:
        """The padded length of the image of one remainder."""
        return self.count + max(self.place(tap)[1] for tap in range(self.kernel))

    def source(self, offset: int, count: int) -> tuple[slice, slice, int, int]:
        """Return the slice of the target that is data, its slice of the source, and the padding in front and behind.

        The target has ``count`` elements, a stride apart from ``offset`` on, padding included.
        """
        first = offset - self.begin
        front = min(count, max(0, -(first // self.stride)))
        stop = min(count, max(front, -((first - self.dimension) // self.stride)))
        start = first + front * self.stride
        taken = slice(start, start + (stop - front - 1) * self.stride + 1, self.stride) if stop > front else slice(0, 0)
        return slice(front, stop), taken, front, count - stop


def place_taps(
    image: Array, y: Axis, x: Axis, row: int, column: int, rows: int, out: Array, columns: int | None = None
) -> None:
    """Copy to ``out`` the data under element (row, column) of the kernel at each position, zeros for padding."""
    columns = x.count if columns is None else columns
    down, from_rows, above, below = y.source(row, rows)
    across, from_columns, left, right = x.source(column, columns)
    if above:
        out[..., :above, :] = 0
    if below:
        out[..., rows - below :, :] = 0
    if left:
        out[..., down, :left] = 0
    if right:
        out[..., down, columns - right :] = 0
    out[..., down, across] = image[..., from_rows, from_columns]


def windows_of(image: Array, y: Axis, x: Axis, start: int, count: int) -> Array:
    """Return every window of ``count`` rows of positions, as a view of a padded copy.

    Its shape is ``[G, C, position, kernel, position, kernel]``.
    """
    rows = (count - 1) * y.stride + (y.kernel - 1) * y.dilation + 1
    columns = (x.count - 1) * x.stride + (x.kernel - 1) * x.dilation + 1
    every = replace(y, stride=1), replace(x, stride=1)
    padded = np.empty((*image.shape[:2], rows, columns), np.float32)
    place_taps(image, *every, start * y.stride, 0, rows, padded, columns)
    outer, down, across = padded.strides[:2], padded.strides[2], padded.strides[3]
    return np.lib.stride_tricks.as_strided(
        padded,
        (*image.shape[:2], count, y.kernel, x.count, x.kernel),
        (*outer, down * y.stride, down * y.dilation, across * x.stride, across * x.dilation),
        writeable=False,
    )
