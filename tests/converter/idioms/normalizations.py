"""Normalisations that exporters spell out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .graphs import Graph, Idiom, NearMiss

IMAGES = {"x": (2, 3, 4, 5)}


def moments(graph: Graph, chance: random.Random, **other: Any) -> tuple[str, str, str]:
    """The mean, x less the mean, and the deviation with the epsilon; ``other`` spoils one part."""
    axes = other.get("axes", [-1])
    mean = graph("ReduceMean", "x", axes=axes, keepdims=other.get("keepdims", 1))
    centred = graph("Sub", "x", mean)
    again = graph("Sub", "x", mean) if chance.random() < other.get("twice", 0.5) else centred
    square = graph("Mul", again, again) if chance.random() < 0.5 else graph("Pow", again, graph.constant(2))
    variance = graph("ReduceMean", square, axes=other.get("second_axes", axes), keepdims=1)
    epsilon = graph.constant(other.get("epsilon", 1e-5))
    if other.get("outside", False):
        return mean, centred, graph.either_way("Add", graph("Sqrt", variance), epsilon, chance)
    total = graph.either_way("Add", variance, epsilon, chance)
    root = graph("Sqrt", total) if chance.random() < 0.5 else graph("Pow", total, graph.constant(0.5))
    return mean, centred, root


def layer_normalization(graph: Graph, chance: random.Random, **other: Any) -> str:
    """As torch writes it."""
    _, centred, root = moments(graph, chance, **other)
    if chance.random() < 0.7:
        return graph("Div", centred, root)
    return graph.either_way("Mul", centred, graph("Div", graph.constant(1), root), chance)


def scaled_before(graph: Graph, chance: random.Random, **other: Any) -> str:
    """As tf2onnx and Keras write it: x times a factor, and a sum that has the mean in it."""
    mean, _, root = moments(graph, chance, twice=0, **other)
    scale, bias = (graph.constant(np.linspace(low, 2, 8)) for low in (0.5, -2))
    factor = graph("Reciprocal", root)
    if other.get("scaled", True):
        factor = graph.either_way("Mul", factor, scale, chance)
    mean = "x" if other.get("without_mean", False) else mean
    shift = graph("Sub", bias, graph.either_way("Mul", mean, factor, chance))
    return graph.either_way("Add", graph.either_way("Mul", "x", factor, chance), shift, chance)


def l2_normalization(graph: Graph, chance: random.Random, way: str = "norm", **other: Any) -> str:
    """x by its norm, which a small number keeps from 0; ``other`` spoils one part."""
    axes, small = other.get("axes", chance.choice([[-1], [1], [1, 2]])), graph.constant(other.get("epsilon", 1e-3))
    keepdims = other.get("keepdims", 1)
    if way == "norm":
        norm = graph("ReduceL2", "x", axes=axes, keepdims=keepdims)
        limit = [graph.constant(other["limit"])] if "limit" in other else []
        norm = graph("Clip", norm, small, *limit) if chance.random() < 0.7 or limit else graph("Max", norm, small)
    else:
        square = graph("Mul", "x", "x") if chance.random() < 0.5 else graph("Pow", "x", graph.constant(2))
        total = graph("ReduceSum", square, graph.integers(axes), keepdims=keepdims)
        norm = graph("Sqrt", graph.either_way("Max" if way == "largest" else "Add", total, small, chance))
    if chance.random() < 0.5:
        return graph.either_way("Mul", "x", graph("Reciprocal", norm), chance)
    return graph("Div", "x", graph("Expand", norm, graph("Shape", "x")) if chance.random() < 0.5 else norm)


def group_normalization(graph: Graph, chance: random.Random, **other: Any) -> str:
    """As torch writes it; ``other`` spoils one part."""
    groups = other.get("groups", chance.choice([[0, 3, -1], [0, 2, -1], [0, 1, -1], [0, 3, 2, -1], [0, 6, -1]]))
    weights = np.random.default_rng(chance.randrange(99)).normal(size=(6, 3, 1, 1))
    image = graph("Conv", "x", graph.constant(weights)) if other.get("convolved", True) else "x"
    split = graph("Reshape", image, graph.integers(groups))
    if len(groups) == 3:
        ones, zeros = (graph.constant([value] * groups[1]) for value in (other.get("one", 1), 0))
        normalized = graph("InstanceNormalization", split, ones, zeros, epsilon=1e-3)
    else:
        centred = graph("Sub", split, graph("ReduceMean", split, axes=[2, 3]))
        variance = graph("ReduceMean", graph("Mul", centred, centred), axes=[2, 3])
        normalized = graph("Div", centred, graph("Sqrt", graph("Add", variance, graph.constant(1e-3))))
    shape = graph.integers(other["shape"]) if "shape" in other else graph("Shape", image)
    result = graph("Reshape", normalized, shape)
    scale, bias = other.get("parts", chance.choice([(True, True), (True, False), (False, True), (False, False)]))
    values = np.linspace(0.5, 2, other.get("channels", 6))
    values = values.reshape(other.get("values", chance.choice([(-1, 1, 1), (1, -1, 1, 1)])))
    if scale:
        result = graph.either_way("Mul", result, graph.constant(values), chance)
    return graph.either_way("Add", result, graph.constant(values - 1), chance) if bias else result


IDIOMS = {
    **{
        f"L2 normalization by a {way}": Idiom(
            build=lambda g, c, way=way: l2_normalization(g, c, way),  # type: ignore[misc]
            becomes=["NormalizeL2"],
            dtypes_of_model=[np.float32, np.float64],
        )
        for way in ("norm", "largest", "sum")
    },
    "layer normalization": Idiom(build=layer_normalization, becomes=["MVN"]),
    "layer normalization with an epsilon outside": Idiom(
        build=lambda g, c: layer_normalization(g, c, outside=True, epsilon=1e-2), becomes=["MVN"]
    ),
    "normalization over images": Idiom(
        build=lambda g, c: layer_normalization(g, c, axes=[2, 3]), becomes=["MVN"], inputs=IMAGES
    ),
    "layer normalization with its scale before": Idiom(
        build=scaled_before, becomes=["MVN", "Multiply", "Add"], tolerance=1e-4
    ),
    "layer normalization with its bias before": Idiom(
        build=lambda g, c: scaled_before(g, c, scaled=False), becomes=["MVN", "Add"], tolerance=1e-4
    ),
    "group normalization": Idiom(
        build=group_normalization, becomes=["Convolution", "GroupNormalization"], inputs=IMAGES, tolerance=1e-4
    ),
    "groups with two scales": Idiom(
        build=lambda g, c: g("Mul", group_normalization(g, c, parts=(True, False)), g.constant([[[2]]] * 6)),
        becomes=["Convolution", "GroupNormalization"],
        inputs=IMAGES,
    ),
}

NEAR_MISSES = {
    "a norm of another shape": NearMiss(
        build=lambda g, c: l2_normalization(g, c, axes=[0], keepdims=0), absent="NormalizeL2"
    ),
    "a norm that is kept from 0 by two numbers": NearMiss(
        build=lambda g, c: l2_normalization(g, c, "sum", axes=[2], epsilon=np.full((3, 1), 1e-3)), absent="NormalizeL2"
    ),
    "a norm whose square vanishes": NearMiss(
        build=lambda g, c: l2_normalization(g, c, epsilon=1e-30), absent="NormalizeL2"
    ),
    "a norm of 16 bits": NearMiss(build=l2_normalization, dtype=np.float16, absent="NormalizeL2"),
    "a norm with an upper limit": NearMiss(build=lambda g, c: l2_normalization(g, c, limit=2.0), absent="NormalizeL2"),
    "a norm less a number": NearMiss(
        build=lambda g, c: l2_normalization(g, c, "sum", epsilon=-1e-3), absent="NormalizeL2"
    ),
    "other axes of the squares": NearMiss(
        build=lambda g, c: layer_normalization(g, c, axes=[-1], second_axes=[1]), absent="MVN"
    ),
    "a factor and a sum without the mean": NearMiss(
        build=lambda g, c: scaled_before(g, c, without_mean=True), absent="MVN"
    ),
    "no epsilon": NearMiss(build=lambda g, c: layer_normalization(g, c, epsilon=0.0), absent="MVN"),
    "groups that part channels": NearMiss(
        build=lambda g, c: group_normalization(g, c, groups=[0, 4, -1]), absent="GroupNormalization", inputs=IMAGES
    ),
    "groups over the batch": NearMiss(
        build=lambda g, c: group_normalization(g, c, groups=[1, 6, -1]), absent="GroupNormalization", inputs=IMAGES
    ),
    "groups with a scale of their own": NearMiss(
        build=lambda g, c: group_normalization(g, c, groups=[0, 3, -1], one=2),
        absent="GroupNormalization",
        inputs=IMAGES,
    ),
    "groups with values for columns": NearMiss(
        build=lambda g, c: group_normalization(g, c, parts=(True, True), channels=5, values=(-1,)),
        count=4,
        inputs=IMAGES,
    ),
    "groups of dynamic channels": NearMiss(
        build=lambda g, c: group_normalization(g, c, convolved=False, parts=(True, True)),
        absent="GroupNormalization",
        inputs={"x": (2, 6, 4, 5)},
    ),
    "groups of another shape after it": NearMiss(
        build=lambda g, c: group_normalization(g, c, shape=[-1, 6, 5, 4]),
        absent="GroupNormalization",
        inputs=IMAGES,
    ),
    "an epsilon for each row": NearMiss(
        build=lambda g, c: layer_normalization(g, c, epsilon=[[1e-5], [1e-3], [1e-2]]), absent="MVN"
    ),
    "an epsilon of a higher rank": NearMiss(
        build=lambda g, c: layer_normalization(g, c, epsilon=[[[[1e-5]]]]), absent="MVN"
    ),
}
