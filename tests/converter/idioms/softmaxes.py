"""Softmax and its logarithm that exporters spell out."""

from __future__ import annotations

import random
from typing import Any

from .graphs import Graph, Idiom, NearMiss


def reduced(graph: Graph, op_type: str, value: str, axis: int, chance: random.Random, keep: bool = True) -> str:
    """A reduction of opset 13 that keeps its dimension, or drops it and gets it back."""
    given = {"axes": [axis]} if op_type != "ReduceSum" else {}
    inputs = [value] if op_type != "ReduceSum" else [value, graph.integers([axis])]
    if not keep or chance.random() < 0.7:
        return graph(op_type, *inputs, keepdims=int(keep), **given)
    return graph("Unsqueeze", graph(op_type, *inputs, keepdims=0, **given), graph.integers([axis]))


def exponentials(graph: Graph, chance: random.Random, **other: Any) -> tuple[str, str, str]:
    """x less its maximum, e to that, and the sum; ``other`` spoils one part."""
    axis = other.get("axis", chance.choice([-1, 2, 1]))
    greatest = reduced(graph, other.get("extreme", "ReduceMax"), "x", axis, chance)
    shifted = graph("Sub", "x", greatest)
    powers = graph("Exp", shifted)
    again = graph("Exp", graph("Sub", "x", greatest)) if chance.random() < 0.3 else powers
    return shifted, powers, reduced(graph, "ReduceSum", again, other.get("second_axis", axis), chance)


def softmax(graph: Graph, chance: random.Random, **other: Any) -> str:
    _, powers, total = exponentials(graph, chance, **other)
    if chance.random() < 0.6:
        return graph("Div", powers, total)
    return graph.either_way("Mul", powers, graph("Reciprocal", total), chance)


def log_softmax(graph: Graph, chance: random.Random, **other: Any) -> str:
    if chance.random() < 0.5:
        shifted, _, total = exponentials(graph, chance, **other)
        return graph("Sub", shifted, graph("Log", total))
    axis = other.get("axis", 2)
    greatest = reduced(graph, "ReduceMax", "x", axis, chance)
    powers = graph("Exp", graph("Sub", "x", greatest))
    total = reduced(graph, "ReduceSum", powers, other.get("second_axis", axis), chance)
    return graph("Sub", "x", graph.either_way("Add", greatest, graph("Log", total), chance))


def with_more_dimensions(graph: Graph, chance: random.Random) -> str:
    """The number whose quotient by the sum is the reciprocal adds a dimension."""
    _, powers, total = exponentials(graph, chance)
    if chance.random() < 0.5:
        reciprocal = graph("Div", graph.constant([[[[1]]]]), total)
    else:
        reciprocal = graph("Pow", total, graph.constant([[[[-1]]]]))
    return graph.either_way("Mul", powers, reciprocal, chance)


def without_maximum(graph: Graph, chance: random.Random) -> str:
    powers = graph("Exp", graph.either_way("Mul", "x", graph.constant(60), chance))
    return graph("Div", powers, reduced(graph, "ReduceSum", powers, -1, chance))


def over_two_dimensions(graph: Graph, chance: random.Random) -> str:
    powers = graph("Exp", graph("Sub", "x", graph("ReduceMax", "x", axes=[1, 2])))
    return graph("Div", powers, graph("ReduceSum", powers, graph.integers([1, 2])))


def logarithm(graph: Graph, chance: random.Random) -> str:
    """Minus infinity where the Softmax is 0."""
    return graph("Log", graph("Softmax", graph.either_way("Mul", "x", graph.constant(1e6), chance), axis=-1))


def less_log_sum_exp(graph: Graph, chance: random.Random) -> str:
    return graph("Sub", "x", graph("ReduceLogSumExp", "x", axes=[-1]))


IDIOMS = {
    "softmax": Idiom(build=softmax, becomes=["SoftMax"]),
    "log softmax": Idiom(build=log_softmax, becomes=["LogSoftmax"]),
    "softmax of two dimensions": Idiom(
        build=lambda g, c: softmax(g, c, axis=c.choice([0, -1])), becomes=["SoftMax"], inputs={"x": (3, 5)}
    ),
}

NEAR_MISSES = {
    "softmax with the sum of another dimension": NearMiss(
        build=lambda g, c: softmax(g, c, axis=2, second_axis=1), absent="SoftMax"
    ),
    "softmax less the minimum": NearMiss(
        build=lambda g, c: softmax(g, c, axis=-1, extreme="ReduceMin"), absent="SoftMax"
    ),
    "log softmax with the sum of another dimension": NearMiss(
        build=lambda g, c: log_softmax(g, c, axis=2, second_axis=1), absent="LogSoftmax"
    ),
    # Exp of the plug-in ends at the greatest float32: no infinity, and no NaN.
    "softmax without a maximum": NearMiss(build=without_maximum, absent="SoftMax", engines=["numpy"]),
    "softmax with a reciprocal of more dimensions": NearMiss(build=with_more_dimensions, absent="SoftMax"),
    "softmax over two dimensions": NearMiss(build=over_two_dimensions, absent="SoftMax"),
    "logarithm of a softmax": NearMiss(build=logarithm, absent="LogSoftmax"),
    "x less its log sum exp": NearMiss(build=less_log_sum_exp, absent="LogSoftmax"),
}
