"""Operators of other domains, against the layers that OpenVINO itself builds and by formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import openvino.opset15 as ops

from tests.engines import made, run_openvino, written
from tests.rows.row import Row, Tolerance, const, each, graphs, rows

RNG = np.random.default_rng(41)
BOXES_TOLERANCE = Tolerance(1e-4, 1e-4)
Build = Callable[..., Any]


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def openvino(op_type: Any, *, outputs: int = 1, **arguments: Any) -> Iterator[Row]:
    yield from rows(op_type, 1, domain="org.openvinotoolkit", outputs=outputs, **arguments)


def by_openvino(build: Build, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return what the layers give that ``build`` makes of parameters."""
    parameters = [ops.parameter(list(value.shape), value.dtype) for value in inputs]
    layer = build(*parameters)
    results = list(layer.outputs()) if hasattr(layer, "outputs") else list(layer)
    return run_openvino(written(results, parameters), dict(enumerate(inputs)))


def built(op_type: str, inputs: Sequence[np.ndarray], build: Build, **arguments: Any) -> Iterator[Row]:
    """Yield a row that is to give what layers give that ``build`` makes of parameters."""

    named = {f"x{i}": value for i, value in enumerate(inputs)}
    yield from openvino(op_type, **named, expect=lambda: by_openvino(build, *inputs), **arguments)


def layer(name: str, opset: int, **attributes: Any) -> Build:
    return lambda *parameters: made(name, opset, parameters, **attributes)


def numbers(given: dict[str, Any]) -> dict[str, Any]:
    """The attributes as ONNX has them, without booleans."""
    return {name: int(value) if isinstance(value, bool) else value for name, value in given.items()}


def fake_quantize(levels: int, *shape: int) -> Iterator[Row]:
    limits = [f(*shape, low=low, high=high) for low, high in ((-3, -1), (1, 3), (-2, 0), (1, 2))]
    build = layer("FakeQuantize", 1, levels=levels)
    yield from built("FakeQuantize", [f(2, 3, 4, 4), *limits], build, levels=levels)


def swish(x: np.ndarray, beta: Any = 1) -> np.ndarray:
    return x / (1 + np.exp(-x * np.reshape(beta, ()).astype(np.float32)))


def group_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    groups, ones = x.astype(np.float64).reshape(2, 4, -1), (1, 8, *[1] * (x.ndim - 2))
    plain = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-3)
    return (plain.reshape(x.shape) * scale.reshape(ones) + bias.reshape(ones)).astype(np.float32)


def normalize(x: np.ndarray, w: np.ndarray, across_spatial: int, channel_shared: int) -> np.ndarray:
    axes = (1, 2, 3) if across_spatial else (1,)
    norm = np.sqrt((x.astype(np.float64) ** 2).sum(axes, keepdims=True) + 1e-2)
    return (x / norm * (w if channel_shared else w.reshape(1, 3, 1, 1))).astype(np.float32)


def deformable(size: tuple[int, int], **given: Any) -> Iterator[Row]:
    """Yield rows with and without a mask; ``size`` is that of the output."""
    group, pads, parts = given.get("group", 1), given.get("pads", [0] * 4), given.get("deformable_groups", 1)
    inputs = [f(2, 4, 6, 7), f(2, 12 * parts, *size), f(2, 4 // group, 3, 2), f(2, 6 * parts, *size)]
    build = layer("DeformableConvolution", 8, strides=given.get("strides", [1, 1]), pads_begin=pads[:2],
                  pads_end=pads[2:], dilations=given.get("dilations", [1, 1]), group=group, deformable_group=parts,
                  auto_pad=given.get("auto_pad", "explicit").lower())  # fmt: skip
    for count in (3, 4):
        yield from built("DeformableConv2D", inputs[:count], build, label=f"{size[0]}_by_{size[1]}", **given)


def priors(
    name: str, opset: int, inputs: Sequence[np.ndarray], defaults: Any, label: str = "", dims: Any = None, **given: Any
) -> Iterator[Row]:
    """Yield PriorBox or its like of the heights and widths of layer and image, with a dimension in front."""

    def build(*parameters: Any) -> Any:
        shapes = [ops.constant(np.array(value.shape[2:], np.int64)) for value in parameters]
        return ops.unsqueeze(made(name, opset, shapes, **{**defaults, **given}), ops.constant(0))

    yield from built(name, inputs, build, label=label, dims=dims, **numbers(given))


def detections(given: dict[str, Any], code_type: str = "CORNER", **meaning: Any) -> Iterator[Row]:
    wanted = {"normalized": True, "code_type": f"caffe.PriorBoxParameter.{code_type}", "nms_threshold": 0.45}
    build = layer("DetectionOutput", 8, **wanted, **meaning)
    yield from built("DetectionOutput", DETECTED, build, nms_threshold=0.45, **given)


def proposals(**given: Any) -> Iterator[Row]:
    def build(scores: Any, deltas: Any, images: Any, anchors: Any) -> Any:
        placed = ops.broadcast(anchors, ops.constant(np.array([3, 4, 3, 4], np.int64)))
        return made(
            "GenerateProposals", 9, [images, placed, deltas, scores], min_size=given.get("min_size", 1.0),
            nms_threshold=given.get("nms_thresh", 0.7), pre_nms_count=given.get("pre_nms_topN", 6000), post_nms_count=7,
            normalized=not given.get("legacy_plus_one", 1),
        )  # fmt: skip

    images = np.array([[40, 50, 1], [30, 60, 1]], np.float32)
    inputs = [f(2, 3, 3, 4, low=0, high=1), f(2, 12, 3, 4, low=-0.3, high=0.3), images, ANCHORS]
    yield from built("GenerateProposals", inputs, build, outputs=3, post_nms_topN=7, **given, tolerance=BOXES_TOLERANCE)


def detectron(name: str, inputs: Sequence[np.ndarray], given: dict[str, Any], **arguments: Any) -> Iterator[Row]:
    """Yield a row of an operator whose layer has its name; ``given`` are the attributes of both."""
    name = f"ExperimentalDetectron{name}"
    yield from built(name, inputs, layer(name, 6, **given), **arguments)


PRIOR_DEFAULTS: dict[str, Any] = {"min_size": [], "max_size": [], "aspect_ratio": [], "offset": 0.0, "variance": []}
PRIORS: list[dict[str, Any]] = [
    {"min_size": [35.84], "max_size": [76.8], "aspect_ratio": [1.0], "flip": True, "step": 8.0, "offset": 0.5},
    {"min_size": [4.0, 6.0], "aspect_ratio": [2.0, 3.0], "clip": True, "variance": [0.1, 0.1, 0.2, 0.2]},
    {"fixed_size": [8.0], "density": [2.0], "fixed_ratio": [1.0, 2.0], "aspect_ratio": [2.0], "step": 4.0,
     "offset": 0.5},
    {"min_size": [4.0, 5.0], "aspect_ratio": [2.0], "scale_all_sizes": False, "offset": 0.5, "step": 0.2},
    {"label": "other_order", "min_size": [4.0], "max_size": [9.0], "aspect_ratio": [2.0], "offset": 0.5,
     "min_max_aspect_ratios_order": False},
]  # fmt: skip
PAIR = [f(1, 3, 2, 3), f(1, 3, 12, 15)]
CORNERS = np.sort(RNG.uniform(0, 1, (6, 2, 2)), axis=1).reshape(1, 1, 24)
VARIANCES = np.tile([0.1, 0.1, 0.2, 0.2], 6).reshape(1, 1, -1)
DETECTED = [f(1, 24, low=-0.5, high=0.5), f(1, 18, low=0, high=1), np.concatenate([CORNERS, VARIANCES], 1).astype("f4")]
ANCHORS = np.array([[0, 1, 8, 9], [2, 2, 12, 14], [5, 4, 9, 19]], np.float32)
GRID = np.stack(np.meshgrid(np.arange(4) * 8, np.arange(3) * 8), -1).repeat(2, 0).reshape(3, 4, 1, 4)
ONE_IMAGE = {"min_size": 0.0, "nms_threshold": 0.5, "post_nms_count": 8, "pre_nms_count": 30}
FEATURES = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8]}
REGIONS = np.array([[0, 0, 20, 20], [4, 2, 30, 28], [1, 5, 9, 9]], np.float32)
FOUND = {"num_classes": 3, "post_nms_count": 10, "max_detections_per_image": 6, "score_threshold": 0.2}
FOUND_DEFAULTS = {"nms_threshold": 0.5, "max_delta_log_wh": float(np.log(1000 / 16)),
                  "class_agnostic_box_regression": False, "deltas_weights": [10.0, 10.0, 5.0, 5.0]}  # fmt: skip
ROWS = [
    *(row for levels in (2, 16, 255) for shape in ((), (1, 3, 1, 1)) for row in fake_quantize(levels, *shape)),
    *openvino("Swish", x=f(2, 5), also=each({}, {"beta": f()}, {"beta": f(1)}, {"beta": f(1, 1)}), expect=swish),
    *openvino("Swish", x=f(2), beta=f(2), refused="beta must be one number"),
    *openvino(each("GroupNorm", "ExperimentalDetectronGroupNorm"), x=each(f(2, 8, 3, 2), f(2, 8, 1, 2, 3)), also=each(
        {"scale": f(8), "bias": f(8)}, {"scale": f(1, 8, 1, 1), "bias": f(1, 8, 1, 1)}), num_groups=4, eps=1e-3,
        expect=group_norm),
    *(row for shared in (0, 1) for row in openvino(
        "Normalize", x=f(2, 3, 4, 2), w=f(1 if shared else 3), eps=1e-2, across_spatial=each(0, 1),
        channel_shared=shared, dims=each(None, {"x": ["n", 3, None, None]}), expect=normalize)),
    *deformable((4, 6)),
    *deformable((6, 8), pads=[1, 0, 1, 2]),
    *deformable((4, 9), strides=[2, 1], dilations=[1, 2], pads=[2, 2, 2, 2], group=2, deformable_groups=2),
    *deformable((3, 4), auto_pad="SAME_UPPER", strides=[2, 2]),
    *deformable((4, 6), auto_pad="VALID", kernel_shape=[3, 2]),
    *(row for given in PRIORS for row in priors(
        "PriorBox", 8, PAIR, PRIOR_DEFAULTS, dims=each(None, {"x0": ["n", 3, None, None], "x1": ["n", 3, None, None]}),
        **given)),
    *(row for name, zero in (("img_h", 0), ("img_w", 0), ("img_size", 0), ("step_h", 0.0), ("step_w", 0.0)) for row in (
        *openvino("PriorBox", a=PAIR[0], b=PAIR[0], min_size=[1.0], **{name: zero},
                  expect=next(priors("PriorBox", 8, [PAIR[0]] * 2, PRIOR_DEFAULTS, min_size=[1.0])).expect),
        *openvino("PriorBox", a=PAIR[0], b=PAIR[0], min_size=[1.0], **{name: zero + 3},
                  refused=f"no attribute '{name}'"))),
    *openvino("PriorBox", a=f(1, 3, 2), b=PAIR[1], refused="the layer must have 4 dimensions"),
    *(row for given in (
        {"width": [0.1, 0.2], "height": [0.1, 0.4], "step_w": 6.0, "step_h": 4.0, "clip": True, "offset": 0.5},
        {"width": [1.0], "height": [2.0], "variance": [0.1, 0.1, 0.2, 0.2]},
        {"width": [3.0], "height": [2.0], "step": 5.0, "offset": 0.5})
      for row in priors("PriorBoxClustered", 1, [f(1, 1, 2, 3), PAIR[1]],
                        {"clip": False, "offset": 0.0, "variance": [0.1]}, **given)),
    *detections({"code_type": "CENTER_SIZE", "keep_top_k": 5, "top_k": 5, "num_classes": 3, "eta": 1.0}, "CENTER_SIZE",
                keep_top_k=[5], top_k=5),
    *detections({"code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "keep_top_k": [4]}, "CENTER_SIZE", keep_top_k=[4]),
    *detections({"keep_top_k": 6, "clip_after_nms": 1, "confidence_threshold": 0.4, "background_label_id": 2},
                keep_top_k=[6], clip_after_nms=True, confidence_threshold=0.4, background_label_id=2),
    *detections({}, keep_top_k=[1]),
    *openvino("DetectionOutput", a=DETECTED[0], b=DETECTED[1], c=DETECTED[2], nms_threshold=0.4, keep_top_k=3, eta=0.5,
              refused=r"eta is 0\.5"),
    *proposals(),
    *proposals(legacy_plus_one=0),
    *proposals(nms_thresh=0.3, pre_nms_topN=20, min_size=4.0),
    *detectron("GenerateProposalsSingleImage", [
        np.array([40, 50, 1], np.float32), (GRID + ANCHORS).reshape(-1, 4).astype("f4"),
        f(12, 3, 4, low=-0.3, high=0.3), f(3, 3, 4, low=0, high=1)], ONE_IMAGE, outputs=2, **ONE_IMAGE,
        tolerance=BOXES_TOLERANCE),
    *(row for given, full in (({"stride_x": 4.0, "stride_y": 4.0}, {"flatten": True, "h": 0, "w": 0}),
                              ({"flatten": 0, "h": 3, "w": 4}, {"flatten": False, "stride_x": 0.0, "stride_y": 0.0}))
      for row in detectron("PriorGridGenerator", [ANCHORS, f(1, 2, 3, 4), f(1, 3, 24, 32)], given | full, **given)),
    *(row for aligned in (0, 1) for row in detectron(
        "ROIFeatureExtractor", [REGIONS, f(1, 2, 8, 8), f(1, 2, 4, 4)], {"aligned": bool(aligned), **FEATURES},
        outputs=2, aligned=aligned, **FEATURES)),
    *openvino("ExperimentalDetectronROIFeatureExtractor", a=f(2, 4), b=f(1, 2, 8, 8), outputs=2, pyramid_scales=[4],
              distribute_rois_between_levels=0, refused="the layer that fits it"),
    *detectron("TopKROIs", [f(6, 4, low=0, high=9), RNG.permutation(6).astype("f4")], {"max_rois": 4}, max_rois=4),
    *detectron("DetectionOutput", [
        np.sort(RNG.uniform(0, 40, (8, 2, 2)), axis=1).reshape(8, 4).astype("f4"), f(8, 12, low=-1, high=1),
        f(8, 3, low=0, high=1), np.array([[40, 40, 1]], np.float32)], {**FOUND, **FOUND_DEFAULTS}, outputs=3, **FOUND,
        tolerance=BOXES_TOLERANCE),
]  # fmt: skip

# --- torch ---

RANDOM = np.random.default_rng(3)
CENTRES, SIZES, ANGLES = (
    RANDOM.uniform(0, 8, (1, 12, 2)),
    RANDOM.uniform(2, 6, (1, 12, 2)),
    RANDOM.uniform(-1, 1, (1, 12, 1)),
)
BOXES = np.concatenate([CENTRES, SIZES, ANGLES], 2).astype(np.float32)
X = RANDOM.standard_normal((2, 3, 9, 8)).astype(np.float32)
ROIS = np.array([[0, 4, 4, 5, 3, 0.4], [1, 3, 5, 4, 4, -1.2], [1, 6, 2, 8, 2, 2.0]], np.float32)


def suppressed(boxes: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    limits = [ops.constant(np.array(value)) for value in (np.int64(100), np.float32(0.3), np.float32(0.2))]
    selected, *_ = by_openvino(lambda *data: ops.nms_rotated(*data, *limits, clockwise=False), boxes, scores)
    assert len(selected) > 2
    return [selected]


def aligned(x: np.ndarray, rois: np.ndarray, sampling_ratio: int, clockwise: int) -> list[np.ndarray]:
    def layer(data: Any, regions: Any) -> Any:
        batches = ops.constant(np.array([0, 1, 1], np.int32))
        return ops.roi_align_rotated(data, regions, batches, 4, 2, sampling_ratio, 0.75, bool(clockwise))

    return by_openvino(layer, x, rois[:, 1:].copy())


ROWS += [
    *rows("NMSRotated", 1, domain="mmdeploy", boxes=BOXES, scores=RANDOM.uniform(0, 1, (1, 2, 12)).astype(np.float32),
          iou_threshold=0.3, score_threshold=0.2, expect=suppressed,
          dims=each(None, {"boxes": [1, None, 5], "scores": [1, None, None]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=X, rois=ROIS,
          output_height=4, output_width=2, sampling_ratio=each(0, 2), spatial_scale=0.75, clockwise=each(0, 1),
          expect=aligned, dims=each(None, {"x": [None] * 4, "rois": [None, 6]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=np.zeros((1, 1, 4, 4), np.float32), rois=ROIS[:1], aligned=0,
          refused="half pixels"),
]  # fmt: skip

TABLE = RANDOM.standard_normal((5, 2)).astype(np.float32)
INDICES, MATRIX = np.array([0, 2, 3, 4, 1]), np.array([[0, 2], [1, 2], [3, 4]])
WEIGHTS, EACH = RANDOM.uniform(0.5, 2, 5).astype(np.float32), RANDOM.uniform(0.5, 2, (3, 2)).astype(np.float32)
IMAGES = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 7), (3, 5, 7))]
BAG = {"operator": "embedding_bag", "scale_grad_by_freq": 0, "sparse": 1}
FOUR = """g (float[5,2] table, int64[5] indices, int64[3] offsets) => (float[a,b] y) {
    y, a, b, c = ATen <operator = "embedding_bag", mode = 0, sparse = 1> (table, indices, offsets)
}"""


def bags(
    table: np.ndarray, indices: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None, mode: int = 0,
    include_last_offset: int = 0,
) -> np.ndarray:  # fmt: skip
    found = table[indices] if weights is None else table[indices] * weights[:, None]
    parts = np.split(found, offsets[1:-1] if include_last_offset else offsets[1:])
    return np.stack([part.sum(0) / (max(len(part), 1) if mode else 1) for part in parts]).astype(np.float32)


def bags_of_rows(table: np.ndarray, indices: np.ndarray, mode: int, weights: np.ndarray | None = None) -> np.ndarray:
    found = table[indices] if weights is None else table[indices] * weights[..., None]
    return (found.mean(1) if mode else found.sum(1)).astype(np.float32)


def pooled(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    n, m, (height, width) = size[0], size[-1], x.shape[-2:]
    out = np.empty((*x.shape[:-2], n, m), np.float32)
    for i, j in np.ndindex(n, m):
        part = x[..., i * height // n : -(-(i + 1) * height // n), j * width // m : -(-(j + 1) * width // m)]
        out[..., i, j] = part.mean((-1, -2))
    return out


ROWS += [
    *(row for kind in (np.int32, np.int64) for label, offsets in (
        ("list", [0, 2, 4]), ("list", [0, 0, 3]), ("empty_at_the_end", [0, 5]))
      for row in rows("ATen", 12, label=label, table=TABLE, indices=INDICES.astype(kind), **BAG, expect=bags, also=each(
          *({"offsets": np.array(offsets, kind), **more} for more in ({}, {"weights": WEIGHTS}, {"mode": 1})),
          {"offsets": np.array([*offsets, 5], kind), "include_last_offset": 1}))),
    *graphs(FOUR, label="four_outputs", opset=12, table=TABLE, indices=INDICES, offsets=np.arange(3), expect=bags),
    *rows("ATen", 12, label="matrix", table=TABLE, indices=MATRIX, mode=each(0, 1), **BAG, expect=bags_of_rows),
    *rows("ATen", 12, label="matrix", table=TABLE, indices=MATRIX, offsets=None, weights=EACH, mode=0, **BAG,
          expect=bags_of_rows),
    *rows("ATen", 12, table=TABLE, indices=INDICES, operator="unique", refused="but not 'unique'"),
    *rows("ATen", 12, table=TABLE, indices=INDICES, offsets=INDICES[:2], mode=2, **BAG, refused="mode must be 0"),
    *rows("ATen", 12, table=TABLE, indices=INDICES, offsets=INDICES[:2], padding_idx=1, **BAG, refused="padding_idx"),
    *rows("adaptive_avg_pool2d", 1, domain="org.pytorch.aten", x=each(*IMAGES), size=const(each([2, 3], [3])),
          expect=pooled),
]  # fmt: skip
