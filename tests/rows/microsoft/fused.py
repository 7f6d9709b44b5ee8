"""onnxruntime's fused operators and products with packed weights, against onnxruntime and by hand."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import Tolerance, const, each, rows

R = np.random.default_rng(7)
HALF = np.float16


def f(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return R.standard_normal(shape).astype(kind)


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
    *microsoft("Gelu", X=each(f(3, 40) * 3, f(3, 4, kind=HALF))),
    *microsoft("BiasGelu", a=f(3, 4, 8), b=f(8)),
    *microsoft("FastGelu", X=f(3, 8)),
    *microsoft("FastGelu", X=f(3, 4, 8), b=f(8), dims={"X": [None, "s", 8]}),
    *microsoft("FastGelu", X=f(3, 4, kind=HALF), b=f(4, kind=HALF)),
    *microsoft("QuickGelu", X=each(f(3, 8) * 3, f(3, 4, kind=HALF)), also=each({}, {"alpha": 1.0})),
    *rows("SimplifiedLayerNormalization", 17, X=f(2, 3, 8), scale=f(8), epsilon=1e-3, outputs=2),
    *rows("SimplifiedLayerNormalization", 14, X=f(2, 3, 8), scale=f(3, 8), axis=1),
    *rows("SimplifiedLayerNormalization", 17, X=f(3, 4, kind=HALF), scale=f(4, kind=HALF)),
    *norm(skip=f(2, 3, 8), gamma=f(8), beta=f(8), epsilon=1e-5),
    *norm(skip=f(3, 8), gamma=f(8), beta=None, bias=f(8), dims=each(None, {"x": ["b", "s", 8], "skip": [None, 8]})),
    *norm(x=f(3, 4, kind=HALF), skip=f(3, 4, kind=HALF), gamma=f(4, kind=HALF)),
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
