"""Operators of mmdeploy and of PyTorch's ATen."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset15 as ops

from tests.engines import run_openvino, written
from tests.rows.row import const, each, graphs, rows

RNG = np.random.default_rng(3)
CENTRES, SIZES, ANGLES = RNG.uniform(0, 8, (1, 12, 2)), RNG.uniform(2, 6, (1, 12, 2)), RNG.uniform(-1, 1, (1, 12, 1))
BOXES = np.concatenate([CENTRES, SIZES, ANGLES], 2).astype(np.float32)
X = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)
ROIS = np.array([[0, 4, 4, 5, 3, 0.4], [1, 3, 5, 4, 4, -1.2], [1, 6, 2, 8, 2, 2.0]], np.float32)


def by_openvino(layer: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    parameters = [ops.parameter(list(value.shape), np.float32) for value in inputs]
    return run_openvino(written([layer(*parameters).output(0)], parameters), dict(enumerate(inputs)))


def suppressed(boxes: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    limits = [ops.constant(np.array(value)) for value in (np.int64(100), np.float32(0.3), np.float32(0.2))]
    expected = by_openvino(lambda *data: ops.nms_rotated(*data, *limits, clockwise=False), boxes, scores)
    assert len(expected[0]) > 2
    return expected


def aligned(x: np.ndarray, rois: np.ndarray, sampling_ratio: int, clockwise: int) -> list[np.ndarray]:
    def layer(data: Any, regions: Any) -> Any:
        batches = ops.constant(np.array([0, 1, 1], np.int32))
        return ops.roi_align_rotated(data, regions, batches, 4, 2, sampling_ratio, 0.75, bool(clockwise))

    return by_openvino(layer, x, rois[:, 1:].copy())


ROWS = [
    *rows("NMSRotated", 1, domain="mmdeploy", boxes=BOXES, scores=RNG.uniform(0, 1, (1, 2, 12)).astype(np.float32),
          iou_threshold=0.3, score_threshold=0.2, expect=suppressed,
          dims=each(None, {"boxes": [1, None, 5], "scores": [1, None, None]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=X, rois=ROIS,
          output_height=4, output_width=2, sampling_ratio=each(0, 2), spatial_scale=0.75, clockwise=each(0, 1),
          expect=aligned, dims=each(None, {"x": [None] * 4, "rois": [None, 6]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=np.zeros((1, 1, 4, 4), np.float32), rois=ROIS[:1], aligned=0,
          refused="half pixels"),
]  # fmt: skip


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


ROWS += [
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
