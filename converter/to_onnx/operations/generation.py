"""Values made from shapes and numbers."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_idiom, ir_op
from converter.to_onnx.layers import concat, int64_list, known_list, reshape, scalar, squeeze
from ir_runtime.graph import ElementType, Node, Operation, element_types
from ir_runtime.operations.generation import CumSum3, Eye9, Range1, Range4, ShapeOf, ShapeOf1, ShapeOf3
from ir_runtime.operations.indexing import Gather, Gather1, Gather7, Gather8
from ir_runtime.operations.slicing import Slice8

_OPSET_OF_PARTS = 15


@ir_op(ShapeOf1, ShapeOf3)
def shape_of(ctx: Context, op: ShapeOf1 | ShapeOf3, x: Value) -> Value:
    """Shape"""
    return ctx.cast(ctx.emit("Shape", x), getattr(op, "output_type", element_types.i64))


@ir_idiom(Gather1, Gather7, Gather8, Slice8)
def part_of_shape(ctx: Context, op: Operation) -> Value | None:
    """Shape of neighbouring dimensions (opset 15) where that leaves no more nodes; Squeeze for a number"""
    shape = ctx.node.inputs[0]
    interval = _interval(ctx.node)
    if interval is None or ctx.opset < _OPSET_OF_PARTS:  # which is no reason for a later opset
        return None
    gathers = {(_interval(use), _is_scalar(use)) for use in shape.uses}
    intervals, scalars = {part for part, _ in gathers}, [part for part, is_scalar in gathers if is_scalar]
    if None in intervals or len(intervals) + len(scalars) > len(gathers):
        return None
    start, end = interval
    x = ctx.value(shape.node.inputs[0])
    sizes = ctx.once(("Shape", x, interval), lambda: ctx.emit("Shape", x, start=start or None, end=end))
    sizes = sizes if not _is_scalar(ctx.node) else ctx.once(("Squeeze", x, start), lambda: squeeze(ctx, sizes, [0]))
    return ctx.cast(sizes, ctx.node.outputs[0].element_type)


def _is_scalar(gather: Node) -> bool:
    return isinstance(gather.op, Gather) and gather.inputs[1].shape.rank == 0


def _interval(node: Node) -> tuple[int, int] | None:
    """The first dimension and the end of those that a layer takes from a shape, if it takes neighbours."""
    if not isinstance(node.op, (Gather, Slice8)) or not isinstance(node.inputs[0].node.op, ShapeOf):
        return None
    shape, bounds = node.inputs[0].node.inputs[0].shape, [source.type.constant for source in node.inputs[1:4]]
    places = bounds[0]
    if not shape.has_rank or places is None or places.ndim > 1 or not places.size:
        return None
    if isinstance(node.op, Slice8):
        if any(bound is None for bound in bounds):
            return None
        places = np.arange(shape.rank)[slice(*(bound.item() for bound in bounds if bound is not None))]
    taken = (places.reshape(-1) + (places.reshape(-1) < 0) * shape.rank).tolist()
    if not taken or taken != list(range(taken[0], taken[0] + len(taken))) or taken[0] < 0 or taken[-1] >= shape.rank:
        return None
    return taken[0], taken[-1] + 1


@ir_op(Range1, Range4)
def range_(ctx: Context, op: Range1 | Range4, start: Value, stop: Value, step: Value) -> Value:
    """Range, in float32 where a bound is a float, else in int64 or int32"""
    target_type: ElementType = getattr(op, "output_type", start.element_type)
    result_types = {bound.element_type for bound in (start, stop, step)}
    if any(element_type is element_types.f64 for element_type in result_types):
        work = element_types.f64
    elif any(element_type.is_real for element_type in result_types):
        work = element_types.f32
    else:
        work = element_types.i32 if result_types == {element_types.i32} else element_types.i64
    bounds = [scalar(ctx, ctx.cast(bound, work)) for bound in (start, stop, step)]
    return ctx.cast(ctx.emit("Range", *bounds), target_type)


@ir_op(CumSum3)
def cum_sum(ctx: Context, op: CumSum3, x: Value, axis: Value) -> Value:
    """CumSum"""
    at = scalar(ctx, axis if axis.element_type in (element_types.i32, element_types.i64) else _int64(ctx, axis))
    return ctx.emit("CumSum", x, at, exclusive=int(op.exclusive) or None, reverse=int(op.reverse) or None)


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


@ir_op(Eye9)
def eye(ctx: Context, op: Eye9, rows: Value, columns: Value, diagonal: Value, batch: Value | None = None) -> Value:
    """Equal of the column's number and the row's plus the diagonal, and Expand to the batch"""
    zero, step_one = ctx.constant(0), ctx.constant(1)
    counts = [reshape(ctx, _int64(ctx, count), []) for count in (rows, columns)]
    down, across = (ctx.emit("Range", zero, count, step_one) for count in counts)
    shifted = ctx.emit("Add", down, reshape(ctx, _int64(ctx, diagonal), [1]))
    eye_matrix = ctx.cast(ctx.emit("Equal", ctx.emit("Unsqueeze", shifted, ctx.constant([1])), across), op.output_type)
    if batch is None or known_list(ctx, batch) == []:
        return eye_matrix
    return ctx.emit("Expand", eye_matrix, concat(ctx, [int64_list(ctx, batch), ctx.emit("Shape", eye_matrix)], 0))
