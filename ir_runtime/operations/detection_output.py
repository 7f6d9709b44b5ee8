"""DetectionOutput: the last layer of detectors that start from prior boxes.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/detectionoutput-8.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape, as_dimension
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, integers, operation, real
from ir_runtime.graph.shapes import require_rank, same_dimension

from .boxes import by_score, select_unsuppressed, shares_of

_CORNER, _CENTER = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"


@dataclass
class _Detections:
    """The boxes taken of an image, one entry each."""

    classes: Array
    priors: Array
    scores: Array

    def at(self, rows: Array) -> _Detections:
        return _Detections(self.classes[rows], self.priors[rows], self.scores[rows])


class _DetectionOutput(Operation):
    """Moves prior boxes, and takes the best ones of each class without those that overlap them too much.

    Inputs: how the boxes move ``[N, priors * location classes * 4]``, scores ``[N, priors * classes]``,
    the priors ``[1 or N, 1 or 2, priors * size]`` with their variances in the second row (unless
    ``variance_encoded_in_target``), and perhaps scores ``[N, priors * 2]`` and moves of an earlier stage,
    which moves the priors first and takes those for background whose score is below
    ``objectness_score``. There is one location class with ``share_location``, otherwise each class has
    its own. A prior is x1, y1, x2, y2 in parts of the image, or if not ``normalized`` it has an image's
    number before them, which is -1 after the last prior, and counts pixels of ``input_width`` and
    ``input_height``.

    The output ``[1, 1, rows, 7]`` has rows ``image, class, score, x1, y1, x2, y2`` by image, class and
    score; a row of image -1 follows the last one, and zeros. There are ``keep_top_k`` rows for each
    image, or else ``top_k`` for each class, or else one for each prior and class.

    ``top_k`` limits the candidates: boxes of a class, or of an image with ``decrease_label_id``, which
    takes each prior for its best class alone and counts classes without the first one.
    """

    inputs = (3, 5)
    background_label_id: int = integer(default=0)
    top_k: int = integer(default=-1)
    variance_encoded_in_target: bool = boolean(default=False)
    keep_top_k: Sequence[int] = integers()
    code_type: str = enum(_CORNER, _CORNER, _CENTER)
    share_location: bool = boolean(default=True)
    nms_threshold: float = real(default=0.0)
    confidence_threshold: float = real(default=0.0)
    clip_after_nms: bool = boolean(default=False)
    clip_before_nms: bool = boolean(default=False)
    decrease_label_id: bool = boolean(default=False)
    normalized: bool = boolean(default=False)
    input_height: int = integer(default=1)
    input_width: int = integer(default=1)
    objectness_score: float = real(default=0.0)

    def given_classes(self) -> Dimension:
        """The number of classes, as far as it follows from the attributes."""
        return DYNAMIC

    @property
    def _prior_size(self) -> int:
        return 4 if self.normalized else 5

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        names = ("the moves", "the scores", "the priors", "the earlier scores", "the earlier moves")
        shapes = [
            require_rank(subject, value.shape, rank) for subject, value, rank in zip(names, inputs, (2, 2, 3, 2, 2))
        ]
        if len(inputs) == 4:
            raise InferenceError("earlier scores and earlier moves come together, but there are 4 inputs")
        if not self.keep_top_k:
            raise InferenceError("keep_top_k must have a value")
        images = same_dimension("the number of images", *[shape[0] for i, shape in enumerate(shapes) if i != 2])
        priors, classes = self._counts(shapes)
        if not shapes[2][0].contains(1):
            same_dimension("the number of images and of lists of priors", images, shapes[2][0])
        rows = 1 if self.variance_encoded_in_target else 2
        same_dimension("the number of rows of the priors", shapes[2][1], as_dimension(rows))
        keep = self.keep_top_k[0]
        if keep > 0:
            count = images * keep
        elif keep == -1 and self.top_k > 0:
            count = images * self.top_k * classes
        else:
            count = images * priors * classes
        return [TensorType(inputs[0].element_type, PartialShape([1, 1, count, 7]))]

    def _counts(self, shapes: Sequence[PartialShape]) -> tuple[Dimension, Dimension]:
        """The numbers of priors and classes, as far as they follow from the shapes; raises where these contradict."""
        moves, scores = (same_dimension("the number of moves", *[s[1] for s in shapes[::4]]), shapes[1][1])
        classes = self.given_classes()
        priors = _part("the priors", shapes[2][2], as_dimension(self._prior_size))
        if len(shapes) == 5:
            earlier = _part("the earlier scores", shapes[3][1], as_dimension(2))
            priors = same_dimension("the number of priors and of earlier scores", priors, earlier)
        if self.share_location:
            count = _part("the moves", moves, as_dimension(4))
            priors = same_dimension("the number of priors and of moves", priors, count)
        elif classes.is_static:
            count = _part("the moves", moves, classes * 4)
            priors = same_dimension("the number of priors and of moves of each class", priors, count)
        if classes.is_static:
            priors = same_dimension("the number of priors and of scores", priors, _part("the scores", scores, classes))
        elif priors.is_static and priors.value:
            classes = _part("the scores", scores, priors)
            if not self.share_location:
                count = _part("the moves", moves, priors * 4)
                classes = same_dimension("the number of classes of scores and moves", classes, count)
        return priors, classes

    def evaluate(self, *inputs: Array) -> Array:
        arrays = [value.astype(np.float32, copy=False) for value in inputs]
        images, prior_count = arrays[0].shape[0], arrays[2].shape[2] // self._prior_size
        if not prior_count or arrays[1].shape[1] % prior_count:
            raise ExecutionError(f"{arrays[1].shape[1]} scores cannot be those of {prior_count} priors")
        classes = arrays[1].shape[1] // prior_count
        class_count = arrays[0].shape[1] // (prior_count * 4)
        moves = [value.reshape(images, prior_count, class_count, 4).swapaxes(1, 2) for value in arrays[::4]]
        scores = arrays[1].reshape(images, prior_count, classes)
        if len(inputs) == 5:
            objects = arrays[3].reshape(images, prior_count, 2)[..., 1:] >= np.float32(self.objectness_score)
            scores = np.where(objects, scores, np.arange(classes) == self.background_label_id)
        shape = self.infer([TensorType(f32, PartialShape(value.shape)) for value in inputs])[0].shape
        out = np.zeros(shape.static(), np.float32)
        count = 0
        for image in range(images):
            boxes, usable = self._boxes(arrays[2][min(image, len(arrays[2]) - 1)], [m[image] for m in moves])
            detections = self._of_image(boxes, scores[image, :usable])
            rows = slice(count, count + len(detections.scores))
            count = rows.stop
            chosen = boxes[np.minimum(detections.classes, len(boxes) - 1), detections.priors]
            out[0, 0, rows, 0] = image
            out[0, 0, rows, 1] = detections.classes - int(self.decrease_label_id)
            out[0, 0, rows, 2] = detections.scores
            out[0, 0, rows, 3:] = np.clip(chosen, 0, 1) if self.clip_after_nms else chosen
        out[0, 0, count : count + 1, 0] = -1
        return out.astype(inputs[0].dtype, copy=False)

    def _boxes(self, priors: Array, moves: Sequence[Array]) -> tuple[Array, int]:
        """The boxes of each location class ``[L, priors, 4]``, and how many priors there really are."""
        prior_rows = priors[0].reshape(-1, self._prior_size)
        count, usable = len(prior_rows), len(prior_rows)
        if not self.normalized:
            ends = np.flatnonzero(prior_rows[:, 0] == -1)
            usable = int(ends[0]) if len(ends) else count
        variances = np.ones((count, 4), np.float32)
        if not self.variance_encoded_in_target:
            # Four values a prior without gaps, even where a prior itself has five.
            variances = priors[1, : 4 * count].reshape(count, 4)
        boxes = prior_rows[:, -4:]
        for stage in reversed(moves):
            boxes = self._refine(boxes, variances * stage)
        return boxes, usable

    def _refine(self, boxes: Array, moves: Array) -> Array:
        if not self.normalized:
            # Boxes that the earlier stage moved are divided again, as OpenVINO does.
            boxes = boxes / np.array([self.input_width, self.input_height] * 2, np.float32)
        if self.code_type == _CORNER:
            boxes = boxes + moves
        else:
            sizes = boxes[..., 2:] - boxes[..., :2]
            centres = moves[..., :2] * sizes + (boxes[..., :2] + boxes[..., 2:]) / np.float32(2)
            half = np.exp(moves[..., 2:]) * sizes / np.float32(2)
            boxes = np.concatenate([centres - half, centres + half], -1)
        return np.clip(boxes, 0, 1) if self.clip_before_nms else boxes

    def _of_image(self, boxes: Array, scores: Array) -> _Detections:
        parts = self._best_classes(boxes, scores) if self.decrease_label_id else self._all_classes(boxes, scores)
        classes = [np.full(len(taken), class_index) for class_index, taken in parts]
        priors = [np.asarray(taken, np.int64) for _, taken in parts]
        nothing = [np.empty(0, np.int64)]
        class_indices, prior = np.concatenate(nothing + classes), np.concatenate(nothing + priors)
        detections = _Detections(class_indices, prior, scores[prior, class_indices])
        keep = self.keep_top_k[0]
        if -1 < keep < len(detections.scores):
            detections = detections.at(np.lexsort((detections.priors, -detections.scores))[:keep])
        return detections.at(np.argsort(detections.classes, kind="stable"))

    def _all_classes(self, boxes: Array, scores: Array) -> list[tuple[int, list[int]]]:
        """Suppression within every class."""
        parts = []
        for class_index in range(scores.shape[1]):
            if class_index != self.background_label_id:
                order = by_score(scores[:, class_index], self.confidence_threshold, self.top_k)
                shares = shares_of(boxes[min(class_index, len(boxes) - 1)])
                parts.append((class_index, select_unsuppressed(order, shares, self.nms_threshold, len(order))))
        return parts

    def _best_classes(self, boxes: Array, scores: Array) -> list[tuple[int, list[int]]]:
        """Suppression among priors that have the same best class."""
        considered = scores.copy()
        considered[:, 0] = -np.inf
        if self.background_label_id > 0:
            considered[:, self.background_label_id] = -np.inf
        best = considered.argmax(1)
        greatest = considered.max(1)
        order = by_score(greatest)
        order = order[(greatest[order] >= np.float32(self.confidence_threshold)) & (greatest[order] > -1)]
        order = order if self.top_k < 0 else order[: self.top_k]
        parts = []
        for class_index in np.unique(best[order]).tolist():
            shares = shares_of(boxes[min(class_index, len(boxes) - 1)])
            own = order[best[order] == class_index]
            parts.append((class_index, select_unsuppressed(own, shares, self.nms_threshold, len(own))))
        return parts


def _part(subject: str, whole: Dimension, factor: Dimension) -> Dimension:
    """The other factor of a dimension, where it is known; :class:`InferenceError` where there is none."""
    if not whole.is_static or not factor.is_static:
        return DYNAMIC
    if not factor.value or whole.value % factor.value:
        raise InferenceError(f"{subject} have {whole} values, which is not a multiple of {factor}")
    return as_dimension(whole.value // factor.value)


@operation("DetectionOutput", opset=1)
class DetectionOutput1(_DetectionOutput):
    """The number of classes is an attribute."""

    num_classes: int = integer()

    def given_classes(self) -> Dimension:
        if self.num_classes < 1:
            raise InferenceError(f"num_classes must be positive, but is {self.num_classes}")
        return as_dimension(self.num_classes)


@operation("DetectionOutput", opset=8)
class DetectionOutput8(_DetectionOutput):
    """The number of classes follows from the number of scores."""
