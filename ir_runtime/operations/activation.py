"""Activations: ReLU, PReLU, Elu, Selu, Clamp, Sigmoid and its approximations, Gelu, SoftMax and relatives.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/activation/relu-1.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, broadcast, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, enum, integer, operation, real
from ir_runtime.graph.value_ranges import Range, values_and_zeros

from .elementwise import Kernel, Unary, computed_in_float32, erf, merge_real_types, merge_types, unary


class RealUnary(Unary):
    """One floating-point tensor in, one of the same shape and type out."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        merge_real_types(inputs)
        return super().infer(inputs)


class Damped(RealUnary):
    """x times a factor from 0 to 1."""

    value_range = values_and_zeros


def _relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def _sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), by an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, x.dtype.type(1), small) / (1 + small)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _hsigmoid(x: Array) -> Array:
    return np.minimum(np.maximum(x + 3, 0), 6) / 6


def _hswish(x: Array) -> Array:
    return x * _hsigmoid(x)


def _softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def _gelu_erf(x: Array) -> Array:
    return x * (erf(x * x.dtype.type(math.sqrt(0.5))) + 1) / 2


def _gelu_tanh(x: Array) -> Array:
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return x * (np.tanh(inner) + 1) / 2


def _real_unary(name: str, opset: int, kernel: Kernel, doc: str) -> type[Unary]:
    return unary(name, opset, computed_in_float32(kernel), doc, RealUnary, monotone=True)


def _damped(name: str, opset: int, kernel: Kernel, doc: str) -> type[Unary]:
    return unary(name, opset, computed_in_float32(kernel), doc, Damped)


ReLU1 = unary("ReLU", 1, _relu, "max(x, 0)", monotone=True)
Sigmoid1 = _real_unary("Sigmoid", 1, _sigmoid, "1 / (1 + e^-x)")
SoftPlus4 = _real_unary("SoftPlus", 4, _softplus, "log(1 + e^x)")
SoftSign9 = _real_unary("SoftSign", 9, _softsign, "x / (1 + |x|)")
Mish4 = _damped("Mish", 4, _mish, "x tanh(log(1 + e^x))")
HSwish4 = _damped("HSwish", 4, _hswish, "x min(max(x + 3, 0), 6) / 6")
HSigmoid5 = _real_unary("HSigmoid", 5, _hsigmoid, "min(max(x + 3, 0), 6) / 6")
Gelu2 = _damped("Gelu", 2, _gelu_erf, "x (1 + erf(x / sqrt 2)) / 2")


@operation("Gelu", opset=7)
class Gelu7(Damped):
    """Adds the approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""

    approximation_mode: str = enum("ERF", "TANH", default="ERF")

    def evaluate(self, *inputs: Array) -> Array:
        kernel = _gelu_erf if self.approximation_mode == "ERF" else _gelu_tanh
        return computed_in_float32(kernel)(inputs[0])


@operation("Elu", opset=1)
class Elu1(RealUnary):
    """x where it is positive, alpha (e^x - 1) elsewhere."""

    monotone = True
    turning_points = (0,)
    alpha: float = real(default=0.0)

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(self._elu)(inputs[0])

    def _elu(self, x: Array) -> Array:
        return np.where(x > 0, x, x.dtype.type(self.alpha) * np.expm1(np.minimum(x, 0)))


@operation("Clamp", opset=1)
class Clamp1(Unary):
    """x limited to ``[min, max]``; of integers the bounds are rounded inwards."""

    monotone = True
    min: float = real(default=0.0)
    max: float = real(default=0.0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.min > self.max:
            raise InferenceError(f"min must not be above max, but they are {self.min} and {self.max}")
        return super().infer(inputs)

    def evaluate(self, *inputs: Array) -> Array:
        x = inputs[0]
        if x.dtype.kind not in "iuO":  # objects are Python's integers
            return computed_in_float32(self._limit)(x)
        low, high = _whole(self.min, math.ceil), _whole(self.max, math.floor)
        if x.dtype.kind == "O":
            return np.minimum(np.maximum(x, low), high)
        limits = np.iinfo(x.dtype)
        low, high = (min(max(end, limits.min), limits.max) for end in (low, high))
        return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))

    def _limit(self, x: Array) -> Array:
        return np.minimum(np.maximum(x, np.asarray(self.min, x.dtype)), np.asarray(self.max, x.dtype))


def _whole(bound: float, rounding: type[int] | object) -> int:
    if math.isinf(bound):
        return -(1 << 64) if bound < 0 else 1 << 64
    return int(rounding(bound))  # type: ignore[operator]


class _Parametric(Operation):
    """An activation whose parameters are inputs: scalars, or lists of one element."""

    inputs = (3, 3)
    elementwise = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_real_types(inputs)
        for value in inputs[1:]:
            if value.shape.has_rank and value.shape.element_count().low > 1:
                raise InferenceError(f"a parameter must be a scalar, but has the shape {value.shape}")
        return [TensorType(element_type, inputs[0].shape)]

    def evaluate(self, *inputs: Array) -> Array:
        x, *parameters = inputs
        return computed_in_float32(self.activate)(x, *[p.reshape(()) for p in parameters])

    def activate(self, x: Array, *parameters: Array) -> Array:
        raise NotImplementedError


@operation("Selu", opset=1)
class Selu1(_Parametric):
    """(x, alpha, lambda): lambda x where x is positive, lambda alpha (e^x - 1) elsewhere."""

    monotone = True
    turning_points = (0,)

    def activate(self, x: Array, *parameters: Array) -> Array:
        alpha, scale = parameters
        return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@operation("HardSigmoid", opset=1)
class HardSigmoid1(_Parametric):
    """(x, alpha, beta): alpha x + beta, limited to [0, 1]."""

    monotone = True

    def activate(self, x: Array, *parameters: Array) -> Array:
        alpha, beta = parameters
        return np.minimum(np.maximum(alpha * x + beta, 0), 1)


@operation("Swish", opset=4)
class Swish4(_Parametric):
    """(x, beta): x sigmoid(beta x); beta is 1 where it is not given."""

    inputs = (1, 2)
    value_range = values_and_zeros

    def activate(self, x: Array, *parameters: Array) -> Array:
        return x * _sigmoid(x * parameters[0] if parameters else x)


@operation("PReLU", opset=1)
class PReLU1(Operation):
    """(x, slope): x where it is not negative, slope x elsewhere.

    A list of slopes as long as dimension 1 of x holds one for each channel; other shapes broadcast to that of x.
    """

    inputs = (2, 2)
    monotone = True
    turning_points = (0,)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types(inputs)
        x, slope = inputs[0].shape, inputs[1].shape
        if x.has_rank and slope.has_rank:
            if slope.rank == 1 and x.rank > 1 and x[1].merge(slope[0]) is not None:
                return [TensorType(element_type, x)]
            if broadcast(x, slope).merge(x) is None:
                raise InferenceError(f"the slope {slope} does not fit x, which is {x}")
        return [TensorType(element_type, x)]

    def evaluate(self, *inputs: Array) -> Array:
        x, slope = inputs
        if slope.ndim == 1 and x.ndim > 1 and slope.size == x.shape[1]:
            slope = slope.reshape([-1] + [1] * (x.ndim - 2))
        return computed_in_float32(lambda a, b: np.where(a < 0, a * b, a))(x, slope)


def softmax(x: Array, axis: int) -> Array:
    """e^x divided by its sum along ``axis``; the greatest x is subtracted first, so that nothing overflows."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


class _AlongAxis(RealUnary):
    """One floating-point tensor in, computed along ``axis``."""

    elementwise = False
    axis: int = integer(default=1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        if shape.has_rank:
            normalize_axis(self.axis, shape.rank)
        return super().infer(inputs)


class SoftMax(_AlongAxis):
    """The outputs add up to 1 along ``axis``."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return np.zeros(()), np.ones(())

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(lambda x: softmax(x, self.axis))(inputs[0])


@operation("SoftMax", opset=1)
class SoftMax1(SoftMax):
    """e^x / sum(e^x) along ``axis``, which counts from the front."""

    axis: int = integer(default=0)

    def validate(self) -> None:
        super().validate()
        if self.axis < 0:
            raise InferenceError(f"SoftMax of opset1 takes no negative axis, but got {self.axis}")


@operation("SoftMax", opset=8)
class SoftMax8(SoftMax):
    """e^x / sum(e^x) along ``axis``, which may count from the end."""


@operation("LogSoftmax", opset=5)
class LogSoftmax5(_AlongAxis):
    """log(e^x / sum(e^x)) along ``axis``."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return np.asarray(-np.inf), np.zeros(())

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(lambda x: _log_softmax(x, self.axis))(inputs[0])
