"""What the passes share that put one layer in the place of the layers which an exporter spelled it out with."""

from __future__ import annotations

from ir_runtime.graph.model import Node, Output
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1
from ir_runtime.rewriting.matching import Pattern, either, fail, layer, number
from ir_runtime.rewriting.replace_layers import Replacement


def has_shape_of(value: Output, x: Output) -> bool:
    """Whether an elementwise result of ``x`` and constants of one element has the rank of ``x``, and so its shape."""
    return value.shape.has_rank and x.shape.has_rank and value.shape.rank == x.shape.rank


def of_same_shape(made: Output, node: Node) -> Replacement:
    """``made`` as the replacement of a layer, if exactly as much is known of its shape: layers behind it rely on it."""
    old = node.outputs[0].shape
    return made if made.shape == old else fail(f"its shape {old} would become {made.shape}")


def is_real(value: Output) -> str | None:
    """The check of a pattern: floats."""
    return None if value.element_type.is_real else "has integers"


def times(a: Pattern, b: Pattern) -> Pattern:
    """A product, in either order."""
    return layer(Multiply1, a, b, commutative=True)


def plus(a: Pattern, b: Pattern) -> Pattern:
    """A sum, in either order."""
    return layer(Add1, a, b, commutative=True)


def scaled_by(a: Pattern, factor: float) -> Pattern:
    """``a`` times a number, or divided by its reciprocal."""
    return either(times(a, number(factor)), layer(Divide1, a, number(1 / factor)))
