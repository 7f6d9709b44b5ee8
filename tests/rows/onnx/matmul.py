"""Products of matrices: typical ones, and random ones of every form."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from tests.engines import node_model, run_onnxruntime
from tests.oracles.reduction import reduce
from tests.rows.row import Row, Tolerance, const, each, rows, several

RNG = np.random.default_rng(7)
SUMS = Tolerance(1e-3, 1e-4)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a.astype(object) @ b.astype(object)) % 2 ** (8 * a.itemsize)).astype(np.uint64).astype(a.dtype)


def tied(rows: int, folded: bool, other: float = 0.0) -> Any:
    """An embedding whose matrix scores the result, transposed by a node or in the file."""
    matrix = np.random.default_rng(1).standard_normal((rows, 32)).astype(np.float32)
    turned = matrix.T.copy()
    turned[-1, -1] += other
    nodes = f"x = Gather (m, ids) {'' if folded else 't = Transpose <perm = [1, 0]> (m)'} scores = MatMul (x, t)"
    stored = {"m": const(matrix), **({"t": const(turned)} if folded else {})}
    return next(several(nodes, outputs="scores", label="tied", ids=np.zeros((1, 5), np.int64), **stored)).model


def gemm(a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: float) -> np.ndarray:
    return (alpha * (a @ b) + c).astype(a.dtype)


def summation(equation: str, **arrays: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum(equation.replace(" ", ""), *arrays.values()))


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
    *rows("Gemm", each(1, 6), a=A, b=B, alpha=0.5, expect=gemm, also=each(
        *({"c": normal(*shape), "broadcast": flag} for shape, flag in (((2, 4), 0), ((4,), 1), ((2, 4), 1))))),
    *rows("Gemm", 13, a=A, b=normal(4, 3), c=normal(4), transB=1, dims={"a": ["n", None], "b": [None] * 2, "c": [None]}),
    *rows("Gemm", 13, label="integers", alpha=2.0, expect=gemm, also=each(
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


def _values(generator: np.random.Generator, shape: list[int], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "u":
        return generator.integers(0, 100_000, shape).astype(dtype)
    if dtype.kind == "i":
        return generator.integers(-100_000, 100_000, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def reduction_case(op_type: str, seed: int) -> Row:
    """One of ReduceMean, ReduceL1 ...: any version, type, rank, axes in any form, sizes of 0, dynamic shapes."""
    rng, generator = random.Random(f"{op_type}{seed}"), np.random.default_rng(seed)
    opset = rng.choice([1, 11, 12, 13, 15, 17, 18, 20, 22])
    rank = rng.choice([0, 1, 2, 3, 3, 4, 4, 5])
    shape = [rng.choice([1, 2, 3, 4, 5, 7]) for _ in range(rank)]
    if rank and rng.random() < 0.08:
        shape[rng.randrange(rank)] = 0
    dtype = rng.choice(_DTYPES if opset >= 13 else _DTYPES[:-1])
    if 0 in shape and op_type == "ReduceMean":
        dtype = np.float32  # no integer is the mean of nothing
    x = _values(generator, shape, dtype)
    keepdims = rng.choice([0, 1])
    attributes: dict[str, Any] = {"keepdims": keepdims} if rng.random() < 0.8 or not keepdims else {}
    axes: list[int] | None = None
    if rng.random() < 0.85:
        count = rng.randint(0 if opset >= 18 else min(1, rank), rank)
        axes = [axis - rank if opset >= 11 and rng.random() < 0.5 else axis for axis in rng.sample(range(rank), count)]
    noop = opset >= 18 and rng.random() < 0.3
    feeds, constants = {"x": x}, {}
    if opset >= 18:
        if noop:
            attributes["noop_with_empty_axes"] = 1
        if axes is not None:
            target = feeds if rng.random() < 0.4 else constants
            target["axes"] = np.array(axes, np.int64)
    elif axes:
        attributes["axes"] = axes
    shapes = None
    if rng.random() < 0.4 and rank:
        shapes = {"x": [f"d{i}" if rng.random() < 0.6 else n for i, n in enumerate(shape)]}
    model = node_model(op_type, feeds, opset=opset, attributes=attributes, constants=constants, shapes=shapes)
    form = "none" if axes is None else "input" if "axes" in feeds else "constant" if constants else "attribute"
    name = f"{op_type}-{opset} {x.dtype}{shape} axes={axes} ({form}) keepdims={keepdims} noop={noop} dynamic={bool(shapes)}"
    expected = [reduce(op_type, x, axes, bool(keepdims), noop)]
    return _row(name, model, feeds, expected)


def pooling_case(op_type: str, seed: int) -> Row | None:
    """One AveragePool; None where onnxruntime refuses it or a window does not fit."""
    rng, generator = random.Random(f"{op_type}{seed}"), np.random.default_rng(seed)
    opset = rng.choice([7, 10, 11, 19, 22])
    rank = rng.choice([1, 2, 2, 3])
    dimensions = [rng.randint(3, 9) for _ in range(rank)]
    kernel = [rng.randint(1, 4) for _ in range(rank)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "count_include_pad": rng.choice([0, 1])}
    if rng.random() < 0.8:
        attributes["strides"] = [rng.randint(1, 3) for _ in range(rank)]
    if opset >= 10:
        attributes["ceil_mode"] = rng.choice([0, 1])
    dilations = [1] * rank
    if opset >= 19 and rng.random() < 0.5:
        dilations = attributes["dilations"] = [rng.randint(1, 2) for _ in range(rank)]
    auto_pad = rng.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    pads = [0] * (2 * rank)
    if auto_pad != "NOTSET":
        attributes["auto_pad"] = auto_pad
    elif rng.random() < 0.7:
        pads = attributes["pads"] = [rng.randint(0, k - 1) for k in kernel + kernel]
    if not auto_pad.startswith("SAME"):
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        room = [n + pads[i] + pads[rank + i] - spans[i] for i, n in enumerate(dimensions)]
        if min(room) < 0:
            return None
    dtype = rng.choice([np.float32, np.float32, np.float64])
    x = _values(generator, [2, 3, *dimensions], dtype)
    dynamic = rng.random() < 0.4
    shapes = {"x": ["n", 3, *[f"d{i}" for i in range(rank)]]} if dynamic else None
    model = node_model(op_type, {"x": x}, opset=opset, attributes=attributes, shapes=shapes)
    try:
        # onnxruntime has no float64 kernel for it: float32's answer serves, at float32's precision.
        oracle = node_model(op_type, {"x": x.astype(np.float32)}, opset=opset, attributes=attributes)
        expected = run_onnxruntime(oracle, {"x": x.astype(np.float32)})[0]
    except Exception:
        return None
    if 0 in expected.shape:
        return None
    name = f"{op_type}-{opset} {x.dtype}{dimensions} {attributes} dynamic={dynamic}"
    return _row(name, model, {"x": x}, [expected.astype(dtype)])


def _row(name: str, model: onnx.ModelProto, feeds: dict[str, np.ndarray], expected: list[np.ndarray]) -> Row:
    name = re.sub(r"[^\w=.,-]+", "_", name)
    return Row(name, "", 0, feeds, make=lambda: model, expect=expected, group="matrix")


def cases(count: int, seed: int) -> Iterator[Row]:
    """``count`` cases, a third each of ReduceMean, ReduceL1 and AveragePool."""
    number, made = seed * 1_000_003, 0
    while made < count:
        number += 1
        op_type = ("ReduceMean", "ReduceL1", "AveragePool")[made % 3]
        case = pooling_case(op_type, number) if op_type == "AveragePool" else reduction_case(op_type, number)
        if case is not None:
            made += 1
            yield case


ROWS += cases(360, seed=2026)
