"""Boxes of object detection: NonMaxSuppression in its revisions.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sort/non-max-suppression-9.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array, ElementType
from ir_runtime.errors import InferenceError
from ir_runtime.operation import Operation, TensorType, boolean, enum, operation, type_of_elements
from ir_runtime.shapes import DYNAMIC, Dimension, PartialShape


def ranked(what: str, shape: PartialShape, rank: int) -> PartialShape:
    """The shape, of which only the rank may be unknown; :class:`InferenceError` for another rank."""
    if shape.has_rank and shape.rank != rank:
        raise InferenceError(f"{what} must have {rank} dimensions, but the shape is {shape}")
    return shape if shape.has_rank else PartialShape.of_rank(rank)


def same_extent(what: str, *extents: Dimension) -> Dimension:
    """What all extents say; :class:`InferenceError` where they contradict each other."""
    found = DYNAMIC
    for extent in extents:
        merged = found.merge(extent)
        if merged is None:
            raise InferenceError(f"{what} must agree, but is {found} and {extent}")
        found = merged
    return found


class _NonMaxSuppression(Operation):
    """Takes boxes in the order of their scores, without those that overlap one taken before too much.

    Inputs: boxes ``[batches, boxes, 4]``, scores ``[batches, classes, boxes]``, then scalars: the most
    boxes a class may have (0 by default), the intersection over union from which on a box is
    suppressed, the score that must be exceeded, and (from revision 5) the sigma of soft suppression,
    which lowers the scores of overlapping boxes by ``exp(-iou^2 / (2 sigma))`` instead of taking the
    boxes away. Boxes are two opposite corners ``y1, x1, y2, x2``, or ``x, y`` of the centre with width
    and height.

    The output has one row ``batch, class, box`` for each box taken, by batch, class and score, or with
    ``sort_result_descending`` by score alone.
    """

    inputs = (2, 5)
    box_encoding: str = enum("corner", "corner", "center")
    sort_result_descending: bool = boolean(True)

    def index_type(self) -> ElementType:
        return element_types.i64

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.index_type(), self._selected(inputs))]

    def _selected(self, inputs: Sequence[TensorType]) -> PartialShape:
        """The shape of the list of boxes taken."""
        boxes, scores = ranked("the boxes", inputs[0].shape, 3), ranked("the scores", inputs[1].shape, 3)
        same_extent("the number of batches of boxes and scores", boxes[0], scores[0])
        count = same_extent("the number of boxes and of their scores", boxes[1], scores[2])
        same_extent("the number of a box's coordinates", boxes[2], Dimension(4, 4))
        for value, what in zip(inputs[2:], ("the limit", "the IoU threshold", "the score threshold", "sigma")):
            if not value.shape.element_count().contains(1):
                raise InferenceError(f"{what} must be a single number, but has the shape {value.shape}")
        limit: Array | None = np.zeros(1, np.int64) if len(inputs) < 3 else inputs[2].constant
        most = count.high
        if limit is not None:
            most = min(most, max(int(limit.reshape(-1)[0]), 0))
        return PartialShape([Dimension(0, (scores[0] * scores[1] * Dimension(0, most)).high), 3])

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        return self.select(*inputs)[0]

    def select(self, boxes: Array, scores: Array, *options: Array) -> tuple[Array, Array]:
        """The rows ``batch, class, box``, and the score of each, which soft suppression may have lowered."""
        given = [float(option.reshape(-1)[0]) for option in options]
        limit, overlap, least, sigma = given + [0.0, 0.0, 0.0, 0.0][len(given) :]
        corners = _corners(boxes, self.box_encoding)
        rows: list[tuple[int, int, int]] = []
        kept_scores: list[Any] = []
        for batch, of_batch in enumerate(scores):
            for kind, of_class in enumerate(of_batch):
                arguments = (corners[batch], of_class.astype(np.float32), int(limit), overlap, least)
                found, values = _soft(*arguments, sigma) if sigma > 0 else _hard(*arguments)
                rows += [(batch, kind, box) for box in found]
                kept_scores += values
        table, values_taken = np.array(rows, np.int64).reshape(-1, 3), np.array(kept_scores, np.float32)
        if self.sort_result_descending:
            order = np.argsort(-values_taken, kind="stable")
            table, values_taken = table[order], values_taken[order]
        return table.astype(self.index_type().dtype), values_taken


def _corners(boxes: Array, encoding: str) -> Array:
    """Boxes as lower and upper end of either direction: ``[..., 4]`` in float32."""
    first, second = boxes[..., :2].astype(np.float32), boxes[..., 2:].astype(np.float32)
    if encoding == "center":
        half = second / np.float32(2)
        return np.concatenate([first - half, first + half], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def overlaps(box: Array, boxes: Array) -> Array:
    """Intersection over union of a box ``[4]`` with others ``[n, 4]``; 0 where either has no area."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = np.prod(np.maximum(sides, 0), axis=1)
    areas, area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), np.prod(box[2:] - box[:2])
    usable = (areas > 0) & (area > 0)
    return np.where(usable, common, 0) / np.where(usable, areas + area - common, 1)


def _hard(boxes: Array, scores: Array, limit: int, overlap: float, least: float) -> tuple[list[int], list[Any]]:
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    taken: list[int] = []
    while len(order) and len(taken) < limit:
        best = int(order[0])
        taken.append(best)
        order = order[1:]
        order = order[overlaps(boxes[best], boxes[order]) < np.float32(overlap)]
    return taken, [scores[i] for i in taken]


def _soft(
    boxes: Array, scores: Array, limit: int, overlap: float, least: float, sigma: float
) -> tuple[list[int], list[Any]]:
    current = scores.copy()
    left = current > least
    taken: list[int] = []
    values: list[Any] = []
    while left.any() and len(taken) < limit:
        best = int(np.argmax(np.where(left, current, -np.inf)))
        taken.append(best)
        values.append(current[best])
        left[best] = False
        share = overlaps(boxes[best], boxes)
        current = current * np.exp(np.float32(-0.5 / sigma) * share * share)
        left &= current > least
    return taken, values


@operation("NonMaxSuppression", opset=1)
class NonMaxSuppression1(_NonMaxSuppression):
    """Indices in i64."""


@operation("NonMaxSuppression", opset=3)
class NonMaxSuppression3(_NonMaxSuppression):
    """Indices in the type asked for."""

    output_type: ElementType = type_of_elements(element_types.i64)

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
        shape = self._selected(inputs)
        kind = inputs[1].element_type
        return [
            TensorType(self.output_type, shape),
            TensorType(element_types.f32 if kind.is_dynamic else kind, shape),
            TensorType(self.output_type, PartialShape([1])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        rows, values = self.select(*inputs)
        scored = np.concatenate([rows[:, :2].astype(np.float32), values[:, None]], 1).astype(inputs[1].dtype)
        return rows, scored, np.array([len(rows)], self.output_type.dtype)


@operation("NonMaxSuppression", opset=9)
class NonMaxSuppression9(NonMaxSuppression5):
    """The outputs have exactly as many rows as there are boxes taken."""
