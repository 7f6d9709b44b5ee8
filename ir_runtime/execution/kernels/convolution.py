"""Convolutions of float32 over one or two spatial dimensions, with constant weights.

- One element a window: a product of matrices, without copies where the stride is one.
- Depthwise: a multiplication and an addition for each element of the kernel, over whole padded images at once. The
  padding makes neighbours in a row and rows of an image equally far apart everywhere, so that a shift of the window
  is a shift of the flat image; what falls between two rows is left out of the result.
- Any other: the windows are unfolded along the rows only, and each row of the kernel is a product of its own with
  the unfolded image, shifted by whole rows. That copies as many times as the kernel is wide, not times its area.

With a stride each image is split into as many images as there are remainders, which turns strides into shifts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.graph.mapped_file import aligned
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.windows import Window

from .products import multiply
from .registry import Prepared, Site, is_float32, kernel
from .threads import Workers, scratch
from .window_places import Axis, place_taps, windows_of

_UNFOLDED_ELEMENTS_AT_ONCE = 1 << 20
"""Windows are unfolded in blocks of about this many elements."""
_PADDED_ELEMENTS_AT_ONCE = 1 << 16
"""Depthwise channels are computed in blocks of about this many elements of padded images."""
_MIN_OUTPUTS_FOR_PRODUCT_PER_KERNEL_ROW = 128
"""With fewer output channels all rows of the kernel are multiplied at once, and their products are then summed."""
_MAX_TAPS_COPIED_ONE_BY_ONE = 32
"""With more kernel elements, and few positions, windows are copied at once and not element by element."""
_MIN_ROWS_FOR_ROW_UNFOLDING = 8
"""Images of fewer rows are unfolded in both directions: there is little to copy."""
_MIN_DEPTH_PER_KERNEL_ROW = 16
"""With less depth (channels times kernel width) a product for each kernel row would be too small: whole windows are
unfolded."""


@kernel(Convolution1, GroupConvolution1)
def convolution(node: Node, site: Site) -> Prepared | None:
    weights = site.constants.get(node.inputs[1])
    if weights is None or not is_float32(*node.inputs, *node.outputs):
        return None
    if isinstance(node.op, Convolution1):
        weights = weights[None]
    rank = weights.ndim - 3
    if rank not in (1, 2) or weights.size == 0:
        return None
    return Prepared(_Convolution(node.op, weights, site.workers), fresh=True, packed=(node.inputs[1],))


class _Convolution:
    def __init__(self, op: Any, weights: Array, workers: Workers) -> None:
        self._op = op
        self._workers = workers
        self._groups, self._per_group, self._depth = weights.shape[:3]
        self._kernel = weights.shape[3:]
        self._rank = len(self._kernel)
        if self._rank == 1:
            weights = weights[..., None, :]
        self._height, self._width = weights.shape[3:]
        self._depthwise = self._depth == 1 and self._groups > 1
        self._windowed: Array | None = None
        self._by_row: Array | None = None
        self._stacks: dict[int, Array] = {}
        self._weights = weights if self._height * self._width > 1 else aligned(weights)
        if self._depthwise:
            # [taps, G, M, 1]
            taps = self._height * self._width
            self._factors = np.ascontiguousarray(
                weights.reshape(self._groups, self._per_group, taps).transpose(2, 0, 1)[..., None]
            )
        self._axes: dict[tuple[int, ...], list[Axis]] = {}

    # Weights are packed when images first need that form.

    @property
    def _matrix(self) -> Array:
        """The weights, ``[G, M, kernel * channels]``."""
        if self._windowed is None:
            turned = self._weights.transpose(0, 1, 3, 4, 2)
            self._windowed = _packed(turned.reshape(self._groups, self._per_group, -1))
        return self._windowed

    @property
    def _rows(self) -> Array:
        """The weights, ``[kernel's rows, G, M, kernel's columns * channels]``."""
        if self._by_row is None:
            turned = self._weights.transpose(3, 0, 1, 4, 2)
            self._by_row = _packed(turned.reshape(self._height, self._groups, self._per_group, -1))
        return self._by_row

    def _unfolds_rows(self, y: Axis) -> bool:
        return (
            self._height > 1
            and self._depth * self._width >= _MIN_DEPTH_PER_KERNEL_ROW
            and y.count >= _MIN_ROWS_FOR_ROW_UNFOLDING
        )

    def __call__(self, data: Array, _: Array) -> Array | None:
        if data.ndim != self._rank + 2 or data.shape[1] != self._groups * self._depth:
            return None
        axes = self._axes.get(data.shape)
        if axes is None:
            if len(self._axes) > 32:
                self._axes = {}
            axes = self._axes[data.shape] = self._measure(data.shape[2:])
        y, x = axes
        batch = data.shape[0]
        out = np.empty((batch, self._groups, self._per_group, y.count, x.count), np.float32)
        if out.size and data.size:
            images = data.reshape(batch, self._groups, self._depth, y.dimension, x.dimension)
            if self._depthwise:
                self._by_taps(images, y, x, out)
            elif self._height * self._width == 1:
                self._by_points(images, y, x, out)
            else:
                self._unfold(images, y, x, out)
        elif out.size:
            out[...] = 0
        counts = (y.count, x.count) if self._rank == 2 else (x.count,)
        return out.reshape(batch, self._groups * self._per_group, *counts)

    def _measure(self, dimensions: Sequence[int]) -> list[Axis]:
        windows: list[Window] = self._op.windows(self._kernel)
        axes = []
        for window, dimension in zip(windows, dimensions):
            begin, _ = window.pads(dimension)
            axes.append(Axis(dimension, window.count(dimension), window.kernel, window.stride, window.dilation, begin))
        return axes if len(axes) == 2 else [Axis(1, 1, 1, 1, 1, 0), *axes]

    # --- one element a window ---

    def _by_points(self, images: Array, y: Axis, x: Axis, out: Array) -> None:
        batch = len(images)
        if (y.stride, x.stride, y.begin, x.begin, y.count, x.count) != (1, 1, 0, 0, y.dimension, x.dimension):
            chosen = np.empty((*images.shape[:3], y.count, x.count), np.float32)
            for item, target in zip(images, chosen):
                place_taps(item, y, x, 0, 0, y.count, target)
            images = chosen
        source = images.reshape(batch, self._groups, self._depth, -1)
        self._product(self._matrix, source, out.reshape(batch, self._groups, self._per_group, -1))

    def _product(self, matrix: Any, columns: Array, out: Array) -> None:
        if matrix.shape[0] == 1:
            multiply(self._workers, matrix[0], columns[..., 0, :, :], out[..., 0, :, :])
        else:
            multiply(self._workers, matrix, columns, out)

    # --- dense ---

    def _unfold(self, images: Array, y: Axis, x: Axis, out: Array) -> None:
        by_rows = self._unfolds_rows(y)
        if not by_rows:
            copies = self._height * self._width
            extra = 0
        else:
            copies = self._width * len({y.place(tap)[0] for tap in range(y.kernel)})
            extra = y.padded - y.count
        per_row = self._groups * self._depth * copies * x.count
        if by_rows and self._per_group < _MIN_OUTPUTS_FOR_PRODUCT_PER_KERNEL_ROW:
            # There is room for the products of all rows of the kernel, which are then summed.
            per_row = max(per_row, self._groups * self._per_group * self._height * x.count)
        rows = max(1, min(y.count, _UNFOLDED_ELEMENTS_AT_ONCE // max(1, per_row) - extra))
        if rows < y.count:
            # Parts of about the same size, with at least four times the rows that neighbouring parts share.
            rows = max(rows, min(y.count, 4 * extra))
            rows = -(-y.count // -(-y.count // rows))
        for image, target in zip(images, out):
            for start in range(0, y.count, rows):
                count = min(rows, y.count - start)
                if not by_rows:
                    self._by_windows(image, y, x, start, count, target)
                else:
                    self._by_rows(image, y, x, start, count, target)

    def _by_windows(self, image: Array, y: Axis, x: Axis, start: int, count: int, out: Array) -> None:
        taps = self._height * self._width
        columns = scratch("windows", self._groups * taps * self._depth * count * x.count)
        block = columns.reshape(self._groups, taps, self._depth, count, x.count)

        def fill(numbers: Sequence[int]) -> None:
            for tap in numbers:
                row, column = divmod(tap, self._width)
                offset = row * y.dilation + start * y.stride
                place_taps(image, y, x, offset, column * x.dilation, count, block[:, tap])

        if taps > _MAX_TAPS_COPIED_ONE_BY_ONE and count * x.count < 16 * taps:
            windows = block.reshape(self._groups, self._height, self._width, self._depth, count, x.count)
            np.copyto(windows.transpose(0, 3, 4, 1, 5, 2), windows_of(image, y, x, start, count))
        else:
            self._workers.each(fill, range(taps), columns.size)
        flat = block.reshape(self._groups, taps * self._depth, -1)
        if count == y.count:
            self._product(self._matrix, flat, out.reshape(self._groups, self._per_group, -1))
        else:
            sums = scratch("sums", flat.shape[-1] * self._groups * self._per_group)
            sums = sums.reshape(self._groups, self._per_group, -1)
            self._product(self._matrix, flat, sums)
            out[:, :, start : start + count] = sums.reshape(self._groups, self._per_group, count, x.count)

    def _by_rows(self, image: Array, y: Axis, x: Axis, start: int, count: int, out: Array) -> None:
        rows = count + y.padded - y.count
        phases = sorted({y.place(tap)[0] for tap in range(y.kernel)})
        depth = self._width * self._depth
        columns = scratch("windows", self._groups * len(phases) * depth * rows * x.count)
        block = columns.reshape(len(phases), self._groups, self._width, self._depth, rows, x.count)

        def fill(numbers: Sequence[int]) -> None:
            for number in numbers:
                phase, column = divmod(number, self._width)
                offset = phases[phase] + start * y.stride
                place_taps(image, y, x, offset, column * x.dilation, rows, block[phase, :, column])

        self._workers.each(fill, range(len(phases) * self._width), columns.size)
        flat = block.reshape(len(phases), self._groups, depth, rows * x.count)
        whole = count == y.count
        area = count * x.count
        shape = (self._groups, self._per_group, area)
        total = out.reshape(shape) if whole else scratch("sums", math.prod(shape)).reshape(shape)
        if self._per_group < _MIN_OUTPUTS_FOR_PRODUCT_PER_KERNEL_ROW:
            self._stack(flat, phases, y, x, total)
        else:
            product = scratch("products", math.prod(shape)).reshape(shape)
            for tap in range(self._height):
                phase, shift = y.place(tap)
                seen = flat[phases.index(phase), :, :, shift * x.count : shift * x.count + area]
                self._product(self._rows[tap], seen, product if tap else total)
                if tap:
                    np.add(total, product, out=total)
        if not whole:
            out[:, :, start : start + count] = total.reshape(self._groups, self._per_group, count, x.count)

    def _stack(self, flat: Array, phases: list[int], y: Axis, x: Axis, total: Array) -> None:
        """The products of all rows of the kernel at once, then their sums: for few output channels."""
        area, seen = total.shape[-1], flat.shape[-1]
        empty = True
        for number, phase in enumerate(phases):
            taps = [tap for tap in range(self._height) if y.place(tap)[0] == phase]
            matrix = self._stacks.get(phase)
            if matrix is None:
                stacked = self._rows[taps].transpose(1, 0, 2, 3)
                matrix = self._stacks[phase] = stacked.reshape(self._groups, len(taps) * self._per_group, -1)
            products = scratch("products", self._groups * len(taps) * self._per_group * seen)
            stack = products.reshape(self._groups, len(taps) * self._per_group, seen)
            self._product(matrix, flat[number], stack)
            each = stack.reshape(self._groups, len(taps), self._per_group, seen)
            for index, tap in enumerate(taps):
                start = y.place(tap)[1] * x.count
                part = each[:, index, :, start : start + area]
                if empty:
                    np.copyto(total, part)
                else:
                    np.add(total, part, out=total)
                empty = False

    # --- depthwise ---

    def _by_taps(self, images: Array, y: Axis, x: Axis, out: Array) -> None:
        height, width = y.padded, x.padded
        # One further row, so that every shifted image ends inside.
        area = (height + 1) * width
        length = y.count * width
        places = []
        phases: dict[tuple[int, int], int] = {}
        for tap in range(y.kernel * x.kernel):
            row, column = divmod(tap, x.kernel)
            (phase_y, shift_y), (phase_x, shift_x) = y.place(row), x.place(column)
            number = phases.setdefault((phase_y, phase_x), len(phases))
            places.append((number, shift_y * width + shift_x))
        step = max(1, _PADDED_ELEMENTS_AT_ONCE // max(1, area * len(phases)))
        starts = [(item, start) for item in range(len(images)) for start in range(0, self._groups, step)]
        more = self._per_group

        def work(parts: Sequence[tuple[int, int]]) -> None:
            padded_all = scratch("images", len(phases) * step * area)
            sums_all, products_all = scratch("sums", 2 * step * more * length).reshape(2, -1)
            for item, start in parts:
                count = min(step, self._groups - start)
                padded = padded_all[: len(phases) * count * area].reshape(len(phases), count, height + 1, width)
                padded[:, :, height] = 0
                for (phase_y, phase_x), number in phases.items():
                    source = images[item, start : start + count, 0]
                    place_taps(source, y, x, phase_y, phase_x, height, padded[number, :, :height], width)
                flat = padded.reshape(len(phases), count, 1, area)
                sums = sums_all[: count * more * length].reshape(count, more, length)
                product = products_all[: count * more * length].reshape(count, more, length)
                for tap, (number, shift) in enumerate(places):
                    factor = self._factors[tap, start : start + count]
                    np.multiply(flat[number, :, :, shift : shift + length], factor, out=product if tap else sums)
                    if tap:
                        np.add(sums, product, out=sums)
                out[item, start : start + count] = sums.reshape(count, more, y.count, width)[..., : x.count]

        effort = 2 * len(places) * len(images) * self._groups * more * length
        self._workers.each(work, starts, effort)


def _packed(weights: Array) -> Array:
    return np.require(weights, np.float32, ["C", "A"])
