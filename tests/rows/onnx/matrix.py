"""A random matrix over ReduceMean, ReduceL1 and AveragePool; ``benchmarks/matrix.py`` runs a larger one.

Oracles: exact integers and float64 for the reductions, onnxruntime for pooling.
"""

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
from tests.rows.row import Row

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


ROWS = list(cases(360, seed=2026))
