"""ONNX's generators and running sums, against NumPy and onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tests.engines import schema_types
from tests.rows.row import Row, const, each, known_or_not, rows

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def stored_or_given(op_type: str, opset: Any, values: dict[str, Any], **more: Any) -> Iterator[Row]:
    """Yield rows whose inputs are all initializers, and rows with none."""
    for kind in (const, np.asarray):
        yield from rows(op_type, opset, **{name: kind(value) for name, value in values.items()}, **more)


def span(start: float, limit: float, delta: float, dtype: Any) -> dict[str, Any]:
    return {name: np.array(value, dtype) for name, value in (("a", start), ("b", limit), ("c", delta))}


WINDOWS = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}


def types(name: str, *values: int) -> Any:
    return each({}, *({name: value} for value in values))


ROWS = [
    *(row for dtype in schema_types("Range", 11)
      for start, limit, delta in ((0, 5, 1), (2, 11, 3), (10, 1, -4), (3, 3, 1), (5, 0, 1), (-3, 4, 2))
      for row in stored_or_given("Range", each(11, 27), span(start, limit, delta, dtype))),
    *stored_or_given("Range", 11, span(1.0, 2.05, 0.1, np.float32), label="fractions"),
    *(row for dtype in (np.float16, ml_dtypes.bfloat16) for row in stored_or_given(
        "Range", 27, span(1.0, 40.0, 0.75, dtype), label="small_floats", stash_type=each(TensorProto.FLOAT, TensorProto.DOUBLE))),
    *rows("EyeLike", each(9, 22), x=X, k=each(0, 1, -2, 9),
          also=types("dtype", TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.FLOAT16)),
    *rows("EyeLike", 9, label="unknown_rank", x=X, k=1, dims={"x": None}),
    *rows("CumSum", each(11, 14), x=X, axis=known_or_not(0, 1, -1, dtype=np.int32), exclusive=each(0, 1),
          reverse=each(0, 1)),
    *rows("CumProd", 26, x=X, axis=known_or_not(0, -1), exclusive=each(0, 1), reverse=each(0, 1)),
    *rows("ReverseSequence", each(10, 28), x=X, lengths=known_or_not([1, 3, 2, 2]), time_axis=0, batch_axis=1),
    *rows("ReverseSequence", each(10, 28), x=X, lengths=known_or_not([4, 1, 3]), time_axis=1, batch_axis=0),
    *(row for op_type in WINDOWS for row in rows(
        op_type, 17, size=known_or_not(10, dtype=np.int32), periodic=each(0, 1),
        also=types("output_datatype", TensorProto.DOUBLE, TensorProto.FLOAT16))),
    *(row for mels in (4, 20) for row in stored_or_given("MelWeightMatrix", 17, {
        "mels": mels, "length": 64, "rate": 16000, "low": np.float32(20), "high": np.float32(7600)})),
    *rows("EyeLike", 9, x=X, dims={"x": [12]}, refused="must be a matrix"),
    *rows(each("CumSum", "CumProd"), 26, x=X, axis=const(2), refused="axis 2 lies outside"),
    *rows("ReverseSequence", 10, x=X, n=const([1, 1]), refused="2\\] lengths are given for 4"),
    *rows("Multinomial", 7, x=X, sample_size=0, refused="must be positive"),
    *rows("Range", 11, a=const(0), b=const(1), c=const(0), refused="must not be 0"),
]  # fmt: skip
