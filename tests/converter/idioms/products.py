"""Layers around products of matrices that become part of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .convolutions import FILTERS, IMAGE, convolution, factors, scale, shift, weights
from .graphs import WIDE, Graph, Idiom, NearMiss

WIDTH = 5


def product(graph: Graph, chance: random.Random) -> str:
    return graph("MatMul", "x", graph.constant(weights(chance, 8, WIDTH)))


def scaled(graph: Graph, chance: random.Random, value: str) -> str:
    for _ in range(chance.randint(1, 3)):
        value = scale(graph, chance, value, (WIDTH,))
    return value


def product_from_the_left(graph: Graph, chance: random.Random) -> str:
    value = graph("MatMul", graph.constant(weights(chance, WIDTH, 3)), "x")
    return scale(graph, chance, value, (WIDTH, 1))


def transposed(graph: Graph, chance: random.Random, order: tuple[int, ...] = (0, 2, 1)) -> str:
    """A product of transposed values, of one of them or of both."""
    left, right = graph("Abs", "x"), graph("Neg", "x")
    if chance.random() < 0.5:
        return graph("MatMul", graph("Transpose", left, perm=order), right)
    return graph("MatMul", left, graph("Transpose", right, perm=order))


def transposed_twice(graph: Graph, chance: random.Random) -> str:
    left, right = (
        graph("Transpose", graph(op_type, name), perm=[1, 0]) for op_type, name in (("Abs", "x"), ("Neg", "z"))
    )
    return graph("MatMul", left, right)


def transposed_and_read(graph: Graph) -> str:
    turned = graph("Transpose", graph("Abs", "x"), perm=[0, 2, 1])
    return graph("Concat", graph("MatMul", turned, "x"), turned, axis=2)


def scaled_behind_transposes(
    graph: Graph, chance: random.Random, *, bias: bool = False, shape: tuple[int, ...] = (WIDTH, 1)
) -> str:
    """A product [2, 3, 5] whose columns become rows and columns again, which are scaled in between and behind."""
    value = product(graph, chance)
    if bias:
        value = shift(graph, chance, value, (WIDTH,))
    value = scale(graph, chance, graph("Transpose", value, perm=[0, 2, 1]), shape)
    return scale(graph, chance, graph("Transpose", value, perm=[2, 0, 1]), (WIDTH,))


def image_as_rows(graph: Graph, chance: random.Random) -> str:
    """A convolution of an image, its channels last, and a factor for each of them."""
    value = graph("Transpose", convolution(graph, chance), perm=[0, 2, 3, 1])
    return scale(graph, chance, shift(graph, chance, value, (FILTERS,)), (FILTERS,))


def transposed_and_scaled_elsewhere(graph: Graph, chance: random.Random) -> str:
    turned = graph("Transpose", product(graph, chance), perm=[0, 2, 1])
    return graph("Concat", graph("Mul", turned, graph.constant(factors(chance, WIDTH, 1))), turned, axis=1)


def flattened(
    graph: Graph,
    chance: random.Random,
    *,
    flat: Sequence[int] = (-1, 8),
    bias: tuple[int, ...] = (WIDTH,),
    shape: Sequence[int] = (),
    returned: bool = False,
    softmax: tuple[str, int] | None = None,
) -> str:
    """A product of rows, whose other dimensions are those of ``x`` again behind it."""
    known = graph("MatMul", "x", graph.constant(weights(chance, 8, 8)))
    rows = graph("Reshape", known, graph.integers(flat))
    value = graph("MatMul", rows, graph.constant(weights(chance, flat[-1], WIDTH)))
    value = graph("Tanh", graph.either_way("Add", value, graph.constant(factors(chance, *bias)), chance))
    if softmax is not None:
        value = graph(softmax[0], value, axis=softmax[1])
    if shape:
        target = graph.integers(shape)
    else:
        sizes = graph("Slice", graph("Shape", "x"), graph.integers([0]), graph.integers([2]))
        target = graph("Concat", sizes, graph.integers([WIDTH]), axis=0)
    back = graph("Reshape", value, target)
    return graph("Mul", back, graph("ReduceSum", value)) if returned else back


def flattened_heads(graph: Graph, chance: random.Random) -> str:
    """Heads behind one another are the rows of the product."""
    known = graph("MatMul", "x", graph.constant(weights(chance, 8, 8)))
    heads = graph("Transpose", graph("Reshape", known, graph.integers([0, 0, 4, 2])), perm=[0, 1, 3, 2])
    rows = graph("Reshape", heads, graph.integers([-1, 8]))
    value = graph("MatMul", rows, graph.constant(weights(chance, 8, WIDTH)))
    sizes = graph("Slice", graph("Shape", "x"), graph.integers([0]), graph.integers([2]))
    return graph("Reshape", value, graph("Concat", sizes, graph.integers([WIDTH]), axis=0))


IDIOMS = {
    "a product of rows": Idiom(build=flattened, becomes=["MatMul", "MatMul", "Add", "Tanh"]),
    "a product of heads": Idiom(build=flattened_heads, becomes=["MatMul", "Reshape", "Transpose", "Reshape", "MatMul"]),
    "scales behind transposed products": Idiom(
        dtypes_of_model=WIDE, build=scaled_behind_transposes, becomes=["MatMul", "Transpose", "Transpose"]
    ),
    "scales behind transposed products with bias": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled_behind_transposes(g, c, bias=True),
        becomes=["MatMul", "Add", "Transpose", "Transpose"],
    ),
    "scales behind an image with its channels last": Idiom(
        dtypes_of_model=WIDE, build=image_as_rows, inputs=IMAGE, becomes=["Convolution", "Add", "Transpose"]
    ),
    "a product of a transposed value": Idiom(build=transposed, becomes=["Abs", "Negative", "MatMul"]),
    "a product of two transposed matrices": Idiom(
        build=transposed_twice,
        inputs={"x": (4, 3), "z": (5, 4)},
        may_be_dynamic=False,
        becomes=["Abs", "Negative", "MatMul"],
    ),
    "scales behind a product": Idiom(
        dtypes_of_model=WIDE, build=lambda g, c: scaled(g, c, product(g, c)), becomes=["MatMul"]
    ),
    "scales behind a product from the left": Idiom(
        dtypes_of_model=WIDE, build=product_from_the_left, becomes=["MatMul"]
    ),
    "scales behind a product with bias": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled(g, c, shift(g, c, product(g, c), (WIDTH,))),
        becomes=["MatMul", "Add"],
    ),
}

NEAR_MISSES = {
    "scores across rows": NearMiss(build=lambda g, c: flattened(g, c, softmax=("Softmax", 0)), count=10),
    "scores of rows": NearMiss(
        build=lambda g, c: flattened(g, c, softmax=(c.choice(["Softmax", "LogSoftmax"]), -1)), count=10
    ),
    "rows that become other dimensions": NearMiss(build=lambda g, c: flattened(g, c, shape=(3, -1, WIDTH)), count=6),
    "rows that are half a row": NearMiss(
        build=lambda g, c: flattened(g, c, flat=(-1, 4), shape=(-1, 6, WIDTH)), count=6
    ),
    "rows of which each has its bias": NearMiss(
        build=lambda g, c: flattened(g, c, bias=(6, 1), shape=(2, 3, WIDTH)), may_be_dynamic=False, count=6
    ),
    "a product of rows that is read elsewhere": NearMiss(
        build=lambda g, c: flattened(g, c, shape=(2, 3, WIDTH), returned=True), may_be_dynamic=False, count=8
    ),
    "scales of rows behind transposed products": NearMiss(
        build=lambda g, c: g("Mul", g("Transpose", product(g, c), perm=[0, 2, 1]), g.constant(factors(c, 3))),
        count=3,
    ),
    "a transposed product that is read elsewhere": NearMiss(build=transposed_and_scaled_elsewhere, count=4),
    "a transposed value that is read elsewhere": NearMiss(
        build=lambda g, c: transposed_and_read(g),
        count=4,
    ),
    "a transposed batch": NearMiss(
        build=lambda g, c: transposed(g, c, (1, 0, 2)), inputs={"x": (3, 3, 3)}, may_be_dynamic=False, count=4
    ),
    "a scale for each row of a product": NearMiss(
        build=lambda g, c: g("Mul", product(g, c), g.constant(factors(c, 3, 1))),
        count=2,
    ),
    "a scale that makes more dimensions": NearMiss(
        build=lambda g, c: g("Mul", product(g, c), g.constant(factors(c, 1, 1, 1, 5))), count=2
    ),
    "weights that are no matrix": NearMiss(
        build=lambda g, c: scale(g, c, g("MatMul", "x", g.constant(weights(c, 2, 8, WIDTH))), (WIDTH,)),
        may_be_dynamic=False,
        count=2,
    ),
}
