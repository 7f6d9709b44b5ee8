"""Transposes of matrices, in front of which all other dimensions are made one, and behind which they come back.

    x [a, b, s, d] -> Reshape [-1, s, d] -> Transpose(0, 2, 1) -> Reshape [a, b, d, s]

becomes

    x -> Transpose(0, 1, 3, 2)

torch writes this since its exporter goes through graphs of its own. Dimensions are those of ``x`` for whatever shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting import Builder, Match, Replacement, anything, constant, fail, layer, layers

from .registry import passes

_FLAT = layer(Reshape1, anything("x"), anything("flat shape"), name="flat")
_PATTERN = layer(Reshape1, layer(Transpose1, _FLAT, constant("order")), anything("shape"))


@passes.fuses("flattened_transposes", _PATTERN)
def flattened_transpose(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the three layers by one Transpose."""
    if match.array("order").reshape(-1).tolist() != [0, 2, 1]:
        return fail("it does not swap the last two dimensions")
    shapes = symbolic_shapes()
    x, flat, last = shapes.dims(match["x"]), *(shapes.elements(match[name]) for name in ("flat shape", "shape"))
    if x is None or flat is None or last is None or len(x) < 3:
        return fail("a shape is not known, or its rank is less than 3")
    if not _agree(flat.tolist()[1:], x[-2:]) or not _agree(last.tolist(), [*x[:-2], x[-1], x[-2]]):
        return fail("dimensions are not known to be those of the input")
    # In a Reshape, 0 would take over a dimension of another place; the last two then fail, as there is none.
    if len(x) > 3 and any(shapes.low(dimension) < 1 for dimension in (*x[1:-2], x[-1])):
        return fail("a dimension may be 0")
    axes = [*range(len(x) - 2), len(x) - 1, len(x) - 2]
    return layers.transpose(builder, match["x"], builder.constant(axes))


def _agree(target: Sequence[Polynomial], dims: Sequence[Polynomial]) -> bool:
    """True if the target of a Reshape has these dimensions; one of -1 is what the number of elements leaves."""
    return len(target) == len(dims) and all(size.value == -1 or size == own for size, own in zip(target, dims))
