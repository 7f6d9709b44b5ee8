"""onnxruntime's operators on words, masked pooling and alignment through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(43)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("words", "length", "window"), [(4, 6, 2), (7, 3, 3), (1, 5, 1), (5, 8, 4)])
def test_words(words: int, length: int, window: int, dynamic: bool) -> None:
    ids = R.integers(1, 9, (words, length)).astype(np.int32)
    for row in ids:
        row[R.integers(1, length + 1) :] = 0
    constants = {"w": f(3, 1, window, 5), "b": f(3), "c": f(9, 5)}
    attributes = {"embedding_size": 3, "conv_window_size": window, "char_embedding_size": 5}
    shapes = {"ids": ["words", None]} if dynamic else None
    feeds = {"ids": ids}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "shapes": shapes}
    check_node(node_model("WordConvEmbedding", feeds, attributes=attributes, **options), feeds)
    check_node(node_model("WordConvEmbedding", feeds, **options), feeds)
    with pytest.raises(converter.InvalidModelError, match="conv_window_size is 9, but the weights are"):
        converter.convert_model(node_model("WordConvEmbedding", feeds, attributes={"conv_window_size": 9}, **options))


POOLS = [
    ((2, 3, 9), {"kernel_shape": [3]}),
    ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 2]}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "auto_pad": "VALID"}),
    ((1, 2, 5, 4, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 1]}),
]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
@pytest.mark.parametrize(("shape", "attributes"), POOLS, ids=str)
def test_pooling_of_what_a_mask_leaves(shape: tuple[int, ...], attributes: dict[str, Any], share: float) -> None:
    feeds = {"x": f(*shape), "mask": (R.random((1, 1, *shape[2:])) >= share).astype(np.int32)}
    check_node(node_model("MaxpoolWithMask", feeds, opset=1, domain="com.microsoft", attributes=attributes), feeds)


def test_a_mask_of_several_channels_is_refused() -> None:
    feeds = {"x": f(1, 2, 6), "mask": np.ones((1, 2, 6), np.int32)}
    model = node_model("MaxpoolWithMask", feeds, opset=1, domain="com.microsoft", attributes={"kernel_shape": [2]})
    with pytest.raises(converter.UnsupportedModelError, match=r"the mask must be \[1, 1, ...\], but is \[1,2,6\]"):
        converter.convert_model(model)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (3, 4), (7, 5), (1, 6, 9)], ids=str)
def test_alignment(shape: tuple[int, ...], has_ties: bool, dynamic: bool) -> None:
    feeds = {"x": R.integers(0, 2, shape).astype(np.float32) if has_ties else f(*shape)}
    shapes = {"x": [None] * len(shape)} if dynamic else None
    check_node(node_model("DynamicTimeWarping", feeds, opset=1, domain="com.microsoft", shapes=shapes), feeds)
