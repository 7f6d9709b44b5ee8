"""Layers around convolutions that become part of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .graphs import WIDE, Graph, Idiom, NearMiss

IMAGE = {"x": (2, 4, 5, 6)}
FILTERS = 6


def weights(chance: random.Random, *shape: int) -> np.ndarray:
    return np.random.default_rng(chance.randrange(1000)).uniform(-0.5, 0.5, shape)


def factors(chance: random.Random, *shape: int) -> np.ndarray:
    """Between 0.5 and 1.5 in size, of both signs."""
    generator = np.random.default_rng(chance.randrange(1000))
    return generator.uniform(0.5, 1.5, shape) * generator.choice([-1, 1], shape)


def convolution(graph: Graph, chance: random.Random, value: str = "x", **how: Any) -> str:
    group, shape = how.get("group", 1), (FILTERS, 4 // how.get("group", 1), 3, 3)
    kernel = graph.constant(weights(chance, *shape))
    pads = [chance.randrange(2) for _ in range(4)]
    return graph("Conv", value, kernel, pads=pads, strides=[chance.choice([1, 2]), 1], group=group)


def transposed_convolution(graph: Graph, chance: random.Random, group: int = 1) -> str:
    kernel = graph.constant(weights(chance, 4, FILTERS // group, 3, 2))
    return graph("ConvTranspose", "x", kernel, strides=[1, chance.choice([1, 2])], group=group)


def step(graph: Graph, chance: random.Random, value: str, op_type: str, shape: tuple[int, ...]) -> str:
    """A factor or a summand, one for all or one for each channel."""
    chosen = shape if chance.random() < 0.7 else chance.choice([(), (1,), (1,) * len(shape)])
    constant = graph.constant(factors(chance, *chosen))
    if op_type in ("Sub", "Div"):
        return graph(op_type, value, constant)
    return graph.either_way(op_type, value, constant, chance)


def scale(graph: Graph, chance: random.Random, value: str, shape: tuple[int, ...] = (FILTERS, 1, 1)) -> str:
    shape = chance.choice([shape, (1,) * (4 - len(shape)) + shape]) if len(shape) == 3 else shape
    return step(graph, chance, value, chance.choice(["Mul", "Div"]), shape)


def shift(graph: Graph, chance: random.Random, value: str, shape: tuple[int, ...] = (FILTERS, 1, 1)) -> str:
    return step(graph, chance, value, chance.choice(["Add", "Sub"]), shape)


def normalized(graph: Graph, chance: random.Random, value: str) -> str:
    """Batch normalisation."""
    parameters = [factors(chance, FILTERS), weights(chance, FILTERS), weights(chance, FILTERS)]
    names = [graph.constant(each) for each in (*parameters, np.abs(factors(chance, FILTERS)))]
    return graph("BatchNormalization", value, *names, epsilon=chance.choice([1e-5, 1e-3]))


def scaled(graph: Graph, chance: random.Random, value: str) -> str:
    """One to three factors."""
    for _ in range(chance.randint(1, 3)):
        value = scale(graph, chance, value)
    return value


def scaled_with_bias(graph: Graph, chance: random.Random, value: str) -> str:
    value = scale(graph, chance, shift(graph, chance, value))
    return normalized(graph, chance, value) if chance.random() < 0.5 else value


def read_twice(graph: Graph, chance: random.Random) -> str:
    value = convolution(graph, chance)
    return graph("Add", scale(graph, chance, value), graph("Abs", value))


def weights_of_two(graph: Graph, chance: random.Random) -> str:
    kernel = graph.constant(weights(chance, FILTERS, 4, 3, 3))
    first, second = (graph("Conv", value, kernel) for value in ("x", graph("Abs", "x")))
    return graph("Add", scale(graph, chance, first), second)


def padded(
    graph: Graph, chance: random.Random, value: str = "x", pads: tuple[int, ...] = (), fill: float | None = None
) -> str:
    """Pads around an image: ends, then begins."""
    pads = pads or (0, 0, chance.randrange(2), chance.randrange(1, 3), 0, 0, chance.randrange(2), chance.randrange(2))
    constant = [] if fill is None or (fill == 0 and chance.random() < 0.5) else [graph.constant(fill)]
    return graph("Pad", value, graph.integers(list(pads)), *constant, mode="constant")


def pooled(graph: Graph, chance: random.Random, value: str, kind: str = "AveragePool", **more: int) -> str:
    if kind == "AveragePool" and "count_include_pad" not in more and chance.random() < 0.5:
        return graph(kind, value, kernel_shape=[3, 3], pads=[0, 0, 0, 0], strides=[chance.choice([1, 2])] * 2)
    if kind == "AveragePool":
        more = {"count_include_pad": 1, "pads": [1, 0, 0, 0], **more}  # type: ignore[dict-item]
    return graph(kind, value, kernel_shape=[3, 3], strides=[chance.choice([1, 2]), 1], **more)


def scaled_first(graph: Graph, chance: random.Random, shape: tuple[int, ...] = (), **how: Any) -> str:
    """A convolution of data times a constant."""
    constant = graph.constant(factors(chance, *(shape or chance.choice([(), (1,), (1, 1, 1)]))))
    data = graph("Abs", "x")
    is_quotient = chance.random() < 0.5
    data = graph("Div", data, constant) if is_quotient else graph.either_way("Mul", data, constant, chance)
    value = convolution(graph, chance, data, **how)
    return graph("Add", value, graph("ReduceMax", data, axes=[0, 1, 2, 3])) if how.get("is_shared") else value


def scaled_normalization(graph: Graph, chance: random.Random) -> str:
    """Batch normalization of what no convolution makes, and factors and summands behind it."""
    value = normalized(graph, chance, "x")
    for _ in range(chance.randint(1, 3)):
        value = chance.choice([scale, shift])(graph, chance, value)
    return value


IDIOMS = {
    "scales behind a batch normalization": Idiom(
        build=scaled_normalization, inputs={"x": (2, FILTERS, 3, 4)}, becomes=["BatchNormInference"]
    ),
    "a convolution with its sign changed": Idiom(
        dtypes_of_model=WIDE, build=lambda g, c: g("Neg", convolution(g, c)), inputs=IMAGE, becomes=["Convolution"]
    ),
    "a convolution and a shift with their signs changed": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: g("Neg", shift(g, c, convolution(g, c))),
        inputs=IMAGE,
        becomes=["Convolution", "Add"],
    ),
    "a factor in front of a convolution": Idiom(
        dtypes_of_model=WIDE, build=scaled_first, inputs=IMAGE, becomes=["Abs", "Convolution"]
    ),
    "a factor in front of a grouped convolution": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled_first(g, c, group=2),
        inputs=IMAGE,
        becomes=["Abs", "GroupConvolution"],
    ),
    "pads in front of a convolution": Idiom(
        build=lambda g, c: convolution(g, c, padded(g, c, fill=0)),
        inputs=IMAGE,
        becomes=["Convolution"],
    ),
    "pads in front of a grouped convolution": Idiom(
        build=lambda g, c: convolution(g, c, padded(g, c, fill=0), group=2),
        inputs=IMAGE,
        becomes=["GroupConvolution"],
    ),
    "pads in front of a mean": Idiom(
        build=lambda g, c: pooled(g, c, padded(g, c, pads=(0, 0, 1, 0, 0, 0, 0, 2), fill=0)),
        inputs=IMAGE,
        becomes=["AvgPool"],
    ),
    "pads in front of a maximum": Idiom(
        build=lambda g, c: pooled(g, c, padded(g, c, pads=(0, 0, 1, 2, 0, 0, 2, 0), fill=-np.inf), "MaxPool"),
        inputs=IMAGE,
        becomes=["MaxPool"],
    ),
    "scales behind a convolution": Idiom(
        dtypes_of_model=WIDE, build=lambda g, c: scaled(g, c, convolution(g, c)), inputs=IMAGE, becomes=["Convolution"]
    ),
    "scales behind a grouped convolution": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled(g, c, convolution(g, c, group=2)),
        inputs=IMAGE,
        becomes=["GroupConvolution"],
    ),
    "scales behind a transposed convolution": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled(g, c, transposed_convolution(g, c)),
        inputs=IMAGE,
        becomes=["ConvolutionBackpropData"],
    ),
    "scales behind a grouped transposed convolution": Idiom(
        dtypes_of_model=[np.float32],  # onnx's evaluator fails for groups of float64
        build=lambda g, c: scaled(g, c, transposed_convolution(g, c, 2)),
        inputs=IMAGE,
        becomes=["GroupConvolutionBackpropData"],
    ),
    "scales behind a convolution with bias": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: scaled_with_bias(g, c, convolution(g, c)),
        inputs=IMAGE,
        becomes=["Convolution", "Add"],
    ),
    "a scale and a batch normalisation behind a convolution": Idiom(
        dtypes_of_model=WIDE,
        build=lambda g, c: normalized(g, c, scale(g, c, convolution(g, c))),
        inputs=IMAGE,
        becomes=["Convolution", "Add"],
    ),
}

NEAR_MISSES = {
    "a factor for each column behind a batch normalization": NearMiss(
        build=lambda g, c: g("Mul", normalized(g, c, "x"), g.constant(factors(c, 4))),
        inputs={"x": (2, FILTERS, 3, 4)},
        count=2,
    ),
    "a batch normalization taken away": NearMiss(
        build=lambda g, c: g("Sub", g.constant(factors(c, FILTERS, 1, 1)), normalized(g, c, "x")),
        inputs={"x": (2, FILTERS, 3, 4)},
        count=2,
    ),
    "a factor behind a batch normalization that makes more dimensions": NearMiss(
        build=lambda g, c: g("Mul", normalized(g, c, "x"), g.constant(factors(c, 2, 1, FILTERS, 1, 1))),
        inputs={"x": (2, FILTERS, 3, 4)},
        count=2,
    ),
    "a factor for each channel in front of a convolution": NearMiss(
        build=lambda g, c: scaled_first(g, c, (4, 1, 1)), inputs=IMAGE, count=3
    ),
    "a factor in front of a convolution that is read elsewhere": NearMiss(
        build=lambda g, c: scaled_first(g, c, is_shared=True), inputs=IMAGE, count=5
    ),
    "pads of 1": NearMiss(build=lambda g, c: convolution(g, c, padded(g, c, fill=1)), inputs=IMAGE, count=2),
    "pads of the batch": NearMiss(
        build=lambda g, c: convolution(g, c, padded(g, c, pads=(1, 0, 0, 0, 0, 0, 1, 0), fill=0)), inputs=IMAGE, count=2
    ),
    "pads that crop": NearMiss(
        build=lambda g, c: convolution(g, c, padded(g, c, pads=(0, 0, -1, 0, 0, 0, 1, 0), fill=0)),
        inputs=IMAGE,
        count=2,
    ),
    "pads that are mirrored": NearMiss(
        build=lambda g, c: convolution(g, c, g("Pad", "x", g.integers([0, 0, 1, 1, 0, 0, 0, 1]), mode="reflect")),
        inputs=IMAGE,
        count=2,
    ),
    "pads of 0 in front of a maximum": NearMiss(
        build=lambda g, c: pooled(g, c, padded(g, c, fill=0), "MaxPool"), inputs=IMAGE, count=2
    ),
    "pads in front of a mean that does not count its own": NearMiss(
        build=lambda g, c: pooled(g, c, padded(g, c, fill=0), count_include_pad=0), inputs=IMAGE, count=2
    ),
    "pads as wide as the window": NearMiss(
        build=lambda g, c: pooled(g, c, padded(g, c, pads=(0, 0, 3, 0, 0, 0, 0, 0), fill=-np.inf), "MaxPool"),
        inputs=IMAGE,
        count=2,
        engines=["numpy"],  # the plug-in has the least finite number
    ),
    "a scale of a higher rank": NearMiss(
        build=lambda g, c: g("Mul", convolution(g, c, "x"), g.constant(factors(c, 1, 1, 1, 1, 1))),
        inputs=IMAGE,
        count=2,
    ),
    "a scale for each row of a batch": NearMiss(
        build=lambda g, c: g("Mul", convolution(g, c), g.constant(factors(c, 2, 1, 1, 1))), inputs=IMAGE, count=2
    ),
    "a scaled convolution that is read twice": NearMiss(build=read_twice, inputs=IMAGE, count=4),
    "weights of two convolutions": NearMiss(build=weights_of_two, inputs=IMAGE, count=5),
    "scales by an input": NearMiss(
        build=lambda g, c: g("Mul", convolution(g, c), "s"), inputs={**IMAGE, "s": (6, 1, 1)}, count=2
    ),
    "scales behind an activation": NearMiss(
        build=lambda g, c: scale(g, c, g("Relu", convolution(g, c))), inputs=IMAGE, count=3
    ),
}
