"""Nodes that many exporters need: shapes, arithmetic with dimensions, and operands as ONNX wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

import numpy as np

from converter.onnx_file.graph import operator_of
from ir_runtime.graph import Dimension, Operation, PartialShape, Tensor, TensorType, element_types
from ir_runtime.operations.elementwise import Select1

from .context import Context
from .graph import Value, is_computed

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def known_list(ctx: Context, value: Value) -> list[int] | None:
    """The whole numbers of a constant; a scalar is a list of one."""
    values = ctx.constant_values(value)
    return None if values is None else [int(number) for number in values.reshape(-1)]


def list_of(ctx: Context, value: Value, subject: str) -> list[int]:
    """The whole numbers of a constant. Raises the error of the layer where the ``subject`` is computed."""
    numbers = known_list(ctx, value)
    if numbers is None:
        ctx.fail(f"{subject} must be known")
    return numbers


def int64_list(ctx: Context, value: Value) -> Value:
    """``value`` as a list of int64, as ONNX takes axes and shapes."""
    numbers = known_list(ctx, value)
    is_list = value.element_type is element_types.i64 and value.shape.has_rank and value.shape.rank == 1
    if numbers is not None and not (is_list and not is_computed(value)):
        return ctx.constant(numbers, element_types.i64)
    value = ctx.cast(value, element_types.i64)
    if value.shape.has_rank and value.shape.rank == 0:
        return unsqueeze(ctx, value, [0])
    return value


def with_shape(value: Value, shape: PartialShape | Sequence[Dimension | int | None]) -> Value:
    """``value``, of which the shape is known now."""
    partial_shape = shape if isinstance(shape, PartialShape) else PartialShape(list(shape))
    value.type = TensorType(value.element_type, partial_shape)
    return value


def rank_of(ctx: Context, value: Value, subject: str = "its input") -> int:
    """The number of dimensions. Raises the error of the layer where it is not known."""
    if not value.shape.has_rank:
        ctx.fail(f"the number of dimensions of {subject} must be known")
    return value.shape.rank


def known_axes(ctx: Context, axes: Value, rank: int) -> list[int] | None:
    """The axes of a constant, counted from the front."""
    numbers = known_list(ctx, axes)
    return None if numbers is None else [axis % rank if rank else axis for axis in numbers]


def reshape(ctx: Context, x: Value, shape: Sequence[int] | Value) -> Value:
    """Reshape; in a list 0 keeps a dimension and -1 is what remains. A constant is reshaped at once."""
    tensor = x.type.tensor
    if not isinstance(shape, Value):
        if tensor is not None and not is_computed(x) and 0 not in shape and tensor.size:
            rest = tensor.size // abs(math.prod(shape))
            return ctx.initializer(reshaped(tensor, tuple(rest if size == -1 else size for size in shape)))
        shape = ctx.constant(list(shape), element_types.i64)
    return ctx.emit("Reshape", x, shape)


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same data in another shape: a view, but of types of which several elements share a byte."""
    if tensor.element_type.is_packed:
        packed = np.frombuffer(b"".join(tensor.chunks()), np.uint8)
        return Tensor.from_packed(packed, tensor.element_type, shape)
    return Tensor.from_array(tensor.array().reshape(shape), tensor.element_type)


def transpose(ctx: Context, x: Value, order: Sequence[int]) -> Value:
    """Transpose; nothing where the order stays."""
    if list(order) == list(range(len(order))):
        return x
    before = operator_of(x.node)
    if before.type == "Transpose":
        first = before.values.get("perm")
        if first is not None and [first[axis] for axis in order] == list(range(len(order))):
            return x.node.inputs[0]  # the second one undoes the first
    return ctx.emit("Transpose", x, perm=list(order))


def product_along(ctx: Context, x: Value, axis: int, rank: int, matrix: Value) -> Value:
    """The product of a matrix with the data along one axis."""
    order = [*[index for index in range(rank) if index != axis], axis]
    product = ctx.emit("MatMul", transpose(ctx, x, order), matrix)
    return transpose(ctx, product, [order.index(index) for index in range(rank)])


def unsqueeze(ctx: Context, x: Value, axes: Sequence[int]) -> Value:
    """Unsqueeze; nothing without axes. A constant is reshaped at once."""
    tensor = x.type.tensor
    if tensor is not None and not is_computed(x):
        sizes = iter(tensor.shape)
        rank = len(tensor.shape) + len(axes)
        added = {axis % rank for axis in axes}
        return ctx.initializer(reshaped(tensor, tuple(1 if axis in added else next(sizes) for axis in range(rank))))
    return ctx.emit("Unsqueeze", x, ctx.constant(list(axes), element_types.i64)) if axes else x


def squeeze(ctx: Context, x: Value, axes: Sequence[int]) -> Value:
    """Squeeze of these dimensions; nothing without axes."""
    return ctx.emit("Squeeze", x, ctx.constant(list(axes), element_types.i64)) if axes else x


def slice_along(ctx: Context, x: Value, axis: int, start: int | Value, end: int | Value) -> Value:
    """Slice along one axis; bounds that are computed are lists of one int64."""
    begin, stop = (bound if isinstance(bound, Value) else ctx.constant([bound]) for bound in (start, end))
    return ctx.emit("Slice", x, begin, stop, ctx.constant([axis]), ctx.constant([1]))


def concat(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    """Concat; nothing for a single value. What is joined from parts along the same axis is joined from these."""
    parts = [part for value in values for part in _concatenated_parts(value, axis)]
    return parts[0] if len(parts) == 1 else ctx.emit("Concat", *parts, axis=axis)


def _concatenated_parts(value: Value, axis: int) -> list[Value]:
    before = operator_of(value.node)
    return list(value.node.inputs) if before.type == "Concat" and before.values["axis"] == axis else [value]


def shape_of(ctx: Context, x: Value) -> Value:
    """The shape as a list of int64: a constant where it is static."""
    if x.shape.is_static:
        return ctx.constant(list(x.shape.static()), element_types.i64)
    return ctx.emit("Shape", x)


def dimension(ctx: Context, x: Value, axis: int) -> Value:
    """Return a dimension as a list of one int64."""
    if x.shape.has_rank and x.shape[axis].is_static:
        return ctx.constant([x.shape[axis].value], element_types.i64)
    return ctx.emit("Gather", ctx.emit("Shape", x), ctx.constant([axis]), axis=0)


def aligned(ctx: Context, op: Operation, operands: list[Value]) -> list[Value]:
    """Operands as ONNX broadcasts them: ``pdpd`` aligns them with the first dimensions of the data."""
    if getattr(op, "auto_broadcast", "numpy") != "pdpd":
        return operands
    data = operands[1] if isinstance(op, Select1) else operands[0]
    if not all(operand.shape.has_rank for operand in operands):
        ctx.fail("auto_broadcast='pdpd' needs operands of known rank")
    missing = [list(range(operand.shape.rank, data.shape.rank)) for operand in operands]
    return [unsqueeze(ctx, operand, axes) if axes else operand for operand, axes in zip(operands, missing)]


def scalar(ctx: Context, value: Value) -> Value:
    """A value of one element without dimensions."""
    if value.shape.has_rank and value.shape.rank == 0:
        return value
    return reshape(ctx, value, [])


def known_number(ctx: Context, value: Value) -> float | None:
    """The number that a constant of one element holds."""
    values = ctx.constant_values(value)
    return float(np.asarray(values).reshape(-1)[0]) if values is not None and values.size == 1 else None


def reduce(ctx: Context, op_type: str, x: Value, axes: Sequence[int] | Value, *, keepdims: bool = True) -> Value:
    """A reduction; its axes are an attribute up to opset 17, but for ReduceSum."""
    numbers = list(axes) if not isinstance(axes, Value) else known_list(ctx, axes)
    if numbers is not None and not (op_type == "ReduceSum" or ctx.opset >= 18):
        return ctx.emit(op_type, x, axes=numbers, keepdims=int(keepdims))
    if numbers is None:
        ctx.opsets.require(13 if op_type == "ReduceSum" else 18, f"{op_type} over axes that are computed")
        assert isinstance(axes, Value)
        axes_input, may_be_none = int64_list(ctx, axes), 1
    else:
        axes_input, may_be_none = ctx.constant(numbers, element_types.i64), None
    return ctx.emit(op_type, x, axes_input, keepdims=int(keepdims), noop_with_empty_axes=may_be_none)


def reshape_exactly(ctx: Context, x: Value, target: Value, rank: int) -> Value:
    """Reshape to a computed list of ``rank`` dimensions, in which 0 is a dimension of 0.

    Before opset 14 a 0 keeps the dimension of the data. So data without elements get as many dimensions of 0 first.
    """
    if rank == 0:
        return ctx.emit("Reshape", x, target)
    if ctx.at_least(14):
        return ctx.emit("Reshape", x, target, allowzero=1)
    column = reshape(ctx, x, [-1] + [1] * (rank - 1))
    if rank > 1:
        most_one = ctx.emit("Min", reshape(ctx, ctx.emit("Size", x), [1]), ctx.constant([1]))
        column = ctx.emit("Expand", column, concat(ctx, [ctx.constant([1]), *[most_one] * (rank - 1)], 0))
    return ctx.emit("Reshape", column, target)


def split_equally(ctx: Context, x: Value, count: int, axis: int) -> list[Value]:
    """Split into equal parts; from opset 18 on their number is an attribute."""
    number = count if ctx.opset >= 18 else None
    return ctx.emit_many("Split", x, count=count, axis=axis, num_outputs=number)


Size = Union[int, Value]
"""A dimension: a number where it is known, else a list of one int64 that is computed at run time."""


def size_of(ctx: Context, x: Value, axis: int) -> Size:
    """One dimension of a tensor."""
    if x.shape.has_rank and x.shape[axis].is_static:
        return x.shape[axis].value
    return dimension(ctx, x, axis)


def size_from(ctx: Context, value: Value) -> Size:
    """The whole number that a tensor of one element holds."""
    numbers = known_list(ctx, value)
    if numbers is not None:
        return numbers[0]
    return reshape(ctx, int64_list(ctx, value), [1])


def as_list(ctx: Context, size: Size) -> Value:
    """A size as a list of one int64."""
    return size if isinstance(size, Value) else ctx.constant([size])


def as_scalar(ctx: Context, size: Size) -> Value:
    """A size as an int64 without dimensions."""
    return reshape(ctx, size, []) if isinstance(size, Value) else ctx.constant(size)


def shape_list(ctx: Context, sizes: Sequence[Size]) -> Value:
    """Sizes as one list of int64."""
    if all(isinstance(size, int) for size in sizes):
        return ctx.constant(list(sizes))
    return concat(ctx, [as_list(ctx, size) for size in sizes], 0)


def subtract(ctx: Context, a: Size, b: Size) -> Size:
    """The difference."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else ctx.emit("Sub", as_list(ctx, a), as_list(ctx, b))


def multiply(ctx: Context, a: Size, b: Size) -> Size:
    """The product."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 1 in (a, b):
        return b if a == 1 else a
    return ctx.emit("Mul", as_list(ctx, a), as_list(ctx, b))


def divide(ctx: Context, a: Size, b: Size) -> Size:
    """The quotient of numbers that are not negative, rounded down."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if b == 1 else ctx.emit("Div", as_list(ctx, a), as_list(ctx, b))


def positions(ctx: Context, count: Size) -> Value:
    """The numbers from 0 up to a count."""
    if isinstance(count, int):
        return ctx.constant(list(range(count)))
    return ctx.emit("Range", ctx.constant(0), as_scalar(ctx, count), ctx.constant(1))
