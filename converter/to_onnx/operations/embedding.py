"""Sums of table rows, the greatest rows of segments, and beams traced back."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.layers import scalar, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import positions, shape_list, size_of
from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.embedding import (
    GatherTree1,
)


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


@ir_op(GatherTree1, local_function=True)
def gather_tree(ctx: Context, op: GatherTree1, ids: Value, parents: Value, lengths: Value, end: Value) -> Value:
    """Scan from the last step to the first, which follows the parents"""
    kind, name = ids.element_type, ctx.node.name
    steps, batch, beams = (size_of(ctx, ids, axis) for axis in range(3))
    end = scalar(ctx, ctx.cast(end, kind))
    first = ctx.emit("Expand", positions(ctx, beams), shape_list(ctx, [batch, beams]))
    last = unsqueeze(ctx, _int64(ctx, lengths), [1])
    graph = Graph(f"{name}/step")
    inner = ctx.inside(graph)
    plane = PartialShape.of_rank(2)
    parent = Value(TensorType(element_types.i64, plane), f"{name}/beam")
    chosen = Value(TensorType(kind, plane), f"{name}/ids")
    before = Value(TensorType(element_types.i64, plane), f"{name}/parents")
    step = Value(TensorType(element_types.i64, PartialShape(())), f"{name}/number")
    graph.inputs = [parent, chosen, before, step]
    is_inside = inner.emit("Less", step, last)
    token = inner.emit("Where", is_inside, inner.emit("GatherElements", chosen, parent, axis=1), end)
    onward = inner.emit("Where", is_inside, inner.emit("GatherElements", before, parent, axis=1), parent)
    graph.outputs = [onward, token]
    _, tokens = ctx.emit_many(
        "Scan",
        first,
        ids,
        _int64(ctx, parents),
        positions(ctx, steps),
        count=2,
        types=[element_types.i64, kind],
        body=graph,
        num_scan_inputs=3,
        scan_input_directions=[1, 1, 1],
        scan_output_directions=[1],
    )
    is_end = _int64(ctx, ctx.emit("Equal", tokens, end))
    ended = ctx.emit("Greater", ctx.emit("CumSum", is_end, ctx.constant(0)), ctx.constant(0))
    return ctx.emit("Where", ended, end, tokens)
