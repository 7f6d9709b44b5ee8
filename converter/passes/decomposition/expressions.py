"""Layers written as formulas: ``(x - x.mean([1])) * scale`` emits Subtract, ReduceMean and Multiply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import (
    elementwise,
    generation,
    indexing,
    movement,
    padding,
    reduction,
    scatter,
    slicing,
    sorting,
)
from ir_runtime.rewriting import Builder, layers, shape_layers

Method = Callable[["Expression", "Operand"], "Expression"]


class NotExpressible(Exception):
    """Raised where a layer cannot be decomposed; the reason says what would be needed."""


def _binary(operation: Callable[[], Operation]) -> tuple[Method, Method]:
    """The method that emits a layer of two operands, and the one that takes them in reversed order."""

    def method(a: Expression, b: Operand) -> Expression:
        return a.emit(operation(), a.of(b))

    return method, lambda b, a: method(b.of(a), b)


class Expression:
    """A value with the builder that emits the layers of what is computed from it.

    Numbers and arrays that meet an expression become constants of its element type. Comparisons give booleans; ``&``,
    ``|`` and ``~`` are those of logic. Sizes are scalars of the type i64, constants where a dimension is static.
    """

    def __init__(self, builder: Builder, value: Output) -> None:
        self.builder = builder
        self.value = value

    # --- what is known ---

    @property
    def element_type(self) -> ElementType:
        return self.value.element_type

    @property
    def rank(self) -> int:
        return self.value.shape.rank

    def known(self) -> list[Any] | None:
        """Return the elements of a constant as a list; None where the value is not constant."""
        constant = self.value.type.constant
        return None if constant is None else constant.reshape(-1).tolist()

    # --- emitting ---

    def of(self, value: Operand, kind: ElementType | str | None = None) -> Expression:
        """A constant, of the element type of this expression unless ``kind`` gives another; expressions as they are."""
        if isinstance(value, Expression):
            return value
        return Expression(self.builder, self.builder.constant(value, kind or self.element_type))

    def emit(self, op: Operation, *others: Expression) -> Expression:
        """Emit a layer of one output, whose first input this expression is."""
        return self.emit_all(op, *others)[0]

    def emit_all(self, op: Operation, *others: Expression) -> list[Expression]:
        """Emit a layer, whose first input this expression is."""
        outputs = self.builder.emit_all(op, self.value, *(one.value for one in others))
        return [Expression(self.builder, output) for output in outputs]

    # --- arithmetic ---

    __add__, __radd__ = _binary(elementwise.Add1)
    __sub__, __rsub__ = _binary(elementwise.Subtract1)
    __mul__, __rmul__ = _binary(elementwise.Multiply1)
    __truediv__, __rtruediv__ = _binary(elementwise.Divide1)
    __floordiv__, __rfloordiv__ = _binary(elementwise.Divide1)
    __mod__, __rmod__ = _binary(elementwise.FloorMod1)
    __and__, __rand__ = _binary(elementwise.LogicalAnd1)
    __or__, __ror__ = _binary(elementwise.LogicalOr1)
    __lt__, __gt__ = _binary(elementwise.Less1)
    __le__, __ge__ = _binary(elementwise.LessEqual1)
    equal, _ = _binary(elementwise.Equal1)
    maximum, _ = _binary(elementwise.Maximum1)
    minimum, _ = _binary(elementwise.Minimum1)

    def __neg__(self) -> Expression:
        return self.emit(elementwise.Negative1())

    def __abs__(self) -> Expression:
        return self.emit(elementwise.Abs1())

    def __invert__(self) -> Expression:
        return self.emit(elementwise.LogicalNot1())

    def truncated(self, divisor: Operand) -> Expression:
        """The quotient; of integers rounded towards zero, where ``//`` and ``/`` round down."""
        return self.emit(elementwise.Divide1(m_pythondiv=False), self.of(divisor))

    def apply(self, operation: Callable[[], Operation]) -> Expression:
        """Emit an elementwise layer without attributes."""
        return self.emit(operation())

    def as_type(self, kind: ElementType | str) -> Expression:
        """Convert to another element type; the expression itself where it has that type."""
        return Expression(self.builder, layers.in_type(self.builder, self.value, element_types.element_type(kind)))

    def at_least_float32(self) -> Expression:
        """Convert floats of less than 32 bits to float32, in which sums lose nothing."""
        return self.as_type("f32") if self.element_type.is_real and self.element_type.bits < 32 else self

    def clip(self, low: Operand, high: Operand) -> Expression:
        return self.minimum(high).maximum(low)

    # --- shapes ---

    def size(self, axis: int) -> Expression:
        """One dimension."""
        return Expression(self.builder, shape_layers.dim_of(self.builder, self.value, axis))

    def sizes(self) -> list[Expression]:
        """All dimensions."""
        return [self.size(axis) for axis in range(self.rank)]

    def reshape(self, *sizes: Size) -> Expression:
        """Reshape; -1 is what the other sizes leave."""
        return self.emit(movement.Reshape1(special_zero=False), self.size_list(sizes))

    def broadcast(self, *sizes: Size) -> Expression:
        """Repeat along dimensions of 1 and in front."""
        return self.emit(movement.Broadcast3(mode="bidirectional"), self.size_list(sizes))

    def size_list(self, sizes: Sequence[Size]) -> Expression:
        """Sizes as one list of i64."""
        if all(isinstance(size, int) for size in sizes):
            return self.of(np.array(sizes, np.int64), "i64")
        parts = [self.of(size, "i64").value for size in sizes]
        return Expression(self.builder, shape_layers.concat_lists(self.builder, parts))

    def transpose(self, *order: int) -> Expression:
        return self.emit(movement.Transpose1(), self.of(order, "i64"))

    def unsqueeze(self, *axes: int) -> Expression:
        return self.emit(movement.Unsqueeze1(), self.of(axes, "i64")) if axes else self

    def squeeze(self, *axes: int) -> Expression:
        return self.emit(movement.Squeeze1(), self.of(axes, "i64")) if axes else self

    # --- parts ---

    def gather(self, indices: Operand, axis: int = 0) -> Expression:
        return self.emit(indexing.Gather8(), self.of(indices, "i64"), self.of(axis, "i64"))

    def cut(self, axis: int, start: Size, stop: Size | None = None, step: int = 1) -> Expression:
        """The part from ``start`` up to ``stop``, or to the end, along one axis."""
        end = np.iinfo(np.int64).max if stop is None else stop
        return self.emit(slicing.Slice8(), *(self.of(one, "i64").reshape(1) for one in (start, end, step, axis)))

    def split(self, count: int, axis: int) -> list[Expression]:
        """Equal parts along one axis."""
        return self.emit_all(slicing.Split1(num_splits=count), self.of(axis, "i64"))

    def pad(self, before: Sequence[Size], behind: Sequence[Size], value: Operand = 0) -> Expression:
        op = padding.Pad12(pad_mode="constant")
        return self.emit(op, self.size_list(before), self.size_list(behind), self.of(value))

    # --- reductions ---

    def reduce(self, operation: type[reduction.Reduction], axes: Sequence[int], keep_dims: bool = False) -> Expression:
        return self.emit(operation(keep_dims=keep_dims), self.of(axes, "i64"))

    def mean(self, *axes: int, keep_dims: bool = False) -> Expression:
        return self.reduce(reduction.ReduceMean1, axes, keep_dims)

    def sum(self, *axes: int, keep_dims: bool = False) -> Expression:
        return self.reduce(reduction.ReduceSum1, axes, keep_dims)

    def cumulative_sum(self, axis: int) -> Expression:
        return self.emit(generation.CumSum3(), self.of(axis, "i64"))

    def order(self, axis: int = 0, *, falling: bool = False) -> Expression:
        """The places of the elements along one axis in order; those of equal ones in their own."""
        op = sorting.TopK11(
            axis=axis, mode="max" if falling else "min", sort="value", index_element_type=element_types.i64, stable=True
        )
        return self.emit_all(op, self.size(axis))[1]

    def scatter(self, indices: Expression, updates: Expression, axis: int, reduction: str = "none") -> Expression:
        """Combine elements with ``updates``, of which each has its place along one axis in ``indices``."""
        op = scatter.ScatterElementsUpdate12(reduction=reduction, use_init_val=True)
        return self.emit(op, indices, updates, self.of(axis, "i64"))


Operand = Union[Expression, int, float, Sequence[Any], np.ndarray]
"""What meets an expression: another one, or a constant of its element type."""
Size = Union[Expression, int]
"""A dimension or a number of elements."""


def where(condition: Expression, then: Expression, otherwise: Operand) -> Expression:
    """Select by a condition."""
    return condition.emit(elementwise.Select1(), then, then.of(otherwise))


def concat(parts: Sequence[Expression], axis: int) -> Expression:
    """Concatenate along an axis; a single part stays as it is."""
    first, *others = parts
    return first.emit(movement.Concat1(axis=axis), *others) if others else first


def positions(count: Expression) -> Expression:
    """The numbers from 0 up to ``count``, a list of i64."""
    return Expression(count.builder, shape_layers.arange(count.builder, count.value))
