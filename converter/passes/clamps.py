"""Limits from below and above become one Clamp.

    x -> Maximum(a) -> Minimum(b)      becomes      x -> Clamp(a, b)
    x -> ReLU -> Minimum(6)            becomes      x -> Clamp(0, 6)
    x -> Clamp(a, b) -> Clamp(c, d)    becomes      x -> Clamp(the limits of both)

torch's exporter by Dynamo writes the second for a ReLU6 in two steps. One limit alone stays.
"""

from __future__ import annotations

import math

from ir_runtime.graph import Node, Output
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.elementwise import Maximum1, Minimum1
from ir_runtime.rewriting import Builder, Replacement, fail

from .idioms import has_shape_of
from .registry import passes


@passes.replaces("clamps")
def clamp(builder: Builder, node: Node) -> Replacement:
    """Join the limits with those of the layers before."""
    if not node.outputs[0].element_type.is_real:
        return fail("it limits integers")
    x_and_limits, reader = _limits(node), node
    if x_and_limits is None:
        return fail("its limits are not two numbers")
    x, low, high = x_and_limits
    while x.only_user is reader and (before := _limits(x.node)) is not None:
        reader = x.node
        x, *limits = before
        low, high = (min(max(limit, low), high) for limit in limits)
    if reader is node:
        return fail("no layer with limits, which nothing else reads, is before it")
    if math.isinf(low) or math.isinf(high):
        return fail("one of the limits is infinite")
    return builder.emit(Clamp1(min=low, max=high), x)


def _limits(node: Node) -> tuple[Output, float, float] | None:
    """Return the input of the layer and its lower and upper limit; None for other layers."""
    op = node.op
    if isinstance(op, Clamp1):
        return node.inputs[0], op.min, op.max
    if isinstance(op, ReLU1):
        return node.inputs[0], 0.0, math.inf
    if not isinstance(op, (Minimum1, Maximum1)):
        return None
    for x, other in node.orders:
        constant = other.type.constant
        if constant is not None and constant.size == 1 and has_shape_of(node.outputs[0], x):
            limit = float(constant.reshape(-1)[0])
            if math.isnan(limit):
                return None
            return (x, -math.inf, limit) if isinstance(op, Minimum1) else (x, limit, math.inf)
    return None
