"""Activations that exporters spell out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled


def half_product(g: Graph, total: Value, half: float = 0.5) -> Value:
    return g.one_of(
        lambda: g.scaled(g.x, half) * total, lambda: g.scaled(g.x * total, half), lambda: g.x * g.scaled(total, half)
    )


def gelu(g: Graph, half: float = 0.5, one: float = 1, root: float = 0.5) -> Value:
    return half_product(g, g.Erf(g.scaled(g.x, math.sqrt(root))) + one, half)


def gelu_tanh(g: Graph, cubic: float = 0.044715) -> Value:
    x, slope, square = g.x, math.sqrt(2 / math.pi), g.square(g.x)

    def cube() -> Value:
        return g.one_of(lambda: g.Pow(x, 3), lambda: x * square)

    def grown() -> Value:
        return g.one_of(lambda: square * cubic, lambda: x * cubic * x) + 1

    inner = g.one_of(
        lambda: (x + cube() * cubic) * slope, lambda: x * grown() * slope, lambda: x * slope * grown()
    )  # fmt: skip
    return half_product(g, g.Tanh(inner) + 1)


def swish(g: Graph, beta: Any = None, other: Value | None = None) -> Value:
    return (other or g.x) * g.Sigmoid(g.x if beta is None else g.x * beta)


def clipped(g: Graph, shift: float, high: float) -> Value:
    return g.Clip(g.x + shift, 0, high)


def hsigmoid(g: Graph, shift: float = 3, high: float = 6) -> Value:
    return g.scaled(clipped(g, shift, high), 1 / 6)


def hswish(g: Graph, shift: float = 3, high: float = 6, alpha: float = 1 / 6) -> Value:
    return g.one_of(
        lambda: g.x * hsigmoid(g, shift, high),
        lambda: g.scaled(g.x * clipped(g, shift, high), alpha),
        lambda: g.scaled(g.x, alpha) * clipped(g, shift, high),
        lambda: g.x * g.HardSigmoid(g.x, alpha=alpha, beta=shift / high),
    )


def softplus(g: Graph, one: float = 1) -> Value:
    return g.Log(g.Exp(g.x) + one)


def mish(g: Graph, one: float = 1) -> Value:
    ways = [lambda: softplus(g, one), *([lambda: g.Softplus(g.x)] if one == 1 else [])]
    return g.x * g.Tanh(g.one_of(*ways))


def softsign(g: Graph, one: float = 1) -> Value:
    return g.x / (g.Abs(g.x) + one)


def clamp(g: Graph, low: Any = -0.5, high: Any = 0.75) -> Value:
    ways = [
        lambda: g.either("Min", g.either("Max", g.x, low), high),
        lambda: g.either("Max", g.either("Min", g.x, high), low),
        lambda: g.Clip(g.Clip(g.x, low, 10), -10, high),
    ]
    return g.one_of(*ways[: 3 if np.ndim(low) == 0 else 2])


def relu6(g: Graph, high: float = 0.75) -> Value:
    """Two of them in a row are one."""
    return g.one_of(
        lambda: g.Clip(g.Relu(g.Relu(g.x)), None, high),
        lambda: g.Relu(g.Clip(g.x, None, high)),
        lambda: g.Relu(g.Clip(g.x, -1, high)),
    )


def prelu(g: Graph, slope: Any = 0.25, positive: Value | None = None) -> Value:
    above, slope = g.Relu(positive or g.x), np.asarray(slope, float)
    return g.one_of(
        lambda: above + g.either("Min", g.x, 0) * slope,
        lambda: above - g.Relu(-g.x) * slope,
        lambda: above + g.Relu(-g.x) * -slope,
        lambda: above + -g.Relu(-g.x) * slope,
    )


def prelu_of_channels(g: Graph) -> Value:
    x = g.x @ g.weights(8, 5)
    slopes = np.linspace(-1, 2, 5).reshape(g.chance.choice([(5,), (1, 5)]))
    return g.Relu(x) + g.either("Min", x, 0) * slopes


def leaky_relu(g: Graph, slope: float = 0.25) -> Value:
    scaled = g.x * slope
    return g.one_of(
        lambda: g.either("Max", g.x, scaled),
        lambda: g.Where(g.node(g.chance.choice(["Less", "LessOrEqual"]), g.x, 0), scaled, g.x),
        lambda: g.Where(g.node(g.chance.choice(["Greater", "GreaterOrEqual"]), g.x, 0), g.x, scaled),
    )


IDIOMS = {
    "clamp": Idiom(clamp, "Clamp"),
    "relu6": Idiom(relu6, "Clamp"),
    "prelu": Idiom(prelu, "PReLU"),
    "prelu of channels": Idiom(prelu_of_channels, "MatMul PReLU", {"x": (3, 8)}),
    "leaky relu": Idiom(leaky_relu, "PReLU"),
    "gelu": Idiom(gelu, "Gelu"),
    "gelu by tanh": Idiom(gelu_tanh, "Gelu"),
    "swish": Idiom(swish, "Swish"),
    "swish with beta": Idiom(lambda g: swish(g, 1.702), "Swish"),
    "hard sigmoid": Idiom(hsigmoid, "HSigmoid"),
    "hard swish": Idiom(hswish, "HSwish"),
    "softplus": Idiom(softplus, "SoftPlus"),
    "mish": Idiom(mish, "Mish"),
    "softsign": Idiom(softsign, "SoftSign"),
}
NEXT = np.nextafter(np.float32(1), np.float32(2))
NEAR_MISSES = {
    "limits for each column": Idiom(lambda g: clamp(g, np.array([-1.0] * 4 + [0] * 4)), absent="Clamp"),
    "a limit that is no number": Idiom(lambda g: clamp(g, np.array([np.nan])), absent="Clamp"),
    "a limit of a higher rank": Idiom(lambda g: clamp(g, np.array([[[[-1.0]]]])), absent="Clamp"),
    "prelu of two values": Idiom(lambda g: prelu(g, positive=g.Exp(g.x)), absent="PReLU"),
    "prelu with a slope for each column": Idiom(lambda g: prelu(g, [-1] * 4 + [2] * 4), absent="PReLU"),
    "another half": Idiom(lambda g: gelu(g, half=0.25), absent="Gelu"),
    "another one": Idiom(lambda g: gelu(g, one=2), absent="Gelu"),
    "another root": Idiom(lambda g: gelu(g, root=0.51), absent="Gelu"),
    "another cubic factor": Idiom(lambda g: gelu_tanh(g, 0.05), absent="Gelu"),
    "swish of another value": Idiom(lambda g: swish(g, other=-g.x), absent="Swish"),
    "swish with a beta for each row": Idiom(lambda g: swish(g, np.array([[1.0], [2], [3]])), absent="Swish"),
    "hard sigmoid of another end": Idiom(lambda g: hsigmoid(g, high=5), absent="HSigmoid"),
    "hard swish of another shift": Idiom(lambda g: hswish(g, 2), absent="HSwish"),
    "softplus of the next float16": Idiom(lambda g: softplus(g, 1.001), types=(np.float16,), absent="SoftPlus"),
    "softsign of the next float32": Idiom(lambda g: softsign(g, NEXT), absent="SoftSign"),
    "another softplus": Idiom(lambda g: softplus(g, 2), absent="SoftPlus"),
    "another mish": Idiom(lambda g: mish(g, 2), absent="Mish"),
    "another softsign": Idiom(lambda g: softsign(g, 2), absent="SoftSign"),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
