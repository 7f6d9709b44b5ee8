"""If, Loop and TensorIterator, whose bodies read the graphs around them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np

from converter.to_onnx import Context, Graph, Value, ir_op, layers
from converter.to_onnx.graph import input_value
from ir_runtime.graph import ElementType, InputMap, Node, Output, OutputMap, PartialShape, TensorType, element_types
from ir_runtime.operations.control_flow import If8, Loop5, TensorIterator1
from ir_runtime.operations.elementwise import Maximum1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.records import record


@ir_op(If8)
def if_(ctx: Context, op: If8, condition: Value, *inputs: Value) -> list[Value]:
    """If"""
    node_inputs = (condition, *inputs)
    branches = []
    for name, sub in zip(("then", "else"), op.bodies):
        graph = Graph(f"{ctx.node.name}/{name}")
        inner = ctx.inside(graph)
        values = {
            sub.body.parameters[entry.parameter]: node_inputs[entry.external]
            for entry in sub.inputs
            if entry.external is not None
        }
        translated = inner.translate(sub.body, {**_unfed(inner, sub.body.parameters, values), **values})
        results = [translated[node.inputs[0]] for node in sub.body.results]
        indices = {entry.external: entry.result for entry in sub.outputs if entry.external is not None}
        result_types = [output.element_type for output in ctx.node.outputs]
        graph.outputs = [
            inner.cast(results[indices[index]], element_type) for index, element_type in enumerate(result_types)
        ]
        branches.append(graph)
    return ctx.emit_many(
        "If",
        layers.scalar(ctx, ctx.cast(condition, element_types.boolean)),
        count=len(ctx.node.outputs),
        types=[output.element_type for output in ctx.node.outputs],
        then_branch=branches[0],
        else_branch=branches[1],
    )


def _unfed(ctx: Context, parameters: Sequence[Node], fed: object) -> dict[Node, Value]:
    """Parameters that nothing feeds are zero, as in OpenVINO."""
    zeros_of = {}
    for node in parameters:
        if node in fed:  # type: ignore[operator]
            continue
        (output,) = node.outputs
        if not output.shape.is_static:
            ctx.fail(f"nothing feeds the parameter '{node.name}' of the body, whose shape is dynamic")
        zeros_of[node] = ctx.constant(np.zeros(output.shape.static()), output.element_type)
    return zeros_of


@ir_op(Loop5)
def loop(ctx: Context, op: Loop5, trips: Value, condition: Value, *inputs: Value) -> list[Value]:
    """Loop"""
    number = layers.known_number(ctx, trips)
    count: Value | None = None
    if number is None or number >= 0:
        limited = _limited_source(ctx.node.inputs[0])
        count = layers.scalar(ctx, ctx.cast(trips if limited is None else ctx.value(limited), element_types.i64))
        if number is None and limited is None:
            endless = ctx.emit("Less", count, ctx.constant(0))
            count = ctx.emit("Where", endless, ctx.constant(layers.INT64_MAX), count)
    begins = layers.scalar(ctx, ctx.cast(condition, element_types.boolean))
    holds = layers.known_number(ctx, condition)
    return _loop(ctx, op, (trips, condition, *inputs), count, None if holds else begins, op.condition())


@ir_op(TensorIterator1)
def tensor_iterator(ctx: Context, op: TensorIterator1, *inputs: Value) -> list[Value]:
    """Loop over the slices of the inputs"""
    return _loop(ctx, op, inputs, None, None, None)


@record
class _State:
    """A value that an ONNX Loop carries from one iteration to the next."""

    start: Value
    result: int
    """The place, among the results of the IR's body, of what the next iteration reads."""


class _LoopBody:
    """The body of an ONNX Loop: its inputs are the iteration, the condition, and the states."""

    def __init__(self, ctx: Context) -> None:
        self.name = ctx.node.name
        self.graph = Graph(f"{self.name}/body")
        self.ctx = ctx.inside(self.graph)
        self.iteration = input_value(TensorType(element_types.i64, PartialShape(())), f"{self.name}/iteration")
        self.condition = input_value(TensorType(element_types.boolean, PartialShape(())), f"{self.name}/condition")
        self.graph.inputs = [self.iteration, self.condition]
        self.states: list[_State] = []

    def carry(self, name: str, element_type: ElementType, shape: PartialShape, start: Value, result: int) -> Value:
        """Add a state; returns the input of the body that holds it."""
        self.states.append(_State(start, result))
        self.graph.inputs.append(input_value(TensorType(element_type, shape), name))
        return self.graph.inputs[-1]

    def as_parameter(self, scalar_value: Value, parameter: Output) -> Value:
        """The scalar, as a list where the parameter that stands for it is one."""
        is_list = parameter.shape.has_rank and parameter.shape.rank
        return layers.reshape(self.ctx, scalar_value, [1]) if is_list else scalar_value


def _loop(
    ctx: Context,
    op: Union[Loop5, TensorIterator1],
    inputs: Sequence[Value],
    count: Value | None,
    condition: Value | None,
    marked: int | None,
) -> list[Value]:
    """A Loop of at most ``count`` iterations; ``marked`` is the result of the body that is the next condition."""
    sub, carried = op.sub, op.carried()
    body = _LoopBody(ctx)
    limits = [] if count is None else [count]
    values: dict[Node, Value] = {}
    for entry in sub.inputs:
        node = sub.body.parameters[entry.parameter]
        (output,) = node.outputs
        if entry.external is None:
            values[node] = body.as_parameter(body.ctx.cast(body.iteration, output.element_type), output)
            continue
        source, result = inputs[entry.external], carried.get(entry.parameter)
        if entry.axis is not None:
            limits.append(_slice_count(ctx, source, entry))
            values[node] = _cut(body.ctx, source, entry, body.iteration)
        elif result is None:
            values[node] = source
        elif result == marked and _is_begin(ctx, inputs, entry.external):
            values[node] = body.as_parameter(body.condition, output)
        else:
            name = f"{ctx.node.name}/{node.name}"
            values[node] = body.carry(name, output.element_type, output.shape, source, result)
    for parameter in set(carried) - {entry.parameter for entry in sub.inputs}:
        node = sub.body.parameters[parameter]
        (output,), (start,) = node.outputs, _unfed(ctx, [node], {}).values()
        values[node] = body.carry(node.name, output.element_type, output.shape, start, carried[parameter])
    inside = body.ctx.translate(sub.body, {**_unfed(body.ctx, sub.body.parameters, values), **values})
    sources = [node.inputs[0] for node in sub.body.results]
    results = [body.ctx.cast(inside[source], source.element_type) for source in sources]
    last = [entry for entry in sub.outputs if entry.external is not None and entry.axis is None]
    joined = [entry for entry in sub.outputs if entry.external is not None and entry.axis is not None]
    # A last value that no iteration reads is a state that nobody reads.
    for result in dict.fromkeys(entry.result for entry in last):
        if all(state.result != result for state in body.states):
            element_type, shape = sources[result].element_type, sources[result].shape
            dims = [extent.value if extent.is_static else 0 for extent in shape.dims] if shape.has_rank else []
            start = ctx.constant(np.zeros(dims), element_type)
            body.carry(f"{ctx.node.name}/last_{result}", element_type, PartialShape.dynamic(), start, result)
    stacked = [_piece(body.ctx, inside, sources[entry.result], entry) for entry in joined]
    next_condition = body.ctx.constant(True) if marked is None else layers.scalar(body.ctx, results[marked])
    body.graph.outputs = [next_condition, *(results[state.result] for state in body.states), *stacked]
    trips = functools.reduce(lambda least, limit: ctx.emit("Min", least, limit), limits) if limits else None
    if marked is None and trips is None:
        trips = ctx.constant(1)
    if condition is None and (marked is not None or not body.states):
        condition = ctx.constant(True)  # of the inputs that are left out, trailing ones are not written
    returned = [*(state.result for state in body.states), *(entry.result for entry in joined)]
    outputs_of_loop = ctx.emit_many(
        "Loop",
        trips,
        condition,
        *(state.start for state in body.states),
        count=len(returned),
        types=[sources[result].element_type for result in returned],
        body=body.graph,
    )
    indices = {state.result: index for index, state in enumerate(body.states)}
    outputs = {entry.external: outputs_of_loop[indices[entry.result]] for entry in last}
    for part, value in zip(joined, outputs_of_loop[len(body.states) :]):
        outputs[part.external] = _join(ctx, value, part, sources[part.result].shape)
    return [outputs[index] for index in range(len(ctx.node.outputs))]


def _ends(ctx: Context, source: Value, entry: InputMap) -> tuple[Value, Value]:
    """The first and the last border of the slices, as lists of one int64; the end of the data counts as -1."""
    assert entry.axis is not None
    size = layers.dimension(ctx, source, entry.axis)
    return (_border(ctx, size, entry.start), _border(ctx, size, entry.end))


def _border(ctx: Context, size: Value, index: int) -> Value:
    return ctx.constant([index]) if index >= 0 else ctx.emit("Add", size, ctx.constant([index + 1]))


def _slice_count(ctx: Context, source: Value, entry: InputMap) -> Value:
    start, end = _ends(ctx, source, entry)
    low, high = (end, start) if entry.stride < 0 else (start, end)
    length = ctx.emit("Sub", high, low)
    step = abs(entry.stride)
    return layers.reshape(ctx, ctx.emit("Div", length, ctx.constant([step])) if step != 1 else length, [])


def _cut(ctx: Context, source: Value, entry: InputMap, iteration: Value) -> Value:
    """The slice of an iteration."""
    assert entry.axis is not None
    start, _ = _ends(ctx, source, entry)
    offset = ctx.emit("Mul", layers.reshape(ctx, iteration, [1]), ctx.constant([entry.stride]))
    begin = ctx.emit("Add", start, offset)
    size = ctx.constant([entry.part_size])
    if entry.stride < 0:
        begin, end = ctx.emit("Sub", begin, size), begin
    else:
        end = ctx.emit("Add", begin, size)
    return ctx.emit("Slice", source, begin, end, ctx.constant([entry.axis]))


def _is_begin(ctx: Context, inputs: Sequence[Value], external: int) -> bool:
    """True if a loop's input is the condition with which the loop begins, as a Loop of ONNX gives it to its body."""
    first, value = (ctx.constant_values(inputs[index]) for index in (1, external))
    if first is None or value is None:
        return inputs[1] is inputs[external]
    return bool(np.all(first)) and bool(np.all(value))


def _limited_source(trips: Output) -> Output | None:
    """Return the source of a trip count that is 0 at least; ONNX takes a negative one for 0, the IR for no limit."""
    if not isinstance(trips.node.op, Maximum1):
        return None
    for source, least in trips.node.orders:
        constant = least.type.constant
        if constant is not None and constant.size == 1 and constant.reshape(-1)[0] == 0:
            return source
    return None


def _piece(ctx: Context, values: Mapping[Output, Value], result: Output, entry: OutputMap) -> Value:
    """Return the part that an iteration adds to an output, without the dimension to join along where that is 1."""
    node = result.node
    if entry.part_size != 1 or not result.shape.has_rank or not _is_one(result.shape, entry.axis):
        return values[result]
    if isinstance(node.op, Unsqueeze1):
        axes = node.inputs[1].type.constant
        if axes is not None and [int(axis) % result.shape.rank for axis in axes.reshape(-1)] == [entry.axis]:
            return values[node.inputs[0]]
    assert entry.axis is not None
    dims = list(result.shape.dims)
    del dims[entry.axis]
    piece = layers.squeeze(ctx, values[result], [entry.axis])
    piece.type = TensorType(
        piece.element_type, PartialShape(dims)
    )  # what tells the shape where there are no iterations
    return piece


def _is_one(shape: PartialShape, axis: int | None) -> bool:
    return axis is not None and shape[axis].is_static and shape[axis].value == 1


def _join(ctx: Context, stacked: Value, entry: OutputMap, shape: PartialShape) -> Value:
    """The iterations, stacked along a new first dimension, one after the other along their axis."""
    assert entry.axis is not None
    if not shape.has_rank:
        ctx.fail("the rank of what the iterations return must be known")
    if entry.stride < 0:
        bounds = (ctx.constant([-1]), ctx.constant([layers.INT64_MIN]), ctx.constant([0]), ctx.constant([-1]))
        stacked = ctx.emit("Slice", stacked, *bounds)
    rank, axis = shape.rank, entry.axis
    if entry.part_size == 1 and _is_one(shape, axis):
        # One element of the new dimension for each iteration.
        return layers.transpose(ctx, stacked, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
    moved = ctx.emit("Transpose", stacked, perm=order) if axis else stacked
    # The number of iterations and the parts along the axis become one dimension. Without iterations only what is
    # known of the body tells the others.
    before = ctx.emit("Shape", moved)
    parts = [
        ctx.constant([extent.value]) if extent.is_static else _entry(ctx, before, index if index < axis else index + 1)
        for index, extent in enumerate(shape.dims)
    ]
    parts[axis] = ctx.emit("Mul", _entry(ctx, before, axis), _entry(ctx, before, axis + 1))
    return layers.reshape_exactly(ctx, moved, layers.concat(ctx, parts, 0), rank)


def _entry(ctx: Context, numbers: Value, index: int) -> Value:
    return ctx.emit("Gather", numbers, ctx.constant([index]), axis=0)
