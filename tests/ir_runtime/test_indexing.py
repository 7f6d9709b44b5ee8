"""Gathers, scatters, embeddings and searches in the IR against OpenVINO."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from openvino import opset1, opset3, opset4, opset5, opset7
from openvino import opset16 as ov

from ir_runtime.errors import InferenceError
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.ir_runtime.peers import check_peers

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3) - 4


def data(*shape: int) -> Any:
    return ov.parameter(list(shape), np.float32)


def ints(*values: Any) -> Any:
    return ov.constant(np.array(values, np.int64))


def scalar(value: Any, kind: Any = np.int64) -> Any:
    return ov.constant(kind(value))


@pytest.mark.parametrize("shape", [(2, 3, 4), (-1, -1, -1)])
@pytest.mark.parametrize(("axis", "batch"), [(0, 0), (1, 0), (1, 1), (2, 1), (-1, -1)])
def test_gather(shape: tuple[int, ...], axis: int, batch: int) -> None:
    x = data(*shape)
    indices = ints([1, 0], [0, 1]) if batch == 0 or axis != 0 else ints(1)
    check_peers([ov.gather(x, indices, scalar(axis), batch), opset7.gather(x, indices, scalar(axis), batch)], [x], [X])


def test_first_gather() -> None:
    x = data(2, 3, 4)
    check_peers([opset1.gather(x, ints(2, 0), scalar(1))], [x], [X])


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_gather_nd(batch: int) -> None:
    x = data(2, 3, 4)
    indices = {0: ints([1, 2], [0, 1]), 1: ints([[2], [0]], [[1], [1]]), 2: ints([[3], [0], [1]], [[2], [2], [0]])}
    check_peers([ov.gather_nd(x, indices[batch], batch), opset5.gather_nd(x, indices[batch], batch)], [x], [X])


@pytest.mark.parametrize("shape", [(2, 3, 4), (-1, -1, -1)])
def test_scatter_update(shape: tuple[int, ...]) -> None:
    x = data(*shape)
    updates = -np.ones((2, 2, 4), np.float32)
    check_peers([ov.scatter_update(x, ints(2, 0), ov.constant(updates), scalar(1))], [x], [X])


@pytest.mark.parametrize("reduction", ["none", "sum", "prod", "min", "max", "mean"])
@pytest.mark.parametrize("init", [True, False])
def test_scatter_elements(reduction: str, init: bool) -> None:
    x = data(5)
    updates = ov.constant(np.array([3, -2, 7, 1], np.float32))
    indices = ints(0, 3, 1, 2) if reduction == "none" else ints(0, 0, -1, 2)
    node = ov.scatter_elements_update(x, indices, updates, scalar(0), reduction, init)
    check_peers([node], [x], [np.array([1, 2, 3, 4, 5], np.float32)])


@pytest.mark.parametrize("reduction", ["none", "sum", "sub", "prod", "min", "max"])
def test_scatter_nd(reduction: str) -> None:
    x = data(3, 2)
    indices = ints([0], [2]) if reduction == "none" else ints([0], [0])
    updates = ov.constant(np.array([[3, -2], [7, 1]], np.float32))
    node = ov.scatter_nd_update(x, indices, updates, reduction)
    check_peers([node], [x], [np.arange(6, dtype=np.float32).reshape(3, 2)])


def test_first_scatters() -> None:
    x = data(3, 2)
    updates = ov.constant(np.array([[3, -2]], np.float32))
    nodes = [
        opset3.scatter_elements_update(x, ints([2, 1]), updates, scalar(0)),
        opset4.scatter_nd_update(x, ints([1]), updates),
    ]
    check_peers(nodes, [x], [np.arange(6, dtype=np.float32).reshape(3, 2)])


@pytest.mark.parametrize("mode", ["ignore_negative", "normalize"])
@pytest.mark.parametrize("axis", [0, -1])
def test_one_hot(mode: str, axis: int) -> None:
    x = ov.parameter([4], np.int64)
    args = (scalar(3), scalar(5, np.float32), scalar(-1, np.float32))
    node = ov.one_hot(x, *args, axis, mode)
    check_peers([node, opset1.one_hot(x, *args, axis)], [x], [np.array([-1, 0, 2, 3])])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_embedding_bags(weighted: bool, reduction: str) -> None:
    if weighted and reduction == "mean":
        reduction = "sum"  # weights belong to sums alone
    table = data(5, 3)
    indices, offsets = ints(0, 2, 3, 4), ints(0, 2, 2)
    weights = ov.constant(np.array([0.5, 2, -1, 3], np.float32)) if weighted else None
    packed = ov.constant(np.array([[0.5, 2], [-1, 3]], np.float32)) if weighted else None
    pairs = ints([0, 2], [3, 4])
    nodes = [
        ov.embedding_bag_offsets(table, indices, offsets, scalar(1), weights, reduction),
        ov.embedding_bag_packed(table, pairs, packed, reduction),
    ]
    if reduction == "sum":
        nodes += [
            ov.embedding_bag_offsets_sum(table, indices, offsets, scalar(1), weights),
            ov.embedding_bag_packed_sum(table, pairs, packed),
            ov.embedding_segments_sum(table, indices, ints(0, 0, 2, 2), scalar(4), scalar(1), weights),
        ]
    check_peers(nodes, [table], [TABLE])


def test_embedding_bags_without_default() -> None:
    table = data(5, 3)
    indices = ints(0, 2, 3, 4)
    nodes = [
        ov.embedding_bag_offsets_sum(table, indices, ints(0, 2, 2)),
        ov.embedding_segments_sum(table, indices, ints(0, 0, 2, 2), scalar(3)),
    ]
    check_peers(nodes, [table], [TABLE])


def test_gather_tree() -> None:
    ids = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[3, 2, 1]]], np.float32)
    parents = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[0, 1, 1]]], np.float32)
    a, b = data(4, 1, 3), data(4, 1, 3)
    for length in (4, 3):
        limit = ov.constant(np.array([length], np.float32))
        check_peers([ov.gather_tree(a, b, limit, scalar(10, np.float32))], [a, b], [ids, parents])


@pytest.mark.parametrize("right", [False, True])
def test_searches(right: bool) -> None:
    ordered = np.array([[1, 3, 3, 5], [0, 2, 4, 6]], np.float32)
    values = np.array([[3, 0, 9], [4, 5, -1]], np.float32)
    a, b = data(2, 4), data(2, 3)
    check_peers([ov.search_sorted(a, b, right)], [a, b], [ordered, values])
    bounds = ov.constant(np.array([1, 3, 5], np.float32))
    for kind in ("i32", "i64"):
        b = data(2, 3)
        check_peers([ov.bucketize(b, bounds, kind, right)], [b], [values])


def test_boundaries_that_are_no_list() -> None:
    values, boundaries = (TensorType(f32, PartialShape(shape)) for shape in ([2, 3], [1, 4]))
    with pytest.raises(InferenceError, match=r"must be a list, but have the shape \[1,4\]"):
        find_operation("Bucketize", 3)().infer([values, boundaries])


@pytest.mark.parametrize("axis", [None, 0])
def test_unique_integers_that_float32_does_not_tell_apart(axis: int | None) -> None:
    x = np.array([2**24 + 1, 2**24, 2**24 + 1, 2**24 - 1])
    x = x if axis is None else np.stack([np.zeros(4, np.int64), x], 1)
    given = [] if axis is None else [np.array(axis)]
    values, first, inverse, counts = find_operation("Unique", 10)(sorted=True).evaluate(x, *given)
    np.testing.assert_array_equal(values, x[[3, 1, 0]])
    assert [first.tolist(), inverse.tolist(), counts.tolist()] == [[3, 1, 0], [2, 1, 2, 0], [1, 1, 2]]


@pytest.mark.parametrize("sort", ["value", "index"])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_top_k(sort: str, mode: str) -> None:
    x = data(2, 5)
    values = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.float32)
    node = ov.topk(x, scalar(3), 1, mode, sort)
    check_peers([node.output(0), node.output(1)], [x], [values])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cum_sum(reverse: bool, exclusive: bool) -> None:
    x = data(2, 3, 4)
    check_peers([ov.cum_sum(x, scalar(-2), exclusive, reverse)], [x], [X])


def test_eye_and_range() -> None:
    count = ov.parameter([], np.int64)
    nodes = [
        ov.eye(count, scalar(4), scalar(-1), "i32"),
        ov.eye(scalar(2), scalar(3), scalar(1), "f32", ints(2)),
        ov.range(scalar(0), count, scalar(2), "f32"),
    ]
    check_peers(nodes, [count], [np.array(5)])


@pytest.mark.parametrize("kind", ["f32", "f16", "i32"])
def test_random_numbers_of_a_seed_are_openvinos(kind: str) -> None:
    shape = ov.parameter([2], np.int64)
    dtype = {"f32": np.float32, "f16": np.float16, "i32": np.int32}[kind]
    node = ov.random_uniform(shape, scalar(0, dtype), scalar(90, dtype), kind, 150, 10)
    check_peers([node], [shape], [np.array([3, 7])])


@pytest.mark.parametrize("fill", ["ZERO", "LOWEST"])
@pytest.mark.parametrize("count", [None, 5])
def test_segment_max(fill: str, count: int | None) -> None:
    table = data(5, 3)
    size = None if count is None else scalar(count)
    check_peers([ov.segment_max(table, ints(0, 0, 2, 3, 3), size, fill)], [table], [TABLE])


def test_empty_segments_of_bfloat16_are_its_lowest_number() -> None:
    operation = find_operation("SegmentMax", 16)(fill_mode="lowest")
    (found,) = as_tuple(operation.evaluate(np.ones((2, 1), ml_dtypes.bfloat16), np.array([0, 2])))
    assert found.astype(np.float64).tolist() == [[1.0], [-(2 - 2.0**-7) * 2.0**127], [1.0]]
