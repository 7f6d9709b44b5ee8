"""Activations that exporters spell out."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from .graphs import Graph, Idiom, NearMiss


def half_product(graph: Graph, total: str, chance: random.Random, half: float = 0.5) -> str:
    way = chance.randrange(3)
    if way == 0:
        return graph.either_way("Mul", graph.scaled("x", half, chance), total, chance)
    if way == 1:
        return graph.scaled(graph.either_way("Mul", "x", total, chance), half, chance)
    return graph.either_way("Mul", "x", graph.scaled(total, half, chance), chance)


def gelu(graph: Graph, chance: random.Random, *, half: float = 0.5, one: float = 1, root: float = 0.5) -> str:
    error = graph("Erf", graph.scaled("x", math.sqrt(root), chance))
    return half_product(graph, graph.either_way("Add", error, graph.constant(one), chance), chance, half)


def gelu_tanh(graph: Graph, chance: random.Random, *, cubic: float = 0.044715) -> str:
    slope, third = graph.constant(math.sqrt(2 / math.pi)), graph.constant(cubic)
    square = graph("Mul", "x", "x") if chance.random() < 0.5 else graph("Pow", "x", graph.constant(2))
    way = chance.randrange(3)
    if way == 0:
        cube = graph("Pow", "x", graph.constant(3)) if chance.random() < 0.5 else graph("Mul", "x", square)
        inner = graph.either_way("Add", "x", graph.either_way("Mul", cube, third, chance), chance)
        inner = graph.either_way("Mul", inner, slope, chance)
    else:
        small = graph.either_way("Mul", square, third, chance)
        if chance.random() < 0.5:
            small = graph.either_way("Mul", graph.either_way("Mul", "x", third, chance), "x", chance)
        grown = graph.either_way("Add", small, graph.constant(1), chance)
        if way == 1:
            inner = graph.either_way("Mul", graph.either_way("Mul", "x", grown, chance), slope, chance)
        else:
            inner = graph.either_way("Mul", graph.either_way("Mul", "x", slope, chance), grown, chance)
    total = graph.either_way("Add", graph("Tanh", inner), graph.constant(1), chance)
    return half_product(graph, total, chance)


def swish(graph: Graph, chance: random.Random, *, beta: Any = None, other: str = "x") -> str:
    inner = "x" if beta is None else graph.either_way("Mul", "x", graph.constant(beta), chance)
    return graph.either_way("Mul", other, graph("Sigmoid", inner), chance)


def clipped(graph: Graph, chance: random.Random, shift: float, high: float) -> str:
    total = graph.either_way("Add", "x", graph.constant(shift), chance)
    return graph("Clip", total, graph.constant(0), graph.constant(high))


def hsigmoid(graph: Graph, chance: random.Random, *, shift: float = 3, high: float = 6) -> str:
    return graph.scaled(clipped(graph, chance, shift, high), 1 / 6, chance)


def hswish(graph: Graph, chance: random.Random, *, shift: float = 3, high: float = 6, alpha: float = 1 / 6) -> str:
    way = chance.randrange(4)
    if way == 0:
        return graph.either_way("Mul", "x", hsigmoid(graph, chance, shift=shift, high=high), chance)
    if way == 1:
        product = graph.either_way("Mul", "x", clipped(graph, chance, shift, high), chance)
        return graph.scaled(product, alpha, chance)
    if way == 2:
        return graph.either_way("Mul", graph.scaled("x", alpha, chance), clipped(graph, chance, shift, high), chance)
    hard = graph("HardSigmoid", "x", alpha=alpha, beta=shift / high)
    return graph.either_way("Mul", "x", hard, chance)


def softplus(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    return graph("Log", graph.either_way("Add", graph("Exp", "x"), graph.constant(one), chance))


def mish(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    inner = graph("Softplus", "x") if one == 1 and chance.random() < 0.5 else softplus(graph, chance, one=one)
    return graph.either_way("Mul", "x", graph("Tanh", inner), chance)


def softsign(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    return graph("Div", "x", graph.either_way("Add", graph("Abs", "x"), graph.constant(one), chance))


def clamp(graph: Graph, chance: random.Random, *, low: Any = -0.5, high: Any = 0.75) -> str:
    below, above = graph.constant(low), graph.constant(high)
    way = chance.randrange(3 if np.size(low) == 1 and np.ndim(low) == 0 else 2)
    if way == 0:
        return graph.either_way("Min", graph.either_way("Max", "x", below, chance), above, chance)
    if way == 1:
        return graph.either_way("Max", graph.either_way("Min", "x", above, chance), below, chance)
    return graph("Clip", graph("Clip", "x", below, graph.constant(10)), graph.constant(-10), above)


def relu6(graph: Graph, chance: random.Random, *, high: float = 0.75) -> str:
    """Two of them in a row are one."""
    way = chance.randrange(3)
    above = graph.constant(high)
    if way == 0:
        return graph("Clip", graph("Relu", graph("Relu", "x")), "", above)
    limited = graph("Clip", "x", "", above) if way == 1 else graph("Clip", "x", graph.constant(-1), above)
    return graph("Relu", limited)


def prelu(graph: Graph, chance: random.Random, *, slope: Any = 0.25, positive: str = "x", zero: float = 0) -> str:
    values, x = np.asarray(slope), "x"
    positive = graph("Relu", positive)
    way = chance.randrange(4)
    if way == 0:
        negative = graph.either_way("Min", x, graph.constant(zero), chance)
        return graph.either_way(
            "Add", positive, graph.either_way("Mul", negative, graph.constant(values), chance), chance
        )
    flipped = graph("Relu", graph("Neg", x))
    if way == 3:
        scaled = graph.either_way("Mul", graph("Neg", flipped), graph.constant(values), chance)
        return graph.either_way("Add", positive, scaled, chance)
    if way == 1:
        return graph("Sub", positive, graph.either_way("Mul", flipped, graph.constant(values), chance))
    return graph.either_way("Add", positive, graph.either_way("Mul", flipped, graph.constant(-values), chance), chance)


def leaky_relu(graph: Graph, chance: random.Random, *, slope: Any = 0.25) -> str:
    scaled = graph.either_way("Mul", "x", graph.constant(slope), chance)
    way = chance.randrange(3)
    if way == 0:
        return graph.either_way("Max", "x", scaled, chance)
    zero = graph.constant(0)
    if way == 1:
        return graph("Where", graph(chance.choice(["Less", "LessOrEqual"]), "x", zero), scaled, "x")
    return graph("Where", graph(chance.choice(["Greater", "GreaterOrEqual"]), "x", zero), "x", scaled)


def prelu_of_channels(graph: Graph, chance: random.Random) -> str:
    weights = graph.constant(np.random.default_rng(chance.randrange(99)).normal(size=(8, 5)))
    return prelu_of(graph, graph("MatMul", "x", weights), chance)


def prelu_of(graph: Graph, x: str, chance: random.Random) -> str:
    slopes = graph.constant(np.linspace(-1, 2, 5).reshape(chance.choice([(5,), (1, 5)])))
    negative = graph.either_way("Min", x, graph.constant(0), chance)
    return graph.either_way("Add", graph("Relu", x), graph.either_way("Mul", negative, slopes, chance), chance)


IDIOMS = {
    "clamp": Idiom(build=clamp, becomes=["Clamp"]),
    "relu6": Idiom(build=relu6, becomes=["Clamp"]),
    "prelu": Idiom(build=prelu, becomes=["PReLU"]),
    "prelu of channels": Idiom(build=prelu_of_channels, becomes=["MatMul", "PReLU"], inputs={"x": (3, 8)}),
    "leaky relu": Idiom(build=leaky_relu, becomes=["PReLU"]),
    "gelu": Idiom(build=gelu, becomes=["Gelu"]),
    "gelu by tanh": Idiom(build=gelu_tanh, becomes=["Gelu"]),
    "swish": Idiom(build=swish, becomes=["Swish"]),
    "swish with beta": Idiom(build=lambda g, c: swish(g, c, beta=1.702), becomes=["Swish"]),
    "hard sigmoid": Idiom(build=hsigmoid, becomes=["HSigmoid"]),
    "hard swish": Idiom(build=hswish, becomes=["HSwish"]),
    "softplus": Idiom(build=softplus, becomes=["SoftPlus"]),
    "mish": Idiom(build=mish, becomes=["Mish"]),
    "softsign": Idiom(build=softsign, becomes=["SoftSign"]),
}

NEAR_MISSES = {
    "limits for each column": NearMiss(build=lambda g, c: clamp(g, c, low=[-1] * 4 + [0] * 4), absent="Clamp"),
    "a limit that is no number": NearMiss(
        build=lambda g, c: clamp(g, c, low=[np.nan]), absent="Clamp", engines=["numpy"]
    ),
    "a limit of a higher rank": NearMiss(build=lambda g, c: clamp(g, c, low=[[[[-1]]]]), absent="Clamp"),
    "prelu of two values": NearMiss(build=lambda g, c: prelu(g, c, positive=g("Exp", "x")), absent="PReLU"),
    "prelu with a slope for each column": NearMiss(
        build=lambda g, c: prelu(g, c, slope=[-1] * 4 + [2] * 4), absent="PReLU"
    ),
    "another half": NearMiss(build=lambda g, c: gelu(g, c, half=0.25), absent="Gelu"),
    "another one": NearMiss(build=lambda g, c: gelu(g, c, one=2), absent="Gelu"),
    "another root": NearMiss(build=lambda g, c: gelu(g, c, root=0.51), absent="Gelu"),
    "another cubic factor": NearMiss(build=lambda g, c: gelu_tanh(g, c, cubic=0.05), absent="Gelu"),
    "swish of another value": NearMiss(build=lambda g, c: swish(g, c, other=g("Neg", "x")), absent="Swish"),
    "swish with a beta for each row": NearMiss(build=lambda g, c: swish(g, c, beta=[[1], [2], [3]]), absent="Swish"),
    "hard sigmoid of another end": NearMiss(build=lambda g, c: hsigmoid(g, c, high=5), absent="HSigmoid"),
    "hard swish of another shift": NearMiss(build=lambda g, c: hswish(g, c, shift=2), absent="HSwish"),
    "softplus of the next float16": NearMiss(
        build=lambda g, c: softplus(g, c, one=1.001), dtype=np.float16, absent="SoftPlus"
    ),
    "softsign of the next float32": NearMiss(
        build=lambda g, c: softsign(g, c, one=np.nextafter(np.float32(1), np.float32(2))), absent="SoftSign"
    ),
    "another softplus": NearMiss(build=lambda g, c: softplus(g, c, one=2), absent="SoftPlus"),
    "another mish": NearMiss(build=lambda g, c: mish(g, c, one=2), absent="Mish"),
    "another softsign": NearMiss(build=lambda g, c: softsign(g, c, one=2), absent="SoftSign"),
}
