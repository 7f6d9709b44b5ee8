"""NMSRotated: the suppression of boxes that are turned by an angle.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sort/nms-rotated-13.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Array, ElementType, PartialShape, element_types
from ir_runtime.graph.operation import TensorType, boolean, operation, type_of_elements

from .boxes import Shares
from .detection import Suppression


@operation("NMSRotated", opset=13)
class NMSRotated13(Suppression):
    """Suppression of boxes given as centre x, y, width, height and an angle in radians.

    Inputs: boxes ``[batches, boxes, 5]``, scores ``[batches, classes, boxes]``, the most boxes a class
    may have, the intersection over union above which a box is suppressed, and the score that must be
    exceeded. Outputs: a row ``batch, class, box`` for each box taken, as many rows ``batch, class,
    score`` in f32, and the number of rows. ``clockwise`` is meant for a second axis that points down.
    """

    coordinates = 5
    equal_suppresses = False
    inputs = (5, 5)
    output_type: ElementType = type_of_elements(default=element_types.i64)
    clockwise: bool = boolean(default=True)

    def index_type(self) -> ElementType:
        return self.output_type

    def shares(self, boxes: Array) -> Shares:
        boxes = boxes.astype(np.float64)
        corners = _corners(boxes, 1 if self.clockwise else -1)
        areas = boxes[:, 2] * boxes[:, 3]

        def share(index: int, others: Array) -> Array:
            usable = (areas[others] > 0) & (areas[index] > 0)
            common = np.where(usable, _common_area(corners[index], corners[others]), 0)
            return (common / np.where(usable, areas[others] + areas[index] - common, 1)).astype(np.float32)

        return share

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        rows = self.selected(inputs)
        return [
            TensorType(self.output_type, rows),
            TensorType(element_types.f32, rows),
            TensorType(self.output_type, PartialShape([1])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        rows, values = self.select(*inputs)
        scored = np.concatenate([rows[:, :2].astype(np.float32), values[:, None]], 1)
        return rows, scored, np.array([len(rows)], self.output_type.dtype)


def _corners(boxes: Array, direction: int) -> Array:
    """The four corners ``[n, 4, 2]`` of each box, one after the other around it."""
    half = boxes[:, None, 2:4] / 2 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    cosine, sine = np.cos(boxes[:, 4:]), np.sin(boxes[:, 4:]) * direction
    turned = np.stack([half[..., 0] * cosine - half[..., 1] * sine, half[..., 0] * sine + half[..., 1] * cosine], -1)
    return boxes[:, None, :2] + turned


def _common_area(corners: Array, others: Array) -> Array:
    """The area that a rectangle ``[4, 2]`` has in common with each of ``[n, 4, 2]``.

    What they have in common is convex; its corners are among the corners of either that lie within the
    other and the points where their edges cross.
    """
    ones = np.broadcast_to(corners, others.shape)
    crossings, crossed = _crossings(ones, others)
    points = np.concatenate([ones, others, crossings], 1)
    valid = np.concatenate([_within(ones, others), _within(others, ones), crossed], 1)
    count = np.maximum(valid.sum(1), 1)
    centre = np.where(valid[..., None], points, 0).sum(1) / count[:, None]
    away = points - centre[:, None]
    # Points that do not count take the place of one that does, which adds nothing to the area.
    first = np.take_along_axis(away, valid.argmax(1)[:, None, None], 1)
    away = np.where(valid[..., None], away, first)
    order = np.argsort(np.arctan2(away[..., 1], away[..., 0]), axis=1)
    around = np.take_along_axis(away, order[..., None], 1)
    after = np.roll(around, -1, 1)
    doubled = (around[..., 0] * after[..., 1] - around[..., 1] * after[..., 0]).sum(1)
    return np.where(valid.any(1), np.abs(doubled) / 2, 0)


def _within(points: Array, rectangles: Array) -> Array:
    """Return the mask of the points ``[n, k, 2]`` in the rectangles ``[n, 4, 2]`` or on their edges."""
    sides = rectangles[:, [1, 3]] - rectangles[:, :1]
    along = np.einsum("nkd,nsd->nks", points - rectangles[:, :1], sides)
    squares = (sides**2).sum(-1)[:, None]
    slack = 1e-9 * squares
    return ((along >= -slack) & (along <= squares + slack)).all(-1)


def _crossings(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the points where each edge of ``a`` crosses each of ``b`` ``[n, 16, 2]``, and the mask of real ones."""
    along_a, along_b = np.roll(a, -1, 1) - a, np.roll(b, -1, 1) - b
    between = b[:, None] - a[:, :, None]
    turn = _cross(along_a[:, :, None], along_b[:, None])
    lengths = np.linalg.norm(along_a, axis=-1)[:, :, None] * np.linalg.norm(along_b, axis=-1)[:, None]
    meets = np.abs(turn) > 1e-12 * lengths
    turn = np.where(meets, turn, 1)
    on_a, on_b = _cross(between, along_b[:, None]) / turn, _cross(between, along_a[:, :, None]) / turn
    crossed = meets & (on_a >= 0) & (on_a <= 1) & (on_b >= 0) & (on_b <= 1)
    points = a[:, :, None] + on_a[..., None] * along_a[:, :, None]
    return points.reshape(len(a), 16, 2), crossed.reshape(len(a), 16)


def _cross(a: Array, b: Array) -> Array:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
