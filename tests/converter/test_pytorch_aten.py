"""PyTorch's own operators, against sums and means in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import ENGINES, check_node, node_model
from tests.random_data import generator

RNG = generator(9)
TABLE = RNG.standard_normal((5, 2)).astype(np.float32)
INDICES = np.array([0, 2, 3, 4, 1], np.int64)
MATRIX = np.array([[0, 2], [1, 2], [3, 4]], np.int64)
WEIGHTS = RNG.uniform(0.5, 2, (5,)).astype(np.float32)


def bags(offsets: list[int], weights: np.ndarray | None = None, mean: bool = False) -> np.ndarray:
    rows = TABLE[INDICES] if weights is None else TABLE[INDICES] * weights[:, None]
    parts = np.split(rows, offsets[1:])
    return np.stack([part.sum(0) / (max(len(part), 1) if mean else 1) for part in parts]).astype(np.float32)


def model(feeds: dict[str, Any], order: list[str] | None = None, outputs: int = 1, **attributes: Any) -> Any:
    given = {"operator": "embedding_bag", "mode": 0, "scale_grad_by_freq": 0, "sparse": 1, **attributes}
    made = node_model("ATen", feeds, opset=12, attributes=given, order=order, outputs=outputs)
    del made.graph.output[1:]
    return made


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("offsets", [[0, 2, 4], [0, 0, 3], [0, 5]], ids=str)
@pytest.mark.parametrize("form", ["sum", "weights", "mean", "last"])
def test_bags_of_a_list(form: str, offsets: list[int], kind: Any) -> None:
    given = [*offsets, len(INDICES)] if form == "last" else offsets
    feeds = {"table": TABLE, "indices": INDICES.astype(kind), "offsets": np.array(given, kind)}
    if form == "weights":
        feeds["weights"] = WEIGHTS
    attributes = {"mean": {"mode": 1}, "last": {"include_last_offset": 1}}.get(form, {})
    expected = bags(offsets, WEIGHTS if form == "weights" else None, form == "mean")
    # The CPU plug-in refuses a bag that begins behind the last index.
    engines = ("numpy",) if offsets[-1] == len(INDICES) else ENGINES
    check_node(model(feeds, outputs=4, **attributes), feeds, [expected], engines=engines)


@pytest.mark.parametrize("form", ["sum", "weights", "mean"])
def test_bags_of_a_matrix(form: str) -> None:
    feeds: dict[str, Any] = {"table": TABLE, "indices": MATRIX}
    order = ["table", "indices", "", ""]
    rows = TABLE[MATRIX]
    if form == "weights":
        feeds["weights"] = RNG.uniform(0.5, 2, MATRIX.shape).astype(np.float32)
        order[3] = "weights"
        rows = rows * feeds["weights"][..., None]
    expected = rows.mean(1) if form == "mean" else rows.sum(1)
    check_node(model(feeds, order, mode=int(form == "mean")), feeds, [expected.astype(np.float32)])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"operator": "unique"}, "but not 'unique'"),
        ({"mode": 2}, "mode must be 0"),
        ({"padding_idx": 1}, "padding_idx"),
    ],
)
def test_refused(attributes: dict[str, Any], message: str) -> None:
    feeds = {"table": TABLE, "indices": INDICES, "offsets": np.array([0, 2])}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model(feeds, **attributes))


def pooled(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    height, width = x.shape[-2:]
    out = np.empty((*x.shape[:-2], rows, columns), np.float32)
    for i in range(rows):
        for j in range(columns):
            part = x[..., i * height // rows : -(-(i + 1) * height // rows), :]
            out[..., i, j] = part[..., j * width // columns : -(-(j + 1) * width // columns)].mean((-1, -2))
    return out


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 5, 7)], ids=str)
@pytest.mark.parametrize("size", [[2, 3], [3]], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_adaptive_average_pool(shape: tuple[int, ...], size: list[int], dynamic: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    made = node_model(
        "adaptive_avg_pool2d",
        {"x": x},
        constants={"size": np.array(size, np.int64)},
        opset=1,
        domain="org.pytorch.aten",
        shapes={"x": [None] * len(shape)} if dynamic else None,
    )
    check_node(made, {"x": x}, [pooled(x, size[0], size[-1])])
