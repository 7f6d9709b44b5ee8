"""Attention that exporters spell out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rows.formula import Graph, Idiom, Shape, Value, spelled
from tests.rows.row import Tolerance, const, each, graphs

SHAPES: dict[str, Shape] = {"x": (2, 3, 5, 8), "k": (2, 3, 6, 8), "v": (2, 3, 6, 7)}
BEHIND: dict[str, Shape] = {"x": (2, 5, 3, 8), "k": (2, 6, 3, 8), "v": (2, 6, 3, 7)}
"""Heads behind positions."""
SCALE = 0.25
CAUSAL = np.where(np.tri(5, 6), 0, -1e4)
ONE = "ScaledDotProductAttention"


def swapped(g: Graph, value: Value, rank: int = 4) -> Value:
    """The last two dimensions in the other order."""
    return g.Transpose(value, perm=[*range(rank - 2), rank - 1, rank - 2])


def attend(g: Graph, scores: Value, values: Value | None = None, axis: int = -1) -> Value:
    return g.Softmax(scores, axis=axis) @ (values or g.v)


def attention(g: Graph, *masks: Any, rank: int = 4) -> Value:
    """Queries ``x``, keys ``k`` and values ``v``, scaled at any of the places that exporters choose."""
    place = g.chance.choice(["queries", "keys", "transposed keys", "both", "scores", "nowhere"])
    part = SCALE**0.5 if place == "both" else SCALE
    queries = g.scaled(g.x, part) if place in ("queries", "both") else g.x
    keys = swapped(g, g.scaled(g.k, SCALE) if place == "keys" else g.k, rank)
    scores = queries @ (g.scaled(keys, part) if place in ("transposed keys", "both") else keys)
    scores = g.scaled(scores, SCALE) if place == "scores" else scores
    for mask in masks:
        scores = scores + mask
    return attend(g, scores, axis=g.chance.choice([-1, rank - 1]))


def with_factors_of_any_size(g: Graph) -> Value:
    """Queries times a number that keys are divided by: together they are 1, but not before keys are multiplied."""
    size = 2.0 ** g.chance.choice([-30, 30])
    return attend(g, g.Mul(g.x, size) @ swapped(g, g.Mul(g.k, 1 / size)))


def of_heads_behind_positions(g: Graph) -> Value:
    """Of ``[batch, position, head, number]``: keys are transposed once or twice."""
    queries, values = (g.Transpose(value, perm=[0, 2, 1, 3]) for value in (g.x, g.v))
    keys = g.one_of(
        lambda: g.Transpose(g.k, perm=[0, 2, 3, 1]), lambda: swapped(g, g.Transpose(g.k, perm=[0, 2, 1, 3]))
    )
    return attend(g, g.scaled(queries @ keys, SCALE), values)


def by_root(g: Graph, keys: Value) -> Value:
    root = np.array([SCALE**0.5])
    return attend(g, g.Mul(g.x, root) @ g.Mul(keys, root))


def of_flattened_keys(g: Graph) -> Value:
    """As torch transposes keys since its exporter goes through graphs."""
    keys = g.Transpose(g.Reshape(g.k, [-1, 6, 3, 8]), perm=[0, 2, 1, 3])
    return by_root(g, g.Reshape(swapped(g, g.Reshape(keys, [-1, 6, 8]), 3), [-1, 3, 8, 6]))


def of_keys_behind_positions(g: Graph) -> Value:
    """As torch's nn.MultiheadAttention: heads come out of the last dimension, positions first, before the batch."""
    keys = g.Transpose(g.Reshape(g.k, [6, g.chance.choice([-1, 6]), 8]), perm=[1, 2, 0])
    return by_root(g, g.Reshape(keys, g.chance.choice([[-1, 3, 8, 6], [2, 3, 8, 6]])))


def of_mixed_keys(g: Graph) -> Value:
    """The Reshape behind the Transpose mixes positions and numbers."""
    keys = g.Transpose(g.Reshape(g.k, [12, -1, 4]), perm=[1, 2, 0])
    return attend(g, g.x @ g.Reshape(keys, [2, 3, 8, 6]))


def scaled_by_input(g: Graph) -> Value:
    """A number that the model is given: the root of the scale for queries and keys."""
    root = g.Sqrt(g.Abs(g.s))
    return attend(g, (g.x * root) @ g.Mul(swapped(g, g.k), root))


def scaled_by_shape(g: Graph) -> Value:
    """The scale is computed from the shape, as torch exports it: its root for queries and keys."""
    size = g.Cast(g.Gather(g.Shape(g.x), np.int64(3), axis=0), to=g.kind)
    root = g.Sqrt(1 / g.Sqrt(size))
    return attend(g, (g.x * root) @ g.Mul(swapped(g, g.k), root))


def with_factor(g: Graph, *shape: int) -> Value:
    """The scores times a constant of some shape."""
    scores = g.Reshape(g.x, [-1, 3, 5, 8]) @ swapped(g, g.k)
    return attend(g, scores * np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape))


def of_one_key(g: Graph) -> Value:
    """The mask repeats the scores of a single key for each of the values."""
    return attend(g, g.x @ swapped(g, g.k) + g.m)


def of_one_key_in_equations(g: Graph) -> Value:
    scores = g.Einsum(g.x, g.k, equation="bnth,bnsh->bnts")
    return g.Einsum(g.Softmax(scores + g.m, axis=-1), g.v, equation="bnts,bnsd->bntd")


def with_wide_scale(g: Graph, rank: int) -> Value:
    """The scores times one number of more dimensions than they have, which the result has, too."""
    scores, scale = g.x @ swapped(g, g.k), np.full([1] * rank, SCALE)
    return attend(g, g.one_of(lambda: scores / scale, lambda: scores * scale))


def of_equations(g: Graph, scores: str, output: str) -> Value:
    """With Einsum, as Keras and torchvision write it; keys or values may come first."""
    queries, keys = (g.scaled(value, SCALE**0.5) for value in (g.x, g.k))
    inputs = [queries, keys] if "t" in scores[:3] else [keys, queries]
    weights = g.Softmax(g.Add(g.Einsum(*inputs, equation=scores), CAUSAL), axis=-1)
    return g.Einsum(*([weights, g.v] if output.startswith("bn") else [g.v, weights]), equation=output)


def spoiled(g: Graph, what: str, rank: int = 4) -> Value:
    """What is not the attention of one layer."""
    scores = g.x @ (g.k if what == "keys" else swapped(g, g.k, rank))
    if what == "mask":
        scores = g.Mul(g.Add(scores, g.m), SCALE)
    if what == "select":
        scores = g.Where(g.Greater(g.m, 0), scores, -1e4)
    if what == "shared":
        scores = g.Add(scores, g.Tanh(scores))
    weights = g.Softmax(scores, axis=2 if what == "axis" else -1)
    if what == "nan":
        weights = g.Where(g.IsNaN(weights), 0, weights)
    return (swapped(g, weights, rank) if what == "weights" else weights) @ g.v


def masked(*masks: Shape) -> dict[str, Shape]:
    return {**SHAPES, **{"mn"[place]: shape for place, shape in enumerate(masks)}}


FLAT: dict[str, Shape] = {"x": (2, 5, 8), "k": (2, 6, 8), "v": (2, 6, 7), "m": (2, 1, 6)}
DEEP: dict[str, Shape] = {"x": (2, 2, 3, 5, 8), "k": (2, 2, 3, 6, 8), "v": (2, 2, 3, 6, 7), "m": (3, 5, 6)}
WIDENED: dict[str, Shape] = {"x": (1, 3, 1, 8), "k": (1, 3, 6, 8), "v": (1, 3, 6, 7), "m": (4, 1, 5, 6)}
BY_SHAPE = f"ShapeOf Gather Convert Sqrt Divide Sqrt Multiply {ONE}"
LEFT, RIGHT = ["btnh,bsnh->bnts", "bsnh,btnh->bnts"], ["bnts,bsnd->btnd", "bsnd,bnts->btnd"]
IDIOMS = {
    "attention": Idiom(attention, ONE, SHAPES),
    "attention with a mask of keys": Idiom(lambda g: attention(g, g.m), ONE, masked((2, 1, 1, 6))),
    "attention with a mask of queries and keys": Idiom(lambda g: attention(g, g.m), ONE, masked((2, 1, 5, 6))),
    "attention with a mask of one dimension": Idiom(lambda g: attention(g, g.m), f"Unsqueeze {ONE}", masked((6,))),
    "attention with a mask that widens": Idiom(lambda g: attention(g, g.m), ONE, WIDENED),
    "attention with a mask of a larger batch": Idiom(
        lambda g: attention(g, g.m), ONE, {"x": (1, 3, 5, 8), "k": (1, 3, 6, 8), "v": (1, 3, 6, 7), "m": (2, 1, 1, 6)}
    ),
    "attention with a constant mask": Idiom(lambda g: attention(g, CAUSAL), ONE, SHAPES),
    "attention with two masks": Idiom(
        lambda g: attention(g, g.m, g.n), f"Add {ONE}", masked((2, 1, 1, 6), (2, 3, 5, 6))
    ),
    "attention of rank 3": Idiom(lambda g: attention(g, g.m, rank=3), ONE, FLAT),
    "attention of rank 5": Idiom(lambda g: attention(g, g.m, rank=5), ONE, DEEP),
    "attention of heads behind positions": Idiom(of_heads_behind_positions, "Transpose " * 3 + ONE, BEHIND),
    "attention of flattened keys": Idiom(of_flattened_keys, f"Reshape Transpose {ONE}", {**SHAPES, "k": (2, 144)}),
    "attention of keys behind positions": Idiom(
        of_keys_behind_positions, f"Reshape Transpose Reshape {ONE}", {**SHAPES, "k": (6, 2, 24)}
    ),
    "attention of equations": Idiom(lambda g: of_equations(g, "bnth,bnsh->bnts", "bnts,bnsd->bntd"), ONE, SHAPES),
    "attention of equations of heads behind positions": Idiom(
        lambda g: of_equations(g, g.chance.choice(LEFT), g.chance.choice(RIGHT)),
        f"Transpose Transpose Transpose {ONE} Transpose",
        BEHIND,
    ),
    "attention with a scale of the shape": Idiom(scaled_by_shape, BY_SHAPE, SHAPES),
    "attention with a factor for each head": Idiom(
        lambda g: with_factor(g, 3, 1, 1), f"Reshape Multiply {ONE}", SHAPES
    ),
    "attention with a factor for each query": Idiom(lambda g: with_factor(g, 5, 1), f"Reshape Multiply {ONE}", SHAPES),
}


def miss(build: Any, *changes: dict[str, Shape], **inputs: Shape) -> Idiom:
    shapes: dict[str, Shape] = dict(SHAPES)
    for change in (*changes, inputs):
        shapes.update(change)
    return Idiom(build, inputs=shapes, absent=ONE)


def spoil(what: str, rank: int = 4, **inputs: Shape) -> Idiom:
    return miss(lambda g: spoiled(g, what, rank), **inputs)


def equations(scores: str, output: str, **inputs: Shape) -> Idiom:
    return miss(lambda g: of_equations(g, scores, output), **inputs)


def divided_by_input(g: Graph) -> Value:
    return attend(g, g.x @ swapped(g, g.k) / g.s)


def of_keys_that_are_read(g: Graph) -> Value:
    keys = g.Transpose(g.k, perm=[0, 2, 3, 1])
    return attend(g, g.Transpose(g.x, perm=[0, 2, 1, 3]) @ keys, g.Transpose(g.v, perm=[0, 2, 1, 3])) * g.ReduceMax(
        keys
    )


PLAIN: Sequence[str] = ("bnth,bnsh->bnts", "bnts,bnsd->bntd")
NEAR_MISSES = {
    "a scale of 5 dimensions": miss(lambda g: with_wide_scale(g, 5)),
    "a scale of 6 dimensions": miss(lambda g: with_wide_scale(g, 6)),
    "a mask of more keys than there are": miss(of_one_key, k=(2, 3, 1, 8), m=(5, 6)),
    "a mask of more keys than there are in equations": miss(of_one_key_in_equations, k=(2, 3, 1, 8), m=(5, 6)),
    "equations that repeat the depth of the keys": equations(*PLAIN, k=(2, 3, 6, 1)),
    "equations that repeat a value for all keys": equations(*PLAIN, v=(2, 3, 1, 7)),
    "equations that repeat a depth of unknown length": equations(
        "hbns,hbnt->bnts", PLAIN[1], x=(8, 2, 3, 5), k=(1, 2, 3, 6)
    ),
    "equations that sum the weights up": equations(PLAIN[0], "bnts,bnsd->bnsd"),
    "equations that sum queries up": equations(PLAIN[0], "bnts,bntd->bnsd", v=(2, 3, 5, 7)),
    "keys that a Reshape mixes": miss(of_mixed_keys, k=(6, 2, 24)),
    # The number may be too large, or too small, for the queries alone.
    "a scale that is given": miss(scaled_by_input, s=()),
    "scores that are divided by an input": miss(divided_by_input, s=()),
    "factors that are no scales by their size": Idiom(with_factors_of_any_size, inputs=SHAPES, count=3),
    "keys that are read elsewhere": miss(of_keys_that_are_read, BEHIND),
    "SoftMax along queries": spoil("axis"),
    "a scale behind the mask": spoil("mask", m=(2, 1, 1, 6)),
    "scores that are replaced": spoil("select", m=(2, 1, 1, 6)),
    "scores that are read twice": spoil("shared"),
    "weights that must not be NaN": spoil("nan"),
    "transposed weights": spoil("weights", x=(2, 3, 6, 8)),
    "keys as they are": spoil("keys", x=(2, 3, 5, 6), k=(2, 3, 6, 6)),
    "attention of matrices": spoil("", 2, x=(5, 8), k=(6, 8), v=(6, 7)),
    "values of another rank": spoil("", v=(6, 7)),
    "two masks whose sum is larger": miss(lambda g: attention(g, g.Unsqueeze(g.m, [1, 2]), g.n), m=(2, 6), n=(3, 5, 6)),
    "a mask of a higher rank": miss(lambda g: attention(g, g.m), m=(2, 1, 1, 1, 6)),
    "a scalar for a mask": miss(lambda g: attention(g, g.m), m=()),
    "a factor for each key": miss(lambda g: with_factor(g, 6)),
    "a factor that widens": miss(lambda g: with_factor(g, 2, 1, 1, 1), x=(1, 3, 5, 8), k=(1, 3, 6, 8), v=(1, 3, 6, 7)),
}


def tokens(batch: int, positions: int, hidden: int = 1) -> dict[str, Any]:
    """Embeddings of tokens, of which a batch attends to none of the last ``hidden``."""
    x = np.random.default_rng(5).normal(size=(batch, positions, 32)).astype(np.float32)
    mask = np.ones((batch, positions), np.int64)
    mask[0, positions - hidden :] = 0
    return {"x": x, "mask": mask}


WEIGHTS = {f"w{seed}": const(np.random.default_rng(seed).normal(size=(32, 32)) / 4, np.float32) for seed in range(3)}
BERT = """g (float[b, s, 32] x, int64[b, s] mask) => (y) <int64[4] heads = {{0, 0, {0}, {1}}}, int64[3] flat = {{0, 0, 32}},
  int64[2] places = {{1, 2}}, float one = {{1}}, float hidden = {{{2}}}, float root = {{{3}}}> {{
  q0 = MatMul (x, w0) k0 = MatMul (x, w1) v0 = MatMul (x, w2)
  q1 = Reshape (q0, heads) k1 = Reshape (k0, heads) v1 = Reshape (v0, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (q1) k = Transpose <perm = [0, 2, 3, 1]> (k1)
  v = Transpose <perm = [0, 2, 1, 3]> (v1)
  m0 = Unsqueeze (mask, places) m1 = Cast <to = 1> (m0) m2 = Sub (one, m1) m = Mul (m2, hidden)
  s0 = MatMul (q, k) s1 = Div (s0, root) s2 = Add (s1, m) p = Softmax <axis = -1> (s2) o = MatMul (p, v)
  o1 = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (o1, flat) }}"""
"""Self-attention of ``x`` [batch, position, number]; keys whose ``mask`` is 0 are hidden."""
BERT_LAYERS = (
    f"MatMul Reshape Transpose MatMul Reshape Transpose MatMul Reshape Transpose Unsqueeze Convert Subtract Multiply "
    f"{ONE} Transpose Reshape"
)
ROWS = [
    *spelled(IDIOMS, NEAR_MISSES),
    # Also as many positions as heads: the plug-in transposes the output in place.
    *(row for heads in (4, 8) for hidden in (-10000, -3.4028235e38) for row in graphs(BERT.format(heads, 32 // heads,
        hidden, (32 / heads) ** 0.5), label=f"bert-{heads}-{hidden}", also=each(tokens(2, 6), tokens(1, 1),
        tokens(3, 4), tokens(2, 8), tokens(2, 6, hidden=6)), tolerance=Tolerance(2e-5, 2e-5),
        layers=BERT_LAYERS.split(), **WEIGHTS)),
]  # fmt: skip
