"""onnxruntime's attention through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from tests.engines import check_node, node_model, opened, run_onnxruntime
from tests.random_data import generator
from tests.suite.reshape import Reshaping, check_reshaped, in_numpy, in_openvino

R = generator(11)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def row(op_type: str, name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], **more: Any) -> Any:
    return pytest.param(op_type, inputs, attributes, more, id=f"{op_type}-{name}")


X, W, B = f(2, 3, 8), f(8, 24), f(24)
PAST = f(2, 2, 2, 4, 4)
Q, K, V = f(2, 3, 8), f(2, 5, 8), f(2, 5, 8)
TWO = {"num_heads": 2}

ROWS = [
    row("Attention", "plain", {"x": X, "w": W, "b": B}, TWO),
    row("Attention", "scale", {"x": X, "w": W, "b": B}, {**TWO, "scale": 0.3}),
    row("Attention", "causal", {"x": X, "w": W, "b": B}, {**TWO, "unidirectional": 1}),
    row("Attention", "lengths", {"x": X, "w": W, "b": B, "m": i(2, 3)}, TWO),
    row("Attention", "ends-starts", {"x": X, "w": W, "b": B, "m": i(3, 2, 1, 0)}, TWO),
    row(
        "Attention", "mask", {"x": X, "w": W, "b": B, "m": i([1, 1, 0], [1, 1, 1])}, {**TWO, "mask_filter_value": -50.0}
    ),
    row("Attention", "mask-3d", {"x": X, "w": W, "b": B, "m": R.integers(0, 2, (2, 3, 3)).astype(np.int32)}, TWO),
    row(
        "Attention", "mask-causal", {"x": X, "w": W, "b": B, "m": i([1, 1, 0], [0, 1, 1])}, {**TWO, "unidirectional": 1}
    ),
    row("Attention", "past", {"x": X, "w": W, "b": B, "": None, "past": PAST}, {**TWO, "unidirectional": 1}, outputs=2),
    row(
        "Attention",
        "past-mask-dynamic",
        {"x": X, "w": W, "b": B, "m": np.ones((2, 7), np.int32), "past": PAST},
        TWO,
        outputs=2,
        shapes={"x": ["b", "s", 8], "m": ["b", "t"], "past": [2, "b", 2, "p", 4]},
    ),
    row("Attention", "bias", {"x": X, "w": W, "b": B, "": None, "-": None, "e": f(1, 2, 3, 3)}, TWO),
    row("Attention", "sizes", {"x": X, "w": f(8, 28), "b": f(28)}, {**TWO, "qkv_hidden_sizes": [8, 8, 12]}),
    row("MultiHeadAttention", "plain", {"q": Q, "k": K, "v": V}, TWO),
    row("MultiHeadAttention", "wide-values", {"q": Q, "k": K, "v": f(2, 5, 12)}, {**TWO, "scale": 0.7}),
    row("MultiHeadAttention", "bias", {"q": Q, "k": K, "v": V, "b": f(24)}, TWO),
    row("MultiHeadAttention", "mask", {"q": Q, "k": K, "v": V, "": None, "m": i([1, 1, 0, 1, 0], [1] * 5)}, TWO),
    row("MultiHeadAttention", "causal", {"q": Q, "k": Q, "v": Q}, {**TWO, "unidirectional": 1}),
    row("MultiHeadAttention", "causal-more-keys", {"q": Q, "k": K, "v": V}, {**TWO, "unidirectional": 1}),
    row(
        "MultiHeadAttention",
        "causal-more-keys-dynamic",
        {"q": Q, "k": K, "v": V, "": None, "m": i([1, 1, 0, 1, 0], [0, 1, 1, 1, 1])},
        {**TWO, "unidirectional": 1},
        shapes={"q": ["b", "s", 8], "k": ["b", "t", 8], "v": ["b", "t", 8], "m": ["b", "t"]},
    ),
    row("MultiHeadAttention", "causal-fewer-keys", {"q": K, "k": Q, "v": Q}, {**TWO, "unidirectional": 1}),
    row("MultiHeadAttention", "causal-one-query", {"q": f(2, 1, 8), "k": K, "v": V}, {**TWO, "unidirectional": 1}),
    *(
        row(
            "MultiHeadAttention",
            f"causal-past-{name}",
            {"q": q, "k": k, "v": k, "": None, "-": None, "+": None, "pk": f(2, 2, 4, 4), "pv": f(2, 2, 4, 4)},
            {**TWO, "unidirectional": 1},
            outputs=3,
            shapes=shapes,
        )
        for name, q, k, shapes in (
            ("static", Q, f(2, 3, 8), {}),
            ("more-keys", Q, K, {"q": ["b", "s", 8], "k": ["b", "t", 8], "pk": ["b", 2, "p", 4]}),
            ("fewer-keys", K, Q, {}),
        )
    ),
    row("MultiHeadAttention", "added", {"q": Q, "k": K, "v": V, "": None, "-": None, "e": f(2, 1, 3, 5)}, TWO),
    row("MultiHeadAttention", "ready", {"q": Q, "k": f(2, 2, 5, 4), "v": f(2, 2, 5, 4)}, TWO),
    row(
        "MultiHeadAttention",
        "past",
        {"q": Q, "k": Q, "v": Q, "": None, "-": None, "+": None, "pk": f(2, 2, 4, 4), "pv": f(2, 2, 4, 4)},
        TWO,
        outputs=3,
        shapes={"q": ["b", "s", 8], "pk": ["b", 2, "p", 4], "pv": ["b", 2, "p", 4]},
    ),
    row(
        "RotaryEmbedding",
        "4d",
        {"x": f(2, 3, 5, 8), "p": np.array([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]), "c": f(16, 4), "s": f(16, 4)},
        {},
    ),
    row(
        "RotaryEmbedding",
        "4d from a position on",
        {"x": f(2, 3, 5, 8), "p": np.array([3]), "c": f(16, 4), "s": f(16, 4)},
        {},
        shapes={"x": ["b", 3, "s", 8]},
    ),
    row(
        "RotaryEmbedding",
        "3d",
        {"x": f(2, 5, 24), "p": np.array([3]), "c": f(16, 4), "s": f(16, 4)},
        {},
        shapes={"x": ["b", "s", 24]},
    ),
    row(
        "RotaryEmbedding",
        "interleaved",
        {"x": f(2, 5, 24), "p": np.array([3]), "c": f(16, 4), "s": f(16, 4)},
        {"interleaved": 1},
    ),
    row(
        "RotaryEmbedding",
        "partial",
        {"x": f(2, 5, 24), "p": np.array([3]), "c": f(16, 2), "s": f(16, 2)},
        {"rotary_embedding_dim": 4, "num_heads": 3},
    ),
    row(
        "RotaryEmbedding",
        "partial-interleaved",
        {"x": f(2, 5, 24), "p": np.array([3]), "c": f(16, 2), "s": f(16, 2)},
        {"rotary_embedding_dim": 4, "num_heads": 3, "interleaved": 1},
    ),
]


@pytest.mark.every_value
@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), ROWS)
def test_attention_gives_the_numbers_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    feeds = {name: value for name, value in inputs.items() if value is not None}
    order = [name if value is not None else "" for name, value in inputs.items()]
    model = node_model(op_type, feeds, attributes=attributes, order=order, domain="com.microsoft", opset=1, **more)
    check_node(model, feeds)
    check_node(opened(model), feeds)


@pytest.mark.parametrize("op_type", ["Attention", "MultiHeadAttention"])
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("mask", [i(2, 1), i(3, 2, 1, 0), i(2, 3, 0, 3, 6, 0, 2, 5), i([1, 0, 1], [0, 1, 1])], ids=str)
def test_masks_and_lengths(mask: np.ndarray, dynamic: bool, op_type: str) -> None:
    feeds: dict[str, Any] = {"x": X, "m": mask}
    constants: dict[str, Any] = {"w": W, "b": B}
    order = ["x", "w", "b", "m"]
    if op_type == "MultiHeadAttention":
        if mask.shape == (4,):
            pytest.skip("onnxruntime has no starts there")
        feeds, constants, order = {"x": X, "k": Q, "v": K[:, :3], "m": mask}, {}, ["x", "k", "v", "", "m"]
    shapes = {name: [f"{name}{axis}" for axis in range(value.ndim - (name != "m"))] for name, value in feeds.items()}
    shapes = {name: [*axes, 8] if name != "m" else axes for name, axes in shapes.items()} if dynamic else {}
    model = node_model(
        op_type, feeds, constants=constants, order=order, attributes=TWO, shapes=shapes, domain="com.microsoft", opset=1
    )
    check_node(model, feeds)


def grouped(steps: int, past: int, room: int | None = None, packed: bool = False, batches: int = 1) -> dict[str, Any]:
    """Inputs of a step: 4 heads that share 2, of 16 numbers each; the cache has ``room`` keys, or the past's."""
    capacity = past if room is None else room
    total = past + steps
    query = f(batches, steps, 128) if packed else f(batches, steps, 64)
    return {
        "q": query,
        "k": None if packed else f(batches, steps, 32),
        "v": None if packed else f(batches, steps, 32),
        "pk": f(batches, 2, capacity, 16),
        "pv": f(batches, 2, capacity, 16),
        "lengths": np.full(batches, total - 1, np.int32),
        "total": np.array(total, np.int32),
    }


TURNED = {"c": f(32, 8), "s": f(32, 8)}
FOUR = {"num_heads": 4, "kv_num_heads": 2}
DYNAMIC = {
    "q": ["b", "s", 64],
    "k": ["b", "s", 32],
    "v": ["b", "s", 32],
    "pk": ["b", 2, "p", 16],
    "pv": ["b", 2, "p", 16],
}

GROUPED = [
    row("GQA", "prompt", grouped(5, 0), FOUR),
    row("GQA", "step", grouped(1, 6), FOUR),
    row("GQA", "steps", grouped(3, 6), FOUR),
    row("GQA", "dynamic", grouped(3, 6), FOUR, shapes=DYNAMIC),
    row("GQA", "packed", grouped(3, 0, packed=True), FOUR),
    row("GQA", "rotary", {**grouped(3, 6), **TURNED}, {**FOUR, "do_rotary": 1}),
    row("GQA", "rotary-prompt", {**grouped(3, 0), **TURNED}, {**FOUR, "do_rotary": 1}, shapes=DYNAMIC),
    row(
        "GQA",
        "rotary-interleaved",
        {**grouped(1, 6, batches=2), **TURNED},
        {**FOUR, "do_rotary": 1, "rotary_interleaved": 1},
    ),
    row("GQA", "window", grouped(4, 6), {**FOUR, "local_window_size": 3}),
    row("GQA", "window-step", grouped(1, 6), {**FOUR, "local_window_size": 3}),
    row("GQA", "softcap", grouped(2, 6), {**FOUR, "softcap": 2.0, "scale": 0.5}),
    row("GQA", "smooth", grouped(2, 6), {**FOUR, "smooth_softmax": 1}),
    row("GQA", "both-ways", grouped(4, 0), {**FOUR, "causal": 0}),
    row("GQA", "room", grouped(2, 6, room=12), FOUR, compared=1),
    row("GQA", "room-prompt", grouped(4, 0, room=12, batches=2), FOUR, compared=1, shapes=DYNAMIC),
    row(
        "GQA",
        "room-bias",
        {**grouped(2, 6, room=9), "": None, "-": None, "+": None, "e": f(1, 1, 2, 8)},
        FOUR,
        compared=1,
    ),
    row("GQA", "places", {**grouped(2, 6), **TURNED, "at": np.array([[6, 7]])}, {**FOUR, "do_rotary": 1}),
    row("GQA", "bias", {**grouped(2, 6), "": None, "-": None, "+": None, "e": f(1, 4, 2, 8)}, FOUR),
    row("GQA", "sink", {**grouped(2, 6), "": None, "-": None, "+": None, "*": None, "e": f(4)}, FOUR),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), GROUPED)
def test_grouped_queries_give_the_numbers_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    feeds = {name: value for name, value in inputs.items() if value is not None}
    order = [name if value is not None else "" for name, value in inputs.items()]
    model = node_model(
        "GroupQueryAttention",
        feeds,
        attributes=attributes,
        order=order,
        domain="com.microsoft",
        opset=1,
        outputs=3,
        **{name: value for name, value in more.items() if name != "compared"},
    )
    # What stands behind the keys in a cache with room for more is not defined.
    check_node(model, feeds, run_onnxruntime(model, feeds)[: more.get("compared", 3)])


def test_attention_without_a_bias_is_one_with_zeros() -> None:
    # onnxruntime's CPU kernel crashes without one, although its schema allows for that.
    zeros = {"x": X, "w": W, "b": np.zeros(24, np.float32)}
    want = run_onnxruntime(node_model("Attention", zeros, attributes=TWO, domain="com.microsoft", opset=1), zeros)
    feeds = {"x": X, "w": W}
    check_node(node_model("Attention", feeds, attributes=TWO, domain="com.microsoft", opset=1), feeds, want)


def test_packed_keys_are_taken_apart() -> None:
    """onnxruntime unpacks them on other processors only, so it gets them apart."""
    q, k, v = f(2, 3, 8), f(2, 3, 8), f(2, 3, 8)
    apart = {"q": q, "k": k, "v": v}
    want = run_onnxruntime(
        node_model("MultiHeadAttention", apart, attributes=TWO, domain="com.microsoft", opset=1), apart
    )
    keys = {"q": q, "kv": np.stack([k.reshape(2, 3, 2, 4), v.reshape(2, 3, 2, 4)], 3)}
    whole = {"qkv": np.stack([part.reshape(2, 3, 2, 4) for part in (q, k, v)], 3)}
    for feeds in (keys, whole):
        check_node(
            node_model("MultiHeadAttention", feeds, attributes=TWO, domain="com.microsoft", opset=1), feeds, want
        )


def test_heads_may_be_normalised_first() -> None:
    """onnxruntime's CPU kernel leaves that to others, so it gets what NumPy has normalised."""
    plain = grouped(2, 6)
    scale_q, scale_k = f(16), f(16)

    def normal(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        heads = x.reshape(1, 2, -1, 16).astype(np.float64)
        made = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * scale
        return made.astype(np.float32).reshape(x.shape)

    feeds = {**plain, "q": normal(plain["q"], scale_q), "k": normal(plain["k"], scale_k)}
    want = run_onnxruntime(
        node_model("GroupQueryAttention", feeds, attributes=FOUR, domain="com.microsoft", opset=1, outputs=3), feeds
    )
    given = {**plain, "nq": scale_q, "nk": scale_k}
    order = [*plain, *[""] * 7, "nq", "nk"]
    model = node_model(
        "GroupQueryAttention", given, attributes=FOUR, order=order, domain="com.microsoft", opset=1, outputs=3
    )
    check_node(model, given, want)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Attention", {"x": X, "w": W, "b": B}, {"num_heads": 3}, "cannot be split into 3 heads"),
        ("Attention", {"x": X, "w": W, "b": B, "m": np.ones((2, 1, 3, 3), np.int32)}, TWO, "masks of the shape"),
        ("Attention", {"x": X, "w": W, "b": B, "m": i(1, 2, 3)}, TWO, "a mask of 3 lengths does not fit 2 batches"),
        ("Attention", {"x": X, "w": W, "b": B}, {"num_heads": 2, "do_rotary": 1}, "'do_rotary' is not supported"),
        ("MultiHeadAttention", {"q": Q}, TWO, "input 'key' is required"),
        (
            "GroupQueryAttention",
            grouped(1, 2),
            {"num_heads": 3, "kv_num_heads": 2},
            "must be a multiple of kv_num_heads",
        ),
        ("GroupQueryAttention", grouped(1, 2), {**FOUR, "qk_output": 1}, "'qk_output' is not supported"),
        ("RotaryEmbedding", {"x": f(4, 4), "p": np.array([1]), "c": f(4, 2), "s": f(4, 2)}, {}, "must have 3 or 4 dim"),
    ],
)
def test_contradictions_are_named(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], message: str
) -> None:
    model = node_model(op_type, inputs, attributes=attributes, opset=1, domain="com.microsoft")
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


PROJECTED = {"w": W, "b": B}


@pytest.mark.parametrize(
    ("op_type", "inputs", "constants", "attributes", "other", "layers"),
    [
        ("Attention", {"x": X}, PROJECTED, {**TWO, "unidirectional": 1}, {"x": f(3, 5, 8)}, 12),
        ("Attention", {"x": X, **PROJECTED, "m": i(2, 3)}, {}, TWO, {"x": f(3, 4, 8), "m": i(4, 1, 3)}, 22),
        ("Attention", {"x": X, **PROJECTED, "m": i(3, 2, 1, 0)}, {}, TWO, {"x": f(1, 4, 8), "m": i(3, 1)}, 28),
        ("MultiHeadAttention", {"q": Q, "k": K, "v": V}, {"b": f(24)}, TWO, {"q": f(3, 2, 8), "k": f(3, 6, 8)}, 12),
    ],
    ids=["causal", "lengths", "ends-starts", "bias"],
)
def test_other_dimensions_than_declared(
    op_type: str,
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Any],
    other: Mapping[str, Any],
    layers: int,
) -> None:
    model = node_model(op_type, inputs, opset=1, attributes=attributes, constants=constants, domain="com.microsoft")
    data = {**inputs, **other, **({"v": other["k"]} if "k" in other else {})}
    check_reshaped(model, inputs, data)
    types = [node.op.type for node in converter.convert_model(model).nodes()]
    assert len([name for name in types if name not in ("Const", "Parameter", "Result")]) == layers


def test_a_list_of_lengths_is_not_taken_for_ends_and_starts() -> None:
    """One row's length, declared, and then two numbers: they would be its end and its start."""
    feeds = {"x": f(1, 3, 8), **PROJECTED, "m": i(2)}
    model = node_model("Attention", feeds, opset=1, attributes=TWO, domain="com.microsoft")
    written = ir_runtime.model_to_bytes(converter.convert_model(model))
    data = {**feeds, "m": i(3, 1)}
    case = Reshaping("ends and starts", {name: list(value.shape) for name, value in data.items()}, data, [])
    with pytest.raises(ir_runtime.ModelError):
        in_numpy(written, case)
    with pytest.raises(RuntimeError):
        in_openvino(written, case)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("shape", "section"), [((2, 5, 24), (2, 1, 1)), ((2, 3, 5, 16), (1, 1, 2))], ids=str)
def test_multimodal_rotary_embedding(layout: int, interleaved: int, shape: tuple[int, ...], section: Any) -> None:
    attributes: dict[str, Any] = {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved}
    attributes |= {"num_heads": 3, "rotary_embedding_dim": 8}
    places = np.random.default_rng(5).integers(0, 9, (3, 2, 5))
    inputs = {"x": f(*shape), "places": places, "cos": f(10, 4), "sin": f(10, 4)}
    model = node_model("MRotaryEmbedding", inputs, opset=1, domain="com.microsoft", attributes=attributes)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"mrope_section": [2, 2]}, "must be three numbers of 0 or more"),
        ({"mrope_section": [2, 1, 2]}, "has 5 angles, but cos_cache has 4"),
        ({"mrope_section": [2, 1, 1], "mrope_layout": 2}, "mrope_layout must be 0 or 1, but is 2"),
        ({"mrope_section": [2, 1, 1], "scale": 2.0}, "scale, which onnxruntime's CPU kernel ignores"),
    ],
    ids=str,
)
def test_multimodal_rotary_embedding_that_is_refused(attributes: dict[str, Any], reason: str) -> None:
    inputs = {"x": f(1, 3, 2, 8), "places": np.zeros((3, 1, 2), np.int64), "cos": f(10, 4), "sin": f(10, 4)}
    model = node_model("MRotaryEmbedding", inputs, opset=1, domain="com.microsoft", attributes=attributes)
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)


def masked_decoder(inputs: Mapping[str, np.ndarray], outputs: int = 1, **attributes: Any) -> Any:
    listed = ("query", "key", "value", "mask", "", "past_key", "past_value", "length", "", "", "bias")
    order = [name if name in inputs else "" for name in listed]
    while not order[-1]:
        order.pop()
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": order, "outputs": outputs}
    attributes = {"num_heads": 2, **attributes}
    return node_model("DecoderMaskedMultiHeadAttention", inputs, **options, attributes=attributes)


@pytest.mark.parametrize("length", [0, 3, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_of_one_token_to_a_shared_cache(length: int, masked: bool, biased: bool) -> None:
    inputs = {name: f(2, 1, 8) for name in ("query", "key", "value")}
    inputs |= {"past_key": f(2, 2, 6, 4), "past_value": f(2, 2, 6, 4), "length": np.array([length], np.int32)}
    if masked:
        inputs["mask"] = np.array([[1] * (length + 1), [0] * length + [1]], np.int32)
    if biased:
        inputs["bias"] = f(24)
    model = masked_decoder(inputs, 3, past_present_share_buffer=1, scale=0.3)
    check_node(model, inputs)
    check_node(opened(model), inputs)


def test_attention_of_one_token_to_another_sequence() -> None:
    inputs = {"query": f(2, 1, 8), "key": f(2, 2, 3, 4), "value": f(2, 2, 3, 4)}
    model = masked_decoder(inputs)
    check_node(model, inputs)
    check_node(opened(model), inputs)


def test_attention_of_one_token_that_is_refused() -> None:
    inputs = {name: f(2, 1, 8) for name in ("query", "key", "value")}
    with pytest.raises(converter.UnsupportedModelError, match="'output_qk' is not supported"):
        converter.convert_model(masked_decoder(inputs, output_qk=1))
