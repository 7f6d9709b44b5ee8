"""The last layers of detectors with random attributes, boxes and scores: onnxruntime computes what the layer computes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from converter import export_model
from ir_runtime import compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.shape_inference import make_node
from tests.converter.to_onnx.graphs import model, parameter

INDEX_TYPES = (element_types.i32, element_types.i64)
Drawn = tuple[int, dict[str, Any], list[Array]]


class Draw:
    """Random arrays, and choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.chance = random.Random(seed)

    def of(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def size(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def flag(self) -> bool:
        return self.chance.random() < 0.5

    def normal(self, *shape: int, scale: float = 0.3) -> Array:
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def scores(self, *shape: int) -> Array:
        """Scores; now and then some of them are equal."""
        made = self.rng.random(shape).astype(np.float32)
        return np.round(made, 1) if self.chance.random() < 0.3 else made

    def boxes(self, *shape: int, scale: float = 1.0, turned: float = 0.05) -> Array:
        """Boxes; the ends of a few are the wrong way round."""
        low = self.rng.random((*shape, 2)) * scale
        made = np.concatenate([low, low + self.rng.random((*shape, 2)) * scale / 2], -1).astype(np.float32)
        wrong = self.rng.random(shape) < turned
        made[wrong] = made[wrong][..., [2, 3, 0, 1]]
        return made

    def regions(self, images: int, count: int, scale: float) -> Array:
        """Regions of images; now and then the list ends early."""
        made = np.concatenate([self.rng.integers(0, images, (count, 1)), self.boxes(count, scale=scale)], 1)
        if self.chance.random() < 0.3:
            made[self.size(0, count - 1) :, 0] = -1
        return made.astype(np.float32)


def non_max_suppression(d: Draw) -> Drawn:
    images, classes, count = d.size(1, 2), d.size(1, 3), d.size(1, 11)
    given = [d.boxes(images, count, turned=0.2), d.scores(images, classes, count), np.array(d.of(0, 2, 100))]
    given += [np.float32(d.of(0.0, 0.3, 0.6)), np.float32(d.of(0, 0.3))]
    given += [np.float32(d.of(0, 0.3, 1.0))] if d.flag() else []
    attributes = {"box_encoding": d.of("corner", "center"), "sort_result_descending": d.flag()}
    return d.of(5, 9), {**attributes, "output_type": d.of(*INDEX_TYPES)}, given


def _selection(d: Draw) -> dict[str, Any]:
    return {
        "sort_result_type": d.of("none", "classid", "score"),
        "output_type": d.of(*INDEX_TYPES),
        "nms_top_k": d.of(-1, 3, 10),
        "keep_top_k": d.of(-1, 4, 10),
        "sort_result_across_batch": d.flag(),
        "score_threshold": d.of(0.0, 0.3),
        "background_class": d.of(-1, 0, 1),
        "normalized": d.flag(),
    }


def matrix_nms(d: Draw) -> Drawn:
    images, classes, count = d.size(1, 3), d.size(1, 4), d.size(1, 24)
    more = {"decay_function": d.of("linear", "gaussian"), "gaussian_sigma": d.of(1.0, 2.0)}
    attributes = {**_selection(d), **more, "post_threshold": d.of(0.0, 0.2)}
    return 8, attributes, [d.boxes(images, count, scale=d.of(1, 10)), d.scores(images, classes, count)]


def multiclass_nms(d: Draw) -> Drawn:
    images, classes, count = d.size(1, 3), d.size(1, 4), d.size(3, 24)
    attributes = {**_selection(d), "iou_threshold": d.of(0.0, 0.3, 0.7), "nms_eta": d.of(1.0, 1.0, 0.7)}
    if d.flag():
        return d.of(8, 9), attributes, [d.boxes(images, count, scale=d.of(1, 10)), d.scores(images, classes, count)]
    counts = d.rng.multinomial(count - d.size(0, 1), [1 / images] * images).astype(np.int64)
    return 9, attributes, [d.boxes(classes, count), d.scores(classes, count), counts]


def nms_rotated(d: Draw) -> Drawn:
    images, classes, count = d.size(1, 2), d.size(1, 2), d.size(2, 13)
    places, sizes = d.rng.random((images, count, 2)) * 4, d.rng.random((images, count, 2)) * 3 + 0.2
    boxes = np.concatenate([places, sizes, d.rng.random((images, count, 1)) * 6 - 3], -1).astype(np.float32)
    if d.flag():  # the same box twice, and edges on edges
        boxes[:, 1] = boxes[:, 0]
    if d.flag():
        boxes[..., :4], boxes[..., 4] = np.round(boxes[..., :4]), np.round(boxes[..., 4]) * np.float32(np.pi / 2)
    attributes = {"sort_result_descending": d.flag(), "output_type": d.of(*INDEX_TYPES), "clockwise": d.flag()}
    limits = [np.array(d.of(1, 3, 100)), np.float32(d.of(0.1, 0.3, 0.6)), np.float32(d.of(0, 0.3))]
    return 13, attributes, [boxes, d.scores(images, classes, count), *limits]


def detection_output(d: Draw) -> Drawn:
    images, count, classes, opset = d.size(1, 3), d.size(2, 19), d.size(2, 4), d.of(1, 8)
    encoded, normalized, shared = d.flag(), d.flag(), d.flag()
    attributes: dict[str, Any] = {
        "background_label_id": d.of(0, 0, -1, 1),
        "top_k": d.of(-1, 3, 8),
        "variance_encoded_in_target": encoded,
        "keep_top_k": [d.of(-1, 3, 7, 100)],
        "code_type": "caffe.PriorBoxParameter." + d.of("CORNER", "CENTER_SIZE"),
        "share_location": shared,
        "nms_threshold": d.of(0.3, 0.5),
        "confidence_threshold": d.of(0.0, 0.3),
        "clip_after_nms": d.flag(),
        "clip_before_nms": d.flag(),
        "decrease_label_id": d.of(False, False, True),
        "normalized": normalized,
        "input_height": 1 if normalized else 10,
        "input_width": 1 if normalized else 20,
        "objectness_score": d.of(0.0, 0.4),
        **({"num_classes": classes} if opset == 1 else {}),
    }
    lists = d.of(1, images)
    priors = d.boxes(lists, 1, count, turned=0) * (1 if normalized else 10)
    if not normalized:
        number = np.zeros((lists, 1, count, 1), np.float32)
        if d.flag():
            number[:, 0, d.size(1, count - 1) :] = -1
        priors = np.concatenate([number, priors], -1)
    priors = priors.reshape(lists, 1, -1)
    if not encoded:
        priors = np.concatenate([priors, d.rng.random(priors.shape).astype(np.float32) * np.float32(0.3)], 1)
    moves = count * 4 * (1 if shared else classes)
    given = [d.normal(images, moves), d.scores(images, count * classes), priors]
    given += [d.scores(images, count * 2), d.normal(images, moves)] if d.of(False, False, True) else []
    return opset, attributes, given


def proposal(d: Draw) -> Drawn:
    images, height, width = d.size(1, 2), d.size(1, 4), d.size(1, 4)
    ratios, scales = d.of((1.0,), (0.5, 1.0, 2.0)), d.of((2.0,), (1.0, 4.0))
    anchors = len(ratios) * len(scales)
    attributes = {
        "base_size": d.of(8, 16),
        "pre_nms_topn": d.of(5, 100),
        "post_nms_topn": d.of(3, 12),
        "nms_thresh": d.of(0.3, 0.7),
        "feat_stride": d.of(4, 8),
        "min_size": d.of(1, 6),
        "ratio": ratios,
        "scale": scales,
        "clip_before_nms": d.flag(),
        "clip_after_nms": d.flag(),
        "normalize": d.flag(),
        "box_size_scale": d.of(1.0, 5.0),
        "box_coordinate_scale": d.of(1.0, 10.0),
        "framework": d.of("", "tensorflow"),
    }
    image = np.array(d.of([40, 56, 1], [30, 44, 0.5, 2]), np.float32)
    scores = d.scores(images, 2 * anchors, height, width)
    return d.of(1, 4), attributes, [scores, d.normal(images, 4 * anchors, height, width), image]


def generate_proposals(d: Draw) -> Drawn:
    images, height, width, anchors = d.size(1, 2), d.size(1, 3), d.size(1, 3), d.size(1, 3)
    attributes = {
        "min_size": d.of(0.0, 2.0),
        "nms_threshold": d.of(0.3, 0.7),
        "post_nms_count": d.of(2, 10),
        "pre_nms_count": d.of(5, 100),
        "normalized": d.flag(),
        "nms_eta": d.of(1.0, 1.0, 0.8),
        "roi_num_type": d.of(*INDEX_TYPES),
    }
    sizes = np.array([d.of([30, 40, 1], [20, 30, 2]) for _ in range(images)], np.float32)
    boxes = d.boxes(height, width, anchors, scale=30, turned=0)
    scores = d.scores(images, anchors, height, width)
    return 9, attributes, [sizes, boxes, d.normal(images, 4 * anchors, height, width), scores]


def proposals_of_one_image(d: Draw) -> Drawn:
    height, width, anchors = d.size(1, 3), d.size(1, 3), d.size(1, 3)
    attributes = {"min_size": d.of(0.0, 2.0), "nms_threshold": d.of(0.3, 0.7)}
    attributes |= {"post_nms_count": d.of(2, 10), "pre_nms_count": d.of(5, 100)}
    boxes = d.boxes(height * width * anchors, scale=30, turned=0)
    scores = d.scores(anchors, height, width)
    return 6, attributes, [np.array([30, 40, 1], np.float32), boxes, d.normal(4 * anchors, height, width), scores]


def detections(d: Draw) -> Drawn:
    count, classes = d.size(1, 11), d.size(2, 4)
    attributes = {
        "score_threshold": d.of(0.05, 0.3),
        "nms_threshold": d.of(0.3, 0.5),
        "max_delta_log_wh": d.of(2.0, 4.1),
        "num_classes": classes,
        "post_nms_count": d.of(-1, 2, 100),
        "max_detections_per_image": d.of(3, 100),
        "deltas_weights": d.of((10.0, 10.0, 5.0, 5.0), (1.0, 1.0, 1.0, 1.0)),
    }
    boxes = d.boxes(count, scale=30, turned=0.1)
    image = np.array([[30, 40, 1]], np.float32)
    return 6, attributes, [boxes, d.normal(count, 4 * classes, scale=1), d.scores(count, classes), image]


def roi_pooling(d: Draw) -> Drawn:
    images, method = d.size(1, 2), d.of("max", "bilinear")
    scale = d.of(0.5, 1.0) if method == "max" else 1.0
    attributes = {"output_roi": d.of((2, 3), (1, 1), (3, 1)), "spatial_scale": scale, "method": method}
    data = d.normal(images, d.size(1, 3), d.size(2, 8), d.size(2, 8))
    return 2, attributes, [data, d.regions(images, d.size(1, 5), 10 if method == "max" else 0.7)]


def ps_roi_pooling(d: Draw) -> Drawn:
    images, mode, bins, channels = d.size(1, 2), d.of("average", "bilinear"), d.of(1, 2, 3), d.of(1, 2)
    down, across = d.of(1, 2, 3), d.of(1, 2)
    maps = bins * bins if mode == "average" else down * across
    scale = d.of(0.5, 1.0) if mode == "average" else 1.0
    attributes = {"output_dim": channels, "group_size": bins, "spatial_scale": scale, "mode": mode}
    attributes |= {"spatial_bins_x": across, "spatial_bins_y": down}
    data = d.normal(images, channels * maps, d.size(2, 8), d.size(2, 8))
    return 1, attributes, [data, d.regions(images, d.size(1, 4), 10 if mode == "average" else 0.7)]


def deformable_ps_roi_pooling(d: Draw) -> Drawn:
    images, bins, channels, count, parts = d.size(1, 2), d.of(1, 2, 3), d.of(2, 4), d.size(1, 4), d.of(1, 2, 3)
    attributes = {"output_dim": channels, "group_size": bins, "spatial_scale": d.of(0.5, 1.0), "part_size": parts}
    attributes |= {"spatial_bins_x": d.of(1, 2, 4), "spatial_bins_y": d.of(1, 3), "trans_std": d.of(0.1, 1.0)}
    data = d.normal(images, channels * bins * bins, d.size(2, 8), d.size(2, 8))
    given = [data, d.regions(images, count, 10)]
    return 1, attributes, given + ([d.normal(count, 2 * d.of(1, 2), parts, parts)] if d.flag() else [])


def roi_align_rotated(d: Draw) -> Drawn:
    images, count = d.size(1, 2), d.size(1, 5)
    regions = np.concatenate([d.rng.random((count, n)) * scale for n, scale in ((2, 10), (2, 8), (1, 6))], 1)
    attributes = {"pooled_h": d.of(1, 2, 3), "pooled_w": d.of(1, 2), "sampling_ratio": d.of(0, 1, 2, 3)}
    attributes |= {"spatial_scale": d.of(0.5, 1.0), "clockwise_mode": d.flag()}
    data = d.normal(images, d.size(1, 3), d.size(2, 8), d.size(2, 8))
    return 15, attributes, [data, regions.astype(np.float32), d.rng.integers(0, images, count)]


def roi_feature_extractor(d: Draw) -> Drawn:
    layers, channels = d.of(1, 2, 3), d.of(1, 3)
    attributes = {"output_size": d.of(2, 7), "sampling_ratio": d.of(0, 1, 2), "aligned": d.flag()}
    regions = d.boxes(d.size(1, 7), scale=d.of(50.0, 300.0, 600.0), turned=0.1)
    pyramid = [d.normal(1, channels, d.size(3, 39), d.size(3, 39)) for _ in range(layers)]
    return 6, {**attributes, "pyramid_scales": (4, 8, 16)[:layers]}, [regions, *pyramid]


def prior_grid_generator(d: Draw) -> Drawn:
    attributes = {"flatten": d.flag(), "h": d.of(0, 0, 1, 2), "w": d.of(0, 0, 2)}
    attributes |= {"stride_x": d.of(0.0, 4.0, 3.5), "stride_y": d.of(0.0, 4.0)}
    layer, image = np.zeros((1, 2, d.size(2, 5), d.size(2, 5)), np.float32), np.zeros((1, 3, 30, 43), np.float32)
    return 6, attributes, [d.boxes(d.of(1, 3)), layer, image]


def top_k_rois(d: Draw) -> Drawn:
    count = d.size(1, 8)
    return 6, {"max_rois": d.of(1, 3, 20)}, [d.boxes(count), d.scores(count)]


ROWS: dict[str, Callable[[Draw], Drawn]] = {
    "NonMaxSuppression": non_max_suppression,
    "MatrixNms": matrix_nms,
    "MulticlassNms": multiclass_nms,
    "NMSRotated": nms_rotated,
    "DetectionOutput": detection_output,
    "Proposal": proposal,
    "GenerateProposals": generate_proposals,
    "ExperimentalDetectronGenerateProposalsSingleImage": proposals_of_one_image,
    "ExperimentalDetectronDetectionOutput": detections,
    "ExperimentalDetectronROIFeatureExtractor": roi_feature_extractor,
    "ExperimentalDetectronPriorGridGenerator": prior_grid_generator,
    "ExperimentalDetectronTopKROIs": top_k_rois,
    "ROIPooling": roi_pooling,
    "PSROIPooling": ps_roi_pooling,
    "DeformablePSROIPooling": deformable_ps_roi_pooling,
    "ROIAlignRotated": roi_align_rotated,
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ROWS)
def test_onnxruntime_computes_what_the_layer_computes(name: str, seed: int) -> None:
    opset, attributes, arrays = ROWS[name](Draw(seed))
    # The number of channels of offsets must be known.
    is_dynamic = seed % 3 == 2 and name != "DeformablePSROIPooling"
    inputs = [
        parameter(
            f"x{place}",
            *([None] * np.ndim(array) if is_dynamic else np.shape(array)),
            kind=element_types.from_dtype(np.asarray(array).dtype).name,
        )
        for place, array in enumerate(arrays)
    ]
    made = make_node(find_operation(name, opset)(**attributes), inputs, "layer")
    ir = model(inputs, {f"y{place}": output for place, output in enumerate(made.outputs)})
    feeds = {f"x{place}": np.asarray(array) for place, array in enumerate(arrays)}
    expected = compile_model(ir)(feeds)
    session = onnxruntime.InferenceSession(export_model(ir).SerializeToString(), providers=["CPUExecutionProvider"])
    for output, found in zip(session.get_outputs(), session.run(None, feeds)):
        wanted = np.asarray(expected[output.name])
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
