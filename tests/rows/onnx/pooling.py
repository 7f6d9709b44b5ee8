"""Pooling with all of its attributes, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import node_model, run_onnxruntime
from tests.rows.row import REFERENCE, InOpset, Tolerance, const, each, known_or_not, rows

LP = Tolerance(1e-3, 1e-5)


def image(*dimensions: int) -> np.ndarray:
    return np.random.default_rng(sum(dimensions)).standard_normal((2, 3, *dimensions)).astype(np.float32)


def max_of_parts(x: np.ndarray, kernel_shape: list[int]) -> np.ndarray:
    """The maxima of windows at 0, 3 and 6, which need no padding in nine elements."""
    return x.reshape(2, 3, 3, 3, 3, 3)[:, :, :, : kernel_shape[0], :, : kernel_shape[1]].max(axis=(3, 5))


SAME = each("SAME_UPPER", "SAME_LOWER")
BYTES = np.random.default_rng(0).integers(0, 120, (1, 2, 6, 6))
ROWS = [
    *rows("AveragePool", 22, x=image(9, 8), also=each({"kernel_shape": [3, 3]},
          {"kernel_shape": [2, 3], "strides": [2, 2]}, {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]},
          {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
          {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
          {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [0, 1, 2, 1], "ceil_mode": 1, "count_include_pad": 1},
          {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1, "count_include_pad": 1},
          {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"},
          {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER", "count_include_pad": 1},
          {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1},
          {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "auto_pad": ""})),
    *rows("AveragePool", 22, label="dilated", x=image(9, 8),
          also=each({"kernel_shape": [2, 2], "dilations": [2, 3]}, {"kernel_shape": [2, 2], "dilations": [2, 2],
          "pads": [1, 0, 0, 1], "count_include_pad": 1}, {"kernel_shape": [3, 2], "dilations": [2, 2],
          "strides": [1, 2], "pads": [2, 0, 0, 1], "ceil_mode": 1, "count_include_pad": 1})),
    *(row for opset in (1, 7, 10, 11, 19, 22) for row in rows(
        "AveragePool", opset, label="ranks", expect=InOpset(max(7, opset)), also=each(
            *({"x": image(*dims), "kernel_shape": [2] * len(dims), "strides": [2] * len(dims), "pads": [1] * 2 * len(dims)}
              for dims in ((9,), (7, 6), (4, 5, 6)))))),
    *rows("AveragePool", 22, label="four_spatial_dimensions", x=image(3, 4, 3, 4), kernel_shape=[2] * 4,
          pads=[0, 1, 0, 1, 0, 0, 1, 0]),
    *rows(each("AveragePool", "LpPool"), 22, label="same", x=image(9, 7), auto_pad=SAME, strides=[3, 3],
          kernel_shape=each([1, 1], [2, 2])),
    *rows(each("AveragePool", "LpPool", "MaxPool"), 22, label="same_dilated", x=image(9, 7), auto_pad=SAME,
          kernel_shape=each([2, 2], [3, 3]), strides=each([1, 1], [2, 2]), dilations=[2, 2]),
    *rows("MaxPool", 12, label="gaps", x=image(9, 9), auto_pad=SAME, kernel_shape=each([1, 1], [2, 2]), strides=[3, 3],
          expect=max_of_parts),
    *rows("MaxPool", 1, x=image(8, 7), kernel_shape=[2, 3], pads=[1, 1, 0, 1]),
    *rows("MaxPool", 8, x=image(8, 7), kernel_shape=[2, 3], strides=[2, 1]),
    *rows("MaxPool", 12, x=image(8, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1]),
    *rows("MaxPool", 22, x=image(8, 7), kernel_shape=[2, 2], dilations=[3, 2], auto_pad="VALID"),
    *rows("MaxPool", 22, x=image(8, 7), kernel_shape=[3, 3], auto_pad="SAME_LOWER"),
    *rows("MaxPool", 12, label="indices", outputs=2, storage_order=each(0, 1),
          also=each(*({"x": image(*dims), "kernel_shape": [2] * len(dims), "strides": [2] * len(dims),
          "pads": [pad] * 2 * len(dims)} for dims in ((8,), (6, 5), (4, 3, 5)) for pad in (0, 1)))),
    *rows("MaxPool", 12, x=each(BYTES.astype(np.int8), BYTES.astype(np.uint8)), kernel_shape=[3, 3], pads=[1] * 4),
    *rows("LpPool", each(2, 11), x=image(7, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=each(1, 2, 3),
          tolerance=LP),
    *rows("LpPool", each(18, 22), label="dilated", x=image(7, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1],
          p=each(1, 2, 3), ceil_mode=1, dilations=[1, 2], tolerance=LP),
    *rows("GlobalLpPool", each(2, 22), x=image(5, 4), p=each(1, 2, 3), expect=InOpset(2), tolerance=LP),
    # One layer of the least revision: the younger one where a window may start behind the data, and of means where one
    # may reach beyond them, as the plug-in divides by the whole window with the older one.
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[2, 2], layers=["AvgPool-1"]),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, layers=["AvgPool-14"]),
    *rows("MaxPool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=each(0, 1), layers=["MaxPool-1"]),
    *rows("MaxPool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1, layers=["MaxPool-1"]),
    *rows("MaxPool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[4, 4], ceil_mode=1, layers=["MaxPool-14"]),
    *rows("AveragePool", 22, x=image(8, 8), refused="attribute 'kernel_shape' is required, but missing"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3], refused="needs an input of rank 3"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 0], refused="kernel_shape must be 2 positive numbers"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 3], strides=[1] * 3, refused="strides must be 2 positive"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 3], pads=[1, 1, -1, 1], refused="pads must be 4 numbers"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[3, 3], auto_pad="SAME", refused="auto_pad must be one of"),
    *rows("AveragePool", 22, x=image(8, 8), kernel_shape=[30, 3], refused="a window of 30 elements does not fit into 8"),
]  # fmt: skip

RNG = np.random.default_rng(8)


def pooled(shape: tuple[int, ...], kernel: list[int], strides: list[int], pads: list[int]) -> dict[str, Any]:
    """What MaxPool makes of random data, the maxima and their indices, and its attributes."""
    x = RNG.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    values, indices = run_onnxruntime(
        node_model("MaxPool", {"x": x}, outputs=2, attributes=attributes, opset=12), {"x": x}
    )
    return {"x": values, "i": np.array(indices.tolist()), **attributes}


def counts(image: Any, block: Any, strides: list[int], dilations: list[int], pads: list[int]) -> list[int]:
    """How many blocks there are along each dimension."""
    sides = zip(image, block, strides, dilations, pads, pads[len(image) :])
    return [(n + begin + end - d * (b - 1) - 1) // s + 1 for n, b, s, d, begin, end in sides]


def fold(kind: Any, image: list[int], block: list[int], *more: list[int]) -> dict[str, Any]:
    x = RNG.standard_normal((2, 3 * int(np.prod(block)), int(np.prod(counts(image, block, *more)))))
    attributes = dict(zip(("strides", "dilations", "pads"), more))
    return {"x": x.astype(np.float32), "image": kind(image), "block": kind(block), **attributes}


FOLDS = [
    ([5, 5], [1, 5], [1, 1], [1, 1], [0, 0, 0, 0]),
    ([6, 7], [2, 3], [2, 1], [1, 2], [1, 0, 2, 1]),
    ([8], [3], [2], [1], [1, 0]),
    ([4, 5, 6], [2, 1, 3], [1, 2, 1], [1, 1, 2], [1, 0, 0, 0, 1, 1]),
    ([4, 5, 4], [2, 2, 2], [1, 1, 2], [1, 1, 1], [0] * 6),
]
X = np.ones((1, 4, 6), np.float32)
FIVE = {"x": np.array([[[[5, 6], [7, 8]]]], np.float32), "i": np.array([[[[5, 7], [13, 15]]]])}
UNPOOLED = np.zeros((1, 1, 5, 5), np.float32)
UNPOOLED[0, 0, 1:5:2, 1:5:2] = FIVE["x"][0, 0]
ROWS += [
    *rows("MaxUnpool", each(9, 11), also=each(
        pooled((2, 3, 8, 6), [2, 2], [2, 2], [0, 0, 0, 0]),
        pooled((2, 3, 9, 7), [3, 3], [3, 2], [0, 0, 0, 0]),
        pooled((2, 3, 7, 8), [3, 2], [2, 2], [1, 0, 1, 0]),
        pooled((1, 2, 9), [3], [3], [0, 0]),
        pooled((1, 2, 4, 6, 4), [2, 2, 2], [2, 2, 2], [0] * 6),
    )),
    *rows("MaxUnpool", 22, x=np.array([[[3, 4]]], np.float32), i=known_or_not([[[0, 2]]]), kernel_shape=[2],
          expect=np.array([[[3, 0, 4]]], np.float32)),
    # The indices are those of the smaller whole, which zeros then surround behind.
    *rows("MaxUnpool", 11, **FIVE, s=known_or_not([1, 1, 5, 5]), kernel_shape=[2, 2], strides=[2, 2], expect=UNPOOLED),
    *rows("Col2Im", 18, also=each(*(fold(const, *case) for case in FOLDS)), expect=REFERENCE),
    *rows("Col2Im", 18, label="at_execution", also=each(*(fold(np.array, *case) for case in FOLDS)), expect=REFERENCE),
    *rows("Col2Im", 18, x=RNG.random((2, 12, 12), np.float32), image=const([4, 5]), block=const([2, 2])),
    *rows("Col2Im", 18, x=X, i=const([3, 4]), b=const([3, 1]), refused="no whole number of blocks"),
    *rows("Col2Im", 18, x=X, i=const([3, 3]), b=const([2, 2]), refused="have not the 4 blocks"),
    *rows("Col2Im", 18, x=X, i=const([3, 4]), b=const([2]), refused="does not fit an image of 2"),
    *rows("Col2Im", 18, x=X, i=const([3, 4]), b=const([2, 2]), strides=[0, 1], refused="strides must be 2 numbers"),
    *rows("Col2Im", 18, x=X, i=const([3, 4]), b=const([2, 2]), pads=[0, 1], refused="pads must be 4 numbers"),
    *rows("Col2Im", 18, x=np.ones((2, 3, 8), np.float32), i=const([1, 3, 4]), b=const([1, 2, 1]),
          refused=r"are no blocks of \[1, 2, 1\]"),
    *rows("Col2Im", 18, x=X > 0, i=const([3, 4]), b=const([2, 2]), refused="sums of elements of type boolean"),
    *rows("MaxUnpool", 11, x=X, i=np.zeros((1, 4, 6), int), kernel_shape=[2, 2], refused="shape must be 1 numbers"),
    *rows("MaxUnpool", 11, x=X[0], i=np.zeros((4, 6), np.int64), kernel_shape=[2], refused="at least 3 dimensions"),
]  # fmt: skip
