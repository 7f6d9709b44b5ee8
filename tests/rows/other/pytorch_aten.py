"""PyTorch's own operators, against sums and means in NumPy."""

from __future__ import annotations

import numpy as np

from tests.rows.row import const, each, graphs, rows

RNG = np.random.default_rng(9)
TABLE = RNG.standard_normal((5, 2)).astype(np.float32)
INDICES, MATRIX = np.array([0, 2, 3, 4, 1]), np.array([[0, 2], [1, 2], [3, 4]])
WEIGHTS, EACH = RNG.uniform(0.5, 2, 5).astype(np.float32), RNG.uniform(0.5, 2, (3, 2)).astype(np.float32)
IMAGES = [RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 7), (3, 5, 7))]
BAG = {"operator": "embedding_bag", "scale_grad_by_freq": 0, "sparse": 1}
FOUR = """g (float[5,2] table, int64[5] indices, int64[3] offsets) => (float[a,b] y) {
    y, a, b, c = ATen <operator = "embedding_bag", mode = 0, sparse = 1> (table, indices, offsets)
}"""


def bags(
    table: np.ndarray, indices: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None, mode: int = 0,
    include_last_offset: int = 0,
) -> np.ndarray:  # fmt: skip
    found = table[indices] if weights is None else table[indices] * weights[:, None]
    parts = np.split(found, offsets[1:-1] if include_last_offset else offsets[1:])
    return np.stack([part.sum(0) / (max(len(part), 1) if mode else 1) for part in parts]).astype(np.float32)


def bags_of_rows(table: np.ndarray, indices: np.ndarray, mode: int, weights: np.ndarray | None = None) -> np.ndarray:
    found = table[indices] if weights is None else table[indices] * weights[..., None]
    return (found.mean(1) if mode else found.sum(1)).astype(np.float32)


def pooled(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    n, m, (height, width) = size[0], size[-1], x.shape[-2:]
    out = np.empty((*x.shape[:-2], n, m), np.float32)
    for i, j in np.ndindex(n, m):
        part = x[..., i * height // n : -(-(i + 1) * height // n), j * width // m : -(-(j + 1) * width // m)]
        out[..., i, j] = part.mean((-1, -2))
    return out


ROWS = [
    *(row for kind in (np.int32, np.int64) for label, offsets in (
        ("list", [0, 2, 4]), ("list", [0, 0, 3]), ("empty_at_the_end", [0, 5]))
      for row in rows("ATen", 12, label=label, table=TABLE, indices=INDICES.astype(kind), **BAG, expect=bags, also=each(
          *({"offsets": np.array(offsets, kind), **more} for more in ({}, {"weights": WEIGHTS}, {"mode": 1})),
          {"offsets": np.array([*offsets, 5], kind), "include_last_offset": 1}))),
    *graphs(FOUR, label="four_outputs", opset=12, table=TABLE, indices=INDICES, offsets=np.arange(3), expect=bags),
    *rows("ATen", 12, label="matrix", table=TABLE, indices=MATRIX, mode=each(0, 1), **BAG, expect=bags_of_rows),
    *rows("ATen", 12, label="matrix", table=TABLE, indices=MATRIX, offsets=None, weights=EACH, mode=0, **BAG,
          expect=bags_of_rows),
    *rows("ATen", 12, table=TABLE, indices=INDICES, operator="unique", refused="but not 'unique'"),
    *rows("ATen", 12, table=TABLE, indices=INDICES, offsets=INDICES[:2], mode=2, **BAG, refused="mode must be 0"),
    *rows("ATen", 12, table=TABLE, indices=INDICES, offsets=INDICES[:2], padding_idx=1, **BAG, refused="padding_idx"),
    *rows("adaptive_avg_pool2d", 1, domain="org.pytorch.aten", x=each(*IMAGES), size=const(each([2, 3], [3])),
          expect=pooled),
]  # fmt: skip
