"""The reductions in exact integers or float64, and ArgMax and ArgMin, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.oracles.reduction import reduce
from tests.rows.row import Row, Tolerance, const, each, rows

MEMBERS = ("ReduceMean ReduceSum ReduceL1 ReduceL2 ReduceSumSquare ReduceProd ReduceMax ReduceMin ReduceLogSum "
           "ReduceLogSumExp")  # fmt: skip
SUMS = Tolerance(1e-3, 1e-5)


def reduction(op_type: str) -> Any:
    def reduced(x: np.ndarray, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> np.ndarray:
        chosen = None if axes is None else [int(axis) for axis in axes]
        return reduce(op_type, x, chosen, bool(keepdims), bool(noop_with_empty_axes))

    return reduced


def reductions(op_types: str, opset: int, **arguments: Any) -> Iterator[Row]:
    for op_type in op_types.split():
        yield from rows(op_type, opset, expect=reduction(op_type), **arguments)


POSITIVE = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
SIGNED = np.array([[-1.5, 2.0], [3.0, -0.25]], np.float32)
LARGE = np.array([[2**31 - 1, 2**31 - 3, 2**31 - 2], [-(2**31), -(2**31) + 1, 5]], np.int32)
PAGE = np.random.default_rng(0).standard_normal((6, 12, 10, 24)).astype(np.float32)
MANY = np.random.default_rng(0).integers(-(2**20), 2**20, (70_000, 2)).astype(np.int32)
BOOLS = np.array([[True, True], [True, False]])
TIES = np.array([[1, 5, 5, 0], [5, 0, 5, 0]], np.float32)
BEYOND = each(*(np.array([values], dtype) for values, dtype in (([2**63 - 1, 2**63 - 3, 2**63 - 1], np.int64),
              ([-(2**63), -(2**63) + 1, -7], np.int64), ([2**64 - 1, 2**64 - 1, 2**64 - 4], np.uint64))))  # fmt: skip
CUBE = np.zeros((2, 3, 4), np.float32)
ROWS = [
    # https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/reduction/reduce-mean-1.html
    *rows("ReduceMean", 18, label="page", x=PAGE, layers=["ReduceMean-1"],
        also=each(*({"axes": const(axes), "keepdims": keep}
                    for axes, keep in (([2, 3], 1), ([2, 3], 0), ([1], 0), ([-2], 0))))),
    *rows("ReduceMean", 18, x=PAGE[:1, :2], noop_with_empty_axes=1),
    *(row for opset in (13, 18) for op_type in MEMBERS.split() for row in reductions(
        op_type, opset, label="types", tolerance=SUMS, x=each(
            *(np.array([[1, 2, 3], [4, 3, 2]]).astype(t) for t in schema_types(op_type, opset) if t != np.bool_)),
        axes=const([1]) if opset == 18 or op_type == "ReduceSum" else [1])),
    *(row for op_type, last in (("ReduceMax", True), ("ReduceMin", False)) for row in rows(
        op_type, 20, x=BOOLS, axes=each(const([1]), np.array([1])), expect=np.array([[True], [last]]))),
    # The mean's sum does not fit into int32, and no value fits into float32.
    *(row for op_types, x in (("ReduceMean ReduceMax ReduceMin ReduceSum", LARGE), ("ReduceL1", np.abs(LARGE[:1])))
      for row in reductions(op_types, 18, label="large", x=x, axes=const([1]), keepdims=each(0, 1))),
    *reductions("ReduceMean ReduceMax ReduceMin", 18, label="64_bits", x=BEYOND),
    *reductions("ReduceMean ReduceL1", 13, label="many", x=MANY, axes=[0]),
    *reductions("ReduceSum", 13, label="many", x=MANY, axes=const([0])),
    *(row for label, keepdims in (("axes_input", 1), ("axes_dropped", 0)) for row in reductions(
        MEMBERS, 18, label=label, x=POSITIVE, axes=each(*map(np.array, ([0], [-1, 0], [2, 1, 0]))), keepdims=keepdims,
        dims=each(None, {"x": ["a", None, 4]}), tolerance=SUMS)),
    *(row for label, keepdims in (("axes_open", 1), ("rank_open", 0)) for row in reductions(
        "ReduceMean ReduceL1 ReduceSumSquare ReduceLogSum", 18, label=label, x=POSITIVE[..., 0], keepdims=keepdims,
        axes=each(np.zeros(0, np.int64), np.array([1]), np.array([0, -1])), noop_with_empty_axes=each(0, 1),
        dims={"axes": ["k"]})),
    *reductions(MEMBERS, 18, label="empty", also=each({"x": np.zeros((2, 0, 3), np.float32), "axes": const([1])},
                                                      {"x": np.zeros(0, np.float32), "axes": const([0])})),
    *reductions(MEMBERS.replace("ReduceLogSum ", ""), 18, label="noop", x=SIGNED, noop_with_empty_axes=1),
    *reductions("ReduceLogSum", 18, label="noop", x=np.abs(SIGNED), noop_with_empty_axes=1),
    *reductions("ReduceSum", 13, label="noop", x=SIGNED, noop_with_empty_axes=1),
    *rows("ReduceLogSumExp", 18, label="infinite", x=each(*(np.array([x], np.float32) for x in (
        [1e4, 1e4], [-np.inf, -np.inf], [np.inf, 1.0], [-1e4, -1e4 + 1], [-np.inf, 3.0]))), axes=const([1])),
    *rows("ReduceMean", 18, x=PAGE[:1, :3], axes=const([2, 3]), layers=["ReduceMean-1"]),
    *rows("ReduceL1", 18, x=PAGE[:1, :3], axes=const([2, 3]), layers=["ReduceL1-4"], tolerance=SUMS),
    *rows("ReduceMean", 18, x=CUBE, axes=const([3]), refused="axis 3 lies outside the range"),
    *rows("ReduceMean", 18, x=CUBE, keepdim=1, refused="has no attribute 'keepdim'"),
    *rows("ReduceMean", 18, x=CUBE, keepdims=1.0, refused="attribute 'keepdims' must be of type INT, but is FLOAT"),
    *rows("ReduceMean", 18, x=CUBE, axes=const([0], np.float32), refused="'axes' must be one of int64, but is f32"),
    *rows(each("ArgMax", "ArgMin"), 13, x=TIES, axis=each(0, 1, -1), keepdims=each(0, 1), select_last_index=each(0, 1)),
]  # fmt: skip
