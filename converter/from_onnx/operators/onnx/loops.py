"""Loop and Scan: graphs that run several times, with states that each iteration passes to the next.

States of the IR's loops are tensors, states of ONNX's also sequences. Where the number of iterations is known, the body
is translated once for each. Where it is not, a body that only appends to an empty sequence gets the appended tensors as
a scan output instead. If ConcatFromSequence joins them along a dynamic dimension, they may differ in size there, which
no scan output expresses: a state then carries the elements of all tensors so far, and a scan output their shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from converter.from_onnx.lowering.bodies import for_each_slice
from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Body, Context, onnx_op
from converter.from_onnx.translation.context import Boundary
from converter.from_onnx.translation.values import JoinedSequence, SequenceValue, StackedSequence, Value, tensor_of
from converter.onnx_file.messages import AttributeProto, GraphProto, NodeProto, ValueInfoProto
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
from ir_runtime.operations import control_flow, elementwise, movement
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression

_MAX_TRANSLATIONS = 4
"""Maximum number of translations of a loop's body to find types of its states that no longer change."""


def condition(ctx: Context, value: Output) -> Output:
    if value.element_type is not element_types.boolean:
        value = ctx.emit(elementwise.Convert1(destination_type=element_types.boolean), value)
    return as_scalar(ctx, value, "a condition")


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


_MAX_REPETITIONS = 1000
"""The most iterations for which a body is translated once for each."""


def repeated(ctx: Context, trips: int, start: bool, states: Sequence[Value], body: GraphProto) -> list[Value] | None:
    """The states after all iterations and the joined outputs; None where the condition is computed at run time."""
    carried, goes_on = list(states), start
    joined: list[list[Output]] = [[] for _ in body.output[1 + len(states) :]]
    round_number = 0
    while goes_on and round_number < trips:
        number = [round_number] if is_list(body.input[0]) else round_number
        going = [True] if is_list(body.input[1]) else True
        control = [ctx.constant(number), ctx.constant(going, element_types.boolean)]
        prefix = f"{body.name or 'body'}[{round_number}]/"
        results = ctx.graphs.inline(body, [*control, *carried], prefix=prefix)
        condition = tensor_of(results[0], "the condition").type.constant
        if condition is None:
            return None
        goes_on = bool(condition.all())
        carried = results[1 : 1 + len(states)]
        for column, value in zip(joined, results[1 + len(states) :]):
            item = tensor_of(value, "an output of the body")
            column.append(layers.unsqueeze(ctx, item, 0))
        round_number += 1
    if joined and not round_number:
        raise ctx.unsupported("a loop of no iterations with sequences as states has no tensors for its scan outputs")
    return [*carried, *(ctx.emit(movement.Concat1(axis=0), *column) for column in joined)]


def is_list(declared: ValueInfoProto) -> bool:
    """True if a body declares the iteration's number or the condition as a list of one, and not as a scalar."""
    shape = declared_shape(declared.type)
    return shape.has_rank and shape.rank == 1


def known_trips(trip_count: Output | None, cond: Output | None) -> tuple[int, bool] | None:
    """The greatest number of iterations, and whether there is a first one; None where that is computed at run time."""
    count = None if trip_count is None else trip_count.type.constant
    start = np.array(True) if cond is None else cond.type.constant
    if count is None or start is None or count.size != 1 or int(count.reshape(-1)[0]) > _MAX_REPETITIONS:
        return None
    return max(int(count.reshape(-1)[0]), 0), bool(start.all())


@record
class Join:
    """How the tensors of a sequence are joined: along ``axis``, in which they may differ."""

    axis: int
    shape: PartialShape
    """That of each tensor, as far as it is known."""

    @property
    def order(self) -> list[int]:
        """The dimensions of a tensor, with ``axis`` in front."""
        return [self.axis, *(index for index in range(self.shape.rank) if index != self.axis)]

    def start(self, ctx: Context, state: Value) -> Output:
        """Return the state of no tensors."""
        assert isinstance(state, SequenceValue)
        return ctx.constant(np.zeros((1, 0)), state.element_type)

    def append(self, before: str, tensor: str, after: str) -> list[NodeProto]:
        """Return the nodes that append a tensor to the state, the last of which computes its shape."""
        moved, row = f"{after}/moved", f"{after}/row"
        order = AttributeProto(name="perm", type=AttributeProto.INTS, ints=self.order)
        first, second = (AttributeProto(name="axis", type=AttributeProto.INT, i=axis) for axis in (0, 1))
        return [
            NodeProto(op_type="Transpose", input=[tensor], output=[moved], attribute=[order]),
            NodeProto(op_type="Flatten", input=[moved], output=[row], attribute=[first]),
            NodeProto(op_type="Concat", input=[before, row], output=[after], attribute=[second]),
            NodeProto(op_type="Shape", input=[moved], output=[f"{after}/shape"]),
        ]

    def joined(self, ctx: Context, row: Output, shapes: Output) -> JoinedSequence:
        """Return the sequence whose tensors have all elements of ``row``."""
        rows = Expression(ctx, shapes)
        # All but the first dimension are those of the first tensor; without a tensor they are 0.
        first = rows.cut(0, 0, 1).sum(0)
        dims = [self.shape[index] for index in self.order[1:]]
        sizes = [dim.value if dim.is_static else first.gather(index) for index, dim in enumerate(dims, 1)]
        whole = Expression(ctx, row).reshape(rows.sum(0).gather(0), *sizes)
        return JoinedSequence(whole.transpose(*np.argsort(self.order).tolist()).value, self.axis, shapes)


def joined_axes(ctx: Context, states: Sequence[Value]) -> dict[int, Join]:
    """Return how the stacked sequences are joined that ConcatFromSequence joins along a dynamic dimension."""
    joins = {}
    for index, state in enumerate(states):
        if not isinstance(state, StackedSequence) or not state.stacked.shape.has_rank or not ctx.wants(index):
            continue
        readers = [node for node in ctx.graphs.readers(ctx.output_names[index]) if node.op_type == "ConcatFromSequence"]
        options = [{attribute.name: attribute.i for attribute in node.attribute} for node in readers]
        shape = PartialShape(state.stacked.shape.dims[1:])
        axes = {normalize_axis(option.get("axis", 0), shape.rank) for option in options if not option.get("new_axis")}
        # Tensors that are joined along two axes, or a new one, have the same size.
        if len(axes) == 1 and not any(option.get("new_axis") for option in options):
            (axis,) = axes
            if not ctx.declared(state.stacked).shape[1 + axis].is_static:
                joins[index] = Join(axis, shape)
    return joins


def appending(
    ctx: Context, states: Sequence[Value], body: GraphProto, joins: Mapping[int, Join]
) -> tuple[GraphProto, list[int]]:
    """The body with the appended tensors as further outputs instead of sequences, and the numbers of these states.

    The states in ``joins`` stay states, and the further outputs are the shapes of their tensors. Raises an unsupported
    error where a sequence is used in another way.
    """
    places = [index for index, state in enumerate(states) if not isinstance(state, Output)]
    for place in places:
        state = states[place]
        if not isinstance(state, SequenceValue) or state.items:
            raise ctx.unsupported(
                "a loop whose number of iterations is only known at run time can only append to an empty sequence, "
                f"but state {place} is another"
            )
    nodes = list(body.node)
    appended_body = body.with_fields(node=nodes)
    appended = []
    for place in places:
        tensor = _appended_tensor(ctx, appended_body, nodes, place)
        if place in joins:
            nodes += joins[place].append(body.input[2 + place].name, tensor, body.output[1 + place].name)
            tensor = nodes[-1].output[0]
        appended.append(tensor)
    stacked = {place for place in places if place not in joins}
    inputs = [value for index, value in enumerate(appended_body.input) if index - 2 not in stacked]
    outputs = [value for index, value in enumerate(appended_body.output) if index - 1 not in stacked]
    outputs += [ValueInfoProto(name=name) for name in appended]
    return appended_body.with_fields(input=inputs, output=outputs), places


def _appended_tensor(ctx: Context, body: GraphProto, nodes: list[NodeProto], place: int) -> str:
    """The tensor that is appended to a state; the node that appends it is removed from the body."""
    before, after = body.input[2 + place].name, body.output[1 + place].name
    readers = [node for node in nodes if before in read_names(node)]
    users = [node for node in nodes if after in read_names(node)]
    results = [value.name for value in body.output]
    append = readers[0] if len(readers) == 1 else None
    if (
        append is None
        or append.op_type != "SequenceInsert"
        or len([name for name in append.input if name]) != 2
        or list(append.output) != [after]
        or users
        or before in results
        or results.count(after) != 1
    ):
        raise ctx.unsupported(
            f"the sequence '{before}' is more than appended to in a loop whose number of iterations is only known at "
            "execution"
        )
    nodes.remove(append)
    return append.input[1]


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
        trips = layers.maximum(ctx, as_scalar(ctx, trip_count, "the trip count"), ctx.constant(0))
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
