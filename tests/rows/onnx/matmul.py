"""Products of matrices and reductions: typical ones, and random ones of every form."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from tests.engines import run_onnxruntime, schema_types
from tests.rows.row import REFERENCE, InOpset, Row, Tolerance, const, each, normal_by, rows, several

RNG = np.random.default_rng(7)
SUMS = Tolerance(1e-3, 1e-4)
normal = normal_by(RNG)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def tied(rows: int, folded: bool, other: float = 0.0) -> Any:
    """An embedding whose matrix scores the result, transposed by a node or in the file."""
    matrix = np.random.default_rng(1).standard_normal((rows, 32)).astype(np.float32)
    turned = matrix.T.copy()
    turned[-1, -1] += other
    nodes = f"x = Gather (m, ids) {'' if folded else 't = Transpose <perm = [1, 0]> (m)'} scores = MatMul (x, t)"
    stored = {"m": const(matrix), **({"t": const(turned)} if folded else {})}
    return next(several(nodes, outputs="scores", label="tied", ids=np.zeros((1, 5), np.int64), **stored)).model


def large(dtype: str, constant: bool) -> dict[str, Any]:
    """Return factors whose products wrap in 32 bits, and stay below 2^35 in 64."""
    is_narrow, low = dtype.endswith("32"), 0 if dtype[0] == "u" else -(2**31)
    a = whole(low, int(np.iinfo(dtype).max) if is_narrow else 2**31 - 1, 3, 40, dtype=dtype)
    b = whole(max(low, -77), 77, 40, 2, dtype=dtype)
    return {"a": a if is_narrow else a // 1000, "b": const(b) if constant else b}


def narrow(a_type: Any, b_type: Any, depth: int, zeros: str) -> dict[str, Any]:
    """Return operands of MatMulInteger: a row and a column of the greatest numbers, the others of any."""
    a_info, b_info = np.iinfo(a_type), np.iinfo(b_type)
    a, b = np.full((3, depth), a_info.max, a_type), np.full((depth, 2), b_info.max, b_type)
    a[1] = whole(a_info.min, a_info.max, depth, dtype=a_type)
    b[:, 1] = whole(b_info.min, b_info.max, depth, dtype=b_type)
    result = {"a": a, "b": const(b)}
    if zeros != "none":
        result["az"] = const(whole(0, 100, *((3,) if zeros == "rows" else ()), dtype=a_type))
        result["bz"] = const(whole(0, 100, *((2,) if zeros == "columns" else ()), dtype=b_type))
    return result


def integer_product(a: np.ndarray, b: np.ndarray, az: Any = 0, bz: Any = 0) -> np.ndarray:
    az = np.asarray(az).astype(np.int64)
    return ((a.astype(np.int64) - (az[:, None] if az.ndim else az)) @ (b.astype(np.int64) - bz)).astype(np.int32)


FACTORS = [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (4, 3, 4)), ((3,), (3, 4)),
           ((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2))]  # fmt: skip
SUMMATIONS: dict[str, list[tuple[int, ...]]] = {
    "ij->ji": [(2, 3)], "ii->i": [(3, 3)], "...ii->...i": [(2, 3, 3)], "ij->": [(2, 3)], ",ij->ij": [(), (2, 3)],
    " i j , j k -> i k ": [(2, 3), (3, 4)], "ij,jk": [(2, 3), (3, 4)], "ba,cb": [(2, 3), (4, 2)],
    "...ij,...jk->...ik": [(5, 2, 3), (3, 4)], "...ij,...jk": [(5, 2, 3), (5, 3, 4)], "i,j->ij": [(3,), (4,)],
    "ij,kj,lj->ikl": [(2, 3), (4, 3), (5, 3)], "bqnh,btnh->bnqt": [(2, 3, 4, 5), (2, 6, 4, 5)],
    "a...b,b...->a...": [(2, 3, 4, 5), (5, 3, 4)], "ij,kl->": [(2, 3), (4, 3)], "Ab,bC->CA": [(2, 3), (3, 4)],
}  # fmt: skip
A, B = normal(2, 3), normal(3, 4)
ROWS = [
    *rows("MatMul", each(1, 9, 13), also=each(*({"a": normal(*a), "b": normal(*b)} for a, b in FACTORS))),
    *rows("MatMul", 13, a=normal(2, 1, 3, 4), b=normal(5, 4, 2), dims={"a": ["n", *[None] * 3], "b": [None, None, 2]}),
    *rows("MatMul", 13, label="wrapped",
          also=each(*(large(dtype, constant) for dtype in ("int32", "uint32") for constant in (False, True)))),
    *rows("MatMul", 13, label="beyond_32_bits",
          also=each(*(large(dtype, constant) for dtype in ("int64", "uint64") for constant in (False, True)))),
    *rows("MatMul", 13, label="beyond_float32", a=whole(-4000, 4000, 3, 40),
          b=each(whole(-9000, 9000, 40, 2), const(whole(-9000, 9000, 40, 2)))),
    *rows("Gemm", each(7, 9, 11, 13), also=each(*({**operands, "c": normal(*shape), **scales} for shape in ((), (1,),
          (4,), (2, 1), (1, 4), (2, 4)) for operands, scales in (({"a": A, "b": B}, {}),
          ({"a": A, "b": B}, {"alpha": 0.5, "beta": -2.0}), ({"a": A, "b": B}, {"beta": 0.0}),
          ({"a": A.T.copy(), "b": B.T.copy()}, {"transA": 1, "transB": 1, "alpha": 3.0}))))),
    *rows("Gemm", each(11, 13), a=A, b=B, alpha=2.0),
    *rows("Gemm", each(1, 6), a=A, b=B, alpha=0.5, expect=InOpset(7), also=each(
        *({"c": normal(*shape), "broadcast": flag} for shape, flag in (((2, 4), 0), ((4,), 1), ((2, 4), 1))))),
    *rows("Gemm", 13, a=A, b=normal(4, 3), c=normal(4), transB=1, dims={"a": ["n", None], "b": [None] * 2, "c": [None]}),
    *rows("Gemm", 13, label="integers", alpha=2.0, also=each(
        *(dict(zip("abc", (whole(0, 5000, *shape, dtype=dtype) for shape in ((2, 3), (3, 4), (4,)))))
          for dtype in (np.int32, np.int64, np.uint32)))),
    *(row for equation, shapes in SUMMATIONS.items() for row in rows(
        "Einsum", 12, equation=equation, tolerance=SUMS, also=each(
            *({f"x{i}": (whole(-300, 300, *shape, dtype=kind) if kind[0] == "i" else normal(*shape, dtype=kind))
               for i, shape in enumerate(shapes)} for kind in ("float32", "float64", "int32", "int64"))))),
    *(row for depth in (4, 1500, 5000) for zeros in ("none", "scalars", "rows", "columns") for row in rows(
        "MatMulInteger", 10, expect=integer_product, also=each(
            *(narrow(a, b, depth, zeros) for a in (np.uint8, np.int8) for b in (np.uint8, np.int8))))),
    *rows("MatMulInteger", 10, a=whole(0, 255, 2, 3, 70, dtype=np.uint8), b=whole(0, 255, 2, 70, 4, dtype=np.uint8),
          az=np.array(128, np.uint8), bz=np.array(3, np.uint8)),
    *(row for kind in (np.uint8, np.int8) for group in (1, 2) for row in rows(
        "ConvInteger", 10, label=f"group_{group}", x=whole(200, 255, 1, 80, 5, 6, dtype=np.uint8), pads=[1] * 4, group=group,
        w=const(whole(90, 127, 4, 80 // group, 3, 3, dtype=kind)),
        also=each({}, {"xz": const(7, np.uint8)}, {"xz": const(7, np.uint8), "wz": const(4, kind)},
                  {"xz": const(7, np.uint8), "wz": const([3, 0, 9, 2], kind)}))),
    *rows("MatMul", 13, a=A, b=normal(4, 5), refused="have no product"),
    *rows("MatMul", 13, a=normal(), b=normal(4, 5), refused="a scalar has no product"),
    *rows("Gemm", 13, a=A, b=B, c=B, refused="cannot be"),
    *rows("Gemm", 13, a=A[..., None], b=B, refused="A must be a matrix"),
    *rows("Einsum", 13, a=A, b=normal(4, 5), equation="ij,jk->ik", refused="'j' of"),
    *rows("Einsum", 13, a=A, equation="ij,jk->ik", refused="is of 2 inputs"),
    *rows("Einsum", 13, a=A, equation="ij->ik", refused="must be letters of its inputs"),
    *rows("Einsum", 13, a=A, equation="i->>j", refused="is not an Einstein summation"),
]  # fmt: skip

_DTYPES = [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint32, np.uint64, ml_dtypes.bfloat16]


def reductions(rng: random.Random, op_type: str) -> Iterator[Row]:
    """One of ReduceMean, ReduceL1 ...: any version, type, rank, axes in any form, sizes of 0, dynamic shapes."""
    opset = rng.choice([1, 11, 12, 13, 15, 17, 18, 20, 22])
    rank = rng.choice([0, 1, 2, 3, 3, 4, 4, 5])
    shape = [rng.choice([1, 2, 3, 4, 5, 7]) for _ in range(rank)]
    if rank and rng.random() < 0.08:
        shape[rng.randrange(rank)] = 0
    dtype = np.dtype(rng.choice(_DTYPES if opset >= 13 else _DTYPES[:-1]))
    # Of nothing there is no mean of integers, and onnxruntime's is 0.
    dtype, expect = (np.dtype(np.float32), REFERENCE) if 0 in shape and op_type == "ReduceMean" else (dtype, None)
    low = {"i": -100_000, "u": 0}.get(dtype.kind)
    x = np.asarray(normal(*shape, dtype=dtype) if low is None else whole(low, 100_000, *shape, dtype=dtype))
    keepdims = rng.choice([0, 1])
    arguments: dict[str, Any] = {"keepdims": keepdims} if rng.random() < 0.8 or not keepdims else {}
    if rng.random() < 0.85:
        axes = rng.sample(range(rank), rng.randint(0 if opset >= 18 else min(1, rank), rank))
        axes = [axis - rank if opset >= 11 and rng.random() < 0.5 else axis for axis in axes]
        # No axes at execution and a scalar end the plug-in's process.
        kind = list if opset < 18 else np.array if rank and rng.random() < 0.4 else const
        if axes or kind is not list:
            arguments["axes"] = kind(axes) if kind is list else kind(np.array(axes, np.int64))
    if opset >= 18 and rng.random() < 0.3:
        arguments["noop_with_empty_axes"] = 1
    label = f"{x.dtype}{'-at_execution' if isinstance(arguments.get('axes'), np.ndarray) else ''}-keepdims={keepdims}"
    dims = {"x": [f"d{i}" if rng.random() < 0.6 else n for i, n in enumerate(shape)]} if rng.random() < 0.4 else None
    yield from rows(op_type, opset, label=label, x=x, dims=dims, **arguments, expect=expect)


def average_pools(rng: random.Random) -> Iterator[Row]:
    """One AveragePool, if its windows fit; onnxruntime refuses some."""
    opset, rank = rng.choice([7, 10, 11, 19, 22]), rng.choice([1, 2, 2, 3])
    dimensions = [rng.randint(3, 9) for _ in range(rank)]
    kernel = [rng.randint(1, min(4, n)) for n in dimensions]
    arguments: dict[str, Any] = {"kernel_shape": kernel, "count_include_pad": rng.choice([0, 1])}
    if rng.random() < 0.8:
        arguments["strides"] = [rng.randint(1, 3) for _ in range(rank)]
    if opset >= 10:
        arguments["ceil_mode"] = rng.choice([0, 1])
    if opset >= 19 and rng.random() < 0.5:
        arguments["dilations"] = [rng.randint(1, 1 + (2 * k < n)) for k, n in zip(kernel, dimensions)]
    auto_pad = rng.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto_pad != "NOTSET":
        arguments["auto_pad"] = auto_pad
    elif rng.random() < 0.7:
        arguments["pads"] = [rng.randint(0, k - 1) for k in kernel + kernel]
    x = normal(2, 3, *dimensions, dtype=rng.choice([np.float32, np.float32, np.float64]))
    label = "dilated" if 2 in arguments.get("dilations", []) else ""
    dims = {"x": ["n", 3, *"dhw"[:rank]]} if rng.random() < 0.4 else None
    [row] = rows("AveragePool", opset, label=label, x=x, dims=dims, **arguments)
    with suppress(Exception):  # onnxruntime's errors share no base class of their own
        wide = replace(row, arguments={**row.arguments, "x": x.astype(np.float32)})
        if run_onnxruntime(wide.model, wide.feeds)[0].size:
            yield row


def random_rows(count: int, seed: int) -> Iterator[Row]:
    """``count`` rows of each operator."""
    rng = random.Random(seed)
    for make in (average_pools, *(functools.partial(reductions, op_type=name) for name in ("ReduceMean", "ReduceL1"))):
        endless = itertools.chain.from_iterable(make(rng) for _ in itertools.count())
        yield from (replace(row, group="matrix") for row in itertools.islice(endless, count))


ROWS += random_rows(120, seed=2026)

# --- reduction ---

MEMBERS = ["ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceMax", "ReduceMin",
           "ReduceLogSum", "ReduceLogSumExp"]  # fmt: skip
REDUCED = Tolerance(1e-3, 1e-5)

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
ROWS += [
    # https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/reduction/reduce-mean-1.html
    *rows("ReduceMean", 18, label="page", x=PAGE, layers=["ReduceMean-1"],
        also=each(*({"axes": const(axes), "keepdims": keep}
                    for axes, keep in (([2, 3], 1), ([2, 3], 0), ([1], 0), ([-2], 0))))),
    *rows("ReduceMean", 18, x=PAGE[:1, :2], noop_with_empty_axes=1),
    *(row for opset in (13, 18) for op_type in MEMBERS for t in schema_types(op_type, opset) if t != np.bool_
      for row in rows(
        op_type, opset, label="types", tolerance=REDUCED, x=each(np.array([[1, 2, 3], [4, 3, 2]]).astype(t)),
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
        keepdims=keepdims, dims=each(None, {"x": ["a", None, 4]}), tolerance=REDUCED)),
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
    *rows("ReduceL1", 18, x=PAGE[:1, :3], axes=const([2, 3]), layers=["ReduceL1-4"], tolerance=REDUCED),
    *rows("ReduceMean", 18, x=CUBE, axes=const([3]), refused="axis 3 lies outside the range"),
    *rows("ReduceMean", 18, x=CUBE, keepdim=1, refused="has no attribute 'keepdim'"),
    *rows("ReduceMean", 18, x=CUBE, keepdims=1.0, refused="attribute 'keepdims' must be of type INT, but is FLOAT"),
    *rows("ReduceMean", 18, x=CUBE, axes=const([0], np.float32), refused="'axes' must be one of int64, but is f32"),
    *rows(each("ArgMax", "ArgMin"), 13, x=TIES, axis=each(0, 1, -1), keepdims=each(0, 1), select_last_index=each(0, 1)),
]  # fmt: skip
