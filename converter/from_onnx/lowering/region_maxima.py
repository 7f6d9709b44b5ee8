"""Maxima over the points of regions, as ONNX's RoiAlign takes them."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat


@record
class RegionMaxima:
    """ONNX's maxima of RoiAlign: over each point's four neighbours, weighted but not summed.

    That is what ONNX's tests and onnxruntime take for the meaning. The IR's maxima are those of
    interpolated values, and never below 0, so that they are made of a GatherND here: of every point
    along either dimension both neighbours, ``[regions, 2, rows, 2, columns, C]``.
    """

    size: tuple[int, int]
    ratio: int
    scale: float
    shifted: bool

    def greatest(self, ctx: Context, x: Output, rois: Output, batch_indices: Output) -> Output:
        """The maxima ``[regions, C, rows, columns]`` of data ``[n, C, h, w]``."""
        data, corners, batches = (Expression(ctx, value) for value in (x, rois, batch_indices))
        count = corners.size(0)
        rows, row_weights = self._along(corners, 1, self.size[0], data.size(2))
        columns, column_weights = self._along(corners, 0, self.size[1], data.size(3))
        target = count, count.of([2, self.size[0] * self.ratio, 2, self.size[1] * self.ratio, 1])
        places = (batches.as_type("i64"), (1, 2, 3, 4, 5)), (rows, (3, 4, 5)), (columns, (1, 2, 5))
        wide = [index.unsqueeze(*axes).broadcast(*target, mode="numpy") for index, axes in places]
        seen = data.transpose(0, 2, 3, 1).gather_nd(concat(wide, 5))
        seen = seen * row_weights.unsqueeze(3, 4, 5) * column_weights.unsqueeze(1, 2, 5)
        inner = 2, self.size[0], self.ratio, 2, self.size[1], self.ratio
        return seen.reshape(count, *inner, data.size(1)).max(1, 3, 4, 6).transpose(0, 3, 1, 2).value

    def _along(self, corners: Expression, first: int, bins: int, count: Expression) -> tuple[Expression, Expression]:
        """Indices (i64) and weights of both neighbours of every point: ``[regions, 2, bins * ratio]``."""
        scaled = [corners.gather([column], 1) * self.scale for column in (first, first + 2)]
        start, end = (position - 0.5 for position in scaled) if self.shifted else scaled
        length = end - start
        if not self.shifted:
            length = length.maximum(1)
        points = (np.arange(bins * self.ratio) + 0.5) / (bins * self.ratio)
        places = start + length * points[None]
        number = count.as_type(places.element_type)
        inside = (places.greater_equal(-1) & (places <= number)).as_type(places.element_type)
        last = number - 1
        place = places.minimum(last).maximum(0)
        low = place.floor()
        high = (low + 1).minimum(last)
        share = place - low
        near = 1 - share
        indices, weights = (concat([bound.unsqueeze(1) for bound in pair], 1) for pair in ((low, high), (near, share)))
        return indices.as_type("i64"), weights * inside.unsqueeze(1)
