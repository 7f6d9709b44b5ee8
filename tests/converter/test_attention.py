"""ONNX's Attention and RotaryEmbedding through both engines, against onnxruntime or ONNX's reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import converter
import ir_runtime
from tests.engines import check_node, converted, core, node_model, opened
from tests.random_data import generator
from tests.suite.reshape import Reshaping, check_reshaped, in_numpy, in_openvino

R = generator(31)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def reference(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, dict(feeds))]


Q, K, V = f(2, 4, 3, 8), f(2, 4, 5, 8), f(2, 4, 5, 6)
SHARED = {"k": f(2, 2, 5, 8), "v": f(2, 2, 5, 6)}
FLAT = {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 12)}
PAST = {"pk": f(2, 4, 2, 8), "pv": f(2, 4, 2, 6)}
NO_MASK: dict[str, Any] = {"": None}
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
QKV = {"q": Q, "k": K, "v": V}
DYNAMIC = {"q": ["b", "n", "s", 8], "k": ["b", "m", "t", 8], "v": ["b", "m", "t", "w"]}


def mask(*shape: int, empty: bool = False) -> np.ndarray:
    made = R.random(shape) < 0.6
    made[..., 0] = True
    if empty:
        made[..., 1, :] = False
    return made


def bias(*shape: int, empty: bool = False) -> np.ndarray:
    made = f(*shape)
    made[R.random(shape) < 0.3] = -np.inf
    made[..., 0] = 0.5
    if empty:
        made[..., 1, :] = -np.inf
    return made


def row(name: str, opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any] | None = None, **m: Any) -> Any:
    return pytest.param(opset, inputs, attributes or {}, m, id=f"{name}-{opset}")


ROWS = [
    row("plain", 23, QKV),
    row("scale", 23, QKV, {"scale": 0.3}),
    row("heads-in-rows", 23, FLAT, HEADS),
    row(
        "heads-in-rows-dynamic", 23, FLAT, HEADS, shapes={"q": ["b", "s", 32], "k": ["b", "t", 16], "v": ["b", "t", 12]}
    ),
    row("shared", 23, {"q": Q, **SHARED}),
    row("one-for-all", 24, {"q": Q, "k": f(2, 1, 5, 8), "v": f(2, 1, 5, 8)}),
    row("dynamic", 23, QKV, shapes=DYNAMIC),
    row("shared-dynamic", 23, {"q": Q, **SHARED}, shapes=DYNAMIC),
    row("causal", 23, QKV, {"is_causal": 1}),
    row("causal-dynamic", 23, QKV, {"is_causal": 1}, shapes=DYNAMIC),
    row("causal-more-queries", 23, {"q": f(1, 2, 6, 8), "k": f(1, 2, 4, 8), "v": f(1, 2, 4, 8)}, {"is_causal": 1}),
    row("bias", 23, {**QKV, "m": bias(3, 5)}),
    row("bias-of-heads", 23, {**QKV, "m": bias(2, 4, 3, 5)}),
    row("bias-empty-row", 23, {**QKV, "m": bias(2, 1, 3, 5, empty=True)}),
    row("bias-dynamic", 23, {**QKV, "m": bias(2, 1, 3, 5, empty=True)}, shapes={**DYNAMIC, "m": ["b", 1, "s", "t"]}),
    row("mask", 23, {**QKV, "m": mask(3, 5)}),
    row("mask-empty-row", 23, {**QKV, "m": mask(2, 1, 3, 5, empty=True)}),
    row("mask-causal", 23, {**QKV, "m": mask(2, 4, 3, 5, empty=True)}, {"is_causal": 1}),
    row("bias-causal", 24, {**QKV, "m": bias(3, 5)}, {"is_causal": 1, "scale": 0.5}),
    row("past", 23, {**QKV, **NO_MASK, **PAST}, outputs=3),
    row("past-causal", 23, {**QKV, **NO_MASK, **PAST}, {"is_causal": 1}, outputs=3),
    row("past-mask-dynamic", 24, {**QKV, "m": mask(3, 7), **PAST}, {"is_causal": 1}, outputs=3, shapes=DYNAMIC),
    row("softcap", 23, QKV, {"softcap": 0.7}),
    row("softcap-mask", 24, {**QKV, "m": mask(3, 5, empty=True)}, {"softcap": 2.0}),
    *(row(f"scores-{m}", 24, {**QKV, "m": bias(3, 5)}, {"qk_matmul_output_mode": m}, outputs=4) for m in range(4)),
    row("scores-limited", 24, QKV, {"qk_matmul_output_mode": 1, "softcap": 0.5}, outputs=4),
    row("scores-empty", 24, {**QKV, "m": mask(3, 5, empty=True)}, {"qk_matmul_output_mode": 3}, outputs=4),
    row("half", 23, {name: value.astype(np.float16) for name, value in QKV.items()}),
    row("half-exact", 23, {name: value.astype(np.float16) for name, value in QKV.items()}, {"softmax_precision": 1}),
]
BY_REFERENCE = [  # what onnxruntime refuses, or has no infinity for
    row("mask-keys", 24, {**QKV, "m": mask(2, 1, 1, 5)}),
    row("mask-narrow", 24, {**QKV, "m": mask(3, 4)}),
    row("bias-narrow-dynamic", 24, {**QKV, "m": bias(3, 4)}, shapes={**DYNAMIC, "m": ["s", None]}),
    row("scores-causal", 24, QKV, {"qk_matmul_output_mode": 2, "is_causal": 1}, outputs=4),
    row("double", 24, {name: value.astype(np.float64) for name, value in QKV.items()}, {"scale": 0.25}),
    row("values-of-another-type", 24, {"q": Q, "k": K, "v": V.astype(np.float16)}),
    row("coarse", 24, QKV, {"softmax_precision": 10}, rtol=2e-3, atol=2e-3),
    row("lengths", 24, {**QKV, **NO_MASK, "-": None, "--": None, "n": np.array([2, 5])}),
    row("lengths-causal", 24, {**QKV, **NO_MASK, "-": None, "--": None, "n": np.array([1, 4])}, {"is_causal": 1}),
    row("lengths-of-nothing", 24, {**QKV, **NO_MASK, "-": None, "--": None, "n": np.array([0, 4])}),
    row("lengths-mask", 24, {**QKV, "m": mask(3, 4), "-": None, "--": None, "n": np.array([2, 4])}),
    row("left", 25, QKV, {"left_window_size": 1}),
    row("right", 25, QKV, {"right_window_size": 1}),
    row("both", 25, QKV, {"left_window_size": 1, "right_window_size": 0}),
    row("left-causal", 25, QKV, {"left_window_size": 1, "is_causal": 1}),
    row("right-causal", 25, QKV, {"right_window_size": 2, "is_causal": 1}),
    row("window-past", 25, {**QKV, **NO_MASK, **PAST}, {"left_window_size": 2, "right_window_size": 1}, outputs=3),
    row(
        "window-lengths", 25, {**QKV, **NO_MASK, "-": None, "--": None, "n": np.array([1, 5])}, {"left_window_size": 1}
    ),
    row(
        "window-behind-the-keys",
        25,
        {"q": f(1, 1, 6, 4), "k": f(1, 1, 3, 4), "v": f(1, 1, 3, 4)},
        {"left_window_size": 1},
    ),
]


def model_and_feeds(
    opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: dict[str, Any], op: str = "Attention"
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    feeds = {name: value for name, value in inputs.items() if value is not None}
    order = [name if value is not None else "" for name, value in inputs.items()]
    return node_model(op, feeds, opset=opset, attributes=attributes, order=order, **more), feeds


@pytest.mark.parametrize(("opset", "inputs", "attributes", "more"), ROWS)
def test_attention_gives_the_numbers_of_onnxruntime(
    opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: dict[str, Any]
) -> None:
    model, feeds = model_and_feeds(opset, inputs, attributes, more)
    check_node(model, feeds)


@pytest.mark.parametrize(("opset", "inputs", "attributes", "more"), ROWS)
def test_attention_of_dynamic_dimensions(
    opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: dict[str, Any]
) -> None:
    model, feeds = model_and_feeds(opset, inputs, attributes, more)
    check_node(opened(model), feeds)


@pytest.mark.parametrize(("opset", "inputs", "attributes", "more"), BY_REFERENCE)
def test_attention_gives_the_numbers_of_the_specification(
    opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: dict[str, Any]
) -> None:
    more = dict(more)
    limits = {name: more.pop(name) for name in ("rtol", "atol") if name in more}
    model, feeds = model_and_feeds(opset, inputs, attributes, more)
    check_node(model, feeds, reference(model, feeds), **limits)


def test_a_mask_of_one_column_broadcasts_in_version_23() -> None:
    # Only version 24 defines that a narrow mask is padded.
    column = np.where(mask(2, 1, 3, 1), np.float32(0.5), np.float32(-np.inf))
    column[0, 0, 1] = -np.inf
    model, feeds = model_and_feeds(23, {**QKV, "m": column}, {}, {})
    whole, spread = model_and_feeds(23, {**QKV, "m": np.repeat(column, 5, axis=-1)}, {}, {})
    check_node(model, feeds, reference(whole, spread))


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (QKV, {}),
        (QKV, {"is_causal": 1, "scale": 0.2}),
        ({**QKV, "m": bias(3, 5)}, {}),
        ({**QKV, "m": mask(3, 5)}, {"is_causal": 1}),
        (FLAT, HEADS),
    ],
    ids=["plain", "causal", "bias", "mask-causal", "heads-in-rows"],
)
def test_attention_is_one_layer(inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    model, _ = model_and_feeds(24, inputs, attributes, {})
    types = [node.op.type for node in converter.convert_model(model).nodes()]
    assert types.count("ScaledDotProductAttention") == 1
    assert not {"MatMul", "SoftMax"} & set(types)


@pytest.mark.parametrize(
    ("inputs", "other", "attributes", "layers"),
    [
        (QKV, (3, 2, 6, 7), {}, 1),
        (QKV, (1, 4, 9, 9), {"is_causal": 1, "scale": 0.3}, 1),
        ({"q": Q, "k": f(2, 1, 5, 8), "v": f(2, 1, 5, 6)}, (1, (6, 1), 4, 7), {}, 1),
        ({"q": Q, "k": f(2, 1, 5, 8), "v": f(2, 1, 5, 6)}, (1, 6, 4, 7), {}, 1),
        ({"q": Q, **SHARED}, (3, (8, 4), 2, 4), {}, 8),
        ({"q": Q, **SHARED}, (2, (2, 1), 2, 4), {"is_causal": 1}, 8),
    ],
    ids=["plain", "causal", "one-for-more", "one-each", "pairs", "one-pair"],
)
def test_declared_heads_can_be_reshaped(
    inputs: Mapping[str, Any], other: tuple[Any, int, int, int], attributes: Mapping[str, Any], layers: int
) -> None:
    batch, heads, queries, keys = other
    n, m = heads if isinstance(heads, tuple) else (heads, heads)
    data = {"q": f(batch, n, queries, 8), "k": f(batch, m, keys, 8), "v": f(batch, m, keys, 6)}
    model, feeds = model_and_feeds(23, inputs, attributes, {})
    check_reshaped(model, feeds, data)
    types = [node.op.type for node in converter.convert_model(model).nodes()]
    assert len([name for name in types if name not in ("Const", "Parameter", "Result")]) == layers


@pytest.mark.parametrize(("n", "m"), [(4, 2), (6, 4)])
def test_heads_that_do_not_fit_what_was_declared_are_refused(n: int, m: int) -> None:
    data = {"q": f(2, n, 3, 8), "k": f(2, m, 5, 8), "v": f(2, m, 5, 6)}
    model, _ = model_and_feeds(23, QKV, {}, {})
    case = Reshaping("heads", {name: list(value.shape) for name, value in data.items()}, data, [])
    with pytest.raises(ir_runtime.ModelError):
        in_numpy(converted(model), case)
    with pytest.raises(RuntimeError):
        in_openvino(converted(model), case)


def test_a_constant_mask_without_empty_rows_is_one_layer() -> None:
    model = node_model("Attention", QKV, opset=24, constants={"m": mask(3, 5)})
    types = [node.op.type for node in converter.convert_model(model).nodes()]
    assert sorted(set(types)) == ["Const", "Parameter", "Result", "ScaledDotProductAttention"]
    check_node(model, QKV)


X4, X3 = f(2, 4, 3, 8), f(2, 3, 32)
PLACES = np.array([[0, 1, 2], [4, 5, 3]])
TURNS = {"x": X4, "c": f(6, 4), "s": f(6, 4), "p": PLACES}
ROTARY_ROWS = [
    row("places", 23, TURNS),
    row("interleaved", 23, TURNS, {"interleaved": 1}),
    row("rows", 23, {**TURNS, "x": X3}, {"num_heads": 4}),
    row("part", 23, {**TURNS, "c": f(6, 2), "s": f(6, 2)}, {"rotary_embedding_dim": 4}),
    row("part-rows", 23, {**TURNS, "x": X3, "c": f(6, 2), "s": f(6, 2)}, {"rotary_embedding_dim": 4, "num_heads": 4}),
    row("own-angles", 23, {"x": X4, "c": f(2, 3, 4), "s": f(2, 3, 4)}),
    row("own-angles-rows", 23, {"x": X3, "c": f(2, 3, 4), "s": f(2, 3, 4)}, {"num_heads": 4, "interleaved": 1}),
    row("dynamic", 23, TURNS, shapes={"x": ["b", 4, "s", None], "c": ["m", 4], "s": ["m", 4], "p": ["b", "s"]}),
]


@pytest.mark.parametrize(("opset", "inputs", "attributes", "more"), ROTARY_ROWS)
def test_rotary_embeddings_give_the_numbers_of_onnxruntime(
    opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: dict[str, Any]
) -> None:
    model, feeds = model_and_feeds(opset, inputs, attributes, more, "RotaryEmbedding")
    check_node(model, feeds)
    check_node(opened(model), feeds)


@pytest.mark.parametrize(("rotated", "width"), [(0, 64), (64, 96)], ids=["whole", "part"])
@pytest.mark.parametrize("rank", [3, 4])
def test_the_plug_in_executes_a_rotation_as_one_layer(rank: int, rotated: int, width: int) -> None:
    half = (rotated or width) // 2
    feeds = {"x": f(2, 4, 3, width) if rank == 4 else f(2, 3, 4 * width), "c": f(6, half), "s": f(6, half), "p": PLACES}
    shapes = {"x": ["b", 4, "s", width] if rank == 4 else ["b", "s", 4 * width], "p": ["b", "s"]}
    attributes = {"num_heads": 4, "rotary_embedding_dim": rotated}
    model = node_model("RotaryEmbedding", feeds, opset=23, attributes=attributes, shapes=shapes)
    check_node(model, feeds)
    compiled = core().compile_model(core().read_model(*converted(model)), "CPU")
    executed = [layer.get_rt_info()["layerType"].astype(str) for layer in compiled.get_runtime_model().get_ops()]
    assert executed.count("RoPE") == 1
    assert "Eltwise" not in executed


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attributes", "message"),
    [
        ("Attention", 23, FLAT, {}, "q_num_heads and kv_num_heads are required"),
        ("Attention", 23, FLAT, {"q_num_heads": 5, "kv_num_heads": 2}, r"cannot be split into 5 heads"),
        ("Attention", 23, {**QKV, "q": X3}, HEADS, "must all have 3 or all 4 dimensions"),
        ("Attention", 23, {"q": Q, "k": f(2, 3, 5, 8), "v": V}, {}, "4 heads of queries cannot share 3 heads"),
        ("Attention", 23, {**QKV, "": None, "pk": PAST["pk"]}, {}, "past_key and past_value must be given together"),
        ("Attention", 24, {**QKV, "m": mask(3, 6)}, {}, "wider than the 5 keys"),
        ("Attention", 25, QKV, {"left_window_size": -2}, "window sizes must be -1 or more, but are -2"),
        ("Attention", 24, QKV, {"qk_matmul_output_mode": 4}, "must be 0 to 3, but is 4"),
        ("RotaryEmbedding", 23, {**TURNS, "x": X3}, {}, "num_heads is required"),
        ("RotaryEmbedding", 23, {**TURNS, "c": f(6, 3)}, {}, "must hold 4 angles"),
        ("RotaryEmbedding", 23, {"x": X4, "c": f(6, 4), "s": f(6, 4)}, {}, "must have 3 dimensions without"),
        ("RotaryEmbedding", 23, TURNS, {"rotary_embedding_dim": 10}, "must be even and at most 8, but is 10"),
    ],
)
def test_contradictions_are_errors_that_name_the_node(
    op: str, opset: int, inputs: Mapping[str, Any], attributes: Mapping[str, Any], message: str
) -> None:
    model, _ = model_and_feeds(opset, inputs, attributes, {}, op)
    with pytest.raises(converter.ConversionError, match=rf"'node' \({op}.*{message}"):
        converter.convert_model(model)
