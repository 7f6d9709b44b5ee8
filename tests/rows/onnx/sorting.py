"""TopK and Unique, against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.engines import schema_types
from tests.rows.row import const, each, known_or_not, rows

X = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]], np.float32)
EQUAL = np.array([[2, 1, 2, 1, 2, 1], [0, 0, 0, 0, 0, 0], [3, 3, 1, 1, 3, 1]], np.float32)
REPEATED = np.array([[2, 1, 2, 0], [2, 1, 2, 0], [1, 1, 1, 0]], np.float32)


RANDOM = np.random.default_rng(0)
MANY = RANDOM.integers(-20, 20, (2, 3, 300)).astype(np.float32)
"""Of few values, so that each stands at many places, and the last one that is taken at more than are taken."""


def best(x: np.ndarray, k: np.ndarray | int, axis: int = -1, largest: int = 1) -> list[np.ndarray]:
    """The k best in order; of equal ones the first."""
    keys = x.astype(np.float64)
    order = np.take(np.argsort(-keys if largest else keys, axis=axis, kind="stable"), range(int(np.max(k))), axis)
    return [np.take_along_axis(x, order, axis), order]


def slices(seed: int) -> tuple[np.ndarray, int]:
    """Many slices, few of them different, and their axis."""
    r = np.random.default_rng(seed)
    shape = r.integers(1, 6, r.integers(1, 4))
    axis = int(r.integers(-len(shape), len(shape)))
    few = np.repeat(r.integers(0, 2, shape), 2, axis)
    return np.take(few, r.permutation(few.shape[axis]), axis).astype(np.float32), axis


def unique(x: np.ndarray) -> list[np.ndarray]:
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return [values, first, inverse.reshape(-1), counts]


ROWS = [
    *rows("TopK", 1, x=X, k=each(1, 3), axis=each(-1, 0), outputs=2),
    *rows("TopK", 10, x=X, k=const(each([0], [1], [3])), axis=each(-1, 0), outputs=2),
    *rows("TopK", each(11, 24), x=X, k=const(each([0], [1], [3])), axis=each(-1, 0), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="k_at_execution", x=X, k=np.array([2]), outputs=2),
    *(row for dtype in schema_types("TopK", 24) for row in rows(
        "TopK", 24, label=f"{dtype}", x=X.astype(dtype), k=const([3]), largest=each(0, 1), outputs=2)),
    # The plug-in gets other layers for the best of many.
    *rows("TopK", 11, label="many", x=MANY, k=known_or_not([20], [299], [300]), largest=each(0, 1), outputs=2),
    *(row for dtype in "edilB" for row in rows(
        "TopK", 11, label=f"many_{dtype}", x=(MANY + 20).astype(dtype), k=const([30]), outputs=2)),
    *rows("TopK", 11, label="many_large", x=RANDOM.integers(0, 9, (1, 500)) + (1 << 30), k=const([20]), outputs=2),
    *rows("TopK", 11, label="many_special", x=each(
        np.zeros((2, 300), np.float32), np.arange(600, dtype=np.float32).reshape(2, 300),
        np.where(MANY[0] < 0, np.float32(0), np.float32(-0.0)), np.where(MANY[0] < 15, -np.inf, MANY[0]),
        np.where(MANY[0] < 0, np.inf, MANY[0])), k=const([50]), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="few_of_many", x=MANY, k=each(np.array([1]), np.array([5])),
          outputs=2),
    *rows("TopK", 11, label="equal_elements", x=EQUAL, k=const(each([1], [3], [6])), largest=each(0, 1), outputs=2),
    *rows("TopK", 11, label="large_integers", x=np.array([2**24, 2**24 + 1, -(2**31), 2**31 - 1], np.int64),
          k=const([4]), outputs=2),
    *rows("Unique", 11, x=REPEATED, sorted=each(0, 1), outputs=4),
    *rows("Unique", 11, x=REPEATED, sorted=each(0, 1), axis=each(0, 1, -1), outputs=4),
    *(row for seed in range(16) for x, axis in [slices(seed)] for row in rows(
        "Unique", 11, label=f"many_equal_slices_{seed}", x=x, axis=axis, sorted=each(0, 1), outputs=4)),
    *rows("Unique", 28, x=REPEATED, outputs=4),
    *rows("TopK", 11, x=X, k=const([7]), outputs=2, refused="k is 7, but axis"),
    *rows("TopK", 11, x=X, k=const([-1]), outputs=2, refused="k is -1, but axis"),
    *rows("TopK", 11, x=X, k=const([1, 2]), outputs=2, refused="must be a single number"),
    *rows("TopK", 11, x=X, k=const([1]), axis=2, outputs=2, refused="axis 2 lies outside"),
    *rows("Unique", 11, x=X, axis=2, refused="axis 2 lies outside"),
]  # fmt: skip
