"""Generators, running sums and transforms, against onnx's evaluator and onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tests.engines import schema_types
from tests.rows.row import REFERENCE, Row, Tolerance, const, each, known_or_not, rows

RNG = np.random.default_rng(4)
REAL = RNG.standard_normal((2, 5, 6, 1)).astype(np.float32)
COMPLEX = RNG.standard_normal((2, 5, 6, 2)).astype(np.float32)
SIGNAL = RNG.standard_normal((2, 50, 1)).astype(np.float32)
SPIRAL = RNG.standard_normal((2, 50, 2)).astype(np.float32)
WINDOW = RNG.uniform(0.1, 1, 8).astype(np.float32)


def precise(dtype: np.dtype[Any]) -> Tolerance:
    """Narrow types are only accurate against the greatest of the sum's terms."""
    return Tolerance(1e-4, 2e-2 if dtype.itemsize == 2 else 1e-5)


KINDS = [
    {"x": x, "inverse": inverse, "onesided": sided} for x, inverse, sided in (
        (REAL, 0, 0), (REAL, 0, 1), (COMPLEX, 1, 0), (COMPLEX, 1, 1), (REAL, 1, 0), (COMPLEX, 0, 0))
]  # fmt: skip
SIDES = ((SIGNAL, 1), (SIGNAL, 0), (SPIRAL, 0))
STEP = {"step": const(3), "window": const(WINDOW)}
ROWS = [
    *(row for kind in KINDS for n in (None, 3, 4, 9) for length in [None if n is None else const(n)] for row in (
        *rows("DFT", 17, **kind, length=length, axis=each(0, 1, 2, -2, -3), expect=REFERENCE),
        *rows("DFT", 20, **kind, length=length, axis=const(each(0, 1, 2, -2, -3)), expect=REFERENCE))),
    *(row for kind in KINDS[:4] for n in (3, 9) for row in rows(
        "DFT", 20, label="by_inputs", **kind, length=np.array(n), axis=each(*map(np.array, (0, 1, 2, -2))), expect=REFERENCE,
        dims=each(None, {"x": ["a", "b", "c", kind["x"].shape[-1]]}))),
    *rows("DFT", 20, x=COMPLEX, expect=REFERENCE),
    *(row for dtype in schema_types("DFT", 20, "T1") if dtype.name != "float64" for row in rows(
        "DFT", 20, label="types", x=COMPLEX.astype(dtype), expect=REFERENCE, tolerance=precise(dtype))),
    *(row for x, onesided in SIDES for wrap in (const, np.asarray) for step in (1, 3, 50) for row in (
        *rows("STFT", 17, x=x, step=wrap(np.array(step)), also=each(
            {"window": wrap(WINDOW)}, {"window": None, "length": wrap(np.array(8))},
            {"window": wrap(WINDOW), "length": wrap(np.array(8))}), onesided=onesided,
            dims=None if wrap is const else {"x": ["n", None, x.shape[2]], "window": [None]}),
        # OpenVINO loses digits where the length is not a power of two.
        *rows("STFT", 17, label="whole", x=x, step=wrap(np.array(step)), onesided=onesided,
              tolerance=Tolerance(1e-4, 5e-4)))),
    *rows("STFT", 17, label="onnxruntime", x=each(SIGNAL, SIGNAL[..., 0]), step=const(5), window=const(WINDOW)),
    *(row for dtype in schema_types("STFT", 17, "T1") for n in (0, 1) if n or dtype.name != "float64" for row in rows(
        "STFT", 17, label="types", x=SIGNAL.astype(dtype), step=const(3), window=const(WINDOW, dtype), onesided=n,
        tolerance=precise(dtype))),
    *rows("DFT", 17, x=REAL, axis=3, refused="holds the parts of complex numbers"),
    *rows("DFT", 17, x=REAL, axis=5, refused="axis 5 lies outside"),
    *rows("DFT", 17, x=COMPLEX, onesided=1, refused="wants real data"),
    *rows("DFT", 17, x=REAL, onesided=1, inverse=1, refused="wants complex data"),
    *rows("DFT", 17, x=np.ones((2, 3, 3), np.float32), axis=-2, refused="must be 1 .real. or 2"),
    *rows("DFT", 17, x=REAL.astype(np.float64), refused="f32 at most"),
    *rows("STFT", 17, x=SPIRAL, **STEP, refused="wants real signals"),
    *rows("STFT", 17, x=SIGNAL[None], **STEP, refused="must have 2 or 3 dimensions"),
    *rows("STFT", 17, x=SIGNAL, **STEP, length=const(7), refused="frame_length is 7"),
    *rows("STFT", 17, x=SIGNAL, step=const(0), window=const(WINDOW), refused="do not make a transform"),
]  # fmt: skip

# --- generation ---

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


ROWS += [
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
