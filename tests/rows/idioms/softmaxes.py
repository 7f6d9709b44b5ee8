"""Softmax and its logarithm that exporters spell out."""

from __future__ import annotations

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled


def reduced(g: Graph, op_type: str, value: Value, axis: int) -> Value:
    """A reduction of opset 13 that keeps its dimension, or drops it and gets it back."""
    axes = {"axes": [axis]} if op_type != "ReduceSum" else {}
    inputs = [value] if op_type != "ReduceSum" else [value, [axis]]
    if g.chance.random() < 0.7:
        return g.node(op_type, *inputs, keepdims=1, **axes)
    return g.Unsqueeze(g.node(op_type, *inputs, keepdims=0, **axes), [axis])


def exponentials(
    g: Graph, axis: int | None = None, extreme: str = "ReduceMax", second_axis: int | None = None
) -> tuple[Value, Value, Value]:
    """x less its maximum, e to that, and the sum; the arguments spoil one part."""
    axis = g.chance.choice([-1, 2, 1]) if axis is None else axis
    greatest = reduced(g, extreme, g.x, axis)
    shifted = g.x - greatest
    powers = g.Exp(shifted)
    again = g.Exp(g.x - greatest) if g.chance.random() < 0.3 else powers
    return shifted, powers, reduced(g, "ReduceSum", again, axis if second_axis is None else second_axis)


def softmax(g: Graph, **other: int | str) -> Value:
    _, powers, total = exponentials(g, **other)  # type: ignore[arg-type]
    return g.one_of(lambda: powers / total, lambda: powers * g.Reciprocal(total))


def log_softmax(g: Graph, axis: int = 2, second_axis: int | None = None) -> Value:
    def less_logarithm() -> Value:
        shifted, _, total = exponentials(g, axis, second_axis=second_axis)
        return shifted - g.Log(total)

    def less_both() -> Value:
        greatest = reduced(g, "ReduceMax", g.x, axis)
        total = reduced(g, "ReduceSum", g.Exp(g.x - greatest), axis if second_axis is None else second_axis)
        return g.x - (greatest + g.Log(total))

    return g.one_of(less_logarithm, less_both)


def with_more_dimensions(g: Graph) -> Value:
    """The number whose quotient by the sum is the reciprocal adds a dimension."""
    _, powers, total = exponentials(g)
    one = np.ones((1, 1, 1, 1))
    return powers * g.one_of(lambda: one / total, lambda: g.Pow(total, -one))


def without_maximum(g: Graph) -> Value:
    powers = g.Exp(g.x * 60)
    return powers / reduced(g, "ReduceSum", powers, -1)


def over_two_dimensions(g: Graph) -> Value:
    powers = g.Exp(g.x - g.ReduceMax(g.x, axes=[1, 2]))
    return powers / g.ReduceSum(powers, [1, 2])


IDIOMS = {
    "softmax": Idiom(softmax, "SoftMax"),
    "log softmax": Idiom(lambda g: log_softmax(g, g.chance.choice([-1, 2, 1])), "LogSoftmax"),
    "softmax of two dimensions": Idiom(lambda g: softmax(g, axis=g.chance.choice([0, -1])), "SoftMax", {"x": (3, 5)}),
}
NEAR_MISSES = {
    "softmax with the sum of another dimension": Idiom(lambda g: softmax(g, axis=2, second_axis=1), absent="SoftMax"),
    "softmax less the minimum": Idiom(lambda g: softmax(g, axis=-1, extreme="ReduceMin"), absent="SoftMax"),
    "log softmax with the sum of another dimension": Idiom(lambda g: log_softmax(g, 2, 1), absent="LogSoftmax"),
    "softmax without a maximum": Idiom(without_maximum, absent="SoftMax"),
    "softmax with a reciprocal of more dimensions": Idiom(with_more_dimensions, absent="SoftMax"),
    "softmax over two dimensions": Idiom(over_two_dimensions, absent="SoftMax"),
    # Minus infinity where the Softmax is 0.
    "logarithm of a softmax": Idiom(lambda g: g.Log(g.Softmax(g.x * 1e6, axis=-1)), absent="LogSoftmax"),
    "x less its log sum exp": Idiom(lambda g: g.x - g.ReduceLogSumExp(g.x, axes=[-1]), absent="LogSoftmax"),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
