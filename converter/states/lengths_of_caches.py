"""How long a cache is with the new keys, told by its two parts.

    Concat(past, new) -> { Assign ; attention ; ShapeOf }

becomes

    ShapeOf(past) * [0, 0, 1, 0] + ShapeOf(new)

A mask or a bias that needs the length then does not depend on the concatenation. OpenVINO's CPU plug-in makes one step
of variable, concatenation and attention: the mask, which attention reads, may not come from within.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph.model import Model, Node
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.operations.generation import ShapeOf1, ShapeOf3
from ir_runtime.operations.inputs_outputs import Assign6
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement, replace_layers
from ir_runtime.rewriting.uses import Uses


def lengths_from_parts(model: Model) -> int:
    """Compute the shapes of what variables store from its two parts, in place; how many."""
    return replace_layers(model, (ShapeOf1, ShapeOf3), _of_parts)


def _of_parts(builder: Builder, node: Node, uses: Uses) -> Replacement:
    value = node.inputs[0]
    joined = value.node
    if not isinstance(joined.op, Concat1) or not any(isinstance(reader.op, Assign6) for reader in uses[value]):
        return fail("it reads no concatenation that a variable stores")
    if len(joined.inputs) != 2 or not value.shape.has_rank:
        return fail("the concatenation is not that of a past and what is new")
    grown = np.zeros(value.shape.rank, np.int64)
    grown[joined.op.axis] = 1
    past, new = (builder.emit(node.op, part) for part in joined.inputs)
    past = builder.emit(Multiply1(), past, builder.constant(grown, node.outputs[0].element_type))
    return builder.emit(Add1(), past, new)
