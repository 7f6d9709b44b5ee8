"""Conv, ConvTranspose and DeformConv through both engines, against onnxruntime or the ONNX suite."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(3)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def conv(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, op: str = "Conv", opset: int = 11, **attributes: Any
) -> onnx.ModelProto:
    constants = {"w": w} if b is None else {"w": w, "b": b}
    return node_model(op, {"x": x}, opset=opset, attributes=attributes, constants=constants)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 8, 9), (4, 3, 3, 3), {}),
        ((2, 3, 8, 9), (4, 3, 3, 2), {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((1, 4, 8, 9), (6, 4, 1, 1), {}),
        ((2, 4, 8, 9), (6, 4, 1, 1), {"strides": [2, 3], "pads": [1, 1, 0, 0]}),
        ((1, 4, 9, 9), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
        ((2, 4, 9, 9), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ((1, 3, 9, 9), (6, 1, 3, 3), {"group": 3, "strides": [2, 2], "dilations": [1, 2]}),
        ((2, 3, 11), (4, 3, 3), {"pads": [2, 1], "dilations": [2]}),
        ((2, 3, 11), (3, 1, 3), {"group": 3}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
        ((1, 2, 5, 6, 7), (2, 1, 3, 3, 3), {"group": 2, "auto_pad": "SAME_LOWER"}),
        ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 3, 8, 9), (4, 3, 1, 1), {"auto_pad": "SAME_UPPER", "strides": [3, 3]}),
        ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "VALID", "strides": [2, 1]}),
        ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "", "pads": [1, 0, 2, 1]}),
    ],
)
@pytest.mark.parametrize("dimensions", ["known", "unknown"])
@pytest.mark.parametrize("biased", [False, True])
def test_conv(
    x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], dimensions: str, biased: bool
) -> None:
    data, weights = normal(*x), normal(*w)
    constants = {"w": weights, "b": normal(w[0])} if biased else {"w": weights}
    shapes = None if dimensions == "known" else {"x": ["n", x[1], *[None] * (len(x) - 2)]}
    model = node_model("Conv", {"x": data}, opset=11, attributes=attributes, constants=constants, shapes=shapes)
    check_node(model, {"x": data})


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_conv_of_every_version_and_type(opset: int, dtype: Any) -> None:
    x, w, b = normal(1, 3, 7, 7, dtype=dtype), normal(4, 3, 3, 3, dtype=dtype), normal(4, dtype=dtype)
    wide = conv(x.astype(np.float32), w.astype(np.float32), b.astype(np.float32), pads=[1, 1, 1, 1])
    from tests.engines import run_onnxruntime

    expected = run_onnxruntime(wide, {"x": x.astype(np.float32)})[0].astype(dtype)
    check_node(
        conv(x, w, b, opset=opset, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {"x": x}, [expected], rtol=2e-3, atol=2e-3
    )


def test_conv_of_bfloat16() -> None:
    x, w = normal(1, 2, 5, 5, dtype=ml_dtypes.bfloat16), normal(3, 2, 3, 3, dtype=ml_dtypes.bfloat16)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64)).astype(ml_dtypes.bfloat16)
    check_node(conv(x, w, opset=22), {"x": x}, [expected], rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize(("group", "w"), [(1, (4, 4, 3, 3)), (4, (4, 1, 3, 3)), (2, (6, 2, 3, 3))])
@pytest.mark.parametrize("dimensions", ["known", "unknown"])
def test_conv_with_weights_given_at_execution(group: int, w: tuple[int, ...], dimensions: str) -> None:
    feeds = {"x": normal(2, 4, 7, 7), "w": normal(*w), "b": normal(w[0])}
    shapes = None if dimensions == "known" else {"x": ["n", 4, None, None]}
    check_node(node_model("Conv", feeds, opset=11, attributes={"group": group}, shapes=shapes), feeds)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 4, 5), (3, 2, 3, 3), {}),
        ((2, 3, 4, 5), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
        ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "output_padding": [1, 1], "dilations": [2, 1]}),
        ((1, 4, 4, 5), (4, 1, 3, 3), {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
        ((1, 4, 4, 5), (4, 3, 2, 2), {"group": 2, "strides": [2, 2]}),
        ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "output_shape": [8, 10]}),
        ((1, 3, 4, 5), (3, 2, 4, 4), {"strides": [2, 2], "output_shape": [9, 11], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 4, 5), (3, 2, 4, 4), {"strides": [2, 2], "output_shape": [9, 11], "auto_pad": "SAME_LOWER"}),
        ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
        ((2, 3, 6), (3, 2, 4), {"strides": [3], "pads": [1, 2]}),
        ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 0, 1, 0]}),
    ],
)
@pytest.mark.parametrize("dimensions", ["known", "unknown"])
@pytest.mark.parametrize("biased", [False, True])
def test_conv_transpose(
    x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], dimensions: str, biased: bool
) -> None:
    data, weights = normal(*x), normal(*w)
    constants = {"w": weights}
    if biased:
        constants["b"] = normal(w[1] * attributes.get("group", 1))
    shapes = None if dimensions == "known" else {"x": ["n", x[1], *[None] * (len(x) - 2)]}
    model = node_model(
        "ConvTranspose", {"x": data}, opset=11, attributes=attributes, constants=constants, shapes=shapes
    )
    check_node(model, {"x": data})


@pytest.mark.parametrize("opset", [1, 11, 22])
def test_conv_transpose_of_every_version(opset: int) -> None:
    x, w = normal(1, 3, 5, 5), normal(3, 2, 3, 3)
    model = conv(x, w, normal(2), op="ConvTranspose", opset=opset, kernel_shape=[3, 3], strides=[2, 2])
    check_node(model, {"x": x})


def test_conv_transpose_with_weights_given_at_execution() -> None:
    feeds = {"x": normal(1, 4, 5, 5), "w": normal(4, 2, 3, 3)}
    check_node(node_model("ConvTranspose", feeds, opset=11, attributes={"group": 2}), feeds)


def test_conv_with_broadcast_weights() -> None:
    """A blur whose one filter is repeated for every channel by an Expand."""
    x, kernel = normal(1, 5, 8, 8), normal(1, 1, 3, 3)
    nodes = [
        helper.make_node("Expand", ["kernel", "shape"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["y0"], group=5, pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "blur",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(x.shape))],
        [onnx.ValueInfoProto(name="y0")],
        [numpy_helper.from_array(kernel, "kernel"), numpy_helper.from_array(np.array([5, 1, 3, 3]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    check_node(model, {"x": x})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"strides": [2, 1], "dilations": [1, 2]},
        {"group": 2, "offset_group": 2},
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(attributes: dict[str, Any], masked: bool) -> None:
    group, parts = attributes.get("group", 1), attributes.get("offset_group", 1)
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    dilations = attributes.get("dilations", [1, 1])
    x, w, b = normal(2, 4, 6, 7), normal(6, 4 // group, 2, 3), normal(6)
    rows = (6 + pads[0] + pads[2] - dilations[0] - 1) // strides[0] + 1
    columns = (7 + pads[1] + pads[3] - 2 * dilations[1] - 1) // strides[1] + 1
    feeds = {"x": x, "offset": 1.5 * normal(2, parts * 2 * 6, rows, columns)}
    order = ["x", "w", "offset", "b"]
    if masked:
        feeds["mask"] = normal(2, parts * 6, rows, columns)
        order.append("mask")
    model = node_model("DeformConv", feeds, opset=19, attributes=attributes, constants={"w": w, "b": b}, order=order)
    from onnx.reference import ReferenceEvaluator

    expected = ReferenceEvaluator(model).run(None, feeds)
    check_node(model, feeds, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "message"),
    [
        ((1, 3, 8, 8), (4, 2, 3, 3), {}, "do not fit data"),
        ((), (4, 2, 3, 3), {}, "must have 4 dimensions"),
        ((3,), (4, 2, 3, 3), {}, "must have 4 dimensions"),
        ((3, 8, 8), (4, 2, 3, 3), {"group": 2}, "must have 4 dimensions"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"kernel_shape": [2, 2]}, "kernel_shape is"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"auto_pad": "BOTH"}, "auto_pad must be one of"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"pads": [1, 1]}, "pads must be 4 numbers"),
        ((1, 4, 8, 8), (5, 2, 3, 3), {"group": 2}, "cannot be split into 2 groups"),
        ((1, 3, 2, 2), (4, 3, 3, 3), {}, "does not fit into 2"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": [0, 1]}, "strides must be 2 numbers"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"dilations": [1, 0]}, "dilations must be 2 numbers from 1 on"),
    ],
)
def test_conv_errors(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(conv(normal(*x), normal(*w), **attributes))
