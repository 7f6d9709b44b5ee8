"""Attention and RotaryEmbedding, against onnxruntime or onnx's evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import REFERENCE, Row, Tolerance, const, each, normal_by, rows

R = np.random.default_rng(31)
f = normal_by(R)


def mask(*shape: int, empty: bool = False) -> np.ndarray:
    made = R.random(shape) < 0.6
    made[..., 0] = True
    if empty:
        made[..., 1, :] = False
    return made


def bias(*shape: int, empty: bool = False) -> np.ndarray:
    made = f(*shape)
    made[R.random(shape) < 0.3] = -np.inf
    made[..., 0] = 0.5
    if empty:
        made[..., 1, :] = -np.inf
    return made


Q, K, V = f(2, 4, 3, 8), f(2, 4, 5, 8), f(2, 4, 5, 6)
QKV = {"q": Q, "k": K, "v": V}
SHARED = {"q": Q, "k": f(2, 2, 5, 8), "v": f(2, 2, 5, 6)}
FLAT = {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 12)}
PAST = {**QKV, "m": None, "pk": f(2, 4, 2, 8), "pv": f(2, 4, 2, 6)}
DYNAMIC = {"q": ["b", "n", "s", 8], "k": ["b", "m", "t", 8], "v": ["b", "m", "t", "w"]}
COLUMN = np.where(mask(2, 1, 3, 1), np.float32(0.5), np.float32(-np.inf))
COLUMN[0, 0, 1] = -np.inf


def attention(label: str, opset: int, inputs: Any, expect: Any = None, **options: Any) -> Iterator[Row]:
    yield from rows("Attention", opset, label=label, **inputs, expect=expect, **options)


def specified(label: str, opset: int, inputs: Any, **options: Any) -> Iterator[Row]:
    """Yield what onnxruntime refuses, or has no infinity for."""
    yield from attention(label, opset, inputs, REFERENCE, **options)


def lengths(*counts: int, m: np.ndarray | None = None) -> dict[str, Any]:
    return {**QKV, "m": m, "pk": None, "pv": None, "n": np.array(counts)}


def spread(q: np.ndarray, k: np.ndarray, v: np.ndarray, m: np.ndarray) -> Any:
    """The outputs with a mask of all columns."""
    return next(specified("spread", 23, {"q": q, "k": k, "v": v, "m": np.repeat(m, 5, axis=-1)})).expected


def rotation(label: str, x: np.ndarray, inputs: Any, **options: Any) -> Iterator[Row]:
    yield from rows("RotaryEmbedding", 23, label=label, x=x, **inputs, **options)


X4, X3 = f(2, 4, 3, 8), f(2, 3, 32)
PLACES = np.array([[0, 1, 2], [4, 5, 3]])
TURNS = {"c": f(6, 4), "s": f(6, 4), "p": PLACES}
ANGLES = {"c": f(2, 3, 4), "s": f(2, 3, 4)}
ONE = ["ScaledDotProductAttention-13"]
ROWS = [
    *attention("plain", 23, QKV, layers=ONE),
    *attention("rows", 23, FLAT, q_num_heads=4, kv_num_heads=2,
               dims=each(None, {"q": ["b", "s", 32], "k": ["b", "t", 16], "v": ["b", "t", 12]})),
    *attention("shared", 23, SHARED, dims=each(None, DYNAMIC)),
    *attention("dynamic", 23, QKV, is_causal=each(0, 1), dims=DYNAMIC),
    *attention("causal", 24, QKV, is_causal=1, scale=0.2, layers=ONE),
    *attention("bias", 23, QKV, m=each(bias(3, 5), bias(2, 4, 3, 5), bias(2, 1, 3, 5, empty=True)),
               layers=["NotEqual-1", "ReduceLogicalOr-1", "Select-1", *ONE, "Select-1"]),
    *attention("bias_dynamic", 23, QKV, m=bias(2, 1, 3, 5, empty=True), dims={**DYNAMIC, "m": ["b", 1, "s", "t"]}),
    *attention("mask", 23, QKV, m=each(mask(3, 5), mask(2, 1, 3, 5, empty=True))),
    *attention("bias_causal", 24, QKV, m=bias(3, 5), is_causal=1, scale=0.5),
    *attention("mask_constant", 24, QKV, m=const(mask(3, 5)), layers=ONE),
    *attention("past_mask", 24, {**PAST, "m": mask(3, 7)}, is_causal=1, outputs=3, dims=DYNAMIC),
    *attention("scores_empty", 24, QKV, m=mask(3, 5, empty=True), qk_matmul_output_mode=3, outputs=4),
    *specified("mask_of_keys", 24, QKV, m=mask(2, 1, 1, 5)),
    *specified("mask_narrow", 24, QKV, m=mask(3, 4)),
    *specified("bias_narrow", 24, QKV, m=bias(3, 4), dims={**DYNAMIC, "m": ["s", None]}),
    *specified("scores_causal", 24, QKV, qk_matmul_output_mode=2, is_causal=1, outputs=4),
    *specified("double", 24, {name: v.astype("f8") for name, v in QKV.items()}, scale=0.25),
    *specified("values_of_another_type", 24, {"q": Q, "k": K, "v": V.astype(np.float16)}),
    *specified("coarse", 24, QKV, softmax_precision=10, tolerance=Tolerance(2e-3, 2e-3)),
    *specified("lengths", 24, lengths(2, 5)),
    *specified("lengths_of_nothing", 24, lengths(0, 4)),
    *specified("window", 25, QKV, also=each(
        {"left_window_size": 1}, {"right_window_size": 1}, {"left_window_size": 1, "right_window_size": 0},
        {"left_window_size": 1, "is_causal": 1}, {"right_window_size": 2, "is_causal": 1})),
    *specified("window_lengths", 25, lengths(1, 5), left_window_size=1),
    *specified("window_behind_the_keys", 25, {"q": f(1, 1, 6, 4), "k": f(1, 1, 3, 4), "v": f(1, 1, 3, 4)},
               left_window_size=1),
    # Only version 24 defines that a narrow mask is padded.
    *attention("mask_of_one_column", 23, QKV, spread, m=COLUMN),
    *attention("rows", 23, FLAT, refused="q_num_heads and kv_num_heads are required"),
    *attention("rows", 23, FLAT, q_num_heads=5, kv_num_heads=2, refused="cannot be split into 5 heads"),
    *attention("rows", 23, {**QKV, "q": X3}, q_num_heads=4, kv_num_heads=2, refused="must all have 3 or all 4 dim"),
    *attention("rows", 23, {"q": Q, "k": f(2, 3, 5, 8), "v": V}, refused="4 heads of queries cannot share 3 heads"),
    *attention("past", 23, QKV, m=None, pk=PAST["pk"], refused="past_key and past_value must be given together"),
    *attention("mask", 24, QKV, m=mask(3, 6), refused="wider than the 5 keys"),
    *attention("window", 25, QKV, left_window_size=-2, refused="window sizes must be -1 or more, but are -2"),
    *attention("scores", 24, QKV, qk_matmul_output_mode=4, refused="must be 0, 1, 2 or 3, but is 4"),
    *rotation("angles_of_rows", X3, ANGLES, num_heads=4, interleaved=1),
    *rotation("open", X4, TURNS, dims={"x": ["b", 4, "s", None], "c": ["m", 4], "s": ["m", 4], "p": ["b", "s"]}),
    *rotation("rows", X3, TURNS, refused="num_heads is required"),
    *rotation("places", X4, {**TURNS, "c": f(6, 3)}, refused="must hold 4 angles"),
    *rotation("angles", X4, {"c": f(6, 4), "s": f(6, 4)}, refused="must have 3 dimensions without"),
    *rotation("part", X4, TURNS, rotary_embedding_dim=10, refused="must be even and at most 8, but is 10"),
]  # fmt: skip
