"""Rules for Loop, TensorIterator and If."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import (
    ElementType,
    InputMap,
    Model,
    Node,
    Output,
    OutputMap,
    SubGraph,
    TensorType,
    element_types,
    make_node,
)
from ir_runtime.operations.activation import PReLU1, SoftMax1, SoftMax8
from ir_runtime.operations.control_flow import If8, Loop5
from ir_runtime.operations.elementwise import Add1, Binary, Convert1, Divide1, Exp1, Multiply1, Power1, Subtract1, Unary
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Transpose1, Unsqueeze1
from ir_runtime.operations.normalization import MVN2, MVN6
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import Builder, NotMatched, PassTrace, Replacement, UniqueNames, fail, layers
from ir_runtime.rewriting.expressions import Expression
from ir_runtime.rewriting.matching import Pattern, anything, constant, layer, number
from ir_runtime.rewriting.shape_layers import dim_of, shape_of

from .intervals import interval_of
from .opaque_identity import prevent_fusion

_VIEWS = (Concat1, Convert1, Reshape1, Slice8, Split1, Squeeze1, StridedSlice1, Transpose1, Unsqueeze1, VariadicSplit1)
"""Layers whose output may lie in the memory of their input: a Transpose where it moves only dimensions of 1."""
ELEMENTWISE = (Binary, PReLU1, Unary)
"""Layers that may write their output into the memory of their first input."""


@openvino_cpu.edits("loop_states_in_shared_memory", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def loop_states_in_shared_memory(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Give the next values of a loop's states memory of their own.

    What a body returns as the next value of a state may lie in the memory of a parameter: a view of it does, and so
    does arithmetic that the plug-in computes in place. Before the next iteration the plug-in fills the parameters.
    Where the value lies in the memory of another parameter (a slice of the input, or another state), it is overwritten
    before it is copied.

        state', x -> Add(x, state) -> Result (state)      becomes      ... -> Add(x, state) -> Maximum(y, y) -> Result

    Maximum changes nothing. It reads its input twice, and so is not computed in place.
    """
    count = sum(map(_give_own_memory, node.op.subgraphs))
    return count or fail("no next state lies in the memory of another parameter")


def _give_own_memory(sub: SubGraph) -> int:
    count, unique = 0, UniqueNames(sub.body)
    for result, parameter in sub.back_edges:
        returned, own = sub.body.results[result], sub.body.parameters[parameter]
        value = returned.inputs[0]
        place = _memory_of(value)
        if place.op.role != "parameter" or place is own or value.element_type is element_types.string:
            continue
        prevent_fusion(value, [returned], unique)
        count += 1
    return count


def _memory_of(value: Output) -> Node:
    """The layer in whose memory a value may lie."""
    _, value = source_of_views(value)
    while _is_in_place(value):
        _, value = source_of_views(value.node.inputs[0])
    return value.node


def source_of_views(value: Output) -> tuple[int, Output]:
    """Return how many views in a row a value may be made by, and the value in whose memory these lie."""
    count = 0
    while isinstance(value.node.op, _VIEWS):
        count, value = count + 1, value.node.inputs[0]
    return count, value


def _is_in_place(value: Output) -> bool:
    if not isinstance(value.node.op, ELEMENTWISE):
        return False
    first = value.node.inputs[0]
    once = value.node.inputs.count(first) == 1
    return once and first.element_type is value.element_type and first.shape.merge(value.shape) is not None


_IN_PLACE = (SoftMax1, SoftMax8, MVN2, MVN6)
"""Layers that the plug-in computes in the memory of their input."""
_HIDDEN_BY = 2
"""The number of views in a row behind which the plug-in writes elementwise results into a parameter."""


@openvino_cpu.edits("loop_inputs_in_place", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def loop_inputs_in_place(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Let layers that compute in place read copies of what every iteration of a loop reads.

    The plug-in fills the parameters of a body before each iteration, but not those of values that stay the same in all
    iterations. It computes SoftMax and MVN in the memory of their input where nothing else reads that. So the second
    iteration reads the result of the first one. So does an elementwise layer behind two views of such a value.

        x -> Parameter (the same in all iterations) -> SoftMax      becomes      ... -> Maximum(x, x) -> SoftMax

    Maximum changes nothing, and returns memory of its own.
    """
    count = sum(map(_protect_inputs, node.op.subgraphs))
    return count or fail("no Softmax or normalization reads what stays the same in all iterations")


def _protect_inputs(sub: SubGraph) -> int:
    filled = {sub.body.parameters[mapping.parameter] for mapping in sub.inputs if mapping.axis is not None}
    handed_on = {
        sub.body.parameters[parameter]
        for result, parameter in sub.back_edges
        if source_of_views(sub.body.results[result].inputs[0])[1].node is not sub.body.parameters[parameter]
    }
    unique, count = UniqueNames(sub.body), 0
    for node in sub.body.nodes():
        if not isinstance(node.op, (*_IN_PLACE, *ELEMENTWISE)):
            continue
        views, source = source_of_views(node.inputs[0])
        # Of elementwise layers the plug-in knows that they may not write into a parameter, or into a view of it.
        is_hidden = views >= _HIDDEN_BY or isinstance(node.op, _IN_PLACE)
        if is_hidden and source.node.op.role == "parameter" and source.node not in filled | handed_on:
            prevent_fusion(node.inputs[0], [node], unique)
            count += 1
    return count


_WIDER_STATES = {
    element_types.bf16: element_types.f32,
    element_types.f8e4m3: element_types.f32,
    element_types.f8e5m2: element_types.f32,
    element_types.f8e8m0: element_types.f32,
    element_types.f4e2m1: element_types.f32,
    element_types.i4: element_types.i32,
    element_types.u4: element_types.i32,
    element_types.u2: element_types.i32,
}


@openvino_cpu.edits("loop_states_of_narrow_types", seen_in=("2025.4", "2026.4"))
def loop_states_of_narrow_types(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Convert states, slices and joined outputs of narrow types around loops, and back inside.

    The plug-in refuses many of them: slices and joined outputs of f4e2m1, f8e8m0 and u2, and some layers of f8e4m3 and
    f8e5m2 that it adds around a loop.

        x (u4) -> Loop (parameter u4 ... result u4)      becomes      x -> Convert(i32) -> Loop (parameter i32 ->
                                                         Convert(u4) ... -> Convert(i32) result) -> Convert(u4)
    """
    count = sum(_widen_states(node, sub, unique) for sub in node.op.subgraphs)
    return count or fail("no state, slice or joined output has a type that the plug-in refuses")


def _widen_states(node: Node, sub: SubGraph, unique: UniqueNames) -> bool:
    inner, changed = UniqueNames(sub.body), False
    # An input that is neither a state nor sliced stays as it is: it may be a table of weights.
    carried = {parameter for _, parameter in sub.back_edges}
    for entry in sub.inputs:
        parameter = sub.body.parameters[entry.parameter]
        value = parameter.outputs[0]
        narrow = value.element_type in _WIDER_STATES and (entry.parameter in carried or entry.axis is not None)
        if entry.external is None or not narrow:
            continue
        element_type, changed = value.element_type, True
        node.replace_input(entry.external, _convert(node.inputs[entry.external], _WIDER_STATES[element_type], unique))
        value.type = TensorType(_WIDER_STATES[element_type], value.shape)
        parameter.op = parameter.op.of_type(value.type)
        value.replace_by(_convert(value, element_type, inner), move_names=False)
    for result in sub.body.results:
        (value,) = result.inputs
        if value.element_type in _WIDER_STATES:
            result.replace_input(0, _convert(value, _WIDER_STATES[value.element_type], inner))
            changed = True
    for exit in sub.outputs:
        if exit.external is not None and node.outputs[exit.external].element_type in _WIDER_STATES:
            output = node.outputs[exit.external]
            element_type = output.element_type
            output.type = TensorType(_WIDER_STATES[element_type], output.shape)
            back = _convert(output, element_type, unique)
            back.names, output.names = output.names, []
            output.replace_by(back, move_names=False)
    return changed


def _convert(value: Output, element_type: ElementType, unique: UniqueNames) -> Output:
    node = make_node(Convert1(destination_type=element_type), [value], unique(f"{value.node.name}/{element_type}"))
    node.origin = value.node.origin
    return node.outputs[0]


@openvino_cpu.replaces("iterator_over_unread_slices", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def iterator_over_unread_slices(builder: Builder, node: Node) -> Replacement:
    """Replace a TensorIterator over slices that its body does not read by a Loop.

    The plug-in drops the sliced input, and runs the body once. A Loop has the number of iterations as an input.

        x, state -> TensorIterator over the rows of x      becomes      x -> ShapeOf -> Gather ----> Loop
                                                                        state --------------------> Loop
    """
    (sub,) = node.op.subgraphs
    sliced = [entry for entry in sub.inputs if entry.axis is not None]
    if not sliced or any(sub.body.parameters[entry.parameter].outputs[0].is_used for entry in sliced):
        return fail("the body reads a slice, or nothing is sliced")
    first = sliced[0]
    if first.axis is None or first.external is None or not _covers_all(first):
        return fail("the slices are not the single elements from the first to the last or backwards")
    count = dim_of(builder, node.inputs[first.external], first.axis)
    op, external = _loop_of_count(sub, [entry for entry in sub.inputs if entry.axis is None])
    states = [node.inputs[index] for index in external]
    return builder.emit_all(op, count, builder.constant(True, "boolean"), *states)


def _covers_all(entry: InputMap) -> bool:
    return entry.part_size == 1 and (entry.start, entry.end, entry.stride) in ((0, -1, 1), (-1, 0, -1))


def _loop_of_count(sub: SubGraph, kept_inputs: list[InputMap]) -> tuple[Loop5, list[int]]:
    """The Loop over the same body without the slices, and the inputs that follow its count and condition."""
    body = sub.body.clone()
    places = {entry.parameter: index for index, entry in enumerate(kept_inputs)}
    body.parameters = [body.parameters[entry.parameter] for entry in kept_inputs]
    going = Builder().constant(True, "boolean").node
    unique = UniqueNames(body)
    going.name = unique("condition")
    body.results = [*body.results, make_node(Result1(), going.outputs, unique("condition/result"))]
    inputs = tuple(InputMap(2 + index, index) for index in range(len(kept_inputs)))
    outputs = (*sub.outputs, OutputMap(None, len(body.results) - 1))
    back_edges = tuple((result, places[parameter]) for result, parameter in sub.back_edges if parameter in places)
    loop = Loop5(bodies=(SubGraph(body, inputs, outputs, back_edges),))
    return loop, [entry.external for entry in kept_inputs if entry.external is not None]


_ALL_SLICES = (1 << 31) - 1
_LAYERS_OF_AN_END = 6
"""The number of layers, at most, that compute the end of a Slice."""


@openvino_cpu.edits("loops_of_no_iterations", seen_in=("2026.4",))
def loops_of_no_iterations(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Let layers read slices of the joined outputs of loops; names and values stay.

    Where a Loop has no iterations, its joined outputs keep what they were in the last inference of the same request, or
    in the last iteration of a loop around it.

        Loop(count, ...) -> y      becomes      Loop(count, ...) -> Slice(y, [0], [count]) -> y

    The Slice takes all of the slices there are, or none. Where the condition of the first iteration is not known, the
    end is Select(condition, count, 0); a count without a limit is that of all.
    """
    joined = {} if _always_runs(node) else _joined_outputs(node)
    builder = Builder(unique)
    builder.begin(node)
    for output, entry in joined.items():
        _slice_joined(builder, node, output, entry)
    return len(joined) or fail("it always has an iteration, or nothing reads a joined output")


def _always_runs(node: Node) -> bool:
    trips, condition = node.inputs[:2]
    low, high = interval_of(trips)
    return (low > 0 or high < 0) and condition.type.constant is not None and bool(condition.type.constant.all())


def _joined_outputs(node: Node) -> Mapping[Output, OutputMap]:
    """The outputs of slices that are joined, but for those that a Slice up to the count reads."""
    (sub,) = node.op.subgraphs
    outputs = {node.outputs[entry.external]: entry for entry in sub.outputs if entry.external is not None}
    return {
        output: entry
        for output, entry in outputs.items()
        if entry.axis is not None and output.is_used and not _is_sliced(output, node.inputs[0])
    }


def _is_sliced(output: Output, trips: Output) -> bool:
    reader = output.only_user
    if reader is None or not isinstance(reader.op, Slice8):
        return False
    computed_from = {reader.inputs[2]}
    for _ in range(_LAYERS_OF_AN_END):
        computed_from |= {source for value in computed_from for source in value.node.inputs}
    return trips in computed_from


def _slice_joined(builder: Builder, node: Node, output: Output, entry: OutputMap) -> None:
    condition = node.inputs[1].type.constant
    count = layers.in_type(builder, node.inputs[0], element_types.i64)
    if interval_of(count)[0] < 0:
        is_endless = layers.less(builder, count, builder.constant(0))
        count = layers.select(builder, is_endless, builder.constant(_ALL_SLICES // entry.part_size), count)
    if condition is None or not condition.all():
        count = layers.select(builder, node.inputs[1], count, builder.constant(0))
    if entry.part_size != 1:
        count = layers.multiply(builder, count, builder.constant(entry.part_size))
    bounds = [builder.constant([0]), layers.reshape(builder, count, [1]), builder.constant([1])]
    copy = builder.emit(Slice8(), output, *bounds, builder.constant([entry.axis]))
    output.replace_by(copy, keep=[copy.node])


@openvino_cpu.register("if_outputs_in_reused_memory", since="2025.1", seen_in=("2025.4", "2026.4"))
def if_outputs_in_reused_memory(model: Model, trace: PassTrace) -> int:
    """Let layers read copies of the outputs of an If; names and values stay.

    The plug-in allocates memory for all layers up to the next one whose shape depends on values, and only then runs
    these layers. It takes the memory of an If's output for that of a later layer, and loses the output where that is
    larger than what was allocated before: in the first inference, and in each one with longer dimensions.

        If -> p -> Concat(p, p) -> SoftMax      becomes      If -> p -> Slice(p, [0], ShapeOf(p)) -> Concat -> SoftMax

    The shape of the Slice depends on values, so that memory for what follows is allocated when it has run.
    """
    count = 0
    for part in model.parts():
        builder = Builder(UniqueNames(part.model))
        for node in part.nodes_of((If8,)):
            outputs = [output for output in node.outputs if _may_be_lost(output, is_main=part.model is model)]
            for output in outputs:
                _copy(builder, node, output)
            if outputs:
                trace.matched(node)
            else:
                trace.not_matched(node, fail("no layer reads an output of dynamic dimensions"))
            count += len(outputs)
    return count


def _may_be_lost(output: Output, *, is_main: bool) -> bool:
    """True for dynamic dimensions that a layer reads.

    The memory of a model's result is the caller's, which is not reused. Another If runs before the memory for what
    follows it is allocated.
    """
    if output.shape.is_static or not output.shape.has_rank or output.element_type is element_types.string:
        return False
    if is_main and any(reader.op.role == "result" for reader in output.uses):
        return False
    return not all(reader.op.role == "result" or isinstance(reader.op, If8) for reader in output.uses)


def _copy(builder: Builder, node: Node, output: Output) -> None:
    rank = output.shape.rank
    builder.begin(node)
    size = shape_of(builder, output)
    copy = builder.emit(Slice8(), output, builder.constant([0] * rank), size, builder.constant([1] * rank))
    results = [reader for reader in output.uses if reader.op.role == "result"]
    output.replace_by(copy, keep=[size.node, copy.node, *results], move_names=False)


_SLICED = {"query": 2, "key": 3, "value": 4, "decay": 5, "beta": 6}
"""The inputs of the Loop whose slices along axis 2 the parameters of the body are."""
_STATES = {"state": 7, "outputs": 8}
"""The inputs with which the states begin."""
_QUERY = _SLICED["query"]


def _body() -> Pattern:
    """Return the pattern of the outputs, within which ``after`` is the next state."""
    state, outputs, decay = anything("state"), anything("outputs"), anything("decay")
    last, second = number(-1), number(-2)
    key = layer(Unsqueeze1, layer(Squeeze1, anything("key"), number(2)), last)
    faded = layer(Multiply1, state, layer(Unsqueeze1, layer(Exp1, decay), last))
    retrieved = layer(ReduceSum1, layer(Multiply1, faded, key), second)
    change = layer(Subtract1, layer(Squeeze1, anything("value"), number(2)), retrieved)
    rate = layer(Multiply1, change, anything("beta"))
    update = layer(Multiply1, key, layer(Unsqueeze1, rate, second))
    after = layer(Add1, faded, update, name="after")
    query = layer(Unsqueeze1, layer(Squeeze1, anything("query"), number(2)), last)
    output = layer(ReduceSum1, layer(Multiply1, after, query), second)
    step = layer(Unsqueeze1, anything("step"), number(0))
    return layer(ScatterUpdate3, outputs, step, output, number(2))


_BODY = _body()
_X = anything("x")
_ROOT = layer(
    Power1,
    layer(Convert1, layer(Gather8, layer(ShapeOf3, anything()), number(3), number(0))),
    number(0.5),
)
_SCALED_BY_ROOT = layer(Divide1, _X, _ROOT)


@openvino_cpu.replaces("gated_delta_net_loops", since="2026.1", seen_in=("2026.4",))
def gated_delta_net_loops(builder: Builder, node: Node) -> Replacement:
    """Scale the query as the plug-in's pass expects it.

    Loops of the gated delta rule whose query is not scaled in the form that the plug-in looks for.

    The pass FuseGDNLoop replaces a Loop of the gated delta rule by one GatedDeltaNet layer, which scales the query by
    the inverse square root of its last dimension itself. It only does so where it finds that scale as explicit layers:

        q -> Multiply(scale) -> Loop

    becomes

        q -> Multiply(scale * sqrt(k)) -> Divide(Power(ShapeOf(q)[3], 0.5)) -> Loop

    where the Multiply is left out for the usual scale. With 16 heads of 64, the Loop takes 3 times as long for one
    token, and 16 times for a prompt of 128:
    https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/src/transformations/common_optimizations/fuse_gated_delta_net.cpp
    """
    assert isinstance(node.op, Loop5)
    _check_gated_delta_rule(node, node.op.bodies[0])
    query = node.inputs[_QUERY]
    if not isinstance(_SCALED_BY_ROOT.match(query), NotMatched):
        return fail(f"the query '{query.node.name}' is scaled as the plug-in expects it")
    inputs = list(node.inputs)
    inputs[_QUERY] = _scaled_by_root(builder, query)
    return builder.emit_all(node.op, *inputs)


def _check_gated_delta_rule(node: Node, sub: SubGraph) -> None:
    """Raise why a Loop is not that of the gated delta rule over all steps, from the first to the last.

    The plug-in's pass looks at the body alone, so that what it replaces has to be checked here.
    """
    parameters, results = sub.body.parameters, sub.body.results
    if len(parameters) != 8 or len(results) != 3:
        raise fail("the body has another number of parameters or results")
    match = _BODY.find(results[2].inputs[0])
    if match["after"] is not results[1].inputs[0]:
        raise fail("the body's second result is not the next state")
    places = {match[name].node: name for name in ("step", *_SLICED, *_STATES)}
    roles = [places.get(parameter) for parameter in parameters]
    if None in roles or len(places) != 8:
        raise fail("the body reads other values than one slice of each input")
    expected = {
        InputMap(None, roles.index("step")),
        *(InputMap(port, roles.index(name), axis=2) for name, port in _SLICED.items()),
        *(InputMap(port, roles.index(name)) for name, port in _STATES.items()),
    }
    edges = {(1, roles.index("state")), (2, roles.index("outputs"))}
    outputs = {OutputMap(None, 0), OutputMap(0, 2), OutputMap(1, 1)}
    if not (set(sub.inputs) == expected and set(sub.outputs) == outputs and set(sub.back_edges) == edges):
        raise fail("its inputs are read in another order, or its outputs are not the last states")
    count, length = node.inputs[0].type.constant, node.inputs[_QUERY].shape[2]
    if count is not None and not (length.is_static and int(count.reshape(-1)[0]) == length.value):
        raise fail(f"it makes {count} of {length} steps")
    conditions = (node.inputs[1].type.constant, results[0].inputs[0].type.constant)
    if not all(condition is not None and condition.all() for condition in conditions):
        raise fail("a condition may end it early")


def _scaled_by_root(builder: Builder, scaled: Output) -> Output:
    """Return ``scaled`` as a quotient of a value and the root of its last dimension."""
    match = layer(Multiply1, _X, constant("factor")).match(scaled)
    if isinstance(match, NotMatched):
        match = layer(Divide1, _X, constant("divisor")).match(scaled)
    factor, value = np.float64(1), scaled
    if not isinstance(match, NotMatched):
        name = "factor" if "factor" in match else "divisor"
        array = match.array(name)
        if array.size == 1 and array.all() and match["x"].shape == scaled.shape:
            scale = np.float64(array.reshape(-1)[0])
            factor, value = scale if name == "factor" else 1 / scale, match["x"]
    query = Expression(builder, value)
    if scaled.shape[3].is_static:
        ratio = np.float32(factor * np.sqrt(scaled.shape[3].value))
        query = query if abs(ratio - 1) <= np.finfo(np.float32).eps else query * float(ratio)
        return builder.emit(Divide1(), query.value, _root(builder, query.value))
    root = _root(builder, value)
    return builder.emit(Divide1(), (query * float(factor) * Expression(builder, root)).value, root)


def _root(builder: Builder, query: Output) -> Output:
    """Return the root of the last dimension, which stays spelled out where it is known."""
    shape = builder.emit_unfolded(ShapeOf3(), query)
    size = builder.emit_unfolded(Gather8(), shape, builder.constant(3), builder.constant(0))
    converted = builder.emit_unfolded(Convert1(destination_type=query.element_type), size)
    return builder.emit_unfolded(Power1(), converted, builder.constant(0.5, query.element_type))
