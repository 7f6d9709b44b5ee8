"""What operations compute and infer where OpenVINO tells nothing, or a part of it alone: by formulas and by hand."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir_runtime.operations import activation, elementwise, normalization, sorting
from ir_runtime.operations.error_function import ErfInv17
from ir_runtime.operations.priors import PriorBox8
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.engines import assert_close, run_openvino
from tests.ir_runtime.operations.relaxation import operation
from tests.rows.layer import layers
from tests.rows.layers.detection import LAST, PREFIX, PROPOSED, SINGLE, SMALL_BOXES, SMALL_PROPOSALS
from tests.runtimes.layers import LayerWork

# --- elementwise ---


def test_erf_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-5, 5, 4001), [0.0, 1e-30, 30.0]])
    np.testing.assert_allclose(elementwise.erf(x), [math.erf(v) for v in x], rtol=1e-15)
    single = x.astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in single])
    np.testing.assert_allclose(elementwise.erf(single), exact.astype(np.float32), rtol=2e-7, atol=1e-38)
    assert elementwise.erf(np.array(0.5)).shape == ()


def test_the_inverse_of_erf() -> None:
    x = np.concatenate([np.linspace(-0.999, 0.999, 1000), [1e-300, -1e-20, 0.0]])
    np.testing.assert_allclose([math.erf(value) for value in ErfInv17().evaluate(x)], x, rtol=1e-14)
    near_one = 1 - np.logspace(-3, -15.9, 200)
    rest = [math.erfc(value) for value in ErfInv17().evaluate(near_one)]
    np.testing.assert_allclose(rest, 1 - near_one, rtol=1e-12)
    ends = ErfInv17().evaluate(np.array([-1, 1, 1.0001, np.nan]))
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_small_floats_are_rounded_once(kind: Any) -> None:
    x = np.linspace(0.1, 3, 50).astype(kind)
    for op, expected in ((elementwise.Exp1(), np.exp), (elementwise.Sqrt1(), np.sqrt), (elementwise.Tanh1(), np.tanh)):
        assert np.array_equal(op.evaluate(x), expected(x.astype(np.float64)).astype(np.float32).astype(kind))
    powers = np.power(x.astype(np.float32), x.astype(np.float32)).astype(kind)
    assert np.array_equal(elementwise.Power1().evaluate(x, x), powers)
    x = np.linspace(-3, 3, 61).astype(kind)
    wide = x.astype(np.float64)
    for op, values in (
        (activation.Sigmoid1(), 1 / (1 + np.exp(-wide))),
        (activation.Elu1(alpha=0.5), np.where(wide > 0, wide, 0.5 * np.expm1(wide))),
        (activation.SoftMax8(axis=0), np.exp(wide) / np.exp(wide).sum()),
    ):
        made = op.evaluate(x)
        assert made.dtype == x.dtype
        off = np.abs(made.astype(np.float64) - values)
        assert (off <= np.abs(values) * float(ml_dtypes.finfo(kind).eps) * 0.51 + 1e-7).all()


def test_a_normalization_of_small_floats_is_rounded_once() -> None:
    x = (np.random.default_rng(3).standard_normal((2, 4, 50)) * 3 + 1).astype(np.float16)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-3)
    made = normalization.MVN6(eps=1e-3, normalize_variance=True).evaluate(x, np.array([2]))
    assert made.dtype == np.float16
    np.testing.assert_allclose(made.astype(np.float64), expected, rtol=6e-4, atol=1e-6)


def test_inputs_are_left_alone() -> None:
    x = np.array([[-90.0, -3.5, -1.0, -0.0], [0.25, 1.0, 3.75, 90.0]], np.float32)
    x.flags.writeable = False
    for op in (
        activation.ReLU1(), activation.Gelu7(), activation.Clamp1(min=0, max=1), activation.LogSoftmax5(axis=1),
        activation.HSwish4(),
    ):  # fmt: skip
        op.evaluate(x)


# --- the others ---


BOXES, SCORES = np.tile(np.float32([0, 0, 1, 1]), (3, 30, 1)), np.ones((3, 4, 30), np.float32)
FEW, NONE = (BOXES[:, :0], SCORES[:, :, :0]), (np.zeros((0, 6)), np.zeros((0, 1)), np.zeros(3))
REGIONS = [np.zeros(shape, np.float32) for shape in ((0, 4), (0, 16), (0, 4))]
BY_HAND: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("SegmentMax-16", {"fill_mode": "lowest"}, (np.ones((2, 1), ml_dtypes.bfloat16), np.array([0, 2])),
     [[[1.0], [-(2 - 2.0**-7) * 2.0**127], [1.0]]]),
    # OpenVINO has no arrays without elements here.
    (PREFIX + "DetectionOutput-6", LAST, (*REGIONS, np.array([[70, 80, 1]], np.float32)),
     (np.zeros((20, 4)), np.zeros(20), np.zeros(20))),
    # The limit 0 is one, and only -1 is none: OpenVINO's MulticlassNms of few boxes takes nothing, either.
    ("MulticlassNms-8", {"nms_top_k": 0}, (BOXES, SCORES), NONE), ("MatrixNms-8", {}, FEW, NONE),
    ("MulticlassNms-9", {}, FEW, NONE),
]  # fmt: skip


@pytest.mark.parametrize(("label", "attributes", "inputs", "expected"), BY_HAND)
def test_by_hand(label: str, attributes: dict[str, Any], inputs: Any, expected: Any) -> None:
    for value, want in zip(as_tuple(operation(label, attributes).evaluate(*inputs)), expected, strict=True):
        np.testing.assert_array_equal(value.astype(np.float64), want, strict=True)


@pytest.mark.parametrize("sizes", [(3, 4), (2, 2)])
def test_antialias(sizes: tuple[int, int]) -> None:
    """OpenVINO's CPU plug-in ignores the flag; where data shrink, its Pillow filter is the same one."""
    x = np.random.default_rng(9).standard_normal((1, 2, 6, 8)).astype(np.float32)
    target, axes = np.array(sizes), np.array([2, 3])
    (row,) = layers("Interpolate", 11, x, target, axes, mode="bilinear_pillow")
    expected = run_openvino(LayerWork(row).ir, {"x0": x})[0]
    op = operation("Interpolate-11", {"mode": "linear", "antialias": True})
    assert_close(op.evaluate(x, target, axes), expected)


@pytest.mark.parametrize(("greatest_first", "widths"), [(True, [8, 16, 12]), (False, [8, 12, 16])])
def test_order_of_prior_boxes(greatest_first: bool, widths: list[float]) -> None:
    """OpenVINO's CPU plug-in knows the first order alone."""
    order: dict[str, Any] = {"min_max_aspect_ratios_order": greatest_first, "variance": [0.1]}
    op = PriorBox8(min_size=[8], max_size=[32], aspect_ratio=[2.25], **order)
    boxes = op.evaluate(np.array([1, 1]), np.array([10, 10]))[0].reshape(-1, 4)
    np.testing.assert_allclose((boxes[:, 2] - boxes[:, 0]) * 10, widths, rtol=1e-6)


def test_common_areas_of_turned_boxes() -> None:
    """Squares of side 2: one turned by an eighth is cut to an octagon; one within; one that only touches."""
    op = operation("NMSRotated-13", {"sort_result_descending": False})
    boxes = np.array([[0, 0, 2, 2, 0], [0, 0, 2, 2, np.pi / 4], [0, 0, 1, 1, 1], [2, 0, 2, 2, 0]], np.float32)
    octagon = 8 * (np.sqrt(2) - 1)
    shares = op.shares(boxes)(0, np.arange(4))  # type: ignore[attr-defined]
    np.testing.assert_allclose(shares, [1, octagon / (8 - octagon), 0.25, 0], rtol=1e-6, atol=1e-7)


def by_openvino(name: str, opset: int, inputs: Any, attributes: dict[str, Any]) -> tuple[Any, Any]:
    """Return what the operation gives, and what OpenVINO does."""
    (row,) = layers(name, opset, *inputs, **attributes)
    work = LayerWork(row)
    return row.outputs, run_openvino(work.ir, work.feeds)


def test_small_proposals() -> None:
    """By the specification they go; OpenVINO gives them a score of 0 instead, so the others are compared."""
    name, attributes = PREFIX + "GenerateProposalsSingleImage", {**SINGLE, "min_size": 16.0, "pre_nms_count": 200}
    (rows, found), (boxes, values) = by_openvino(name, 6, SMALL_PROPOSALS, attributes)
    count = int((values > 0).sum())
    assert 1 < count < 20
    np.testing.assert_allclose(found, values, rtol=1e-6)
    np.testing.assert_allclose(rows[:count], boxes[:count], rtol=1e-5, atol=1e-4)
    assert not rows[count:].any()


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_rows_that_end_early(framework: str) -> None:
    """Fewer boxes than rows: OpenVINO leaves the scores of such rows undefined, so boxes alone are compared."""
    attributes = {**PROPOSED, "post_nms_topn": 60, "nms_thresh": 0.1, "framework": framework}
    (rows, values), (boxes, _) = by_openvino("Proposal", 4, SMALL_BOXES, attributes)
    np.testing.assert_allclose(rows, boxes, rtol=1e-4, atol=1e-4)
    count = int(np.flatnonzero(rows[:60, 0] == -1)[0])
    assert count < 59
    assert (values[:count] > 0).all()
    assert not values[count:60].any()


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_small_boxes(framework: str) -> None:
    """By the specification they go; OpenVINO gives them a score of 0 instead, so the others are compared."""
    attributes = {**PROPOSED, "min_size": 20, "pre_nms_topn": 420, "post_nms_topn": 60, "framework": framework}
    (rows, values), expected = by_openvino("Proposal", 4, SMALL_BOXES, attributes)
    for image in (slice(0, 60), slice(60, 120)):
        count = int(np.flatnonzero(rows[image, 0] == -1)[0])
        assert (expected[1][image][:count] > 0).all()
        assert not expected[1][image][count:].any()
        np.testing.assert_allclose(rows[image][:count], expected[0][image][:count], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(values[image][:count], expected[1][image][:count])


# --- TopK that selects instead of sorting, against Python's sort ---

_RNG = np.random.default_rng(3)
LENGTH = 4096
# name -> rows of keys
TOPK_ROWS: dict[str, np.ndarray] = {
    "normal": _RNG.normal(size=(3, LENGTH)).astype(np.float32),
    "many ties": _RNG.integers(-2, 3, (2, LENGTH)).astype(np.float32),
    "all equal": np.zeros((2, LENGTH), np.float16),
    "infinities": np.where(_RNG.random((2, LENGTH)) < 0.5, np.inf, -np.inf),
    "some NaN": np.where(_RNG.random((2, LENGTH)) < 0.5, np.nan, _RNG.normal(size=(2, LENGTH))).astype(np.float32),
    "nearly all NaN": np.where(np.arange(2 * LENGTH).reshape(2, LENGTH) % LENGTH < 2, 1, np.nan),
    "signed zeros": np.where(_RNG.random((2, LENGTH)) < 0.5, 0.0, -0.0),
    "bytes": _RNG.integers(0, 256, (2, LENGTH)).astype(np.uint8),
    "extreme integers": np.where(_RNG.random((2, LENGTH)) < 0.5, np.iinfo(np.int64).min, np.iinfo(np.int64).max),
    "no row": np.zeros((0, LENGTH), np.float32),
}


def best_of(row: np.ndarray, count: int, mode: str) -> list[int]:
    """The indices of the best elements: NaN last, of equal elements the first one first."""
    sign = -1 if mode == "max" else 1
    keys = [(value != value, 0 if value != value else sign * value) for value in row.tolist()]
    return sorted(range(len(row)), key=lambda at: (*keys[at], at))[:count]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("name", TOPK_ROWS)
def test_topk_of_few_of_many(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TOPK_ROWS[name]
    selected = []
    least = sorting._least
    monkeypatch.setattr(sorting, "_least", lambda keys, count: selected.append(count) or least(keys, count))
    for axis, count in ((1, 5), (0, 5), (1, LENGTH // 8)):
        data = np.moveaxis(rows, 1, axis)
        values, indices = TopK11(axis=axis, mode=mode, sort="value").evaluate(data, np.array(count))
        expected = np.array([best_of(row, count, mode) for row in rows], np.int64).reshape(len(rows), count)
        np.testing.assert_array_equal(np.moveaxis(indices, axis, 1), expected)
        np.testing.assert_array_equal(np.moveaxis(values, axis, 1), np.take_along_axis(rows, expected, 1))
    assert len(selected) == 3 * len(rows)
