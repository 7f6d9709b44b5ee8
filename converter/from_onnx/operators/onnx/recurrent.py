"""ONNX's recurrent networks in all their versions: RNN, GRU and LSTM.

Most networks become the IR's sequences (RNNSequence, GRUSequence, LSTMSequence). Peepholes, ``input_forget``,
activations other than Sigmoid, Tanh and Relu, activations that differ between the directions, and quantized data become
a TensorIterator over the steps. So do sequences with lengths whose batch or steps are dynamic: OpenVINO's CPU plug-in
runs such sequences to their end, whatever their lengths.

Sizes: ``s`` steps, ``b`` batch, ``i`` inputs, ``h`` hidden, ``d`` directions. X is ``[s, b, i]``, W
``[d, gates*h, i]``, R ``[d, gates*h, h]``, B ``[d, 2*gates*h]``, the initial states ``[d, b, h]``;
with ``layout`` 1 the batch comes first. Outputs are all hidden states ``[s, d, b, h]`` and the last states.
https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from converter.from_onnx.operators.onnx.activation import thresholded_relu
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import InputMap, Node, Operation, Output, OutputMap, SubGraph
from ir_runtime.operations import (
    activation,
    control_flow,
    elementwise,
    matmul,
    movement,
    recurrent,
    reduction,
    reordering,
    slicing,
)
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, multiply, reshape
from ir_runtime.rewriting.shape_layers import arange, as_i64, concat_lists, dim_of, dimension_list
from ir_runtime.rewriting.submodel import body_of
from ir_runtime.rewriting.submodel import parameter as new_parameter

from .quantization import dequantize, dynamic_quantize


@record
class Activation:
    """An activation with its parameters."""

    name: str
    alpha: float
    beta: float

    def apply(self, ctx: Context, x: Output) -> Output:
        return _ACTIVATIONS[self.name].emit(ctx, x, self.alpha, self.beta)


@record
class _ActivationType:
    """An activation: its function, the number of its parameters, and their defaults."""

    emit: Callable[[Context, Output, float, float], Output]
    parameters: int = 0
    alpha: float = 0.0
    beta: float = 0.0


def _single(make: Callable[[], Operation]) -> Callable[[Context, Output, float, float], Output]:
    return lambda ctx, x, a, b: ctx.emit(make(), x)


def _affine(ctx: Context, x: Output, a: float, b: float) -> Output:
    return layers.add(ctx, layers.multiply(ctx, x, ctx.like(a, x)), ctx.like(b, x))


def _hard_sigmoid(ctx: Context, x: Output, a: float, b: float) -> Output:
    return ctx.emit(activation.Clamp1(min=0.0, max=1.0), _affine(ctx, x, a, b))


def _leaky_relu(ctx: Context, x: Output, a: float, b: float) -> Output:
    negative = layers.less(ctx, x, ctx.like(0, x))
    return layers.select(ctx, negative, layers.multiply(ctx, x, ctx.like(a, x)), x)


def _scaled_tanh(ctx: Context, x: Output, a: float, b: float) -> Output:
    inner = ctx.emit(elementwise.Tanh1(), layers.multiply(ctx, x, ctx.like(b, x)))
    return layers.multiply(ctx, inner, ctx.like(a, x))


_ACTIVATIONS = {
    "sigmoid": _ActivationType(_single(activation.Sigmoid1)),
    "tanh": _ActivationType(_single(elementwise.Tanh1)),
    "relu": _ActivationType(_single(activation.ReLU1)),
    "softplus": _ActivationType(_single(activation.SoftPlus4)),
    "softsign": _ActivationType(_single(activation.SoftSign9)),
    "elu": _ActivationType(lambda ctx, x, a, b: ctx.emit(activation.Elu1(alpha=a), x), 1, 1.0),
    "leakyrelu": _ActivationType(_leaky_relu, 1, 0.01),
    "thresholdedrelu": _ActivationType(lambda ctx, x, a, b: thresholded_relu(ctx, x, alpha=a), 1, 1.0),
    "affine": _ActivationType(_affine, 2, 1.0, 0.0),
    "hardsigmoid": _ActivationType(_hard_sigmoid, 2, 0.2, 0.5),
    "scaledtanh": _ActivationType(_scaled_tanh, 2, 1.0, 1.0),
}


def activations_of(
    ctx: Context,
    names: Sequence[str],
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
) -> list[Activation]:
    """The activations by name; ``alphas`` and ``betas`` go in order to those that have such a parameter."""
    alpha_left, beta_left = list(alphas or ()), list(betas or ())
    activations = []
    for name in names:
        defaults_of = _ACTIVATIONS.get(name.lower())
        if defaults_of is None:
            raise ctx.invalid(f"the activation '{name}' is not one of ONNX's")
        alpha = alpha_left.pop(0) if defaults_of.parameters > 0 and alpha_left else defaults_of.alpha
        beta = beta_left.pop(0) if defaults_of.parameters > 1 and beta_left else defaults_of.beta
        activations.append(Activation(name.lower(), alpha, beta))
    return activations


_NATIVE = ("sigmoid", "tanh", "relu")
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


# --- attributes and inputs ---


@record
class Options:
    """The attributes of the three."""

    activation_alpha: Sequence[float] | None = None
    activation_beta: Sequence[float] | None = None
    activations: Sequence[str] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
    output_sequence: int = 0
    """Set if all hidden states are wanted; not read, since the node's outputs show that."""
    linear_before_reset: int = 0
    input_forget: int = 0
    quantizes_data: bool = False
    """Round data and hidden states to 8 bits by their range before each product, as DynamicQuantizeLSTM does."""


@record
class Inputs:
    """The inputs of a node, as ONNX orders their dimensions."""

    x: Output
    w: Output
    r: Output
    b: Output | None
    lengths: Output | None
    initial: Sequence[Output | None]
    """The states to start from: the hidden one, and the cell of an LSTM; None for zeros."""
    peepholes: Output | None = None


@record
class _Network:
    """A node with batch in front: x ``[b, s, i]``, states ``[b, d, h]``, W, R and B as in ONNX."""

    family: _Family
    x: Output
    w: Output
    r: Output
    b: Output | None
    peepholes: Output | None
    states: tuple[Output, ...]
    lengths: Output | None
    directions: int
    hidden: int
    functions: tuple[tuple[Activation, ...], ...]
    """For each direction."""
    options: Options

    @property
    def clip(self) -> float:
        return self.options.clip or 0.0


Cell = Callable[[Context, "_Step"], list[Output]]


@record
class _Step:
    """Operands of a cell: the inputs' part of the gates, the states, and the weights of its direction."""

    gates: Output
    states: list[Output]
    r: Output
    recurrent_bias: Output | None
    peepholes: list[Output]
    network: _Network
    functions: tuple[Activation, ...]

    def recurrent_product(self, ctx: Context, hidden: Output, r: Output) -> Output:
        return _product(ctx, hidden, r, self.network.options)

    def activated(self, ctx: Context, index: int, x: Output) -> Output:
        clip = self.network.clip
        if clip > 0:
            x = ctx.emit(activation.Clamp1(min=-clip, max=clip), x)
        return self.functions[index].apply(ctx, x)


@record
class _Family:
    """RNN, GRU or LSTM."""

    gates: int
    defaults: tuple[str, ...]
    sequence: type[recurrent._Sequence]
    cell: Cell
    order: tuple[int, ...]
    """ONNX's number of each of the IR's gates."""


def _split(ctx: Context, x: Output, parts: int, axis: int = -1) -> list[Output]:
    if parts == 1:
        return [x]
    return ctx.emit_all(slicing.Split1(num_splits=parts), x, ctx.constant(axis))


def _product(ctx: Context, data: Output, weights: Output, options: Options) -> Output:
    """Multiply data or hidden states by transposed weights."""
    if options.quantizes_data:
        data = dequantize(ctx, *dynamic_quantize(ctx, data))
    return ctx.emit(matmul.MatMul1(transpose_b=True), data, weights)


def _complement(ctx: Context, x: Output) -> Output:
    return layers.subtract(ctx, ctx.like(1, x), x)


def _rnn_cell(ctx: Context, step: _Step) -> list[Output]:
    total = add(ctx, step.recurrent_product(ctx, step.states[0], step.r), step.gates)
    return [step.activated(ctx, 0, total)]


def _lstm_cell(ctx: Context, step: _Step) -> list[Output]:
    hidden, cell = step.states
    total = add(ctx, step.recurrent_product(ctx, hidden, step.r), step.gates)
    into, out, forget, new = _split(ctx, total, 4)
    if step.peepholes:
        into = add(ctx, into, multiply(ctx, step.peepholes[0], cell))
        forget = add(ctx, forget, multiply(ctx, step.peepholes[2], cell))
    i = step.activated(ctx, 0, into)
    f = _complement(ctx, i) if step.network.options.input_forget else step.activated(ctx, 0, forget)
    after = add(ctx, multiply(ctx, f, cell), multiply(ctx, i, step.activated(ctx, 1, new)))
    if step.peepholes:
        out = add(ctx, out, multiply(ctx, step.peepholes[1], after))
    # The cell itself is not clipped, only what goes into the gates.
    return [multiply(ctx, step.activated(ctx, 0, out), step.functions[2].apply(ctx, after)), after]


def _gru_cell(ctx: Context, step: _Step) -> list[Output]:
    (hidden,) = step.states
    xz, xr, xh = _split(ctx, step.gates, 3)
    rz, rr, rh = _split(ctx, step.r, 3, 0)
    z = step.activated(ctx, 0, add(ctx, step.recurrent_product(ctx, hidden, rz), xz))
    r = step.activated(ctx, 0, add(ctx, step.recurrent_product(ctx, hidden, rr), xr))
    if step.network.options.linear_before_reset:
        inner = step.recurrent_product(ctx, hidden, rh)
        if step.recurrent_bias is not None:
            inner = add(ctx, inner, step.recurrent_bias)
        inner = multiply(ctx, r, inner)
    else:
        inner = step.recurrent_product(ctx, multiply(ctx, r, hidden), rh)
    new = step.activated(ctx, 1, add(ctx, inner, xh))
    return [add(ctx, multiply(ctx, _complement(ctx, z), new), multiply(ctx, z, hidden))]


RNN = _Family(1, ("Tanh",), recurrent.RNNSequence5, _rnn_cell, (0,))
GRU = _Family(3, ("Sigmoid", "Tanh"), recurrent.GRUSequence5, _gru_cell, (0, 1, 2))
LSTM = _Family(4, ("Sigmoid", "Tanh", "Tanh"), recurrent.LSTMSequence5, _lstm_cell, (2, 0, 3, 1))


# --- the whole node ---


def run(ctx: Context, family: _Family, inputs: Inputs, options: Options) -> tuple[Output, ...]:
    """All hidden states, and the last states."""
    # The schema of GRU's first version misspells its default, so exporters may have written it.
    direction = "forward" if options.direction == "foward" else options.direction
    if direction not in _DIRECTIONS:
        raise ctx.invalid(f"direction must be forward, reverse or bidirectional, but is '{options.direction}'")
    options = replace(options, direction=direction)
    network = _network(ctx, family, inputs, options)
    every, *last = _native(ctx, network) if _is_native(network) else _as_iterator(ctx, network)
    if options.layout == 0:
        every = _transpose(ctx, every, [2, 1, 0, 3])
        last = [_transpose(ctx, state, [1, 0, 2]) for state in last]
    else:
        every = _transpose(ctx, every, [0, 2, 1, 3])
    return every, *last


def _network(ctx: Context, family: _Family, inputs: Inputs, options: Options) -> _Network:
    """The node with batch in front; raises what ``ctx.invalid`` returns where a shape contradicts ONNX."""
    r, b, lengths, peepholes = inputs.r, inputs.b, inputs.lengths, inputs.peepholes
    count = _DIRECTIONS[options.direction]
    hidden = options.hidden_size
    if hidden is None:
        if not r.shape.has_rank or not r.shape.dims[-1].is_static:
            raise ctx.unsupported("the hidden size must be known while converting, but is not")
        hidden = r.shape.dims[-1].value
    w = _of_shape(ctx, "W", inputs.w, [count, family.gates * hidden, None])
    r = _of_shape(ctx, "R", r, [count, family.gates * hidden, hidden])
    if b is not None:
        b = _of_shape(ctx, "B", b, [count, 2 * family.gates * hidden])
    if peepholes is not None:
        peepholes = _of_shape(ctx, "P", peepholes, [count, 3 * hidden])
    _check_shape(ctx, "X", inputs.x, [None, None, None])
    if lengths is not None and lengths.type.constant is not None:
        steps = inputs.x.shape[1 if options.layout else 0]
        if steps.is_static and (lengths.type.constant == steps.value).all():
            lengths = None
    if peepholes is not None:
        constant = peepholes.type.constant
        peepholes = None if constant is not None and not constant.any() else peepholes
    x = inputs.x if options.layout else _transpose(ctx, inputs.x, [1, 0, 2])
    states = []
    for state in inputs.initial:
        if state is None:
            shape = concat_lists(ctx, [dimension_list(ctx, x, 0), ctx.constant([count, hidden])])
            states.append(ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, x), shape))
        else:
            order = [None, count, hidden] if options.layout else [count, None, hidden]
            _check_shape(ctx, "an initial state", state, order)
            state = state if options.layout else _transpose(ctx, state, [1, 0, 2])
            states.append(state if lengths is None else _zero_without_steps(ctx, state, lengths))
    names = list(options.activations or [*family.defaults] * count)
    per_direction_count = len(family.defaults)
    if family is RNN and count == 1 and len(names) == 2:
        names = names[:1]  # ONNX's default has the activations of two directions
    if len(names) != per_direction_count * count:
        raise ctx.invalid(f"{per_direction_count * count} activations are needed, but got {len(names)}")
    functions = activations_of(ctx, names, options.activation_alpha, options.activation_beta)
    per_direction = tuple(
        tuple(functions[i * per_direction_count : (i + 1) * per_direction_count]) for i in range(count)
    )
    return _Network(family, x, w, r, b, peepholes, tuple(states), lengths, count, hidden, per_direction, options)


def _zero_without_steps(ctx: Context, state: Output, lengths: Output) -> Output:
    """The initial state ``[b, d, h]``, which is 0 for each sequence of length 0.

    The specification does not define the last state of such a sequence; onnxruntime and OpenVINO return 0.
    """
    array = lengths.type.constant
    if array is not None and (array > 0).all():
        return state
    has_steps = layers.less(ctx, ctx.like(0, lengths), layers.unsqueeze(ctx, lengths, 1, 2))
    return ctx.emit(elementwise.Select1(), has_steps, state, ctx.like(0, state))


def _check_shape(ctx: Context, name: str, value: Output | None, expected: Sequence[int | None]) -> None:
    if value is None or not value.shape.has_rank:
        return
    shape = value.shape
    if shape.rank != len(expected) or any(n is not None and not d.contains(n) for d, n in zip(shape, expected)):
        expected_text = ", ".join("?" if n is None else str(n) for n in expected)
        raise ctx.invalid(f"{name} must have the shape [{expected_text}], but has {shape}")


def _of_shape(ctx: Context, name: str, value: Output, expected: Sequence[int | None]) -> Output:
    """Weights with the dimensions that follow from the hidden size: engines need them static."""
    _check_shape(ctx, name, value, expected)
    shape = value.shape
    if shape.has_rank and all(n is None or d.is_static for d, n in zip(shape, expected)):
        return value
    return reshape(ctx, value, [0 if n is None else n for n in expected])


def _transpose(ctx: Context, x: Output, order: list[int]) -> Output:
    return layers.transpose(ctx, x, ctx.constant(order))


def _is_native(network: _Network) -> bool:
    """True if the IR's sequence computes the same, and engines compute it correctly."""
    if network.peepholes is not None or network.options.input_forget or network.options.quantizes_data:
        return False
    if any(function.name not in _NATIVE for functions in network.functions for function in functions):
        return False
    if len({tuple(f.name for f in functions) for functions in network.functions}) > 1:
        return False
    return network.lengths is None or (network.x.shape.is_static and network.lengths.shape.is_static)


# --- by the IR's sequences ---


def _native(ctx: Context, network: _Network) -> list[Output]:
    family, options = network.family, network.options
    attributes: dict[str, Any] = {
        "hidden_size": network.hidden,
        "direction": options.direction,
        "activations": [function.name for function in network.functions[0]],
        "clip": network.clip,
    }
    if family is GRU:
        attributes["linear_before_reset"] = bool(options.linear_before_reset)
    lengths = network.lengths
    if lengths is None:
        steps, batch = dim_of(ctx, network.x, 1), dimension_list(ctx, network.x, 0)
        lengths = ctx.emit(movement.Broadcast3(mode="numpy"), steps, batch)
    w, r = (_reorder(ctx, network, value) for value in (network.w, network.r))
    biases = _native_biases(ctx, network)
    return ctx.emit_all(family.sequence(**attributes), network.x, *network.states, lengths, w, r, biases)


def _reorder(ctx: Context, network: _Network, weights: Output) -> Output:
    """Rows ``[d, gates*h, ...]`` in the IR's order of the gates."""
    order = network.family.order
    if list(order) == sorted(order):
        return weights
    size = network.hidden
    rows = np.concatenate([np.arange(place * size, (place + 1) * size) for place in order])
    return layers.gather(ctx, weights, ctx.constant(rows), ctx.constant(1))


def _native_biases(ctx: Context, network: _Network) -> Output:
    """One bias a gate; a GRU with ``linear_before_reset`` keeps both of its last one."""
    gates, size = network.family.gates, network.hidden
    two_biases = network.family is GRU and bool(network.options.linear_before_reset)
    if network.b is None:
        return ctx.constant(np.zeros((network.directions, (gates + two_biases) * size)), network.x.element_type)
    of_inputs, of_states = _split(ctx, network.b, 2, 1)
    total = add(ctx, of_inputs, of_states)
    if two_biases:
        update, reset, _ = _split(ctx, total, 3, 1)
        own, recurring = _split(ctx, of_inputs, 3, 1)[2], _split(ctx, of_states, 3, 1)[2]
        return ctx.emit(movement.Concat1(axis=1), update, reset, own, recurring)
    return _reorder(ctx, network, total)


# --- as a TensorIterator over the steps ---


def _as_iterator(ctx: Context, network: _Network) -> list[Output]:
    runs = [_one_direction(ctx, network, direction) for direction in range(network.directions)]
    if len(runs) == 1:
        return runs[0]
    return [ctx.emit(movement.Concat1(axis=1), *parts) for parts in zip(*runs)]


def _of_direction(ctx: Context, value: Output, direction: int, axis: int) -> Output:
    return layers.gather(ctx, value, ctx.constant(direction), ctx.constant(axis))


def _one_direction(ctx: Context, network: _Network, direction: int) -> list[Output]:
    """All hidden states ``[b, 1, s, h]`` and the last states ``[b, 1, h]``."""
    backwards = network.options.direction == "reverse" or direction == 1
    gates, recurrent_bias = _input_gates(ctx, network, direction)
    lengths = network.lengths
    reverse = reordering.ReverseSequence1(batch_axis=0, seq_axis=1)
    if lengths is not None and backwards:
        gates = ctx.emit(reverse, gates, lengths)
    stride = -1 if backwards and lengths is None else 1
    outer = [gates, *[_of_direction(ctx, state, direction, 1) for state in network.states]]
    if lengths is not None:
        outer.append(_running(ctx, gates, lengths))
    inner = [_of_direction(ctx, network.r, direction, 0)]
    if recurrent_bias is not None:
        inner.append(recurrent_bias)
    if network.peepholes is not None:
        inner += _split(ctx, _of_direction(ctx, network.peepholes, direction, 0), 3, 0)
    iterator, all_inputs = _iterator(ctx, network, direction, outer, inner, stride)
    every, *last = ctx.emit_all(iterator, *all_inputs)
    if lengths is not None and backwards:
        every = ctx.emit(reverse, every, lengths)
    return [layers.unsqueeze(ctx, value, 1) for value in (every, *last)]


def _input_gates(ctx: Context, network: _Network, direction: int) -> tuple[Output, Output | None]:
    """The inputs' and biases' part of the gates ``[b, s, gates*h]``, in one product for all steps.

    And the bias that a GRU with ``linear_before_reset`` adds to the recurrent product; None for others.
    """
    w = _of_direction(ctx, network.w, direction, 0)
    x = network.x
    if network.options.quantizes_data and network.lengths is not None:
        # Steps behind the longest sequence do not count in the range of the data.
        longest = ctx.emit(reduction.ReduceMax1(keep_dims=True), network.lengths, ctx.constant([0]))
        x = ctx.emit(elementwise.Select1(), _running(ctx, x, longest), x, ctx.like(0, x))
    gates = _product(ctx, x, w, network.options)
    if network.b is None:
        return gates, None
    of_inputs, of_states = _split(ctx, _of_direction(ctx, network.b, direction, 0), 2, 0)
    if network.family is GRU and network.options.linear_before_reset:
        update, reset, within = _split(ctx, of_states, 3, 0)
        nothing = ctx.constant(np.zeros(network.hidden), within.element_type)
        outside = ctx.emit(movement.Concat1(axis=0), update, reset, nothing)
        return add(ctx, gates, add(ctx, of_inputs, outside)), within
    return add(ctx, gates, add(ctx, of_inputs, of_states)), None


def _running(ctx: Context, gates: Output, lengths: Output) -> Output:
    """``[b, s, 1]``: True where a sequence has a step; ``gates`` are data of each step."""
    steps = arange(ctx, dim_of(ctx, gates, 1))
    ends = layers.unsqueeze(ctx, as_i64(ctx, lengths), 1)
    return layers.unsqueeze(ctx, layers.less(ctx, steps, ends), 2)


def _iterator(
    ctx: Context,
    network: _Network,
    direction: int,
    outer: Sequence[Output],
    inner: Sequence[Output],
    stride: int,
) -> tuple[control_flow.TensorIterator1, list[Output]]:
    """The iteration over steps, with its inputs.

    ``outer`` are the gates, the states and, where there are lengths, which sequences run; ``inner``
    are the weights, which become constants of the body where they are constant.
    """
    body = Context(ctx.file, ctx.graphs, ctx.opset, ctx.version)
    parameters: list[Node] = []
    entries: list[InputMap] = []
    inputs = list(outer)
    span = {"start": -1, "end": 0, "stride": -1} if stride < 0 else {"start": 0, "end": -1, "stride": 1}
    count = len(network.states)

    def parameter(source: Output, external: int, sliced: bool) -> Output:
        shape = source.shape.replace(1, 1) if sliced else source.shape
        node = new_parameter(source.element_type, shape)
        cut = {"axis": 1, "part_size": 1, **span} if sliced else {}
        entries.append(InputMap(external, len(parameters), **cut))
        parameters.append(node)
        return node.outputs[0]

    fed = [parameter(source, i, i == 0 or i > count) for i, source in enumerate(outer)]
    weights = []
    for source in inner:
        tensor = source.tensor
        if tensor is not None:
            weights.append(body.tensor(tensor))
        else:
            weights.append(parameter(source, len(inputs), False))
            inputs.append(source)

    def dropped(x: Output) -> Output:
        return body.emit(movement.Squeeze1(), x, body.constant([1]))

    states = fed[1 : count + 1]
    has_bias = network.family is GRU and network.options.linear_before_reset and network.b is not None
    step = _Step(
        dropped(fed[0]),
        states,
        weights[0],
        weights[1] if has_bias else None,
        weights[-3:] if network.peepholes is not None else [],
        network,
        network.functions[direction],
    )
    new_states = network.family.cell(body, step)
    hidden_state = new_states[0]
    if len(fed) > count + 1:
        running = dropped(fed[-1])
        hidden_state = body.emit(elementwise.Select1(), running, hidden_state, body.like(0, hidden_state))
        new_states = [body.emit(elementwise.Select1(), running, new, old) for new, old in zip(new_states, states)]
    hidden_state = body.emit(movement.Unsqueeze1(), hidden_state, body.constant([1]))
    outputs = [OutputMap(0, 0, axis=1, part_size=1, **span)]
    outputs += [OutputMap(1 + i, 1 + i) for i in range(count)]
    back = tuple((1 + i, 1 + i) for i in range(count))
    sub = SubGraph(body_of(parameters, (hidden_state, *new_states)), tuple(entries), tuple(outputs), back)
    return control_flow.TensorIterator1(bodies=(sub,)), inputs


@onnx_op("RNN", versions=(1,), without=("layout",))
@onnx_op("RNN", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("RNN", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("input_forget", "linear_before_reset", "quantizes_data"))
def rnn(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    *,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    **attributes: Any,
) -> tuple[Output, ...]:
    """A plain recurrent network: all hidden states, and the last."""
    options = Options(activations=activations, **attributes)
    return run(ctx, RNN, Inputs(x, w, r, b, sequence_lens, [initial_h]), options)


@onnx_op("GRU", versions=(1,), without=("layout", "linear_before_reset"))
@onnx_op("GRU", versions=(3,), without=("layout",))
@onnx_op("GRU", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("GRU", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("input_forget", "quantizes_data"))
def gru(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """Gated recurrent units: all hidden states, and the last.

    In version 1 the reset gate always comes before the recurrent product, and the schema misspells the default of
    ``direction``.
    """
    return run(ctx, GRU, Inputs(x, w, r, b, sequence_lens, [initial_h]), Options(**attributes))


@onnx_op("LSTM", versions=(1,), without=("layout",))
@onnx_op("LSTM", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("LSTM", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("linear_before_reset", "quantizes_data"))
def lstm(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    initial_c: Output | None = None,
    p: Output | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """Long short-term memory: all hidden states, the last, and the last cell states."""
    return run(ctx, LSTM, Inputs(x, w, r, b, sequence_lens, [initial_h, initial_c], p), Options(**attributes))
