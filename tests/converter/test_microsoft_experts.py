"""onnxruntime's mixtures of experts and causal convolutions through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, opened, run_onnxruntime
from tests.random_data import generator

R = generator(12)
TOKENS, HIDDEN, INNER, EXPERTS = 5, 8, 6, 4


def f(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) * 0.5).astype(np.float32)


def experts(wide: int = 1, biases: bool = True) -> dict[str, np.ndarray]:
    weights = {
        "w1": f(EXPERTS, wide * INNER, HIDDEN),
        "b1": f(EXPERTS, wide * INNER),
        "w2": f(EXPERTS, HIDDEN, INNER),
        "b2": f(EXPERTS, HIDDEN),
    }
    return weights if biases else {name: value for name, value in weights.items() if name.startswith("w")}


def mixture(x: np.ndarray, weights: dict[str, np.ndarray], **attributes: Any) -> tuple[Any, dict[str, np.ndarray]]:
    feeds = {"x": x, "scores": f(TOKENS, EXPERTS) * 4}
    order = [name if name in {**feeds, **weights} else "" for name in ("x", "scores", "w1", "b1", "w2", "b2", "w3")]
    while not order[-1]:
        order.pop()
    model = node_model(
        "MoE", feeds, constants=weights, order=order, attributes=attributes, opset=1, domain="com.microsoft"
    )
    return model, feeds


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
@pytest.mark.parametrize(("chosen", "normalized"), [(1, 0), (2, 0), (2, 1), (4, 1)])
def test_experts(activation: str, chosen: int, normalized: int) -> None:
    options: dict[str, Any] = {"k": chosen, "normalize_routing_weights": normalized, "activation_type": activation}
    if activation == "swiglu":
        options |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 0.5, "swiglu_limit": 0.8}
    model, feeds = mixture(f(1, TOKENS, HIDDEN), experts(1 + (activation == "swiglu")), **options)
    check_node(model, feeds)
    check_node(opened(model), feeds)


def test_experts_without_biases_and_batches() -> None:
    model, feeds = mixture(f(TOKENS, HIDDEN), experts(biases=False), k=2)
    check_node(model, feeds)
    check_node(opened(model), feeds)


def test_swiglu_in_other_layouts() -> None:
    # onnxruntime's CPU kernel takes gates and what they let pass as neighbours only.
    weights, x = experts(2), f(1, TOKENS, HIDDEN)
    options = {"k": 2, "activation_type": "swiglu"}
    model, feeds = mixture(x, weights, swiglu_fusion=1, **options)
    apart = {
        name: np.concatenate([value[:, 0::2], value[:, 1::2]], 1) if name in ("w1", "b1") else value
        for name, value in weights.items()
    }
    expected = run_onnxruntime(model, feeds)
    other, _ = mixture(x, apart, swiglu_fusion=2, **options)
    check_node(other, feeds, expected)
    two = {**weights, "w1": weights["w1"][:, 0::2], "w3": weights["w1"][:, 1::2]}
    two["b1"] = np.zeros_like(weights["b1"][:, 0::2])
    model, _ = mixture(x, {**weights, "b1": np.zeros_like(weights["b1"])}, swiglu_fusion=1, **options)
    other, _ = mixture(x, two, swiglu_fusion=0, **options)
    check_node(other, feeds, run_onnxruntime(model, feeds))


def one_expert(x: np.ndarray, activated: Any, weights: dict[str, np.ndarray]) -> np.ndarray:
    """What a mixture makes where one expert has the whole share: by hand, for what onnxruntime's CPU kernel lacks."""
    inner = activated(x.astype(np.float64) @ weights["w1"][0].T + weights["b1"][0])
    return (inner @ weights["w2"][0].T + weights["b2"][0]).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def limited(gate: np.ndarray, linear: np.ndarray) -> np.ndarray:
    return np.minimum(gate * sigmoid(1.7 * gate), 0.2) * (np.clip(linear, -0.2, 0.2) + 0.5)


LATE = {"activation_alpha": 1.7, "activation_beta": 0.5, "swiglu_limit": 0.2, "swiglu_limit_after_activation": 1}


@pytest.mark.parametrize(
    ("options", "activated"),
    [
        ({"activation_type": "relu2"}, lambda x: np.maximum(x, 0) ** 2),
        ({"activation_type": "geglu", "swiglu_fusion": 1}, lambda x: gelu(x[:, 0::2]) * x[:, 1::2]),
        ({"activation_type": "geglu", "swiglu_fusion": 2}, lambda x: gelu(x[:, :INNER]) * x[:, INNER:]),
        ({"activation_type": "swiglu", "swiglu_fusion": 1, **LATE}, lambda x: limited(x[:, 0::2], x[:, 1::2])),
    ],
)
def test_activations_of_other_processors(options: dict[str, Any], activated: Any) -> None:
    """One expert of each token's is chosen, and has the whole share."""
    weights, x = experts(1 + ("swiglu_fusion" in options)), f(TOKENS, HIDDEN) * 3
    model, feeds = mixture(x, weights, k=1, normalize_routing_weights=1, **options)
    feeds["scores"] = np.tile(np.eye(EXPERTS, dtype=np.float32)[0] * 5, (TOKENS, 1))
    check_node(model, feeds, [one_expert(x, activated, weights)])


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (experts(), {"activation_type": "geglu"}, "geglu needs its two halves"),
        (experts(), {"use_sparse_mixer": 1}, "sparse mixer"),
        (experts(), {"activation_type": "swiglu"}, "needs fc3_experts_weights"),
        (experts(), {"activation_type": "elu"}, "activation_type must be"),
        ({**experts(), "w3": f(EXPERTS, INNER, HIDDEN)}, {"activation_type": "silu"}, "not supported with the act"),
    ],
)
def test_refusals(weights: dict[str, np.ndarray], options: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(mixture(f(1, TOKENS, HIDDEN), weights, **options)[0])


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("taps", [1, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("past", [True, False])
@pytest.mark.parametrize("channels_last", [0, 1])
def test_causal_convolution(channels_last: int, past: bool, dilation: int, taps: int, activation: str) -> None:
    reach = (taps - 1) * dilation
    feeds = {"x": f(2, 5, 6) if not channels_last else f(2, 6, 5)}
    constants = {"w": f(5, 1, taps), "b": f(5)}
    order = ["x", "w", "b"]
    if past and reach:
        feeds["past"] = f(2, reach, 5) if channels_last else f(2, 5, reach)
        order.append("past")
    attributes = {"activation": activation, "dilation": dilation, "channels_last": channels_last}
    model = node_model(
        "CausalConvWithState",
        feeds,
        constants=constants,
        order=order,
        attributes=attributes,
        outputs=2,
        opset=1,
        domain="com.microsoft",
    )
    check_node(model, feeds)
    check_node(opened(model), feeds)


@pytest.mark.parametrize("past", [True, False])
def test_causal_convolution_of_onnx(past: bool) -> None:
    feeds = {"x": f(2, 5, 6), **({"past": f(2, 5, 3)} if past else {})}
    order = ["x", "w", "b", *(["past"] if past else [])]
    constants = {"w": f(5, 1, 4), "b": f(5)}
    attributes = {"activation": "silu"}
    model = node_model(
        "CausalConvWithState", feeds, constants=constants, order=order, attributes=attributes, outputs=2, opset=27
    )
    check_node(model, feeds)
    assert "Loop" not in {node.op.type for node in converter.convert_model(model).nodes()}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"state_length": 7}, "states of another length than"),
        ({"state_update_capacity": 2}, "updates of them"),
        ({"input_channels": 2}, "a part of the input's channels"),
        ({"state_channels_last": 1}, "another layout"),
        ({"state_window": 3}, "states of another length than"),
    ],
)
def test_attributes_of_other_execution_providers_are_refused(attributes: dict[str, int], message: str) -> None:
    constants = {"w": f(5, 1, 3)}
    model = node_model(
        "CausalConvWithState",
        {"x": f(2, 5, 6)},
        constants=constants,
        attributes=attributes,
        outputs=2,
        opset=1,
        domain="com.microsoft",
    )
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


# --- quantized experts, and their router ---

WIDE = 32


def quantized(
    bits: int, block: int | None, zero_points: bool, weights: bool = False, **attributes: Any
) -> tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model of QMoE, its inputs, and its constants."""

    def parts(name: str, rows: int) -> dict[str, np.ndarray]:
        blocks = 1 if block is None else WIDE // block
        codes = R.integers(0, 256, (EXPERTS, rows, WIDE * bits // 8)).astype(np.uint8)
        scales = np.abs(f(EXPERTS, rows, blocks)) * 0.1
        found = {f"w{name}": codes, f"s{name}": scales if block else scales[..., 0]}
        if zero_points:
            shape = (EXPERTS, rows, -(-blocks * bits // 8)) if block else (EXPERTS, -(-rows * bits // 8))
            found[f"z{name}"] = R.integers(0, 256, shape).astype(np.uint8)
        return found

    constants = {**parts("1", 2 * WIDE), **parts("2", WIDE), "b1": f(EXPERTS, 2 * WIDE)}
    inputs = {
        "x": f(TOKENS, WIDE),
        "scores": f(TOKENS, EXPERTS),
        **({"shares": np.abs(f(TOKENS, EXPERTS))} if weights else {}),
    }
    listed = ["x", "scores", "w1", "s1", "b1", "w2", "s2", "b2", "", "", "", "z1", "z2", "", "shares"]
    order = [name if name in {**inputs, **constants} else "" for name in listed]
    while not order[-1]:
        order.pop()
    given = {
        "k": 2,
        "expert_weight_bits": bits,
        "weights_prepacked": 0,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
    }
    given |= {"block_size": block} if block else {}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": order, "constants": constants}
    return node_model("QMoE", inputs, **options, attributes={**given, **attributes}), inputs, constants


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("zero_points", [False, True])
def test_quantized_experts(bits: int, block: int | None, zero_points: bool) -> None:
    model, inputs, constants = quantized(bits, block, zero_points, swiglu_limit=2.0, activation_alpha=1.7)
    expected = None
    if bits == 8 and block:
        # onnxruntime rounds the data to 8 bits there: MoE has the numbers of the same weights.
        expected = run_onnxruntime(*same_in_float32(constants, inputs))
    check_node(model, inputs, expected, atol=1e-4)
    check_node(opened(model), inputs, expected, atol=1e-4)


def same_in_float32(
    constants: dict[str, np.ndarray], inputs: dict[str, np.ndarray]
) -> tuple[Any, dict[str, np.ndarray]]:
    """MoE with the weights of 8 bits in blocks of 16 as numbers."""
    weights = {}
    for name in ("1", "2"):
        codes = constants[f"w{name}"].astype(np.float32)
        zero = constants.get(f"z{name}", np.float32(128))
        scales = constants[f"s{name}"]
        spread = [np.repeat(one, 16, 2) if np.ndim(one) else one for one in (zero, scales)]
        weights[f"w{name}"] = ((codes - spread[0]) * spread[1]).astype(np.float32)
    attributes = {"k": 2, "normalize_routing_weights": 1, "activation_type": "swiglu", "swiglu_fusion": 1}
    attributes |= {"swiglu_limit": 2.0, "activation_alpha": 1.7}
    order = ["x", "scores", "w1", "b1", "w2"]
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": order, "attributes": attributes}
    return node_model("MoE", inputs, constants={**weights, "b1": constants["b1"]}, **options), inputs


@pytest.mark.parametrize("chosen", [1, 3])
@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("weights", [False, True])
def test_shares_of_quantized_experts(chosen: int, normalized: int, weights: bool) -> None:
    model, inputs, _ = quantized(4, 16, True, weights, k=chosen, normalize_routing_weights=normalized)
    check_node(model, inputs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"quant_type": "fp8"}, "weights of the type 'fp8' are not supported"),
        ({"weights_prepacked": 1}, "packed for one kind of processor"),
        ({"expert_weight_bits": 3}, "may have 2, 4 or 8 bits, but have 3"),
        ({"swiglu_fusion": 5}, "swiglu_fusion must be 0, 1 or 2, but is 5"),
    ],
    ids=str,
)
def test_quantized_experts_that_are_refused(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(quantized(4, 16, False, **attributes)[0])


GROUPS = [(1, 1, 2, 2), (2, 1, 2, 2), (4, 2, 2, 3), (4, 4, 1, 1), (2, 2, 9, 4), (4, 2, 1, 4)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("groups", "chosen_groups", "of_group", "chosen"), GROUPS)
def test_group_router(dtype: Any, groups: int, chosen_groups: int, of_group: int, chosen: int) -> None:
    attributes = {"n_group": groups, "topk_group": chosen_groups, "group_topk": of_group, "top_k": chosen}
    inputs = {"logits": f(6, 8).astype(dtype), "bias": f(8)}
    model = node_model("MoEGroupRouter", inputs, opset=1, domain="com.microsoft", attributes=attributes)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize("projected", [False, True])
def test_group_router_of_all_scores(projected: bool) -> None:
    inputs = {
        "logits": f(6, 256 if projected else 8),
        "bias": f(8),
        **({"weight": f(8, 256) * 0.1} if projected else {}),
    }
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "outputs": 3, "attributes": {"top_k": 2}}
    model = node_model("MoEGroupRouter", inputs, **options)
    model.graph.node[0].output[0] = ""
    del model.graph.output[0]
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize("starts", [[0, 2, 7], [0, 3, 4, 7]], ids=str)
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("capacity", [0, 3])
def test_causal_convolution_of_packed_tokens(starts: list[int], activation: str, dilation: int, capacity: int) -> None:
    batches = len(starts) - 1
    inputs = {"x": f(7, 4), "starts": np.array(starts, np.int32), "state": f(batches, 4, 2 * dilation)}
    attributes: dict[str, Any] = {"activation": activation, "dilation": dilation}
    order = ["x", "w", "starts", "b", "state"]
    if capacity:
        inputs["count"] = np.arange(1, batches + 1).astype(np.int32)
        attributes["state_update_capacity"] = capacity
        order.append("count")
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": order, "attributes": attributes}
    constants = {"w": f(4, 1, 3), "b": f(4)}
    outputs = 3 if capacity else 2
    model = node_model("VarlenCausalConvWithState", inputs, constants=constants, outputs=outputs, **options)
    check_node(model, inputs)
    check_node(opened(model), inputs)
