"""Transposes of matrices, in front of which all other dimensions are made one, and behind which they come back.

    x [a, b, s, d] -> Reshape [-1, s, d] -> Transpose(0, 2, 1) -> Reshape [a, b, d, s]

becomes

    x -> Transpose(0, 1, 3, 2)

torch writes this since its exporter goes through graphs of its own. Dimensions are those of ``x`` for whatever shapes.
"""

from __future__ import annotations

from ir_runtime.graph.model import Node
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import NotMatched, anything, constant, fail, layer
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes

_FLAT = layer(Reshape1, anything("x"), anything("flat shape"), name="flat")
_PATTERN = layer(Reshape1, layer(Transpose1, _FLAT, constant("order")), anything("shape"))


@passes.replaces("flattened_transposes", Reshape1, after=["equal_layers"], fuses=True)
def flattened_transpose(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Put one Transpose in the place of the three layers."""
    found = _PATTERN.match(node.outputs[0])
    if isinstance(found, NotMatched):
        return found
    if found.array("order").reshape(-1).tolist() != [0, 2, 1]:
        return fail("it does not swap the last two dimensions")
    x, flat, result = (uses.shapes.dims(value) for value in (found["x"], found["flat"], node.outputs[0]))
    if x is None or flat is None or len(x) < 3:
        return fail("the rank of the input is not known, or less than 3")
    if flat[1:] != x[-2:] or result != [*x[:-2], x[-1], x[-2]]:
        return fail("dimensions are not known to be those of the input")
    axes = [*range(len(x) - 2), len(x) - 1, len(x) - 2]
    return found.check_private(uses) or layers.transpose(builder, found["x"], builder.constant(axes))
