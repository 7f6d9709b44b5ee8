"""AttnLSTM through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(47)
STEPS, BATCH, WIDTH, HIDDEN, MEMORY, DEPTH, ATTENTION, LAYER = 4, 3, 5, 6, 7, 4, 3, 2
NEEDED = ("x", "w", "r", "qw", "mw", "v", "m")


def f(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) * 0.5).astype(np.float32)


def attention_lstm(
    options: str, direction: str = "forward", **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """With some of the inputs that may be left out."""
    count = 2 if direction == "bidirectional" else 1
    width = WIDTH + (LAYER if "aw" in options.split() else DEPTH)
    values = {
        "x": f(STEPS, BATCH, WIDTH),
        "w": f(count, 4 * HIDDEN, width),
        "r": f(count, 4 * HIDDEN, HIDDEN),
        "b": f(count, 8 * HIDDEN),
        "lengths": np.array([4, 2, 3], np.int32),
        "h": f(count, BATCH, HIDDEN),
        "c": f(count, BATCH, HIDDEN),
        "p": f(count, 3 * HIDDEN),
        "qw": f(count, HIDDEN, ATTENTION),
        "mw": f(count, DEPTH, ATTENTION),
        "v": f(count, ATTENTION),
        "m": f(BATCH, MEMORY, DEPTH),
        "memory_lengths": np.array([7, 3, 5], np.int32),
        "aw": f(count, DEPTH + HIDDEN, LAYER),
    }
    order = [name if name in (*NEEDED, *options.split()) else "" for name in values]
    while not order[-1]:
        order.pop()
    feeds = {name: values[name] for name in order if name}
    attributes = {
        "activations": ["sigmoid", "tanh", "tanh"] * count,
        "direction": direction,
        "hidden_size": HIDDEN,
        **attributes,
    }
    model = node_model(
        "AttnLSTM", feeds, opset=1, domain="com.microsoft", outputs=3, order=order, attributes=attributes
    )
    return model, feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("options", ["", "b lengths h c p", "b memory_lengths aw", "lengths h c p memory_lengths aw"])
@pytest.mark.parametrize("input_forget", [0, 1])
def test_attention_lstm(direction: str, options: str, input_forget: int) -> None:
    model, feeds = attention_lstm(options, direction, input_forget=input_forget)
    check_node(model, feeds)


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"direction": "sideways"}, converter.InvalidModelError, "direction must be one of"),
        ({"clip": 1.0}, converter.UnsupportedModelError, "and clip, are not supported"),
        ({"activations": ["tanh"] * 3}, converter.UnsupportedModelError, "activations other than"),
    ],
    ids=str,
)
def test_other_attributes(attributes: dict[str, Any], error: Any, message: str) -> None:
    model, _ = attention_lstm("", **attributes)
    with pytest.raises(error, match=message):
        converter.convert_model(model)
