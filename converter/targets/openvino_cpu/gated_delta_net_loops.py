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
from ir_runtime.graph import Node, Output
from ir_runtime.graph.model import Model
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

_QUERY = 2
"""The input of the Loop."""


def _body() -> tuple[Pattern, Pattern]:
    """Return the patterns of the next state and of the outputs."""
    state, outputs, decay = anything("state"), anything("outputs"), anything("decay")
    last, second = number(-1), number(-2)
    key = layer(Unsqueeze1, layer(Squeeze1, anything("key"), number(2)), last)
    faded = layer(Multiply1, state, layer(Unsqueeze1, layer(Exp1, decay), last), commutative=True)
    retrieved = layer(ReduceSum1, layer(Multiply1, faded, key, commutative=True), second)
    change = layer(Subtract1, layer(Squeeze1, anything("value"), number(2)), retrieved)
    rate = layer(Multiply1, change, anything("beta"), commutative=True)
    update = layer(Multiply1, key, layer(Unsqueeze1, rate, second), commutative=True)
    after = layer(Add1, faded, update, commutative=True)
    query = layer(Unsqueeze1, layer(Squeeze1, anything("query"), number(2)), last)
    output = layer(ReduceSum1, layer(Multiply1, after, query, commutative=True), second)
    step = layer(Unsqueeze1, anything("step"), number(0))
    return after, layer(ScatterUpdate3, outputs, step, output, number(2))


_AFTER, _OUTPUTS = _body()
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
    wrong = _not_gated_delta_rule(node.op.bodies[0].body)
    if wrong is not None:
        return wrong
    query = node.inputs[_QUERY]
    if not isinstance(_SCALED_BY_ROOT.match(query), NotMatched):
        return fail(f"the query '{query.node.name}' is scaled as the plug-in expects it")
    inputs = list(node.inputs)
    inputs[_QUERY] = _scaled_by_root(builder, query)
    return builder.emit_all(node.op, *inputs)


def _not_gated_delta_rule(body: Model) -> NotMatched | None:
    """Return why the body of a Loop is not that of the gated delta rule."""
    if len(body.parameters) != 8 or len(body.results) != 3:
        return fail("the body has another number of parameters or results")
    for pattern, result in zip((_AFTER, _OUTPUTS), body.results[1:]):
        match = pattern.match(result.inputs[0])
        if isinstance(match, NotMatched):
            return match
    return None


def _scaled_by_root(builder: Builder, scaled: Output) -> Output:
    """Return ``scaled`` as a quotient of a value and the root of its last dimension."""
    match = layer(Multiply1, _X, constant("factor"), commutative=True).match(scaled)
    if isinstance(match, NotMatched):
        match = layer(Divide1, _X, constant("divisor")).match(scaled)
    factor, value = np.float64(1), scaled
    if not isinstance(match, NotMatched):
        name = "factor" if "factor" in match else "divisor"
        array = match.array(name)
        if array.size == 1 and match["x"].shape == scaled.shape:
            constant_ = np.float64(array.reshape(-1)[0])
            factor, value = constant_ if name == "factor" else 1 / constant_, match["x"]
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
