"""The parts of Detectron's networks: proposals, pooling from a pyramid, detections.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-detection-output-6.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape, as_dimension, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, integer, integers, operation, real, reals
from ir_runtime.graph.shapes import require_rank, same_dimension

from .boxes import by_score, refined, select_unsuppressed, shares_of
from .proposals import proposed
from .regions import ROIAlign3


def _pad(values: Array, count: int, dtype: np.dtype[np.generic]) -> Array:
    """The values followed by zeros, ``count`` in all."""
    out = np.zeros((count, *values.shape[1:]), dtype)
    out[: len(values)] = values
    return out


@operation("ExperimentalDetectronGenerateProposalsSingleImage", opset=6)
class ExperimentalDetectronGenerateProposalsSingleImage6(Operation):
    """The best boxes made of given anchors in one image.

    Inputs: the image's height, width and scale ``[3]``, anchors ``[H * W * A, 4]`` as x1, y1, x2, y2,
    deltas ``[4 * A, H, W]`` and scores ``[A, H, W]``. Outputs: ``post_nms_count`` boxes ``[rows, 4]`` and
    their scores ``[rows]``, with zeros after the last one.

    Boxes are cut to the image; those smaller than ``min_size`` go. Of the ``pre_nms_count`` best ones those
    go that overlap a better one by more than ``nms_threshold``.
    """

    inputs = (4, 4)
    min_size: float = real(default=0.0)
    nms_threshold: float = real(default=0.0)
    post_nms_count: int = integer(default=0)
    pre_nms_count: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        names = ("the image's dimensions", "the anchors", "the deltas", "the scores")
        shapes = [require_rank(subject, value.shape, rank) for subject, value, rank in zip(names, inputs, (1, 2, 3, 3))]
        image, anchors, deltas, scores = shapes
        same_dimension("the number of the image's dimensions", image[0], as_dimension(3))
        same_dimension("the number of an anchor's coordinates", anchors[1], as_dimension(4))
        same_dimension("the height of deltas and scores", deltas[1], scores[1])
        same_dimension("the width of deltas and scores", deltas[2], scores[2])
        same_dimension("the number of deltas, four for each score,", deltas[0], scores[0] * 4)
        same_dimension("the number of anchors and of scores", anchors[0], scores.element_count())
        if self.post_nms_count < 0 or self.pre_nms_count < 0:
            raise InferenceError("pre_nms_count and post_nms_count must not be negative")
        element_type = inputs[3].element_type
        return [
            TensorType(element_type, PartialShape([self.post_nms_count, 4])),
            TensorType(element_type, PartialShape([self.post_nms_count])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        image, anchors, deltas, scores = (value.astype(np.float32, copy=False) for value in inputs)
        least = np.full(2, self.min_size, np.float32)
        boxes, values, large = proposed(anchors, deltas, scores, image, least, 1.0)
        order = by_score(values)
        order = order[large[order]][: self.pre_nms_count]
        # Here a box ends at its upper corner, other than where it was moved.
        taken = select_unsuppressed(order, shares_of(boxes), self.nms_threshold, self.post_nms_count)
        dtype = inputs[3].dtype
        return _pad(boxes[taken], self.post_nms_count, dtype), _pad(values[taken], self.post_nms_count, dtype)


@operation("ExperimentalDetectronTopKROIs", opset=6)
class ExperimentalDetectronTopKROIs6(Operation):
    """The ``max_rois`` regions of the greatest probabilities, best first.

    Inputs: regions ``[R, 4]`` and probabilities ``[R]``. The output is ``[max_rois, 4]``, with zeros after
    the last region.
    """

    inputs = (2, 2)
    max_rois: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        regions, values = (
            require_rank("the regions", inputs[0].shape, 2),
            require_rank("the probabilities", inputs[1].shape, 1),
        )
        same_dimension("the number of a region's coordinates", regions[1], as_dimension(4))
        same_dimension("the number of regions and of their probabilities", regions[0], values[0])
        if self.max_rois < 0:
            raise InferenceError(f"max_rois must not be negative, but is {self.max_rois}")
        return [TensorType(inputs[0].element_type, PartialShape([self.max_rois, 4]))]

    def evaluate(self, *inputs: Array) -> Array:
        regions, values = inputs
        order = by_score(values.astype(np.float32), most=self.max_rois)
        return _pad(regions[order], self.max_rois, regions.dtype)


@operation("ExperimentalDetectronPriorGridGenerator", opset=6)
class ExperimentalDetectronPriorGridGenerator6(Operation):
    """Boxes laid around every cell of a grid over the image.

    Inputs: boxes ``[P, 4]`` around 0, a layer ``[N, C, H, W]`` and the image ``[N, C, H, W]``, of which only
    the dimensions count. The output is ``[H * W * P, 4]``, or ``[H, W, P, 4]`` unless ``flatten``.

    ``h`` and ``w`` are the numbers of cells, 0 the layer's; where they are fewer than the layer's the
    output is not full, and zeros follow. ``stride_x`` and ``stride_y`` are the distances of cells, 0 what
    the numbers of cells make of the image.
    """

    inputs = (3, 3)
    flatten: bool = boolean(default=False)
    h: int = integer(default=0)
    w: int = integer(default=0)
    stride_x: float = real(default=0.0)
    stride_y: float = real(default=0.0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        priors = require_rank("the boxes", inputs[0].shape, 2)
        layer, image = require_rank("the layer", inputs[1].shape, 4), require_rank("the image", inputs[2].shape, 4)
        same_dimension("the number of a box's coordinates", priors[1], as_dimension(4))
        same_dimension("the number of images of the layer and the image", layer[0], image[0])
        for cells, dimension, name in ((self.h, layer[2], "h"), (self.w, layer[3], "w")):
            if not 0 <= cells <= dimension.high:
                raise InferenceError(f"{name} must lie between 0 and the layer's dimension {dimension}, but is {cells}")
        shape = [layer[2], layer[3], priors[0]]
        if self.flatten:
            shape = [PartialShape(shape).element_count()]
        return [TensorType(inputs[0].element_type, PartialShape([*shape, 4]))]

    def evaluate(self, *inputs: Array) -> Array:
        priors, layer, image = inputs
        height, width = self.h or layer.shape[2], self.w or layer.shape[3]
        if height > layer.shape[2] or width > layer.shape[3]:
            raise ExecutionError(f"a grid of {height} by {width} cells is larger than a layer of {layer.shape[2:]}")
        steps = (self.stride_y or image.shape[2] / height, self.stride_x or image.shape[3] / width)
        y, x = (
            (np.arange(count, dtype=np.float32) + np.float32(0.5)) * np.float32(step)
            for count, step in zip((height, width), steps)
        )
        across, down = np.meshgrid(x, y)
        shifts = np.stack([across, down, across, down], -1)
        boxes = (priors.astype(np.float32) + shifts[:, :, None]).reshape(-1, 4)
        cells = (*layer.shape[2:], len(priors))
        out = _pad(boxes, int(np.prod(cells)), priors.dtype)
        return out if self.flatten else out.reshape(*cells, 4)


class _LeastOfOne(ROIAlign3):
    """ROIAlign at half pixels, of regions that are at least one element large."""

    def shifts(self) -> tuple[float, float, float]:
        return 0.0, -0.5, 1.0


@operation("ExperimentalDetectronROIFeatureExtractor", opset=6)
class ExperimentalDetectronROIFeatureExtractor6(Operation):
    """ROIAlign of each region from the level of a pyramid that suits its size.

    Inputs: regions ``[R, 4]`` in the image, and layers ``[1, C, H, W]`` that are smaller than the image by
    ``pyramid_scales``. Outputs: ``[R, C, output_size, output_size]``, and the regions.

    A region of 224 by 224 comes from the third layer, one of twice that size from the next, and so on;
    one without an area comes out as zeros.
    """

    inputs = (2, None)
    output_size: int = integer(default=0)
    sampling_ratio: int = integer(default=0)
    pyramid_scales: Sequence[int] = integers(default=())
    aligned: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        regions = require_rank("the regions", inputs[0].shape, 2)
        layers = [require_rank("a layer", value.shape, 4) for value in inputs[1:]]
        same_dimension("the number of a region's coordinates", regions[1], as_dimension(4))
        for layer in layers:
            same_dimension("the number of images of a layer", layer[0], as_dimension(1))
        channels = same_dimension("the number of channels of the layers", *[layer[1] for layer in layers])
        if self.output_size < 1 or self.sampling_ratio < 0:
            raise InferenceError("output_size must be positive, and sampling_ratio must not be negative")
        if len(self.pyramid_scales) < len(layers) or min(self.pyramid_scales) < 1:
            raise InferenceError(f"{len(layers)} layers need as many positive scales, not {list(self.pyramid_scales)}")
        element_type = inputs[0].element_type
        return [
            TensorType(element_type, PartialShape([regions[0], channels, self.output_size, self.output_size])),
            TensorType(element_type, PartialShape([regions[0], 4])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        regions, layers = inputs[0], inputs[1:]
        levels = self._levels(regions.astype(np.float32), len(layers))
        size = self.output_size
        out = np.zeros((len(regions), layers[0].shape[1], size, size), regions.dtype)
        pooling = _LeastOfOne if self.aligned else ROIAlign3
        for level, (layer, scale) in enumerate(zip(layers, self.pyramid_scales)):
            own = np.flatnonzero(levels == level)
            align = pooling(pooled_h=size, pooled_w=size, sampling_ratio=self.sampling_ratio, spatial_scale=1 / scale)
            out[own] = align.evaluate(layer, regions[own], np.zeros(len(own), np.int64))
        return out, regions

    @staticmethod
    def _levels(regions: Array, count: int) -> Array:
        """The layer of each region; ``count`` where a region has no area."""
        area = np.prod(regions[:, 2:] - regions[:, :2], axis=1)
        usable = area > 0
        dimension = np.sqrt(np.where(usable, area, 1)) / np.float32(224)
        level = np.clip(np.floor(np.log2(dimension + np.float32(1e-6)) + np.float32(2)), 0, count - 1)
        return np.where(usable, level, count).astype(np.int64)


@operation("ExperimentalDetectronDetectionOutput", opset=6)
class ExperimentalDetectronDetectionOutput6(Operation):
    """Regions moved for each class, without those that overlap better ones of the class too much.

    Inputs: regions ``[R, 4]`` as x1, y1, x2, y2, deltas ``[R, 4 * num_classes]``, scores
    ``[R, num_classes]``, and the image's height, width and scale ``[1, 3]``. Outputs, of
    ``max_detections_per_image`` rows: boxes ``[rows, 4]``, classes ``[rows]`` in i32, scores ``[rows]``, with
    zeros after the last one.

    The first class is the background and does not come out. Deltas are divided by ``deltas_weights``,
    and the logarithms of growth bounded by ``max_delta_log_wh``. Boxes are cut at 0, but not at the
    image's other end, as OpenVINO does it. At most ``post_nms_count`` boxes of a class come out (-1 is no
    limit), by class and score, or by score alone where there are more than rows.
    """

    inputs = (4, 4)
    score_threshold: float = real(default=0.0)
    nms_threshold: float = real(default=0.0)
    max_delta_log_wh: float = real(default=0.0)
    num_classes: int = integer()
    post_nms_count: int = integer(default=0)
    max_detections_per_image: int = integer(default=0)
    class_agnostic_box_regression: bool = boolean(default=False)
    deltas_weights: Sequence[float] = reals(default=())

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        names = ("the regions", "the deltas", "the scores", "the image's dimensions")
        regions, deltas, scores, image = (
            require_rank(subject, value.shape, 2) for subject, value in zip(names, inputs)
        )
        same_dimension("the number of regions, deltas and scores", regions[0], deltas[0], scores[0])
        same_dimension("the number of a region's coordinates", regions[1], as_dimension(4))
        classes = Dimension(max(self.num_classes, 0), max(self.num_classes, 0))
        same_dimension("the number of a region's deltas, four for each class,", deltas[1], classes * 4)
        same_dimension("the number of classes of the scores", scores[1], classes)
        same_dimension("the number of images", image[0], as_dimension(1))
        same_dimension("the number of the image's dimensions", image[1], as_dimension(3))
        if len(self.deltas_weights) != 4:
            raise InferenceError(f"deltas_weights must be four numbers, but are {list(self.deltas_weights)}")
        rows, element_type = self.max_detections_per_image, inputs[0].element_type
        if rows < 0:
            raise InferenceError(f"max_detections_per_image must not be negative, but is {rows}")
        return [
            TensorType(element_type, PartialShape([rows, 4])),
            TensorType(element_types.i32, PartialShape([rows])),
            TensorType(element_type, PartialShape([rows])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        regions, deltas, scores = (value.astype(np.float32, copy=False) for value in inputs[:3])
        parts = deltas.reshape(len(regions), self.num_classes, 4) / np.array(self.deltas_weights, np.float32)
        boxes = refined(np.broadcast_to(regions[:, None], parts.shape), parts, 1.0, self.max_delta_log_wh)
        boxes[..., 2:] -= 1
        usable = np.all(regions[:, 2:] > regions[:, :2], axis=1, keepdims=True)
        boxes = np.where(usable[:, None], np.maximum(boxes, 0), 0)
        scores = np.where(usable, scores, 0)
        rows = [np.empty((0, 2), np.int64)]
        for class_index in range(1, self.num_classes):
            order = by_score(scores[:, class_index], self.score_threshold)
            most = len(order) if self.post_nms_count == -1 else self.post_nms_count
            shares = shares_of(boxes[:, class_index], 1.0, touching=True)
            taken = select_unsuppressed(order, shares, self.nms_threshold, most)
            rows.append(np.array([(class_index, region) for region in taken], np.int64).reshape(-1, 2))
        classes, taken_regions = np.concatenate(rows).T
        values = scores[taken_regions, classes]
        count = self.max_detections_per_image
        if len(values) > count:
            best = np.lexsort((taken_regions, -values))[:count]
            classes, taken_regions, values = classes[best], taken_regions[best], values[best]
        dtype = inputs[0].dtype
        return (
            _pad(boxes[taken_regions, classes], count, dtype),
            _pad(classes, count, np.dtype(np.int32)),
            _pad(values, count, dtype),
        )
