"""Boxes of object detection: NonMaxSuppression in its revisions.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sort/non-max-suppression-9.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, ElementType, PartialShape, as_dimension, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, operation, type_of_elements
from ir_runtime.graph.shapes import require_rank, same_dimension

from .boxes import Shares, by_score, select_unsuppressed, shares_of


class Suppression(Operation):
    """Takes boxes in the order of their scores, without those that overlap one taken before too much.

    The first inputs are boxes ``[batches, boxes, coordinates]`` and scores ``[batches, classes, boxes]``,
    then scalars: the most boxes a class may have (0 by default), the intersection over union that
    suppresses a box, the score that must be exceeded, and sigma where suppression may be soft.
    """

    coordinates: ClassVar[int] = 4
    equal_suppresses: ClassVar[bool] = True
    """True if an intersection over union equal to the threshold is too much already."""
    sort_result_descending: bool = boolean(default=True)

    def index_type(self) -> ElementType:
        return element_types.i64

    def shares(self, boxes: Array) -> Shares:
        """Return the function for the overlap of the boxes of one image."""
        raise NotImplementedError

    def selected(self, inputs: Sequence[TensorType]) -> PartialShape:
        """The shape of the list of boxes taken."""
        boxes, scores = require_rank("the boxes", inputs[0].shape, 3), require_rank("the scores", inputs[1].shape, 3)
        same_dimension("the number of batches of boxes and scores", boxes[0], scores[0])
        count = same_dimension("the number of boxes and of their scores", boxes[1], scores[2])
        same_dimension("the number of a box's coordinates", boxes[2], as_dimension(self.coordinates))
        for value, subject in zip(inputs[2:], ("the limit", "the IoU threshold", "the score threshold", "sigma")):
            if not value.shape.element_count().contains(1):
                raise InferenceError(f"{subject} must be a single number, but has the shape {value.shape}")
        limit: Array | None = np.zeros(1, np.int64) if len(inputs) < 3 else inputs[2].constant
        most = count.high
        if limit is not None:
            most = min(most, max(int(limit.reshape(-1)[0]), 0))
        return PartialShape([Dimension(0, (scores[0] * scores[1] * Dimension(0, most)).high), 3])

    def select(self, boxes: Array, scores: Array, *options: Array) -> tuple[Array, Array]:
        """The rows ``batch, class, box``, and the score of each, which soft suppression may have lowered."""
        settings = [float(option.reshape(-1)[0]) for option in options]
        limit, overlap, least, sigma = settings + [0.0, 0.0, 0.0, 0.0][len(settings) :]
        rows: list[tuple[int, int, int]] = []
        kept_scores: list[Any] = []
        for batch, of_batch in enumerate(scores):
            shares = self.shares(boxes[batch])
            for class_index, of_class in enumerate(of_batch.astype(np.float32)):
                if sigma > 0:
                    taken, values = _soft(shares, of_class, int(limit), least, sigma)
                else:
                    order = by_score(of_class, least)
                    taken = select_unsuppressed(order, shares, overlap, int(limit), inclusive=self.equal_suppresses)
                    values = list(of_class[taken])
                rows += [(batch, class_index, box) for box in taken]
                kept_scores += values
        table, values_taken = np.array(rows, np.int64).reshape(-1, 3), np.array(kept_scores, np.float32)
        if self.sort_result_descending:
            order = np.argsort(-values_taken, kind="stable")
            table, values_taken = table[order], values_taken[order]
        return table.astype(self.index_type().dtype), values_taken


class _NonMaxSuppression(Suppression):
    """Boxes along the axes: two opposite corners ``y1, x1, y2, x2``, or centre, width and height.

    From revision 5 on suppression may be soft: it lowers the scores of overlapping boxes by
    ``exp(-iou^2 / (2 sigma))`` instead of taking the boxes away.

    The output has one row ``batch, class, box`` for each box taken, by batch, class and score, or with
    ``sort_result_descending`` by score alone.
    """

    inputs = (2, 5)
    box_encoding: str = enum("corner", "center", default="corner")

    def shares(self, boxes: Array) -> Shares:
        return shares_of(_corners(boxes, self.box_encoding))

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.index_type(), self.selected(inputs))]

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        return self.select(*inputs)[0]


def _corners(boxes: Array, encoding: str) -> Array:
    """Boxes as lower and upper end of either direction: ``[..., 4]`` in float32."""
    first, second = boxes[..., :2].astype(np.float32), boxes[..., 2:].astype(np.float32)
    if encoding == "center":
        half = second / np.float32(2)
        return np.concatenate([first - half, first + half], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _soft(shares: Shares, scores: Array, limit: int, least: float, sigma: float) -> tuple[list[int], list[Any]]:
    current = scores.copy()
    left = current > least
    taken: list[int] = []
    values: list[Any] = []
    everything = np.arange(len(scores))
    while left.any() and len(taken) < limit:
        best = int(np.argmax(np.where(left, current, -np.inf)))
        taken.append(best)
        values.append(current[best])
        left[best] = False
        share = shares(best, everything)
        current = current * np.exp(np.float32(-0.5 / sigma) * share * share)
        left &= current > least
    return taken, values


@operation("NonMaxSuppression", opset=1)
class NonMaxSuppression1(_NonMaxSuppression):
    """Indices in i64."""


@operation("NonMaxSuppression", opset=3)
class NonMaxSuppression3(_NonMaxSuppression):
    """Indices in ``output_type``."""

    output_type: ElementType = type_of_elements(default=element_types.i64)

    def index_type(self) -> ElementType:
        return self.output_type


@operation("NonMaxSuppression", opset=4)
class NonMaxSuppression4(NonMaxSuppression3):
    """As the third revision."""


@operation("NonMaxSuppression", opset=5)
class NonMaxSuppression5(NonMaxSuppression3):
    """Adds soft suppression, the scores as rows ``batch, class, score``, and the number of rows."""

    inputs = (2, 6)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = self.selected(inputs)
        element_type = inputs[1].element_type
        return [
            TensorType(self.output_type, shape),
            TensorType(element_types.f32 if element_type.is_dynamic else element_type, shape),
            TensorType(self.output_type, PartialShape([1])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        rows, values = self.select(*inputs)
        scored = np.concatenate([rows[:, :2].astype(np.float32), values[:, None]], 1).astype(inputs[1].dtype)
        return rows, scored, np.array([len(rows)], self.output_type.dtype)


@operation("NonMaxSuppression", opset=9)
class NonMaxSuppression9(NonMaxSuppression5):
    """The outputs have exactly as many rows as there are boxes taken."""
