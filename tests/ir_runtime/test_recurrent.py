"""Recurrent cells and sequences of the IR against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset16 as ops
import pytest
from openvino import Type

from ir_runtime.errors import InferenceError
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(23)
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
DEFAULTS = {"rnn": ["tanh"], "gru": ["sigmoid", "tanh"], "lstm": ["sigmoid", "tanh", "tanh"]}
BATCH, STEPS, INPUTS, HIDDEN = 3, 5, 4, 2


def normal(*shape: int) -> np.ndarray:
    return (0.7 * RNG.standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("clip", [0.0, 0.3])
@pytest.mark.parametrize("linear", [False, True])
def test_cells(kind: str, clip: float, linear: bool) -> None:
    gates = GATES[kind]
    feeds = [normal(BATCH, INPUTS), normal(BATCH, HIDDEN)]
    if kind == "lstm":
        feeds.append(normal(BATCH, HIDDEN))
    parameters = [ops.parameter(list(value.shape), Type.f32) for value in feeds]
    w, r = ops.constant(normal(gates * HIDDEN, INPUTS)), ops.constant(normal(gates * HIDDEN, HIDDEN))
    biases = ops.constant(normal((gates + (kind == "gru" and linear)) * HIDDEN))
    options: dict[str, Any] = {"activations": DEFAULTS[kind], "clip": clip}
    if kind == "rnn":
        node = ops.rnn_cell(*parameters, w, r, biases, HIDDEN, activations_alpha=[], activations_beta=[], **options)
    elif kind == "gru":
        node = ops.gru_cell(*parameters, w, r, biases, HIDDEN, **options, linear_before_reset=linear)
    else:
        node = ops.lstm_cell(*parameters, w, r, biases, HIDDEN, **options)
    check_peers([node.output(i) for i in range(node.get_output_size())], parameters, feeds, atol=1e-4)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 2, 3]])
@pytest.mark.parametrize("linear", [False, True])
def test_sequences(kind: str, direction: str, lengths: list[int], linear: bool) -> None:
    gates, count = GATES[kind], 2 if direction == "bidirectional" else 1
    feeds = [normal(BATCH, STEPS, INPUTS), normal(BATCH, count, HIDDEN)]
    if kind == "lstm":
        feeds.append(normal(BATCH, count, HIDDEN))
    parameters = [ops.parameter(list(value.shape), Type.f32) for value in feeds]
    w, r = normal(count, gates * HIDDEN, INPUTS), normal(count, gates * HIDDEN, HIDDEN)
    biases = normal(count, (gates + (kind == "gru" and linear)) * HIDDEN)
    make = {"rnn": ops.rnn_sequence, "gru": ops.gru_sequence, "lstm": ops.lstm_sequence}[kind]
    options: dict[str, Any] = {"activations": DEFAULTS[kind], "clip": 0.0}
    if kind == "gru":
        options["linear_before_reset"] = linear
    node = make(
        *parameters,
        ops.constant(np.array(lengths)),
        *[ops.constant(value) for value in (w, r, biases)],
        HIDDEN,
        direction,
        **options,
    )
    check_peers([node.output(i) for i in range(node.get_output_size())], parameters, feeds, atol=1e-4)


def types(*shapes: str) -> list[TensorType]:
    return [TensorType(f32, PartialShape.parse(shape)) for shape in shapes]


def test_the_hidden_size_must_fit() -> None:
    cell = find_operation("GRUCell", 3)(hidden_size=2)
    assert cell.infer(types("?,4", "3,?", "6,4", "6,2"))[0].shape == PartialShape.parse("3,2")
    with pytest.raises(InferenceError, match="rows of W"):
        cell.infer(types("?,4", "3,2", "8,4", "6,2"))
    with pytest.raises(InferenceError, match="activations are needed"):
        find_operation("GRUCell", 3)(hidden_size=2, activations=["tanh"]).infer(types("?,4", "3,2", "6,4", "6,2"))
    with pytest.raises(InferenceError, match="is not known"):
        find_operation("RNNCell", 1)(hidden_size=2, activations=["hard"]).infer(types("?,4", "3,2", "2,4", "2,2"))
