"""ONNX's MaxUnpool and Col2Im, against onnxruntime and NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.engines import node_model, run_onnxruntime
from tests.rows.row import const, each, known_or_not, rows

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


def folded(
    x: np.ndarray, image: Any, block: Any, strides: list[int], dilations: list[int], pads: list[int]
) -> np.ndarray:
    """Block by block, element by element."""
    channels, blocks = x.shape[1] // int(np.prod(block)), counts(image, block, strides, dilations, pads)
    taps = x.reshape(len(x), channels, *block, *blocks)
    out = np.zeros((len(x), channels, *image), x.dtype)
    for tap, place in itertools.product(np.ndindex(*block), np.ndindex(*blocks)):
        at = [p * s + t * d - b for p, s, t, d, b in zip(place, strides, tap, dilations, pads)]
        if all(0 <= a < n for a, n in zip(at, image)):
            out[(slice(None), slice(None), *at)] += taps[(slice(None), slice(None), *tap, *place)]
    return out


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
ROWS = [
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
    *rows("Col2Im", 18, also=each(*(fold(const, *case) for case in FOLDS)), expect=folded),
    *rows("Col2Im", 18, label="at_execution", also=each(*(fold(np.array, *case) for case in FOLDS)), expect=folded),
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
