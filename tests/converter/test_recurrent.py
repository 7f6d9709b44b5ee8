"""RNN, GRU and LSTM through both engines, against onnxruntime or ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from tests.engines import ENGINES, check_node, node_model, opened, run, run_onnxruntime

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 2


def network(
    op_type: str,
    *,
    opset: int = 14,
    biases: bool = True,
    initial: bool = True,
    lengths: list[int] | None = None,
    peepholes: bool = False,
    dynamic: bool = False,
    given: bool = False,
    stored: bool = False,
    dtype: Any = np.float32,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model with its feeds; ``given`` weights are inputs of the graph, ``stored`` states are constants."""
    rng = np.random.default_rng(21)
    gates = GATES[op_type]
    count = 2 if attributes.get("direction") == "bidirectional" else 1

    def normal(*shape: int) -> np.ndarray:
        return (0.7 * rng.standard_normal(shape)).astype(dtype)

    batch_first = bool(attributes.get("layout"))
    x = normal(*(BATCH, STEPS) if batch_first else (STEPS, BATCH), INPUTS)
    feeds: dict[str, Any] = {"x": x}
    weights = {"w": normal(count, gates * HIDDEN, INPUTS), "r": normal(count, gates * HIDDEN, HIDDEN)}
    if biases:
        weights["b"] = normal(count, 2 * gates * HIDDEN)
    shape = (BATCH, count, HIDDEN) if batch_first else (count, BATCH, HIDDEN)
    if lengths is not None:
        feeds["lengths"] = np.array(lengths, np.int32)
    if initial:
        feeds["h"] = normal(*shape)
        if op_type == "LSTM":
            feeds["c"] = normal(*shape)
    if peepholes:
        weights["p"] = normal(count, 3 * HIDDEN)
    present = {**feeds, **weights}
    order = [name if name in present else "" for name in ("x", "w", "r", "b", "lengths", "h", "c", "p")]
    while not order[-1]:
        order.pop()
    shapes: dict[str, Any] | None = None
    if dynamic:
        shapes = {"x": [None, None, INPUTS], "lengths": [None]}
        shapes |= {name: [None, count, HIDDEN] if batch_first else [count, None, HIDDEN] for name in ("h", "c")}
    if given:
        feeds, weights = present, {}
    if stored:
        weights |= {name: feeds.pop(name) for name in ("h", "c") if name in feeds}
    model = node_model(
        op_type,
        feeds,
        opset=opset,
        outputs=3 if op_type == "LSTM" else 2,
        attributes={"hidden_size": HIDDEN, **attributes},
        constants=weights,
        order=order,
        shapes=shapes,
    )
    return model, feeds


def check(op_type: str, expected: Any = None, **options: Any) -> None:
    model, feeds = network(op_type, **options)
    check_node(model, feeds, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 2, 3], [5, 5, 5]])
def test_directions(op_type: str, direction: str, dynamic: bool, lengths: list[int] | None) -> None:
    check(op_type, direction=direction, dynamic=dynamic, lengths=lengths)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 2, 3]])
def test_constant_states(op_type: str, direction: str, dynamic: bool, lengths: list[int] | None) -> None:
    """States of a known batch beside data of any batch."""
    check(op_type, direction=direction, dynamic=dynamic, lengths=lengths, stored=True)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", [[0, 2, 5], [0, 0, 0]])
def test_last_states_of_empty_sequences_are_zero(
    op_type: str, direction: str, dynamic: bool, lengths: list[int]
) -> None:
    """The specification leaves them open; onnxruntime returns 0, whatever the initial state."""
    check(op_type, direction=direction, dynamic=dynamic, lengths=lengths)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_last_states_of_empty_sequences_in_a_static_model(op_type: str, direction: str) -> None:
    model, feeds = network(op_type, direction=direction, lengths=[0, 2, 5])
    converted = converter.convert_model(model, static=True)
    assert any(node.op.type == f"{op_type}Sequence" for node in converted.nodes())
    expected = run_onnxruntime(model, feeds)
    for engine in ENGINES:
        for actual, value in zip(run(engine, ir_runtime.model_to_bytes(converted), feeds), expected, strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-3, atol=1e-4, err_msg=engine)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_optional_inputs(op_type: str, biases: bool, initial: bool, dynamic: bool) -> None:
    check(op_type, biases=biases, initial=initial, dynamic=dynamic, direction="bidirectional")


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("opset", [7, 14, 22])
def test_versions(op_type: str, opset: int) -> None:
    check(op_type, opset=opset)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_the_first_versions(op_type: str) -> None:
    """onnxruntime has none of these; apart from a flag without effect they mean what version 7 does."""
    opsets = [1, 3] if op_type == "GRU" else [1]
    model, feeds = network(op_type, opset=7)
    expected = run_onnxruntime(model, feeds)
    for opset in opsets:
        check(op_type, expected, opset=opset, output_sequence=1)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_batch_first(op_type: str, direction: str) -> None:
    """onnxruntime has no layout; what it computes otherwise is the same with dimensions exchanged."""
    model, feeds = network(op_type, direction=direction)
    every, *last = run_onnxruntime(model, feeds)
    wanted = [every.transpose(2, 0, 1, 3), *[state.transpose(1, 0, 2) for state in last]]
    turned, _ = network(op_type, direction=direction, layout=1)
    swapped = {name: value.transpose(1, 0, 2) for name, value in feeds.items()}
    check_node(turned, swapped, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("linear", [0, 1])
def test_clip(op_type: str, linear: int) -> None:
    more = {"linear_before_reset": linear} if op_type == "GRU" else {}
    check(op_type, clip=0.3, **more)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [5, 2, 3]])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("activation", ["Tanh", "Softsign"])
def test_gru_linear_before_reset(direction: str, lengths: list[int] | None, biases: bool, activation: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    check(
        "GRU",
        direction=direction,
        lengths=lengths,
        biases=biases,
        linear_before_reset=1,
        activations=["Sigmoid", activation] * count,
        dynamic=True,
    )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [5, 2, 3]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_lstm_peepholes(direction: str, lengths: list[int] | None, dynamic: bool) -> None:
    check("LSTM", peepholes=True, direction=direction, lengths=lengths, dynamic=dynamic)


@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm_input_forget(peepholes: bool) -> None:
    check("LSTM", peepholes=peepholes, input_forget=1)


@pytest.mark.parametrize(
    ("activations", "alphas", "betas"),
    [
        (["Relu"], None, None),
        (["Sigmoid"], None, None),
        (["Affine"], [0.3], [0.6]),
        (["LeakyRelu"], [0.3], None),
        (["ThresholdedRelu"], [0.3], None),
        (["ScaledTanh"], [0.3], [0.6]),
        (["HardSigmoid"], [0.3], [0.6]),
        (["HardSigmoid"], None, None),
        (["Elu"], [0.3], None),
        (["Softsign"], None, None),
        (["Softplus"], None, None),
    ],
)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_activations(
    activations: list[str], alphas: list[float] | None, betas: list[float] | None, direction: str
) -> None:
    given = {"activation_alpha": alphas, "activation_beta": betas}
    attributes = {name: value for name, value in given.items() if value is not None}
    check("RNN", activations=activations, direction=direction, **attributes)
    check("RNN", activations=activations, direction=direction, dynamic=True, clip=0.4, **attributes)


def test_activations_that_differ_between_directions() -> None:
    check("RNN", activations=["Tanh", "Relu"], direction="bidirectional", lengths=[5, 2, 3])
    names = ["Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Relu", "Tanh"]
    check("LSTM", activations=names, direction="bidirectional", activation_alpha=[0.25], activation_beta=[0.4])


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("peepholes", [False, True])
def test_weights_given_at_execution(op_type: str, peepholes: bool) -> None:
    check(op_type, given=True, peepholes=peepholes and op_type == "LSTM")


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("lengths", [None, [4, 2, 3]])
def test_no_dimension_is_known(
    op_type: str, direction: str, biases: bool, given: bool, lengths: list[int] | None
) -> None:
    model, feeds = network(op_type, direction=direction, biases=biases, given=given, initial=True, lengths=lengths)
    check_node(opened(model), feeds, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("spelled_out", [False, True])
def test_types(op_type: str, dtype: Any, spelled_out: bool) -> None:
    options: dict[str, Any] = {}
    if spelled_out:
        options["activations"] = {
            "RNN": ["Softsign"],
            "GRU": ["Sigmoid", "Softsign"],
            "LSTM": ["Sigmoid", "Tanh", "Softsign"],
        }[op_type]
    model, feeds = network(op_type, dtype=dtype, **options)
    wide_model, wide = network(op_type, **options)
    rounded = {name: value.astype(dtype).astype(np.float32) for name, value in wide.items()}
    expected = [value.astype(dtype) for value in run_onnxruntime(wide_model, rounded)]
    check_node(model, feeds, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("op_type", "options", "message"),
    [
        ("RNN", {"direction": "sideways"}, "direction must be"),
        ("LSTM", {"activations": ["Tanh"]}, "3 activations are needed"),
        ("RNN", {"activations": ["Swish"]}, "not one of ONNX's"),
        ("GRU", {"hidden_size": 3}, "W must have the shape"),
    ],
)
def test_errors(op_type: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(network(op_type, **options)[0])
