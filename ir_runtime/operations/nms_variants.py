"""Suppression over all classes of a batch at once: MatrixNms and MulticlassNms.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sort/matrix-non-max-suppression-8.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import Array, Dimension, ElementType, PartialShape, as_dimension, element_types
from ir_runtime.graph.indices import bincount
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, operation, real, type_of_elements
from ir_runtime.graph.shapes import require_rank, same_dimension

from .boxes import by_score, overlaps, select_unsuppressed, shares_of


@dataclass
class _Detections:
    """The boxes taken, one row each: score, class, batch, the box's place in its list, its coordinates."""

    scores: Array
    classes: Array
    batches: Array
    places: Array
    boxes: Array

    @classmethod
    def of(cls, scores: Array, class_index: int, batch: int, places: Array, boxes: Array) -> _Detections:
        count = len(places)
        return cls(scores, np.full(count, class_index), np.full(count, batch), np.asarray(places, np.int64), boxes)

    @classmethod
    def joined(cls, parts: Sequence[_Detections]) -> _Detections:
        nothing = cls.of(np.empty(0, np.float32), 0, 0, np.empty(0, np.int64), np.empty((0, 4), np.float32))
        names = ("scores", "classes", "batches", "places", "boxes")
        return cls(*[np.concatenate([getattr(part, name) for part in (nothing, *parts)]) for name in names])

    def ordered(self, *keys: Array) -> _Detections:
        """Rising by the first key, then by the next ones."""
        return self.at(np.lexsort(keys[::-1]))

    def at(self, rows: Array) -> _Detections:
        return _Detections(
            self.scores[rows], self.classes[rows], self.batches[rows], self.places[rows], self.boxes[rows]
        )


class _Selection(Operation):
    """Boxes of several classes, of which the best of each image come out with class and score.

    Inputs: boxes ``[N, M, 4]`` as x1, y1, x2, y2, and scores ``[N, classes, M]``. Outputs: a row ``class,
    score, x1, y1, x2, y2`` for each box taken, the box's index in the list of all boxes ``[rows, 1]``,
    and the number of rows of each image ``[N]``.

    ``nms_top_k`` limits the boxes of a class that are looked at, ``keep_top_k`` those of an image that
    come out; -1 is no limit. ``background_class`` is left out. With ``normalized`` the upper
    corner is where the box ends, otherwise it is its last pixel. The boxes of an image come by falling score;
    with ``sort_result_across_batch`` those of all images are sorted by score or class.
    """

    inputs = (2, 2)
    sort_result_type: str = enum("none", "classid", "score", default="none")
    output_type: ElementType = type_of_elements(default=element_types.i64)
    nms_top_k: int = integer(default=-1)
    keep_top_k: int = integer(default=-1)
    sort_result_across_batch: bool = boolean(default=False)
    score_threshold: float = real(default=0.0)
    background_class: int = integer(default=-1)
    normalized: bool = boolean(default=True)

    def pixel(self) -> float:
        return 0.0 if self.normalized else 1.0

    def of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        """The places and the scores of the boxes that are taken of one class in one image."""
        raise NotImplementedError

    def sorts_classes_of_image(self) -> bool:
        """True if ``sort_result_type`` holds for the boxes of an image too."""
        return False

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        boxes, scores = require_rank("the boxes", inputs[0].shape, 3), require_rank("the scores", inputs[1].shape, 3)
        images = same_dimension("the number of images of boxes and scores", boxes[0], scores[0])
        count = same_dimension("the number of boxes and of their scores", boxes[1], scores[2])
        return self.outputs(inputs[0].element_type, boxes, count, scores[1], images)

    def outputs(
        self, element_type: ElementType, boxes: PartialShape, count: Dimension, classes: Dimension, images: Dimension
    ) -> list[TensorType]:
        """Types and shapes, given the number of boxes that an image and a class have at most."""
        same_dimension("the number of a box's coordinates", boxes[2], as_dimension(4))
        for name in ("nms_top_k", "keep_top_k", "background_class"):
            if getattr(self, name) < -1:
                raise InferenceError(f"{name} must not be below -1, but is {getattr(self, name)}")
        of_class = count.high if self.nms_top_k < 0 else min(count.high, self.nms_top_k)
        of_image = (Dimension(0, of_class) * classes).high
        if self.keep_top_k >= 0:
            of_image = min(of_image, self.keep_top_k)
        rows = Dimension(0, (Dimension(0, of_image) * images).high)
        return [
            TensorType(element_type, PartialShape([rows, 6])),
            TensorType(self.output_type, PartialShape([rows, 1])),
            TensorType(self.output_type, PartialShape([images])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        boxes, scores = (value.astype(np.float32, copy=False) for value in inputs)
        images = [
            self.of_image(image, [(boxes[image], of_class) for of_class in scores[image]])
            for image in range(len(boxes))
        ]
        detections = self.sorted_across(images)
        return self.written(
            detections, detections.batches * boxes.shape[1] + detections.places, len(boxes), inputs[0].dtype
        )

    def of_image(self, image: int, classes: Sequence[tuple[Array, Array]]) -> _Detections:
        """The boxes that come out of an image, given boxes and scores of each class."""
        parts = []
        for class_index, (boxes, scores) in enumerate(classes):
            if class_index != self.background_class and len(scores):
                places, values = self.of_class(boxes, scores)
                parts.append(_Detections.of(values, class_index, image, places, boxes[places]))
        detections = _Detections.joined(parts)
        detections = detections.ordered(-detections.scores, detections.classes, detections.places)
        if self.keep_top_k >= 0:
            detections = detections.at(np.arange(min(self.keep_top_k, len(detections.scores))))
        if self.sorts_classes_of_image() and self.sort_result_type == "classid":
            detections = detections.ordered(detections.classes, -detections.scores, detections.places)
        return detections

    def sorted_across(self, images: Sequence[_Detections]) -> _Detections:
        detections = _Detections.joined(images)
        if not self.sort_result_across_batch or self.sort_result_type == "none":
            return detections
        keys = (-detections.scores, detections.batches, detections.classes, detections.places)
        if self.sort_result_type == "classid":
            keys = (detections.classes, detections.batches, -detections.scores, detections.places)
        return detections.ordered(*keys)

    def written(
        self, detections: _Detections, indices: Array, images: int, dtype: np.dtype[np.float32]
    ) -> tuple[Array, ...]:
        rows = np.concatenate([detections.classes[:, None], detections.scores[:, None], detections.boxes], 1)
        counts = bincount(detections.batches, images)
        index_dtype = self.output_type.dtype
        return rows.astype(dtype), indices[:, None].astype(index_dtype), counts.astype(index_dtype)


@operation("MatrixNms", opset=8)
class MatrixNms8(_Selection):
    """Lowers the score of each box by how much it overlaps better ones, all at once; takes no box away.

    The factor is the least, over the better boxes of the class, of a decay of the overlap, made up for by
    the greatest overlap that this better box has itself with boxes before it. Boxes come out whose
    lowered score exceeds ``post_threshold``. The order by class holds only across the batch.
    """

    decay_function: str = enum("linear", "gaussian", default="linear")
    gaussian_sigma: float = real(default=2.0)
    post_threshold: float = real(default=0.0)

    def of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        order = by_score(scores, self.score_threshold, self.nms_top_k)
        sorted_boxes, lowered = boxes[order], scores[order]
        greatest = np.zeros(len(order), np.float32)
        for i in range(1, len(order)):
            share = overlaps(sorted_boxes[i], sorted_boxes[:i], self.pixel(), touching=True)
            greatest[i] = share.max()
            lowered[i] *= min(np.float32(1), self._decay(share, greatest[:i]).min())
        is_kept = lowered > np.float32(self.post_threshold)
        return order[is_kept], lowered[is_kept]

    def _decay(self, share: Array, greatest: Array) -> Array:
        if self.decay_function == "gaussian":
            return np.exp((greatest * greatest - share * share) * np.float32(self.gaussian_sigma))
        # In float64, where the small number keeps boxes that are the same from dividing 0 by 0.
        return ((1.0 - share.astype(np.float64)) / (1.0 - greatest.astype(np.float64) + 1e-10)).astype(np.float32)


class _MulticlassNms(_Selection):
    """Takes boxes of each class by score, without those that overlap one taken before by ``iou_threshold``.

    A score counts from ``score_threshold`` on. ``nms_eta`` below 1 multiplies a threshold above a half
    after each box taken.
    """

    iou_threshold: float = real(default=0.0)
    nms_eta: float = real(default=1.0)

    def sorts_classes_of_image(self) -> bool:
        return not self.sort_result_across_batch

    def outputs(
        self, element_type: ElementType, boxes: PartialShape, count: Dimension, classes: Dimension, images: Dimension
    ) -> list[TensorType]:
        if not 0 <= self.nms_eta <= 1:
            raise InferenceError(f"nms_eta must lie between 0 and 1, but is {self.nms_eta}")
        return super().outputs(element_type, boxes, count, classes, images)

    def of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        order = by_score(scores)
        order = order[scores[order] >= np.float32(self.score_threshold)]
        order = order if self.nms_top_k < 0 else order[: self.nms_top_k]
        shares, shrink = shares_of(boxes, self.pixel()), self.nms_eta
        taken = select_unsuppressed(order, shares, self.iou_threshold, len(order), inclusive=True, shrink=shrink)
        return np.array(taken, np.int64), scores[taken]


@operation("MulticlassNms", opset=8)
class MulticlassNms8(_MulticlassNms):
    """Boxes that all classes share."""


@operation("MulticlassNms", opset=9)
class MulticlassNms9(_MulticlassNms):
    """Adds boxes of each class: boxes ``[classes, M, 4]``, scores ``[classes, M]``, boxes of each image ``[N]``.

    The lists then hold the boxes of one image after the other, and indices count box by box, of each
    the classes.
    """

    inputs = (2, 3)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if len(inputs) == 2:
            return super().infer(inputs)
        boxes, scores = require_rank("the boxes", inputs[0].shape, 3), require_rank("the scores", inputs[1].shape, 2)
        images = require_rank("the numbers of boxes", inputs[2].shape, 1)
        classes = same_dimension("the number of classes of boxes and scores", boxes[0], scores[0])
        count = same_dimension("the number of boxes and of their scores", boxes[1], scores[1])
        return self.outputs(inputs[0].element_type, boxes, count, classes, images[0])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        if len(inputs) == 2:
            return super().evaluate(*inputs)
        boxes, scores = (value.astype(np.float32, copy=False) for value in inputs[:2])
        ends = np.cumsum(np.maximum(inputs[2].astype(np.int64), 0))
        if len(ends) and ends[-1] > boxes.shape[1]:
            raise ExecutionError(f"the images have {ends[-1]} boxes, but only {boxes.shape[1]} are given")
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        images = []
        for image, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
            images.append(self.of_image(image, list(zip(boxes[:, start:end], scores[:, start:end]))))
        detections = self.sorted_across(images)
        indices = (starts[detections.batches] + detections.places) * len(boxes) + detections.classes
        return self.written(detections, indices, len(ends), inputs[0].dtype)
