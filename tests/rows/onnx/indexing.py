"""ONNX's operators of indices: lookups, updates, orders; against onnxruntime and NumPy."""

from __future__ import annotations

import numpy as np

from tests.engines import schema_types
from tests.rows.layer import ints
from tests.rows.row import const, each, known_or_not, rows

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def small(*shape: int) -> np.ndarray:
    """Small numbers."""
    return (np.arange(np.prod(shape)) % 5).reshape(shape).astype(np.float32)


def one_hot(i: np.ndarray, v: np.ndarray, axis: int) -> np.ndarray:
    """Of depth 4, with negative indices."""
    marks = np.arange(4).reshape([4 if dimension == axis % 3 else 1 for dimension in range(3)])
    wide = i.astype(np.int64)
    return np.where(np.expand_dims(np.where(wide < 0, wide + 4, wide), axis) == marks, v[1], v[0])


def one_hot_9(i: np.ndarray, v: np.ndarray, axis: int) -> np.ndarray:
    return one_hot(np.where(i.astype(np.int64) < 0, 4, i), v, axis)


def longer(size: int, *kept: int) -> np.ndarray:
    """A condition of three elements more than the data, two of which are true."""
    return np.isin(np.arange(size + 3), [*kept, size, size + 2])


WHOLE, FIRST = [False, True, True, False, False, True], [True, False]
OPEN = each(None, {"x": ["a", None, "c"]})
CACHE = {"cache": np.zeros((2, 2, 5, 3), np.float32), "update": 1 + np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)}
ROWS = [
    *rows("Gather", each(1, 11, 13), x=X, i=known_or_not(1, [1, -2, 0]), axis=each(0, 1, -1)),
    *rows("Gather", each(1, 11, 13), x=X, i=known_or_not([[0], [1]], dtype=np.int32), axis=each(0, 1, -1)),
    *rows("GatherElements", each(11, 13), x=X, also=each({"axis": 0,
          "i": np.array([[[1, 0, -1, -2]] * 3])}, {"axis": 1, "i": np.array([[[2, 0, 1, -1]] * 2,
          [[0, 0, -3, 1]] * 2])}, {"axis": -1, "i": np.array([[[3], [-1], [0]], [[1], [2], [-4]]])},
          {"axis": 2, "i": np.array([[[3, 1], [-1, 2]]], np.int32)})),
    *rows("GatherND", 11, x=X, dims=OPEN, i=each(np.array([[1, 2, 3], [0, -1, 0]]), np.array([[[1]], [[-2]]]))),
    *rows("GatherND", 12, x=X, dims=OPEN, i=np.array([[1, 2]])),
    *rows("GatherND", 12, x=X, dims=OPEN, batch_dims=1,
          i=each(np.array([[2], [-1]]), np.array([[[2, 0], [1, 1]], [[0, 3], [-1, -1]]]))),
    *rows("GatherND", 13, x=X, dims=OPEN, batch_dims=2, i=np.array([[[0], [1], [-1]], [[3], [2], [1]]])),
    *(row for opset, reductions in ((16, each("add", "mul")), (18, each("max", "min")))
      for dtype in (np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8)
      for op_type, indices in (("ScatterElements", [0, 0, -1, 2]), ("ScatterND", [[0], [0], [-1], [2]]))
      for row in rows(op_type, opset, x=(small(5) + 2).astype(dtype), i=np.array(indices),
                      u=np.array([3, 2, 1, 4], dtype), reduction=reductions)),
    *rows("ScatterElements", 18, label="large", x=ints(2**24 + 1, 5), i=ints(0, 0), u=ints(2**24 + 3, 2**24 + 5),
          reduction=each("add", "max", "min")),
    *rows("ScatterND", each(11, 13, 16, 18), x=X, also=each(*(
        {"i": i, "u": -1 - small(*X[tuple(np.moveaxis(i, -1, 0))].shape)} for i in (
            np.array([[1], [-2]]), np.array([[0, 1], [1, -1]]), np.array([[[0, 1, 2]], [[1, 2, 3]]]))))),
    *(row for opset, expect in ((9, one_hot_9), (each(11, 28), one_hot))
      for kind in (np.int64, np.int32, np.float32, np.uint8)
      for first in [[0, 3, 1] if kind is np.uint8 else [-1, 0, -7]]
      for row in rows("OneHot", opset, i=np.array([first, [2, 9, 4]]).astype(kind), d=each(const(4), np.array([4])),
                      axis=each(-1, 0, 1), expect=expect,
                      v=const(each(np.array([2, 7], np.float32), ints(0, 1), np.array([False, True]))))),
    *rows("NonZero", each(9, 13), x=each(X % 3, X[0, 0], X * 0, np.array([[0, -0.0, np.nan]], np.float32))),
    *rows("NonZero", 13, label="scalar", x=each(np.array(0, np.float32), np.array(5, np.float32)),
          expect=lambda x: np.zeros((0, int(x != 0)), np.int64)),
    *rows("Compress", each(9, 11, 28), x=X, c=known_or_not(WHOLE)),
    *rows("Compress", each(9, 11, 28), x=X, c=known_or_not(FIRST), axis=each(0, 1, -1)),
    *rows("Compress", 11, label="longer", x=X, also=each(
        {"c": longer(24, 1, 4)}, {"c": longer(2, 0), "axis": 0}, {"c": longer(3, 1, 2), "axis": 1})),
    # A condition of the data's shape is not valid by the specification; onnxruntime takes it for a list.
    *rows("Compress", 11, label="shape_of_data", x=X, c=np.median(X) < X, also=each({}, {"axis": 1})),
    *rows("Trilu", 14, x=X, upper=each(0, 1)),
    *rows("Trilu", 14, x=X, k=known_or_not(0, 1, -2, 10, -10), upper=each(0, 1)),
    *(row for mode, wrapped in (("linear", ints(0, 2)), ("circular", ints(0, 4)))
      for dims in (None, {"cache": ["b", 2, "m", 3], "update": ["b", 2, "s", 3]}) for axis in (-2, 2)
      for starts in ({}, {"starts": ints(1, 3)}, {"starts": wrapped})
      for row in rows("TensorScatter", 24, **CACHE, **starts, mode=mode, axis=axis, dims=dims)),
    *rows("Gather", 13, x=X, i=const([2]), refused="lie outside dimension 0"),
    *rows("Gather", 13, x=X, i=const([0]), axis=3, refused="axis 3 lies outside"),
    *rows("GatherElements", 13, x=X, i=const([0]), refused="must have one rank"),
    *rows("GatherND", 13, x=X, i=const([[0, 0, 0, 0]]), refused="indices name 4 dimensions"),
    *rows("ScatterElements", 16, x=X, i=const(X, np.int64), u=const(X), reduction="mean",
          refused="reduction must be none, add, mul"),
    *rows("ScatterND", 13, x=X, i=const([[0]]), u=const(X), refused="updates must have the shape"),
    *rows("TensorScatter", 24, x=X, u=const(X), axis=0, refused="axis must not be 0"),
]  # fmt: skip

# --- sorting ---

NUMBERS = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]], np.float32)
EQUAL = np.array([[2, 1, 2, 1, 2, 1], [0, 0, 0, 0, 0, 0], [3, 3, 1, 1, 3, 1]], np.float32)
REPEATED = np.array([[2, 1, 2, 0], [2, 1, 2, 0], [1, 1, 1, 0]], np.float32)

RANDOM = np.random.default_rng(0)
MANY = RANDOM.integers(-20, 20, (2, 3, 300)).astype(np.float32)
"""Of few values, so that each stands at many places, and the last one that is taken at more than are taken."""


def slices(seed: int) -> tuple[np.ndarray, int]:
    """Many slices, few of them different, and their axis."""
    r = np.random.default_rng(seed)
    shape = r.integers(1, 6, r.integers(1, 4))
    axis = int(r.integers(-len(shape), len(shape)))
    few = np.repeat(r.integers(0, 2, shape), 2, axis)
    return np.take(few, r.permutation(few.shape[axis]), axis).astype(np.float32), axis


ROWS += [
    *rows("TopK", 1, x=NUMBERS, k=each(1, 3), axis=each(-1, 0), outputs=2),
    *rows("TopK", 10, x=NUMBERS, k=const(each([0], [1], [3])), axis=each(-1, 0), outputs=2),
    *rows("TopK", each(11, 24), x=NUMBERS, k=const(each([0], [1], [3])), axis=each(-1, 0), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="k_at_execution", x=NUMBERS, k=np.array([2]), outputs=2),
    *(row for dtype in schema_types("TopK", 24) for row in rows(
        "TopK", 24, label=f"{dtype}", x=NUMBERS.astype(dtype), k=const([3]), largest=each(0, 1), outputs=2)),
    # The plug-in gets other layers for the best of many.
    *rows("TopK", 11, label="many", x=MANY, k=known_or_not([20], [299], [300]), largest=each(0, 1), outputs=2),
    *(row for dtype in "edilB" for row in rows(
        "TopK", 11, label=f"many_{dtype}", x=(MANY + 20).astype(dtype), k=const([30]), outputs=2)),
    *rows("TopK", 11, label="many_large", x=RANDOM.integers(0, 9, (1, 500)) + (1 << 30), k=const([20]), outputs=2),
    *rows("TopK", 11, label="many_special", x=each(
        np.zeros((2, 300), np.float32), np.arange(600, dtype=np.float32).reshape(2, 300),
        np.where(MANY[0] < 0, np.float32(0), np.float32(-0.0)), np.where(MANY[0] < 15, -np.inf, MANY[0]),
        np.where(MANY[0] < 0, np.inf, MANY[0])), k=const([50]), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="few_of_many", x=MANY, k=each(np.array([1]), np.array([5])), outputs=2),
    *rows("TopK", 11, label="equal_elements", x=EQUAL, k=const(each([1], [3], [6])), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="large_integers", x=np.array([2**24, 2**24 + 1, -(2**31), 2**31 - 1], np.int64),
          k=const([4]), outputs=2),
    *rows("Unique", 11, x=REPEATED, sorted=each(0, 1), outputs=4),
    *rows("Unique", 11, x=REPEATED, sorted=each(0, 1), axis=each(0, 1, -1), outputs=4),
    *(row for seed in range(16) for x, axis in [slices(seed)] for row in rows(
        "Unique", 11, label=f"many_equal_slices_{seed}", x=x, axis=axis, sorted=each(0, 1), outputs=4)),
    *rows("Unique", 28, x=REPEATED, outputs=4),
    *rows("TopK", 11, x=NUMBERS, k=const([7]), outputs=2, refused="k is 7, but axis"),
    *rows("TopK", 11, x=NUMBERS, k=const([-1]), outputs=2, refused="k is -1, but axis"),
    *rows("TopK", 11, x=NUMBERS, k=const([1, 2]), outputs=2, refused="must be a single number"),
    *rows("TopK", 11, x=NUMBERS, k=const([1]), axis=2, outputs=2, refused="axis 2 lies outside"),
    *rows("Unique", 11, x=NUMBERS, axis=2, refused="axis 2 lies outside"),
]  # fmt: skip
