"""ONNX's MaxUnpool and Col2Im through both engines, against onnxruntime and NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, run_onnxruntime
from tests.random_data import generator

RNG = generator(8)


def pooled(shape: tuple[int, ...], kernel: list[int], strides: list[int], pads: list[int]) -> dict[str, Any]:
    """What MaxPool makes of random data: the maxima and their indices."""
    x = RNG.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    model = node_model("MaxPool", {"x": x}, outputs=2, attributes=attributes, opset=12)
    values, indices = run_onnxruntime(model, {"x": x})
    return {"x": values, "i": np.array(indices.tolist())}


CASES: list[Any] = [
    ((2, 3, 8, 6), [2, 2], [2, 2], [0, 0, 0, 0]),
    ((2, 3, 9, 7), [3, 3], [3, 2], [0, 0, 0, 0]),
    ((2, 3, 7, 8), [3, 2], [2, 2], [1, 0, 1, 0]),
    ((1, 2, 9), [3], [3], [0, 0]),
    ((1, 2, 4, 6, 4), [2, 2, 2], [2, 2, 2], [0] * 6),
]


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_max_unpool(opset: int, case: Any, dynamic: bool) -> None:
    shape, kernel, strides, pads = case
    feeds = pooled(*case)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    shapes = {name: [None] * len(shape) for name in feeds} if dynamic else None
    check_node(node_model("MaxUnpool", feeds, attributes=attributes, opset=opset, shapes=shapes), feeds)


@pytest.mark.parametrize("constant", [True, False])
def test_default_strides(constant: bool) -> None:
    x, i = np.array([[[3, 4]]], np.float32), np.array([[[0, 2]]])
    inputs, constants = ({"x": x}, {"i": i}) if constant else ({"x": x, "i": i}, {})
    model = node_model("MaxUnpool", inputs, constants=constants, attributes={"kernel_shape": [2]}, opset=22)
    check_node(model, inputs, [np.array([[[3, 0, 4]]], np.float32)])


@pytest.mark.parametrize("constant", [True, False])
def test_output_shape(constant: bool) -> None:
    """The indices are those of the smaller whole, which zeros then surround behind."""
    feeds = {"x": np.array([[[[5, 6], [7, 8]]]], np.float32), "i": np.array([[[[5, 7], [13, 15]]]])}
    expected = np.zeros((1, 1, 5, 5), np.float32)
    expected[0, 0, 1::2, 1::2][:2, :2] = [[5, 6], [7, 8]]
    shape = {"s": np.array([1, 1, 5, 5])}
    inputs, constants = (feeds, shape) if constant else ({**feeds, **shape}, {})
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    model = node_model("MaxUnpool", inputs, constants=constants, attributes=attributes, opset=11)
    check_node(model, inputs, [expected])


def folded(
    x: np.ndarray, image: list[int], block: list[int], strides: list[int], dilations: list[int], pads: list[int]
) -> np.ndarray:
    """Block by block, element by element."""
    spatial, size = len(image), int(np.prod(block))
    channels = x.shape[1] // size
    counts = [
        (n + pads[i] + pads[spatial + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i, n in enumerate(image)
    ]
    taps = x.reshape(len(x), channels, *block, *counts)
    out = np.zeros((len(x), channels, *image), x.dtype)
    for tap, place in itertools.product(np.ndindex(*block), np.ndindex(*counts)):
        at = [p * s + t * d - b for p, s, t, d, b in zip(place, strides, tap, dilations, pads)]
        if all(0 <= a < n for a, n in zip(at, image)):
            out[(slice(None), slice(None), *at)] += taps[(slice(None), slice(None), *tap, *place)]
    return out


FOLDS: list[Any] = [
    ([5, 5], [1, 5], [1, 1], [1, 1], [0, 0, 0, 0]),
    ([6, 7], [2, 3], [2, 1], [1, 2], [1, 0, 2, 1]),
    ([8], [3], [2], [1], [1, 0]),
    ([4, 5, 6], [2, 1, 3], [1, 2, 1], [1, 1, 2], [1, 0, 0, 0, 1, 1]),
    ([4, 5, 4], [2, 2, 2], [1, 1, 2], [1, 1, 1], [0] * 6),
]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("case", FOLDS, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_col2im(case: Any, dynamic: bool, constant: bool) -> None:
    image, block, strides, dilations, pads = case
    x = data_of(case)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    sizes = {"image": np.array(image), "block": np.array(block)}
    inputs, constants = ({"x": x}, sizes) if constant else ({"x": x, **sizes}, {})
    shapes = {"x": [None, None, None]} if dynamic else None
    model = node_model("Col2Im", inputs, constants=constants, attributes=attributes, opset=18, shapes=shapes)
    check_node(model, inputs, [folded(x, *case)])


def data_of(case: Any) -> np.ndarray:
    image, block, strides, dilations, pads = case
    spatial = len(image)
    columns = 1
    for i, n in enumerate(image):
        columns *= (n + pads[i] + pads[spatial + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
    return RNG.standard_normal((2, 3 * int(np.prod(block)), columns)).astype(np.float32)


def test_defaults_of_col2im() -> None:
    x = RNG.standard_normal((2, 12, 12)).astype(np.float32)
    constants = {"image": np.array([4, 5]), "block": np.array([2, 2])}
    check_node(node_model("Col2Im", {"x": x}, constants=constants, opset=18), {"x": x})


X = np.ones((1, 4, 6), np.float32)


@pytest.mark.parametrize(
    ("inputs", "constants", "attributes", "message"),
    [
        ({"x": X}, {"i": np.array([3, 4]), "b": np.array([3, 1])}, {}, "no whole number of blocks"),
        ({"x": X}, {"i": np.array([3, 3]), "b": np.array([2, 2])}, {}, "have not the 4 blocks"),
        ({"x": X}, {"i": np.array([3, 4]), "b": np.array([2])}, {}, "does not fit an image of 2"),
        ({"x": X}, {"i": np.array([3, 4]), "b": np.array([2, 2])}, {"strides": [0, 1]}, "strides must be 2 numbers"),
        ({"x": X}, {"i": np.array([3, 4]), "b": np.array([2, 2])}, {"pads": [0, 1]}, "pads must be 4 numbers"),
        (
            {"x": np.ones((2, 3, 8), np.float32)},
            {"i": np.array([1, 3, 4]), "b": np.array([1, 2, 1])},
            {},
            r"are no blocks of \[1, 2, 1\]",
        ),
        ({"x": X > 0}, {"i": np.array([3, 4]), "b": np.array([2, 2])}, {}, "sums of elements of type boolean"),
    ],
)
def test_refusals_of_col2im(
    inputs: dict[str, Any], constants: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    model = node_model("Col2Im", inputs, constants=constants, attributes=attributes, opset=18)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


@pytest.mark.parametrize(
    ("x", "attributes", "message"),
    [
        (X, {"kernel_shape": [2, 2]}, "kernel_shape must be 1 numbers"),
        (X[0], {"kernel_shape": [2]}, "at least 3 dimensions"),
    ],
)
def test_contradictions_of_max_unpool(x: np.ndarray, attributes: dict[str, Any], message: str) -> None:
    feeds = {"x": x, "i": np.zeros(x.shape, np.int64)}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("MaxUnpool", feeds, attributes=attributes, opset=11))
