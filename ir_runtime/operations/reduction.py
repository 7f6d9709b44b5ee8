"""ReduceMean, ReduceSum, ReduceProd, ReduceMax, ReduceMin, ReduceL1, ReduceL2 and the logical reductions.

All take (data, axes), and drop or keep the reduced dimensions.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/reduction/reduce-mean-1.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape, element_types, normalize_axes
from ir_runtime.graph.operation import Operation, Required, TensorType, boolean, operation
from ir_runtime.graph.value_ranges import values_and_positions

Kernel = Callable[[Array, tuple[int, ...]], Array]
"""Reduces the given axes (counted from the front, at least one), which become 1."""


class Reduction(Operation):
    """Reduces ``data`` over ``axes`` (integers, each in ``[-rank, rank)``, a scalar or a list).

    No axes at all leave ``data`` as it is (ReduceL1 and ReduceL2 reduce nothing, but still take the
    absolute value). With ``keep_dims`` each reduced dimension is 1, else it is dropped. The output has the
    type of ``data``.
    """

    inputs = (2, 2)
    kernel: ClassVar[Kernel]
    keep_dims: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axes = inputs
        self._check_types(data, axes)
        return [TensorType(data.element_type, self._shape(data.shape, axes))]

    def _check_types(self, data: TensorType, axes: TensorType) -> None:
        if not (axes.element_type.is_integral or axes.element_type.is_dynamic):
            raise InferenceError(f"axes must be integers, but are {axes.element_type}")
        if axes.shape.has_rank and axes.shape.rank > 1:
            raise InferenceError(f"axes must be a scalar or a list, but have the shape {axes.shape}")

    def _shape(self, shape: PartialShape, axes: TensorType) -> PartialShape:
        if not shape.has_rank:
            return PartialShape.dynamic()
        rank = shape.rank
        constant = axes.constant
        if constant is not None:
            reduced = normalize_axes(np.atleast_1d(constant).tolist(), rank)
            if self.keep_dims:
                return PartialShape([Dimension(1, 1) if i in reduced else d for i, d in enumerate(shape)])
            return PartialShape([d for i, d in enumerate(shape) if i not in reduced])
        if self.keep_dims:
            return PartialShape(
                [Dimension(1, 1) if d == Dimension(1, 1) else Dimension(min(1, d.low), max(1, d.high)) for d in shape]
            )
        count = axes.shape.element_count()
        return (
            PartialShape.of_rank(rank - count.value)
            if count.is_static and count.value <= rank
            else PartialShape.dynamic()
        )

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        shape = inputs[0].shape
        return {1: Required(0, shape.rank - 1, distinct=True)} if shape.has_rank and shape.rank else {}

    def evaluate(self, *inputs: Array) -> Array:
        data, axes = inputs
        reduced = normalize_axes(np.atleast_1d(axes).tolist(), data.ndim)
        kernel = type(self).kernel
        result = kernel(data, reduced)
        if result.dtype != data.dtype:
            result = result.astype(data.dtype)
        if self.keep_dims or not reduced:
            return result
        return result.reshape([n for i, n in enumerate(result.shape) if i not in reduced])


class LogicalReduction(Reduction):
    """A reduction of booleans."""

    def _check_types(self, data: TensorType, axes: TensorType) -> None:
        super()._check_types(data, axes)
        if data.element_type not in (element_types.boolean, element_types.dynamic):
            raise InferenceError(f"data must be boolean, but is {data.element_type}")


class Extreme(Reduction):
    """The greatest or the least element; of none, the least or the greatest number of the type."""

    value_range = values_and_positions


def wide(data: Array) -> Array:
    """``data`` in the type in which it is summed.

    Sums of 16-bit and smaller floats are made in float32, of integers in 64 bits (where they wrap as
    the narrower type's own sums would, once converted back).
    """
    if data.dtype.kind in "iu":
        return data.astype(np.uint64 if data.dtype.kind == "u" else np.int64, copy=False)
    if data.dtype == np.bool_ or data.dtype.itemsize >= 4:
        return data
    return data.astype(np.float32)


def _sum(data: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(wide(data), axis=axes, keepdims=True)


def _prod(data: Array, axes: tuple[int, ...]) -> Array:
    return np.prod(wide(data), axis=axes, keepdims=True)


def _mean(data: Array, axes: tuple[int, ...]) -> Array:
    if data.dtype.kind not in "iu":
        values = wide(data)
        count = math.prod(data.shape[axis] for axis in axes)
        return np.sum(values, axis=axes, keepdims=True) / values.dtype.type(count)
    # Exact, rounded towards zero: no sum of quotients or remainders overflows 64 bits, while the
    # plain sum could.
    count = max(1, int(np.prod([data.shape[axis] for axis in axes])))
    values = wide(data)
    quotients, remainders = np.divmod(values, values.dtype.type(count))
    carry, rest = np.divmod(np.sum(remainders, axis=axes, keepdims=True), values.dtype.type(count))
    floor = np.sum(quotients, axis=axes, keepdims=True) + carry
    return np.where((floor < 0) & (rest != 0), floor + values.dtype.type(1), floor)


def _l1(data: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(np.abs(wide(data)), axis=axes, keepdims=True)


def _l2(data: Array, axes: tuple[int, ...]) -> Array:
    values = wide(data)
    squares = np.sum(values * values, axis=axes, keepdims=True)
    return np.sqrt(squares.astype(np.float64) if data.dtype.kind in "iu" else squares)


def _extreme(pick: np.ufunc, lowest: bool) -> Kernel:
    def kernel(data: Array, axes: tuple[int, ...]) -> Array:
        return pick.reduce(data, axis=axes, keepdims=True, initial=_limit(data, lowest) if data.size == 0 else None)

    return kernel


def _limit(data: Array, lowest: bool) -> object:
    if data.dtype == np.bool_:
        return not lowest
    if data.dtype.kind in "iu":
        info = np.iinfo(data.dtype)
        return info.min if lowest else info.max
    return data.dtype.type(-np.inf if lowest else np.inf)


def _reduction(name: str, opset: int, kernel: Kernel, base: type[Reduction] = Reduction) -> type[Reduction]:
    body = {"kernel": staticmethod(kernel), "__doc__": base.__doc__, "__module__": __name__}
    return operation(name, opset=opset)(type(f"{name}{opset}", (base,), body))


ReduceMean1 = _reduction("ReduceMean", 1, _mean)
ReduceSum1 = _reduction("ReduceSum", 1, _sum)
ReduceProd1 = _reduction("ReduceProd", 1, _prod)
ReduceMax1 = _reduction("ReduceMax", 1, _extreme(np.maximum, lowest=True), Extreme)
ReduceMin1 = _reduction("ReduceMin", 1, _extreme(np.minimum, lowest=False), Extreme)
ReduceL1_4 = _reduction("ReduceL1", 4, _l1)
ReduceL2_4 = _reduction("ReduceL2", 4, _l2)
ReduceLogicalAnd1 = _reduction(
    "ReduceLogicalAnd", 1, lambda x, axes: np.all(x, axis=axes, keepdims=True), LogicalReduction
)
ReduceLogicalOr1 = _reduction(
    "ReduceLogicalOr", 1, lambda x, axes: np.any(x, axis=axes, keepdims=True), LogicalReduction
)
