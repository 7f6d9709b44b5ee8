"""The reductions, ArgMax and ArgMin."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tests.engines import schema_types
from tests.rows.row import REFERENCE, Tolerance, const, each, rows

MEMBERS = ["ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceMax", "ReduceMin",
           "ReduceLogSum", "ReduceLogSumExp"]  # fmt: skip
SUMS = Tolerance(1e-3, 1e-5)


OF_UNSIGNED = {"ReduceSumSquare": [[14], [29]], "ReduceLogSum": [[1], [2]], "ReduceLogSumExp": [[3], [4]]}
"""What onnxruntime and onnx's evaluator do not compute of unsigned integers."""


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
    *(row for opset in (13, 18) for op_type in MEMBERS for t in schema_types(op_type, opset) if t != np.bool_
      for row in rows(
        op_type, opset, label="types", tolerance=SUMS, x=each(np.array([[1, 2, 3], [4, 3, 2]]).astype(t)),
        axes=const([1]) if opset == 18 or op_type == "ReduceSum" else [1],
        expect=np.array(OF_UNSIGNED[op_type], t) if op_type in OF_UNSIGNED and t.kind == "u" else None)),
    *(row for op_type, last in (("ReduceMax", True), ("ReduceMin", False)) for row in rows(
        op_type, 20, x=BOOLS, axes=each(const([1]), np.array([1])), expect=np.array([[True], [last]]))),
    # The mean's sum does not fit into int32, and no value fits into float32.
    *rows(each("ReduceMean", "ReduceMax", "ReduceMin"), 18, label="large", x=LARGE, axes=const([1]), keepdims=each(0, 1)),
    *rows("ReduceSum", 18, label="large", x=LARGE, axes=const([1]), keepdims=each(0, 1), expect=REFERENCE),
    *rows("ReduceL1", 18, label="large", x=np.abs(LARGE[:1]), axes=const([1]), keepdims=each(0, 1), expect=REFERENCE),
    *rows("ReduceMean", 18, label="64_bits", x=BEYOND,
          expect=lambda x: np.array([[math.trunc(Fraction(sum(x[0].tolist()), 3))]], x.dtype)),
    *rows(each("ReduceMax", "ReduceMin"), 18, label="64_bits", x=BEYOND),
    *rows(each("ReduceMean", "ReduceL1"), 13, label="many", x=MANY, axes=[0], expect=REFERENCE),
    *rows("ReduceSum", 13, label="many", x=MANY, axes=const([0])),
    *(row for label, keepdims in (("axes_input", 1), ("axes_dropped", 0)) for row in rows(
        each(*MEMBERS), 18, label=label, x=POSITIVE, axes=each(*map(np.array, ([0], [-1, 0], [2, 1, 0]))),
        keepdims=keepdims, dims=each(None, {"x": ["a", None, 4]}), tolerance=SUMS)),
    *(row for label, keepdims in (("axes_open", 1), ("rank_open", 0)) for row in rows(
        each("ReduceMean", "ReduceL1", "ReduceSumSquare", "ReduceLogSum"), 18, label=label, x=POSITIVE[..., 0],
        axes=each(np.zeros(0, np.int64), np.array([1]), np.array([0, -1])), noop_with_empty_axes=each(0, 1),
        keepdims=keepdims, dims={"axes": ["k"]})),
    *rows(each(*MEMBERS), 18, label="empty", expect=REFERENCE, also=each(
        {"x": np.zeros((2, 0, 3), np.float32), "axes": const([1])}, {"x": np.zeros(0, np.float32), "axes": const([0])})),
    *(row for op_type in MEMBERS for row in rows(op_type, 18, label="noop", noop_with_empty_axes=1,
        x=np.abs(SIGNED) if op_type == "ReduceLogSum" else SIGNED)),
    *rows("ReduceSum", 13, label="noop", x=SIGNED, noop_with_empty_axes=1),
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
