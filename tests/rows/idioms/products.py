"""Layers around products of matrices that become part of them."""

from __future__ import annotations

from typing import Any

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
ROWS = spelled(IDIOMS, NEAR_MISSES)
