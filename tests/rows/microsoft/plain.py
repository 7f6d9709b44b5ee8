"""onnxruntime's operators of a few layers, on words, masked pooling and alignment; against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import const, each, rows

R = np.random.default_rng(31)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


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
