"""DFT and STFT, against onnx's evaluator and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.rows.row import REFERENCE, Tolerance, const, each, rows

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
