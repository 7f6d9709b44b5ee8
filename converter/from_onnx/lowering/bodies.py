"""Loops whose body is emitted by a translator and is no graph of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import InputMap, Node, Output, OutputMap, PartialShape, SubGraph, element_types
from ir_runtime.operations import control_flow
from ir_runtime.rewriting.shape_layers import dim_of
from ir_runtime.rewriting.submodel import body_of, parameter


def for_each_slice(
    ctx: Context, values: Sequence[Output], emit: Callable[[Context, Sequence[Output]], Sequence[Output]]
) -> list[Output]:
    """Apply ``emit`` to each slice of length 1 along the first dimension of all values; join its results along it.

    The layers that ``emit`` adds may read values from outside; every iteration gets them.
    """
    inner = Context(ctx.file, ctx.graphs, ctx.opset, ctx.version)
    parameters = [parameter(value.element_type, value.shape.replace(0, 1)) for value in values]
    results = emit(inner, [node.outputs[0] for node in parameters])
    own = {*parameters, *inner.emitted}
    captures: dict[Output, Node] = {}
    for node in inner.emitted:
        for source in node.inputs:
            if source.node not in own and source not in captures:
                captures[source] = parameter(source.element_type, source.shape)
        node.replace_inputs([captures[source].outputs[0] if source in captures else source for source in node.inputs])
    # A Loop, since OpenVINO has no TensorIterator inside another one, and ``emit`` may add one.
    control = [parameter(element_type, PartialShape(())) for element_type in (element_types.i64, element_types.boolean)]
    ends = [inner.constant(True, "boolean"), *results]
    body = body_of([*control, *parameters, *captures.values()], ends)
    count = len(values)
    inputs = [InputMap(None, 0), InputMap(1, 1)]
    inputs += [InputMap(2 + i, 2 + i, axis=0, part_size=1, start=0, end=-1, stride=1) for i in range(count)]
    inputs += [InputMap(i, i) for i in range(2 + count, 2 + count + len(captures))]
    outputs = [OutputMap(None, 0)]
    outputs += [OutputMap(i, 1 + i, axis=0, part_size=1, start=0, end=-1, stride=1) for i in range(len(results))]
    op = control_flow.Loop5(bodies=(SubGraph(body, tuple(inputs), tuple(outputs), ((0, 1),)),))
    return ctx.emit_all(op, dim_of(ctx, values[0], 0), ctx.constant(True, "boolean"), *values, *captures)
