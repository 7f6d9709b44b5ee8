"""The IR's operations of connectionist temporal classification: OpenVINO, and all paths counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import Operation, TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.ctc import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6, CTCLoss4
from tests.ir_runtime.peers import check_inference, check_peers
from tests.random_data import generator

RNG = generator(14)
STEPS = RNG.standard_normal((9, 3, 4)).astype(np.float32)
MASK = np.array([[1] * 9, [1] * 5 + [0] * 4, [1, 1, 0.5, 0, 1, 1, 1, 1, 1]], np.float32).T


@pytest.mark.parametrize("merged", [True, False])
def test_greedy_decoder(merged: bool) -> None:
    data, mask = ops.parameter([-1, -1, 4], np.float32), ops.parameter([-1, 3], np.float32)
    check_peers([ops.ctc_greedy_decoder(data, mask, merged)], [data, mask], [STEPS, np.ascontiguousarray(MASK)])


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("blank", [None, 0, 2])
@pytest.mark.parametrize(("classes", "lengths"), [("i32", "i32"), ("i64", "i32"), ("i32", "i64")])
def test_greedy_decoder_by_length(merged: bool, blank: int | None, classes: str, lengths: str) -> None:
    data, count = ops.parameter([-1, -1, 4], np.float32), ops.parameter([-1], np.int32)
    node = ops.ctc_greedy_decoder_seq_len(
        data, count, None if blank is None else ops.constant(np.int32(blank)), merged, classes, lengths
    )
    feeds = [np.ascontiguousarray(STEPS.swapaxes(0, 1)), np.array([9, 4, 0], np.int32)]
    check_peers(list(node.outputs()), [data, count], feeds)


LOGITS = RNG.standard_normal((4, 6, 4)).astype(np.float32)
LABELS = np.array([[0, 1, 2, 0, 9, 9], [1, 1, 0, 9, 9, 9], [2, 2, 2, 1, 9, 9], [0, 0, 9, 9, 9, 9]], np.int32)
LABEL_COUNTS = np.array([4, 3, 4, 2], np.int32)
STEP_COUNTS = np.array([6, 4, 6, 5], np.int32)
FLAGS = list(itertools.product([False, True], repeat=3))


@pytest.mark.parametrize(("collapse", "merge", "unique"), FLAGS)
def test_loss(collapse: bool, merge: bool, unique: bool) -> None:
    nodes = [ops.parameter([-1, 6, 4], np.float32)]
    nodes += [ops.parameter([-1], np.int32), ops.parameter([-1, 6], np.int32), ops.parameter([-1], np.int32)]
    node = ops.ctc_loss(*nodes, None, collapse, merge, unique)
    check_peers([node], nodes, [LOGITS, STEP_COUNTS, LABELS, LABEL_COUNTS])


def spelled(path: Sequence[int], blank: int, merge: bool) -> list[int]:
    kept = [c for c, before in zip(path, [None, *path]) if not (merge and c == before)]
    return [c for c in kept if c != blank]


def counted(logits: np.ndarray, labels: Sequence[int], blank: int, merge: bool) -> float:
    """By going through every path there is."""
    steps, classes = logits.shape
    chances = np.exp(logits.astype(np.float64))
    chances /= chances.sum(-1, keepdims=True)
    paths = itertools.product(range(classes), repeat=steps)
    total = sum(math.prod(chances[range(steps), path]) for path in paths if spelled(path, blank, merge) == list(labels))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize(
    ("labels", "steps"), [([1, 2], 5), ([1, 1], 5), ([1, 1], 2), ([2], 1), ([], 3), ([], 0), ([2, 1, 2], 6)]
)
def test_loss_over_all_paths(merge: bool, blank: int, labels: list[int], steps: int) -> None:
    filled = np.array([labels + [0] * (6 - len(labels))], np.int32)
    found = CTCLoss4(ctc_merge_repeated=merge).evaluate(
        LOGITS[:1], np.array([steps]), filled, np.array([len(labels)]), np.array(blank)
    )
    np.testing.assert_allclose(found, [counted(LOGITS[0, :steps], labels, blank, merge)], rtol=1e-5)


def test_loss_of_large_logits_does_not_overflow() -> None:
    logits = np.array([[[300.0, 0.0, 100.0]]], np.float32)
    one = np.array([1])
    np.testing.assert_allclose(CTCLoss4().evaluate(logits, one, np.array([[0]]), one), [0.0], atol=1e-6)
    np.testing.assert_allclose(CTCLoss4().evaluate(logits, one, np.array([[1]]), one), [300.0])


def parameters(shapes: Sequence[str], *, first: Any = np.float32, rest: Any = np.int32) -> list[Any]:
    return [
        ops.parameter(openvino.PartialShape(shape), first if index == 0 else rest) for index, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize(
    "shapes",
    [
        ("[4,2,3]", "[4,2]"),
        ("[?,?,3]", "[4,2]"),
        ("[4,?,?]", "[?,2]"),
        ("[...]", "[4,2]"),
        ("[4,2,3]", "[...]"),
        ("[4..6,2..5,3]", "[5..9,3..8]"),
        ("[...]", "[...]"),
    ],
)
def test_shapes_of_the_greedy_decoder(shapes: Sequence[str]) -> None:
    nodes = parameters(shapes, rest=np.float32)
    check_inference([ops.ctc_greedy_decoder(*nodes)], nodes)


@pytest.mark.parametrize(
    "shapes",
    [
        ("[2,4,3]", "[2]"),
        ("[?,?,3]", "[2]"),
        ("[2..5,4..6,3]", "[3..8]"),
        ("[...]", "[2]"),
        ("[2,4,3]", "[...]"),
        ("[...]", "[...]"),
    ],
)
def test_shapes_of_the_greedy_decoder_by_length(shapes: Sequence[str]) -> None:
    nodes = parameters(shapes)
    check_inference(list(ops.ctc_greedy_decoder_seq_len(*nodes).outputs()), nodes)


@pytest.mark.parametrize(
    "shapes",
    [
        ("[2,4,3]", "[2]", "[2,4]", "[2]"),
        ("[?,4,3]", "[?]", "[2,4]", "[?]"),
        ("[...]", "[...]", "[...]", "[...]"),
        ("[2..6,4,3]", "[3..8]", "[?,4]", "[?]"),
        ("[...]", "[...]", "[...]", "[3..5]"),
    ],
)
def test_shapes_of_the_loss(shapes: Sequence[str]) -> None:
    nodes = parameters(shapes)
    check_inference([ops.ctc_loss(*nodes)], nodes)


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (CTCGreedyDecoder1(), ["4,2", "4,2"], "3 dimensions"),
        (CTCGreedyDecoder1(), ["4,2,3", "4,3"], "batch must agree"),
        (CTCGreedyDecoder1(), ["4,2,3", "5,2"], "number of steps must agree"),
        (CTCGreedyDecoderSeqLen6(), ["2,4,3", "3"], "batch must agree"),
        (CTCLoss4(), ["2,4,3", "3", "2,4", "2"], "batch must agree"),
        (CTCLoss4(), ["2,4,3", "2", "2,5", "2"], "number of steps must agree"),
        (CTCLoss4(), ["2,4,3", "2", "2,4", "2", "1"], "0 dimensions"),
    ],
)
def test_contradictions(op: Operation, shapes: Sequence[str], message: str) -> None:
    types = [TensorType(element_type("f32"), PartialShape.parse(shape)) for shape in shapes]
    with pytest.raises(ir_runtime.ModelError, match=message):
        op.infer(types)


@pytest.mark.parametrize(("steps", "labels"), [([7], [1]), ([2], [3]), ([2], [-1])])
def test_counts_that_cannot_be(steps: list[int], labels: list[int]) -> None:
    with pytest.raises(ir_runtime.ModelError, match="at most"):
        CTCLoss4().evaluate(LOGITS[:1], np.array(steps), LABELS[:1], np.array(labels))


def test_sequence_longer_than_the_data() -> None:
    with pytest.raises(ir_runtime.ModelError, match="0 to 9 steps"):
        CTCGreedyDecoderSeqLen6().evaluate(STEPS.swapaxes(0, 1), np.array([9, 10, 9]))
