"""onnxruntime's operators without a CPU kernel, against NumPy by their descriptions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tests.rows.row import const, each, rows

R = np.random.default_rng(53)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def swiglu(gate: np.ndarray, up: np.ndarray, activation_alpha: float, activation_beta: float, limit: float) -> Any:
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return (gate / (1 + np.exp(-activation_alpha * gate)) * (up + activation_beta)).astype(np.float32)


def split_gelu(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    left, right = np.split(x + bias, 2, -1)
    return (left * 0.5 * right * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))).astype(np.float32)


def fast_gelu(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = x @ w + bias
    return (0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))).astype(np.float32)


def softmax(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


ACTIVATIONS: list[tuple[str, Any, Any]] = [
    ("Relu", {}, lambda x: np.maximum(x, 0)),
    ("LeakyRelu", {"activation_alpha": 0.2}, lambda x: np.where(x < 0, np.float32(0.2) * x, x)),
    ("Softmax", {"activation_axis": 1}, lambda x: softmax(x, 1)),
]


def turned(emb: np.ndarray, q: np.ndarray, q_rot: np.ndarray, k: np.ndarray, k_rot: np.ndarray) -> Any:
    cos, sin = np.cos(emb)[:, np.newaxis], np.sin(emb)[:, np.newaxis]
    return [q * cos + q_rot * sin, k * cos + k_rot * sin]


def in_pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return in_pairs((a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + 1j * b[..., 1]))


def spectrum(x: np.ndarray, signal_ndim: int) -> np.ndarray:
    return in_pairs(np.fft.rfftn(x, axes=tuple(range(3 - signal_ndim, 3))))


X, GATES, COMPLEX = f(2, 3, 8), {"gate": f(2, 3, 8), "up": f(2, 3, 8)}, {"a": f(2, 3, 2), "b": f(1, 3, 2)}
SUM = {"x": f(2, 3, 4), "bias": f(4), "residual": f(2, 3, 4)}
LIMITS: Any = {"activation_alpha": 1.702, "activation_beta": 1.0, "limit": each(0.0, 0.7)}
OPTIONS: Any = [({}, 1.0, True), ({}, np.inf, False), ({}, np.nan, False), ({"isnan_only": 1}, np.inf, True),
                ({"isinf_only": 1}, np.nan, True), ({"isinf_only": 1}, -np.inf, False)]  # fmt: skip
bias_softmax = functools.partial(microsoft, "BiasSoftmax", x=f(2, 3, 4, 5))
ROWS = [
    *microsoft("SwiGLU", **GATES, **LIMITS, expect=swiglu),
    *microsoft("SwiGLU", both=np.concatenate(list(GATES.values()), -1), **LIMITS,
               expect=lambda both, **options: swiglu(*np.split(both, 2, -1), **options)),
    *microsoft("RouterGateUpProj", x=f(2, 3, 5), w=f(5, 16), router_size=4, outputs=2, expect=lambda x, w: [
        (x @ w)[..., :4], swiglu((x @ w)[..., 4:10], (x @ w)[..., 10:], 1.0, 0.0, 0.0)]),
    *microsoft("BiasSplitGelu", x=X, bias=f(8), expect=split_gelu),
    *microsoft("GemmFastGelu", x=X, w=f(8, 4), bias=f(4), expect=fast_gelu),
    *(row for activation, options, function in ACTIVATIONS for row in microsoft(
        "FusedMatMulActivation", a=f(2, 4, 3), b=f(2, 4, 5), activation=activation, **options, transA=1, alpha=0.5,
        expect=lambda a, b, f=function: f(0.5 * np.swapaxes(a, 1, 2) @ b))),
    *bias_softmax(bias=each(f(2, 1, 1, 5), f(4, 5), f(2, 3, 4, 5)), axis=3, is_inner_broadcast=0,
                  expect=lambda x, bias: softmax(x + bias, 3)),
    *bias_softmax(bias=f(2, 5), axis=3, is_inner_broadcast=1, expect=lambda x,
                  bias: softmax(x + bias[:, None, None], 3)),
    *bias_softmax(bias=np.zeros((1, 3, 1, 1), "f4"), axis=2, is_inner_broadcast=0, expect=lambda x: softmax(x, (2, 3))),
    *microsoft("GemmaRotaryEmbedding", emb=X, **{name: f(2, 4, 3, 8) for name in ("q", "q_rot", "k", "k_rot")},
               outputs=2,
               expect=turned),
    *microsoft("BiasDropout", **SUM, expect=lambda x, bias, residual: x + bias + residual),
    *microsoft("BiasDropout", **SUM, ratio=const(0.5, "f4"), training=const(True), refused="for training"),
    *microsoft("ComplexMul", **COMPLEX, expect=product),
    *microsoft("ComplexMulConj", **COMPLEX, expect=lambda a, b: product(a, b * np.array([1, -1]))),
    *microsoft("Rfft", x=X, signal_ndim=each(1, 2), expect=spectrum),
    *(row for count in (1, 2) for row in microsoft("Irfft", x=spectrum(X, count), signal_ndim=count, expect=X)),
    *microsoft("Rfft", x=X, normalized=1, refused="normalized must be 0"),
    *microsoft("TorchEmbedding", w=f(9, 4), i=np.array([[0, 8], [3, 3]]), expect=lambda w, i: w[i]),
    *microsoft("MulInteger", a=R.integers(0, 256, (2, 3)).astype(np.uint8), za=np.array(7, np.uint8),
               b=R.integers(0, 256, 3).astype(np.uint8), zb=np.array(200, np.uint8),
               expect=lambda a, za, b, zb: (a.astype(np.int32) - za) * (b.astype(np.int32) - zb)),
    *microsoft("ReduceSumInteger", x=R.integers(-128, 128, (2, 3, 4)).astype(np.int8), axes=[0, 2], keepdims=0,
               expect=lambda x: x.sum((0, 2), np.int32)),
    *microsoft("ReduceSumInteger", x=R.integers(0, 256, (2, 3)).astype(np.uint8), axes=[1], keepdims=1,
               expect=lambda x: x.sum(1, np.uint32, keepdims=True)),
    *(row for options, value, is_finite in OPTIONS for row in microsoft(
        "IsAllFinite", x=np.array([[1, 2, 3], [4, value, 5]], "f4"), y=f(4), **options, expect=np.array(is_finite))),
]  # fmt: skip
