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


def cached(kind: str = "f32", **options: Any) -> tuple[list[Output], dict[str, Output]]:
    """Attention over a cache, which comes and goes as in a decoder."""
    shapes = {"q": (None, HEADS * COUNT, None, WIDTH), **dict.fromkeys(("k", "v"), (None, HEADS, None, WIDTH))}
    inputs = {name: parameter(name, *shape) for name, shape in shapes.items()}
    inputs |= {f"past_{name}": parameter(f"past_{name}", None, HEADS, None, WIDTH) for name in "kv"}
    inputs["mask"] = parameter("mask", None, 1, None, None, kind=kind)
    joined = {
        name: layer(op("Concat", 1, axis=-2), inputs[f"past_{name}"], inputs[name], name=f"join_{name}")
        for name in "kv"
    }
    for name, value in joined.items():
        value.add_name(f"present_{name}")
    sources = [repeated(value, f"{name}_heads", **options) for name, value in joined.items()]
    attended = layer(
        op("ScaledDotProductAttention", 13, causal=False), inputs["q"], *sources, inputs["mask"], name="attention"
    )
    turned = layer(op("Transpose", 1), attended, constant([0, 2, 1, 3], "i64"), name="turned")
    flat = layer(op("Reshape", 1, special_zero=True), turned, constant([0, 0, -1], "i64"), name="flat")
    return list(inputs.values()), {"y": flat, **{f"present_{name}": value for name, value in joined.items()}}


def cache_feeds(batch: int, steps: int, past: int, kind: Any = np.float32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch + steps + past)
    feeds = {"q": rng.normal(size=(batch, HEADS * COUNT, steps, WIDTH)).astype(np.float32)}
    for name in "kv":
        feeds[name] = rng.normal(size=(batch, HEADS, steps, WIDTH)).astype(np.float32)
        feeds[f"past_{name}"] = rng.normal(size=(batch, HEADS, past, WIDTH)).astype(np.float32)
    seen = np.tril(np.ones((steps, past + steps), bool), past)
    mask = np.broadcast_to(seen, (batch, 1, steps, past + steps)).copy()
    mask[0, ..., 0] = past + steps == 1  # padding on the left
    mask[..., -1, -1] = True
    if past == 0:
        mask[..., 0, 0] = True
    feeds["mask"] = mask if kind is bool else np.where(mask, 0, np.finfo(np.float32).min).astype(np.float32)
    return feeds


@pytest.mark.parametrize("kind", ["f32", "boolean"])
@pytest.mark.parametrize(("batch", "steps", "past"), [(1, 1, 5), (1, 4, 0), (1, 3, 6), (2, 4, 0), (2, 1, 5)])
def test_a_cache_is_joined_by_group_query_attention(batch: int, steps: int, past: int, kind: str) -> None:
    inputs, outputs = cached(kind)
    feeds = cache_feeds(batch, steps, past, bool if kind == "boolean" else np.float32)
    ir = model(inputs, outputs)
    exported = check(ir, feeds, contrib=True)
    names = operators(exported)
    assert names.count("GroupQueryAttention") == 1
    assert not {"Attention", "Softmax"} & set(names)
    # The keys and values that come out are those of the operator, and its output needs no transposition.
    (node,) = [node for node in exported.graph.node if node.op_type == "GroupQueryAttention"]
    assert list(node.output)[1:] == ["present_k", "present_v"]
    assert names.count("Transpose") == 3
    assert "GroupQueryAttention" not in operators(check(ir, feeds))


def test_a_mask_that_depends_on_the_joined_cache_is_left_to_attention() -> None:
    """What the operator gives cannot be what it takes."""
    inputs, outputs = cached()
    kept = [one for one in inputs if "mask" not in one.names]
    shape = layer(op("ShapeOf", 3, output_type="i64"), outputs["present_k"], name="shape")
    length = layer(op("Gather", 8), shape, constant([2], "i64"), constant(0, "i64"), name="length")
    target = layer(op("Concat", 1, axis=0), constant([1, 1, 1], "i64"), length, name="target")
    mask = layer(op("Broadcast", 3, mode="numpy"), constant(0.0), target, name="mask")
    attention_node = outputs["y"].node.inputs[0].node.inputs[0].node
    attention_node.inputs = [*attention_node.inputs[:3], mask]
    feeds = {name: value for name, value in cache_feeds(1, 2, 3).items() if name != "mask"}
    exported = check(model(kept, outputs), feeds, contrib=True)
    assert "GroupQueryAttention" not in operators(exported)
