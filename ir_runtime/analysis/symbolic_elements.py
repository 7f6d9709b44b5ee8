"""Small integer tensors that are computed from dimensions, element by element.

A rule for each family of operations makes the elements of the output from those of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ir_runtime.graph import INFINITY, Array, Node, Output, element_types
from ir_runtime.graph.operation import BOUNDS_LIMIT, Operation
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.reduction import ReduceProd1

from .polynomials import Polynomial, product

if TYPE_CHECKING:
    from .symbolic_shapes import SymbolicShapes

Elements = Any
"""A NumPy array of polynomials, shaped like the tensor."""


def array_of(values: Iterable[Any], shape: Sequence[int]) -> Elements:
    """Polynomials, or other objects, in row-major order as an array."""
    flat = list(values)
    elements = np.empty(len(flat), np.object_)
    elements[:] = flat
    return elements.reshape(tuple(shape))


def ends_of(value: Output, count: int) -> list[tuple[int, int]]:
    """The bounds of each element."""
    bounds = value.type.known_bounds
    if bounds is None:
        return [(-INFINITY, INFINITY)] * count
    return list(zip(bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist()))


def only(elements: Elements) -> Polynomial:
    """The element of an array that has one."""
    first: Polynomial = elements.reshape(-1)[0]
    return first


def is_small(value: Output) -> bool:
    """True if a value is of booleans or wide integers, and of so few elements that these are noted."""
    element_type = value.element_type
    if not (element_type is element_types.boolean or (element_type.is_integral and element_type.bits >= 32)):
        return False
    return value.shape.greatest_count <= BOUNDS_LIMIT


def constant_elements(value: Output) -> Elements | None:
    """The elements of a small constant; None for other values."""
    if not is_small(value):
        return None
    constant: Array | None = value.type.constant
    if constant is None:
        return None
    return array_of([Polynomial.constant(int(element)) for element in constant.reshape(-1).tolist()], constant.shape)


def _arithmetic(shapes: SymbolicShapes, node: Node, operands: Sequence[Elements]) -> Elements | None:
    """Sums, differences and products are polynomials; other results get a symbol for each expression."""
    op = node.op
    if op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
        return None
    a, b = np.broadcast_arrays(*operands)
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), ends_of(node.outputs[0], a.size))
    return array_of([_calculate(shapes, op, x, y, ends) for x, y, ends in pairs], a.shape)


def _calculate(
    shapes: SymbolicShapes, op: Operation, x: Polynomial, y: Polynomial, ends: tuple[int, int]
) -> Polynomial:
    for operation_class, calculate in _POLYNOMIAL.items():
        if isinstance(op, operation_class):
            return calculate(x, y)
    if isinstance(op, ir.Divide1) and shapes.low(y) >= 1:
        exact = x.quotient(y)
        if exact is not None:
            return exact
    if isinstance(op, (ir.Divide1, ir.FloorMod1, ir.Mod1)) and y.value is not None and y.value >= 1:
        rounds_down = isinstance(op, ir.FloorMod1) or (isinstance(op, ir.Divide1) and op.m_pythondiv)
        if rounds_down or shapes.low(x) >= 0:
            quotient = shapes.floor(x, y.value)
            return quotient if isinstance(op, ir.Divide1) else x - quotient * y
    return shapes.keyed((type(op), *op.attributes().values(), x, y), ends)


def _compare(shapes: SymbolicShapes, node: Node, operands: Sequence[Elements]) -> Elements | None:
    """Comparisons that the bounds of both sides decide; None where one of them is not decided."""
    if node.op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
        return None
    a, b = np.broadcast_arrays(*operands)
    decisions = [_decide(shapes, node.op, x - y) for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist())]
    if any(decision is None for decision in decisions):
        return None
    return array_of([Polynomial.constant(int(bool(decision))) for decision in decisions], a.shape)


def _decide(shapes: SymbolicShapes, op: Operation, difference: Polynomial) -> bool | None:
    low, high = shapes.low(difference), shapes.high(difference)
    for operation_class, (holds, fails) in _DECISIONS.items():
        if isinstance(op, operation_class):
            return True if holds(low, high) else False if fails(low, high) else None
    return None


def _convert(shapes: SymbolicShapes, node: Node, operands: Sequence[Elements]) -> Elements | None:
    from_and_to = (node.inputs[0].element_type, node.outputs[0].element_type)
    return (
        operands[0]
        if all(element_type.is_integral and element_type.bits >= 32 for element_type in from_and_to)
        else None
    )


def _negate(shapes: SymbolicShapes, node: Node, operands: Sequence[Elements]) -> Elements | None:
    if node.outputs[0].element_type.limits[0] == 0:
        return None  # without a sign it wraps
    zero = Polynomial.constant(0)
    return array_of([zero - element for element in operands[0].reshape(-1).tolist()], operands[0].shape)


def _product(shapes: SymbolicShapes, node: Node, operands: Sequence[Elements]) -> Elements | None:
    if node.inputs[0].shape.rank != 1 or operands[1].size != 1:
        return None
    shape = (1,) if node.op.keep_dims else ()  # type: ignore[attr-defined]
    return array_of([product(operands[0].tolist())], shape)


_Rule = Callable[["SymbolicShapes", Node, Sequence[Elements]], Union[Elements, None]]
RULES: Sequence[tuple[tuple[type[Operation], ...], _Rule]] = (
    ((ir.Arithmetic,), _arithmetic),
    ((ir.Comparison,), _compare),
    ((ir.Convert1,), _convert),
    ((ir.Negative1,), _negate),
    ((ReduceProd1,), _product),
)
"""For each family the rule that makes the elements of its output."""
_POLYNOMIAL: dict[type[Operation], Callable[[Polynomial, Polynomial], Polynomial]] = {
    ir.Add1: Polynomial.__add__,
    ir.Subtract1: Polynomial.__sub__,
    ir.Multiply1: Polynomial.__mul__,
}
_End = Callable[[float, float], bool]
_DECISIONS: dict[type[Operation], tuple[_End, _End]] = {
    ir.Equal1: (lambda low, high: low == high == 0, lambda low, high: low > 0 or high < 0),
    ir.NotEqual1: (lambda low, high: low > 0 or high < 0, lambda low, high: low == high == 0),
    ir.Less1: (lambda low, high: high < 0, lambda low, high: low >= 0),
    ir.LessEqual1: (lambda low, high: high <= 0, lambda low, high: low > 0),
    ir.Greater1: (lambda low, high: low > 0, lambda low, high: high <= 0),
    ir.GreaterEqual1: (lambda low, high: low >= 0, lambda low, high: high < 0),
}
"""For each comparison with 0 the bounds with which it holds, and those with which it does not."""
