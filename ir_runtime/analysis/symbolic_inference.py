"""Shapes that depend on values: what Reshape, Slice, Pad and Range make of elements that are polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Union

from ir_runtime.graph import Dimension, Node, Operation, PartialShape
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.generation import Range4
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.slicing import Slice8

from .polynomials import Polynomial, product
from .symbolic_elements import only
from .symbols import SymbolicDimension

if TYPE_CHECKING:
    from .symbolic_shapes import SymbolicShapes

_END = 2**31 - 1
"""Exporters write this number, or a larger one, for the end of a slice."""


def _after_reshape(shapes: SymbolicShapes, node: Node) -> PartialShape | None:
    target, dims = shapes.elements(node.inputs[1]), shapes.dims(node.inputs[0])
    if target is None:
        return None
    shape = reshaped(shapes, dims, target.reshape(-1).tolist(), node.op.special_zero)  # type: ignore[attr-defined]
    if len(shape) != len(node.outputs[0].shape.dims):
        return None
    pairs = zip(shape, node.outputs[0].shape)
    return PartialShape([own if dimension is None else shapes.dimension(dimension, own) for dimension, own in pairs])


def reshaped(
    shapes: SymbolicShapes, dims: Sequence[Polynomial] | None, target: Sequence[Polynomial], special_zero: bool
) -> list[Polynomial | None]:
    """The dimensions after Reshape to ``target``, None for those that are not known."""
    result: list[Polynomial | None] = []
    rest = None
    for index, requested in enumerate(target):
        own = dims[index] if dims is not None and index < len(dims) else None
        if requested.value == -1:
            rest = index
            result.append(None)
        elif requested.value == 0 and special_zero:
            result.append(own)
        else:
            # Where it is 0, it may stand for the input's dimension.
            is_sure = (
                not special_zero or shapes.low(requested) >= 1 or own is None or _is_zero_with(shapes, own, requested)
            )
            is_sure = is_sure or (dims is not None and _is_empty_with(dims, target, requested))
            result.append(requested if is_sure and shapes.low(requested) >= 0 else None)
    if rest is not None and dims is not None:
        result[rest] = _remainder(shapes, dims, result, rest, special_zero)
    return result


def _is_zero_with(shapes: SymbolicShapes, own: Polynomial, requested: Polynomial) -> bool:
    """True if ``requested`` is 0 only if ``own`` is."""
    if own == requested:
        return True
    rest = requested.quotient(own)
    return (rest is not None and shapes.low(rest) >= 1) or own.quotient(requested) is not None


def _is_empty_with(dims: Sequence[Polynomial], target: Sequence[Polynomial], requested: Polynomial) -> bool:
    """True if the tensor has no elements where ``requested`` is 0.

    Then another dimension in its place fits only if one more is 0. Tensors with two dimensions of 0 are not looked at.
    """
    return all(dimension.value != -1 for dimension in target) and product(dims).quotient(requested) is not None


def _remainder(
    shapes: SymbolicShapes,
    dims: Sequence[Polynomial],
    dimensions: Sequence[Polynomial | None],
    at: int,
    special_zero: bool,
) -> Polynomial | None:
    """The dimension for -1. Dimensions that both sides have in one place cancel out, even where they are 0."""
    kept_places = {
        i
        for i, dimension in enumerate(dimensions)
        if special_zero and dimension is not None and i < len(dims) and dimension == dims[i]
    }
    others = [dimension for i, dimension in enumerate(dimensions) if i != at and i not in kept_places]
    if any(dimension is None or shapes.low(dimension) < 1 for dimension in others):
        return None
    have = product([dimension for i, dimension in enumerate(dims) if i not in kept_places])
    return have.quotient(product([dimension for dimension in others if dimension is not None]))


def _slice(shapes: SymbolicShapes, node: Node) -> PartialShape:
    """Slices that are known to lie within the dimension, and those from the beginning of a static dimension.

    The latter have what is smaller: the dimension or the stop.
    """
    before, shape = shapes.dims_of(node.inputs[0]), node.outputs[0].shape
    if before is None or not shape.has_rank:
        return shape
    dims: list[Dimension] = list(shape)
    lists = [shapes.elements(source) for source in node.inputs[1:]]
    names = lists[3] if len(lists) > 3 else None
    axes = (
        range(len(dims)) if len(lists) < 4 else () if names is None else [element.value for element in names.tolist()]
    )
    sliced = {axis % len(dims) for axis in axes if axis is not None}
    has_all_bounds = len(sliced) == len(axes) or len(lists) < 4
    dims = [own if i in sliced or not has_all_bounds else before[i] for i, own in enumerate(dims)]
    starts, stops, steps = lists[:3]
    if starts is None or stops is None or steps is None or not has_all_bounds:
        return PartialShape(dims)
    for axis, start, stop, step in zip(axes, starts.tolist(), stops.tolist(), steps.tolist()):
        size = before[axis]
        if step.value is None or step.value < 1:
            continue
        first, last = (_position(shapes, position, shapes.polynomial(size)) for position in (start, stop))
        if first is not None and last is not None:
            count = shapes.floor(last - first + step - Polynomial.constant(1), step.value)
            dims[axis] = shapes.as_dimension(count, dims[axis])
        elif step.value == 1 and start.value == 0 and size.is_static and size.value > 1 and shapes.low(stop) >= 0:
            within = dims[axis]
            smaller = shapes.keyed(("minimum", stop, size.value), (within.low, within.high))
            shapes.limited[smaller] = stop
            dims[axis] = shapes.dimension(smaller, within)
    return PartialShape(dims)


def _position(shapes: SymbolicShapes, bound: Polynomial, size: Polynomial) -> Polynomial | None:
    """Return the start or stop of a slice with a positive step, from the beginning; None where unknown."""
    if (size + bound).value == 0:
        return Polynomial.constant(0)  # counted from the end, and 0 if there is nothing
    if bound.value is not None and bound.value < 0:
        bound = size + bound
    elif bound.value is not None and bound.value >= _END:
        return size
    if shapes.low(bound) < 0:
        return None
    return bound if shapes.low(size - bound) >= 0 else size if shapes.low(bound - size) >= 0 else None


def _pad(shapes: SymbolicShapes, node: Node) -> PartialShape | None:
    """Each dimension and what comes before and behind it."""
    before, (first, last) = shapes.dims(node.inputs[0]), (shapes.elements(source) for source in node.inputs[1:3])
    if before is None or first is None or last is None:
        return None
    sums = [dimension + front + back for dimension, front, back in zip(before, first.tolist(), last.tolist())]
    return PartialShape([shapes.as_dimension(polynomial, own) for polynomial, own in zip(sums, node.outputs[0].shape)])


def _widen(shapes: SymbolicShapes, shape: PartialShape, node: Node) -> PartialShape:
    """The shape of an elementwise result. A dimension and itself with a limit above 1 give the dimension.

    Where the limit is less than the dimension, the operands do not fit together.
    """
    if not shapes.limited or node.op.auto_broadcast != "numpy":  # type: ignore[attr-defined]
        return shape
    dims = list(shape)
    operands = [shapes.dims(source) for source in node.inputs]
    for place in range(1, len(dims) + 1):
        if dims[-place].is_static or isinstance(dims[-place], SymbolicDimension):
            continue
        pair = [own[-place] for own in operands if own is not None and len(own) >= place]
        for element, other in (pair, pair[::-1]) if len(pair) == 2 else ():
            if shapes.limited.get(element) == other:
                dims[-place] = shapes.dimension(other, dims[-place])
    return PartialShape(dims)


def _with_rows_of_query(shapes: SymbolicShapes, shape: PartialShape, node: Node) -> PartialShape:
    """The shape of an attention's result: its mask is broadcast to the rows of the query, never they to it."""
    query = shapes.dims_of(node.inputs[0])
    return shape if query is None else shape.replace(shape.rank - 2, query[-2])


def _range(shapes: SymbolicShapes, node: Node) -> PartialShape | None:
    """start, start + 1, ... limit - 1 are as many as lie between both."""
    start, limit, step = (shapes.elements(source) for source in node.inputs)
    if start is None or limit is None or step is None or only(step).value != 1:
        return None
    count = only(limit) - only(start)
    return PartialShape([shapes.as_dimension(count, node.outputs[0].shape[0])])


_Rule = Callable[["SymbolicShapes", Node], Union[PartialShape, None]]
SHAPE_RULES: dict[type[Operation], _Rule] = {
    Range4: _range,
    Reshape1: _after_reshape,
    Slice8: _slice,
    Pad1: _pad,
    Pad12: _pad,
}
"""For each operation the shape of its output, which its ``infer`` does not know."""

_Refinement = Callable[["SymbolicShapes", PartialShape, Node], PartialShape]
REFINEMENTS: dict[type[Operation], _Refinement] = {
    Binary: _widen,
    ScaledDotProductAttention13: _with_rows_of_query,
}
"""For each operation what is known beyond the shape with a rank that ``infer`` gives."""
