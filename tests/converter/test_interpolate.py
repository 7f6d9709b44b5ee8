"""Resize and Upsample through both engines, against onnxruntime or ONNX's reference."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import converter
import ir_runtime
from tests.engines import assert_close, check_node, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.random_data import generator

RNG = generator(13)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def image(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (10 * RNG.standard_normal(shape)).astype(dtype)


def resize(
    x: np.ndarray,
    *,
    opset: int = 13,
    scales: Any = None,
    sizes: Any = None,
    roi: Any = None,
    dynamic: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    constants: dict[str, Any] = {}
    order = ["x", "", "", ""]
    for place, (name, value, dtype) in enumerate(
        [("roi", roi, np.float32), ("scales", scales, np.float32), ("sizes", sizes, np.int64)], 1
    ):
        if value is not None or (opset == 11 and name == "roi"):
            constants[name] = np.array([] if value is None else value, dtype)
            order[place] = name
    if opset == 11 and scales is None:
        constants["scales"], order[2] = np.array([], np.float32), "scales"
    while not order[-1]:
        order.pop()
    shapes = {"x": ["n", *[None] * (x.ndim - 1)]} if dynamic else None
    return node_model(
        "Resize", {"x": x}, opset=opset, attributes=attributes, constants=constants, order=order, shapes=shapes
    )


@pytest.mark.parametrize(("places", "rounding"), list(itertools.product(COORDINATES, ROUNDINGS)))
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 0.6, 1.7]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_nearest(places: str, rounding: str, scales: list[float], dynamic: bool) -> None:
    x = image(1, 2, 6, 7)
    model = resize(
        x,
        scales=scales,
        dynamic=dynamic,
        mode="nearest",
        coordinate_transformation_mode=places,
        nearest_mode=rounding,
    )
    check_node(model, {"x": x})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("places", COORDINATES)
@pytest.mark.parametrize("given", [{"scales": [1, 1, 2, 3]}, {"scales": [1, 1, 0.6, 1.7]}, {"sizes": [2, 3, 5, 9]}])
@pytest.mark.parametrize("dynamic", [False, True])
def test_weighted(mode: str, places: str, given: dict[str, Any], dynamic: bool) -> None:
    x = image(2, 3, 6, 7)
    model = resize(x, **given, dynamic=dynamic, mode=mode, coordinate_transformation_mode=places)
    check_node(model, {"x": x}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
@pytest.mark.parametrize("given", [{"scales": [1, 1, 2, 0.5]}, {"sizes": [1, 2, 9, 4]}])
def test_every_version(opset: int, given: dict[str, Any]) -> None:
    x = image(1, 2, 6, 7)
    check_node(resize(x, opset=opset, **given, mode="linear"), {"x": x}, rtol=1e-3)


def test_tf_half_pixel_for_nn() -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=11, scales=[1, 1, 0.5, 2], coordinate_transformation_mode="tf_half_pixel_for_nn")
    check_node(model, {"x": x})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.5, 0.6], [1, 1, 1, 1]])
def test_the_first_resize(mode: str, scales: list[float]) -> None:
    x = image(1, 2, 6, 7)
    constants = {"scales": np.array(scales, np.float32)}
    model = node_model("Resize", {"x": x}, opset=10, attributes={"mode": mode}, constants=constants)
    check_node(model, {"x": x}, rtol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsample(mode: str, opset: int) -> None:
    x, scales = image(1, 2, 3, 4), [1.0, 1.0, 2.0, 1.5]
    if opset == 7:
        model = node_model("Upsample", {"x": x}, opset=7, attributes={"mode": mode, "scales": scales})
    else:
        constants = {"scales": np.array(scales, np.float32)}
        model = node_model("Upsample", {"x": x}, opset=9, attributes={"mode": mode}, constants=constants)
    check_node(model, {"x": x}, rtol=1e-3)


def test_the_first_upsample() -> None:
    x = image(1, 2, 3, 4)
    attributes = {"height_scale": 2.0, "width_scale": 3.0, "mode": "nearest"}
    check_node(
        node_model("Upsample", {"x": x}, opset=1, attributes=attributes), {"x": x}, [x.repeat(2, 2).repeat(3, 3)]
    )


@pytest.mark.parametrize("given", ["scales", "sizes"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_given_at_execution(given: str, mode: str, dynamic: bool) -> None:
    x = image(1, 2, 6, 7)
    value = np.array([1, 1, 1.5, 0.6], np.float32) if given == "scales" else np.array([1, 2, 9, 4])
    order = ["x", "", "g"] if given == "scales" else ["x", "", "", "g"]
    shapes = {"x": [None] * 4} if dynamic else None
    model = node_model("Resize", {"x": x, "g": value}, opset=13, attributes={"mode": mode}, order=order, shapes=shapes)
    check_node(model, {"x": x, "g": value}, rtol=1e-3, atol=1e-3)


def test_sizes_with_dimensions_of_the_input_resize_the_others_alone() -> None:
    """PyTorch's F.interpolate(x, size=...): batch and channels come from the shape of x."""
    x = image(2, 3, 6, 7)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "two", "zero"], ["front"]),
        helper.make_node("Concat", ["front", "target"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y0"], mode="cubic"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", "c", "h", "w"]),
        helper.make_tensor_value_info("target", onnx.TensorProto.INT64, [2]),
    ]
    constants = {"zero": np.array([0]), "two": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "resize",
        inputs,
        [onnx.ValueInfoProto(name="y0")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    check_node(model, {"x": x, "target": np.array([9, 4])}, rtol=1e-3, atol=1e-3)
    layers = [n for n in converter.convert_model(model).nodes() if n.op.type == "Interpolate"]
    assert [n.inputs[2].type.constant.tolist() for n in layers] == [[2, 3]]  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_ranks(rank: int, mode: str) -> None:
    x = image(*[1, 2, 4, 5, 3][-rank:])
    scales = [1.0] * rank
    scales[-1] = 2.0
    if rank in (2, 5):
        scales[-2] = 1.5
    model = resize(x, scales=scales, mode=mode, opset=19)
    check_node(model, {"x": x}, ReferenceEvaluator(model).run(None, {"x": x}), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "dtype",
    [np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
    + [np.int64, np.uint64, np.bool_],
    ids=str,
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_nearest_of_every_type(dtype: Any, dynamic: bool) -> None:
    x = np.abs(image(1, 2, 3, 4)).astype(dtype)
    options = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    model = resize(x, scales=[1, 1, 2, 3], dynamic=dynamic, opset=13, **options)
    check_node(model, {"x": x}, [x.repeat(2, 2).repeat(3, 3)])


def test_nearest_of_strings() -> None:
    x = np.array([["a", "b"], ["c", "d"]], object)
    options = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    check_node(resize(x, scales=[1, 2], **options), {"x": x}, [x.repeat(2, 1)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_linear_of_integers(dtype: Any) -> None:
    x = np.abs(image(1, 2, 3, 4)).astype(dtype)
    # Dyadic weights: no engine's sum of them may fall just below a whole number, which loses its fraction.
    model = resize(x, scales=[1, 1, 2, 4], mode="linear", coordinate_transformation_mode="asymmetric")
    check_node(model, {"x": x})


SEED = 8
"""Without values at a rounding tie, where each engine's sum of the weights decides."""


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize(
    ("mode", "scales"),
    [("cubic", [1, 1, 0.63, 1.7]), ("cubic", [1, 1, 0.6, 0.37]), ("linear", [1, 1, 1, 0.37]), ("linear", [0.37, 0.71])],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_antialiased_integers_are_rounded_after_each_dimension(
    dtype: Any, mode: str, scales: list[float], dynamic: bool
) -> None:
    low, high = (0, 256) if dtype == np.uint8 else (-1000, 1000)
    x = generator(SEED).integers(low, high, (1, 2, 11, 9)[-len(scales) :]).astype(dtype)
    check_node(resize(x, opset=18, scales=scales, mode=mode, antialias=1, dynamic=dynamic), {"x": x})


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (np.int8, {"mode": "linear", "antialias": 1}),
        (np.int8, {"mode": "cubic", "antialias": 1}),
        (np.int16, {"mode": "linear"}),
        (np.int64, {"mode": "linear", "antialias": 1}),
        (np.uint16, {"mode": "cubic"}),
        (np.uint8, {"mode": "cubic"}),
        (np.int8, {"mode": "cubic", "exclude_outside": 1}),
        (np.int32, {"mode": "cubic"}),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_integers_that_onnxruntime_does_not_resize_are_rounded(
    dtype: Any, options: dict[str, Any], dynamic: bool
) -> None:
    """onnxruntime has no kernel for them, or limits int8 to 0 and more: onnx's evaluator rounds and saturates."""
    bounds = np.iinfo(dtype)
    x = generator(SEED).integers(max(bounds.min, -1000), min(bounds.max, 1000) + 1, (1, 2, 11, 9)).astype(dtype)
    model = resize(x, opset=18, scales=[1, 1, 0.63, 1.7], dynamic=dynamic, **options)
    check_node(model, {"x": x}, reference(model, {"x": x}))


def reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    return ReferenceEvaluator(model).run(None, feeds)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("given", [{"scales": [1, 1, 0.6, 0.4]}, {"sizes": [1, 2, 3, 9]}, {"sizes": [1, 2, 2, 5]}])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, given: dict[str, Any], exclude: int) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=18, **given, mode=mode, antialias=1, exclude_outside=exclude)
    check_node(model, {"x": x}, reference(model, {"x": x}), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("coefficient", [-0.75, -0.5])
@pytest.mark.parametrize("scales", [[1, 1, 0.6, 0.4], [1, 1, 2, 1.7]])
def test_exclude_outside(coefficient: float, scales: list[float]) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, scales=scales, mode="cubic", exclude_outside=1, cubic_coeff_a=coefficient)
    check_node(model, {"x": x}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [[0, 0, 0.4, 0.2, 1, 1, 0.9, 0.7], [0, 0, -0.2, 0.3, 1, 1, 0.7, 1.4]])
@pytest.mark.parametrize("target", [{"sizes": [1, 2, 4, 5]}, {"scales": [1, 1, 0.8, 1.3]}])
@pytest.mark.parametrize("dynamic", [False, True])
def test_crop_and_resize(mode: str, roi: list[float], target: dict[str, Any], dynamic: bool) -> None:
    x = image(1, 2, 6, 7)
    model = resize(
        x,
        **target,
        roi=roi,
        dynamic=dynamic,
        mode=mode,
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    )
    check_node(model, {"x": x}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_crop_to_one_element(mode: str) -> None:
    """One element lies in the middle of the region."""
    x = image(1, 2, 6, 7)
    roi = [0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7]
    model = resize(x, sizes=[1, 2, 1, 5], roi=roi, mode=mode, coordinate_transformation_mode="tf_crop_and_resize")
    check_node(model, {"x": x}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("sizes", [[9, 8], [4, 9], [3, 2]])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_keep_aspect_ratio(policy: str, sizes: list[int], mode: str) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=18, sizes=sizes, axes=[2, 3], keep_aspect_ratio_policy=policy, mode=mode)
    check_node(model, {"x": x}, reference(model, {"x": x}), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axes", [[2, 3], [3, 2], [-1], [-2, -1], [1, 3]])
def test_axes(axes: list[int]) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=18, scales=[1.5, 2.0][: len(axes)], axes=axes, mode="nearest")
    check_node(model, {"x": x})


@pytest.mark.parametrize(
    ("scales", "is_one_layer"), [([1, 1, 2, 3], True), ([1, 1, 0.6, 1.7], False), ([1.5, 1.5, 0.6, 1.7], False)]
)
def test_half_pixel_symmetric(scales: list[float], is_one_layer: bool) -> None:
    """Where scales leave no fraction of an element it is half_pixel, which Interpolate has."""
    x = image(1, 2, 6, 7)
    model = resize(x, opset=19, scales=scales, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    check_node(model, {"x": x}, reference(model, {"x": x}), rtol=1e-3, atol=1e-3)
    layers = [layer.op.type for layer in converter.convert_model(model).nodes()]
    assert ("Interpolate" in layers) == is_one_layer


BEYOND_INTERPOLATE: list[dict[str, Any]] = [
    {"scales": [1, 1, 0.6, 1.7], "antialias": 1},
    {"sizes": [1, 2, 3, 9], "antialias": 1},
    {"sizes": [1, 2, 3, 9], "antialias": 1, "exclude_outside": 1},
    {"scales": [1, 1, 1.5, 0.6], "exclude_outside": 1},
    {"sizes": [9, 8], "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
    {"sizes": [4, 9], "axes": [3, 2], "keep_aspect_ratio_policy": "not_smaller"},
    {"scales": [1, 1, 0.7, 1.3], "coordinate_transformation_mode": "half_pixel_symmetric"},
    {
        "sizes": [1, 2, 4, 5],
        "roi": [0, 0, 0.4, -0.2, 1, 1, 0.9, 0.7],
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    },
]


def without_idle_options(mode: str, options: dict[str, Any]) -> dict[str, Any]:
    """Without the options that mean nothing for the nearest element."""
    idle = ("antialias", "exclude_outside") if mode == "nearest" else ()
    return {name: value for name, value in options.items() if name not in idle}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("options", BEYOND_INTERPOLATE)
def test_options_that_interpolate_lacks_with_dynamic_dimensions(mode: str, options: dict[str, Any]) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=19, mode=mode, dynamic=True, **without_idle_options(mode, options))
    check_node(model, {"x": x}, reference(model, {"x": x}), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("options", BEYOND_INTERPOLATE)
def test_static_dimensions_are_resized_one_at_a_time(mode: str, options: dict[str, Any]) -> None:
    x = image(1, 2, 6, 7)
    model = resize(x, opset=19, mode=mode, **without_idle_options(mode, options))
    check_static(model, x, reference(model, {"x": x}))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_static_crop_to_one_element(mode: str) -> None:
    x = image(1, 2, 6, 7)
    roi = [0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7]
    model = resize(x, sizes=[1, 2, 1, 5], roi=roi, mode=mode, coordinate_transformation_mode="tf_crop_and_resize")
    check_static(model, x, run_onnxruntime(model, {"x": x}))


def check_static(model: onnx.ModelProto, x: np.ndarray, expected: list[Any]) -> None:
    """Both engines run the model converted for the declared shapes, whose places are known while converting."""
    made = converter.convert_model(model, static=True)
    assert "ShapeOf" not in [layer.op.type for layer in made.nodes()]
    ir = ir_runtime.model_to_bytes(made)
    for run in (run_numpy, run_openvino):
        assert_close(run(ir, {"x": x})[0], expected[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either scales or sizes"),
        ({"scales": [1, 1, 2, 2], "sizes": [1, 2, 3, 4]}, "either scales or sizes"),
        ({"scales": [2, 2]}, "were given for 4 dimensions"),
        ({"scales": [1, 1, -2, 2]}, "must be positive"),
        ({"scales": [1, 1, 2, 2], "mode": "area"}, "mode must be one of"),
        ({"scales": [1, 1, 2, 2], "coordinate_transformation_mode": "tf_crop_and_resize"}, "needs a region"),
        (
            {
                "scales": [1, 1, 2, 2],
                "roi": [0, 0, 1, 1],
                "coordinate_transformation_mode": "tf_crop_and_resize",
            },
            "4 numbers for 4 dimensions",
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(resize(image(1, 2, 6, 7), **options))
