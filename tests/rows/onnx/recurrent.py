"""RNN, GRU and LSTM, against onnxruntime."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.rows.row import InOpset, Row, Tolerance, const, each, rows

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 2
SUMS, NARROW = Tolerance(1e-3, 1e-4), Tolerance(5e-3, 5e-3)


def network(
    op_type: str,
    opset: int = 14,
    *,
    biases: bool = True,
    initial: bool = True,
    lengths: Sequence[int] | None = None,
    peepholes: bool = False,
    stored: str = "wrbp",
    dtype: Any = np.float32,
    dims: Any = None,
    **options: Any,
) -> Iterator[Row]:
    """Yield rows of a network; ``stored`` are the inputs that are initializers, dimensions in ``dims`` may be open."""
    rng = np.random.default_rng(21)
    gates, count = GATES[op_type], 2 if options.get("direction") == "bidirectional" else 1

    def normal(*shape: int) -> np.ndarray:
        return (0.7 * rng.standard_normal(shape)).astype(dtype)

    states = (normal(count, BATCH, HIDDEN), normal(count, BATCH, HIDDEN))
    values = {
        "x": normal(STEPS, BATCH, INPUTS),
        "w": normal(count, gates * HIDDEN, INPUTS),
        "r": normal(count, gates * HIDDEN, HIDDEN),
        "b": normal(count, 2 * gates * HIDDEN) if biases else None,
        "lengths": None if lengths is None else np.array(lengths, np.int32),
        "h": states[0] if initial else None,
        "c": states[1] if initial and op_type == "LSTM" else None,
        "p": normal(count, 3 * HIDDEN) if peepholes else None,
    }
    if options.get("layout"):
        values |= {name: values[name].transpose(1, 0, 2).copy() for name in "xhc" if values[name] is not None}
    while list(values.values())[-1] is None:
        values.popitem()
    inputs = {name: const(value) if name in stored and value is not None else value for name, value in values.items()}
    if dims == "partly":
        dims = each(None, {"x": [None, None, INPUTS], "lengths": [None], "h": [count, None, HIDDEN],
                           "c": [count, None, HIDDEN]})  # fmt: skip
    yield from rows(op_type, opset, **{"hidden_size": HIDDEN, "tolerance": SUMS, "dims": dims, **inputs, **options},
                    outputs=3 if op_type == "LSTM" else 2)  # fmt: skip


DIRECTIONS = ("forward", "reverse", "bidirectional")
SPELLED = {"RNN": ["Softsign"], "GRU": ["Sigmoid", "Softsign"], "LSTM": ["Sigmoid", "Tanh", "Softsign"]}
ACTIVATIONS: tuple[dict[str, Any], ...] = (
    {"activations": ["Relu"]},
    {"activations": ["Sigmoid"]},
    {"activations": ["Affine"], "activation_alpha": [0.3], "activation_beta": [0.6]},
    {"activations": ["LeakyRelu"], "activation_alpha": [0.3]},
    {"activations": ["ThresholdedRelu"], "activation_alpha": [0.3]},
    {"activations": ["ScaledTanh"], "activation_alpha": [0.3], "activation_beta": [0.6]},
    {"activations": ["HardSigmoid"], "activation_alpha": [0.3], "activation_beta": [0.6]},
    {"activations": ["HardSigmoid"]},
    {"activations": ["Elu"], "activation_alpha": [0.3]},
    {"activations": ["Softsign"]},
    {"activations": ["Softplus"]},
)
SOME = ([5, 2, 3], None)
MIXED = ["Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Relu", "Tanh"]
ROWS = [
    *(row for op_type, direction in itertools.product(GATES, DIRECTIONS) for row in (
        *(row for lengths in (*SOME, [5, 5, 5]) for row in network(
            op_type, label="directions", direction=direction, lengths=lengths, dims="partly")),
        # States of a known batch beside data of any batch.
        *(row for lengths in SOME for row in network(
            op_type, label="states", direction=direction, lengths=lengths, stored="wrbphc", dims="partly")),
        # The specification leaves the last states of empty sequences open; onnxruntime returns 0 whatever the first.
        *(row for lengths in ([0, 2, 5], [0, 0, 0]) for row in network(
            op_type, label="empty", direction=direction, lengths=lengths, dims="partly")))),
    *(row for op_type, biases, initial in itertools.product(GATES, (False, True), (False, True)) for row in network(
        op_type, label="optional", biases=biases, initial=initial, direction="bidirectional", dims="partly")),
    *(row for op_type, opset in itertools.product(GATES, (7, 14, 22)) for row in network(op_type, opset)),
    # onnxruntime has none of the first versions; apart from a flag without effect they mean what version 7 does.
    *(row for op_type, opset in (("RNN", 1), ("GRU", 1), ("GRU", 3), ("LSTM", 1)) for row in network(
        op_type, opset, output_sequence=1, expect=InOpset(7))),
    # onnxruntime has no layout; what it computes otherwise is the same with dimensions exchanged.
    *(row for op_type, direction in itertools.product(GATES, DIRECTIONS[:2]) for row in network(
        op_type, label="batch_first", direction=direction, layout=1)),
    *(row for op_type in GATES for row in network(op_type, label="clip", clip=0.3)),
    *network("GRU", label="clip", clip=0.3, linear_before_reset=1),
    *(row for direction, lengths, biases, activation in itertools.product(
        ("forward", "bidirectional"), SOME, (False, True), ("Tanh", "Softsign"))
      for row in network("GRU", label="linear_before_reset", direction=direction, lengths=lengths, biases=biases,
                         linear_before_reset=1, activations=["Sigmoid", activation] * (1 + (direction != "forward")))),
    *(row for direction, lengths in itertools.product(DIRECTIONS, SOME) for row in network(
        "LSTM", label="peepholes", peepholes=True, direction=direction, lengths=lengths, dims="partly")),
    *(row for peepholes in (False, True) for row in network(
        "LSTM", label="input_forget", peepholes=peepholes, input_forget=1)),
    *network("RNN", label="activations", direction=each("forward", "reverse"),
             also=each(*ACTIVATIONS, *({"clip": 0.4, **given} for given in ACTIVATIONS))),
    *network("RNN", label="mixed", activations=["Tanh", "Relu"], direction="bidirectional", lengths=[5, 2, 3]),
    *network("LSTM", label="mixed", activations=MIXED, direction="bidirectional", activation_alpha=[0.25],
             activation_beta=[0.4]),
    *network("LSTM", label="by_inputs", stored="", peepholes=True),
    *(row for op_type, direction, biases, lengths in itertools.product(
        GATES, ("forward", "bidirectional"), (False, True), ([4, 2, 3], None))
      for row in network(op_type, label="by_inputs", direction=direction, biases=biases,
                         lengths=lengths, stored="")),
    *(row for op_type, dtype in itertools.product(GATES, ("float16", "float64")) for row in network(
        op_type, label="types", dtype=dtype, tolerance=NARROW, also=each({}, {"activations": SPELLED[op_type]}))),
    *network("RNN", direction="sideways", refused="direction must be"),
    *network("LSTM", activations=["Tanh"], refused="3 activations are needed"),
    *network("RNN", activations=["Swish"], refused="not one of ONNX's"),
    *network("GRU", hidden_size=3, refused="W must have the shape"),
]  # fmt: skip
