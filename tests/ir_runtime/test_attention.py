"""ScaledDotProductAttention: OpenVINO's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset13 as ops
import openvino.opset16 as newest
import pytest

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.attention import ScaledDotProductAttention13
from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


SEEN = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0]], np.bool_)
SCORES = np.where(SEEN, normal(4, 5), np.float32(-np.inf)).astype(np.float32)
NOBODY = np.where(np.arange(4)[:, None] == 2, False, SEEN)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "more",
    [(), (SEEN,), (SCORES,), (SCORES[None, None],), (NOBODY,), (np.float32(0),), (SEEN, np.float32(0.3))],
    ids=["plain", "seen", "scores", "rank4", "nobody", "none", "scale"],
)
def test_attention(causal: bool, more: tuple[Any, ...]) -> None:
    feeds = [normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 6), *(np.asarray(value) for value in more)]
    parameters = [newest.parameter(list(value.shape), value.dtype) for value in feeds]
    node = ops.scaled_dot_product_attention(*parameters, causal=causal)
    check_peers([node], parameters, feeds)


def test_dynamic_dimensions() -> None:
    parameters = [newest.parameter([-1, 3, -1, 8], np.float32) for _ in range(3)]
    node = ops.scaled_dot_product_attention(*parameters)
    check_peers([node], parameters, [normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 8)])


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_mask_that_widens(is_dynamic: bool) -> None:
    """The mask has more batches and rows than the queries."""
    feeds = [normal(1, 3, 1, 8), normal(1, 3, 5, 8), normal(1, 3, 5, 6), normal(2, 1, 4, 5)]
    parameters = [
        newest.parameter([-1, *value.shape[1:]] if is_dynamic else value.shape, np.float32) for value in feeds
    ]
    node = ops.scaled_dot_product_attention(*parameters)
    check_peers([node], parameters, feeds)


def test_a_sink_takes_its_part_of_the_weights() -> None:
    """Two equal scores and a sink as great: a third each."""
    op = ScaledDotProductAttention13()
    query, value = np.zeros((1, 1, 1, 4), np.float32), np.array([[[[3.0], [6.0]]]], np.float32)
    key, scale, sink = np.zeros((1, 1, 2, 4), np.float32), np.ones((), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    got = op.evaluate(query, key, value, np.zeros((), np.float32), scale, sink)
    np.testing.assert_allclose(got, [[[[3.0]]]], rtol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "kind", "wanted"),
    [
        (["2,4,8", "2,5,7", "2,5,6"], "f32", "agree in the last dimension"),
        (["2,4,8", "2,5,8", "2,6,6"], "f32", "agree in the last but one dimension"),
        (["8", "5,8", "5,6"], "f32", "must be at least matrices"),
        (["4,8", "5,8", "5,6"], "i32", "floating-point"),
    ],
)
def test_errors(shapes: list[str], kind: str, wanted: str) -> None:
    inputs = [TensorType(element_type(kind), PartialShape.parse(shape)) for shape in shapes]
    with pytest.raises(ir_runtime.ModelError, match=wanted):
        ScaledDotProductAttention13().infer(inputs)
