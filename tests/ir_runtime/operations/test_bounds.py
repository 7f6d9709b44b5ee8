"""Bounds of integers that follow from those of the inputs, and dimensions that follow from bounds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime.graph import INFINITY, Dimension, Operation, PartialShape, TensorType, element_types, infer_types
from ir_runtime.graph.operation import all_operations
from ir_runtime.graph.value_ranges import Bounds, bounds_of, range_of
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.slicing import sliced_dimension
from tests.ir_runtime.operations.relaxation import ENDLESS, ends_of, operation, types


def bounds(op: Operation, inputs: Sequence[TensorType]) -> Bounds | None:
    """The bounds of the result for bounds of the operands."""
    known = [kind.known_bounds for kind in inputs]
    if None in known:
        return None
    values = op.value_range([range_of(one) for one in known if one is not None])
    return None if values is None else bounds_of(values, op.infer(inputs)[0].element_type)


BOUNDS: dict[str, list[tuple[Any, ...]]] = {
    "Add-1": [("i64{1..5,0..} i64{2,3}", "3..7 3.."), ("i64{..} i64{5}", ".."), (f"i64{{{ENDLESS}}} i64{{1}}", None),
        (f"i64{{{ENDLESS - 3}}} i64{{2}}", f"{ENDLESS - 1}..{ENDLESS - 1}"), ("u8{200} u8{200}", None),
        (f"i32{{{2**31 - 1}}} i32{{{2**31 - 1}}}", None)],
    "Subtract-1": [("i64{1..5,0..} i64{2,3}", "-1..3 -3.."), ("i64{9} i64{1..5}", "4..8"),
        (f"i64{{{-ENDLESS}}} i64{{2}}", None)],
    "Multiply-1": [("i64{1..5} i64{-2}", "-10..-2"), ("i64{-1..5} i64{-3..2}", "-15..10"),
        (f"i64{{{2**40}..{2**41}}} i64{{{2**21}}}", f"{2**61}..{2**62}"),
        (f"i64{{{2**40}..{2**42}}} i64{{{2**21}}}", None), (f"i64{{{2**61}..{2**62}}} i64{{{2**62}}}", None),
        ("i64(2..) i64(2..)", "4..")],
    "Divide-1": [("i64{3..9} i64{2}", "1..4"), ("i64{0..} i64{2}", "0.."), ("i64{-3..9,-5..} i64{2,3}", "-2..4 -2.."),
        ("i64{-3..9} i64{2}", "-1..4", {"m_pythondiv": False}), ("i64{-3..9} i64{-2}", "-4..1", {"m_pythondiv": False}),
        ("i64{9} i64{-2..3}", None)],
    "FloorMod-1": [("i64{-3..9} i64{7}", "0..6"), ("i64{2..4,0..} i64{7,5}", "0..4 0..4"),
        ("i64{1..} i64{1..6}", "0..5"), ("i64{1..9} i64{0..6}", None)],
    "Mod-1": [("i64{-3..} i64{7}", "-3..6"), ("i64{-30..-2} i64{7}", "-6..0")],
    "BitwiseRightShift-15": [("i64{3..9} i64{1}", "1..4")],
    "Maximum-1": [("i64{0..9} i64{2}", "2..9")],
    "Minimum-1": [("i64{0..} i64{2}", "0..2")],
    "SquaredDifference-1": [("i64{-3..2} i64{1}", None)],
    "BitwiseAnd-13": [("i64{0..9} i64{2..4}", "0..4")],
    "Power-1": [("i64{1..3} i64{2}", "1..9"), ("i64{-3..3} i64{2}", None)],
    "Convert-1": [("i64{3,-4}", "3..3 -4..-4", {"destination_type": "i32"}),
        ("i64{3,-4}", None, {"destination_type": "u32"}), (f"i64{{{2**31}}}", None, {"destination_type": "i32"}),
        (f"i64{{{2**31}}}", f"{2**31}..{2**31}", {"destination_type": "u32"}),
        (f"u64{{{2**63}}}", None, {"destination_type": "i64"}), ("i32{-1}", None, {"destination_type": "u64"}),
        ("u8{200}", "200..200", {"destination_type": "i64"}), ("i64{3}", None, {"destination_type": "i8"})],
}  # fmt: skip


@pytest.mark.parametrize(("label", "row"), [(label, row) for label, rows in BOUNDS.items() for row in rows])
def test_bounds(label: str, row: tuple[Any, ...]) -> None:
    inputs, expected, *attributes = row
    found = bounds(operation(label, *attributes), types(inputs))
    if expected is None or found is None:
        assert (found, expected) == (None, None)
        return
    ends = zip(found.lower.reshape(-1).tolist(), found.upper.reshape(-1).tolist())
    assert list(ends) == [ends_of(pair) for pair in expected.split()]


def test_bounds_that_inference_gives() -> None:
    assert infer_types(ir.Add1(auto_broadcast="pdpd"), types("i64{0..9} i64{2}"))[0].bounds is None
    found = infer_types(ir.Select1(), types("boolean[2] i64{1..5,2..3} i64{4,9}"))[0].bounds
    assert found is not None
    assert list(zip(found.lower.tolist(), found.upper.tolist())) == [(1, 5), (2, 9)]
    picked = infer_types(operation("Gather-8", {}), types("i64{1..5,2..} i64{1} i64{0}"))[0].bounds
    assert picked is not None
    assert (picked.lower.tolist(), picked.upper.tolist()) == ([2], [ENDLESS])
    assert types(f"u64{{{2**64 - 1},3}}")[0].known_bounds is None, "beyond int64"


@pytest.mark.parametrize(
    "cls", [cls for cls in all_operations() if issubclass(cls, ir.Binary)], ids=lambda cls: cls.type
)
def test_bounds_of_scalars(cls: type[ir.Binary]) -> None:
    """NumPy returns plain numbers where arrays of objects have no dimensions."""
    kind = element_types.boolean if issubclass(cls, ir.Logical) else element_types.i64
    scalar = TensorType(kind, PartialShape(()), bounds=Bounds(np.int64(0), np.int64(1)))
    found = infer_types(cls(), [scalar, scalar])[0].bounds
    assert found is None or found.lower.shape == ()


# --- dimensions ---

MASKS: dict[str, Any] = {"begin_mask": [], "end_mask": []}
PLAIN, ZERO = {"special_zero": False}, {"special_zero": True}

DIMENSIONS: dict[str, list[tuple[Any, ...]]] = {
    "Range-4": [("i64(0) i64(1..512) i64(1)", "1..512", {"output_type": "i64"}),
        ("i64(0..2) i64(4..9) i64(2)", "1..5", {"output_type": "f32"})],
    "Range-1": [("i64(4..9) i64(0..2) i64(-2)", "1..5"), ("i64(3) i64(0..) i64(1)", "?"),
        ("i64(3) i64(7..) i64(3)", "2.."), ("i64(0..) i64(10) i64(2)", "..5"), ("i64(0) i64(..) i64(1)", "?"),
        ("i64(0) i64(9) i64(1..2)", "?")],
    "TopK-11": [("f32[2,5..8] i64(3..7)", "2,3..7", {"axis": 1}), ("f32[2,5] i64(-4..7)", "2,..5", {"axis": 1}),
        ("f32[2,?] i64(..)", "2,?", {"axis": 1})],
    "VariadicSplit-1": [("f32[9,?] i64(0) i64{1..3,4..}", "1..3,?"), ("f32[9,?] i64(0) i64{-1..3,4..9}", "..9,?")],
    # The list 0..3, -1 keeps a dimension of 0: with [0, -1] it is [0, 12], with [2, -1] it is [2, 0].
    "Reshape-1": [("f32[?,12] i64{0..,3..3,4..4}", "?,3,4", PLAIN), ("f32[2..5,3,4] i64{-1,6}", "4..10,6", PLAIN),
        ("f32[7,12] i64{0..3,-1..-1}", "..7,12..84", ZERO), ("f32[?,12] i64{-1..5,6..6}", "?,6", PLAIN),
        ("f32[0,12] i64{-1..3,-1..-1}", "?,?", ZERO)],
    "Broadcast-3": [("f32[1,3] i64{0..,3..3}", "?,3", {"mode": "numpy"}),
        ("f32[2..4,1] i64{1..1,1..6}", "2..4,1..6", {"mode": "bidirectional"})],
    "Tile-1": [("f32[3,2..4] i64{0..2,2..}", "..6,4..")],
    "OneHot-16": [("i64{1,2} i64(3..6) i64(1) i64(0)", "2,3..6", {"axis": -1})],
    "Slice-8": [(f"f32[?,6] i64{{-3..-2}} i64{{{ENDLESS}}} i64{{1}} i64{{0}}", "..3,6"),
        ("f32[?,6] i64{0} i64{1..4} i64{1} i64{1}", "?,1..4"), ("f32[8,6] i64{0} i64{-2..} i64{1} i64{0}", "..8,6"),
        (f"f32[?,4] i64{{-2}} i64{{{ENDLESS}}} i64{{1}}", "0..2,4")],
    "StridedSlice-1": [("f32[3,4,5] i64{0,0} i64{2,2} i64{..,..}", "..3,..4,5", MASKS),
        (f"f32[?,4] i64{{-2}} i64{{{ENDLESS}}} i64{{1}}", "0..2,4"),
        (f"f32[?,4] i64{{-2}} i64{{{ENDLESS}}} i64{{1}}", "0..2,4", {"end_mask": [1]})],
    "Pad-12": [("f32[?,6] i64{0..2,-1..1} i64{1..1,0..}", "1..,5..")],
}  # fmt: skip


@pytest.mark.parametrize(("label", "row"), [(label, row) for label, rows in DIMENSIONS.items() for row in rows])
def test_dimensions(label: str, row: tuple[Any, ...]) -> None:
    inputs, expected, *attributes = row
    found = infer_types(operation(label, *attributes), types(inputs))
    assert found[0].shape == PartialShape.parse(expected)


def _intervals(ends: Sequence[int]) -> list[tuple[int, int]]:
    return [(low, high) for low in ends for high in ends if low <= high]


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -5])
def test_dimensions_of_slices_are_the_least_and_the_greatest_outcome(step: int) -> None:
    positions = range(-9, 10)
    # What Python itself takes, by dimension, start and stop; 40 elements are as good as an open dimension.
    sizes = range(41)
    taken = np.array([[[len(range(n)[a:b:step]) for b in positions] for a in positions] for n in sizes])
    for low, high in [*_intervals((0, 1, 3, 6)), (0, INFINITY), (2, INFINITY), (7, INFINITY)]:
        of_dimensions = taken[low : min(high, 40) + 1]
        for start, stop in itertools.product(_intervals((-9, -3, -1, 0, 2, 9)), repeat=2):
            outcomes = of_dimensions[:, start[0] + 9 : start[1] + 10, stop[0] + 9 : stop[1] + 10]
            found = sliced_dimension(Dimension(low, high), start, stop, step)
            grows = high == INFINITY and outcomes[-1].max() > outcomes[-10].max()
            wanted = Dimension(int(outcomes.min()), INFINITY if grows else int(outcomes.max()))
            assert found == wanted, (Dimension(low, high), start, stop)


INT32, INT64 = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize(
    ("dimension", "start", "stop", "step", "wanted"),
    [
        ((0, INFINITY), -1, INT32, 1, (0, 1)), ((0, INFINITY), -1, INT64, 1, (0, 1)),
        ((3, INFINITY), -1, INT64, 1, (1, 1)), ((2, INFINITY), -7, INT64, 2, (1, 4)),
        ((0, INFINITY), 0, INT32, 1, (0, INFINITY)), ((5, INFINITY), 2, INT64, 3, (1, INFINITY)),
        ((0, INFINITY), -INT64, -1, 1, (0, INFINITY)), ((4, INFINITY), -INT32, 2, 1, (0, 2)),
        ((4, INFINITY), -1, -INT32, -1, (4, INFINITY)), ((4, INFINITY), INT64, -INT64 - 1, -2, (2, INFINITY)),
        ((0, INFINITY), 3, -INT64, -1, (0, 4)), ((0, INFINITY), INT64, -4, -1, (0, 3)),
        ((9, 12), INT32, -4, -1, (3, 3)),
    ],
)  # fmt: skip
def test_far_ends_of_slices_are_open(
    dimension: tuple[int, int], start: int, stop: int, step: int, wanted: tuple[int, int]
) -> None:
    assert sliced_dimension(Dimension(*dimension), (start, start), (stop, stop), step) == Dimension(*wanted)
