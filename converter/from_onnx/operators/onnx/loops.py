"""Loop and Scan: graphs that run several times, with states that each iteration passes to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from converter.from_onnx.lowering.bodies import for_each_slice
from converter.from_onnx.operators.onnx.loop_sequences import (
    Join,
    appending,
    is_list,
    joined_axes,
    known_trips,
    repeated,
)
from converter.from_onnx.operators.onnx.loop_states import (
    condition,
    declared_rank,
    is_single,
    joined_along,
    scalar,
    settle_state_types,
)
from converter.from_onnx.translation import Body, Context, onnx_op
from converter.from_onnx.translation.values import StackedSequence, Value, tensor_of
from converter.onnx_file.messages import GraphProto, ValueInfoProto
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import read_names
from ir_runtime.graph import (
    Dimension,
    InputMap,
    Output,
    OutputMap,
    PartialShape,
    SubGraph,
    Tensor,
    TensorType,
    element_types,
    normalize_axis,
)
from ir_runtime.operations import control_flow, movement
from ir_runtime.rewriting import layers

_CONTROL = (TensorType(element_types.i64, PartialShape(())), TensorType(element_types.boolean, PartialShape(())))
"""The types of every body's first inputs: the number of the iteration and the condition."""


@onnx_op("Loop", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25), takes_values=True)
def loop(
    ctx: Context,
    trip_count: Value | None = None,
    cond: Value | None = None,
    *v_initial: Value,
    body: GraphProto,
) -> Sequence[Value | None]:
    """Runs the body until the trip count is reached or its condition fails; either may be absent.

    Sequences among the states are lowered to tensors.
    """
    count = len(v_initial)
    if len(body.input) != 2 + count or len(body.output) < 1 + count:
        raise ctx.invalid(
            f"the body has {len(body.input)} inputs and {len(body.output)} outputs, which does not fit "
            f"{count} loop-carried values"
        )
    trips = None if trip_count is None else tensor_of(trip_count, "the trip count")
    start = None if cond is None else tensor_of(cond, "the condition")
    tensors = [state for state in v_initial if isinstance(state, Output)]
    if _never_runs(ctx, trips, start):
        if not any(ctx.output_names[count:]):
            return [*v_initial, *[None] * (len(body.output) - 1 - count)]
        if len(tensors) == count:
            return [*tensors, *_nothing_joined(ctx, tensors, body)]
    if len(tensors) == count:
        return _loop(ctx, trips, start, tensors, body)
    trip_range = known_trips(trips, start)
    unrolled = None if trip_range is None else repeated(ctx, *trip_range, v_initial, body)
    if unrolled is not None:
        return unrolled
    results = _appended(ctx, trips, start, v_initial, body, {})
    joins = joined_axes(ctx, results[:count])
    return _appended(ctx, trips, start, v_initial, body, joins) if joins else results


def _appended(
    ctx: Context,
    trips: Output | None,
    start: Output | None,
    v_initial: Sequence[Value],
    body: GraphProto,
    joins: Mapping[int, Join],
) -> list[Value]:
    """The results of a loop that appends to empty sequences, of which the states in ``joins`` carry joined tensors."""
    reduced, places = appending(ctx, v_initial, body, joins)
    states = [joins[index].start(ctx, state) if index in joins else state for index, state in enumerate(v_initial)]
    results = _loop(ctx, trips, start, [state for state in states if isinstance(state, Output)], reduced)
    plain = iter(results[: len(results) - len(places)])
    gathered = dict(zip(places, results[len(results) - len(places) :]))
    ends: list[Value] = []
    for index in range(len(v_initial)):
        if index in joins:
            ends.append(joins[index].joined(ctx, next(plain), gathered[index]))
        else:
            ends.append(StackedSequence(gathered[index]) if index in gathered else next(plain))
    return [*ends, *plain]


def _loop(
    ctx: Context, trip_count: Output | None, cond: Output | None, v_initial: Sequence[Output], body: GraphProto
) -> list[Output]:
    count = len(v_initial)
    # A trip count of -1 means no limit in the IR, and no iteration in ONNX.
    trips = ctx.constant(-1)
    if trip_count is not None:
        trips = layers.maximum(ctx, scalar(ctx, trip_count), ctx.constant(0))
    start = ctx.constant(True, "boolean") if cond is None else condition(ctx, cond)
    join = joined_along(dict.fromkeys(range(1 + count, len(body.output)), 0))

    constant = {i: state.tensor for i, state in enumerate(v_initial) if state.tensor is not None and _stays(body, i)}
    states = list(v_initial)

    def enter(inner: Context, index: int, value: Output) -> Output:
        if index < 2:
            return (
                inner.emit(movement.Unsqueeze1(), value, inner.constant([0])) if is_list(body.input[index]) else value
            )
        if index - 2 in constant:
            return inner.tensor(constant[index - 2])
        return value

    def leave(inner: Context, index: int, value: Output) -> Output:
        if index == 0:
            return condition(inner, value)
        if index > count:
            return join(inner, index, value)
        if is_single(value) and is_single(states[index - 1]):
            value = _in_rank_of(inner, value, states[index - 1], body.output[index])
        return value

    free = _unread(body, count) if _runs(trips, start) else []
    translated = settle_state_types(
        ctx, states, 1, lambda types: ctx.graphs.body(body, [*_CONTROL, *types], enter, leave), free
    )
    for index in free:
        states[index] = _beginning(ctx, states[index], translated.model.outputs[1 + index])
    return _emit_loop(ctx, translated, (trips, start), states, [_stays(body, i) for i in range(count)])


def _never_runs(ctx: Context, trip_count: Output | None, cond: Output | None) -> bool:
    """True if it follows from constants or declared shapes that the body does not run at all.

    The results are then the initial states and empty scan outputs; engines differ in the shapes of these.
    """

    def never(types: Sequence[TensorType | None]) -> bool:
        trips, start = (None if tensor_type is None else tensor_type.constant for tensor_type in types)
        return (trips is not None and bool((trips <= 0).all())) or (start is not None and not start.all())

    control = (trip_count, cond)
    if never([None if value is None else value.type for value in control]):
        return True
    if never([None if value is None else ctx.declared(value) for value in control]):
        ctx.graphs.keep_dimensions()
        return True
    return False


def _nothing_joined(ctx: Context, states: Sequence[Output], body: GraphProto) -> list[Output]:
    """Scan outputs of no iterations: their types and ranks are those of the body's results.

    As in onnxruntime, a dimension is 0 if neither the file declares it nor the inputs' shapes determine it.
    """
    count = len(states)
    static_shapes: dict[int, PartialShape] = {}

    def leave(inner: Context, index: int, value: Output) -> Output:
        static_shapes[index] = inner.declared(value).shape
        return value

    translated = settle_state_types(ctx, states, 1, lambda types: ctx.graphs.body(body, [*_CONTROL, *types]))
    ctx.graphs.body(body, [*_CONTROL, *(ctx.declared(state) for state in states)], leave=leave)
    joined = []
    for index in range(1 + count, len(body.output)):
        value = translated.model.outputs[index]
        declared = declared_shape(body.output[index].type)
        shape = value.shape.merge(declared) or value.shape
        decided = shape.merge(static_shapes[index]) or shape
        dimensions = _of_nothing(decided)
        if dimensions != _of_nothing(shape):
            ctx.graphs.keep_dimensions()
        element_type = value.element_type
        joined.append(ctx.tensor(Tensor.from_array(np.zeros([0, *dimensions], element_type.dtype), element_type)))
    return joined


def _of_nothing(shape: PartialShape) -> list[int]:
    return [dimension.value if dimension.is_static else 0 for dimension in shape.dims] if shape.has_rank else []


def _runs(trips: Output, start: Output) -> bool:
    """True if the body is known to run at least once."""
    constants = [value.type.constant for value in (trips, start)]
    return all(value is not None for value in constants) and bool(constants[0] != 0) and bool(constants[1])


def _unread(body: GraphProto, count: int) -> list[int]:
    """The states that the body never reads."""
    read = {value.name for value in body.output}.union(*(read_names(node) for node in body.node))
    return [index for index in range(count) if body.input[2 + index].name not in read]


def _beginning(ctx: Context, state: Output, value: Output) -> Output:
    """A first value in the shape of the later ones, for a state that is never read: exporters give a scalar."""
    if state.shape.merge(value.shape) is not None or not value.shape.has_rank:
        return state
    dimensions = [dimension.value if dimension.is_static else 1 for dimension in value.shape]
    return ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, state), ctx.constant(dimensions))


def _stays(body: GraphProto, index: int) -> bool:
    """True if the body returns a state unchanged."""
    return body.output[1 + index].name == body.input[2 + index].name


def _in_rank_of(ctx: Context, value: Output, state: Output, declared: ValueInfoProto) -> Output:
    """A value of one element in the rank of its initial state, if the body declares that rank."""
    rank = state.shape.rank
    if value.shape.rank == rank or declared_rank(declared) != rank:
        return value
    return ctx.emit(movement.Reshape1(), value, ctx.constant(np.ones(rank, np.int64)))


def _emit_loop(
    ctx: Context, translated: Body, control: Sequence[Output], states: Sequence[Output], stays: Sequence[bool]
) -> list[Output]:
    """The Loop layer. Only states that change pass from iteration to iteration; others are inputs or constants."""
    body, count = translated.model, len(states)
    changing = [i for i in range(count) if not stays[i]]
    needed = [i for i in range(count) if not stays[i] or states[i].tensor is None]
    joined = range(1 + count, len(body.results))
    body.parameters = [
        *body.parameters[:2],
        *(body.parameters[2 + i] for i in needed),
        *body.parameters[2 + count :],
    ]
    body.results = [body.results[0], *(body.results[1 + i] for i in changing), *(body.results[i] for i in joined)]
    # The layer's input 0 is the trip count, which no parameter takes; the iteration's number comes from no input.
    inputs = [InputMap(None, 0), *(InputMap(i, i) for i in range(1, len(body.parameters)))]
    back = [(0, 1), *((1 + place, 2 + needed.index(i)) for place, i in enumerate(changing))]
    outputs = [OutputMap(None, 0), *(OutputMap(i, 1 + i) for i in range(len(changing)))]
    outputs += [OutputMap(i, 1 + i, axis=0) for i in range(len(changing), len(body.results) - 1)]
    op = control_flow.Loop5(bodies=(SubGraph(body, tuple(inputs), tuple(outputs), tuple(back)),))
    results = ctx.emit_all(op, *control, *(states[i] for i in needed), *translated.captures)
    ends = {i: results[place] for place, i in enumerate(changing)}
    return [*(ends.get(i, states[i]) for i in range(count)), *results[len(changing) :]]


# --- Scan ---

_IN_AXES = "scan_input_axes:"


@onnx_op("Scan", versions=(8,))
def scan_8(
    ctx: Context,
    sequence_lens: Output | None = None,
    *initial_state_and_scan_inputs: Output,
    body: GraphProto,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> list[Output]:
    """The first version, in which all values have a batch dimension in front."""
    if sequence_lens is not None:
        raise ctx.unsupported("sequence_lens of Scan, by which the sequences of a batch have lengths of their own")
    values = list(initial_state_and_scan_inputs)
    if any(ctx.rank(value, "an input of Scan") == 0 for value in values):
        raise ctx.invalid("the inputs of a Scan of opset 8 must have a batch dimension, but one is a scalar")

    def of_one(inner: Context, batch: Sequence[Output]) -> list[Output]:
        first = inner.constant([0])
        alone = [layers.squeeze(inner, value, first) for value in batch]
        ends = scan(inner, *alone, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=list(directions))
        return [inner.emit(movement.Unsqueeze1(), end, first) for end in ends]

    if all(ctx.declared(value).shape[0] == Dimension(1, 1) for value in values):
        ctx.graphs.keep_dimensions()
        return of_one(ctx, values)
    return for_each_slice(ctx, values, of_one)


@onnx_op("Scan", versions=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    ctx: Context,
    *initial_state_and_scan_inputs: Output,
    body: GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> list[Output]:
    """Runs the body over slices of the scan inputs; states pass from one iteration to the next."""
    values = list(initial_state_and_scan_inputs)
    if not 1 <= num_scan_inputs <= len(values):
        raise ctx.invalid(f"num_scan_inputs must be from 1 to {len(values)}, but is {num_scan_inputs}")
    count = len(values) - num_scan_inputs
    states, scanned = values[:count], values[count:]
    if len(body.input) != len(values) or len(body.output) < count:
        raise ctx.invalid(f"the body has {len(body.input)} inputs, but {len(values)} are given")
    in_axes = [
        axis if axis >= 0 and not x.shape.has_rank else normalize_axis(axis, ctx.rank(x, "a scan input"), _IN_AXES)
        for axis, x in zip(_fill(ctx, scan_input_axes, num_scan_inputs, "scan_input_axes"), scanned)
    ]
    in_back = _fill(ctx, scan_input_directions, num_scan_inputs, "scan_input_directions")
    joined = len(body.output) - count
    out_axes = _fill(ctx, scan_output_axes, joined, "scan_output_axes")
    out_back = _fill(ctx, scan_output_directions, joined, "scan_output_directions")
    slices = [
        TensorType(x.element_type, x.shape.replace(axis, 1) if x.shape.has_rank else x.shape)
        for x, axis in zip(scanned, in_axes)
    ]
    places: dict[int, int] = {}

    def enter(inner: Context, index: int, value: Output) -> Output:
        if index < count:
            return value
        return inner.emit(movement.Squeeze1(), value, inner.constant([in_axes[index - count]]))

    def leave(inner: Context, index: int, value: Output) -> Output:
        if index < count:
            return value
        axis = out_axes[index - count]
        if axis < 0 or value.shape.has_rank:
            axis = normalize_axis(axis, inner.rank(value, "a scan output") + 1, "scan_output_axes:")
        places[index] = axis
        return joined_along(places)(inner, index, value)

    translated = settle_state_types(
        ctx, states, 0, lambda types: ctx.graphs.body(body, [*types, *slices], enter, leave)
    )
    inputs = [InputMap(i, i) for i in range(count)]
    inputs += [InputMap(i, i, axis, *_ends(back)) for i, (axis, back) in enumerate(zip(in_axes, in_back), count)]
    inputs += [InputMap(i, i) for i in range(len(values), len(values) + len(translated.captures))]
    outputs = [OutputMap(i, i) for i in range(count)]
    outputs += [OutputMap(i, i, places[i], *_ends(back)) for i, back in enumerate(out_back, count)]
    back_edges = tuple((i, i) for i in range(count))
    op = control_flow.TensorIterator1(bodies=(SubGraph(translated.model, tuple(inputs), tuple(outputs), back_edges),))
    return ctx.emit_all(op, *values, *translated.captures)


def _fill(ctx: Context, entries: Sequence[int], count: int, name: str) -> list[int]:
    if entries and len(entries) != count:
        raise ctx.invalid(f"{name} must have {count} entries, but is {list(entries)}")
    return list(entries) or [0] * count


def _ends(backwards: int) -> tuple[int, int, int]:
    """Start, end and stride of slices in forward or backward order."""
    return (-1, 0, -1) if backwards else (0, -1, 1)
