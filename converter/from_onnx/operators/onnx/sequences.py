"""Sequences and optionals, as far as their lengths are known while converting.

https://onnx.ai/onnx/repo-docs/IR.html#optional-type
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.from_onnx.translation.values import (
    JoinedSequence,
    OptionalValue,
    SequenceValue,
    StackedSequence,
    Value,
    kind_of,
    tensor_of,
)
from converter.onnx_file.messages import GraphProto
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Output, normalize_axis
from ir_runtime.operations import movement, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_i64, concat_lists, dim_of, part_of, shape_of


def _items(ctx: Context, value: Value) -> tuple[Output, ...]:
    if isinstance(value, OptionalValue) and value.content is not None:
        value = value.content
    if isinstance(value, JoinedSequence):
        raise ctx.unsupported("input_sequence is joined by another node, and its tensors may differ in size")
    if isinstance(value, StackedSequence):
        raise ctx.unsupported("the length of input_sequence must be known while converting, but a loop decides it")
    if not isinstance(value, SequenceValue):
        raise ctx.invalid(f"input_sequence must be a sequence, but is {kind_of(value)}")
    return value.items


def _same_type(ctx: Context, items: Sequence[Output]) -> None:
    input_types = {item.element_type for item in items}
    if len(input_types) > 1:
        raise ctx.invalid(
            f"all tensors of a sequence must have one type, but have {', '.join(sorted(map(str, input_types)))}"
        )


def _position(ctx: Context, position: Value, count: int) -> int:
    """A position known while converting, counted from the front; ``count`` itself is the end."""
    index_value = ctx.known(tensor_of(position, "the position"), "a position in a sequence")
    index = int(index_value.reshape(-1)[0])
    if not -count <= index <= count:
        raise ctx.invalid(f"position {index} lies outside a sequence of {count} tensors")
    return index + count if index < 0 else index


@onnx_op("SequenceConstruct", versions=(11,))
def sequence_construct(ctx: Context, *inputs: Output) -> SequenceValue:
    """A sequence of the inputs."""
    _same_type(ctx, inputs)
    return SequenceValue(tuple(inputs))


@onnx_op("SequenceEmpty", versions=(11,))
def sequence_empty(ctx: Context, *, dtype: int = 1) -> SequenceValue:
    """A sequence without tensors."""
    return SequenceValue((), element_type_of(dtype))


@onnx_op("SequenceInsert", versions=(11,), takes_values=True)
def sequence_insert(ctx: Context, input_sequence: Value, tensor: Value, position: Value | None = None) -> SequenceValue:
    """The sequence with a tensor inserted at ``position``, by default at the end."""
    items = _items(ctx, input_sequence)
    at = len(items) if position is None else _position(ctx, position, len(items))
    inserted = (*items[:at], tensor_of(tensor, "the tensor to insert"), *items[at:])
    _same_type(ctx, inserted)
    return SequenceValue(inserted)


@onnx_op("SequenceErase", versions=(11,), takes_values=True)
def sequence_erase(ctx: Context, input_sequence: Value, position: Value | None = None) -> SequenceValue:
    """The sequence without the tensor at ``position``, by default the last one."""
    items = _items(ctx, input_sequence)
    at = len(items) - 1 if position is None else _position(ctx, position, len(items))
    if not 0 <= at < len(items):
        raise ctx.invalid(f"there is no tensor at position {at} of a sequence of {len(items)}")
    return SequenceValue(items[:at] + items[at + 1 :])


@onnx_op("SequenceAt", versions=(11,), takes_values=True)
def sequence_at(ctx: Context, input_sequence: Value, position: Value) -> Output:
    """The tensor at ``position``."""
    if isinstance(input_sequence, StackedSequence):
        index = as_scalar(ctx, as_i64(ctx, tensor_of(position, "the position")), "the position")
        return layers.gather(ctx, input_sequence.stacked, index, ctx.constant(0))
    items = _items(ctx, input_sequence)
    at = _position(ctx, position, len(items))
    if at == len(items):
        raise ctx.invalid(f"there is no tensor at position {at} of a sequence of {len(items)}")
    return items[at]


@onnx_op("SequenceLength", versions=(11,), takes_values=True)
def sequence_length(ctx: Context, input_sequence: Value) -> Output:
    """The number of tensors."""
    if isinstance(input_sequence, StackedSequence):
        return dim_of(ctx, input_sequence.stacked, 0)
    if isinstance(input_sequence, JoinedSequence):
        return dim_of(ctx, input_sequence.shapes, 0)
    return ctx.constant(len(_items(ctx, input_sequence)))


@onnx_op("SplitToSequence", versions=(11, 24))
def split_to_sequence(
    ctx: Context, input: Output, split: Output | None = None, *, axis: int = 0, keepdims: int = 1
) -> SequenceValue:
    """Parts of a tensor along ``axis``: of given lengths, of one length, or of length 1."""
    at = normalize_axis(axis, ctx.rank(input, "the tensor to split"))
    if not input.shape[at].is_static:
        raise ctx.unsupported(f"the dimension along axis {axis} must be known while converting, but is not")
    dimension = input.shape[at].value
    lengths = _lengths(ctx, split, dimension)
    if not lengths:
        return SequenceValue(())
    parts = ctx.emit_all(slicing.VariadicSplit1(), input, ctx.constant(at), ctx.constant(lengths))
    if split is None and not keepdims:
        parts = [layers.squeeze(ctx, part, ctx.constant([at])) for part in parts]
    return SequenceValue(tuple(parts))


def _lengths(ctx: Context, split: Output | None, dimension: int) -> list[int]:
    if split is None:
        return [1] * dimension
    values = ctx.known(split, "the lengths of the parts")
    if values.ndim == 0:
        length = int(values)
        if length < 1:
            raise ctx.invalid(f"the length of the parts must be positive, but is {length}")
        return [min(length, dimension - start) for start in range(0, dimension, length)]
    lengths: list[int] = values.tolist()
    if sum(lengths) != dimension or min(lengths, default=0) < 0:
        raise ctx.invalid(f"the lengths {lengths} do not add up to the dimension {dimension}")
    return lengths


@onnx_op("ConcatFromSequence", versions=(11,), takes_values=True)
def concat_from_sequence(ctx: Context, input_sequence: Value, *, axis: int, new_axis: int = 0) -> Output:
    """All tensors joined along ``axis``, which may be a new one."""
    if isinstance(input_sequence, StackedSequence):
        return _unstack(ctx, input_sequence.stacked, axis, bool(new_axis))
    if isinstance(input_sequence, JoinedSequence):
        return input_sequence.joined
    items = _items(ctx, input_sequence)
    if not items:
        raise ctx.unsupported("joining an empty sequence")
    if new_axis:
        at = ctx.constant([normalize_axis(axis, ctx.rank(items[0], "the tensors") + 1)])
        items = tuple(ctx.emit(movement.Unsqueeze1(), item, at) for item in items)
    return ctx.emit(movement.Concat1(axis=normalize_axis(axis, ctx.rank(items[0], "the tensors"))), *items)


def _unstack(ctx: Context, stacked: Output, axis: int, new_axis: bool) -> Output:
    """``[length, ...]`` with the length as dimension ``axis``, or put together with that of the tensors."""
    rank = ctx.rank(stacked, "the tensors")
    at = normalize_axis(axis, rank if new_axis else rank - 1)
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    moved = layers.transpose(ctx, stacked, ctx.constant(order)) if at else stacked
    if new_axis:
        return moved
    shape = concat_lists(
        ctx, [ctx.constant([0] * at), ctx.constant([-1]), part_of(ctx, shape_of(ctx, moved), at + 2, rank)]
    )
    return ctx.emit(movement.Reshape1(special_zero=True), moved, shape)


@onnx_op("SequenceMap", versions=(17,), takes_values=True)
def sequence_map(
    ctx: Context, input_sequence: Value, *additional_inputs: Value, body: GraphProto
) -> list[SequenceValue]:
    """The body, once for each tensor of the sequence."""
    items = _items(ctx, input_sequence)
    results: list[list[Output]] = [[] for _ in body.output]
    for index, item in enumerate(items):
        more = [_part(ctx, value, index, len(items)) for value in additional_inputs]
        outputs = ctx.graphs.inline(body, [item, *more], prefix=f"{body.name or 'body'}[{index}]/")
        for column, output in zip(results, outputs):
            column.append(tensor_of(output, "an output of the body"))
    return [SequenceValue(tuple(column)) for column in results]


def _part(ctx: Context, value: Value, index: int, count: int) -> Value:
    if not isinstance(value, SequenceValue):
        return value
    if len(value.items) != count:
        raise ctx.invalid(f"the sequences have {count} and {len(value.items)} tensors")
    return value.items[index]


# --- optionals ---


@onnx_op("Optional", versions=(15, 28), takes_values=True)
def optional(ctx: Context, input: Value | None = None, *, type: Any = None) -> OptionalValue:
    """An optional with that content, or an empty one of the type."""
    if isinstance(input, OptionalValue):
        raise ctx.invalid("an optional cannot hold an optional")
    if input is None and type is None:
        raise ctx.invalid("an empty optional needs the attribute 'type'")
    return OptionalValue(input)


@onnx_op("OptionalHasElement", versions=(15,), takes_values=True)
def optional_has_element_15(ctx: Context, input: Value) -> Output:
    """True if the optional holds something."""
    return optional_has_element(ctx, input)


@onnx_op("OptionalHasElement", versions=(18, 28), takes_values=True)
def optional_has_element(ctx: Context, input: Value | None = None) -> Output:
    """True if there is an input that holds something; a tensor or a sequence always does."""
    empty = input is None or (isinstance(input, OptionalValue) and input.content is None)
    return ctx.constant(np.array(not empty), "boolean")


@onnx_op("OptionalGetElement", versions=(15, 18, 28), takes_values=True)
def optional_get_element(ctx: Context, input: Value) -> Value:
    """Return the content of the optional."""
    if not isinstance(input, OptionalValue):
        return input
    if input.content is None:
        raise ctx.invalid("an empty optional has no element to get")
    return input.content
