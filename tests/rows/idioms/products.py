"""Products of matrices as exporters spell them out, and constants around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.formula import WIDE, Graph, Idiom, Value, spelled

from .convolutions import FILTERS, IMAGE, convolution, scale, scaled, shift

WIDTH = 5


def product(g: Graph) -> Value:
    return g.x @ g.weights(8, WIDTH)


def transposed(g: Graph, *order: int) -> Value:
    """A product of transposed values, of one of them or of both."""
    left, right, perm = g.Abs(g.x), -g.x, order or (0, 2, 1)
    return g.one_of(lambda: g.Transpose(left, perm=perm) @ right, lambda: left @ g.Transpose(right, perm=perm))


def transposed_and_read(g: Graph) -> Value:
    turned = g.Transpose(g.Abs(g.x), perm=[0, 2, 1])
    return g.Concat(turned @ g.x, turned, axis=2)


def scaled_behind_transposes(g: Graph, bias: bool = False) -> Value:
    """A product [2, 3, 5] whose columns become rows and columns again, which are scaled in between and behind."""
    value = shift(g, product(g), WIDTH) if bias else product(g)
    value = scale(g, g.Transpose(value, perm=[0, 2, 1]), WIDTH, 1)
    return scale(g, g.Transpose(value, perm=[2, 0, 1]), WIDTH)


def image_as_rows(g: Graph) -> Value:
    """A convolution of an image, its channels last, and a factor for each of them."""
    return scale(g, shift(g, g.Transpose(convolution(g), perm=[0, 2, 3, 1]), FILTERS), FILTERS)


def transposed_and_scaled_elsewhere(g: Graph) -> Value:
    turned = g.Transpose(product(g), perm=[0, 2, 1])
    return g.Concat(g.Mul(turned, g.factors(WIDTH, 1)), turned, axis=1)


def rows_of_x(g: Graph) -> Value:
    return g.Concat(g.Slice(g.Shape(g.x), [0], [2]), [WIDTH], axis=0)


def flattened(
    g: Graph, flat: Any = (-1, 8), bias: Any = (WIDTH,), shape: Any = (), returned: bool = False, softmax: Any = None
) -> Value:
    """A product of rows, whose other dimensions are those of ``x`` again behind it."""
    value = g.Reshape(g.x @ g.weights(8, 8), list(flat)) @ g.weights(flat[-1], WIDTH)
    value = g.Tanh(value + g.factors(*bias))
    if softmax is not None:
        value = g.node(softmax[0], value, axis=softmax[1])
    back = g.Reshape(value, list(shape) or rows_of_x(g))
    return g.Mul(back, g.ReduceSum(value)) if returned else back


def flattened_heads(g: Graph) -> Value:
    """Heads behind one another are the rows of the product."""
    heads = g.Transpose(g.Reshape(g.x @ g.weights(8, 8), [0, 0, 4, 2]), perm=[0, 1, 3, 2])
    return g.Reshape(g.Reshape(heads, [-1, 8]) @ g.weights(8, WIDTH), rows_of_x(g))


def both_transposed(g: Graph) -> Value:
    return g.Transpose(g.Abs(g.x), perm=[1, 0]) @ g.Transpose(-g.z, perm=[1, 0])


IDIOMS = {
    "a product of rows": Idiom(flattened, "MatMul MatMul Add Tanh"),
    "a product of heads": Idiom(flattened_heads, "MatMul Reshape Transpose Reshape MatMul"),
    "scales behind transposed products": Idiom(scaled_behind_transposes, "MatMul Transpose Transpose", types=WIDE),
    "scales behind transposed products with bias": Idiom(
        lambda g: scaled_behind_transposes(g, bias=True), "MatMul Add Transpose Transpose", types=WIDE
    ),
    "scales behind an image with its channels last": Idiom(
        image_as_rows, "Convolution Add Transpose", IMAGE, types=WIDE
    ),
    "a product of a transposed value": Idiom(transposed, "Abs Negative MatMul"),
    "a product of two transposed matrices": Idiom(
        both_transposed, "Abs Negative MatMul", {"x": (4, 3), "z": (5, 4)}, may_be_dynamic=False
    ),
    "scales behind a product": Idiom(lambda g: scaled(g, product(g), WIDTH), "MatMul", types=WIDE),
    "scales behind a product from the left": Idiom(
        lambda g: scale(g, g.weights(WIDTH, 3) @ g.x, WIDTH, 1), "MatMul", types=WIDE
    ),
    "scales behind a product with bias": Idiom(
        lambda g: scaled(g, shift(g, product(g), WIDTH), WIDTH), "MatMul Add", types=WIDE
    ),
}


def miss(build: Any, count: int, **what: Any) -> Idiom:
    return Idiom(build, count=count, **what)


ROWWISE = (2, 3, WIDTH)
NEAR_MISSES = {
    "scores across rows": miss(lambda g: flattened(g, softmax=("Softmax", 0)), 10),
    "scores of rows": miss(lambda g: flattened(g, softmax=(g.chance.choice(["Softmax", "LogSoftmax"]), -1)), 10),
    "rows that become other dimensions": miss(lambda g: flattened(g, shape=(3, -1, WIDTH)), 6),
    "rows that are half a row": miss(lambda g: flattened(g, (-1, 4), shape=(-1, 6, WIDTH)), 6),
    "rows of which each has its bias": miss(
        lambda g: flattened(g, bias=(6, 1), shape=ROWWISE), 6, may_be_dynamic=False
    ),
    "a product of rows that is read elsewhere": miss(
        lambda g: flattened(g, shape=ROWWISE, returned=True), 8, may_be_dynamic=False
    ),
    "scales of rows behind transposed products": miss(
        lambda g: g.Mul(g.Transpose(product(g), perm=[0, 2, 1]), g.factors(3)), 3
    ),
    "a transposed product that is read elsewhere": miss(transposed_and_scaled_elsewhere, 4),
    "a transposed value that is read elsewhere": miss(transposed_and_read, 4),
    "a transposed batch": miss(lambda g: transposed(g, 1, 0, 2), 4, inputs={"x": (3, 3, 3)}, may_be_dynamic=False),
    "a scale for each row of a product": miss(lambda g: g.Mul(product(g), g.factors(3, 1)), 2),
    "a scale that makes more dimensions": miss(lambda g: g.Mul(product(g), g.factors(1, 1, 1, 5)), 2),
    "weights that are no matrix": miss(
        lambda g: scale(g, g.x @ g.weights(2, 8, WIDTH), WIDTH), 2, may_be_dynamic=False
    ),
}

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


IDIOMS |= {
    "a bias of a small net": Idiom(bias_of_a_small_net, "Add"),
    "an index that follows from dimensions": Idiom(places, "Gather"),
    "numbers in a row": of_integers(
        lambda g: sums(g, g.chance.choice([1, 441, [[3], [-9]]]), g.chance.choice([7, 12])), "Add Convert"
    ),
    "a number added and taken away": of_integers(back_again, "Negative Convert"),
}
NEAR_MISSES |= {
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
