"""Loops of the gated delta rule whose query is not scaled in the form that the plug-in looks for.

The pass FuseGDNLoop replaces a Loop of the gated delta rule by one GatedDeltaNet layer, which scales the query by the
inverse square root of its last dimension itself. It only does so where it finds that scale as explicit layers:

    q -> Multiply(scale) -> Loop

becomes

    q -> Multiply(scale * sqrt(k)) -> Divide(Power(ShapeOf(q)[3], 0.5)) -> Loop

where the Multiply is left out for the usual scale. With 16 heads of 64, the Loop takes 3 times as long for one token,
and 16 times for a prompt of 128:
https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/src/transformations/common_optimizations/fuse_gated_delta_net.cpp
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import InputMap, Node, Output, OutputMap, SubGraph
from ir_runtime.operations.control_flow import Loop5
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Exp1, Multiply1, Power1, Subtract1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.movement import Squeeze1, Unsqueeze1
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail
from ir_runtime.rewriting.expressions import Expression
from ir_runtime.rewriting.matching import Pattern, anything, constant, layer, number

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
    """Scale the query as the plug-in's pass expects it."""
    assert isinstance(node.op, Loop5)
    wrong = _not_gated_delta_rule(node, node.op.bodies[0])
    if wrong is not None:
        return wrong
    query = node.inputs[_QUERY]
    if not isinstance(_SCALED_BY_ROOT.match(query), NotMatched):
        return fail(f"the query '{query.node.name}' is scaled as the plug-in expects it")
    inputs = list(node.inputs)
    inputs[_QUERY] = _scaled_by_root(builder, query)
    return builder.emit_all(node.op, *inputs)


def _not_gated_delta_rule(node: Node, sub: SubGraph) -> NotMatched | None:
    """Return why a Loop is not that of the gated delta rule over all steps, from the first to the last.

    The plug-in's pass looks at the body alone, so that what it replaces has to be checked here.
    """
    parameters, results = sub.body.parameters, sub.body.results
    if len(parameters) != 8 or len(results) != 3:
        return fail("the body has another number of parameters or results")
    match = _BODY.match(results[2].inputs[0])
    if isinstance(match, NotMatched):
        return match
    if match["after"] is not results[1].inputs[0]:
        return fail("the body's second result is not the next state")
    places = {match[name].node: name for name in ("step", *_SLICED, *_STATES)}
    roles = [places.get(parameter) for parameter in parameters]
    if None in roles or len(places) != 8:
        return fail("the body reads other values than one slice of each input")
    expected = {
        InputMap(None, roles.index("step")),
        *(InputMap(port, roles.index(name), axis=2) for name, port in _SLICED.items()),
        *(InputMap(port, roles.index(name)) for name, port in _STATES.items()),
    }
    edges = {(1, roles.index("state")), (2, roles.index("outputs"))}
    outputs = {OutputMap(None, 0), OutputMap(0, 2), OutputMap(1, 1)}
    if not (set(sub.inputs) == expected and set(sub.outputs) == outputs and set(sub.back_edges) == edges):
        return fail("its inputs are read in another order, or its outputs are not the last states")
    count, length = node.inputs[0].type.constant, node.inputs[_QUERY].shape[2]
    if count is not None and not (length.is_static and int(count.reshape(-1)[0]) == length.value):
        return fail(f"it makes {count} of {length} steps")
    conditions = (node.inputs[1].type.constant, results[0].inputs[0].type.constant)
    if not all(condition is not None and condition.all() for condition in conditions):
        return fail("a condition may end it early")
    return None


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
