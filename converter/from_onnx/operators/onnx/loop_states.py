"""Shared by Loop, Scan and If: conditions, and types of states that are right in every iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from converter.from_onnx.translation.context import Body, Boundary, Context
from converter.onnx_file.messages import ValueInfoProto
from converter.onnx_file.model_info import declared_shape
from ir_runtime.graph import Dimension, Output, PartialShape, TensorType, element_types
from ir_runtime.operations import elementwise, movement

_MAX_TRANSLATIONS = 4
"""Maximum number of translations of a loop's body to find types of its states that no longer change."""


def scalar(ctx: Context, value: Output) -> Output:
    """A single value as a scalar, whatever its rank."""
    if value.shape.has_rank and value.shape.rank == 0:
        return value
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([]))


def condition(ctx: Context, value: Output) -> Output:
    if value.element_type is not element_types.boolean:
        value = ctx.emit(elementwise.Convert1(destination_type=element_types.boolean), value)
    return scalar(ctx, value)


def declared_rank(output: ValueInfoProto) -> int | None:
    shape = declared_shape(output.type)
    return shape.rank if shape.has_rank else None


def is_single(value: Output) -> bool:
    return value.shape.element_count() == Dimension(1, 1)


def plain(value: Output) -> TensorType:
    return TensorType(value.element_type, value.shape)


def joined_along(axes: Mapping[int, int]) -> Boundary:
    """Adds a dimension of length 1 to results, along which the iterations are joined; ``axes``: number -> its axis."""

    def leave(ctx: Context, index: int, value: Output) -> Output:
        if index not in axes:
            return value
        return ctx.emit(movement.Unsqueeze1(), value, ctx.constant([axes[index]]))

    return leave


def settle_state_types(
    ctx: Context,
    states: Sequence[Output],
    offset: int,
    make: Callable[[list[TensorType]], Body],
    free: Collection[int] = (),
) -> Body:
    """The body, translated for types of its states that are right in every iteration.

    ``make`` translates it for given types of the states; its results from ``offset`` on are their next
    values. The initial values of the states in ``free`` are never read, so their types do not matter.
    """
    types = [plain(state) for state in states]
    for _ in range(_MAX_TRANSLATIONS):
        body = make(types)
        results = body.model.outputs[offset : offset + len(types)]
        widened = [
            plain(result) if index in free else _wider(ctx, tensor_type, result)
            for index, (tensor_type, result) in enumerate(zip(types, results))
        ]
        if widened == types:
            return body
        types = widened
    raise ctx.unsupported("the shape of a loop-carried value changes in every iteration")


def _wider(ctx: Context, tensor_type: TensorType, result: Output) -> TensorType:
    if result.element_type is not tensor_type.element_type:
        raise ctx.invalid(f"a loop-carried value is {tensor_type.element_type}, but becomes {result.element_type}")
    if not tensor_type.shape.has_rank or not result.shape.has_rank or result.shape.rank != tensor_type.shape.rank:
        return dataclasses.replace(tensor_type, shape=PartialShape.dynamic())
    # A dimension that changes in one iteration may change in each.
    dims = [before if before == after else None for before, after in zip(tensor_type.shape, result.shape)]
    return dataclasses.replace(tensor_type, shape=PartialShape(dims))
