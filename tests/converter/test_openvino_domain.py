"""Operators of ``org.openvinotoolkit`` against the plug-in, which runs the layers that OpenVINO itself builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import openvino.opset13 as ops
import pytest

import converter
from converter.from_onnx.translation.registry import REQUIRED, Translator, find_translator
from tests.engines import ENGINES, check_node, node_model, run_openvino
from tests.ir_runtime.peers import made, written_by_openvino
from tests.random_data import generator

DOMAIN = "org.openvinotoolkit"
RNG = generator(41)

Build = Callable[..., Any]


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def check(
    op_type: str,
    inputs: Sequence[np.ndarray],
    attributes: dict[str, Any],
    build: Build,
    *,
    shapes: dict[str, Any] | None = None,
    engines: Sequence[str] = ENGINES,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """``build`` makes OpenVINO's layers of its parameters; our model must give what they give."""
    parameters = [ops.parameter(list(value.shape), value.dtype) for value in inputs]
    built = build(*parameters)
    outputs = list(built.outputs()) if hasattr(built, "outputs") else list(built)
    expected = run_openvino(written_by_openvino(outputs, parameters), dict(enumerate(inputs)))
    feeds = {f"x{index}": value for index, value in enumerate(inputs)}
    model = node_model(
        op_type, feeds, opset=1, domain=DOMAIN, attributes=attributes, outputs=len(expected), shapes=shapes
    )
    check_node(model, feeds, expected, engines=engines, rtol=rtol, atol=atol)


def layer(name: str, opset: int, **attributes: Any) -> Build:
    return lambda *parameters: made(name, opset, parameters, **attributes)


@pytest.mark.parametrize("levels", [2, 16, 255])
@pytest.mark.parametrize("shape", [(), (1, 3, 1, 1)])
def test_fake_quantize(levels: int, shape: tuple[int, ...]) -> None:
    limits = [f(*shape, low=-3, high=-1), f(*shape, low=1, high=3), f(*shape, low=-2, high=0), f(*shape, low=1, high=2)]
    check("FakeQuantize", [f(2, 3, 4, 4), *limits], {"levels": levels}, layer("FakeQuantize", 1, levels=levels))


@pytest.mark.parametrize("beta", [None, f(), f(1), f(1, 1)], ids=str)
def test_swish(beta: np.ndarray | None) -> None:
    x = f(2, 5)
    expected = x / (1 + np.exp(-x * (1 if beta is None else beta.reshape(()))))
    feeds = {"x": x} if beta is None else {"x": x, "beta": beta}
    check_node(node_model("Swish", feeds, opset=1, domain=DOMAIN), feeds, [expected])


def test_swish_of_several_betas() -> None:
    with pytest.raises(converter.ConversionError, match="beta must be one number"):
        converter.convert_model(node_model("Swish", {"x": f(2), "beta": f(2)}, opset=1, domain=DOMAIN))


@pytest.mark.parametrize("op_type", ["GroupNorm", "ExperimentalDetectronGroupNorm"])
@pytest.mark.parametrize("shape", [(2, 8, 3, 2), (2, 8, 1, 2, 3)])
@pytest.mark.parametrize("parameters", [(8,), (1, 8, 1, 1)])
def test_group_norm(op_type: str, shape: tuple[int, ...], parameters: tuple[int, ...]) -> None:
    x, scale, bias = f(*shape), f(*parameters), f(*parameters)
    groups = x.astype(np.float64).reshape(2, 4, -1)
    plain = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-3)
    ones = (1, 8, *[1] * (len(shape) - 2))
    expected = (plain.reshape(shape) * scale.reshape(ones) + bias.reshape(ones)).astype(np.float32)
    feeds = {"x": x, "scale": scale, "bias": bias}
    model = node_model(op_type, feeds, opset=1, domain=DOMAIN, attributes={"num_groups": 4, "eps": 1e-3})
    check_node(model, feeds, [expected])


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", 3, None, None]}], ids=["static", "dynamic"])
def test_normalize(across: int, shared: int, shapes: dict[str, Any] | None) -> None:
    x, weights = f(2, 3, 4, 2), f(1) if shared else f(3)
    axes = (1, 2, 3) if across else (1,)
    norm = np.sqrt((x.astype(np.float64) ** 2).sum(axes, keepdims=True) + 1e-2)
    expected = (x / norm * (weights if shared else weights.reshape(1, 3, 1, 1))).astype(np.float32)
    given = {"eps": 1e-2, "across_spatial": across, "channel_shared": shared}
    feeds = {"x": x, "w": weights}
    check_node(
        node_model("Normalize", feeds, opset=1, domain=DOMAIN, attributes=given, shapes=shapes), feeds, [expected]
    )


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"pads": [1, 0, 1, 2]},
        {"strides": [2, 1], "dilations": [1, 2], "pads": [2, 2, 2, 2], "group": 2, "deformable_groups": 2},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "VALID", "kernel_shape": [3, 2]},
    ],
    ids=str,
)
def test_deformable_convolution(mask: bool, given: dict[str, Any]) -> None:
    group, parts = given.get("group", 1), given.get("deformable_groups", 1)
    pads, strides, dilations = (
        given.get(n, d) for n, d in (("pads", [0] * 4), ("strides", [1, 1]), ("dilations", [1, 1]))
    )
    rows, columns = (
        -(-dimension // strides[i])
        if given.get("auto_pad") == "SAME_UPPER"
        else (dimension + pads[i] + pads[i + 2] - dilations[i] * (k - 1) - 1) // strides[i] + 1
        for i, (dimension, k) in enumerate(((6, 3), (7, 2)))
    )
    inputs = [f(2, 4, 6, 7), f(2, 12 * parts, rows, columns), f(2, 4 // group, 3, 2)]
    if mask:
        inputs.append(f(2, 6 * parts, rows, columns))
    mode = {None: "explicit"}.get(given.get("auto_pad"), str(given.get("auto_pad")).lower())
    build = layer(
        "DeformableConvolution",
        8,
        strides=strides,
        pads_begin=pads[:2],
        pads_end=pads[2:],
        dilations=dilations,
        auto_pad=mode,
        group=group,
        deformable_group=parts,
    )
    check("DeformableConv2D", inputs, given, build)


def dimensions_of(name: str, opset: int, **attributes: Any) -> Build:
    """PriorBox and its like of the heights and widths of layer and image, with a dimension in front."""

    def build(x: Any, image: Any) -> Any:
        shapes = [ops.constant(np.array(value.shape[2:], np.int64)) for value in (x, image)]
        return ops.unsqueeze(made(name, opset, shapes, **attributes), ops.constant(0))

    return build


PRIORS: list[dict[str, Any]] = [
    {"min_size": [35.84], "max_size": [76.8], "aspect_ratio": [1.0], "flip": True, "step": 8.0, "offset": 0.5},
    {"min_size": [4.0, 6.0], "aspect_ratio": [2.0, 3.0], "clip": True, "variance": [0.1, 0.1, 0.2, 0.2]},
    {"min_size": [4.0], "max_size": [9.0], "aspect_ratio": [2.0], "min_max_aspect_ratios_order": False, "offset": 0.5},
    {
        "fixed_size": [8.0],
        "density": [2.0],
        "fixed_ratio": [1.0, 2.0],
        "aspect_ratio": [2.0],
        "offset": 0.5,
        "step": 4.0,
    },
    {"min_size": [4.0, 5.0], "aspect_ratio": [2.0], "scale_all_sizes": False, "offset": 0.5, "step": 0.2},
]


@pytest.mark.parametrize("given", PRIORS, ids=range(len(PRIORS)))
@pytest.mark.parametrize("dynamic", [False, True])
def test_prior_box(given: dict[str, Any], dynamic: bool) -> None:
    defaults: dict[str, Any] = {"min_size": [], "max_size": [], "aspect_ratio": [], "offset": 0.0, "variance": []}
    build = dimensions_of("PriorBox", 8, **{**defaults, **given})
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in given.items()}
    shapes = {"x0": ["n", 3, None, None], "x1": ["n", 3, None, None]} if dynamic else None
    # The CPU plug-in runs the first order of the two alone; the other is a constant where dimensions are known.
    engines = ("numpy",) if dynamic and not given.get("min_max_aspect_ratios_order", True) else ENGINES
    check("PriorBox", [f(1, 3, 2, 3), f(1, 3, 12, 15)], attributes, build, shapes=shapes, engines=engines)


@pytest.mark.parametrize("name", ["img_h", "img_w", "img_size", "step_h", "step_w"])
def test_prior_box_attributes_that_the_ir_lacks(name: str) -> None:
    x = f(1, 3, 2, 2)
    for value in (0, 3):
        given = {"min_size": [1.0], name: float(value) if name.startswith("step") else value}
        model = node_model("PriorBox", {"a": x, "b": x}, opset=1, domain=DOMAIN, attributes=given)
        if value:
            with pytest.raises(converter.ConversionError, match=f"no attribute '{name}'"):
                converter.convert_model(model)
        else:
            converter.convert_model(model)


@pytest.mark.parametrize(
    "given",
    [
        {"width": [0.1, 0.2], "height": [0.1, 0.4], "step_w": 6.0, "step_h": 4.0, "clip": True, "offset": 0.5},
        {"width": [1.0], "height": [2.0], "variance": [0.1, 0.1, 0.2, 0.2]},
        {"width": [3.0], "height": [2.0], "step": 5.0, "offset": 0.5},
    ],
    ids=range(3),
)
def test_prior_box_clustered(given: dict[str, Any]) -> None:
    build = dimensions_of("PriorBoxClustered", 1, **{"clip": False, "offset": 0.0, "variance": [0.1], **given})
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in given.items()}
    check("PriorBoxClustered", [f(1, 1, 2, 3), f(1, 3, 12, 15)], attributes, build)


def test_prior_box_of_no_image() -> None:
    model = node_model("PriorBox", {"a": f(1, 3, 2), "b": f(1, 3, 4, 4)}, opset=1, domain=DOMAIN)
    with pytest.raises(converter.ConversionError, match="the layer must have 4 dimensions"):
        converter.convert_model(model)


BOXES, CLASSES = 6, 3
CORNERS = np.sort(RNG.uniform(0, 1, (BOXES, 2, 2)), axis=1).reshape(1, 1, BOXES * 4)
VARIANCES = np.tile([0.1, 0.1, 0.2, 0.2], BOXES).reshape(1, 1, -1)
DETECTED = [
    f(1, BOXES * 4, low=-0.5, high=0.5),
    f(1, BOXES * CLASSES, low=0, high=1),
    np.concatenate([CORNERS, VARIANCES], 1).astype(np.float32),
]


@pytest.mark.parametrize(
    ("given", "meaning"),
    [
        ({"code_type": "CENTER_SIZE", "keep_top_k": 5, "top_k": 5, "num_classes": 3, "eta": 1.0}, {}),
        ({"code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "keep_top_k": [4]}, {}),
        ({"keep_top_k": 6, "clip_after_nms": 1, "confidence_threshold": 0.4, "background_label_id": 2}, {}),
        ({}, {"keep_top_k": 1}),
    ],
    ids=range(4),
)
def test_detection_output(given: dict[str, Any], meaning: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"normalized": True, "code_type": "CORNER", **given, **meaning}
    wanted = {name: value for name, value in wanted.items() if name not in ("num_classes", "eta")}
    if not wanted["code_type"].startswith("caffe."):
        wanted["code_type"] = "caffe.PriorBoxParameter." + wanted["code_type"]
    wanted["keep_top_k"] = np.atleast_1d(wanted["keep_top_k"]).tolist()
    wanted = {name: bool(value) if name.startswith("clip") else value for name, value in wanted.items()}
    build = layer("DetectionOutput", 8, nms_threshold=0.45, **wanted)
    check("DetectionOutput", DETECTED, {"nms_threshold": 0.45, **given}, build)


def test_detection_output_with_a_threshold_that_falls() -> None:
    feeds = {"a": DETECTED[0], "b": DETECTED[1], "c": DETECTED[2]}
    given = {"nms_threshold": 0.4, "keep_top_k": 3, "eta": 0.5}
    with pytest.raises(converter.ConversionError, match=r"eta is 0\.5"):
        converter.convert_model(node_model("DetectionOutput", feeds, opset=1, domain=DOMAIN, attributes=given))


ANCHORS = np.array([[0, 1, 8, 9], [2, 2, 12, 14], [5, 4, 9, 19]], np.float32)


@pytest.mark.parametrize(
    "given", [{}, {"legacy_plus_one": 0}, {"nms_thresh": 0.3, "pre_nms_topN": 20, "min_size": 4.0}], ids=str
)
def test_generate_proposals(given: dict[str, Any]) -> None:
    inputs = [
        f(2, 3, 3, 4, low=0, high=1),
        f(2, 12, 3, 4, low=-0.3, high=0.3),
        np.array([[40, 50, 1], [30, 60, 1]], np.float32),
        ANCHORS,
    ]

    def build(scores: Any, deltas: Any, images: Any, anchors: Any) -> Any:
        placed = ops.broadcast(anchors, ops.constant(np.array([3, 4, 3, 4], np.int64)))
        return made(
            "GenerateProposals",
            9,
            [images, placed, deltas, scores],
            min_size=given.get("min_size", 1.0),
            nms_threshold=given.get("nms_thresh", 0.7),
            pre_nms_count=given.get("pre_nms_topN", 6000),
            post_nms_count=7,
            normalized=not given.get("legacy_plus_one", 1),
        )

    check("GenerateProposals", inputs, {"post_nms_topN": 7, **given}, build, atol=1e-4)


def test_proposals_of_one_image() -> None:
    grid = np.stack(np.meshgrid(np.arange(4) * 8, np.arange(3) * 8), -1).repeat(2, 0).reshape(3, 4, 1, 4)
    anchors = (grid + ANCHORS).reshape(-1, 4).astype(np.float32)
    inputs = [np.array([40, 50, 1], np.float32), anchors, f(12, 3, 4, low=-0.3, high=0.3), f(3, 3, 4, low=0, high=1)]
    given = {"min_size": 0.0, "nms_threshold": 0.5, "post_nms_count": 8, "pre_nms_count": 30}
    name = "ExperimentalDetectronGenerateProposalsSingleImage"
    check(name, inputs, given, layer(name, 6, **given), atol=1e-4)


@pytest.mark.parametrize("given", [{"stride_x": 4.0, "stride_y": 4.0}, {"flatten": 0, "h": 3, "w": 4}], ids=str)
def test_prior_grid(given: dict[str, Any]) -> None:
    name = "ExperimentalDetectronPriorGridGenerator"
    full = {"flatten": 1, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0, **given}
    build = layer(name, 6, **{**full, "flatten": bool(full["flatten"])})
    check(name, [ANCHORS, f(1, 2, 3, 4), f(1, 3, 24, 32)], given, build)


@pytest.mark.parametrize("aligned", [0, 1])
def test_region_features(aligned: int) -> None:
    name = "ExperimentalDetectronROIFeatureExtractor"
    given = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8]}
    regions = np.array([[0, 0, 20, 20], [4, 2, 30, 28], [1, 5, 9, 9]], np.float32)
    build = layer(name, 6, aligned=bool(aligned), **given)
    check(name, [regions, f(1, 2, 8, 8), f(1, 2, 4, 4)], {"aligned": aligned, **given}, build)


def test_region_features_from_one_level() -> None:
    name = "ExperimentalDetectronROIFeatureExtractor"
    feeds = {"a": f(2, 4), "b": f(1, 2, 8, 8)}
    given = {"pyramid_scales": [4], "distribute_rois_between_levels": 0}
    with pytest.raises(converter.ConversionError, match="the layer that fits it"):
        converter.convert_model(node_model(name, feeds, opset=1, domain=DOMAIN, outputs=2, attributes=given))


def test_top_regions() -> None:
    name = "ExperimentalDetectronTopKROIs"
    regions, scores = f(6, 4, low=0, high=9), RNG.permutation(6).astype(np.float32)
    check(name, [regions, scores], {"max_rois": 4}, layer(name, 6, max_rois=4))


def test_detectron_detections() -> None:
    name = "ExperimentalDetectronDetectionOutput"
    corners = np.sort(RNG.uniform(0, 40, (8, 2, 2)), axis=1).reshape(8, 4).astype(np.float32)
    inputs = [
        corners,
        f(8, 12, low=-1, high=1),
        f(8, 3, low=0, high=1),
        np.array([[40, 40, 1]], np.float32),
    ]
    given = {"num_classes": 3, "post_nms_count": 10, "max_detections_per_image": 6, "score_threshold": 0.2}
    defaults = {
        "nms_threshold": 0.5,
        "max_delta_log_wh": float(np.log(1000 / 16)),
        "deltas_weights": [10.0, 10.0, 5.0, 5.0],
    }
    build = layer(name, 6, class_agnostic_box_regression=False, **given, **defaults)
    check(name, inputs, given, build, atol=1e-4)


@pytest.mark.parametrize(
    ("op_type", "defaults"),
    [
        ("PriorBoxClustered", {"clip": 0, "variance": (0.1,), "step": 0.0}),
        ("ExperimentalDetectronTopKROIs", {"max_rois": 1000}),
        ("ExperimentalDetectronPriorGridGenerator", {"flatten": 1, "h": 0}),
        ("ExperimentalDetectronROIFeatureExtractor", {"sampling_ratio": 2, "pyramid_scales": (4, 8, 16, 32, 64)}),
        ("ExperimentalDetectronGenerateProposalsSingleImage", {"pre_nms_count": 1000, "post_nms_count": 1000}),
        ("ExperimentalDetectronDetectionOutput", {"num_classes": 81, "max_detections_per_image": 100}),
        ("DetectionOutput", {"nms_threshold": REQUIRED, "keep_top_k": 1, "top_k": -1}),
    ],
)
def test_defaults_of_openvinos_frontend(op_type: str, defaults: dict[str, Any]) -> None:
    """The defaults of OpenVINO's frontend hold where the IR operation has none or others."""
    translator, _ = cast(tuple[Translator, int], find_translator(op_type, DOMAIN, 1))
    assert {name: translator.attributes[name] for name in defaults} == defaults
