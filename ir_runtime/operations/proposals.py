"""Regions that a network proposes: Proposal and GenerateProposals.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/proposal-4.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import Array, Dimension, ElementType, PartialShape, as_dimension, element_types
from ir_runtime.graph.operation import (
    Operation,
    TensorType,
    boolean,
    integer,
    operation,
    real,
    reals,
    text,
    type_of_elements,
)
from ir_runtime.graph.shapes import require_rank, same_dimension

from .boxes import by_score, clipped, large_enough, refined, select_unsuppressed, shares_of

LOGARITHM_LIMIT = float(np.log(1000.0 / 16.0))
"""Proposals grow at most by this factor's logarithm, so that nothing overflows."""


class _Proposal(Operation):
    """The best boxes made of anchors in every element of a layer.

    Inputs: scores ``[N, 2 * anchors, H, W]`` (of the background, then of the boxes), deltas
    ``[N, 4 * anchors, H, W]``, and the image's height and width with one or two scales ``[3]`` or
    ``[4]``. Each image comes out as ``post_nms_topn`` rows ``image, x1, y1, x2, y2``; where there are
    fewer boxes a row of image -1 follows them, and zeros.

    The anchors are boxes of ``base_size`` in every ratio of height to width and every scale, laid
    ``feat_stride`` apart. Boxes smaller than ``min_size`` times the scale go. Of the ``pre_nms_topn`` best
    ones those go that overlap a better one by more than ``nms_thresh``. With
    ``framework`` ``tensorflow`` the coordinates are y before x, a box ends at its upper corner (and
    not with the pixel there), and anchors are centred and cut to the image.
    """

    inputs = (3, 3)
    base_size: int = integer(default=0)
    pre_nms_topn: int = integer(default=0)
    post_nms_topn: int = integer(default=0)
    nms_thresh: float = real(default=0.0)
    feat_stride: int = integer(default=1)
    min_size: int = integer(default=1)
    ratio: Sequence[float] = reals(default=())
    scale: Sequence[float] = reals(default=())
    clip_before_nms: bool = boolean(default=True)
    clip_after_nms: bool = boolean(default=False)
    normalize: bool = boolean(default=False)
    box_size_scale: float = real(default=1.0)
    box_coordinate_scale: float = real(default=1.0)
    framework: str = text(default="")

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        scores, deltas = require_rank("the scores", inputs[0].shape, 4), require_rank("the deltas", inputs[1].shape, 4)
        image = require_rank("the image's dimensions", inputs[2].shape, 1)
        batch = same_dimension("the number of images of scores and deltas", scores[0], deltas[0])
        same_dimension("the number of deltas, twice that of scores,", scores[1] * 2, deltas[1])
        if image[0].high < 3 or image[0].low > 4:
            raise InferenceError(f"the image's dimensions must be three or four numbers, but their shape is {image}")
        if self.framework not in ("", "tensorflow"):
            raise InferenceError(f"framework must be empty or 'tensorflow', but is '{self.framework}'")
        if self.post_nms_topn < 0 or self.pre_nms_topn < 0:
            raise InferenceError("pre_nms_topn and post_nms_topn must not be negative")
        return [TensorType(inputs[0].element_type, PartialShape([batch * self.post_nms_topn, 5]))]

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        return self.proposals(*inputs)[0]

    def proposals(self, *inputs: Array) -> tuple[Array, Array]:
        """The rows of boxes, and the score of each."""
        scores, deltas, image = (value.astype(np.float32, copy=False) for value in inputs)
        anchors = self.anchors()
        if scores.shape[1] != 2 * len(anchors):
            raise ExecutionError(f"{len(anchors)} anchors need twice as many scores, but got {scores.shape[1]}")
        if not (image[:2] > 0).all():
            raise ExecutionError(f"the image's dimensions must be positive, but are {image[:2].tolist()}")
        rows = np.zeros((len(scores), self.post_nms_topn, 5), np.float32)
        values = np.zeros((len(scores), self.post_nms_topn), np.float32)
        for index in range(len(scores)):
            boxes, kept_scores = self._of_image(scores[index, len(anchors) :], deltas[index], anchors, image)
            rows[index, : len(boxes), 0], rows[index, : len(boxes), 1:] = index, boxes
            rows[index, len(boxes) : len(boxes) + 1, 0] = -1
            values[index, : len(boxes)] = kept_scores
        dtype = inputs[0].dtype
        return rows.reshape(-1, 5).astype(dtype, copy=False), values.reshape(-1).astype(dtype, copy=False)

    @property
    def is_tensorflow(self) -> bool:
        """True if coordinates are y before x, and boxes end at their upper corners."""
        return self.framework == "tensorflow"

    def anchors(self) -> Array:
        """The boxes of every ratio and scale around one place ``[ratios scales, 4]``."""
        pixel = 0.0 if self.is_tensorflow else 1.0
        ratios, scales = np.asarray(self.ratio, np.float32), np.asarray(self.scale, np.float32)
        widths = np.sqrt(np.float32(self.base_size**2) / ratios)
        if not self.is_tensorflow:
            widths = np.floor(widths + np.float32(0.5))
        heights = widths * ratios
        if not self.is_tensorflow:
            heights = np.floor(heights + np.float32(0.5))
        half = np.stack([widths, heights], -1)[:, None] * scales[:, None]
        half = np.float32(0.5) * (half - np.float32(pixel)).reshape(-1, 2)
        centre = np.float32(0 if self.is_tensorflow else 0.5 * (self.base_size - pixel))
        return np.concatenate([centre - half, centre + half], -1)

    def _of_image(self, scores: Array, deltas: Array, anchors: Array, image: Array) -> tuple[Array, Array]:
        height, width = image[:2] if not self.is_tensorflow else image[1::-1]
        pixel = np.float32(0 if self.is_tensorflow else 1)
        rows, columns = (np.arange(dimension, dtype=np.float32) * self.feat_stride for dimension in scores.shape[1:])
        across, down = np.meshgrid(columns, rows)
        x, y = (down, across) if self.is_tensorflow else (across, down)
        boxes = np.stack([x, y, x, y], -1)[:, :, None] + anchors
        if self.is_tensorflow:
            boxes = clipped(boxes, width, height)
        parts = deltas.reshape(len(anchors), 4, *deltas.shape[1:]).transpose(2, 3, 0, 1)
        divisors = np.repeat(np.array([self.box_coordinate_scale, self.box_size_scale], np.float32), 2)
        boxes = refined(boxes, parts / divisors, float(pixel)).reshape(-1, 4)
        if self.clip_before_nms:
            boxes = clipped(boxes, width - pixel, height - pixel)
        least = np.float32(self.min_size) * image[2:]
        large = large_enough(boxes, least[-1], least[0], float(pixel))
        values = scores.transpose(1, 2, 0).reshape(-1)
        order = by_score(values)
        order = order[large[order]][: self.pre_nms_topn]
        shares = shares_of(boxes, float(pixel), touching=True)
        taken = select_unsuppressed(order, shares, self.nms_thresh, self.post_nms_topn)
        chosen = boxes[taken]
        if self.clip_after_nms:
            chosen = clipped(chosen, width, height)
        if self.normalize:
            chosen = chosen / np.stack([width, height, width, height])
        return chosen, values[taken]


@operation("Proposal", opset=1)
class Proposal1(_Proposal):
    """The boxes alone."""


@operation("Proposal", opset=4)
class Proposal4(_Proposal):
    """Adds the scores, one a row; those of rows without a box are 0."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        boxes = super().infer(inputs)[0]
        return [boxes, TensorType(boxes.element_type, PartialShape([boxes.shape[0]]))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return self.proposals(*inputs)


def proposed(
    anchors: Array, deltas: Array, scores: Array, image: Array, least: Array, pixel: float
) -> tuple[Array, Array, Array]:
    """All boxes of an image, their scores, and whether they are large enough.

    ``anchors`` ``[H * W * A, 4]``, ``deltas`` ``[4 * A, H, W]``, ``scores`` ``[A, H, W]``; ``image`` starts
    with its height and width; ``least`` is the least height and width of a box.
    """
    count, height, width = scores.shape
    parts = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
    boxes = refined(anchors.reshape(-1, 4), parts, pixel, LOGARITHM_LIMIT)
    boxes[:, 2:] -= np.float32(pixel)
    boxes = clipped(boxes, image[1] - np.float32(pixel), image[0] - np.float32(pixel))
    large = large_enough(boxes, least[1], least[0], pixel)
    return boxes, scores.transpose(1, 2, 0).reshape(-1), large


@operation("GenerateProposals", opset=9)
class GenerateProposals9(Operation):
    """The best boxes made of given anchors, image by image.

    Inputs: each image's height and width with one or two scales ``[N, 3]`` or ``[N, 4]``, anchors
    ``[H, W, A, 4]``, deltas ``[N, 4 * A, H, W]`` and scores ``[N, A, H, W]``. Outputs: boxes ``[rows, 4]``
    of all images, their scores ``[rows]``, and the number of rows of each image ``[N]``.

    Boxes are cut to the image. Of the ``pre_nms_count`` best ones those smaller than ``min_size`` times
    the scale go, and those that overlap a better one by more than ``nms_threshold``; at most
    ``post_nms_count`` come out. ``nms_eta`` below 1 multiplies a threshold above a half after each box
    taken. With ``normalized`` the upper corner is where a box ends, and not its last pixel.
    """

    inputs = (4, 4)
    min_size: float = real(default=0.0)
    nms_threshold: float = real(default=0.0)
    post_nms_count: int = integer()
    pre_nms_count: int = integer()
    normalized: bool = boolean(default=True)
    nms_eta: float = real(default=1.0)
    roi_num_type: ElementType = type_of_elements(default=element_types.i64)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        names = ("the images' dimensions", "the anchors", "the deltas", "the scores")
        shapes = [
            require_rank(subject_name, value.shape, rank)
            for subject_name, value, rank in zip(names, inputs, (2, 4, 4, 4))
        ]
        images, anchors, deltas, scores = shapes
        batch = same_dimension("the number of images", images[0], deltas[0], scores[0])
        if images[1].high < 3 or images[1].low > 4:
            raise InferenceError(f"an image's dimensions must be three or four numbers, but their shape is {images}")
        same_dimension("the number of an anchor's coordinates", anchors[3], as_dimension(4))
        for axis, subject in enumerate(("the height", "the width")):
            same_dimension(
                f"{subject} of anchors, deltas and scores", anchors[axis], deltas[axis + 2], scores[axis + 2]
            )
        count = same_dimension("the number of anchors and scores", anchors[2], scores[1])
        same_dimension("the number of deltas, four for each anchor,", deltas[1], count * 4)
        if self.pre_nms_count < 1 or self.post_nms_count < 1:
            raise InferenceError("pre_nms_count and post_nms_count must be positive")
        if not 0 <= self.nms_eta <= 1:
            raise InferenceError(f"nms_eta must lie between 0 and 1, but is {self.nms_eta}")
        rows, element_type = Dimension(0, (batch * self.post_nms_count).high), inputs[3].element_type
        return [
            TensorType(element_type, PartialShape([rows, 4])),
            TensorType(element_type, PartialShape([rows])),
            TensorType(self.roi_num_type, PartialShape([batch])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        images, anchors, deltas, scores = (value.astype(np.float32, copy=False) for value in inputs)
        pixel = 0.0 if self.normalized else 1.0
        rows, values = [np.empty((0, 4), np.float32)], [np.empty(0, np.float32)]
        counts = []
        for image, of_deltas, of_scores in zip(images, deltas, scores):
            least = np.float32(self.min_size) * image[[2, -1]]
            boxes, flat, large = proposed(anchors, of_deltas, of_scores, image, least, pixel)
            order = by_score(flat, most=self.pre_nms_count)
            shares = shares_of(boxes, pixel, touching=True)
            taken = select_unsuppressed(
                order[large[order]], shares, self.nms_threshold, self.post_nms_count, shrink=self.nms_eta
            )
            rows.append(boxes[taken])
            values.append(flat[taken])
            counts.append(len(taken))
        dtype = inputs[3].dtype
        return (
            np.concatenate(rows).astype(dtype, copy=False),
            np.concatenate(values).astype(dtype, copy=False),
            np.array(counts, self.roi_num_type.dtype),
        )
