"""Recurrent networks: cells that take one step, and sequences of them.

Sizes: ``b`` batch, ``s`` steps, ``i`` inputs, ``h`` hidden, ``d`` directions. Gates stand one after
another in the rows of the weights: forget, input, cell, output for LSTM; update, reset, hidden for GRU.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/lstm-sequence-5.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, operation, real, reals, strings
from ir_runtime.graph.shapes import require_rank, same_dimension
from ir_runtime.records import record

from .elementwise import merge_types

Activation = Callable[[Array], Array]

_ACTIVATIONS: dict[str, tuple[Callable[[Array, float, float], Array], float, float]] = {
    "sigmoid": (lambda x, a, b: _sigmoid(x), 0.0, 0.0),
    "tanh": (lambda x, a, b: np.tanh(x), 0.0, 0.0),
    "relu": (lambda x, a, b: np.maximum(x, 0), 0.0, 0.0),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))), 1.0, 0.0),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), 0.0, 0.0),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), 0.0, 0.0),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
}


def _sigmoid(x: Array) -> Array:
    # tanh neither overflows nor loses what is close to 0 or 1
    half = x.dtype.type(0.5)
    return half * np.tanh(half * x) + half


@record
class Weights:
    """One direction's weights ``[gates*h, i]``, recurrent weights ``[gates*h, h]`` and biases."""

    w: Array
    r: Array
    b: Array


class _Recurrent(Operation):
    """Common base of cells and sequences; with ``clip`` above 0 what goes into activations is clipped."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    has_lengths: ClassVar[bool] = False
    """True if the lengths of the sequences stand between the states and the weights."""
    hidden_size: int = integer(default=0)
    activations: Sequence[str] = strings(default=())
    activations_alpha: Sequence[float] = reals(default=())
    activations_beta: Sequence[float] = reals(default=())
    clip: float = real(default=0.0)

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """Each step of each row meets the weights of the inputs and those of the states."""
        x = inputs[0]
        steps = x.element_count / x.shape[-1].value if x.element_count else 0
        first = 1 + self.states + self.has_lengths
        return steps * sum(source.element_count for source in inputs[first : first + 2])

    def functions(self) -> list[Activation]:
        """The activations with their parameters filled in."""
        functions = []
        for index, name in enumerate(self.activations):
            entry = _ACTIVATIONS.get(name.lower())
            if entry is None:
                raise InferenceError(f"the activation '{name}' is not known; known are {', '.join(_ACTIVATIONS)}")
            kernel, alpha, beta = entry
            a = self.activations_alpha[index] if index < len(self.activations_alpha) else alpha
            b = self.activations_beta[index] if index < len(self.activations_beta) else beta
            functions.append(self._fill(kernel, a, b))
        return functions

    @staticmethod
    def _fill(kernel: Callable[[Array, float, float], Array], a: float, b: float) -> Activation:
        return lambda x: kernel(x, a, b).astype(x.dtype, copy=False)

    def check_activations(self, count: int) -> None:
        if len(self.functions()) != count:
            raise InferenceError(f"{count} activations are needed, but got {len(self.activations)}")

    def clipped(self, x: Array) -> Array:
        return np.clip(x, -self.clip, self.clip) if self.clip > 0 else x

    def bias_gates(self) -> int:
        """The size of the biases in multiples of ``h``."""
        return self.gates

    def activation_count(self) -> int:
        return 1

    def step(self, x: Array, states: Sequence[Array], weights: Weights, functions: list[Activation]) -> list[Array]:
        """The next states; ``x`` are the inputs multiplied by their weights already."""
        raise NotImplementedError


class _LSTM(_Recurrent):
    """f, i, o = act1(...), c~ = act2(...), C = f*C + i*c~, H = o*act3(C)."""

    gates = 4
    states = 2
    activations: Sequence[str] = strings(default=("sigmoid", "tanh", "tanh"))

    def activation_count(self) -> int:
        return 3

    def peepholes(self) -> Array | None:
        return None

    def step(self, x: Array, states: Sequence[Array], weights: Weights, functions: list[Activation]) -> list[Array]:
        hidden, cell = states
        forget, into, new, out = np.split(x + hidden @ weights.r.T + weights.b, 4, -1)
        gate, of_cell, of_hidden = functions
        f, i = gate(self.clipped(forget)), gate(self.clipped(into))
        after = f * cell + i * of_cell(self.clipped(new))
        return [gate(self.clipped(out)) * of_hidden(after), after]


class _GRU(_Recurrent):
    """z, r = act1(...), h~ = act2(...), H = (1-z)*h~ + z*H.

    With ``linear_before_reset`` the reset gate multiplies the recurrent product, which then
    has a bias of its own (the fourth).
    """

    gates = 3
    activations: Sequence[str] = strings(default=("sigmoid", "tanh"))
    linear_before_reset: bool = boolean(default=False)

    def activation_count(self) -> int:
        return 2

    def bias_gates(self) -> int:
        return 4 if self.linear_before_reset else 3

    def step(self, x: Array, states: Sequence[Array], weights: Weights, functions: list[Activation]) -> list[Array]:
        (hidden,) = states
        size = hidden.shape[-1]
        gate, of_hidden = functions
        both = x[..., : 2 * size] + hidden @ weights.r[: 2 * size].T + weights.b[: 2 * size]
        z, r = np.split(gate(self.clipped(both)), 2, -1)
        new = x[..., 2 * size :] + weights.b[2 * size : 3 * size]
        last = weights.r[2 * size :].T
        apart = self.linear_before_reset
        new = new + (r * (hidden @ last + weights.b[3 * size :]) if apart else (r * hidden) @ last)
        new = of_hidden(self.clipped(new))
        return [(1 - z) * new + z * hidden]


class _RNN(_Recurrent):
    """H = f(W*x + R*H + b)."""

    gates = 1
    activations: Sequence[str] = strings(default=("tanh",))

    def step(self, x: Array, states: Sequence[Array], weights: Weights, functions: list[Activation]) -> list[Array]:
        return [functions[0](self.clipped(x + states[0] @ weights.r.T + weights.b))]


def _float32(arrays: Sequence[Array]) -> list[Array]:
    return [array.astype(np.float32) if array.dtype.itemsize < 4 else array for array in arrays]


class _Cell(_Recurrent):
    """One step: x ``[b, i]``, states ``[b, h]``, W ``[gates*h, i]``, R ``[gates*h, h]``, B ``[gates*h]``."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        self.check_activations(self.activation_count())
        count = 1 + self.states
        element_type = merge_types(inputs)
        size = Dimension(self.hidden_size, self.hidden_size) if self.hidden_size else DYNAMIC
        x, *states = (require_rank("x or a state", value.shape, 2) for value in inputs[:count])
        w, r = (require_rank("W or R", value.shape, 2) for value in inputs[count : count + 2])
        batch = same_dimension("the batch", x[0], *(state[0] for state in states))
        hidden = same_dimension("the hidden size", size, *(state[1] for state in states))
        same_dimension("the rows of W and R", hidden * self.gates, w[0], r[0])
        same_dimension("the inputs", x[1], w[1])
        if len(inputs) > count + 2:
            same_dimension("the biases", hidden * self.bias_gates(), require_rank("B", inputs[count + 2].shape, 1)[0])
        return [TensorType(element_type, PartialShape([batch, hidden]))] * self.states

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        x, *rest = _float32(inputs)
        states, rest = rest[: self.states], rest[self.states :]
        biases = rest[2] if len(rest) > 2 else np.zeros(rest[0].shape[0] // self.gates * self.bias_gates(), x.dtype)
        weights = self.arranged(Weights(rest[0], rest[1], biases))
        new_states = self.step(x @ weights.w.T, states, weights, self.functions())
        outputs = [state.astype(inputs[0].dtype, copy=False) for state in new_states]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def arranged(self, weights: Weights) -> Weights:
        """The weights with the gates in their usual order."""
        return weights


@operation("RNNCell", opset=1)
class RNNCell1(_RNN, _Cell):
    """A step of a plain recurrent network."""

    inputs = (4, 5)


@operation("GRUCell", opset=3)
class GRUCell3(_GRU, _Cell):
    """A step of a gated recurrent unit."""

    inputs = (4, 5)


@operation("LSTMCell", opset=4)
class LSTMCell4(_LSTM, _Cell):
    """A step of a long short-term memory: outputs are hidden and cell state."""

    inputs = (5, 6)


@operation("LSTMCell", opset=1)
class LSTMCell1(_LSTM, _Cell):
    """Adds an order of the gates, and peepholes as a seventh input, which engines take to be zero."""

    inputs = (5, 7)
    input_forget: bool = boolean(default=False)
    weights_format: str = enum("fico", "icof", "ifco", "iofc", "ifoc", default="ifco")

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.input_forget:
            raise InferenceError("input_forget is not supported, neither here nor by OpenVINO")
        if len(inputs) > 6:
            values = inputs[6].constant
            if values is None or values.any():
                raise InferenceError("peepholes that are not zero are not supported, neither here nor by OpenVINO")
        return super().infer(inputs[:6])

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        return super().evaluate(*inputs[:6])

    def arranged(self, weights: Weights) -> Weights:
        size = weights.r.shape[1]
        rows = np.concatenate([np.arange(size) + self.weights_format.index(gate) * size for gate in "fico"])
        return Weights(weights.w[rows], weights.r[rows], weights.b[rows])


class _Sequence(_Recurrent):
    """Many steps: x ``[b, s, i]``, states ``[b, d, h]``, lengths ``[b]``, W, R and B with ``d`` in front.

    Outputs: all hidden states ``[b, d, s, h]``, which are zero behind a sequence's length, and the
    last states. Direction ``reverse`` starts at the end of each sequence.
    """

    has_lengths = True
    direction: str = enum("forward", "reverse", "bidirectional", default="forward")
    activations: Sequence[str] = strings(default=())

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        self.check_activations(self.activation_count())
        count = 1 + self.states
        element_type = merge_types([*inputs[:count], *inputs[count + 1 :]])
        lengths = inputs[count]
        x, *states = (require_rank("x or a state", value.shape, 3) for value in inputs[:count])
        w, r = (require_rank("W or R", value.shape, 3) for value in inputs[count + 1 : count + 3])
        if not (lengths.element_type.is_integral or lengths.element_type.is_dynamic):
            raise InferenceError(f"the lengths must be integers, but are {lengths.element_type}")
        number = 2 if self.direction == "bidirectional" else 1
        size = Dimension(self.hidden_size, self.hidden_size) if self.hidden_size else DYNAMIC
        many = require_rank("the lengths", lengths.shape, 1)[0]
        batch = same_dimension("the batch", x[0], many, *(state[0] for state in states))
        of_states = (state[1] for state in states)
        directions = same_dimension("the directions", Dimension(number, number), w[0], r[0], *of_states)
        hidden = same_dimension("the hidden size", size, *(state[2] for state in states))
        same_dimension("the inputs", x[2], w[2])
        same_dimension("the rows of W and R", hidden * self.gates, w[1], r[1])
        biases = require_rank("B", inputs[count + 3].shape, 2)
        same_dimension("the biases", hidden * self.bias_gates(), biases[1])
        last = TensorType(element_type, PartialShape([batch, directions, hidden]))
        return [TensorType(element_type, PartialShape([batch, directions, x[1], hidden])), *[last] * self.states]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        count = 1 + self.states
        lengths = inputs[count].reshape(-1)
        x, *states = _float32(inputs[:count])
        w, r, b = _float32(inputs[count + 1 :])
        functions = self.functions()
        batch, steps = x.shape[:2]
        hidden = r.shape[-1]
        every = np.zeros((batch, len(w), steps, hidden), x.dtype)
        last = [np.empty((batch, len(w), hidden), x.dtype) for _ in range(self.states)]
        for direction in range(len(w)):
            backwards = self.direction == "reverse" or direction == 1
            weights = Weights(w[direction], r[direction], b[direction])
            results = self._run(
                x,
                [state[:, direction] for state in states],
                lengths,
                weights,
                functions,
                backwards,
                every[:, direction],
            )
            for target, value in zip(last, results):
                target[:, direction] = value
        dtype = inputs[0].dtype
        return tuple(value.astype(dtype, copy=False) for value in (every, *last))

    def _run(
        self,
        x: Array,
        states: list[Array],
        lengths: Array,
        weights: Weights,
        functions: list[Activation],
        backwards: bool,
        out: Array,
    ) -> list[Array]:
        """Run one direction: write every hidden state into ``out``, and return the last states."""
        batch, steps = x.shape[:2]
        products = x @ weights.w.T
        rows = np.arange(batch)
        ragged = bool((lengths != steps).any())
        for step in range(min(steps, int(lengths.max(initial=0)))):
            if not ragged:
                at = steps - 1 - step if backwards else step
                states = self.step(products[:, at], states, weights, functions)
                out[:, at] = states[0]
                continue
            # A sequence that is over keeps its states, and its places in the output stay zero.
            running = lengths > step
            places = np.where(running, lengths - 1 - step if backwards else step, 0)
            new_states = self.step(products[rows, places], states, weights, functions)
            states = [np.where(running[:, None], new, old) for new, old in zip(new_states, states)]
            out[rows[running], places[running]] = states[0][running]
        return states


@operation("RNNSequence", opset=5)
class RNNSequence5(_RNN, _Sequence):
    """A plain recurrent network over sequences."""

    inputs = (6, 6)
    activations: Sequence[str] = strings(default=())


@operation("GRUSequence", opset=5)
class GRUSequence5(_GRU, _Sequence):
    """Gated recurrent units over sequences."""

    inputs = (6, 6)
    activations: Sequence[str] = strings(default=())


@operation("LSTMSequence", opset=5)
class LSTMSequence5(_LSTM, _Sequence):
    """Long short-term memory over sequences."""

    inputs = (7, 7)
    activations: Sequence[str] = strings(default=())
