"""Attention whose heads of keys and values serve several heads of the query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
from ir_runtime.graph.model import Output
from tests.to_onnx.graphs import check, constant, layer, model, op, operators, parameter

HEADS, COUNT, WIDTH = 2, 3, 8
RNG = np.random.default_rng(0)
FEEDS = {
    "q": RNG.normal(size=(2, HEADS * COUNT, 4, WIDTH)).astype(np.float32),
    "k": RNG.normal(size=(2, HEADS, 5, WIDTH)).astype(np.float32),
    "v": RNG.normal(size=(2, HEADS, 5, WIDTH)).astype(np.float32),
}


def repeated(x: Output, name: str, *, axis: int = 2, counts: Any = None, sizes: Any = None) -> Output:
    lifted = layer(op("Unsqueeze", 1), x, constant([axis], "i64"), name=f"{name}/unsqueeze")
    counts = [1, 1, COUNT, 1, 1] if counts is None else counts
    wide = layer(op("Broadcast", 3, mode="bidirectional"), lifted, constant(counts, "i64"), name=f"{name}/broadcast")
    sizes = [0, HEADS * COUNT, -1, WIDTH] if sizes is None else sizes
    return layer(op("Reshape", 1, special_zero=True), wide, constant(sizes, "i64"), name=f"{name}/reshape")


def attention(batch: int | None = None, **options: Any) -> tuple[list[Output], Output, Output]:
    inputs = [parameter(name, batch, count, None, WIDTH) for name, count in zip("qkv", (HEADS * COUNT, HEADS, HEADS))]
    keys = repeated(inputs[1], "keys", **options)
    values = repeated(inputs[2], "values", **options)
    return inputs, layer(op("ScaledDotProductAttention", 13, causal=False), inputs[0], keys, values, name="a"), keys


@pytest.mark.parametrize("batch", [None, 2])
def test_heads_are_not_repeated(batch: int | None) -> None:
    inputs, made, _ = attention(batch)
    assert operators(check(model(inputs, {"y": made}), FEEDS)) == ["Attention"]


def test_repeated_heads_that_are_an_output_stay() -> None:
    inputs, made, keys = attention()
    exported = check(model(inputs, {"y": made, "keys": keys}), FEEDS)
    assert sorted(operators(exported)) == ["Attention", "Expand", "Reshape", "Unsqueeze"]


@pytest.mark.parametrize(
    "options",
    [
        # Every head once, then every head again: not what ONNX's operator means.
        {"axis": 1, "counts": [1, COUNT, 1, 1, 1]},
        {"sizes": [2, HEADS * COUNT, -1, WIDTH]},
    ],
)
def test_other_repetitions_are_spelled_out(options: dict[str, Any]) -> None:
    inputs, made, _ = attention(**options)
    assert operators(check(model(inputs, {"y": made}), FEEDS)).count("Expand") == 2


def test_an_older_opset_repeats_them() -> None:
    inputs, made, _ = attention()
    assert "Softmax" in operators(check(model(inputs, {"y": made}), FEEDS, opset=17))


def test_there_and_back(tmp_path: Path) -> None:
    inputs, made, _ = attention()
    converter.save_model(model(inputs, {"y": made}), tmp_path / "m.xml")
    trip = converter.round_trip(tmp_path / "m.xml")
    assert trip.passed
