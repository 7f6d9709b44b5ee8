"""What is computed from constants, and integer constants in a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled

WRAPS = 2**63 - 5
"""Sums of two of it wrap."""


def bias_of_a_small_net(g: Graph) -> Value:
    """A bias that a small net computes from coordinates, as Swin V2 has it; its middle is large."""
    hidden = g.MatMul(g.weights(200, 2), g.weights(2, 256))
    table = g.one_of(lambda: g.Relu(hidden), lambda: hidden) @ g.weights(256, 8)
    return g.x + g.Sigmoid(g.Gather(table, [g.chance.randrange(200) for _ in range(3)], axis=0))


def widened(g: Graph) -> Value:
    """A constant that two layers make much larger."""
    return g.ReduceMax(g.Add(g.x, g.Abs(g.Expand(g.weights(1, 8), [3000, 3, 8]))), axes=[0])


def narrowed(g: Graph) -> Value:
    """Twelve constants of 8 KiB each that come from a few bytes by way of more than is folded at once."""
    total = g.x
    for _ in range(12):
        total = g.Max(total, g.Abs(g.Slice(g.Expand(g.weights(1, 8), [6144, 8]), [0], [6144], [0], [24])))
    return total


def places(g: Graph) -> Value:
    """Indices below a number that is the same for whatever dimensions."""
    first, second = (g.Gather(g.Shape(one), [0]) for one in (g.x, g.Abs(g.x)))
    end = g.Squeeze(g.Add(first - second, [4]), [0])
    return g.Gather(g.x, g.Range(np.int64(0), end, np.int64(g.chance.choice([1, 2]))), axis=2)


def quantised_weights(g: Graph) -> Value:
    """Weights of 8 bits, dequantised and transposed: they stay 8 bits."""
    dequantised = g.DequantizeLinear(np.arange(-32, 32, dtype=np.int8).reshape(8, 8), 0.03, np.int8(0))
    return g.x @ g.Relu(g.Transpose(dequantised, perm=[1, 0]))


def sums(g: Graph, first: Any, second: Any, between: str = "") -> Value:
    """Two numbers, or lists of them, added or taken away; never the same number."""
    value = g.x
    for number in (first, second):
        added = np.array(number, np.int64)
        value = g.one_of(lambda: value + added, lambda: value - added)  # noqa: B023
        value = g.node(between, value) if between and number is first else value
    return g.Cast(value, to=1)


def back_again(g: Graph) -> Value:
    one, steps = np.int64(g.chance.choice([1, -3, 441])), g.chance.sample(["Add", "Sub"], 2)
    return g.Cast(g.node(steps[1], g.node(steps[0], -g.x, one), one), to=1)


def of_integers(build: Any, becomes: str = "", **what: Any) -> Idiom:
    return Idiom(build, becomes, {"x": (2, 3)}, {"x": np.int64}, types=[np.float32], **what)


IDIOMS = {
    "a bias of a small net": Idiom(bias_of_a_small_net, "Add"),
    "an index that follows from dimensions": Idiom(places, "Gather"),
    "numbers in a row": of_integers(
        lambda g: sums(g, g.chance.choice([1, 441, [[3], [-9]]]), g.chance.choice([7, 12])), "Add Convert"
    ),
    "a number added and taken away": of_integers(back_again, "Negative Convert"),
}
NEAR_MISSES = {
    "a constant made large": Idiom(widened, inputs={"x": (3000, 3, 8)}, may_be_dynamic=False, count=4),
    # Two of 12 are computed: a third of the 64 KiB by which small models may grow.
    "constants that are small one by one": Idiom(
        narrowed, inputs={"x": (256, 8)}, may_be_dynamic=False, count=10 * 4 + 2
    ),
    "quantised weights that are transposed": Idiom(quantised_weights, count=5),
    "numbers around a negation": of_integers(lambda g: sums(g, 1, 441, "Neg"), count=4),
    "numbers that wrap": of_integers(lambda g: sums(g, WRAPS, WRAPS - 9), count=2),
    "numbers in front of a constant": of_integers(
        lambda g: g.Cast(np.int64(3) - g.Add(g.x, np.int64(4)), to=1), count=3
    ),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
