"""Layers written as formulas: ``(x - x.mean(1)) * scale`` emits ReduceMean, Subtract and Multiply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from ir_runtime.graph import (
    ElementType,
    InputMap,
    Operation,
    Output,
    OutputMap,
    PartialShape,
    SubGraph,
    TensorType,
    element_types,
    make_node,
)
from ir_runtime.operations import (
    activation,
    elementwise,
    generation,
    indexing,
    matmul,
    movement,
    padding,
    reduction,
    scatter,
    slicing,
    sorting,
)
from ir_runtime.operations.control_flow import Loop5
from ir_runtime.operations.inputs_outputs import Const1

from . import layers, shape_layers
from .builder import Builder
from .submodel import body_of, parameters_of

Method = Callable[["Expression", "Operand"], "Expression"]


class NotExpressible(Exception):
    """Raised where a layer cannot be decomposed; the reason says what would be needed."""


def _binary(operation: Callable[[], Operation]) -> tuple[Method, Method]:
    """The method that emits a layer of two operands, and the one that takes them in reversed order."""

    def method(a: Expression, b: Operand) -> Expression:
        return a.emit(operation(), a.of(b))

    return method, lambda b, a: method(b.of(a), b)


def _unary(operation: Callable[[], Operation]) -> Callable[[Expression], Expression]:
    """The method that emits an elementwise layer of one operand."""
    return lambda x: x.emit(operation())


def _reduction(operation: type[reduction.Reduction]) -> Callable[..., Expression]:
    """The method that emits a reduction over some axes."""

    def method(x: Expression, *axes: int, keep_dims: bool = False) -> Expression:
        return x.emit(operation(keep_dims=keep_dims), x.of(axes, "i64"))

    return method


class _Body(Builder):
    """Emits the body of a loop, to which all belongs that is computed from one of its values."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth


def _depth(builder: Builder) -> int:
    return builder.depth if isinstance(builder, _Body) else 0


class Expression:
    """A value with the builder that emits the layers of what is computed from it.

    Numbers and arrays that meet an expression become constants of its element type. Comparisons give booleans; ``&``,
    ``|`` and ``~`` are those of logic. Sizes are scalars of the type i64, constants where a dimension is static.
    """

    def __init__(self, builder: Builder, value: Output) -> None:
        self.builder = builder
        self.value = value

    # --- type, shape and constant elements ---

    @property
    def element_type(self) -> ElementType:
        return self.value.element_type

    @property
    def rank(self) -> int:
        return self.value.shape.rank

    def elements(self) -> list[Any] | None:
        """Return the elements of a constant as a list; None where the value is not constant."""
        constant = self.value.type.constant
        return None if constant is None else constant.reshape(-1).tolist()

    # --- emitting ---

    def of(self, value: Operand, element_type: ElementType | str | None = None) -> Expression:
        """A constant, of the element type of this expression unless another one is given; expressions as they are."""
        if isinstance(value, Expression):
            return value
        return Expression(self.builder, self.builder.constant(value, element_type or self.element_type))

    def emit(self, op: Operation, *others: Expression) -> Expression:
        """Emit a layer of one output, whose first input this expression is."""
        return self.emit_all(op, *others)[0]

    def emit_all(self, op: Operation, *others: Expression) -> list[Expression]:
        """Emit a layer, whose first input this expression is."""
        builder = max((self.builder, *(other.builder for other in others)), key=_depth)
        outputs = builder.emit_all(op, self.value, *(other.value for other in others))
        return [Expression(builder, output) for output in outputs]

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
    bits_and, _ = _binary(elementwise.BitwiseAnd13)
    bits_xor, _ = _binary(elementwise.BitwiseXor13)
    shift_up, _ = _binary(elementwise.BitwiseLeftShift15)
    shift_down, _ = _binary(elementwise.BitwiseRightShift15)
    power, _ = _binary(elementwise.Power1)
    equal, _ = _binary(elementwise.Equal1)
    not_equal, _ = _binary(elementwise.NotEqual1)
    greater, _ = _binary(elementwise.Greater1)
    greater_equal, _ = _binary(elementwise.GreaterEqual1)
    maximum, _ = _binary(elementwise.Maximum1)
    minimum, _ = _binary(elementwise.Minimum1)

    __neg__ = _unary(elementwise.Negative1)
    __abs__ = _unary(elementwise.Abs1)
    __invert__ = _unary(elementwise.LogicalNot1)
    ceil = _unary(elementwise.Ceiling1)
    cos = _unary(elementwise.Cos1)
    exp = _unary(elementwise.Exp1)
    floor = _unary(elementwise.Floor1)
    log = _unary(elementwise.Log1)
    relu = _unary(activation.ReLU1)
    round = _unary(elementwise.Round5)
    sigmoid = _unary(activation.Sigmoid1)
    sign = _unary(elementwise.Sign1)
    sin = _unary(elementwise.Sin1)
    sqrt = _unary(elementwise.Sqrt1)
    tanh = _unary(elementwise.Tanh1)

    def truncated(self, divisor: Operand) -> Expression:
        """The quotient; of integers rounded towards zero, where ``//`` and ``/`` round down."""
        return self.emit(elementwise.Divide1(m_pythondiv=False), self.of(divisor))

    def as_type(self, element_type: ElementType | str) -> Expression:
        """Convert to another element type; the expression itself where it has that type."""
        return Expression(
            self.builder, layers.in_type(self.builder, self.value, element_types.element_type(element_type))
        )

    def at_least_float32(self) -> Expression:
        """Convert floats of less than 32 bits to float32, in which sums lose nothing."""
        return self.as_type("f32") if self.element_type.is_real and self.element_type.bits < 32 else self

    def matmul(self, other: Expression, transpose_a: bool = False, transpose_b: bool = False) -> Expression:
        """The product of the last two dimensions."""
        return self.emit(matmul.MatMul1(transpose_a=transpose_a, transpose_b=transpose_b), other)

    def clip(self, low: Operand, high: Operand) -> Expression:
        if isinstance(low, (int, float)) and isinstance(high, (int, float)):
            return self.emit(activation.Clamp1(min=low, max=high))
        return self.minimum(high).maximum(low)

    # --- shapes ---

    def size(self, axis: int) -> Expression:
        """One dimension."""
        return Expression(self.builder, shape_layers.dim_of(self.builder, self.value, axis))

    def sizes(self) -> list[Expression]:
        """All dimensions."""
        return [self.size(axis) for axis in range(self.rank)]

    def reshape(self, *sizes: Size) -> Expression:
        """Reshape; -1 is what the other sizes leave, and so is a single one that is not known."""
        numbers = [size if isinstance(size, int) else (size.elements() or [None])[0] for size in sizes]
        if numbers.count(None) == 1 and not {0, -1} & set(numbers):
            sizes = tuple(-1 if number is None else size for size, number in zip(sizes, numbers))
        return self.emit(movement.Reshape1(special_zero=False), self.size_list(sizes))

    def broadcast(self, *sizes: Size, mode: str = "bidirectional") -> Expression:
        """Repeat along dimensions of 1 and in front; sizes may also be lists."""
        return self.emit(movement.Broadcast3(mode=mode), self.size_list(sizes))

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
        bounds = (start, end, step, axis)
        lists = (bound.reshape(1) if isinstance(bound, Expression) else self.of([bound], "i64") for bound in bounds)
        return self.emit(slicing.Slice8(), *lists)

    def split(self, count: int, axis: int) -> list[Expression]:
        """Equal parts along one axis."""
        return self.emit_all(slicing.Split1(num_splits=count), self.of(axis, "i64"))

    def pad(self, before: Sequence[Size], behind: Sequence[Size], value: Operand = 0) -> Expression:
        op = padding.Pad12(pad_mode="constant")
        return self.emit(op, self.size_list(before), self.size_list(behind), self.of(value))

    def gather_elements(self, indices: Expression, axis: int) -> Expression:
        return self.emit(indexing.GatherElements6(axis=axis), indices)

    def gather_nd(self, places: Expression, batch_dims: int = 0) -> Expression:
        return self.emit(indexing.GatherND8(batch_dims=batch_dims), places)

    def non_zero(self) -> Expression:
        """The places of what is not 0, a row for each."""
        return self.emit(indexing.NonZero3(output_type=element_types.i64)).transpose(1, 0)

    # --- reductions, and order along an axis ---

    all = _reduction(reduction.ReduceLogicalAnd1)
    max = _reduction(reduction.ReduceMax1)
    mean = _reduction(reduction.ReduceMean1)
    min = _reduction(reduction.ReduceMin1)
    prod = _reduction(reduction.ReduceProd1)
    sum = _reduction(reduction.ReduceSum1)

    def cumulative_sum(self, axis: int) -> Expression:
        return self.emit(generation.CumSum3(), self.of(axis, "i64"))

    def top(self, count: Size, axis: int = -1, mode: str = "max") -> list[Expression]:
        """The ``count`` greatest elements along one axis, falling, and their places; equal ones in their own order."""
        op = sorting.TopK11(axis=axis, mode=mode, sort="value", index_element_type=element_types.i64, stable=True)
        return self.emit_all(op, self.of(count, "i64"))

    def order(self, count: Size, axis: int = 0) -> Expression:
        """The places of the ``count`` least elements along one axis, rising; equal ones in their own order."""
        return self.top(count, axis, "min")[1]

    def scatter(self, indices: Expression, updates: Expression, axis: int, reduction: str = "none") -> Expression:
        """Combine elements with ``updates``, of which each has its place along one axis in ``indices``."""
        op = scatter.ScatterElementsUpdate12(reduction=reduction, use_init_val=True)
        return self.emit(op, indices, updates, self.of(axis, "i64"))

    def replace(self, places: Operand, updates: Expression, axis: int) -> Expression:
        """Replace the slices at ``places`` along one axis."""
        return self.emit(scatter.ScatterUpdate3(), self.of(places, "i64"), updates, self.of(axis, "i64"))

    def scatter_nd(self, places: Expression, updates: Expression) -> Expression:
        """Replace the elements or rows at ``places`` ``[..., coordinates]``."""
        return self.emit(scatter.ScatterNDUpdate4(), places, updates)


Operand = Union[Expression, int, float, Sequence[Any], np.ndarray]
"""Operand of an expression: another one, or a constant of its element type."""
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


def loop(
    count: Expression,
    states: Sequence[Expression],
    step: Callable[..., Sequence[Expression]],
    sliced: Sequence[Expression] = (),
    axis: int = 0,
    order: Sequence[int] | None = None,
) -> list[Expression]:
    """Repeat ``step``, which takes the iteration's number, its slices and the states, and returns the next states.

    A slice is the part of length 1 along ``axis`` of a ``sliced`` value. What ``step`` returns beyond the states is
    stacked along a new first dimension. The states keep their shapes; other values are read as they are. Returns the
    last states, in the ``order`` of their indices, and what was stacked.
    """
    body = _Body(1 + max(_depth(state.builder) for state in (count, *states)))
    types = [TensorType(element_types.i64, PartialShape(())), *(_type_of_slice(value, axis) for value in sliced)]
    parameters = parameters_of((*types, *(state.value.type for state in states)))
    number, *inner = (Expression(body, node.outputs[0]) for node in parameters)
    results = step(number, *inner)
    more = range(len(states), len(results))
    ends = [body.constant(True, "boolean"), *(result.value for result in results[: len(states)])]
    ends += [results[place].unsqueeze(0).value for place in more]
    own = {*parameters, *body.emitted}
    outside = dict.fromkeys(source for node in body.emitted for source in node.inputs if source.node not in own)
    outside.update(dict.fromkeys(end for end in ends if end.node not in own))
    # Constants are repeated in the body, where layers that need them find them.
    copies = {source: make_node(Const1(value=source.tensor), ()) for source in outside if source.tensor is not None}
    captured = [source for source in outside if source not in copies]
    captures = dict(zip(captured, parameters_of(source.type for source in captured)))
    within = {source: node.outputs[0] for source, node in (*copies.items(), *captures.items())}
    for node in body.emitted:
        node.replace_inputs([within.get(source, source) for source in node.inputs])
    model = body_of([*parameters, *captures.values()], (within.get(end, end) for end in ends))
    first_state = 1 + len(sliced)
    inputs = [InputMap(None, 0), *(InputMap(place + 1, place, axis=axis) for place in range(1, first_state))]
    inputs += [InputMap(place + 1, place) for place in range(first_state, len(model.parameters))]
    outputs = [OutputMap(None, 0)]
    outputs += [OutputMap(port, place + 1) for port, place in enumerate(order or range(len(states)))]
    outputs += [OutputMap(place, place + 1, axis=0) for place in more]
    edges = tuple((1 + place, first_state + place) for place in range(len(states)))
    op = Loop5(bodies=(SubGraph(model, tuple(inputs), tuple(outputs), edges),))
    read = [Expression(count.builder, source) for source in captures]
    return count.emit_all(op, count.of(True, "boolean"), *sliced, *states, *read)


def _type_of_slice(value: Expression, axis: int) -> TensorType:
    dims = value.value.shape.dims
    return TensorType(value.element_type, PartialShape((*dims[:axis], 1, *dims[axis + 1 :])))
