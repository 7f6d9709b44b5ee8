"""onnxruntime's gates, RMS normalizations and hyper-connections, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import each, rows

R = np.random.default_rng(4)
BATCH, STEPS, STREAMS, WIDTH = 2, 3, 4, 6
LEAD = (BATCH, STEPS)
TYPES = (np.float32, np.float16)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int, scale: float = 1, dtype: Any = np.float32) -> np.ndarray:
    return np.array(R.standard_normal(shape) * scale, dtype)


def streams(is_flat: bool, dtype: Any, *lead: int) -> dict[str, Any]:
    """Streams that are an axis of their own, or lie in one with the width."""
    shape = (*lead, STREAMS * WIDTH) if is_flat else (*lead, STREAMS, WIDTH)
    return {"x": f(*shape, dtype=dtype), "num_branches": STREAMS if is_flat else 0}


def engram(dtype: Any) -> dict[str, np.ndarray]:
    shapes = {"key": (*LEAD, STREAMS, WIDTH), "query": (*LEAD, STREAMS, WIDTH), "value": (*LEAD, WIDTH)}
    shapes |= dict.fromkeys(("key_scale", "query_scale"), (STREAMS, WIDTH))
    return {name: f(*shape, dtype=dtype) for name, shape in shapes.items()}


GATES = [(STREAMS,), (STREAMS, 1), (STREAMS, WIDTH)]
ROWS = [
    *(row for dtype in TYPES for lead in ((), (5,), (2, 3)) for row in microsoft(
        "GatedAdd", x=f(*lead, 4, dtype=dtype), y=f(*lead, 4, dtype=dtype), gate=f(*lead, 1, dtype=dtype))),
    *microsoft("GatedAdd", x=f(2, 4), y=f(2, 4), gate=f(2, 4), w=f(4, 1), refused="projected by gate_weight"),
    *microsoft("ScaledSiLU", x=each(*(f(*shape, scale=4, dtype=dtype) for dtype in TYPES for shape in ((), (0, 3),
               (2, 3)))),
               scale=each(None, *(np.array(1.7, dtype) for dtype in TYPES)), alpha=0.3),
    *(row for dtype in TYPES for groups in (1, 3) for row in microsoft(
        "GatedRMSNorm", x=f(*LEAD, groups * WIDTH, dtype=dtype), scale=f(WIDTH, dtype=dtype), epsilon=1e-3,
        gate=f(*LEAD, groups * WIDTH, dtype=dtype), activation=each("silu", "swish", "sigmoid"))),
    *microsoft("GatedRMSNorm", x=f(2, 4), scale=f(4), gate=f(2, 4), activation="relu",
               refused="must be silu, swish or sigmoid, but is 'relu'"),
    *(row for dtype in TYPES for is_flat in (False, True) for row in microsoft(
        "BranchwiseRMSNorm", **streams(is_flat, dtype, *(LEAD[: 2 - is_flat])),
        scale=each(None, f(WIDTH), f(STREAMS, WIDTH), f(STREAMS * WIDTH)))),
    *(row for dtype in TYPES for is_flat in (False, True) for row in microsoft(
        "HyperConnectionPreMix", **streams(is_flat, dtype, *LEAD), reduction_scale=0.7,
        gates=each(*(f(*LEAD, *gate) for gate in GATES + [(STREAMS * WIDTH,)] * is_flat)))),
    *(row for dtype in TYPES for is_flat in (False, True) for row in microsoft(
        "HyperConnectionPostMix", **streams(is_flat, dtype, *LEAD), block=f(*LEAD, WIDTH, dtype=dtype),
        gates=each(*(f(*LEAD, *gate) for gate in GATES)), mix=each(None, f(*LEAD, STREAMS, STREAMS)))),
    *(row for dtype in TYPES for row in microsoft("EngramGate", **engram(dtype), epsilon=1e-4)),
    *(row for dtype in TYPES for row in microsoft(
        "EngramGate", **engram(dtype), scale=f(STREAMS, WIDTH, dtype=dtype), outputs=2, epsilon=1e-4)),
    *microsoft("EngramGate", **engram(np.float32), outputs=2, refused="requires the input conv_norm_scale"),
]  # fmt: skip
