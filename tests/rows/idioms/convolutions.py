"""Layers around convolutions that become part of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.formula import WIDE, Graph, Idiom, Value, spelled

IMAGE = {"x": (2, 4, 5, 6)}
FILTERS = 6
NORMALIZED = {"x": (2, FILTERS, 3, 4)}


def convolution(g: Graph, value: Value | None = None, group: int = 1) -> Value:
    pads = [g.chance.randrange(2) for _ in range(4)]
    kernel, strides = g.weights(FILTERS, 4 // group, 3, 3), [g.chance.choice([1, 2]), 1]
    return g.Conv(value or g.x, kernel, pads=pads, strides=strides, group=group)


def transposed_convolution(g: Graph, group: int = 1) -> Value:
    return g.ConvTranspose(g.x, g.weights(4, FILTERS // group, 3, 2), strides=[1, g.chance.choice([1, 2])], group=group)


def constant(g: Graph, *shape: int) -> np.ndarray[Any, Any]:
    """One number for all or one for each channel."""
    return g.factors(*(shape if g.chance.random() < 0.7 else g.chance.choice([(), (1,), (1,) * len(shape)])))


def scale(g: Graph, value: Value, *shape: int) -> Value:
    shape = shape or g.chance.choice([(FILTERS, 1, 1), (1, FILTERS, 1, 1)])
    return g.one_of(lambda: value * constant(g, *shape), lambda: value / constant(g, *shape))


def shift(g: Graph, value: Value, *shape: int) -> Value:
    shape = shape or g.chance.choice([(FILTERS, 1, 1), (1, FILTERS, 1, 1)])
    return g.one_of(lambda: value + constant(g, *shape), lambda: value - constant(g, *shape))


def normalized(g: Graph, value: Value) -> Value:
    """Batch normalisation."""
    parameters = [g.factors(FILTERS), g.weights(FILTERS), g.weights(FILTERS), np.abs(g.factors(FILTERS))]
    return g.BatchNormalization(value, *parameters, epsilon=g.chance.choice([1e-5, 1e-3]))


def scaled(g: Graph, value: Value, *shape: int) -> Value:
    """One to three factors."""
    for _ in range(g.chance.randint(1, 3)):
        value = scale(g, value, *shape)
    return value


def scaled_with_bias(g: Graph) -> Value:
    value = scale(g, shift(g, convolution(g)))
    return g.one_of(lambda: normalized(g, value), lambda: value)


def read_twice(g: Graph) -> Value:
    value = convolution(g)
    return g.Add(scale(g, value), g.Abs(value))


def weights_of_two(g: Graph) -> Value:
    kernel = g.weights(FILTERS, 4, 3, 3)
    shared = g[g.name_of(kernel)]
    return g.Add(scale(g, g.Conv(g.x, shared)), g.Conv(g.Abs(g.x), shared))


def padded(g: Graph, *pads: int, fill: float = 0) -> Value:
    """Pads around an image: ends, then begins."""
    some = g.chance.randrange
    pads = pads or (0, 0, some(2), some(1, 3), 0, 0, some(2), some(2))
    constant = [] if fill == 0 and g.chance.random() < 0.5 else [fill]
    return g.Pad(g.x, list(pads), *constant, mode="constant")


def pooled(g: Graph, value: Value, kind: str = "AveragePool", **more: Any) -> Value:
    if kind == "AveragePool" and "count_include_pad" not in more and g.chance.random() < 0.5:
        return g.node(kind, value, kernel_shape=[3, 3], pads=[0, 0, 0, 0], strides=[g.chance.choice([1, 2])] * 2)
    if kind == "AveragePool":
        more = {"count_include_pad": 1, "pads": [1, 0, 0, 0], **more}
    return g.node(kind, value, kernel_shape=[3, 3], strides=[g.chance.choice([1, 2]), 1], **more)


def scaled_first(g: Graph, *shape: int, group: int = 1, is_shared: bool = False) -> Value:
    """A convolution of data times a constant."""
    factor, data = g.factors(*(shape or g.chance.choice([(), (1,), (1, 1, 1)]))), g.Abs(g.x)
    data = g.one_of(lambda: data / factor, lambda: data * factor)
    value = convolution(g, data, group)
    return g.Add(value, g.ReduceMax(data, axes=[0, 1, 2, 3])) if is_shared else value


def scaled_normalization(g: Graph) -> Value:
    """Batch normalization of what no convolution makes, and factors and summands behind it."""
    value = normalized(g, g.x)
    for _ in range(g.chance.randint(1, 3)):
        value = g.chance.choice([scale, shift])(g, value)
    return value


def around(build: Any, becomes: str, types: Any = WIDE, inputs: Any = IMAGE) -> Idiom:
    return Idiom(build, becomes, inputs, types=types)


IDIOMS = {
    "scales behind a batch normalization": Idiom(scaled_normalization, "BatchNormInference", NORMALIZED),
    "a convolution with its sign changed": around(lambda g: -convolution(g), "Convolution"),
    "a convolution and a shift with their signs changed": around(
        lambda g: -shift(g, convolution(g)), "Convolution Add"
    ),
    "a factor in front of a convolution": around(scaled_first, "Abs Convolution"),
    "a factor in front of a grouped convolution": around(lambda g: scaled_first(g, group=2), "Abs GroupConvolution"),
    "pads in front of a convolution": Idiom(lambda g: convolution(g, padded(g)), "Convolution", IMAGE),
    "pads in front of a grouped convolution": Idiom(lambda g: convolution(g, padded(g), 2), "GroupConvolution", IMAGE),
    "pads in front of a mean": Idiom(lambda g: pooled(g, padded(g, 0, 0, 1, 0, 0, 0, 0, 2)), "AvgPool", IMAGE),
    "pads in front of a maximum": Idiom(
        lambda g: pooled(g, padded(g, 0, 0, 1, 2, 0, 0, 2, 0, fill=-np.inf), "MaxPool"), "MaxPool", IMAGE
    ),
    "scales behind a convolution": around(lambda g: scaled(g, convolution(g)), "Convolution"),
    "scales behind a grouped convolution": around(lambda g: scaled(g, convolution(g, group=2)), "GroupConvolution"),
    "scales behind a transposed convolution": around(
        lambda g: scaled(g, transposed_convolution(g)), "ConvolutionBackpropData"
    ),
    "scales behind a grouped transposed convolution": around(  # onnx's evaluator fails for groups of float64
        lambda g: scaled(g, transposed_convolution(g, 2)), "GroupConvolutionBackpropData", [np.float32]
    ),
    "scales behind a convolution with bias": around(scaled_with_bias, "Convolution Add"),
    "a scale and a batch normalisation behind a convolution": around(
        lambda g: normalized(g, scale(g, convolution(g))), "Convolution Add"
    ),
}


def miss(build: Any, count: int = 2, **more: tuple[int, ...]) -> Idiom:
    return Idiom(build, inputs={**IMAGE, **more}, count=count)


def normalized_miss(build: Any) -> Idiom:
    return Idiom(build, inputs=NORMALIZED, count=2)


NEAR_MISSES = {
    "a factor for each column behind a batch normalization": normalized_miss(
        lambda g: g.Mul(normalized(g, g.x), g.factors(4))
    ),
    "a batch normalization taken away": normalized_miss(lambda g: g.factors(FILTERS, 1, 1) - normalized(g, g.x)),
    "a factor behind a batch normalization that makes more dimensions": normalized_miss(
        lambda g: g.Mul(normalized(g, g.x), g.factors(2, 1, FILTERS, 1, 1))
    ),
    "a factor for each channel in front of a convolution": miss(lambda g: scaled_first(g, 4, 1, 1), 3),
    "a factor in front of a convolution that is read elsewhere": miss(lambda g: scaled_first(g, is_shared=True), 5),
    "pads of 1": miss(lambda g: convolution(g, padded(g, fill=1))),
    "pads of the batch": miss(lambda g: convolution(g, padded(g, 1, 0, 0, 0, 0, 0, 1, 0))),
    "pads that crop": miss(lambda g: convolution(g, padded(g, 0, 0, -1, 0, 0, 0, 1, 0))),
    "pads that are mirrored": miss(lambda g: convolution(g, g.Pad(g.x, [0, 0, 1, 1, 0, 0, 0, 1], mode="reflect"))),
    "pads of 0 in front of a maximum": miss(lambda g: pooled(g, padded(g), "MaxPool")),
    "pads in front of a mean that does not count its own": miss(lambda g: pooled(g, padded(g), count_include_pad=0)),
    "pads as wide as the window": miss(lambda g: pooled(g, padded(g, 0, 0, 3, 0, 0, 0, 0, 0, fill=-np.inf), "MaxPool")),
    "a scale of a higher rank": miss(lambda g: g.Mul(convolution(g), g.factors(1, 1, 1, 1, 1))),
    "a scale for each row of a batch": miss(lambda g: g.Mul(convolution(g), g.factors(2, 1, 1, 1))),
    "a scaled convolution that is read twice": miss(read_twice, 4),
    "weights of two convolutions": miss(weights_of_two, 5),
    "scales by an input": miss(lambda g: g.Mul(convolution(g), g.s), s=(6, 1, 1)),
    "scales behind an activation": miss(lambda g: scale(g, g.Relu(convolution(g))), 3),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
