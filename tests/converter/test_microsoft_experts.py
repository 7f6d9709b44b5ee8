"""onnxruntime's MoE and CausalConvWithState through both engines, against onnxruntime."""

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
