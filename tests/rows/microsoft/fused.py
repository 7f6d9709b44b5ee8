"""onnxruntime's fused operators, products with packed weights, and operators without a CPU kernel."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tests.rows.row import Tolerance, const, each, normal_by, rows

R = np.random.default_rng(7)
HALF = np.float16
f = normal_by(R)


def stored(*shape: int) -> Any:
    return const(R.integers(0, 256, shape), np.uint8)


def columns(kind: int, k: int, n: int) -> Any:
    """Columns of 4 bits: of each 32 numbers the scale, the zero point where there is one, and the codes."""
    head = 5 if kind else 4
    held = R.integers(0, 256, (n, -(-k // 32), head + 16)).astype(np.uint8)
    held[:, :, :4] = R.uniform(0.1, 1, held.shape[:2]).astype("<f4").view(np.uint8).reshape(n, -1, 4)
    held[:, :, 4:head] &= 15
    return {"a": f(2, 4, k), "b": const(held.reshape(-1)), "shape": const([k, n]), "blk_quant_type": kind}


def numbers(quant_type: int, n: int, k: int, block: int) -> Any:
    return {"a": f(2, 3, k), "b": stored(-(-n * k // 2)), "absmax": const(np.abs(f(-(-n * k // block)))), "K": k,
            "N": n, "block_size": block, "quant_type": quant_type}  # fmt: skip


microsoft = functools.partial(rows, opset=1, domain="com.microsoft")
convolution = functools.partial(microsoft, "FusedConv", X=f(1, 2, 6, 6))
norm = functools.partial(microsoft, "SkipLayerNormalization", x=f(2, 3, 8))
simplified = functools.partial(microsoft, "SkipSimplifiedLayerNormalization")
embedding = functools.partial(microsoft, "EmbedLayerNormalization", ids=R.integers(0, 20, (2, 5)).astype(np.int32))
by_4_bits = functools.partial(microsoft, "MatMulNBits", bits=4, block_size=16)
BLOCK = {"a": f(2, 3, 32), "b": stored(5, 2, 8), "scales": const(f(5, 2)), "K": 32, "N": 5}
W, SEGMENTS = const(f(3, 2, 3, 3)), R.integers(0, 4, (2, 5)).astype(np.int32)
W20, P10, G4, GAMMA, BETA = (const(f(*shape)) for shape in ((20, 8), (10, 8), (4, 8), (8,), (8,)))
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
ROWS = [
    *microsoft("FusedMatMul", a=f(2, 3, 4), b=f(2, 4, 5), alpha=each(0.5, 1.0),
               dims=each(None, {"a": ["n", None, 4], "b": ["n", 4, 5]})),
    *microsoft("FusedMatMul", a=f(2, 4, 3), b=f(5, 4), transA=1, transB=1),
    *microsoft("FusedMatMul", a=f(3, 2, 4), b=f(2, 4, 5), transBatchA=1),
    *microsoft("FusedMatMul", a=f(4, 2, 6, 3), b=f(5, 2, 6, 4), transBatchA=1, transBatchB=1, transA=1, transB=1),
    *microsoft("FusedGemm", a=f(3, 4), b=f(4, 5), C=f(5), activation="Relu", alpha=0.5, beta=2.0),
    *microsoft("FusedGemm", a=f(4, 3), b=f(4, 5), activation="LeakyRelu", activation_alpha=0.3, transA=1),
    *convolution(W=W, b=f(3), activation="Relu", pads=[1, 1, 1, 1]),
    *convolution(label="weights_as_input", W=W.array, b=f(3), activation="Relu"),
    *convolution(label="sum", W=W, b=f(3), Z=f(1, 3, 4, 4), activation="Relu"),
    *convolution(W=const(f(2, 1, 3, 3)), activation="LeakyRelu", activation_params=[0.2], group=2),
    *convolution(W=W, activation="Clip", activation_params=[-0.5, 0.75]),
    *convolution(W=W, activation="HardSigmoid", activation_params=[0.3, 0.4]),
    *convolution(X=f(1, 2, 6), W=const(f(3, 2, 3)), activation="Tanh", auto_pad="SAME_UPPER",
                 dims={"X": ["n", 2, None]}),
    *convolution(W=W, activation="Swoosh", refused="the activation 'Swoosh' is not known"),
    *convolution(W=W, activation="Clip", refused="Clip needs two parameters"),
    *microsoft("Gelu", X=each(f(3, 40) * 3, f(3, 4, dtype=HALF))),
    *microsoft("BiasGelu", a=f(3, 4, 8), b=f(8)),
    *microsoft("FastGelu", X=f(3, 8)),
    *microsoft("FastGelu", X=f(3, 4, 8), b=f(8), dims={"X": [None, "s", 8]}),
    *microsoft("FastGelu", X=f(3, 4, dtype=HALF), b=f(4, dtype=HALF)),
    *microsoft("QuickGelu", X=each(f(3, 8) * 3, f(3, 4, dtype=HALF)), also=each({}, {"alpha": 1.0})),
    *rows("SimplifiedLayerNormalization", 17, X=f(2, 3, 8), scale=f(8), epsilon=1e-3, outputs=2),
    *rows("SimplifiedLayerNormalization", 14, X=f(2, 3, 8), scale=f(3, 8), axis=1),
    *rows("SimplifiedLayerNormalization", 17, X=f(3, 4, dtype=HALF), scale=f(4, dtype=HALF)),
    *norm(skip=f(2, 3, 8), gamma=f(8), beta=f(8), epsilon=1e-5),
    *norm(skip=f(3, 8), gamma=f(8), beta=None, bias=f(8), dims=each(None, {"x": ["b", "s", 8], "skip": [None, 8]})),
    *norm(x=f(3, 4, dtype=HALF), skip=f(3, 4, dtype=HALF), gamma=f(4, dtype=HALF)),
    *simplified(x=f(2, 3, 8), skip=f(1, 3, 8), gamma=f(8), bias=f(8), epsilon=1e-5),
    *simplified(label="flat", x=f(3, 8), skip=f(3, 8), gamma=f(8)),
    *embedding(seg=SEGMENTS, w=W20, p=P10, g=G4, gamma=GAMMA, beta=BETA, mask=MASK, outputs=3,
               pos=each(None, R.integers(0, 10, (2, 5)).astype(np.int32))),
    *embedding(label="plain", seg=None, w=W20, p=P10, g=None, gamma=GAMMA, beta=BETA, outputs=2),
    *embedding(refused="input 'word_embedding' is required"),
    *by_4_bits(**BLOCK, zero_points=each(None, stored(5, 1)), dims=each(None, {"a": ["b", None, 32]})),
    *by_4_bits(label="partial", a=f(3, 40), b=stored(4, 3, 8), scales=const(f(4, 3)), zero_points=stored(4, 2),
               g_idx=None, bias=const(f(4)), K=40, N=4),
    *by_4_bits(label="unpacked", a=f(2, 32), b=stored(4, 2, 8), scales=const(f(4, 2)), zero=const(f(4, 2)), K=32, N=4),
    *by_4_bits(label="wide", a=f(2, 1024), b=stored(64, 32, 16), scales=const(f(64, 32)), K=1024, N=64, block_size=32,
               layers=["Convert-1", "Convert-1", "Subtract-1", "Multiply-1", "Reshape-1", "MatMul-1"],
               tolerance=Tolerance(1e-4, 1e-3)),
    *by_4_bits(label="bytes", a=f(2, 32), b=stored(4, 2, 16), scales=const(f(4, 2)), K=32, N=4, bits=8),
    *by_4_bits(label="two_bits", a=f(2, 32), b=stored(4, 2, 4), scales=const(f(4, 2)), K=32, N=4, bits=2),
    *by_4_bits(**BLOCK | {"b": BLOCK["b"].array}, refused="B must be known while converting"),
    *by_4_bits(**BLOCK, bits=3, refused="may have 2, 4 or 8 bits, but have 3"),
    *microsoft("MatMulFpQ4", tolerance=Tolerance(1e-4, 1e-4), also=each(*(
        columns(kind, *size) for kind in (0, 1, 2) for size in ((64, 3), (40, 5), (32, 1))))),
    *microsoft("MatMulFpQ4", a=f(2, 4, 64), b=stored(3 * 2 * 21 - 1), shape=const([64, 3]), blk_quant_type=1,
               refused="B must have 126 bytes for weights"),
    *microsoft("MatMulBnb4", tolerance=Tolerance(1e-4, 1e-4), also=each(*(
        numbers(kind, *size) for kind in (0, 1) for size in ((6, 32, 16), (5, 24, 16), (3, 15, 32), (4, 64, 64))))),
    *microsoft("MatMulBnb4", **numbers(1, 2, 16, 16) | {"quant_type": 2},
               refused=r"must be 0 \(FP4\) or 1 \(NF4\), but is 2"),
    *microsoft("MatMulBnb4", **numbers(1, 2, 16, 16) | {"N": 3}, refused="B must have 24 bytes, but has 16"),
]  # fmt: skip


# --- without kernel ---


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
ROWS += [
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
