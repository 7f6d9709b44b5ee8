"""The layers of object detection: suppression, priors, proposals, regions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ir_runtime.graph import Array
from tests.rows.layer import Layer, Maker, ints, layers, normal, one, uniform, whole
from tests.rows.row import Tolerance, each

EITHER = each(True, False)
NEAR = Tolerance(1e-4, 1e-4)
CORNER, CENTER = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"


def boxes(*shape: int, scale: float = 8.0, least: float = 0.5) -> Maker:
    """Boxes ``[*shape, 4]`` as lower and upper corners."""

    def draw(random: np.random.Generator) -> Array:
        first = random.uniform(0, scale, (*shape, 2))
        return np.concatenate([first, first + random.uniform(least, scale, (*shape, 2))], -1).astype(np.float32)

    draw.__name__ = f"boxes{list(shape)}"
    return draw


def regions(count: int, images: int) -> Maker:
    """Regions ``[count, 5]``: an image's number, then a box."""

    def draw(random: np.random.Generator) -> Array:
        rows = boxes(count)(random)
        return np.concatenate([random.integers(0, images, (count, 1)).astype(np.float32), rows], 1)

    draw.__name__ = f"regions({count})"
    return draw


# --- suppression ---

_RNG = np.random.default_rng(21)
_MANY = boxes(3, 30, scale=6)(_RNG)
_MANY[0, 3] = _MANY[0, 2]  # twice the same box
_MANY[0, 5, 2:] = _MANY[0, 5, :2]  # no area
_SCORES = _RNG.uniform(0, 1, (3, 4, 30)).astype(np.float32)
_TURNED = np.concatenate(
    [_RNG.uniform(0, 6, (2, 25, 2)), _RNG.uniform(0.5, 5, (2, 25, 2)), _RNG.uniform(-4, 4, (2, 25, 1))], -1
)
_TURNED[0, 3] = _TURNED[0, 2]
_TURNED[0, 4] = [*_TURNED[0, 5, :4], _TURNED[0, 5, 4] + np.pi / 2]
_TURNED[1, 3, 2] = 0  # no area
_TURNED[:, 10:15, 4] = 0
_TWO = [boxes(2, 6), uniform(0, 1, 2, 3, 6)]
_FEW = {0: (2, None, 4), 1: (2, 3, None)}
_ALL = [_MANY, _SCORES]
_OPEN = {0: (None, None, 4), 1: (None, None, None)}
_ORDERS = [{"sort_result_type": kind, "sort_result_across_batch": across}
           for kind in ("none", "score", "classid") for across in (False, True)]  # fmt: skip
_LIMITS: list[dict[str, Any]] = [
    {},
    {"nms_top_k": 6, "score_threshold": 0.3},
    {"keep_top_k": 5, "background_class": 1},
    {"nms_top_k": 9, "keep_top_k": 11, "normalized": False, "output_type": "i32"},
]


def limits(most: int, overlap: float, least: float, *sigma: float) -> list[Array]:
    return [one(most), *(one(value, np.float32) for value in (overlap, least, *sigma))]


def _suppressions(opset: int) -> list[Layer]:
    kind: dict[str, Any] = {} if opset == 1 else {"output_type": "i32"}
    fixed = {"fixed": (3, 4), "dims": _FEW}
    return [
        *layers("NonMaxSuppression", opset, *_TWO, dims=_FEW),
        *layers("NonMaxSuppression", opset, *_TWO, one(2), dims=_FEW),
        *layers("NonMaxSuppression", opset, *_TWO, *limits(4, 0.4, 0.1), sort_result_descending=False, **fixed),
        *layers("NonMaxSuppression", opset, *_TWO, *limits(9, 0.4, 0.1), box_encoding="center", **fixed),
        *layers("NonMaxSuppression", opset, *_TWO, *limits(4, 0.4, 0.1), **kind, **fixed),
        *layers("NonMaxSuppression", opset, _MANY[:2, :20], _SCORES[:2, :3, :20], *limits(6, 0.3, 0.2), **kind,
                **fixed, box_encoding=each("corner", "center"), sort_result_descending=EITHER),
    ]  # fmt: skip


def _with_attributes() -> list[Layer]:
    found = []
    for order, limit in product(_ORDERS, _LIMITS):
        more = {**order, **limit}
        found += layers("MatrixNms", 8, *_ALL, dims=_OPEN, **more, decay_function=each("linear", "gaussian"))
        found += layers("MulticlassNms", each(8, 9), *_ALL, dims=_OPEN, **more, iou_threshold=0.2)
        if limit is not _LIMITS[3]:
            counts = each(ints(10, 0, 20), ints(30), ints(5, 5, 5, 5))
            found += layers(
                "MulticlassNms", 9, _MANY, _SCORES[:, 0], counts, **more, iou_threshold=0.3, dims={0: (3, None, 4)}
            )
    return found


# --- detections of SSD ---

_PRIORS, _CLASSES = 25, 4
_FIRST = _RNG.uniform(0, 0.7, (2, _PRIORS, 2))
_BOXES = np.concatenate([_FIRST, _FIRST + _RNG.uniform(0.05, 0.4, (2, _PRIORS, 2))], -1)
_VARIANCES = _RNG.uniform(0.05, 0.3, (2, _PRIORS, 4))
_KINDS = _RNG.uniform(0, 1, (2, _PRIORS * _CLASSES)).astype(np.float32)
_OBJECTS = _RNG.uniform(0, 1, (2, _PRIORS * 2)).astype(np.float32)


def _priors(normalized: bool, encoded: bool, images: int, ends: int = _PRIORS) -> Array:
    """Boxes and perhaps their variances, in pixels of 60 by 40 after a number if not normalized."""
    made = _BOXES[:images]
    if not normalized:
        numbers = np.zeros((images, _PRIORS, 1))
        numbers[:, ends:] = -1
        made = np.concatenate([numbers, made * np.array([60, 40, 60, 40])], -1)
    rows = made.reshape(images, 1, -1)
    if not encoded:
        variances = np.zeros_like(rows)
        variances[:, 0, : 4 * _PRIORS] = _VARIANCES[:images].reshape(images, -1)
        rows = np.concatenate([rows, variances], 1)
    return rows.astype(np.float32)


def _moves(share: bool, scale: float = 1.0) -> Array:
    count = 1 if share else _CLASSES
    return (np.random.default_rng(25).standard_normal((2, _PRIORS * count * 4)) * scale * 0.3).astype(np.float32)


def _detected(*inputs: Any, opsets: tuple[int, ...] = (8,), note: str = "", **attributes: Any) -> list[Layer]:
    plain = {"keep_top_k": (15,), "nms_threshold": 0.4, "confidence_threshold": 0.2, "code_type": CORNER,
             "share_location": True, "normalized": True, **attributes}  # fmt: skip
    classes = {1: {"num_classes": _CLASSES}, 8: {}}
    return [row for opset in opsets for row in layers(
        "DetectionOutput", opset, *inputs, note=note, **plain, **classes[opset])]  # fmt: skip


_SELECTIONS: list[dict[str, Any]] = [
    {"keep_top_k": (6,)},
    {"keep_top_k": (100,)},
    {"keep_top_k": (-1,), "top_k": 7},
    {"keep_top_k": (-1,)},
    {"keep_top_k": (8,), "top_k": 12, "confidence_threshold": 0.7},
    {"nms_threshold": 0.05, "clip_before_nms": True},
    {"nms_threshold": 0.8, "clip_after_nms": True},
    {"confidence_threshold": 2.0},
]
_PIXELS: dict[str, Any] = {"normalized": False, "input_width": 60, "input_height": 40}
_BOTH = (True, False)
_DETECTED = [
    *(row for share, encoded, images in product(_BOTH, _BOTH, (1, 2)) for row in _detected(
        _moves(share, 0.3 if encoded else 1.0), _KINDS, _priors(True, encoded, images), opsets=(1, 8),
        code_type=each(CORNER, CENTER), share_location=share, variance_encoded_in_target=encoded)),
    *(row for share, selection in product(_BOTH, _SELECTIONS) for row in _detected(
        _moves(share), _KINDS, _priors(True, False, 1), share_location=share, decrease_label_id=EITHER, **selection)),
    *(row for share in _BOTH for row in _detected(
        _moves(share), _KINDS, _priors(True, False, 1), share_location=share, keep_top_k=(-1,),
        background_label_id=each(-1, 0, 2), note=" background")),
    *(row for encoded, ends in product(_BOTH, (_PRIORS, 14)) for row in _detected(
        _moves(True, 0.3), _KINDS, _priors(False, encoded, 2, ends), code_type=each(CORNER, CENTER),
        variance_encoded_in_target=encoded, decrease_label_id=EITHER, note=f" up to {ends}", **_PIXELS)),
    *(row for share, normalized in product(_BOTH, _BOTH) for row in _detected(
        _moves(share), _KINDS, _priors(normalized, False, 2), _OBJECTS, _moves(share, 0.5)[:, ::-1].copy(), opsets=(1,
            8), objectness_score=0.4, code_type=each(CORNER, CENTER), share_location=share, decrease_label_id=EITHER,
        normalized=normalized, note=" after an earlier stage")),
]  # fmt: skip
_SIZES = (ints(3, 4), ints(48, 64))
_VARIANCE = each((), (0.2,), (0.1, 0.2, 0.3, 0.4))
_BOXES_OF: list[dict[str, Any]] = [
    {"min_size": (8.0, 16.0), "max_size": (20.0,), "aspect_ratio": (2.0, 3.0), "flip": True, "offset": 0.5},
    {"min_size": (8.0,), "aspect_ratio": (2.0, 1.0, 0.5), "step": 16.0, "offset": 0.5, "clip": True},
    {"min_size": (0.1, 0.2), "aspect_ratio": (2.0,), "scale_all_sizes": False, "step": 0.25},
    {"fixed_size": (8.0,), "density": (2.0,), "offset": 0.5, "step": 16.0},
    {"fixed_size": (8.0, 30.0), "density": (2.0, 1.0), "aspect_ratio": (2.0,), "fixed_ratio": (1.0, 2.0)},
]

# --- proposals ---

_GRID = np.tile(np.stack(np.meshgrid(np.arange(7) * 8, np.arange(5) * 8), -1), 2)[:, :, None]
_ANCHORS = (_GRID + np.concatenate([np.zeros((5, 7, 3, 2)), _RNG.uniform(4, 20, (5, 7, 3, 2))], -1)).astype(np.float32)
_ODDS = _RNG.uniform(0.1, 1, (2, 12, 5, 7)).astype(np.float32)
_DELTAS = (_RNG.standard_normal((2, 24, 5, 7)) * 0.3).astype(np.float32)
PROPOSED: dict[str, Any] = {
    "base_size": 16, "pre_nms_topn": 100, "post_nms_topn": 20, "nms_thresh": 0.5, "feat_stride": 8, "min_size": 4,
    "ratio": (0.5, 1.0, 2.5), "scale": (0.75, 2.0),
}  # fmt: skip
GENERATED: dict[str, Any] = {"min_size": 3.0, "nms_threshold": 0.5, "pre_nms_count": 80, "post_nms_count": 25}
SINGLE: dict[str, Any] = {"min_size": 0.0, "nms_threshold": 0.5, "pre_nms_count": 60, "post_nms_count": 20}
PREFIX = "ExperimentalDetectron"
CELLS: dict[str, Any] = {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0}
_LEVELS = [normal(1, 2, size, size + 10) for size in (64, 32, 16)]
_CORNERS = _RNG.uniform(-20, 150, (14, 2))
_REGIONS = np.concatenate([_CORNERS, _CORNERS + _RNG.uniform(1, 250, (14, 2)) * np.logspace(-1, 0.3, 14)[:, None]], -1)
_REGIONS = _REGIONS.astype(np.float32)
_REGIONS[5, 2] = _REGIONS[5, 0]  # no area
_REGIONS[6, 3] = _REGIONS[6, 1] - 3  # upside down
_FOUND = boxes(30, scale=60)(_RNG)
_FOUND[3, 2] = _FOUND[3, 0]  # no area
LAST: dict[str, Any] = {
    "score_threshold": 0.2, "nms_threshold": 0.4, "max_delta_log_wh": 1.5, "num_classes": 4, "post_nms_count": 50,
    "max_detections_per_image": 20, "class_agnostic_box_regression": False, "deltas_weights": (10.0, 8.0, 5.0, 4.0),
}  # fmt: skip
_FOUND_INPUTS = (_FOUND, _RNG.standard_normal((30, 16)).astype(np.float32) * 3, _RNG.uniform(0, 1, (30,
    4)).astype(np.float32),
                 np.array([[70, 80, 1]], np.float32))  # fmt: skip


def first_cells(priors: Array, is_flat: bool) -> Array:
    """Priors around the centres of 2 by 3 cells of a grid of 4 by 5."""
    y, x = np.mgrid[:2, :3]
    made = priors + (np.stack([x * 4, y * 2] * 2, -1) + np.array([2, 1, 2, 1]))[:, :, None]
    found = np.ma.masked_all(4 * 5 * 3 * 4, np.float32)
    found[: made.size] = made.reshape(-1)
    return found.reshape((-1, 4) if is_flat else (4, 5, 3, 4))


def _varied(name: str, opset: int, inputs: Any, plain: dict[str, Any], changes: Any, **more: Any) -> list[Layer]:
    return [
        row for change in changes for row in layers(name, opset, *inputs, tolerance=NEAR, **{**plain, **change}, **more)
    ]


SMALL_BOXES = (_ODDS, _DELTAS, np.array([40, 56, 1], np.float32))
SMALL_PROPOSALS = (SMALL_BOXES[2], _ANCHORS.reshape(-1, 4), _DELTAS[0, :12] * 2, _ODDS[0, :3])
_PROPOSALS = [
    *(row for image in ((40, 56, 1), (40, 56, 0.5, 3)) for row in _varied(
        "Proposal", each(1, 4), (_ODDS, _DELTAS, np.array(image, np.float32)), PROPOSED, (
            {},
            {"clip_before_nms": False, "clip_after_nms": True},
            {"clip_before_nms": False, "normalize": True, "pre_nms_topn": 30},
            {"normalize": True, "nms_thresh": 0.7},
            {"box_size_scale": 2.0, "box_coordinate_scale": 5.0},
            {"nms_thresh": 0.3, "base_size": 15, "post_nms_topn": 10},
        ), framework=each("", "tensorflow"))),
    *(row for image in ((40, 56, 1), (40, 56, 2, 4)) for row in _varied(
        "GenerateProposals", 9, (np.array([image, image], np.float32), _ANCHORS, _DELTAS[:, :12] * 2, _ODDS[:, :3]),
        GENERATED, (
            {},
            {"pre_nms_count": 20, "roi_num_type": "i32"},
            {"nms_threshold": 0.8, "pre_nms_count": 1000, "post_nms_count": 500},
            {"min_size": 9.0},
        ), normalized=EITHER)),
    # Four boxes of width 10 in a row: each overlaps the one before by 8 of 12, then 7 of 13, then 1 of 19.
    *(row for eta, left in ((1.0, [0.9, 0.8, 0.7, 0.6]), (0.9, [0.9, 0.7, 0.6])) for row in layers(
        "GenerateProposals", 9, np.array([[100, 100, 1]], np.float32),
        np.array([[0, 0, 10, 10], [2, 0, 12, 10], [5, 0, 15, 10], [14, 0, 24, 10]], np.float32).reshape(1, 1, 4, 4),
        np.zeros((1, 16, 1, 1), np.float32), np.array([0.9, 0.8, 0.7, 0.6], np.float32).reshape(1, 4, 1, 1),
        min_size=1.0, nms_threshold=0.7, nms_eta=eta, post_nms_count=4, pre_nms_count=4,
        expect=[np.ma.masked_all((len(left), 4), np.float32), np.array(left, np.float32), ints(len(left))])),
    *_varied(PREFIX + "GenerateProposalsSingleImage", 6, SMALL_PROPOSALS, SINGLE, (
            {},
            {"nms_threshold": 0.8, "pre_nms_count": 30},
            {"pre_nms_count": 1000, "post_nms_count": 30},
            {"nms_threshold": 0.2, "post_nms_count": 50},
            {"min_size": 4.0},
        )),
    *(row for most in (1, 3, 5, 6, 9) for row in layers(
        PREFIX + "TopKROIs", 6, boxes(6), uniform(0, 1, 6), max_rois=most, dims={0: (None, 4)},
        expect=lambda rois, scores, most=most: np.pad(rois[np.argsort(-scores)[:most]], ((0, max(most - 6, 0)), (0,
        0))))),
    *(row for strides, cells in product(({}, {"stride_x": 8.0}, {"stride_x": 7.5, "stride_y": 4.0}), ({}, {"h": 4,
        "w": 5}))
      for row in layers(PREFIX + "PriorGridGenerator", 6, uniform(-20, 20, 3, 4), normal(1, 2, 4, 5), normal(1, 3,
          41, 48), dims={0: (None, 4)}, **{**CELLS, **strides, **cells, "flatten": EITHER})),
    # What follows the last cell is undefined.
    *(row for flatten in (True, False) for row in layers(
        PREFIX + "PriorGridGenerator", 6, boxes(3), normal(1, 2, 4, 5), normal(1, 3, 16, 20), flatten=flatten, h=2,
            w=3, stride_x=4.0, stride_y=2.0, dims={0: (None, 4)},
        expect=lambda priors, *_, flatten=flatten: first_cells(priors, flatten))),
    *(row for count in (1, 3) for row in layers(
        PREFIX + "ROIFeatureExtractor", 6, _REGIONS, *_LEVELS[:count], pyramid_scales=(4, 8, 16)[:count],
        output_size=each(1, 3), sampling_ratio=each(0, 1, 2), aligned=EITHER, tolerance=NEAR,
        dims={0: (None, 4), 1: (1, 2, None, None)})),
    *_varied(PREFIX + "DetectionOutput", 6, _FOUND_INPUTS, LAST, (
        {},
        {"max_detections_per_image": 80},
        {"post_nms_count": 3},
        {"post_nms_count": -1, "nms_threshold": 0.1},
        {"score_threshold": 0.8, "max_delta_log_wh": 0.1},
        {"score_threshold": 2.0},
        {"nms_threshold": 0.9, "max_detections_per_image": 5},
    )),
]  # fmt: skip

# --- regions ---

_IMAGES = _RNG.standard_normal((2, 54, 9, 11)).astype(np.float32)
_ROWS = np.array([
    [0, 0, 0, 10, 8], [1, 2, 1, 6, 7], [0, 1.3, 2.5, 1.4, 2.6], [1, -3, -2, 4, 5], [0, 5, 5, 20, 20], [1, 8, 6, 3, 2],
    [0, -9, -9, -5, -4],
], np.float32)  # fmt: skip
_ENDED = np.concatenate([_ROWS[:2], [[-1, 0, 0, 0, 0]], _ROWS[2:4]]).astype(np.float32)
_ROTATED = np.array([
    [5, 4, 6, 4, 0], [5, 4, 6, 4, 0.7], [2, 3, 9, 2, -1.2], [10, 8, 8, 8, 2.5], [-4, -4, 2, 2, 1], [3, 3, 0.5, 0.3, 3],
], np.float32)  # fmt: skip
_AREAS = np.array([
    [0, 0, 10, 8], [2, 1, 6, 7], [1.3, 2.2, 1.4, 2.3], [-3, -2, 4, 5], [5, 5, 20, 20], [8, 6, 3, 2], [3, 3, 3, 3],
], np.float32)  # fmt: skip
_IN = ints(0, 1, 0, 1, 0, 1, 0)
_PARTS = (_ROWS / np.array([1, 12, 12, 12, 12])).astype(np.float32)
_SCALES = each(1.0, 0.4)
_OFFSETS = _RNG.uniform(-1, 1, (7, 4, 2, 2)).astype(np.float32)
_DATA, _SIZE = normal(2, 8, 9, 10), {"pooled_h": 2, "pooled_w": 3, "spatial_scale": 0.5}
_OF_IMAGE, _OF_REGION = {0: (None, 3, None, None), 1: (None, 4)}, {0: (None, 4, None, None), 1: (None, 5)}
_TWICE = np.array([[1, 0.1, 0.2, 0.8, 0.9], [0, 0.4, 0.3, 1.2, 0.7], [-1, 0, 0, 1, 1], [0, 0, 0, 1, 1]], np.float32)

ROWS = [
    *(row for opset in (1, 3, 4, 5, 9) for row in _suppressions(opset)),
    *layers("NonMaxSuppression", each(5, 9), *_TWO, *limits(4, 0.4, 0.1, 0.3), fixed=(3, 4, 5), dims=_FEW),
    *(row for sigma in (0.2, 0.5, 2.0) for row in layers(
        "NonMaxSuppression", each(5, 9), _MANY[:2, :20], _SCORES[:2, :3, :20], *limits(9, 0.3, 0.2, sigma), fixed=(3,
            4, 5), sort_result_descending=EITHER, dims=_FEW)),
    *(row for limit in ((0, 0.3, 0.0), (5, 0.1, 0.2), (25, 0.0, 0.0), (25, 0.4, 0.1), (25, 0.7, 0.5)) for row in layers(
        "NMSRotated", 13, _TURNED.astype(np.float32), _SCORES[:2, :, :25], *limits(*limit), fixed=(3, 4),
            clockwise=EITHER, sort_result_descending=EITHER, output_type="i32", dims={0: (2, None, 5)})),
    *_with_attributes(),
    *layers("MatrixNms", 8, *_ALL, decay_function="gaussian", gaussian_sigma=each(0.5, 3.0),
            post_threshold=each(0.2, 0.6, 0.9), dims=_OPEN),
    # A box meets those taken with the threshold as it is when the box's turn comes; by the specification's steps it
    # would
    # be the threshold of when each of those was taken.
    *layers("MulticlassNms", 9, *_ALL, iou_threshold=each(0.0, 0.4, 0.9), nms_eta=each(0.0, 0.7, 0.95, 1.0),
            dims=_OPEN),
    *layers("MulticlassNms", 8, *(array.astype(np.float16) for array in _ALL), iou_threshold=0.3, dims=_OPEN,
            tolerance=Tolerance(1e-3, 1e-5)),
    *(row for name, opset in (("MatrixNms", 8), ("MulticlassNms", 9)) for row in layers(
        name, opset, np.zeros((2, 5, 4), np.float32), np.full((2, 3, 5), -1, np.float32), dims=_OPEN,
        expect=[np.zeros((0, 6), np.float32), np.zeros((0, 1), np.int64), ints(0, 0)])),
    # Detections and priors.
    *_DETECTED,
    *(row for attributes in _BOXES_OF for row in layers(
        "PriorBox", each(1, 8), *_SIZES, variance=_VARIANCE, **{"offset": 0.0, **attributes})),
    *layers("PriorBox", each(1, 8), ints(3, 4), ints(30, 40), fixed_size=(8.0, 16.0), density=(2.0, 1.0),
            fixed_ratio=(1.0, 2.0), clip=True),
    *layers("PriorBox", 8, ints(3, 4), ints(30, 40), min_size=(4.0,), max_size=(9.0,),
            min_max_aspect_ratios_order=False),
    *(row for steps in ({}, {"step": 16.0}, {"step_w": 12.0, "step_h": 14.0}) for row in layers(
        "PriorBoxClustered", 1, *_SIZES, width=(8.0, 30.0), height=(6.0, 40.0), offset=0.5, clip=EITHER,
            variance=_VARIANCE,
        **steps)),
    *_PROPOSALS,
    # Regions.
    # A region without points gives what was in memory.
    *layers("ROIAlign", 3, _IMAGES[:, :3], _AREAS[:5], _IN[:5], pooled_h=3, pooled_w=4, spatial_scale=_SCALES,
            sampling_ratio=each(0, 1, 2), mode=each("avg", "max"), dims=_OF_IMAGE),
    *layers("ROIAlign", 9, _IMAGES[:, :3], _AREAS[:5], _IN[:5], pooled_h=3, pooled_w=4, spatial_scale=_SCALES,
            sampling_ratio=each(0, 1, 2), mode=each("avg", "max"), aligned_mode=each("asymmetric", "half_pixel",
            "half_pixel_for_nn"), dims=_OF_IMAGE),
    *layers("ROIAlignRotated", 15, _IMAGES[:, :4], _ROTATED, ints(0, 1, 0, 1, 0, 1, dtype=np.int32), pooled_h=3,
            pooled_w=4, sampling_ratio=each(0, 1, 2), spatial_scale=_SCALES, clockwise_mode=EITHER, dims=_OF_REGION),
    *layers("ROIAlignRotated", 15, _IMAGES[:, :4], np.array([[3, 3, 0, 2, 0.5]], np.float32), ints(0), pooled_h=3,
            pooled_w=4, sampling_ratio=each(0, 2), spatial_scale=1.0, clockwise_mode=True, dims=_OF_REGION),
    *layers("ROIPooling", 2, _DATA, regions(4, 2), **_SIZE, method=each("max", "bilinear"),
            dims={0: (2, 8, None, None), 1: (None, 5)}),
    *layers("ROIPooling", 2, _DATA, _TWICE, output_roi=(2, 3), spatial_scale=5.0, method=each("max", "bilinear"),
            dims={0: (2, 8, None, None), 1: (None, 5)}),
    *(row for method, areas in (("max", _AREAS), ("bilinear", np.clip(_AREAS, 0, 11) / 12)) for row in layers(
        "ROIPooling", 2, _IMAGES[:, :3], np.concatenate([_IN[:, None], areas], 1).astype(np.float32), method=method,
        output_roi=each((3, 4), (1, 1)), spatial_scale=_SCALES, dims={0: (2, 3, None, None), 1: (None, 5)})),
    *(row for size in (1, 3) for row in layers(
        "PSROIPooling", 1, _IMAGES, each(_ROWS, _ENDED), output_dim=54 // size**2, group_size=size,
            spatial_scale=_SCALES, mode="average")),
    *(row for x, y in ((1, 1), (3, 2)) for row in layers(
        "PSROIPooling", 1, _IMAGES, _PARTS, output_dim=54 // (x * y), group_size=each(1, 3, 4), spatial_scale=_SCALES,
        spatial_bins_x=x, spatial_bins_y=y, mode="bilinear")),
    *(row for (x, y), size in product(((1, 1), (3, 2)), (1, 3)) for offsets in ([], [_OFFSETS], [_OFFSETS[:, :2]])
      for row in layers("DeformablePSROIPooling", 1, _IMAGES, _ROWS, *offsets, output_dim=54 // size**2,
          group_size=size, spatial_scale=_SCALES, spatial_bins_x=x, spatial_bins_y=y,
                        **({"part_size": 2, "trans_std": 0.3} if offsets else {}))),
    *layers("DeformablePSROIPooling", 1, _IMAGES, _ENDED, output_dim=6, group_size=3, spatial_scale=1.0),
    *(row for axis, end_axis in ((1, 3), (0, 1), (1, 2)) for row in layers(
        "RegionYolo", 1, normal(2, 27, 5, 6), coords=4, classes=4, num=3, do_softmax=EITHER, mask=(0, 1, 2), axis=axis,
        end_axis=end_axis, anchors=(1.0, 2.0))),
    *layers("ReorgYolo", 2, each(normal(2, 8, 4, 6), whole(0, 9, 1, 4, 2, 2)), stride=(2,)),
    *layers("ReorgYolo", 2, normal(2, 8, 4, 6), stride=(1,)),
]  # fmt: skip
