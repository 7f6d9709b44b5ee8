"""Attention whose heads of keys and values serve several heads of the query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
from ir_runtime import Model, compile_model
from ir_runtime.graph.model import Node, Output
from tests.converter.to_onnx.graphs import IR, check, constant, model, operators, parameter, run, second_pass

HEADS, COUNT, WIDTH = 2, 3, 8
RNG = np.random.default_rng(0)
FEEDS = {
    "q": RNG.normal(size=(2, HEADS * COUNT, 4, WIDTH)).astype(np.float32),
    "k": RNG.normal(size=(2, HEADS, 5, WIDTH)).astype(np.float32),
    "v": RNG.normal(size=(2, HEADS, 5, WIDTH)).astype(np.float32),
}


def repeated(b: IR, x: Output, *, axis: int = 2, counts: Any = (1, 1, COUNT, 1, 1), sizes: Any = None) -> Output:
    wide = b.Broadcast(b.Unsqueeze(x, [axis]), list(counts), mode="bidirectional")
    return b.Reshape(wide, sizes or [0, HEADS * COUNT, -1, WIDTH], special_zero=True)


def attention(batch: int | None = None, also: bool = False, **options: Any) -> Model:
    b = IR()
    inputs = [parameter(name, batch, count, None, WIDTH) for name, count in zip("qkv", (HEADS * COUNT, HEADS, HEADS))]
    keys, values = (repeated(b, one, **options) for one in inputs[1:])
    y = b.ScaledDotProductAttention(inputs[0], keys, values, causal=False)
    return model(inputs, {"y": y, **({"keys": keys} if also else {})})


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, {}, "Attention"),
        ({"batch": 2}, {}, "Attention"),
        ({"also": True}, {}, "Attention Expand Reshape Unsqueeze"),  # repeated heads that are an output stay
        # Every head once, then every head again: not what ONNX's operator means.
        ({"axis": 1, "counts": [1, COUNT, 1, 1, 1]}, {}, "2 Expand"),
        ({"sizes": [2, HEADS * COUNT, -1, WIDTH]}, {}, "2 Expand"),
        ({}, {"opset": 17}, "1 Softmax"),
    ],
)
def test_heads_that_are_repeated_in_the_way_of_attention_are_not(
    changes: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    found = sorted(operators(check(attention(**changes), FEEDS, **options)))
    assert expected in (" ".join(found), f"{found.count(expected.split()[-1])} {expected.split()[-1]}")


def test_there_and_back(tmp_path: Path) -> None:
    converter.save_model(attention(), tmp_path / "m.xml")
    assert converter.round_trip(tmp_path / "m.xml").passed


def cached(kind: str = "f32", **options: Any) -> tuple[list[Output], dict[str, Output]]:
    """Attention over a cache, which comes and goes as in a decoder."""
    shapes = {"q": (None, HEADS * COUNT, None, WIDTH), **dict.fromkeys(("k", "v"), (None, HEADS, None, WIDTH))}
    inputs = {name: parameter(name, *shape) for name, shape in shapes.items()}
    inputs |= {f"past_{name}": parameter(f"past_{name}", None, HEADS, None, WIDTH) for name in "kv"}
    inputs["mask"] = parameter("mask", None, 1, None, None, kind=kind)
    b = IR()
    joined = {name: b.Concat(inputs[f"past_{name}"], inputs[name], axis=-2) for name in "kv"}
    for name, value in joined.items():
        value.add_name(f"present_{name}")
    sources = [repeated(b, value, **options) for value in joined.values()]
    attended = b.ScaledDotProductAttention(inputs["q"], *sources, inputs["mask"], causal=False)
    flat = b.Reshape(b.Transpose(attended, [0, 2, 1, 3]), [0, 0, -1], special_zero=True)
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
    b = IR()
    length = b.Gather(b.ShapeOf(outputs["present_k"], output_type="i64"), [2], 0)
    mask = b.Broadcast(0.0, b.Concat([1, 1, 1], length, axis=0), mode="numpy")
    attention_node = outputs["y"].node.inputs[0].node.inputs[0].node
    attention_node.inputs = [*attention_node.inputs[:3], mask]
    feeds = {name: value for name, value in cache_feeds(1, 2, 3).items() if name != "mask"}
    exported = check(model(kept, outputs), feeds, contrib=True)
    assert "GroupQueryAttention" not in operators(exported)


def masked(mask: Output, *, shapes: Any = ((2, 2, 3, 4), (2, 2, 5, 4)), kind: str = "f32", scale: Any = None) -> Model:
    query, keys = shapes
    inputs = [parameter(name, *shape, kind=kind) for name, shape in zip("qkv", (query, keys, keys))]
    sources = [*inputs, mask] if scale is None else [*inputs, mask, constant(scale, kind)]
    made = IR().ScaledDotProductAttention(*sources, causal=False)
    feeding = [mask] if mask.node.op.role == "parameter" else [n.outputs[0] for n in upstream(mask)]
    return model([*inputs, *feeding], {"y": made})


def upstream(output: Output) -> list[Node]:
    if output.node.op.role == "parameter":
        return [output.node]
    return list(dict.fromkeys(node for source in output.node.inputs for node in upstream(source)))


def masked_feeds(ir: Model, mask: Any, kind: Any = np.float32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    sizes = {"q": (2, 2, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 4)}
    feeds = {name: rng.normal(size=size).astype(kind) for name, size in sizes.items()}
    return {**feeds, **({"mask": mask} if len(ir.parameters) > 3 else {})}


def rows_of(dtype: Any) -> np.ndarray:
    """Masks [6, 1, 3, 5] whose first row hides all keys, each in another way, or all but the second."""
    if dtype is bool:
        masks = np.ones((6, 1, 3, 5), bool)
        masks[::2, :, 0] = False
        masks[1::2, :, 0] = [False, True, False, False, False]
        return masks
    low, inf = float(np.finfo(dtype).min), np.inf
    rows = [[-inf] * 5, [low] * 5, [-inf, low, -inf, low, low], [low, 0, -inf, low, low], [low / 2] * 5, [np.nan] * 5]
    masks = np.random.default_rng(4).normal(size=(6, 1, 3, 5)).astype(dtype)
    masks[:, 0, 0] = np.array(rows, dtype)
    return masks


KINDS = [("f32", np.float32), ("f16", np.float16), ("boolean", bool)]


@pytest.mark.parametrize("source", ["constant", "parameter", "two dimensions", "each batch"])
@pytest.mark.parametrize("opset", [13, None, 24, 25])
@pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=[kind for kind, _ in KINDS])
@pytest.mark.parametrize("row", range(6))
def test_rows_without_keys(row: int, kind: str, dtype: Any, opset: int | None, source: str) -> None:
    """NaN where minus infinity or False hides all keys; the mean where the lowest number does."""
    values = rows_of(dtype)[row : row + 1]
    if source == "two dimensions":
        values = values[0, 0]
    elif source == "each batch":
        values = np.concatenate([values, rows_of(dtype)[-1:] if dtype is not bool else ~values])
    mask = constant(values, kind) if source == "constant" else parameter("mask", *values.shape, kind=kind)
    data = "f32" if dtype is bool else kind
    ir = masked(mask, kind=data)
    feeds = masked_feeds(ir, values, np.float16 if data == "f16" else np.float32)
    exported = check(ir, feeds, opset=opset)
    assert ("Attention" in operators(exported)) == (opset != 13)


@pytest.mark.parametrize(
    ("kind", "hidden", "count"),
    [
        *[("f32", "lowest", 1), ("f32", -1e4, 0), ("f32", -np.inf, 3)],
        *[("f16", "lowest", 2), ("f16", -1e4, 2), ("f16", -np.inf, 2), ("f16", -8, 0)],
    ],
)
def test_masks_that_choose_between_two_numbers(kind: str, hidden: Any, count: int) -> None:
    """What cannot be minus infinity or the lowest number is left as it is; in float16, what is not large."""
    seen = parameter("mask", None, 1, None, None, kind="boolean")
    dtype = np.float16 if kind == "f16" else np.float32
    other = np.finfo(dtype).min if hidden == "lowest" else hidden
    mask = IR().Select(seen, constant(0, kind), constant(other, kind))
    ir = masked(mask, kind=kind, shapes=((2, 2, 3, 4), (2, 2, 5, 4)))
    feeds = masked_feeds(ir, rows_of(bool)[:1], dtype)
    exported = check(ir, feeds)
    assert len(operators(exported)) == 2 + count
    assert "Attention" in operators(exported)


def test_layers_share_the_rows_that_are_changed() -> None:
    mask = parameter("mask", 1, 1, 3, 5, kind="boolean")
    inputs = [parameter(name, 2, 2, size, 4) for name, size in zip("qkv", (3, 5, 5))]
    b = IR()
    first = b.ScaledDotProductAttention(*inputs, mask, causal=False)
    second = b.ScaledDotProductAttention(first, *inputs[1:], mask, causal=False)
    ir = model([*inputs, mask], {"y": second})
    names = operators(check(ir, masked_feeds(ir, rows_of(bool)[1:2])))
    assert sorted(names) == ["Add", "Attention", "Attention", "ReduceMax", "Sub", "Where"]


@pytest.mark.parametrize(
    ("mask", "query", "keys", "fused"),
    [
        ((3, 1, 3, 5), (1, 2, 3, 4), (1, 2, 5, 4), False), ((1, 2, 3, 5), (1, 1, 3, 4), (1, 1, 5, 4), False),
        ((1, 1, 3, 5), (1, 2, 1, 4), (1, 2, 5, 4), False), ((3, 5), (1, 2, 1, 4), (1, 2, 5, 4), False),
        ((1, 2, 3, 5), (2, 2, 3, 4), (2, 2, 5, 4), True), ((1, 1, 1, 5), (1, 2, 3, 4), (1, 2, 5, 4), True),
        ((1, 1, 3, 1), (1, 2, 3, 4), (1, 2, 5, 4), True), ((1, 1, 3, 5), (0, 2, 3, 4), (0, 2, 5, 4), False),
        ((1, 1, 0, 5), (1, 2, 0, 4), (1, 2, 5, 4), False), ((1, 1, 3, 0), (1, 2, 3, 4), (1, 2, 0, 4), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_masks_of_other_shapes(mask: Any, query: Any, keys: Any, fused: bool, dynamic: bool) -> None:
    """onnxruntime refuses masks that widen the scores, and empty dimensions."""
    if dynamic and 0 in (*query, *keys):
        pytest.skip("a dimension that is open is taken not to be 0")
    random = np.random.default_rng(5)
    declared = [None] * len(mask) if dynamic else mask
    sources = [parameter(name, *shape) for name, shape in zip("qkv", (query, keys, keys))]
    sources.append(parameter("mask", *declared))
    ir = model(sources, {"y": IR().ScaledDotProductAttention(*sources, causal=False)})
    shapes = {"q": query, "k": keys, "v": keys, "mask": mask}
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    exported = check(ir, feeds)
    if not dynamic:
        assert ("Attention" in operators(exported)) == fused


@pytest.mark.parametrize("scale", [0.5, 0.0, -1.0, -np.inf, np.nan])
def test_scales_that_the_operator_refuses_are_multiplied(scale: float) -> None:
    ir = masked(parameter("mask", 3, 5), scale=scale)
    exported = check(ir, masked_feeds(ir, rows_of(np.float32)[3, 0]))
    assert ("Mul" in operators(exported)) == (scale != 0.5)


def test_a_scale_of_zero_is_not_left_to_group_query_attention() -> None:
    """There it means the default scale."""
    inputs, outputs = cached()
    node = outputs["y"].node.inputs[0].node.inputs[0].node
    node.inputs = [*node.inputs, constant(0.0)]
    assert "GroupQueryAttention" not in operators(check(model(inputs, outputs), cache_feeds(1, 2, 3), contrib=True))


def test_float64_stays() -> None:
    ir = masked(parameter("mask", 3, 5, kind="f64"), kind="f64")
    feeds = masked_feeds(ir, rows_of(np.float32)[3, 0].astype(np.float64), np.float64)
    exported = converter.export_model(ir)
    np.testing.assert_allclose(run(exported, feeds)["y"], compile_model(ir)(feeds)["y"], rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (None, 1, None, None)], ids=str)
@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_changed_rows_are_not_changed_again(kind: str, shape: Any) -> None:
    ir = masked(parameter("mask", *shape, kind=kind), kind="f32" if kind == "boolean" else kind)
    exported = converter.export_model(ir)
    assert second_pass(exported).same
    again = converter.export_model(converter.convert_model(exported, target="any"))
    assert sorted(operators(again)) == sorted(operators(exported))
