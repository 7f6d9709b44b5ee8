"""The poolings row by row, in both engines, against onnxruntime and the specification's own words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, run_onnxruntime
from tests.oracles.pooling import average_pool


def image(*dimensions: int, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(dimensions)).standard_normal((2, 3, *dimensions)).astype(dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3]},
        {"kernel_shape": [2, 3], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [0, 1, 2, 1], "ceil_mode": 1, "count_include_pad": 1},
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1, "count_include_pad": 1},
        {"kernel_shape": [2, 2], "dilations": [2, 3]},
        {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1},
        {
            "kernel_shape": [3, 2],
            "dilations": [2, 2],
            "strides": [1, 2],
            "pads": [2, 0, 0, 1],
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
        {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER", "count_include_pad": 1},
        {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1},
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "auto_pad": ""},
    ],
    ids=str,
)
def test_average_pool_against_the_specification(attributes: dict, dynamic: bool) -> None:
    x = image(9, 8)
    shapes = {"x": ["n", "c", "h", "w"]} if dynamic else None
    model = node_model("AveragePool", {"x": x}, opset=22, attributes=attributes, shapes=shapes)
    expected = average_pool(x, **attributes).astype(np.float32)
    check_node(model, {"x": x}, [expected])
    np.testing.assert_allclose(run_onnxruntime(model, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 7, 10, 11, 19, 22])
@pytest.mark.parametrize("dimensions", [(9,), (7, 6), (4, 5, 6)])
def test_average_pool_every_version_and_rank(opset: int, dimensions: tuple[int, ...]) -> None:
    x = image(*dimensions)
    attributes = {
        "kernel_shape": [2] * len(dimensions),
        "strides": [2] * len(dimensions),
        "pads": [1] * 2 * len(dimensions),
    }
    check_node(
        node_model("AveragePool", {"x": x}, opset=opset, attributes=attributes),
        {"x": x},
        [average_pool(x, **attributes).astype(np.float32)],
    )


def test_average_pool_of_four_spatial_dimensions_in_numpy() -> None:
    # OpenVINO's pooling layers stop at three spatial dimensions.
    x = image(3, 4, 3, 4)
    attributes = {"kernel_shape": [2, 2, 2, 2], "pads": [0, 1, 0, 1, 0, 0, 1, 0]}
    model = node_model("AveragePool", {"x": x}, opset=22, attributes=attributes)
    check_node(model, {"x": x}, [average_pool(x, **attributes).astype(np.float32)], engines=["numpy"])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    ("op_type", "kernel", "stride", "dilation"),
    [
        *itertools.product(["AveragePool", "LpPool"], [1, 2], [3], [1]),
        *itertools.product(["AveragePool", "LpPool", "MaxPool"], [2, 3], [1, 2], [2]),
    ],
)
def test_same_padding_in_the_corners(
    op_type: str, kernel: int, stride: int, dilation: int, auto_pad: str, dynamic: bool
) -> None:
    """Strides beyond the kernel and dilations: onnxruntime's answer, as its users see it."""
    x = image(9, 7)
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": auto_pad}
    if dilation > 1:
        attributes["dilations"] = [dilation] * 2
    shapes = {"x": ["n", 3, "h", "w"]} if dynamic else None
    check_node(node_model(op_type, {"x": x}, opset=22, attributes=attributes, shapes=shapes), {"x": x})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [1, 2])
def test_max_pool_same_with_gaps_between_windows(kernel: int, auto_pad: str, dynamic: bool) -> None:
    """onnxruntime refuses it; three windows at 0, 3 and 6 need no padding in nine elements."""
    x = image(9, 9)
    attributes = {"kernel_shape": [kernel] * 2, "strides": [3, 3], "auto_pad": auto_pad}
    expected = x.reshape(2, 3, 3, 3, 3, 3)[:, :, :, :kernel, :, :kernel].max(axis=(3, 5))
    shapes = {"x": ["n", 3, "h", "w"]} if dynamic else None
    check_node(node_model("MaxPool", {"x": x}, opset=12, attributes=attributes, shapes=shapes), {"x": x}, [expected])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("opset", "attributes"),
    [
        (1, {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}),
        (8, {"kernel_shape": [2, 3], "strides": [2, 1]}),
        (12, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 0, 1]}),
        (22, {"kernel_shape": [2, 2], "dilations": [3, 2], "auto_pad": "VALID"}),
        (22, {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("op_type", ["MaxPool"])
def test_max_pool(op_type: str, opset: int, attributes: dict, dynamic: bool) -> None:
    x = image(8, 7)
    shapes = {"x": ["n", "c", "h", "w"]} if dynamic else None
    check_node(node_model(op_type, {"x": x}, opset=opset, attributes=attributes, shapes=shapes), {"x": x})


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("dimensions", [(8,), (6, 5), (4, 3, 5)])
@pytest.mark.parametrize("padded", [False, True])
def test_max_pool_indices(dimensions: tuple[int, ...], storage_order: int, padded: bool) -> None:
    x = image(*dimensions)
    rank = len(dimensions)
    attributes = {"kernel_shape": [2] * rank, "strides": [2] * rank, "storage_order": storage_order}
    if padded:
        attributes["pads"] = [1] * 2 * rank
    check_node(node_model("MaxPool", {"x": x}, opset=12, outputs=2, attributes=attributes), {"x": x})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_bytes(dtype: type) -> None:
    x = np.random.default_rng(0).integers(0, 120, (1, 2, 6, 6)).astype(dtype)
    check_node(
        node_model("MaxPool", {"x": x}, opset=12, attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), {"x": x}
    )


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("opset", [2, 11, 18, 22])
@pytest.mark.parametrize("dynamic", [False, True])
def test_lp_pool(opset: int, p: int, dynamic: bool) -> None:
    x = image(7, 6)
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "p": p}
    if opset >= 18:
        attributes |= {"ceil_mode": 1, "dilations": [1, 2]}
    shapes = {"x": ["n", "c", "h", "w"]} if dynamic else None
    check_node(node_model("LpPool", {"x": x}, opset=opset, attributes=attributes, shapes=shapes), {"x": x}, rtol=1e-3)


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes"),
    [("GlobalAveragePool", 1, {}), ("GlobalAveragePool", 22, {}), ("GlobalMaxPool", 1, {}), ("GlobalMaxPool", 22, {})]
    + [("GlobalLpPool", opset, {"p": p}) for opset, p in itertools.product([2, 22], [1, 2, 3])],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_global_pools(op_type: str, opset: int, attributes: dict, dynamic: bool) -> None:
    x = image(5, 4)
    shapes = {"x": ["n", "c", "h", "w"]} if dynamic else None
    model = node_model(op_type, {"x": x}, opset=opset, attributes=attributes, shapes=shapes)
    p = attributes.get("p")
    expected = [(np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)] if p else None
    check_node(model, {"x": x}, [v.astype(np.float32) for v in expected] if expected else None, rtol=1e-3)


@pytest.mark.parametrize(
    ("op_type", "ceil", "stride", "revision"),
    [
        ("AveragePool", 0, 2, 1),
        ("AveragePool", 1, 2, 14),
        ("MaxPool", 0, 2, 1),
        ("MaxPool", 1, 2, 1),
        ("MaxPool", 1, 3, 1),
        ("MaxPool", 1, 4, 14),
    ],
)
def test_the_plain_case_is_one_layer_of_the_least_revision(op_type: str, ceil: int, stride: int, revision: int) -> None:
    """For maxima the younger one is needed where a window may start behind the data.

    Of means the plug-in divides by the whole window with the older one, also where it reaches beyond the data.
    """
    attributes = {"kernel_shape": [3, 3], "strides": [stride, stride], "ceil_mode": ceil}
    model = converter.convert_model(node_model(op_type, {"x": image(8, 8)}, opset=22, attributes=attributes))
    assert [(n.op.type, n.op.opset) for n in model.nodes()] == [
        ("Parameter", 1),
        (op_type.replace("Average", "Avg"), revision),
        ("Result", 1),
    ]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "attribute 'kernel_shape' is required, but missing"),
        ({"kernel_shape": [3]}, "needs an input of rank 3"),
        ({"kernel_shape": [3, 0]}, "kernel_shape must be 2 positive numbers"),
        ({"kernel_shape": [3, 3], "strides": [1, 1, 1]}, "strides must be 2 positive numbers"),
        ({"kernel_shape": [3, 3], "pads": [1, 1, -1, 1]}, "pads must be 4 numbers from 0 on"),
        ({"kernel_shape": [3, 3], "auto_pad": "SAME"}, "auto_pad must be one of"),
        ({"kernel_shape": [30, 3]}, "a window of 30 elements does not fit into 8"),
    ],
)
def test_errors_name_the_node(attributes: dict, message: str) -> None:
    model = node_model("AveragePool", {"x": image(8, 8)}, opset=22, attributes=attributes)
    with pytest.raises(converter.ConversionError, match=r"node 'node' \(AveragePool, opset 22\)") as caught:
        converter.convert_model(model)
    assert message in str(caught.value)
