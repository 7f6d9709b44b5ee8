"""Gates of onnxruntime's language models through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
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
