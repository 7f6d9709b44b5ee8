"""Operators of onnxruntime that are elementwise or sums of such, its gates and normalizations by groups."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.microsoft.quantized import grid, s, u
from tests.rows.row import const, each, normal_by, rows

R = np.random.default_rng(31)
f = normal_by(R)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def tables(segments: bool) -> dict[str, Any]:
    """Tables of an embedding in 8 bits, the scales and zero points of all of them behind."""
    shapes = {"word": (9, 8), "place": (6, 8), "segment": (2, 8), "gamma": (8,), "beta": (8,)}
    present = [name for name in shapes if segments or name != "segment"]
    codes = {name: const(R.integers(0, 256, shape), np.uint8) for name, shape in shapes.items()}
    scales = {f"{name}_scale": const(R.uniform(0.01, 0.03), np.float32) for name in shapes}
    zeros = {f"{name}_zero": const(R.integers(90, 160), np.uint8) for name in shapes}
    values = {**codes, "mask": None, **scales, **zeros}
    return {name: value if name.split("_")[0] in present else None for name, value in values.items()}


def words(count: int, length: int, window: int) -> dict[str, Any]:
    ids = R.integers(1, 9, (count, length)).astype(np.int32)
    for row in ids:
        row[R.integers(1, length + 1) :] = 0
    return {"ids": ids, "w": const(f(3, 1, window, 5)), "b": const(f(3)), "c": const(f(9, 5))}


ROIS = [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.1, 1.2, 0.4], [0.5, 0.5, 0.5, 0.5], [0.9, 0.8, 0.1, 0.2]]
IDS, KINDS = R.integers(0, 9, (2, 4)).astype(np.int32), R.integers(0, 2, (2, 4)).astype(np.int32)
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
embedding = functools.partial(microsoft, "QEmbedLayerNormalization", ids=IDS, outputs=2)
UNFOLDED = each(*({"dim": dim, "size": size, "step": step}
                  for dim, size, step in ((-1, 2, 1), (0, 3, 2), (1, 2, 3), (-2, 4, 1), (2, 6, 5))))  # fmt: skip
POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_shape": [3]}),
    ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 2]}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "auto_pad": "VALID"}),
    ((1, 2, 5, 4, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 1]}),
]
ROWS = [
    *(row for dtype in (np.float32, np.int64, np.float64)
      for row in microsoft("UnfoldTensor", x=(R.standard_normal((5, 4, 6)) * 9).astype(dtype), also=UNFOLDED)),
    *microsoft("UnfoldTensor", x=f(3), also=each({"size": 0}, {"size": 1, "step": 0}),
               refused="size and step must be pos"),
    *microsoft("SampleOp", x=np.arange(6, dtype=np.float32).reshape(2, 3)),
    *microsoft("Unique", x=np.array([2, 1, 1, 3, 4, 3], np.float32), outputs=3),
    *microsoft("GridSample", x=f(2, 3, 4, 5), grid=f(2, 3, 2, 2), mode=each("bilinear", "nearest", "bicubic"),
               padding_mode=each("zeros", "border", "reflection"), align_corners=each(0, 1)),
    *microsoft("CropAndResize", x=f(2, 3, 6, 7), rois=np.array(ROIS, np.float32),
               images=np.array([0, 1, 1, 0, 1], np.int32),
               size=each(*(np.array(size, np.int32) for size in ((3, 4), (1, 1), (2, 5), (6, 1)))),
               mode=each("bilinear", "nearest"), extrapolation_value=0.5),
    *microsoft("MatMulInteger16", **{name: R.integers(-3000, 3000, (2, *size)).astype(np.int16)
                                     for name, size in (("a", (3, 4)), ("b", (4, 5)))}),
    *microsoft("ConvTransposeWithDynamicPads", x=f(1, 2, 5, 5), w=const(f(2, 3, 3, 3)), pads=const([1, 1, 1, 0]),
               b=const(f(3)), strides=[2, 2]),
    *embedding(kinds=None, **tables(False) | {"mask": each(None, MASK)}),
    *embedding(kinds=KINDS, **tables(True) | {"mask": each(None, MASK)}),
    *microsoft(each("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), x=np.ones(3, np.int32),
               refused="search with openvino-genai"),
    *(row for count, length, window in ((4, 6, 2), (7, 3, 3), (1, 5, 1), (5, 8, 4)) for row in microsoft(
        "WordConvEmbedding", **words(count, length, window), dims=each(None, {"ids": ["words", None]}),
        also=each({}, {"embedding_size": 3, "conv_window_size": window, "char_embedding_size": 5}))),
    *microsoft("WordConvEmbedding", **words(4, 6, 2), conv_window_size=9,
               refused="conv_window_size is 9, but the weights are"),
    *(row for shape, options in POOLS for row in microsoft(
        "MaxpoolWithMask", x=f(*shape), **options,
        mask=each(*((R.random((1, 1, *shape[2:])) >= share).astype(np.int32) for share in (0.0, 0.3, 0.8))))),
    *microsoft("MaxpoolWithMask", x=f(1, 2, 6), mask=np.ones((1, 2, 6), np.int32), kernel_shape=[2],
               refused=r"the mask must be \[1, 1, ...\], but is \[1,2,6\]"),
    *(row for shape in ((1, 1), (1, 4), (5, 1), (3, 4), (7, 5), (1, 6, 9)) for row in microsoft(
        "DynamicTimeWarping", x=each(f(*shape), R.integers(0, 2, shape).astype(np.float32)))),
]  # fmt: skip

BATCH, STEPS, STREAMS, WIDTH = 2, 3, 4, 6
LEAD = (BATCH, STEPS)
TYPES = (np.float32, np.float16)


def streams(is_flat: bool, dtype: Any, *lead: int) -> dict[str, Any]:
    """Streams that are an axis of their own, or lie in one with the width."""
    shape = (*lead, STREAMS * WIDTH) if is_flat else (*lead, STREAMS, WIDTH)
    return {"x": f(*shape, dtype=dtype), "num_branches": STREAMS if is_flat else 0}


def engram(dtype: Any) -> dict[str, np.ndarray]:
    shapes = {"key": (*LEAD, STREAMS, WIDTH), "query": (*LEAD, STREAMS, WIDTH), "value": (*LEAD, WIDTH)}
    shapes |= dict.fromkeys(("key_scale", "query_scale"), (STREAMS, WIDTH))
    return {name: f(*shape, dtype=dtype) for name, shape in shapes.items()}


GATES = [(STREAMS,), (STREAMS, 1), (STREAMS, WIDTH)]
ROWS += [
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


def normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, activation: int, channels_last: int) -> np.ndarray:
    """``x`` in float64 with the channels in front; the groups have mean 0 and variance 1."""
    front = np.moveaxis(x, -1, 1) if channels_last else x
    parts = front.astype(np.float64).reshape(len(x), 4, -1)
    plain = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    y = plain.reshape(front.shape) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    y = y / (1 + np.exp(-y)) if activation else y
    return (np.moveaxis(y, 1, -1) if channels_last else y).astype(np.float32)


def of_sum(x: Any, gamma: Any, beta: Any, skip: Any, bias: Any, activation: int, channels_last: int) -> list[Any]:
    total = x + (skip.reshape((2, 1, 1, 8) if channels_last else (2, 8, 1, 1)) if skip.ndim == 2 else skip)
    if bias is not None:
        total = total + (bias if channels_last else bias.reshape(8, 1, 1))
    return [normalized(total, gamma, beta, activation, channels_last), total]


def mean(x: Any, sx: Any, zx: Any, sy: Any, zy: Any, keepdims: int) -> np.ndarray:
    wide = ((x.astype(np.float64) - (0 if zx is None else zx)) * sx).mean((0, 2), keepdims=bool(keepdims))
    info = np.iinfo(x.dtype)
    return np.clip(np.rint(wide / sy) + (0 if zy is None else zy), info.min, info.max).astype(x.dtype)


def zeros(*values: Any) -> dict[str, Any]:
    first, second = values or (None, None)
    return {"sx": np.array(0.0131, np.float32), "zx": first, "sy": np.array(0.0097, np.float32), "zy": second}


NORM = {"gamma": f(8), "beta": f(8), "groups": 4}
ROWS += [
    *(row for last, x in enumerate((f(2, 8, 3, 5), f(2, 3, 5, 8))) for row in (
        *microsoft("GroupNorm", x=x, **NORM, activation=each(0, 1), channels_last=last, expect=normalized,
                   dims=each(None, {"x": ["n", None, None, 8] if last else ["n", 8, None, None]})),
        *microsoft("SkipGroupNorm", x=x, **NORM, activation=1, channels_last=last, outputs=2, expect=of_sum,
                   skip=each(f(*x.shape), f(2, 8), f(2, 1, 1, 8) if last else f(2, 8, 1, 1)), bias=each(None, f(8))))),
    *microsoft("GroupNorm", x=f(2, 3, 5, 8), **NORM, activation=2, refused="activation must be 0 or 1"),
    *microsoft("GatherND", x=f(2, 3, 4), indices=np.array([[0, -1], [1, 0]])),
    *(row for kind in (np.uint8, np.int8) for zero in ((),
    (np.array(101, kind), np.array(90, kind))) for row in microsoft(
        "QLinearReduceMean", x=R.integers(0, 256, (2, 3, 4)).astype(np.uint8).view(kind), **zeros(*zero), axes=[-1, 0],
        keepdims=each(0, 1), expect=mean)),
]  # fmt: skip

A, B = {"a": u(3, 5), **grid("a", 0.013, 120)}, {"b": s(5, 4), **grid("b", 0.021, 3, np.int8)}
COLUMNS = {"b": s(5, 4), "sb": f(4) ** 2 / 50 + np.float32(0.01), "zb": s(4) // 16}
C, Y = {"c": R.integers(-5000, 5000, 4).astype(np.int32)}, grid("y", 0.11, 131)
NHWC, FILTERS = u(1, 6, 6, 4), {"w": const(s(8, 4, 3, 3)), **grid("w", 0.009, 0, np.int8), **grid("y", 0.9, 99)}
GRID, BIAS = grid("x", 0.02, 117), R.integers(-900, 900, 8).astype(np.int32)
convolution = functools.partial(microsoft, "QLinearConv")
pool = functools.partial(microsoft, "NhwcMaxPool")
ROWS += [
    *microsoft("QGemm", **A, **B),
    *microsoft("QGemm", **A, **B, **C, alpha=0.7),
    *microsoft("QGemm", **A, **B, **C, **Y, dims=each(None, {"a": ["m", 5]})),
    *microsoft("QGemm", **A, **B, c=None, **Y, alpha=1.3),
    *microsoft("QGemm", **A, **COLUMNS, **C, **Y),
    *microsoft("QGemm", **A | {"a": u(5, 3)}, **COLUMNS | {"b": s(4, 5)}, transA=1, transB=1),
    *microsoft("QGemm", a=s(3, 5), **grid("a", 0.01, -9, np.int8), **B, **C),
    *microsoft("QGemm", **A, **B, c=None, sy=Y["sy"], refused=r"'node' \(com.microsoft.QGemm.*must be given together"),
    *microsoft("TransposeMatMul", a=f(2, 4, 3), b=f(5, 4), transA=1, transB=1, alpha=0.5),
    *microsoft("TransposeMatMul", a=f(3, 4), b=f(4, 5)),
    *convolution(x=u(1, 4, 6, 6), **GRID, **FILTERS, pads=[1, 1, 1, 1]),
    *convolution(label="filters_as_input", x=u(1, 4, 6, 6), **GRID, **FILTERS | {"w": s(8, 4, 3, 3)}),
    *convolution(x=NHWC, **GRID, **FILTERS, channels_last=1, strides=[2, 1]),
    *convolution(x=NHWC, **GRID, **FILTERS, bias=BIAS, channels_last=1),
    *pool(x=NHWC, kernel_shape=[2, 3]),
    *pool(x=NHWC, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    *pool(x=s(2, 5, 5, 3), kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
    *rows("LayerNormalization", each(11, 14, 16), x=f(2, 3, 8), s=const(f(8)), b=const(f(8))),
]  # fmt: skip
