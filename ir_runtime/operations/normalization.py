"""Normalisations: BatchNormInference, MVN, NormalizeL2, LRN, GRN, GroupNormalization.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/mvn-6.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape, normalize_axes
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, integers, operation, real

from .elementwise import computed_in_float32, merge_real_types


def _check_channels(data: PartialShape, named: Sequence[tuple[str, PartialShape]]) -> PartialShape:
    """The shape of the data, refined by the lengths of the lists that have one value for each channel."""
    if data.has_rank and data.rank < 2:
        raise InferenceError(f"the data must have a batch and a channel dimension, but is {data}")
    dimension = data[1] if data.has_rank else Dimension()
    for name, shape in named:
        if not shape.has_rank:
            continue
        if shape.rank != 1:
            raise InferenceError(f"{name} must be a list, but has the shape {shape}")
        merged = dimension.merge(shape[0])
        if merged is None:
            raise InferenceError(f"{name} has {shape[0]} values, but the data has {dimension} channels")
        dimension = merged
    return data.replace(1, dimension) if data.has_rank else data


def _by_channel(values: Array, rank: int) -> Array:
    """A list of one value for each channel, shaped to broadcast along dimension 1."""
    return values.reshape(-1, *[1] * (rank - 2))


class _BatchNormInference(Operation):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, channel by channel."""

    inputs = (5, 5)
    epsilon: float = real(default=0.0)

    def arrange(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        """The inputs as x, gamma, beta, mean, variance."""
        return inputs

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        x, *parameters = self.arrange(inputs)
        element_type = merge_real_types(inputs)
        names = ("gamma", "beta", "the mean", "the variance")
        return [TensorType(element_type, _check_channels(x.shape, [(n, p.shape) for n, p in zip(names, parameters)]))]

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(self._normalize)(*inputs)

    def _normalize(self, x: Array, gamma: Array, beta: Array, mean: Array, variance: Array) -> Array:
        scale = gamma / np.sqrt(variance + x.dtype.type(self.epsilon))
        return (x - _by_channel(mean, x.ndim)) * _by_channel(scale, x.ndim) + _by_channel(beta, x.ndim)


@operation("BatchNormInference", opset=1)
class BatchNormInference1(_BatchNormInference):
    """The inputs are gamma, beta, x, mean, variance."""

    def arrange(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        gamma, beta, x, mean, variance = inputs
        return x, gamma, beta, mean, variance

    def evaluate(self, *inputs: Array) -> Array:
        gamma, beta, x, mean, variance = inputs
        return super().evaluate(x, gamma, beta, mean, variance)


@operation("BatchNormInference", opset=5)
class BatchNormInference5(_BatchNormInference):
    """The inputs are x, gamma, beta, mean, variance."""


def normalized(x: Array, axes: tuple[int, ...], epsilon: float, variance: bool = True, outside: bool = False) -> Array:
    """x less its mean over ``axes``, divided by its standard deviation over them where ``variance`` is set.

    ``epsilon`` is added below the square root, or ``outside`` of it.
    """
    if x.size == 0:
        return x
    if not axes:
        centered = x - x
        squares = centered
    else:
        centered = x - np.mean(x, axis=axes, keepdims=True)
        squares = np.mean(centered * centered, axis=axes, keepdims=True) if variance else centered
    if not variance:
        return centered
    small = x.dtype.type(epsilon)
    return centered / (np.sqrt(squares) + small if outside else np.sqrt(squares + small))


class _SameShape(Operation):
    """One floating-point tensor in, one of the same shape and type out."""

    inputs = (1, 1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(merge_real_types(inputs[:1]), inputs[0].shape)]


class _OverAxes(_SameShape):
    """A normalization over the axes that the second input lists."""

    inputs = (2, 2)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axes = inputs
        if not (axes.element_type.is_integral or axes.element_type.is_dynamic):
            raise InferenceError(f"axes must be integers, but are {axes.element_type}")
        constant = axes.constant
        if constant is not None and data.shape.has_rank:
            normalize_axes(np.atleast_1d(constant).tolist(), data.shape.rank)
        return super().infer(inputs)

    def evaluate(self, *inputs: Array) -> Array:
        x, axes = inputs
        over = normalize_axes(np.atleast_1d(axes).tolist(), x.ndim)
        return computed_in_float32(lambda values: self._normalize(values, over))(x)

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Array:
        raise NotImplementedError


@operation("MVN", opset=2)
class MVN2(_SameShape):
    """Mean 0 and, where asked for, variance 1, over each image or (without ``across_channels``) each channel."""

    eps: float = real(default=0.0)
    across_channels: bool = boolean(default=True)
    normalize_variance: bool = boolean(default=False)
    reduction_axes: Sequence[int] = integers(default=(1, 2, 3))

    def evaluate(self, *inputs: Array) -> Array:
        x = inputs[0]
        axes = tuple(range(1 if self.across_channels else 2, x.ndim))
        return computed_in_float32(lambda v: normalized(v, axes, self.eps, self.normalize_variance))(x)


@operation("MVN", opset=6)
class MVN6(_OverAxes):
    """(x, axes): mean 0 and, where asked for, variance 1 over the axes."""

    eps: float = real(default=0.0)
    normalize_variance: bool = boolean(default=False)
    eps_mode: str = enum("INSIDE_SQRT", "OUTSIDE_SQRT", default="INSIDE_SQRT")

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Array:
        return normalized(x, axes, self.eps, self.normalize_variance, self.eps_mode == "OUTSIDE_SQRT")


@operation("NormalizeL2", opset=1)
class NormalizeL21(_OverAxes):
    """(x, axes): x divided by the root of its sum of squares over the axes, which ``eps`` is added to or limits."""

    eps: float = real(default=0.0)
    eps_mode: str = enum("add", "max", default="add")

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Array:
        squares = x * x
        if axes:
            squares = np.sum(squares, axis=axes, keepdims=True)
        small = x.dtype.type(self.eps)
        return x / np.sqrt(squares + small if self.eps_mode == "add" else np.maximum(squares, small))


@operation("GRN", opset=1)
class GRN1(_SameShape):
    """x divided by the root of its sum of squares over the channels and ``bias``."""

    bias: float = real(default=1.0)

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(self._normalize)(inputs[0])

    def _normalize(self, x: Array) -> Array:
        return x / np.sqrt(np.sum(x * x, axis=1, keepdims=True) + x.dtype.type(self.bias))


@operation("LRN", opset=1)
class LRN1(_OverAxes):
    """(x, axes): x / (bias + alpha / size^n * s)^beta, with the n axes.

    s is the sum of squares in a window around each element, which reaches ``(size - 1) // 2`` elements
    to either side along every axis.
    """

    alpha: float = real(default=0.0)
    beta: float = real(default=0.0)
    bias: float = real(default=0.0)
    size: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.size < 1:
            raise InferenceError(f"size must be positive, but is {self.size}")
        return super().infer(inputs)

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Array:
        squares = x * x
        for axis in axes:
            squares = self._windows(squares, axis)
        dtype = x.dtype.type
        share = dtype(self.alpha / self.size ** len(axes))
        return x / np.power(dtype(self.bias) + share * squares, dtype(self.beta))

    def _windows(self, values: Array, axis: int) -> Array:
        """Sums of the neighbours up to ``(size - 1) // 2`` away on either side."""
        reach = (self.size - 1) // 2
        padding = [(0, 0)] * values.ndim
        padding[axis] = (reach, reach)
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, padding), 2 * reach + 1, axis)
        return np.sum(windows, axis=-1)


@operation("GroupNormalization", opset=12)
class GroupNormalization12(Operation):
    """(x, scale, bias): mean 0 and variance 1 over each of ``num_groups`` groups of channels, then scale and bias."""

    inputs = (3, 3)
    num_groups: int = integer()
    epsilon: float = real(default=0.0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_real_types(inputs)
        if self.num_groups < 1:
            raise InferenceError(f"num_groups must be positive, but is {self.num_groups}")
        shape = _check_channels(inputs[0].shape, [("the scale", inputs[1].shape), ("the bias", inputs[2].shape)])
        if shape.has_rank and shape[1].is_static and shape[1].value % self.num_groups:
            raise InferenceError(f"{shape[1]} channels cannot be split into {self.num_groups} groups")
        return [TensorType(element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        return computed_in_float32(self._normalize)(*inputs)

    def _normalize(self, x: Array, scale: Array, bias: Array) -> Array:
        groups = x.reshape(x.shape[0], self.num_groups, -1) if x.size else x.reshape(x.shape[0], self.num_groups, 0)
        normalized_values = normalized(groups, (2,), self.epsilon).reshape(x.shape)
        return normalized_values * _by_channel(scale, x.ndim) + _by_channel(bias, x.ndim)
