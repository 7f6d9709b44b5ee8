"""Linear attention of onnxruntime's language models through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from tests.engines import check_node, node_model, opened
from tests.random_data import generator

RNG = generator(57)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# Softplus of 100 and more is its argument, that of -100 nearly nothing.
A = np.concatenate([f(2, 3, 4) * 3, np.array([-100, 0, 30, 200], np.float32) * np.ones((2, 1, 4), np.float32)], 1)
PER_HEAD = {"dt_bias": f(4), "decay_scale": -np.exp(f(4))}
OPTIONS: dict[str, Any] = {"opset": 1, "domain": "com.microsoft"}


@pytest.mark.parametrize("kind", [np.float32, np.float16], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("shape", [[2, 4, 4], ["n", "t", 4], [None, None, None]], ids=str)
@pytest.mark.parametrize("rates", [True, False], ids=["with_b", "without_b"])
def test_linear_attention_gate(kind: type[np.generic], shape: list[Any], rates: bool) -> None:
    inputs = {"a": A.astype(kind), **PER_HEAD, **({"b": (A[::-1] / 2).astype(kind)} if rates else {})}
    model = node_model(
        "LinearAttentionGate", inputs, **OPTIONS, outputs=1 + rates, shapes=dict.fromkeys(("a", "b"), shape)
    )
    check_node(model, inputs)


def test_linear_attention_gate_of_constants() -> None:
    inputs = {"a": A, "b": A + 1}
    order = ["a", "dt_bias", "decay_scale", "b"]
    check_node(node_model("LinearAttentionGate", inputs, **OPTIONS, constants=PER_HEAD, order=order, outputs=2), inputs)


def test_linear_attention_gate_of_the_first_output() -> None:
    inputs = {"a": A, **PER_HEAD, "b": A}
    check_node(node_model("LinearAttentionGate", inputs, **OPTIONS), inputs)


def test_linear_attention_gate_without_what_beta_needs() -> None:
    with pytest.raises(converter.InvalidModelError, match="beta requires the input b"):
        converter.convert_model(node_model("LinearAttentionGate", {"a": A, **PER_HEAD}, **OPTIONS, outputs=2))


# --- recurrences ---

BATCH, STEPS, KEY, VALUE = 2, 5, 3, 4


def attended(
    rule: str, queries: int, heads: int, past: bool, per_key: bool, **options: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    inputs = {
        "q": f(BATCH, STEPS, queries * KEY),
        "k": f(BATCH, STEPS, heads * KEY),
        "v": f(BATCH, STEPS, heads * VALUE),
        "state": f(BATCH, heads, KEY, VALUE),
        "decay": -np.abs(f(BATCH, STEPS, heads * KEY if per_key else heads)),
        "beta": 1 / (1 + np.exp(f(BATCH, STEPS, heads if per_key else 1))),
    }
    unused = {"state": not past, "decay": "gated" not in rule, "beta": "delta" not in rule}
    inputs = {name: value for name, value in inputs.items() if not unused.get(name)}
    order = [name if name in inputs else "" for name in ("q", "k", "v", "state", "decay", "beta")]
    while not order[-1]:
        order.pop()
    attributes = {"update_rule": rule, "q_num_heads": queries, "kv_num_heads": heads}
    options = {**OPTIONS, **options}
    return node_model("LinearAttention", inputs, **options, order=order, outputs=2, attributes=attributes), inputs


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(("queries", "heads"), [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("per_key", [False, True])
def test_linear_attention(rule: str, queries: int, heads: int, past: bool, per_key: bool) -> None:
    model, inputs = attended(rule, queries, heads, past, per_key)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention_of_onnx(rule: str) -> None:
    model, inputs = attended(rule, 2, 2, True, False, opset=27, domain="")
    check_node(model, inputs)


def test_linear_attention_of_nothing_and_of_one_step() -> None:
    model, inputs = attended("gated_delta", 2, 2, True, False)
    for steps in (0, 1):
        check_node(opened(model), {name: x if name == "state" else x[:, :steps] for name, x in inputs.items()})


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"update_rule": "squared"}, "update_rule must be one of linear, gated, delta, gated_delta"),
        ({"q_num_heads": 5}, "q_num_heads must divide the last dimension"),
        ({"state_window": 2}, "state_window"),
        ({"update_rule": "gated"}, "requires the input decay"),
    ],
)
def test_linear_attention_that_is_refused(attributes: dict[str, Any], reason: str) -> None:
    model, _ = attended("linear", 2, 2, False, False)
    present = {one.name: helper.get_attribute_value(one) for one in model.graph.node[0].attribute}
    del model.graph.node[0].attribute[:]
    model.graph.node[0].attribute.extend(helper.make_attribute(*pair) for pair in {**present, **attributes}.items())
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)


def delta_net(
    tokens: int = 6,
    heads: tuple[int, int] = (2, 4),
    starts: list[int] | None = None,
    rank: int = 3,
    packed: bool = False,
    per_key: bool = False,
    left_out: tuple[str, ...] = (),
    dtype: Any = np.float32,
    **attributes: Any,
) -> tuple[Any, dict[str, np.ndarray]]:
    lead = (BATCH, tokens // BATCH) if rank == 4 else (tokens,)
    shared, own = heads
    inputs = {
        "q": f(*lead, shared, KEY).astype(dtype),
        "k": f(*lead, shared, KEY).astype(dtype),
        "v": f(*lead, own, VALUE).astype(dtype),
        "starts": np.array(starts or [], np.int32),
        "decay": -np.abs(f(*lead, own, KEY) if per_key else f(*lead, own)),
        "beta": 1 / (1 + np.exp(f(*lead, own))),
        "state": f(BATCH, own, VALUE, KEY),
        "a_log": f(own),
        "bias": f(own, KEY) if per_key else f(own),
        "count": np.array([1, 3], np.int32),
        "active": np.array([0], np.int32),
    }
    if packed:
        inputs["q"] = f(tokens, 2 * shared * KEY + own * VALUE)
    left_out += ("k", "v") if packed else ()
    left_out += () if starts else ("starts",)
    left_out += () if "gate_activation" in attributes else ("a_log", "bias")
    left_out += () if "state_update_capacity" in attributes else ("count", "active")
    order = ["" if name in left_out else name for name in inputs]
    while not order[-1]:
        order.pop()
    inputs = {name: inputs[name] for name in order if name}
    outputs = 3 if "state_update_capacity" in attributes else 2
    return node_model("GatedDeltaNet", inputs, **OPTIONS, order=order, outputs=outputs, attributes=attributes), inputs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": np.float16},
        {"rank": 4},
        {"packed": True},
        {"heads": (4, 4)},
        {"starts": [0, 2, 6]},
        {"starts": [0, 0, 6]},
        {"starts": [0, 6, 6]},
        {"starts": [0, 2, 6], "left_out": ("state",)},
        {"per_key": True},
        {"qk_l2_norm": 1},
        {"scale": 0.3},
        {"scale": 3**-0.5},
        {"beta_activation": "sigmoid"},
        {"update_rule": "gated", "left_out": ("beta",), "scale": 0.3},
        {"update_rule": "delta", "left_out": ("decay",)},
        {"update_rule": "linear", "left_out": ("decay", "beta")},
        {"gate_activation": "softplus"},
        {"gate_activation": "qwen", "per_key": True},
        {"gate_activation": "sigmoid", "gate_lower_bound": -2.0},
        {"gate_activation": "kda", "per_key": True},
        {"state_update_capacity": 4, "left_out": ("active",)},
        {"state_update_capacity": 2, "left_out": ("active",), "starts": [0, 2, 6]},
        {"state_update_capacity": 4},
    ],
    ids=str,
)
def test_gated_delta_net(options: dict[str, Any]) -> None:
    model, inputs = delta_net(**options)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"left_out": ("state",)}, "without cu_seqlens the input initial_state is required"),
        ({"left_out": ("state",), "packed": True}, "require the input initial_state"),
        ({"gate_activation": "relu"}, "gate_activation must be none, softplus or sigmoid"),
        ({"gate_activation": "softplus", "left_out": ("bias",)}, "requires the inputs a_log and dt_bias"),
        ({"beta_activation": "relu"}, "beta_activation must be none or sigmoid"),
        ({"state_update_capacity": 4, "left_out": ("count", "active")}, "requires the input capture_count"),
    ],
    ids=str,
)
def test_gated_delta_net_that_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(converter.InvalidModelError, match=reason):
        converter.convert_model(delta_net(**options)[0])


# --- functions of the model that have an operator's name ---


def with_function(model: onnx.ModelProto, body: str) -> onnx.ModelProto:
    """The model with a function of the name of its only node's operator, as builders of models add them."""
    node, names = model.graph.node[0], "abcdefgh"
    inputs = ", ".join(names[: len(node.input)])
    text = f'<domain: "com.microsoft", opset_import: ["" : 17]> {node.op_type} ({inputs}) => (y, z) {{ {body} }}'
    function = onnx.parser.parse_function(text)
    function.attribute.extend(sorted(attribute.name for attribute in node.attribute))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.functions.append(function)
    return result


def test_kernels_count_before_functions_of_the_model() -> None:
    model, inputs = attended("gated_delta", 2, 2, True, False)
    check_node(with_function(model, "y = Neg(c) z = Neg(d)"), inputs)


def test_functions_count_where_the_operator_is_refused() -> None:
    model, _ = attended("gated_delta", 2, 2, True, False)
    model.graph.node[0].attribute.append(helper.make_attribute("state_window", 2))
    own = with_function(model, "y = Neg(c) z = Neg(d)")
    converted = converter.convert_model(own)
    assert {node.op.type for node in converted.nodes()} == {"Parameter", "Negative", "Result"}


def test_functions_count_for_operators_without_kernel() -> None:
    model = node_model("MulInteger", {"a": np.ones(3, np.int8), "b": np.ones(3, np.int8)}, **OPTIONS, outputs=2)
    converted = converter.convert_model(with_function(model, "y = Add(a, b) z = Neg(a)"))
    assert "Add" in {node.op.type for node in converted.nodes()}


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("rule", ["gated", "gated_delta"])
def test_linear_attention_of_values_that_share_keys(rule: str, key_heads: int) -> None:
    model, inputs = attended(rule, 2, 4, True, False)
    inputs["k"] = f(BATCH, STEPS, key_heads * KEY)
    shape = model.graph.input[1].type.tensor_type.shape
    shape.dim[2].dim_value = key_heads * KEY
    converter.convert_model(model, static=True)
    check_node(model, inputs)
    check_node(opened(model), inputs)
