"""Normalisations that exporters spell out."""

from __future__ import annotations

import random
from typing import Any

from .graphs import Graph, Idiom, NearMiss


def layer_normalization(graph: Graph, chance: random.Random, **other: Any) -> str:
    """As torch, tf2onnx and Keras write it; ``other`` spoils one part."""
    axes = other.get("axes", [-1])
    mean = graph("ReduceMean", "x", axes=axes, keepdims=other.get("keepdims", 1))
    centred = graph("Sub", "x", mean)
    again = graph("Sub", "x", mean) if chance.random() < 0.5 else centred
    square = graph("Mul", again, again) if chance.random() < 0.5 else graph("Pow", again, graph.constant(2))
    variance = graph("ReduceMean", square, axes=other.get("second_axes", axes), keepdims=1)
    total = graph.either_way("Add", variance, graph.constant(other.get("epsilon", 1e-5)), chance)
    root = graph("Sqrt", total) if chance.random() < 0.5 else graph("Pow", total, graph.constant(0.5))
    if chance.random() < 0.7:
        return graph("Div", centred, root)
    return graph.either_way("Mul", centred, graph("Div", graph.constant(1), root), chance)


IDIOMS = {"layer normalization": Idiom(build=layer_normalization, becomes=["MVN"])}

NEAR_MISSES = {
    "other axes of the squares": NearMiss(
        build=lambda g, c: layer_normalization(g, c, axes=[-1], second_axes=[1]), absent="MVN"
    ),
    "no epsilon": NearMiss(build=lambda g, c: layer_normalization(g, c, epsilon=0.0), absent="MVN"),
    "an epsilon for each row": NearMiss(
        build=lambda g, c: layer_normalization(g, c, epsilon=[[1e-5], [1e-3], [1e-2]]), absent="MVN"
    ),
    # The plug-in takes it for a layer normalisation all the same, and returns a lower rank.
    "an epsilon of a higher rank": NearMiss(
        build=lambda g, c: layer_normalization(g, c, epsilon=[[[[1e-5]]]]), absent="MVN", engines=["numpy"]
    ),
}
