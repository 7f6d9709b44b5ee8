"""Calls of the operations of object detection, and of the colours of images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ir_runtime.graph.element_types import Array
from tests.ir_runtime.calls.base import Call, Maker, calls, ints, normal, one, uniform, whole

CORNER, CENTER = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"


def boxes(*shape: int, scale: float = 8.0) -> Maker:
    """Boxes ``[*shape, 4]`` as lower and upper corners."""

    def draw(random: np.random.Generator) -> Array:
        first = random.uniform(0, scale, (*shape, 2))
        return np.concatenate([first, first + random.uniform(0.5, scale, (*shape, 2))], -1).astype(np.float32)

    draw.__name__ = f"boxes{list(shape)}"
    return draw


def regions(count: int, images: int) -> Maker:
    """Regions ``[count, 5]``: an image's number, then a box."""

    def draw(random: np.random.Generator) -> Array:
        rows = boxes(count)(random)
        return np.concatenate([random.integers(0, images, (count, 1)).astype(np.float32), rows], 1)

    draw.__name__ = f"regions({count})"
    return draw


def _suppressions() -> list[Call]:
    found = []
    given = [boxes(2, 6), uniform(0, 1, 2, 3, 6)]
    limits = [one(4), one(0.4, np.float32), one(0.1, np.float32)]
    for opset in (1, 3, 4, 5, 9):
        found += calls("NonMaxSuppression", opset, *given)
        found += calls("NonMaxSuppression", opset, *given, one(2))
        found += calls("NonMaxSuppression", opset, *given, *limits, sort_result_descending=False)
        found += calls("NonMaxSuppression", opset, *given, ints(9), *limits[1:], box_encoding="center")
        if opset > 1:
            found += calls("NonMaxSuppression", opset, *given, *limits, output_type="i32")
    for opset in (5, 9):
        found += calls("NonMaxSuppression", opset, *given, *limits, one(0.3, np.float32))
    turned = uniform(1, 5, 2, 6, 5)
    for clockwise in (True, False):
        found += calls("NMSRotated", 13, turned, given[1], *limits, clockwise=clockwise)
    for attributes in (
        {},
        {"nms_top_k": 2, "keep_top_k": 4, "background_class": 1, "output_type": "i32"},
        {"sort_result_type": "score", "sort_result_across_batch": True, "normalized": False},
        {"sort_result_type": "classid", "score_threshold": 0.3},
    ):
        more: dict[str, Any] = attributes
        found += calls("MatrixNms", 8, *given, **more)
        found += calls("MulticlassNms", (8, 9), *given, **more, iou_threshold=0.4)
        found += calls("MulticlassNms", 9, boxes(3, 7), uniform(0, 1, 3, 7), ints(4, 0, 3), **more, iou_threshold=0.4)
    return found


def _detections() -> list[Call]:
    found = []
    priors, classes = 5, 3

    def laid(rows: int, size: int, images: int) -> Maker:
        def draw(random: np.random.Generator) -> Array:
            made = boxes(images, rows, priors, scale=0.5)(random)
            if size == 5:
                made = np.concatenate([np.zeros((images, rows, priors, 1), np.float32), made], -1)
            return made.reshape(images, rows, -1)

        draw.__name__ = f"priors({rows},{size},{images})"
        return draw

    scores = uniform(0, 1, 2, priors * classes)
    for opset, share, encoded, normalized, images in itertools.product(
        (1, 8), (True, False), (True, False), (True, False), (1, 2)
    ):
        moves = normal(2, priors * (1 if share else classes) * 4)
        attributes: dict[str, Any] = {
            "keep_top_k": (7,),
            "share_location": share,
            "variance_encoded_in_target": encoded,
            "normalized": normalized,
            "code_type": CORNER,
            "nms_threshold": 0.4,
            **({"num_classes": classes} if opset == 1 else {}),
        }
        given = [moves, scores, laid(1 if encoded else 2, 4 if normalized else 5, images)]
        found += calls("DetectionOutput", opset, *given, **attributes)
        found += calls("DetectionOutput", opset, *given, **{**attributes, "keep_top_k": (-1,), "top_k": 2})
        found += calls("DetectionOutput", opset, *given, **{**attributes, "keep_top_k": (-1,), "code_type": CENTER})
    opset8 = {"keep_top_k": (7,), "normalized": True, "share_location": True, "code_type": CORNER}
    more: dict[str, Any] = opset8
    earlier = [uniform(0, 1, 2, priors * 2), normal(2, priors * 4)]
    found += calls("DetectionOutput", 8, normal(2, priors * 4), scores, laid(2, 4, 1), *earlier, **more)
    found += calls("DetectionOutput", 1, normal(2, priors * 4), scores, laid(2, 4, 1), *earlier, **more, num_classes=3)
    for attributes in (
        {
            "min_size": (4.0,),
            "max_size": (9.0,),
            "aspect_ratio": (2.0,),
            "flip": True,
            "variance": (0.1, 0.1, 0.2, 0.2),
        },
        {"fixed_size": (8.0, 16.0), "density": (2.0, 1.0), "fixed_ratio": (1.0, 2.0), "clip": True},
    ):
        found += calls("PriorBox", (1, 8), ints(3, 4), ints(30, 40), **attributes)
    found += calls(
        "PriorBox", 8, ints(3, 4), ints(30, 40), min_size=(4.0,), max_size=(9.0,), min_max_aspect_ratios_order=False
    )
    found += calls(
        "PriorBoxClustered", 1, ints(3, 4), ints(30, 40), width=(4.0, 8.0), height=(3.0, 6.0), variance=(0.1,)
    )
    return found


def _proposals() -> list[Call]:
    found = []
    for framework, opset in itertools.product(("", "tensorflow"), (1, 4)):
        attributes: dict[str, Any] = {
            "base_size": 16,
            "pre_nms_topn": 20,
            "post_nms_topn": 6,
            "nms_thresh": 0.5,
            "feat_stride": 8,
            "min_size": 4,
            "ratio": (0.5, 1.0),
            "scale": (2.0,),
            "framework": framework,
        }
        for image in ([40, 56, 1], [40, 56, 0.5, 3]):
            dimensions = np.array(image, np.float32)
            found += calls("Proposal", opset, uniform(0, 1, 2, 4, 3, 5), normal(2, 8, 3, 5), dimensions, **attributes)
    anchors = boxes(3, 5, 2)
    for normalized in (True, False):
        image = np.array([[30, 40, 1], [30, 40, 2]], np.float32)
        attributes = {"nms_threshold": 0.4, "post_nms_count": 4, "pre_nms_count": 9, "normalized": normalized}
        given = [image, anchors, normal(2, 8, 3, 5), uniform(0, 1, 2, 2, 3, 5)]
        found += calls("GenerateProposals", 9, *given, **attributes)
        found += calls("GenerateProposals", 9, *given, **attributes, roi_num_type="i32")
    prefix = "ExperimentalDetectron"
    single: dict[str, Any] = {"nms_threshold": 0.4, "post_nms_count": 4, "pre_nms_count": 9, "min_size": 0.5}
    dimensions = np.array([30, 40, 1], np.float32)
    given = [dimensions, boxes(30), normal(8, 3, 5), uniform(0, 1, 2, 3, 5)]
    found += calls(prefix + "GenerateProposalsSingleImage", 6, *given, **single)
    for count in (3, 9):
        found += calls(prefix + "TopKROIs", 6, boxes(6), uniform(0, 1, 6), max_rois=count)
    for flatten, cells in itertools.product((True, False), ({}, {"h": 2, "w": 3, "stride_x": 4.0, "stride_y": 2.0})):
        grid: dict[str, Any] = cells
        given = [boxes(3), normal(1, 2, 4, 5), normal(1, 3, 16, 20)]
        found += calls(prefix + "PriorGridGenerator", 6, *given, flatten=flatten, **grid)
    levels = [normal(1, 4, 8, 8), normal(1, 4, 4, 4)]
    pyramid: dict[str, Any] = {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": (4, 8)}
    found += calls(prefix + "ROIFeatureExtractor", 6, boxes(5, scale=16.0), *levels, **pyramid)
    found += calls(prefix + "ROIFeatureExtractor", 6, boxes(5, scale=16.0), levels[0], **pyramid, aligned=True)
    detect: dict[str, Any] = {
        "score_threshold": 0.1,
        "nms_threshold": 0.5,
        "max_delta_log_wh": 2.0,
        "num_classes": 3,
        "post_nms_count": 4,
        "max_detections_per_image": 6,
        "deltas_weights": (1.0, 1.0, 1.0, 1.0),
    }
    given = [boxes(5), normal(5, 12), uniform(0, 1, 5, 3), np.array([[30, 40, 1]], np.float32)]
    found += calls(prefix + "DetectionOutput", 6, *given, **detect)
    return found


def _regions() -> list[Call]:
    found = []
    data = normal(2, 8, 9, 10)
    size: dict[str, Any] = {"pooled_h": 2, "pooled_w": 3, "spatial_scale": 0.5}
    for opset, mode, ratio in itertools.product((3, 9), ("avg", "max"), (0, 2)):
        given = [data, boxes(4), whole(0, 2, 4)]
        found += calls("ROIAlign", opset, *given, **size, sampling_ratio=ratio, mode=mode)
    found += calls("ROIAlign", 9, data, boxes(4), whole(0, 2, 4), **size, aligned_mode="half_pixel")
    for clockwise in (True, False):
        given = [data, uniform(1, 5, 4, 5), whole(0, 2, 4)]
        found += calls("ROIAlignRotated", 15, *given, **size, sampling_ratio=2, clockwise_mode=clockwise)
    for method in ("max", "bilinear"):
        found += calls("ROIPooling", 2, data, regions(4, 2), **size, method=method)
        found += calls("ROIPooling", 2, data, regions(4, 2), output_roi=(3, 1), spatial_scale=1.0, method=method)
    ended = np.array([[1, 0.1, 0.2, 0.8, 0.9], [0, 0.4, 0.3, 1.2, 0.7], [-1, 0, 0, 1, 1], [0, 0, 0, 1, 1]], np.float32)
    for method in ("max", "bilinear"):
        found += calls("ROIPooling", 2, data, ended, output_roi=(2, 3), spatial_scale=5.0, method=method)
    given = [data, regions(4, 2)]
    found += calls("PSROIPooling", 1, *given, output_dim=2, group_size=2, spatial_scale=0.5, mode="average")
    bins: dict[str, Any] = {"spatial_bins_x": 2, "spatial_bins_y": 2, "mode": "bilinear", "spatial_scale": 0.1}
    found += calls("PSROIPooling", 1, *given, output_dim=2, group_size=3, **bins)
    moved: dict[str, Any] = {"output_dim": 2, "group_size": 2, "spatial_scale": 0.5, "part_size": 2}
    found += calls("DeformablePSROIPooling", 1, *given, **moved)
    found += calls("DeformablePSROIPooling", 1, *given, normal(4, 4, 2, 2), **moved, trans_std=0.1)
    yolo: dict[str, Any] = {"coords": 4, "classes": 3, "num": 2, "axis": 1, "end_axis": 3}
    for softmax in (True, False):
        found += calls("RegionYolo", 1, normal(2, 16, 3, 4), **yolo, do_softmax=softmax, mask=(0, 1))
    found += calls("ReorgYolo", 2, normal(2, 8, 4, 6), stride=(2,)) + calls(
        "ReorgYolo", 2, whole(0, 9, 1, 4, 2, 2), stride=(2,)
    )
    return found


def _colours() -> list[Call]:
    found = []
    for kind in (np.uint8, np.float32):
        for name in ("RGB", "BGR"):
            bright = uniform(0, 255, 2, 4, 6, 1, dtype=kind)
            single = uniform(0, 255, 2, 6, 6, 1, dtype=kind)
            found += calls(f"NV12to{name}", 8, single) + calls(f"I420to{name}", 8, single)
            found += calls(f"NV12to{name}", 8, bright, uniform(0, 255, 2, 2, 3, 2, dtype=kind))
            found += calls(f"I420to{name}", 8, bright, *[uniform(0, 255, 2, 2, 3, 1, dtype=kind)] * 2)
            for plane in (True, False):
                found += calls(f"{name}toNV12", 17, uniform(0, 255, 2, 4, 6, 3, dtype=kind), single_plane=plane)
    return found


CALLS = [*_suppressions(), *_detections(), *_proposals(), *_regions(), *_colours()]
