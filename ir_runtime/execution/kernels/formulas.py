"""Formulas: elementwise operations on float32 as sequences of NumPy functions that write into given memory.

A formula is called as ``f(*inputs, out, spare)``. ``spare`` are two buffers of the output's shape for temporaries.
Only the last function writes to ``out``, which may be the memory of an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import activation, elementwise, normalization, quantization

Formula = Callable[..., None]
Constants = Sequence["Array | None"]

_ZERO = np.float32(0)
_HALF = np.float32(0.5)
_ONE = np.float32(1)
_INFINITY = np.float32(np.inf)
_MIN_ELEMENTS_FOR_CLIP = 1 << 12
"""``clip`` is called by way of Python, which takes 0.3 microseconds."""

_FORMULAS: dict[type[Operation], Callable[[Any, Constants], Formula | None]] = {}


def formula_of(node: Node, constants: Constants) -> Formula | None:
    """The formula of a node whose inputs have these ``constants`` (None where dynamic); None where there is none."""
    maker = _FORMULAS.get(type(node.op))
    if maker is None or getattr(node.op, "auto_broadcast", "numpy") == "pdpd":
        return None
    return maker(node.op, constants)


def has_formula(operation: type[Operation]) -> bool:
    """True if there may be a formula for layers of this operation."""
    return operation in _FORMULAS


def _formula(*operations: type[Operation]) -> Callable[[Any], Any]:
    def register(maker: Any) -> Any:
        for operation in operations:
            _FORMULAS[operation] = maker
        return maker

    return register


def _fixed(*operations: type[Operation]) -> Callable[[Formula], Formula]:
    """Decorator: registers a formula that depends neither on attributes nor on constants."""

    def register(formula: Formula) -> Formula:
        for operation in operations:
            _FORMULAS[operation] = lambda op, constants: formula
        return formula

    return register


def _as_it_is(function: np.ufunc) -> Formula:
    """The formula of a single NumPy function; :func:`ufunc_of` gives it back."""
    if function.nin == 1:

        def run(x: Array, out: Array, spare: Sequence[Array]) -> None:
            function(x, out=out)

    else:

        def run(a: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:  # type: ignore[misc]
            function(a, b, out=out)

    run.ufunc = function  # type: ignore[attr-defined]
    return run


def ufunc_of(formula: Formula) -> np.ufunc | None:
    """The NumPy function that is all of the formula; None where it is more."""
    return getattr(formula, "ufunc", None)


_SINGLE: list[tuple[type[Operation], Any]] = [
    (elementwise.Add1, np.add),
    (elementwise.Subtract1, np.subtract),
    (elementwise.Multiply1, np.multiply),
    (elementwise.Divide1, np.divide),
    (elementwise.Maximum1, np.maximum),
    (elementwise.Minimum1, np.minimum),
    (elementwise.Abs1, np.abs),
    (elementwise.Negative1, np.negative),
    (elementwise.Floor1, np.floor),
    (elementwise.Ceiling1, np.ceil),
    (elementwise.Sqrt1, np.sqrt),
    (elementwise.Exp1, np.exp),
    (elementwise.Log1, np.log),
    (elementwise.Tanh1, np.tanh),
]


for _type, _function in _SINGLE:
    _fixed(_type)(_as_it_is(_function))


@_fixed(elementwise.SquaredDifference1)
def _squared_difference(a: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:
    difference = spare[0]
    np.subtract(a, b, difference)
    np.multiply(difference, difference, out)


@_formula(elementwise.Power1)
def _power(op: Operation, constants: Constants) -> Formula:
    exponent = constants[1]
    value = float(exponent.reshape(-1)[0]) if exponent is not None and exponent.size == 1 else None
    if value == 2:
        return lambda a, b, out, spare: np.multiply(a, a, out)
    if value == 3:

        def cube(a: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:
            np.multiply(a, a, spare[0])
            np.multiply(spare[0], a, out)

        return cube
    return lambda a, b, out, spare: np.power(a, b, out)


@_fixed(activation.ReLU1)
def _relu(x: Array, out: Array, spare: Sequence[Array]) -> None:
    # For many elements ``clip`` takes 60 % of the time of ``maximum`` with a scalar, and 30 % of that with ``minimum``.
    if x.size < _MIN_ELEMENTS_FOR_CLIP:
        np.maximum(x, _ZERO, out=out)
    else:
        x.clip(_ZERO, _INFINITY, out)


@_formula(activation.Clamp1)
def _clamp(op: Any, constants: Constants) -> Formula:
    low, high = np.float32(op.min), np.float32(op.max)
    return lambda x, out, spare: x.clip(low, high, out)


_RINT = _as_it_is(np.rint)


@_formula(elementwise.Round5)
def _round(op: Any, constants: Constants) -> Formula | None:
    return _RINT if op.mode == "half_to_even" else None


@_fixed(activation.Sigmoid1)
def _sigmoid(x: Array, out: Array, spare: Sequence[Array]) -> None:
    # Where e^-x is infinite the quotient is zero, as it should be.
    powers = spare[0]
    np.negative(x, powers)
    np.exp(powers, powers)
    np.add(powers, _ONE, powers)
    np.divide(_ONE, powers, out)


def is_sigmoid(node: Node) -> bool:
    return isinstance(node.op, activation.Sigmoid1)


def is_product(node: Node) -> bool:
    return isinstance(node.op, elementwise.Multiply1)


def gated(x: Array, gate: Array, out: Array, spare: Sequence[Array]) -> None:
    """x sigmoid(gate), as x / (1 + e^-gate), which saves a step."""
    powers = spare[0]
    np.negative(gate, powers)
    np.exp(powers, powers)
    np.add(powers, _ONE, powers)
    np.divide(x, powers, out)


@_formula(activation.Swish4)
def _swish(op: Operation, constants: Constants) -> Formula | None:
    if len(constants) > 1:
        factor = constants[1]
        if factor is None or factor.size != 1:
            return None
        beta = np.float32(-factor.reshape(-1)[0])
    else:
        beta = np.float32(-1)

    def run(x: Array, *rest: Any) -> None:
        out, spare = rest[-2:]
        powers = spare[0]
        np.multiply(x, beta, powers)
        np.exp(powers, powers)
        np.add(powers, _ONE, powers)
        np.divide(x, powers, out)

    return run


def _hard_sigmoid_into(x: Array, out: Array) -> None:
    np.add(x, np.float32(3), out)
    out.clip(_ZERO, np.float32(6), out)


@_fixed(activation.HSigmoid5)
def _hsigmoid(x: Array, out: Array, spare: Sequence[Array]) -> None:
    _hard_sigmoid_into(x, spare[0])
    np.divide(spare[0], np.float32(6), out)


@_fixed(activation.HSwish4)
def _hswish(x: Array, out: Array, spare: Sequence[Array]) -> None:
    _hard_sigmoid_into(x, spare[0])
    np.multiply(spare[0], np.float32(1 / 6), spare[0])
    np.multiply(x, spare[0], out)


@_formula(activation.HardSigmoid1)
def _hardsigmoid(op: Operation, constants: Constants) -> Formula | None:
    if any(value is None or value.size != 1 for value in constants[1:]):
        return None
    alpha, beta = (np.float32(value.reshape(-1)[0]) for value in constants[1:] if value is not None)

    def run(x: Array, a: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:
        result = spare[0]
        np.multiply(x, alpha, result)
        np.add(result, beta, result)
        result.clip(_ZERO, _ONE, out)

    return run


@_formula(activation.PReLU1)
def _prelu(op: Operation, constants: Constants) -> Formula | None:
    slope = constants[1]
    # A list of slopes belongs to the channels, unlike in NumPy's broadcasting.
    if slope is None or slope.size != 1:
        return None
    factor = np.float32(slope.reshape(-1)[0])
    if 0 < factor <= 1:

        def small(x: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:
            np.multiply(x, factor, spare[0])
            np.maximum(x, spare[0], out=out)

        return small

    def run(x: Array, b: Array, out: Array, spare: Sequence[Array]) -> None:
        # One of the two parts is zero; for NaN both are NaN.
        np.minimum(x, _ZERO, out=spare[0])
        np.multiply(spare[0], factor, spare[0])
        np.maximum(x, _ZERO, out=spare[1])
        np.add(spare[0], spare[1], out)

    return run if np.isfinite(factor) and factor != 0 else None


@_formula(normalization.BatchNormInference1, normalization.BatchNormInference5)
def _batch_norm(op: Any, constants: Constants) -> Formula | None:
    """x factors + terms, which :func:`stand_ins` computes from the statistics."""
    at = 2 if isinstance(op, normalization.BatchNormInference1) else 0
    if any(value is None for index, value in enumerate(constants) if index != at):
        return None
    variance = constants[4]
    if variance is None or not (variance.astype(np.float64) + op.epsilon > 0).all():
        return None

    def run(x: Array, factors: Array, terms: Array, out: Array, spare: Sequence[Array]) -> None:
        np.multiply(x, factors, spare[0])
        np.add(spare[0], terms, out)

    return run


def stand_ins(node: Node, constants: Mapping[Output, Array]) -> list[Output | Array] | None:
    """The inputs of the formula in place of the node's; None where they are the node's."""
    op = node.op
    if not isinstance(op, (normalization.BatchNormInference1, normalization.BatchNormInference5)):
        return None
    order = [2, 0, 1, 3, 4] if isinstance(op, normalization.BatchNormInference1) else [0, 1, 2, 3, 4]
    data, *statistics = [node.inputs[index] for index in order]
    gamma, beta, mean, variance = (constants[statistic].astype(np.float64) for statistic in statistics)
    factors = gamma / np.sqrt(variance + op.epsilon)
    shape = (-1, *[1] * (node.outputs[0].shape.rank - 2))
    return [
        data,
        *[coefficients.astype(np.float32).reshape(shape) for coefficients in (factors, beta - mean * factors)],
    ]


_MAX_EXACT_LEVELS = 1 << 16
"""Up to here all levels, and the roundings of limits, are exact enough to find the zero point."""


@_formula(quantization.FakeQuantize1)
def _fake_quantize(op: Any, constants: Constants) -> Formula | None:
    """For constant scalar limits.

    Limits around zero are the scale and zero point of a QuantizeLinear: dividing by the scale takes a third of the
    time of the general formula, and rounds as onnxruntime does.
    """
    limits = [value for value in constants[1:] if value is not None and value.size == 1]
    if len(limits) < 4:
        return None
    low, high, out_low, out_high = [value.reshape(-1).astype(np.float32)[0] for value in limits]
    if not low < high or not np.isfinite([low, high, out_low, out_high]).all():
        return None
    steps, dimension, out_dimension = np.float32(op.levels - 1), high - low, out_high - out_low
    scale = np.float32((float(high) - float(low)) / (op.levels - 1))
    levels_below_zero = float(low) / float(scale) if scale else math.inf
    # The limits are rounded to float32, so that the quotient of levels is a whole number up to these roundings.
    is_whole = abs(levels_below_zero - round(levels_below_zero)) <= op.levels * 2.0**-22 if scale else False
    if is_whole and (low, high) == (out_low, out_high) and low <= 0 <= high and op.levels <= _MAX_EXACT_LEVELS:
        first = np.float32(round(levels_below_zero))
        last = first + steps

        def quantize(x: Array, *rest: Any) -> None:
            out, spare = rest[-2:]
            level = spare[0]
            np.divide(x, scale, level)
            np.rint(level, level)
            level.clip(first, last, level)
            np.multiply(level, scale, out)

        return quantize

    def run(x: Array, *rest: Any) -> None:
        out, spare = rest[-2:]
        result = spare[0]
        x.clip(low, high, result)
        np.subtract(result, low, result)
        np.divide(result, dimension, result)
        np.multiply(result, steps, result)
        np.rint(result, result)
        np.divide(result, steps, result)
        np.multiply(result, out_dimension, result)
        np.add(result, out_low, out)

    return run


@_formula(activation.Elu1)
def _elu(op: Any, constants: Constants) -> Formula:
    alpha = np.float32(op.alpha)

    def run(x: Array, out: Array, spare: Sequence[Array]) -> None:
        np.minimum(x, _ZERO, out=spare[0])
        np.expm1(spare[0], spare[0])
        np.multiply(spare[0], alpha, spare[0])
        np.maximum(x, _ZERO, out=spare[1])
        np.add(spare[0], spare[1], out)

    return run


@_fixed(activation.SoftPlus4)
def _softplus(x: Array, out: Array, spare: Sequence[Array]) -> None:
    _softplus_into(x, spare[0], spare[1], out)


def _softplus_into(x: Array, target: Array, spare: Array, out: Array) -> None:
    np.abs(x, spare)
    np.negative(spare, spare)
    np.exp(spare, spare)
    np.log1p(spare, spare)
    np.maximum(x, _ZERO, out=target)
    np.add(target, spare, out)


@_fixed(activation.Mish4)
def _mish(x: Array, out: Array, spare: Sequence[Array]) -> None:
    _softplus_into(x, spare[0], spare[1], spare[0])
    np.tanh(spare[0], spare[0])
    np.multiply(x, spare[0], out)


# --- the error function ---

_ERF = [np.float32(c) for c in (
    1.41826823e-07, -5.66795768e-06, 8.76336638e-05, -6.19773505e-04, -1.91845482e-04, 1.02769063e-01, 1.12837927e00,
)]  # fmt: skip
"""erf(x) = tanh(x r(x^2)) up to 3.92, with the polynomial r (from the highest power down) that keeps the relative
error of what is computed in float32 below 3e-7; a least-squares fit, weighted until the errors were alike."""
_ERF_END = np.float32(3.92**2)


def _polynomial(x: Array, coefficients: Sequence[np.float32], end: np.float32, spare: Sequence[Array]) -> Array:
    """The polynomial of x squared, of which everything beyond ``end`` counts as that; it lies in ``spare[0]``."""
    result, squares = spare[0], spare[1]
    np.multiply(x, x, squares)
    np.minimum(squares, end, out=squares)
    np.multiply(squares, coefficients[0], result)
    for coefficient in coefficients[1:-1]:
        np.add(result, coefficient, result)
        np.multiply(result, squares, result)
    np.add(result, coefficients[-1], result)
    return result


@_fixed(elementwise.Erf1)
def _erf(x: Array, out: Array, spare: Sequence[Array]) -> None:
    # Beyond the polynomial's range tanh is 1 for float32.
    result = _polynomial(x, _ERF, _ERF_END, spare)
    np.multiply(result, x, result)
    np.tanh(result, out)


_ERF_OF_ROOT = [np.float32(float(c) * math.sqrt(0.5) * 0.5**power) for power, c in zip(range(6, -1, -1), _ERF)]
"""The coefficients for erf(x / sqrt(2))."""


@_formula(activation.Gelu2, activation.Gelu7)
def _gelu(op: Any, constants: Constants) -> Formula:
    if getattr(op, "approximation_mode", "ERF") == "TANH":
        return _gelu_tanh
    return _gelu_erf


def _gelu_erf(x: Array, out: Array, spare: Sequence[Array]) -> None:
    _gelu_end(x, out, _polynomial(x, _ERF_OF_ROOT, _ERF_END * np.float32(2), spare))


def _gelu_tanh(x: Array, out: Array, spare: Sequence[Array]) -> None:
    result = spare[0]
    scale = math.sqrt(2 / math.pi)
    np.multiply(x, x, result)
    np.multiply(result, np.float32(0.044715 * scale), result)
    np.add(result, np.float32(scale), result)
    _gelu_end(x, out, result)


def _gelu_end(x: Array, out: Array, target: Array) -> None:
    """x (1 + tanh(x target)) / 2, into ``out``."""
    np.multiply(target, x, target)
    np.tanh(target, target)
    np.add(target, _ONE, target)
    np.multiply(target, _HALF, target)
    np.multiply(target, x, out)
