"""Fuse the node sequences that exporters emit for PReLU, with one slope or one per channel.

    x -> ReLU -> a;  x -> Minimum(0) -> Multiply(slope) -> b;  a, b -> Add           becomes      x -> PReLU(slope)
    x -> ReLU -> a;  x -> Negative -> ReLU -> Multiply(slope) -> b;  a, b -> Subtract
    x -> ReLU -> a;  x -> Negative -> ReLU -> Negative -> Multiply(slope) -> b;  a, b -> Add
    x -> Multiply(slope) -> s;  x, s -> Maximum, for slopes above 0 and up to 1
    x -> Multiply(slope) -> s;  x < 0, s, x -> Select

Keras writes the second, with the sign in the slope; JAX writes the last two for a leaky ReLU.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Node, Output
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.activation import PReLU1, ReLU1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, either, fail, layer, number

from .idioms import has_shape_of, is_real, is_stored, of_channels, plus, times
from .registry import passes


def _pattern() -> Pattern:
    x = anything("x", is_real)
    slope, opposite = anything("slope", is_stored), anything("opposite", is_stored)
    positive, flipped = layer(ReLU1, x), layer(ReLU1, layer(ir.Negative1, x))
    negative = either(layer(ir.Minimum1, x, number(0)), layer(ir.Negative1, flipped))
    scaled = times(x, slope)
    below = either(layer((ir.Less1, ir.LessEqual1), x, number(0)), layer((ir.Greater1, ir.GreaterEqual1), number(0), x))
    above = either(layer((ir.Greater1, ir.GreaterEqual1), x, number(0)), layer((ir.Less1, ir.LessEqual1), number(0), x))
    return either(
        plus(positive, either(times(negative, slope), times(flipped, opposite))),
        layer(ir.Subtract1, positive, either(times(flipped, slope), times(negative, opposite))),
        layer(ir.Maximum1, x, scaled, name="greater"),
        layer(ir.Select1, below, scaled, x),
        layer(ir.Select1, above, x, scaled),
    )


_PATTERN = _pattern()


@passes.fuses("prelus", _PATTERN)
def prelu(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the sum, the maximum or the Select by PReLU."""
    x = match["x"]
    slope: Output = match["opposite" if "opposite" in match else "slope"]
    if not has_shape_of(node.outputs[0], x) or x.shape.rank == 0:
        return fail("its rank is not that of the input")
    assert slope.tensor is not None
    values = slope.tensor.array().reshape(-1) if slope.tensor.size == 1 else of_channels(slope, x)
    if values is None:
        return fail("there is not one slope, and not one for each channel")
    if "opposite" in match:
        values = -values
    if "greater" in match and not ((values > 0) & (values <= 1)).all():
        return fail("a slope is not above 0, or above 1")
    slopes = builder.constant(np.asarray(values), x.element_type)
    return builder.emit(PReLU1(), x, slopes)
