"""ONNX operators that make values: Range, EyeLike; running sums and products; ReverseSequence."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_form, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import InputMap, Output, OutputMap, SubGraph, element_types, normalize_axis
from ir_runtime.operations import (
    control_flow,
    elementwise,
    generation,
    movement,
    reordering,
    scatter,
)
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import as_i64, dim_of, normalized_positions, shape_of
from ir_runtime.rewriting.submodel import body_of, parameter


@onnx_op("Range", versions=(11,))
def range_11(ctx: Context, start: Output, limit: Output, delta: Output) -> Output:
    """start, start + delta, ... without limit."""
    parts = zip((start, limit, delta), ("start", "limit", "delta"))
    first, last, step = (as_scalar(ctx, value, subject) for value, subject in parts)
    return ctx.emit(generation.Range4(output_type=start.element_type), first, last, step)


@onnx_op("Range", versions=(27,))
def range_27(ctx: Context, start: Output, limit: Output, delta: Output, *, stash_type: int = 1) -> Output:
    """As before; 16-bit floats are computed in the wider type ``stash_type``."""
    element_type = start.element_type
    if element_type not in (element_types.f16, element_types.bf16):
        return range_11(ctx, start, limit, delta)
    wide = element_type_of(stash_type)
    if wide not in (element_types.f32, element_types.f64):
        raise ctx.invalid(f"stash_type must be float or double, but is {wide}")
    return in_type(ctx, range_11(ctx, *[in_type(ctx, value, wide) for value in (start, limit, delta)]), element_type)


@onnx_op("EyeLike", versions=(9, 22))
def eye_like(ctx: Context, data: Output, *, dtype: int | None = None, k: int = 0) -> Output:
    """Ones on the k-th diagonal of a matrix shaped like the input."""
    if data.shape.has_rank and data.shape.rank != 2:
        raise ctx.invalid(f"the input must be a matrix, but has the shape {data.shape}")
    element_type = data.element_type if dtype is None else element_type_of(dtype)
    # A plain type that every engine can fill; the values 0 and 1 are exact in all others.
    matrix = ctx.emit(
        generation.Eye9(output_type=element_types.f32), dim_of(ctx, data, 0), dim_of(ctx, data, 1), ctx.constant(k)
    )
    return in_type(ctx, matrix, element_type)


# --- running sums and products ---


@onnx_op("CumSum", versions=(11, 14))
def cum_sum(ctx: Context, x: Output, axis: Output, *, exclusive: int = 0, reverse: int = 0) -> Output:
    """Running sums along ``axis``."""
    along = as_scalar(ctx, axis, "the axis")
    return ctx.emit(generation.CumSum3(exclusive=bool(exclusive), reverse=bool(reverse)), x, along)


@onnx_form("CumSum", versions=(11, 14))
def cum_sum_of_list(ctx: Context, x: Output, *, exclusive: int = 0, reverse: int = 0) -> Output:
    """Without its axis, which can only be 0 where the data are a list."""
    if not x.shape.has_rank or x.shape.rank != 1:
        raise ctx.invalid(f"takes 2 inputs, but got 1: the axis is missing, and the data have the shape {x.shape}")
    return cum_sum(ctx, x, ctx.constant(0), exclusive=exclusive, reverse=reverse)


@onnx_op("CumProd", versions=(26,))
def cum_prod(ctx: Context, x: Output, axis: Output, *, exclusive: int = 0, reverse: int = 0) -> Output:
    """Running products along ``axis``.

    The IR has no such operation: an iteration multiplies one slice after the other.
    """
    rank = ctx.rank(x, "the data")
    constant = axis.type.constant
    if constant is not None:
        at = normalize_axis(int(constant.reshape(-1)[0]), rank)
        return _running_product(ctx, x, at, bool(exclusive), bool(reverse))
    if rank == 1:
        return _running_product(ctx, x, 0, bool(exclusive), bool(reverse))
    # Three dimensions instead of a Transpose by an order that is computed, which ONNX does not have.
    shape, along = Expression(ctx, shape_of(ctx, x)), as_i64(ctx, as_scalar(ctx, axis, "the axis"))
    position = Expression(ctx, normalized_positions(ctx, along, ctx.constant(rank)))
    numbers = position.of(np.arange(rank))
    before, after = (where(side, shape, 1).prod(0) for side in (numbers < position, position < numbers))
    joined = Expression(ctx, x).reshape(before, shape.gather(position), after)
    products = Expression(ctx, _running_product(ctx, joined.value, 1, bool(exclusive), bool(reverse)))
    return products.emit(movement.Reshape1(special_zero=False), shape).value


def _running_product(ctx: Context, x: Output, at: int, exclusive: bool, reverse: bool) -> Output:
    """Slice by slice along the dimension ``at``, as an iteration."""
    unit = ctx.like(1, x)
    single = ctx.emit(
        scatter.ScatterUpdate3(), shape_of(ctx, x), ctx.constant([at]), ctx.constant([1]), ctx.constant(0)
    )
    ones = ctx.emit(movement.Broadcast3(mode="numpy"), unit, single)
    body = Context(ctx.file, ctx.graphs, ctx.opset, ctx.version)
    parameters = [parameter(x.element_type, x.shape.replace(at, 1)) for _ in ("slice", "product")]
    current, before = (node.outputs[0] for node in parameters)
    after = body.emit(elementwise.Multiply1(), before, current)
    returned = before if exclusive else after
    span = {"start": -1, "end": 0, "stride": -1} if reverse else {"start": 0, "end": -1, "stride": 1}
    inputs = (InputMap(0, 0, axis=at, part_size=1, **span), InputMap(1, 1))
    outputs = (OutputMap(0, 0, axis=at, part_size=1, **span),)
    sub = SubGraph(body_of(parameters, (returned, after)), inputs, outputs, ((1, 1),))
    return ctx.emit(control_flow.TensorIterator1(bodies=(sub,)), x, ones)


@onnx_op("ReverseSequence", versions=(10, 28))
def reverse_sequence(
    ctx: Context, data: Output, sequence_lens: Output, *, batch_axis: int = 1, time_axis: int = 0
) -> Output:
    """The first ``sequence_lens[i]`` elements along the time axis backwards, for each batch i."""
    if {batch_axis, time_axis} != {0, 1}:
        raise ctx.invalid(f"batch_axis and time_axis must be 0 and 1, but are {batch_axis} and {time_axis}")
    if data.shape.has_rank and data.shape.rank < 2:
        raise ctx.invalid(f"the data must have at least 2 dimensions, but have the shape {data.shape}")
    op = reordering.ReverseSequence1(batch_axis=batch_axis, seq_axis=time_axis)
    return ctx.emit(op, data, sequence_lens)
