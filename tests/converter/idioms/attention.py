"""Attention that exporters spell out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .graphs import Graph, Idiom, NearMiss

SHAPES = {"x": (2, 3, 5, 8), "k": (2, 3, 6, 8), "v": (2, 3, 6, 7)}
SCALE = 0.25


def swapped(graph: Graph, value: str, rank: int) -> str:
    """The last two dimensions in the other order."""
    return graph("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def products(graph: Graph, chance: random.Random, queries: str, keys: str, rank: int) -> str:
    """Queries times transposed keys, scaled at any of the places that exporters choose."""
    place = chance.choice(["queries", "keys", "transposed keys", "both", "scores", "nowhere"])
    if place in ("queries", "both"):
        queries = graph.scaled(queries, SCALE**0.5 if place == "both" else SCALE, chance)
    if place == "keys":
        keys = graph.scaled(keys, SCALE, chance)
    keys = swapped(graph, keys, rank)
    if place in ("transposed keys", "both"):
        keys = graph.scaled(keys, SCALE**0.5 if place == "both" else SCALE, chance)
    scores = graph("MatMul", queries, keys)
    return graph.scaled(scores, SCALE, chance) if place == "scores" else scores


def attention(
    graph: Graph, chance: random.Random, masks: Sequence[str] = (), rank: int = 4, constant_mask: bool = False
) -> str:
    """Of queries ``x``, keys ``k`` and values ``v``."""
    scores = products(graph, chance, "x", "k", rank)
    if constant_mask:
        masks = [graph.constant(np.where(np.tri(5, 6), 0, -1e4))]
    for mask in masks:
        scores = graph.either_way("Add", scores, mask, chance)
    return graph("MatMul", graph("Softmax", scores, axis=chance.choice([-1, rank - 1])), "v")


def with_factors_of_any_size(graph: Graph, chance: random.Random) -> str:
    """Queries times a number that keys are divided by: together they are 1, but not before keys are multiplied."""
    size = 2.0 ** chance.choice([-30, 30])
    queries, keys = (graph("Mul", name, graph.constant(factor)) for name, factor in (("x", size), ("k", 1 / size)))
    return graph("MatMul", graph("Softmax", graph("MatMul", queries, swapped(graph, keys, 4)), axis=-1), "v")


def of_heads_behind_positions(graph: Graph, chance: random.Random) -> str:
    """Of ``[batch, position, head, number]``: keys are transposed once or twice."""
    queries, values = (graph("Transpose", name, perm=[0, 2, 1, 3]) for name in ("x", "v"))
    if chance.random() < 0.5:
        keys = graph("Transpose", "k", perm=[0, 2, 3, 1])
    else:
        keys = swapped(graph, graph("Transpose", "k", perm=[0, 2, 1, 3]), 4)
    scores = graph.scaled(graph("MatMul", queries, keys), SCALE, chance)
    return graph("MatMul", graph("Softmax", scores, axis=-1), values)


def of_flattened_keys(graph: Graph, chance: random.Random) -> str:
    """As torch transposes keys since its exporter goes through graphs."""
    keys = graph("Transpose", graph("Reshape", "k", graph.integers([-1, 6, 3, 8])), perm=[0, 2, 1, 3])
    flat = graph("Reshape", keys, graph.integers([-1, 6, 8]))
    keys = graph("Reshape", swapped(graph, flat, 3), graph.integers([-1, 3, 8, 6]))
    root = graph.constant([SCALE**0.5])
    scores = graph("MatMul", graph("Mul", "x", root), graph("Mul", keys, root))
    return graph("MatMul", graph("Softmax", scores, axis=-1), "v")


def of_keys_behind_positions(graph: Graph, chance: random.Random) -> str:
    """As torch's nn.MultiheadAttention: heads come out of the last dimension, positions first, before the batch."""
    keys = graph("Reshape", "k", graph.integers([6, chance.choice([-1, 6]), 8]))
    keys = graph("Transpose", keys, perm=[1, 2, 0])
    keys = graph("Reshape", keys, graph.integers(chance.choice([[-1, 3, 8, 6], [2, 3, 8, 6]])))
    root = graph.constant([SCALE**0.5])
    scores = graph("MatMul", graph("Mul", "x", root), graph("Mul", keys, root))
    return graph("MatMul", graph("Softmax", scores, axis=-1), "v")


def of_mixed_keys(graph: Graph, chance: random.Random) -> str:
    """The Reshape behind the Transpose mixes positions and numbers."""
    keys = graph("Transpose", graph("Reshape", "k", graph.integers([12, -1, 4])), perm=[1, 2, 0])
    keys = graph("Reshape", keys, graph.integers([2, 3, 8, 6]))
    return graph("MatMul", graph("Softmax", graph("MatMul", "x", keys), axis=-1), "v")


def scaled_by_input(graph: Graph, chance: random.Random) -> str:
    """A number that the model is given: the root of the scale for queries and keys."""
    root = graph("Sqrt", graph("Abs", "s"))
    keys = graph("Mul", swapped(graph, "k", 4), root)
    scores = graph("MatMul", graph.either_way("Mul", "x", root, chance), keys)
    return graph("MatMul", graph("Softmax", scores, axis=-1), "v")


def scaled_by_shape(graph: Graph, chance: random.Random) -> str:
    """The scale is computed from the shape, as torch exports it: its root for queries and keys."""
    size = graph("Gather", graph("Shape", "x"), graph.integers(3), axis=0)
    size = graph("Cast", size, to=int(graph._type(graph.dtype)))
    root = graph("Sqrt", graph("Div", graph.constant(1), graph("Sqrt", size)))
    keys = graph("Mul", swapped(graph, "k", 4), root)
    scores = graph("MatMul", graph.either_way("Mul", "x", root, chance), keys)
    return graph("MatMul", graph("Softmax", scores, axis=-1), "v")


def with_factor(graph: Graph, chance: random.Random, shape: Sequence[int]) -> str:
    """The scores times a constant of some shape."""
    queries = graph("Reshape", "x", graph.integers([-1, 3, 5, 8]))
    scores = graph("MatMul", queries, swapped(graph, "k", 4))
    factor = graph.constant(np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape))
    weights = graph("Softmax", graph.either_way("Mul", scores, factor, chance), axis=-1)
    return graph("MatMul", weights, "v")


def of_one_key(graph: Graph, chance: random.Random) -> str:
    """The mask repeats the scores of a single key for each of the values."""
    scores = graph("MatMul", "x", swapped(graph, "k", 4))
    return graph("MatMul", graph("Softmax", graph.either_way("Add", scores, "m", chance), axis=-1), "v")


def of_one_key_in_equations(graph: Graph, chance: random.Random) -> str:
    scores = graph("Einsum", "x", "k", equation="bnth,bnsh->bnts")
    weights = graph("Softmax", graph.either_way("Add", scores, "m", chance), axis=-1)
    return graph("Einsum", weights, "v", equation="bnts,bnsd->bntd")


def with_wide_scale(graph: Graph, chance: random.Random, shape: Sequence[int]) -> str:
    """The scores times one number of more dimensions than they have, which the result has, too."""
    scores = graph("MatMul", "x", swapped(graph, "k", 4))
    scale = graph.constant(np.full(shape, SCALE))
    scores = graph("Div", scores, scale) if chance.random() < 0.5 else graph.either_way("Mul", scores, scale, chance)
    return graph("MatMul", graph("Softmax", scores, axis=-1), "v")


def of_equations(graph: Graph, chance: random.Random, scores: str, output: str) -> str:
    """With Einsum, as Keras and torchvision write it; keys or values may come first."""
    queries, keys = (graph.scaled(name, SCALE**0.5, chance) for name in "xk")
    inputs = [queries, keys] if "t" in scores[:3] else [keys, queries]
    masked = graph("Add", graph("Einsum", *inputs, equation=scores), graph.constant(np.where(np.tri(5, 6), 0, -1e4)))
    weights = graph("Softmax", masked, axis=-1)
    inputs = [weights, "v"] if output.startswith("bn") else ["v", weights]
    return graph("Einsum", *inputs, equation=output)


def spoiled(graph: Graph, chance: random.Random, what: str, rank: int = 4) -> str:
    """What is not the attention of one layer."""
    keys = "k" if what == "keys" else swapped(graph, "k", rank)
    scores = graph("MatMul", "x", keys)
    if what == "mask":
        scores = graph("Mul", graph("Add", scores, "m"), graph.constant(SCALE))
    if what == "select":
        scores = graph("Where", graph("Greater", "m", graph.constant(0)), scores, graph.constant(-1e4))
    if what == "shared":
        scores = graph("Add", scores, graph("Tanh", scores))
    weights = graph("Softmax", scores, axis=2 if what == "axis" else -1)
    if what == "nan":
        weights = graph("Where", graph("IsNaN", weights), graph.constant(0), weights)
    if what == "weights":
        weights = swapped(graph, weights, rank)
    return graph("MatMul", weights, "v")


def masked(*masks: Sequence[int]) -> dict[str, Sequence[int]]:
    return {**SHAPES, **{"mn"[place]: shape for place, shape in enumerate(masks)}}


ONE = ["ScaledDotProductAttention"]

IDIOMS = {
    "attention": Idiom(build=attention, inputs=SHAPES, becomes=ONE),
    "attention with a mask of keys": Idiom(
        build=lambda g, c: attention(g, c, ["m"]), inputs=masked((2, 1, 1, 6)), becomes=ONE
    ),
    "attention with a mask of queries and keys": Idiom(
        build=lambda g, c: attention(g, c, ["m"]), inputs=masked((2, 1, 5, 6)), becomes=ONE
    ),
    "attention with a mask of one dimension": Idiom(
        build=lambda g, c: attention(g, c, ["m"]), inputs=masked((6,)), becomes=["Unsqueeze", *ONE]
    ),
    "attention with a mask that widens": Idiom(
        build=lambda g, c: attention(g, c, ["m"]),
        inputs={"x": (1, 3, 1, 8), "k": (1, 3, 6, 8), "v": (1, 3, 6, 7), "m": (4, 1, 5, 6)},
        becomes=ONE,
    ),
    "attention with a constant mask": Idiom(
        build=lambda g, c: attention(g, c, constant_mask=True), inputs=SHAPES, becomes=ONE
    ),
    "attention with two masks": Idiom(
        build=lambda g, c: attention(g, c, ["m", "n"]),
        inputs=masked((2, 1, 1, 6), (2, 3, 5, 6)),
        becomes=["Add", *ONE],
    ),
    "attention of rank 3": Idiom(
        build=lambda g, c: attention(g, c, ["m"], rank=3),
        inputs={"x": (2, 5, 8), "k": (2, 6, 8), "v": (2, 6, 7), "m": (2, 1, 6)},
        becomes=ONE,
    ),
    "attention of rank 5": Idiom(
        build=lambda g, c: attention(g, c, ["m"], rank=5),
        inputs={"x": (2, 2, 3, 5, 8), "k": (2, 2, 3, 6, 8), "v": (2, 2, 3, 6, 7), "m": (3, 5, 6)},
        becomes=ONE,
    ),
    "attention of heads behind positions": Idiom(
        build=of_heads_behind_positions,
        inputs={"x": (2, 5, 3, 8), "k": (2, 6, 3, 8), "v": (2, 6, 3, 7)},
        becomes=["Transpose"] * 3 + ONE,
    ),
    "attention of flattened keys": Idiom(
        build=of_flattened_keys, inputs={**SHAPES, "k": (2, 144)}, becomes=["Reshape", "Transpose", *ONE]
    ),
    "attention of keys behind positions": Idiom(
        build=of_keys_behind_positions,
        inputs={**SHAPES, "k": (6, 2, 24)},
        becomes=["Reshape", "Transpose", "Reshape", *ONE],
    ),
    "attention of equations": Idiom(
        build=lambda g, c: of_equations(g, c, "bnth,bnsh->bnts", "bnts,bnsd->bntd"), inputs=SHAPES, becomes=ONE
    ),
    "attention of equations of heads behind positions": Idiom(
        build=lambda g, c: of_equations(
            g, c, c.choice(["btnh,bsnh->bnts", "bsnh,btnh->bnts"]), c.choice(["bnts,bsnd->btnd", "bsnd,bnts->btnd"])
        ),
        inputs={"x": (2, 5, 3, 8), "k": (2, 6, 3, 8), "v": (2, 6, 3, 7)},
        becomes=["Transpose"] * 3 + ONE + ["Transpose"],
    ),
    "attention with a scale of the shape": Idiom(
        build=scaled_by_shape,
        inputs=SHAPES,
        becomes=["ShapeOf", "Gather", "Convert", "Sqrt", "Divide", "Sqrt", "Multiply", *ONE],
    ),
    "attention with a factor for each head": Idiom(
        build=lambda g, c: with_factor(g, c, [3, 1, 1]), inputs=SHAPES, becomes=["Reshape", "Multiply", *ONE]
    ),
    "attention with a factor for each query": Idiom(
        build=lambda g, c: with_factor(g, c, [5, 1]), inputs=SHAPES, becomes=["Reshape", "Multiply", *ONE]
    ),
}


def miss(what: str, rank: int = 4, **inputs: Any) -> NearMiss:
    shapes = inputs or SHAPES
    return NearMiss(build=lambda g, c: spoiled(g, c, what, rank), inputs=shapes, absent="ScaledDotProductAttention")


NEAR_MISSES = {
    **{
        f"a scale of {rank} dimensions": NearMiss(
            build=lambda g, c, rank=rank: with_wide_scale(g, c, [1] * rank),  # type: ignore[misc]
            inputs=SHAPES,
            absent="ScaledDotProductAttention",
        )
        for rank in (5, 6)
    },
    "a mask of more keys than there are": NearMiss(
        build=of_one_key,
        inputs={"x": (2, 3, 5, 8), "k": (2, 3, 1, 8), "v": (2, 3, 6, 7), "m": (5, 6)},
        absent="ScaledDotProductAttention",
    ),
    "a mask of more keys than there are in equations": NearMiss(
        build=of_one_key_in_equations,
        inputs={"x": (2, 3, 5, 8), "k": (2, 3, 1, 8), "v": (2, 3, 6, 7), "m": (5, 6)},
        absent="ScaledDotProductAttention",
    ),
    **{
        f"equations that repeat {what}": NearMiss(
            build=lambda g, c: of_equations(g, c, "bnth,bnsh->bnts", "bnts,bnsd->bntd"),
            inputs={**SHAPES, name: shape},
            absent="ScaledDotProductAttention",
        )
        for what, name, shape in (
            ("the depth of the keys", "k", (2, 3, 6, 1)),
            ("a value for all keys", "v", (2, 3, 1, 7)),
        )
    },
    "equations that repeat a depth of unknown length": NearMiss(
        build=lambda g, c: of_equations(g, c, "hbns,hbnt->bnts", "bnts,bnsd->bntd"),
        inputs={"x": (8, 2, 3, 5), "k": (1, 2, 3, 6), "v": (2, 3, 6, 7)},
        absent="ScaledDotProductAttention",
    ),
    "equations that sum the weights up": NearMiss(
        build=lambda g, c: of_equations(g, c, "bnth,bnsh->bnts", "bnts,bnsd->bnsd"),
        inputs=SHAPES,
        absent="ScaledDotProductAttention",
    ),
    "equations that sum queries up": NearMiss(
        build=lambda g, c: of_equations(g, c, "bnth,bnsh->bnts", "bnts,bntd->bnsd"),
        inputs={**SHAPES, "v": (2, 3, 5, 7)},
        absent="ScaledDotProductAttention",
    ),
    "keys that a Reshape mixes": NearMiss(
        build=of_mixed_keys,
        inputs={**SHAPES, "k": (6, 2, 24)},
        absent="ScaledDotProductAttention",
    ),
    # The number may be too large, or too small, for the queries alone.
    "a scale that is given": NearMiss(
        build=scaled_by_input, inputs={**SHAPES, "s": ()}, absent="ScaledDotProductAttention"
    ),
    "scores that are divided by an input": NearMiss(
        build=lambda g, c: g("MatMul", g("Softmax", g("Div", g("MatMul", "x", swapped(g, "k", 4)), "s"), axis=-1), "v"),
        inputs={**SHAPES, "s": ()},
        absent="ScaledDotProductAttention",
    ),
    "factors that are no scales by their size": NearMiss(build=with_factors_of_any_size, inputs=SHAPES, count=3),
    "SoftMax along queries": miss("axis"),
    "a scale behind the mask": miss("mask", **masked((2, 1, 1, 6))),
    "scores that are replaced": miss("select", **masked((2, 1, 1, 6))),
    "scores that are read twice": miss("shared"),
    "weights that must not be NaN": miss("nan"),
    "transposed weights": miss("weights", x=(2, 3, 6, 8), k=(2, 3, 6, 8), v=(2, 3, 6, 7)),
    "keys as they are": miss("keys", x=(2, 3, 5, 6), k=(2, 3, 6, 6), v=(2, 3, 6, 7)),
    "attention of matrices": miss("", 2, x=(5, 8), k=(6, 8), v=(6, 7)),
    "values of another rank": miss("", x=(2, 3, 5, 8), k=(2, 3, 6, 8), v=(6, 7)),
    "two masks whose sum is larger": NearMiss(
        build=lambda g, c: attention(g, c, [g("Unsqueeze", "m", g.integers([1, 2])), "n"]),
        inputs=masked((2, 6), (3, 5, 6)),
        absent="ScaledDotProductAttention",
    ),
    "a mask of a higher rank": NearMiss(
        build=lambda g, c: attention(g, c, ["m"]), inputs=masked((2, 1, 1, 1, 6)), absent="ScaledDotProductAttention"
    ),
    "a scalar for a mask": NearMiss(
        build=lambda g, c: attention(g, c, ["m"]), inputs=masked(()), absent="ScaledDotProductAttention"
    ),
    "a factor for each key": NearMiss(
        build=lambda g, c: with_factor(g, c, [6]), inputs=SHAPES, absent="ScaledDotProductAttention"
    ),
    "a factor that widens": NearMiss(
        build=lambda g, c: with_factor(g, c, [2, 1, 1, 1]),
        inputs={"x": (1, 3, 5, 8), "k": (1, 3, 6, 8), "v": (1, 3, 6, 7)},
        absent="ScaledDotProductAttention",
    ),
}
