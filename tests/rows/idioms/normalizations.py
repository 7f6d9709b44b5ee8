"""Normalizations, Softmaxes and reductions as exporters spell them out."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.formula import WIDE, Graph, Idiom, Value, spelled

IMAGES = {"x": (2, 3, 4, 5)}


def moments(
    g: Graph, axes: Any = (-1,), second_axes: Any = None, epsilon: Any = 1e-5, outside: bool = False, twice: float = 0.5
) -> tuple[Value, Value, Value]:
    """The mean, x less the mean, and the deviation with the epsilon; the arguments spoil one part."""
    mean = g.ReduceMean(g.x, axes=axes, keepdims=1)
    centred = g.x - mean
    square = g.square(g.x - mean if g.chance.random() < twice else centred)
    variance = g.ReduceMean(square, axes=second_axes or axes, keepdims=1)
    if outside:
        return mean, centred, g.Sqrt(variance) + epsilon
    total = variance + epsilon
    return mean, centred, g.one_of(lambda: g.Sqrt(total), lambda: g.Pow(total, 0.5))


def layer_normalization(g: Graph, **other: Any) -> Value:
    """As torch writes it."""
    _, centred, root = moments(g, **other)
    return g.one_of(lambda: centred / root, lambda: centred / root, lambda: centred * (1 / root))


def scaled_before(g: Graph, scaled: bool = True, without_mean: bool = False) -> Value:
    """As tf2onnx and Keras write it: x times a factor, and a sum that has the mean in it."""
    mean, _, root = moments(g, twice=0)
    factor = g.Reciprocal(root)
    factor = factor * np.linspace(0.5, 2, 8) if scaled else factor
    return g.x * factor + (np.linspace(-2, 2, 8) - (g.x if without_mean else mean) * factor)


def l2_normalization(
    g: Graph, way: str = "norm", axes: Any = None, epsilon: Any = 1e-3, keepdims: int = 1, limit: float | None = None
) -> Value:
    """x by its norm, which a small number keeps from 0; the arguments spoil one part."""
    axes = axes or g.chance.choice([[-1], [1], [1, 2]])
    small = g[g.name_of(epsilon)]
    if way == "norm":
        norm = g.ReduceL2(g.x, axes=axes, keepdims=keepdims)
        with_clip = g.chance.random() < 0.7 or limit is not None
        norm = g.Clip(norm, small, *([] if limit is None else [limit])) if with_clip else g.Max(norm, small)
    else:
        total = g.ReduceSum(g.square(g.x), axes, keepdims=keepdims)
        norm = g.Sqrt(g.either("Max" if way == "largest" else "Add", total, small))
    return g.one_of(
        lambda: g.x * g.Reciprocal(norm), lambda: g.x / g.Expand(norm, g.Shape(g.x)), lambda: g.x / norm
    )  # fmt: skip


def group_normalization(
    g: Graph, groups: Any = None, convolved: bool = True, one: float = 1, shape: Any = None, parts: Any = None,
    channels: int = 6, values: Any = None,
) -> Value:  # fmt: skip
    """As torch writes it; the arguments spoil one part."""
    groups = groups or g.chance.choice([[0, 3, -1], [0, 2, -1], [0, 1, -1], [0, 3, 2, -1], [0, 6, -1]])
    image = g.Conv(g.x, g.weights(6, 3, 1, 1) * 4) if convolved else g.x
    split = g.Reshape(image, groups)
    if len(groups) == 3:
        ones, zeros = np.full(groups[1], float(one)), np.zeros(groups[1])
        normalized = g.InstanceNormalization(split, ones, zeros, epsilon=1e-3)
    else:
        centred = split - g.ReduceMean(split, axes=[2, 3])
        normalized = centred / g.Sqrt(g.Add(g.ReduceMean(g.Mul(centred, centred), axes=[2, 3]), 1e-3))
    result = g.Reshape(normalized, shape or g.Shape(image))
    scale, bias = parts or g.chance.choice([(True, True), (True, False), (False, True), (False, False)])
    numbers = np.linspace(0.5, 2, channels).reshape(values or g.chance.choice([(-1, 1, 1), (1, -1, 1, 1)]))
    result = result * numbers if scale else result
    return result + (numbers - 1) if bias else result


def of_images(build: Any, **what: Any) -> Idiom:
    return Idiom(build, inputs=IMAGES, **({"absent": "GroupNormalization"} | what if "count" not in what else what))


IDIOMS = {
    **{
        f"L2 normalization by a {way}": Idiom(functools.partial(l2_normalization, way=way), "NormalizeL2", types=WIDE)
        for way in ("norm", "largest", "sum")
    },
    "layer normalization": Idiom(layer_normalization, "MVN"),
    "layer normalization with an epsilon outside": Idiom(
        lambda g: layer_normalization(g, outside=True, epsilon=1e-2), "MVN"
    ),
    "normalization over images": Idiom(lambda g: layer_normalization(g, axes=[2, 3]), "MVN", IMAGES),
    "layer normalization with its scale before": Idiom(scaled_before, "MVN Multiply Add", tolerance=1e-4),
    "layer normalization with its bias before": Idiom(
        lambda g: scaled_before(g, scaled=False), "MVN Add", tolerance=1e-4
    ),
    "group normalization": Idiom(group_normalization, "Convolution GroupNormalization", IMAGES, tolerance=1e-4),
    "groups with two scales": Idiom(
        lambda g: g.Mul(group_normalization(g, parts=(True, False)), np.full((6, 1, 1), 2.0)),
        "Convolution GroupNormalization",
        IMAGES,
    ),
}
NEAR_MISSES = {
    "a norm of another shape": Idiom(lambda g: l2_normalization(g, axes=[0], keepdims=0), absent="NormalizeL2"),
    "a norm that is kept from 0 by two numbers": Idiom(
        lambda g: l2_normalization(g, "sum", axes=[2], epsilon=np.full((3, 1), 1e-3)), absent="NormalizeL2"
    ),
    "a norm whose square vanishes": Idiom(lambda g: l2_normalization(g, epsilon=1e-30), absent="NormalizeL2"),
    "a norm of 16 bits": Idiom(lambda g: l2_normalization(g, "sum"), types=[np.float16], absent="NormalizeL2"),
    "a norm with an upper limit": Idiom(lambda g: l2_normalization(g, limit=2.0), absent="NormalizeL2"),
    "a norm less a number": Idiom(lambda g: l2_normalization(g, "sum", epsilon=-1e-3), absent="NormalizeL2"),
    "other axes of the squares": Idiom(lambda g: layer_normalization(g, second_axes=[1]), absent="MVN"),
    "a factor and a sum without the mean": Idiom(lambda g: scaled_before(g, without_mean=True), absent="MVN"),
    "no epsilon": Idiom(lambda g: layer_normalization(g, epsilon=0.0), absent="MVN"),
    "groups that part channels": of_images(lambda g: group_normalization(g, [0, 4, -1])),
    "groups over the batch": of_images(lambda g: group_normalization(g, [1, 6, -1])),
    "groups with a scale of their own": of_images(lambda g: group_normalization(g, [0, 3, -1], one=2)),
    "groups with values for columns": of_images(
        lambda g: group_normalization(g, parts=(True, True), channels=5, values=(-1,)), count=4
    ),
    "groups of dynamic channels": Idiom(
        lambda g: group_normalization(g, convolved=False, parts=(True, True)),
        inputs={"x": (2, 6, 4, 5)},
        absent="GroupNormalization",
    ),
    "groups of another shape after it": of_images(lambda g: group_normalization(g, shape=[-1, 6, 5, 4])),
    "an epsilon for each row": Idiom(
        lambda g: layer_normalization(g, epsilon=np.array([[1e-5], [1e-3], [1e-2]])), absent="MVN"
    ),
    "an epsilon of a higher rank": Idiom(
        lambda g: layer_normalization(g, epsilon=np.full((1, 1, 1, 1), 1e-5)), absent="MVN"
    ),
}

ABOVE_2 = float(np.nextafter(np.float32(2), np.float32(3)))
"""A power that is NaN for negative numbers, where a square is not."""
ABOVE_4 = float(np.nextafter(np.float32(4), np.float32(5)))


def mean(g: Graph, axes: Any = (-1,), count: float = 4, source: Value | None = None) -> Value:
    """Of x times a matrix, whose last dimension is static."""
    value = source or g.x @ (4 * g.weights(8, 4))
    return g.scaled(g.ReduceSum(value, list(axes), keepdims=g.chance.randrange(2)), 1 / count)


def norm(g: Graph, p: int, other: Value | None = None, root: str = "Sqrt") -> Value:
    axes, keep = g.chance.choice([[-1], [1], [1, 2], [0, 1, 2]]), g.chance.randrange(2)
    if p == 1:
        return g.ReduceSum(g.Abs(g.x), axes, keepdims=keep)
    squares = g.square(g.x) if other is None else g.Mul(g.x, other)
    return g.node(root, g.ReduceSum(squares, axes, keepdims=keep))


def reduced(g: Graph, op_type: str, value: Value, axis: int, keep: int) -> Value:
    if op_type == "ReduceSum":
        return g.node(op_type, value, [axis], keepdims=keep)
    return g.node(op_type, value, axes=[axis], keepdims=keep)


def in_a_row(g: Graph, op_type: str, second: str = "", shared: bool = False, drops: bool = False) -> Value:
    """Two of them; the second one may be another one, may drop what the first one keeps, or not be the only reader."""
    keep = 1 if shared or drops else g.chance.randrange(2)
    inner = reduced(g, op_type, g.x, g.chance.choice([1, 2, -1]), keep)
    result = reduced(g, second or op_type, inner, g.chance.choice([1, -1]), 0 if drops else keep)
    return g.Add(result, g.Exp(inner)) if shared else result


def root_of_powers(g: Graph, power: Any, *axes: int) -> Value:
    return g.Sqrt(g.ReduceSum(g.Pow(g.x, power), list(axes), keepdims=g.chance.randrange(2)))


IDIOMS |= {
    "mean": Idiom(mean, "MatMul ReduceMean"),
    "sum of magnitudes": Idiom(lambda g: norm(g, 1), "ReduceL1"),
    "root of squares": Idiom(lambda g: norm(g, 2), "ReduceL2"),
    **{
        f"{name} in a row": Idiom(functools.partial(in_a_row, op_type=op_type), op_type)
        for name, op_type in (
            ("means", "ReduceMean"), ("maxima", "ReduceMax"), ("minima", "ReduceMin"), ("sums", "ReduceSum"),
        )
    },
}  # fmt: skip
NEAR_MISSES |= {
    "sum over another number": Idiom(lambda g: mean(g, count=5), absent="ReduceMean"),
    "sum over a number of dynamic elements": Idiom(lambda g: mean(g, (1, 2), 12), absent="ReduceMean"),
    "sum over declared elements": Idiom(lambda g: mean(g, count=8, source=g.x), absent="ReduceMean"),
    "root of products": Idiom(lambda g: norm(g, 2, g.Abs(g.x)), absent="ReduceL2"),
    "exponential of squares": Idiom(lambda g: norm(g, 2, root="Tanh"), absent="ReduceL2"),
    "root of squares of more dimensions": Idiom(
        lambda g: root_of_powers(g, np.full((1, 1, 1, 1), 2.0), 0, 1), absent="ReduceL2"
    ),
    "root of powers next to squares": Idiom(lambda g: root_of_powers(g, ABOVE_2, 1), absent="ReduceL2"),
    "sum over nearly its number": Idiom(lambda g: mean(g, count=ABOVE_4), absent="ReduceMean"),
    "reductions of two kinds": Idiom(lambda g: in_a_row(g, "ReduceMax", "ReduceMean"), count=2),
    "a reduction in a row that drops": Idiom(lambda g: in_a_row(g, "ReduceMax", drops=True), count=2),
    "a reduction in a row that is read": Idiom(lambda g: in_a_row(g, "ReduceMean", shared=True), count=4),
}


def softmax_sum(g: Graph, op_type: str, value: Value, axis: int) -> Value:
    """A reduction of opset 13 that keeps its dimension, or drops it and gets it back."""
    axes = {"axes": [axis]} if op_type != "ReduceSum" else {}
    inputs = [value] if op_type != "ReduceSum" else [value, [axis]]
    if g.chance.random() < 0.7:
        return g.node(op_type, *inputs, keepdims=1, **axes)
    return g.Unsqueeze(g.node(op_type, *inputs, keepdims=0, **axes), [axis])


def exponentials(
    g: Graph, axis: int | None = None, extreme: str = "ReduceMax", second_axis: int | None = None
) -> tuple[Value, Value, Value]:
    """x less its maximum, e to that, and the sum; the arguments spoil one part."""
    axis = g.chance.choice([-1, 2, 1]) if axis is None else axis
    greatest = softmax_sum(g, extreme, g.x, axis)
    shifted = g.x - greatest
    powers = g.Exp(shifted)
    again = g.Exp(g.x - greatest) if g.chance.random() < 0.3 else powers
    return shifted, powers, softmax_sum(g, "ReduceSum", again, axis if second_axis is None else second_axis)


def softmax(g: Graph, **other: int | str) -> Value:
    _, powers, total = exponentials(g, **other)  # type: ignore[arg-type]
    return g.one_of(lambda: powers / total, lambda: powers * g.Reciprocal(total))


def log_softmax(g: Graph, axis: int = 2, second_axis: int | None = None) -> Value:
    def less_logarithm() -> Value:
        shifted, _, total = exponentials(g, axis, second_axis=second_axis)
        return shifted - g.Log(total)

    def less_both() -> Value:
        greatest = softmax_sum(g, "ReduceMax", g.x, axis)
        total = softmax_sum(g, "ReduceSum", g.Exp(g.x - greatest), axis if second_axis is None else second_axis)
        return g.x - (greatest + g.Log(total))

    return g.one_of(less_logarithm, less_both)


def with_more_dimensions(g: Graph) -> Value:
    """The number whose quotient by the sum is the reciprocal adds a dimension."""
    _, powers, total = exponentials(g)
    one = np.ones((1, 1, 1, 1))
    return powers * g.one_of(lambda: one / total, lambda: g.Pow(total, -one))


def without_maximum(g: Graph) -> Value:
    powers = g.Exp(g.x * 60)
    return powers / softmax_sum(g, "ReduceSum", powers, -1)


def over_two_dimensions(g: Graph) -> Value:
    powers = g.Exp(g.x - g.ReduceMax(g.x, axes=[1, 2]))
    return powers / g.ReduceSum(powers, [1, 2])


IDIOMS |= {
    "softmax": Idiom(softmax, "SoftMax"),
    "log softmax": Idiom(lambda g: log_softmax(g, g.chance.choice([-1, 2, 1])), "LogSoftmax"),
    "softmax of two dimensions": Idiom(lambda g: softmax(g, axis=g.chance.choice([0, -1])), "SoftMax", {"x": (3, 5)}),
}
NEAR_MISSES |= {
    "softmax with the sum of another dimension": Idiom(lambda g: softmax(g, axis=2, second_axis=1), absent="SoftMax"),
    "softmax less the minimum": Idiom(lambda g: softmax(g, axis=-1, extreme="ReduceMin"), absent="SoftMax"),
    "log softmax with the sum of another dimension": Idiom(lambda g: log_softmax(g, 2, 1), absent="LogSoftmax"),
    "softmax without a maximum": Idiom(without_maximum, absent="SoftMax"),
    "softmax with a reciprocal of more dimensions": Idiom(with_more_dimensions, absent="SoftMax"),
    "softmax over two dimensions": Idiom(over_two_dimensions, absent="SoftMax"),
    # Minus infinity where the Softmax is 0.
    "logarithm of a softmax": Idiom(lambda g: g.Log(g.Softmax(g.x * 1e6, axis=-1)), absent="LogSoftmax"),
    "x less its log sum exp": Idiom(lambda g: g.x - g.ReduceLogSumExp(g.x, axes=[-1]), absent="LogSoftmax"),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
