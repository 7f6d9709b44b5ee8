"""ONNX's operators that hold graphs: If, Loop and Scan.

ONNX's graphs see everything around them; the IR's bodies see nothing. What a graph takes from outside
becomes an input of the layer and a parameter of the body.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from onnx import GraphProto, ValueInfoProto

from converter.context import Body, Context, Doorway
from converter.model_info import declared_shape
from converter.node_order import read_names
from converter.registry import onnx_op
from converter.sequence_values import StackedSequence, Value, tensor_of
from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import InputMap, Model, Node, Output, OutputMap, SubGraph
from ir_runtime.operation import Operation, TensorType
from ir_runtime.operations import control_flow, elementwise, movement, slicing
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.shape_inference import make_node
from ir_runtime.shapes import Dimension, PartialShape, normalize_axis
from ir_runtime.tensor import Tensor

from .carriers import carried
from .loop_sequences import appending, is_list, known_trips, repeated
from .shapes import in_type

_logger = logging.getLogger("converter")

_VERSIONS = (1, 11, 13, 16, 19, 21, 23, 24, 25)
_PASSES = 4
"""How often a loop's body is translated before a shape that still changes counts as unknown."""


def _scalar(ctx: Context, value: Output) -> Output:
    """A single value as a scalar, whatever its rank."""
    if value.shape.has_rank and value.shape.rank == 0:
        return value
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([]))


def _condition(ctx: Context, value: Output) -> Output:
    if value.element_type is not element_types.boolean:
        value = ctx.emit(elementwise.Convert1(destination_type="boolean"), value)
    return _scalar(ctx, value)


# --- If ---


@onnx_op("If", versions=_VERSIONS)
def if_(ctx: Context, cond: Output, *, then_branch: GraphProto, else_branch: GraphProto) -> Sequence[Value]:
    """One of two graphs. Where the condition is known while converting, just that one is translated."""
    known = cond.type.constant
    if known is not None and known.size == 1:
        return ctx.walk.inline(then_branch if known.reshape(-1)[0] else else_branch, [])
    branches = _branches(ctx, cond, then_branch, else_branch)
    results = [branch.model.outputs for branch in branches]
    if len(results[0]) != len(results[1]):
        raise ctx.invalid(f"then_branch has {len(results[0])} outputs, but else_branch has {len(results[1])}")
    for index, (then, otherwise) in enumerate(zip(*results)):
        if then.element_type is not otherwise.element_type:
            raise ctx.invalid(
                f"output {index} is {then.element_type} in then_branch, but {otherwise.element_type} in else_branch"
            )
        ranks = [branch.shape.rank if branch.shape.has_rank else None for branch in (then, otherwise)]
        if None in ranks or ranks[0] == ranks[1]:
            continue
        declared = {_declared_rank(graph.output[index]) for graph in (then_branch, else_branch)}
        rank = declared.pop()
        if declared or rank is None or not (_is_single(then) and _is_single(otherwise)):
            raise ctx.unsupported(
                f"output {index} has rank {ranks[0]} in then_branch, but {ranks[1]} in else_branch, and a tensor of "
                f"the IR keeps its rank; which branch is taken {_what_decides(ctx, cond)}"
            )
        for branch in branches:
            _give_rank(branch.model, index, rank)
    captures = list(dict.fromkeys([*branches[0].captures, *branches[1].captures]))
    subgraphs = tuple(
        SubGraph(
            branch.model,
            tuple(InputMap(1 + captures.index(outer), i) for i, outer in enumerate(branch.captures)),
            tuple(OutputMap(i, i) for i in range(len(branch.model.results))),
        )
        for branch in branches
    )
    return ctx.emit_all(control_flow.If8(bodies=subgraphs), _condition(ctx, cond), *captures)


def _declared_rank(output: ValueInfoProto) -> int | None:
    shape = declared_shape(output.type)
    return shape.rank if shape.has_rank else None


def _is_single(value: Output) -> bool:
    return value.shape.element_count() == Dimension(1, 1)


def _give_rank(body: Model, index: int, rank: int) -> None:
    """Makes a result of one element what the graph declares; exporters mix up [] and [1]."""
    old = body.results[index]
    ones = np.ones(rank, np.int64)
    shape = make_node(Const1(value=Tensor.from_array(ones, element_types.i64)), (), f"{old.name}/shape")
    made = make_node(movement.Reshape1(), [old.inputs[0], shape.outputs[0]], f"{old.name}/reshape")
    body.results[index] = make_node(Result1(), made.outputs, old.name)


def _branches(ctx: Context, cond: Output, *graphs: GraphProto) -> list[Body]:
    """Both branches as bodies; one that cannot work with the shapes around it fails when it is taken.

    That is what ONNX does, too: a branch for another sampling rate, say, may be at odds with the shapes
    of the inputs, and does no harm while nobody takes it.
    """
    made = [ctx.walk.body_or_contradictions(graph) for graph in graphs]
    bodies = [branch for branch in made if isinstance(branch, Body)]
    reasons = "; ".join(str(problem) for branch in made if not isinstance(branch, Body) for problem in branch)
    if not bodies:
        raise ctx.invalid(f"neither branch fits what surrounds it: {reasons}")
    if len(bodies) < len(made):
        name = "then_branch" if isinstance(made[1], Body) else "else_branch"
        _logger.warning(
            "the %s of the If that makes '%s' contradicts what surrounds it and fails when it is taken: %s",
            name,
            next(iter(ctx.output_names), ""),
            reasons,
        )
        failing = _failing(cond, bodies[0], name)
        return [failing, *bodies] if name == "then_branch" else [*bodies, failing]
    return bodies


def _failing(cond: Output, other: Body, name: str) -> Body:
    """A body that has the outputs of ``other`` and fails when it runs: it reshapes one element too many.

    How many elements there are comes from the condition, so that nobody can work it out before.
    """
    model = Model(name)

    def layer(op: Operation, *inputs: Output) -> Output:
        made = make_node(op, inputs)
        made.name = f"{op.type}_{len(layers)}"
        layers.append(made)
        return made.outputs[0]

    def numbers(values: Sequence[int], kind: str = "i64") -> Output:
        wanted = element_types.element_type(kind)
        array = np.asarray(values, wanted.dtype)
        return layer(Const1(value=Tensor.from_array(array, wanted)))

    layers: list[Node] = []
    condition = layer(Parameter1(shape=cond.shape, element_type=cond.element_type))
    model.parameters.append(condition.node)
    several = layer(movement.Reshape1(), layer(elementwise.Convert1(destination_type="i64"), condition), numbers([1]))
    for index, result in enumerate(other.model.outputs):
        extents = [d.value if d.is_static else 1 for d in result.shape] if result.shape.has_rank else []
        size = layer(elementwise.Add1(), several, numbers([math.prod(extents) + 2]))
        flat = layer(movement.Broadcast3(), numbers([0], result.element_type.name), size)
        out = layer(movement.Reshape1(), flat, numbers(extents))
        out.node.name = f"{name} contradicts the shapes around it, output {index}"
        model.results.append(make_node(Result1(), [out], f"result_{index}"))
    return Body(model, (cond,))


def _what_decides(ctx: Context, cond: Output) -> str:
    """The inputs of the model on whose values or unknown dimensions a condition depends, and the way out."""
    values: dict[str, None] = {}
    shapes: dict[str, PartialShape] = {}
    seen: set[tuple[Output, bool]] = set()
    pending = [(cond, False)]
    while pending:
        output, by_shape = pending.pop()
        if (output, by_shape) in seen or (by_shape and output.shape.is_static):
            continue
        seen.add((output, by_shape))
        node = output.node
        outer = ctx.walk.captured(node) if node.op.role == "parameter" else None
        if outer is not None:
            pending.append((outer, by_shape))
        elif node.op.role == "parameter" and by_shape:
            shapes[node.name] = output.shape
        elif node.op.role == "parameter":
            values[node.name] = None
        else:
            pending.extend((source, by_shape or isinstance(node.op, ShapeOf3)) for source in node.inputs)
    reasons = [
        f"depends on {_unknown(shape)} of the input '{name}' {shape}: give it a shape" for name, shape in shapes.items()
    ]
    reasons += [f"depends on the value of the input '{name}': freeze it" for name in values]
    return ", and ".join(reasons) or "is only known at execution"


def _unknown(shape: PartialShape) -> str:
    if not shape.has_rank:
        return "the unknown rank"
    found = [str(axis) for axis, extent in enumerate(shape) if not extent.is_static]
    return f"the unknown dimension{'s' * (len(found) > 1)} {' and '.join(found)}"


# --- Loop ---


def _plain(value: Output) -> TensorType:
    return TensorType(value.element_type, value.shape)


def _joined_along(axes: Mapping[int, int]) -> Doorway:
    """Gives results, by their number, a dimension of extent 1 along which the iterations are joined."""

    def leave(ctx: Context, index: int, value: Output) -> Output:
        if index not in axes:
            return value
        return ctx.emit(movement.Unsqueeze1(), value, ctx.constant([axes[index]]))

    return leave


_VIEWS = (
    elementwise.Convert1,
    movement.Reshape1,
    movement.Squeeze1,
    movement.Unsqueeze1,
    movement.Concat1,
    slicing.Split1,
    slicing.VariadicSplit1,
    slicing.Slice8,
    slicing.StridedSlice1,
)
"""Layers whose output may lie in the memory of their input."""


def _moved_on(ctx: Context, value: Output, own: Node | None) -> Output:
    """The next value of the state whose parameter is ``own``, in memory of its own.

    What another parameter hands on lies in that parameter's memory, and the CPU plug-in fills it for the
    next iteration before it reads the state there. It keeps a layer that computes, though, and the
    greatest of a value and itself is that value.
    """
    source = value.node
    while isinstance(source.op, _VIEWS):
        source = source.inputs[0].node
    if source.op.role != "parameter" or source is own or value.element_type is element_types.string:
        return value
    same = elementwise.LogicalOr1 if value.element_type is element_types.boolean else elementwise.Maximum1
    return ctx.emit(same(), value, value)


def _settled(
    ctx: Context,
    states: Sequence[Output],
    offset: int,
    make: Callable[[list[TensorType]], Body],
    free: Collection[int] = (),
) -> Body:
    """The body whose states have types that hold in every iteration.

    ``make`` translates it for given types of the states; its results from ``offset`` on are their next
    values. What the states in ``free`` begin with does not matter.
    """
    types = [_plain(state) for state in states]
    for _ in range(_PASSES):
        body = make(types)
        results = body.model.outputs[offset : offset + len(types)]
        widened = [
            _plain(result) if index in free else _wider(ctx, kind, result)
            for index, (kind, result) in enumerate(zip(types, results))
        ]
        if widened == types:
            return body
        types = widened
    raise ctx.unsupported("the shape of a value that is carried round keeps changing")


def _wider(ctx: Context, kind: TensorType, result: Output) -> TensorType:
    if result.element_type is not kind.element_type:
        raise ctx.invalid(f"a value that is carried round is {kind.element_type}, but becomes {result.element_type}")
    if not kind.shape.has_rank or not result.shape.has_rank or result.shape.rank != kind.shape.rank:
        return dataclasses.replace(kind, shape=PartialShape.dynamic())
    # An extent that changes once may change in every round.
    dims = [before if before == after else None for before, after in zip(kind.shape, result.shape)]
    return dataclasses.replace(kind, shape=PartialShape(dims))


@onnx_op("Loop", versions=_VERSIONS, takes_values=True)
def loop(
    ctx: Context,
    trip_count: Value | None = None,
    cond: Value | None = None,
    *v_initial: Value,
    body: GraphProto,
) -> Sequence[Value]:
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
    if len(tensors) == count:
        return _loop(ctx, trips, start, tensors, body)
    known = known_trips(trips, start)
    made = None if known is None else repeated(ctx, *known, v_initial, body)
    if made is not None:
        return made
    reduced, places = appending(ctx, v_initial, body)
    results = _loop(ctx, trips, start, tensors, reduced)
    gathered = iter(StackedSequence(value) for value in results[len(results) - len(places) :])
    plain = iter(results[: len(results) - len(places)])
    return [*(next(gathered) if index in places else next(plain) for index in range(count)), *plain]


def _loop(
    ctx: Context, trip_count: Output | None, cond: Output | None, v_initial: Sequence[Output], body: GraphProto
) -> list[Output]:
    count = len(v_initial)
    # -1 is no limit in the IR; to ONNX it is as good as 0.
    trips = ctx.constant(-1)
    if trip_count is not None:
        trips = ctx.emit(elementwise.Maximum1(), _scalar(ctx, trip_count), ctx.constant(0))
    start = ctx.constant(True, "boolean") if cond is None else _condition(ctx, cond)
    fixed = [TensorType(element_types.i64, PartialShape(())), TensorType(element_types.boolean, PartialShape(()))]
    join = _joined_along(dict.fromkeys(range(1 + count, len(body.output)), 0))

    constant = {i: state.tensor for i, state in enumerate(v_initial) if state.tensor is not None and _stays(body, i)}
    states = [state if i in constant else carried(ctx, state) for i, state in enumerate(v_initial)]
    parameters: dict[int, Node] = {}
    kinds: dict[int, ElementType] = {}

    def enter(inner: Context, index: int, value: Output) -> Output:
        if index < 2:
            return (
                inner.emit(movement.Unsqueeze1(), value, inner.constant([0])) if is_list(body.input[index]) else value
            )
        if index - 2 in constant:
            return inner.tensor(constant[index - 2])
        parameters[index - 2] = value.node
        return in_type(inner, value, v_initial[index - 2].element_type)

    def leave(inner: Context, index: int, value: Output) -> Output:
        if index == 0:
            return _condition(inner, value)
        kinds[index - 1] = value.element_type
        value = carried(inner, value)
        if index > count:
            return join(inner, index, value)
        if _is_single(value) and _is_single(states[index - 1]):
            value = _in_rank_of(inner, value, states[index - 1], body.output[index])
        return _moved_on(inner, value, parameters.get(index - 1))

    free = _unread(body, count) if _runs(trips, start) else []
    made = _settled(ctx, states, 1, lambda types: ctx.walk.body(body, [*fixed, *types], enter, leave), free)
    for index in free:
        states[index] = _beginning(ctx, states[index], made.model.outputs[1 + index])
    results = _emit_loop(ctx, made, (trips, start), states, [_stays(body, i) for i in range(count)])
    return [in_type(ctx, result, kinds[index]) for index, result in enumerate(results)]


def _runs(trips: Output, start: Output) -> bool:
    """Whether the body is known to run at least once."""
    known = [value.type.constant for value in (trips, start)]
    return all(value is not None for value in known) and bool(known[0] != 0) and bool(known[1])


def _unread(body: GraphProto, count: int) -> list[int]:
    """The states that the body overwrites without looking at them."""
    read = {value.name for value in body.output}.union(*(read_names(node) for node in body.node))
    return [index for index in range(count) if body.input[2 + index].name not in read]


def _beginning(ctx: Context, state: Output, value: Output) -> Output:
    """Something for a state to begin with that nobody reads; exporters leave a scalar there."""
    if state.shape.merge(value.shape) is not None or not value.shape.has_rank:
        return state
    extents = [extent.value if extent.is_static else 1 for extent in value.shape]
    return ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, state), ctx.constant(extents))


def _stays(body: GraphProto, index: int) -> bool:
    """Whether the body hands a state on as it came."""
    return body.output[1 + index].name == body.input[2 + index].name


def _in_rank_of(ctx: Context, value: Output, state: Output, declared: ValueInfoProto) -> Output:
    """One element in the rank that its state began with, if that is what the body declares."""
    rank = state.shape.rank
    if value.shape.rank == rank or _declared_rank(declared) != rank:
        return value
    return ctx.emit(movement.Reshape1(), value, ctx.constant(np.ones(rank, np.int64)))


def _emit_loop(
    ctx: Context, made: Body, control: Sequence[Output], states: Sequence[Output], stays: Sequence[bool]
) -> list[Output]:
    """The layer, which carries round only what changes; what stays is an input like any other, or a constant."""
    model, count = made.model, len(states)
    changing = [i for i in range(count) if not stays[i]]
    needed = [i for i in range(count) if not stays[i] or states[i].tensor is None]
    joined = range(1 + count, len(model.results))
    body = Model(model.name)
    body.parameters = [
        *model.parameters[:2],
        *(model.parameters[2 + i] for i in needed),
        *model.parameters[2 + count :],
    ]
    body.results = [model.results[0], *(model.results[1 + i] for i in changing), *(model.results[i] for i in joined)]
    # The layer's input 0 is the trip count, which no parameter takes; the iteration's number comes from no input.
    inputs = [InputMap(None, 0), *(InputMap(i, i) for i in range(1, len(body.parameters)))]
    back = [(0, 1), *((1 + place, 2 + needed.index(i)) for place, i in enumerate(changing))]
    outputs = [OutputMap(None, 0), *(OutputMap(i, 1 + i) for i in range(len(changing)))]
    outputs += [OutputMap(i, 1 + i, axis=0) for i in range(len(changing), len(body.results) - 1)]
    op = control_flow.Loop5(bodies=(SubGraph(body, tuple(inputs), tuple(outputs), tuple(back)),))
    results = ctx.emit_all(op, *control, *(states[i] for i in needed), *made.captures)
    ends = {i: results[place] for place, i in enumerate(changing)}
    return [*(ends.get(i, states[i]) for i in range(count)), *results[len(changing) :]]


# --- Scan ---


@onnx_op("Scan", versions=(8,))
def scan_8(
    ctx: Context,
    sequence_lens: Output | None = None,
    *initial_state_and_scan_inputs: Output,
    body: GraphProto,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> list[Output]:
    """The first version, which has a batch dimension before everything else."""
    if sequence_lens is not None:
        raise ctx.unsupported("sequence_lens of Scan, which lets each sequence of a batch end at its own time")
    values = list(initial_state_and_scan_inputs)
    if any(not value.shape.has_rank or value.shape.rank == 0 or value.shape[0] != Dimension(1, 1) for value in values):
        raise ctx.unsupported("a batch of more than one sequence in a Scan of opset 8")
    first = ctx.constant([0])
    alone = [ctx.emit(movement.Squeeze1(), value, first) for value in values]
    results = scan(ctx, *alone, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=list(directions))
    return [ctx.emit(movement.Unsqueeze1(), result, first) for result in results]


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
    """Runs the body over slices of the scan inputs, carrying states along."""
    values = list(initial_state_and_scan_inputs)
    if not 1 <= num_scan_inputs <= len(values):
        raise ctx.invalid(f"num_scan_inputs must be from 1 to {len(values)}, but is {num_scan_inputs}")
    count = len(values) - num_scan_inputs
    values = [carried(ctx, value) for value in initial_state_and_scan_inputs]
    states, scanned = values[:count], values[count:]
    if len(body.input) != len(values) or len(body.output) < count:
        raise ctx.invalid(f"the body has {len(body.input)} inputs, but {len(values)} are given")
    in_axes = [
        normalize_axis(axis, ctx.rank(x, "a scan input"), "scan_input_axes:")
        for axis, x in zip(_filled(ctx, scan_input_axes, num_scan_inputs, "scan_input_axes"), scanned)
    ]
    in_back = _filled(ctx, scan_input_directions, num_scan_inputs, "scan_input_directions")
    joined = len(body.output) - count
    out_axes = _filled(ctx, scan_output_axes, joined, "scan_output_axes")
    out_back = _filled(ctx, scan_output_directions, joined, "scan_output_directions")
    slices = [TensorType(x.element_type, x.shape.replace(axis, 1)) for x, axis in zip(scanned, in_axes)]
    places: dict[int, int] = {}
    parameters: dict[int, Node] = {}
    kinds: dict[int, ElementType] = {}

    def enter(inner: Context, index: int, value: Output) -> Output:
        parameters[index] = value.node
        value = in_type(inner, value, initial_state_and_scan_inputs[index].element_type)
        if index < count:
            return value
        return inner.emit(movement.Squeeze1(), value, inner.constant([in_axes[index - count]]))

    def leave(inner: Context, index: int, value: Output) -> Output:
        kinds[index] = value.element_type
        value = carried(inner, value)
        if index < count:
            return _moved_on(inner, value, parameters[index])
        rank = inner.rank(value, "a scan output") + 1
        places[index] = normalize_axis(out_axes[index - count], rank, "scan_output_axes:")
        return _joined_along(places)(inner, index, value)

    made = _settled(ctx, states, 0, lambda types: ctx.walk.body(body, [*types, *slices], enter, leave))
    inputs = [InputMap(i, i) for i in range(count)]
    inputs += [InputMap(i, i, axis, *_ends(back)) for i, (axis, back) in enumerate(zip(in_axes, in_back), count)]
    inputs += [InputMap(i, i) for i in range(len(values), len(values) + len(made.captures))]
    outputs = [OutputMap(i, i) for i in range(count)]
    outputs += [OutputMap(i, i, places[i], *_ends(back)) for i, back in enumerate(out_back, count)]
    back_edges = tuple((i, i) for i in range(count))
    op = control_flow.TensorIterator1(bodies=(SubGraph(made.model, tuple(inputs), tuple(outputs), back_edges),))
    results = ctx.emit_all(op, *values, *made.captures)
    return [in_type(ctx, result, kinds[index]) for index, result in enumerate(results)]


def _filled(ctx: Context, given: Sequence[int], count: int, name: str) -> list[int]:
    if given and len(given) != count:
        raise ctx.invalid(f"{name} must have {count} entries, but is {list(given)}")
    return list(given) or [0] * count


def _ends(backwards: int) -> tuple[int, int, int]:
    """start, end and stride of slices that run forwards or backwards."""
    return (-1, 0, -1) if backwards else (0, -1, 1)
