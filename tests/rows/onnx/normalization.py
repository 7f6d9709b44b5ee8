"""Normalizations, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from tests.engines import schema_types
from tests.rows.row import InOpset, Row, Tolerance, const, each, rows

RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (RNG.standard_normal(shape) * 2 + 0.5).astype(dtype)


def few_steps(dtype: Any) -> Tolerance:
    """The tolerance of a few steps, each of which rounds."""
    steps = {"float16": Tolerance(5e-3, 1e-2), "bfloat16": Tolerance(3e-2, 6e-2)}
    return steps.get(np.dtype(dtype).name, Tolerance(1e-4, 2e-5))


def layer_in_bfloat16(x: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    wide = x.astype(np.float64)
    mean, inverse = wide.mean(1, keepdims=True), 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    return [((wide - mean) * inverse * s).astype(np.float32), *(v.astype(ml_dtypes.bfloat16) for v in (mean, inverse))]


def lrn(x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> np.ndarray:
    """The schema's formula; onnxruntime takes odd sizes and four dimensions alone."""
    wide = x.astype(np.float64)
    squares = np.pad(wide * wide, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
    sums = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    return (wide / (bias + alpha / size * sums) ** beta).astype(x.dtype)


def batch_constants(dtype: Any = np.float32, *shape: int) -> dict[str, Any]:
    shape = shape or (3,)
    values = {"scale": normal(*shape), "b": normal(*shape), "mean": normal(*shape), "v": np.abs(normal(*shape))}
    return {name: const(value, dtype) for name, value in values.items()}


BATCH = batch_constants()
IMAGE = normal(2, 7, 3, 4)
WITH_ZEROS = normal(3, 4, 5)
WITH_ZEROS[:, 1] = 0
VERSIONS: list[tuple[int, dict[str, Any]]] = [
    (1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}),
    (6, {"is_test": 1}),
    (7, {}),
    (9, {"momentum": 0.5}),
    (14, {}),
    (15, {"training_mode": 0}),
]
SHAPES = [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)]


# fmt: off
def of_types() -> list[Row]:
    """Rows of every type that a schema allows."""
    table: list[Row] = []
    for dtype in schema_types("BatchNormalization", 15):
        for other in schema_types("BatchNormalization", 15, "T2"):
            if "float64" not in (dtype.name, other.name) or dtype == other:
                table += rows("BatchNormalization", 15, label=f"{dtype}_by_{other}", x=normal(2, 3, 4, dtype=dtype),
                              **batch_constants(other), tolerance=few_steps(dtype))
    for opset in (1, 6, 22):
        for dtype in schema_types("InstanceNormalization", opset):
            table += rows("InstanceNormalization", opset, label=f"{dtype}", epsilon=0.01,
                          x=each(*(normal(*shape, dtype=dtype) for shape in ((2, 3, 7), (2, 3, 4, 5), (2, 3, 2, 3, 2)))),
                          scale=const(normal(3, dtype=dtype)), b=const(normal(3, dtype=dtype)),
                          tolerance=few_steps(dtype), **({"consumed_inputs": [0], "expect": InOpset(6)} if opset == 1 else {}))
    for opset, groups in itertools.product((18, 21), (1, 2, 6)):
        for dtype in schema_types("GroupNormalization", opset):
            count = groups if opset == 18 else 6
            table += rows("GroupNormalization", opset, label=f"{dtype}_{groups}_groups", num_groups=groups, epsilon=0.01,
                          x=each(*(normal(*shape, dtype=dtype) for shape in ((2, 6), (2, 6, 5), (2, 6, 3, 4)))),
                          scale=const(normal(count, dtype=dtype)), bias=const(normal(count, dtype=dtype)),
                          tolerance=few_steps(dtype))
    for axis in (None, 0, 1, 2, -2):
        shape, given = ((5,), {}) if axis is None else ((3, 4, 5)[axis % 3 :], {"axis": axis})
        for dtype, outputs in itertools.product(schema_types("LayerNormalization", 17), (1, 2, 3)):
            table += rows("LayerNormalization", 17, label=f"{dtype}_{outputs}_outputs_axis_{axis}", outputs=outputs,
                          x=normal(3, 4, 5, dtype=dtype), scale=const(normal(*shape, dtype=dtype)), epsilon=1e-3, **given,
                          also=each({}, {"b": const(normal(*shape, dtype=dtype))}), tolerance=few_steps(dtype))
        for dtype in schema_types("RMSNormalization", 23) if axis != 2 else ():
            for other in sorted({dtype, np.dtype(np.float32)}, key=str):
                table += rows("RMSNormalization", 23, label=f"{dtype}_by_{other}_axis_{axis}", epsilon=1e-3, **given,
                              x=normal(3, 4, 5, dtype=dtype), scale=const(normal(*shape, dtype=other)),
                              tolerance=few_steps(dtype))
    for opset in (9, 13):
        for dtype in schema_types("MeanVarianceNormalization", opset):
            table += rows("MeanVarianceNormalization", opset, label=f"{dtype}", x=normal(2, 3, 4, 5, dtype=dtype),
                          also=each({}, {"axes": [2, 3]}, {"axes": [0, 1, 2, 3]}, {"axes": [-1]}),
                          tolerance=few_steps(dtype))
    for dtype in schema_types("LRN", 13):
        table += rows("LRN", 13, label=f"{dtype}", x=IMAGE.astype(dtype), size=each(3, 4), alpha=0.5, expect=lrn)
    for opset in (1, 22):
        for dtype in schema_types("LpNormalization", opset):
            table += rows("LpNormalization", opset, label=f"{dtype}", x=WITH_ZEROS.astype(dtype), p=each(1, 2),
                          also=each({}, {"axis": 0}, {"axis": 1}, {"axis": -2}))
    return table


ROWS = [
    *(row for opset, attributes in VERSIONS for shape in SHAPES for row in rows("BatchNormalization", opset,
        label=f"{len(shape)}d", x=normal(*shape), **BATCH, **attributes, also=each({}, {"epsilon": 0.1}),
        expect=InOpset(max(7, opset)))),
    *(row for opset, attributes in VERSIONS for row in rows("BatchNormalization", opset, label="by_inputs",
        x=normal(2, 3, 4), **attributes, expect=InOpset(max(7, opset)), **{name: value.array for name, value in BATCH.items()})),
    *(row for opset, attributes in VERSIONS[:3] for row in rows("BatchNormalization", opset, label="each_activation",
        x=normal(2, 3, 4), spatial=0, **attributes, **{name: const(np.abs(normal(3, 4))) for name in BATCH},
        expect=InOpset(7))),
    *rows("BatchNormalization", each(14, 15), label="training", x=normal(4, 3, 5, 2), **BATCH, training_mode=1,
          momentum=0.7, outputs=3),
    *rows("BatchNormalization", each(14, 15), label="training", x=normal(4, 3, 5, 2), **BATCH, training_mode=1,
          momentum=0.7),
    *rows("BatchNormalization", 15, label="unknown_rank", x=np.abs(normal(2, 3, 4)), dims={"x": None}, training_mode=1,
          outputs=3, **{name: np.abs(normal(3)) for name in BATCH}),
    *rows("BatchNormalization", 15, x=normal(2, 3, 4), **BATCH, layers=["BatchNormInference-5"]),
    *rows("BatchNormalization", 6, x=normal(2, 3, 4), **BATCH, outputs=2, refused="training is not supported"),
    *rows("BatchNormalization", 9, x=normal(2, 3, 4), **BATCH, outputs=3, refused="training is not supported"),
    *rows("BatchNormalization", 15, x=normal(2, 3, 4), **BATCH, outputs=3, refused="there is one output"),
    *rows("BatchNormalization", 9, x=normal(2, 3, 4), **BATCH, spatially=1, refused="no attribute 'spatially'"),
    *rows("BatchNormalization", 15, x=normal(2, 4, 4), **BATCH, refused="3 values, but the data has 4 channels"),
    *rows("InstanceNormalization", 15, label="unknown_rank", x=np.abs(normal(2, 3, 4)), scale=normal(3), b=normal(3),
          epsilon=0.01, dims={"x": None}),
    *rows("InstanceNormalization", 22, x=normal(2, 3), scale=const(normal(3)), b=const(normal(3)),
          refused="at least 3 dimensions"),
    *rows("InstanceNormalization", 22, x=normal(2, 3, 4), scale=const(normal(2)), b=const(normal(2)),
          refused="one value a channel"),
    *rows("GroupNormalization", 18, x=normal(2, 6, 5), scale=const(normal(4)), bias=const(normal(4)), num_groups=4,
          refused="num_groups must divide"),
    *rows("GroupNormalization", 21, x=normal(2, 6, 5), scale=const(normal(6)), bias=const(normal(6)), num_groups=0,
          refused="num_groups must divide"),
    *rows("GroupNormalization", 18, x=normal(2, 6, 5), scale=const(normal(6)), bias=const(normal(6)), num_groups=2,
          refused="one value a group"),
    *rows("LayerNormalization", 17, label="stash_type", x=normal(3, 4), s=const(normal(4)), stash_type=16, outputs=3,
          expect=layer_in_bfloat16),
    *rows("LayerNormalization", 17, label="by_inputs", x=normal(2, 3, 4), scale=normal(4), b=normal(4)),
    *rows("LayerNormalization", 17, x=normal(2, 3, 4), s=const(each(normal(5), normal(1, 1, 3, 4), normal(4, 1))),
          refused="cannot be broadcast to X"),
    *rows("RMSNormalization", 23, label="large_float16", x=(normal(2, 8) * 1000).astype(np.float16),
          scale=np.ones(8, np.float16), tolerance=few_steps(np.float16)),
    *rows("LRN", each(1, 13), x=IMAGE, size=each(1, 2, 3, 4, 5, 8), bias=each(1.0, 2.0, 1.5, 0.5), alpha=0.3, beta=0.6,
          expect=lrn),
    *rows("LRN", 13, label="onnxruntime", x=IMAGE, size=each(1, 3, 5), alpha=0.3, beta=0.6, bias=each(1.0, 2.0)),
    *rows("LRN", 13, label="ranks", x=each(normal(2, 7), normal(2, 7, 5), normal(2, 7, 2, 3, 2)), size=each(3, 4),
          expect=lrn),
    *rows("LRN", 13, label="of_alexnet", x=IMAGE, size=5, layers=["LRN-1"]),
    *rows("LRN", 13, x=normal(2, 7), size=0, refused="size must be positive"),
    *rows("LRN", 13, x=normal(2, 7), refused="'size' is required"),
    *rows("LpNormalization", 22, x=normal(2, 3), p=3, refused="p must be 1 or 2"),
    *rows("LpNormalization", 22, x=normal(2, 3), axis=2, refused="axis 2 lies outside"),
    *of_types(),
]  # fmt: skip
