"""Selections of integers that float32 does not hold.

The plug-in fuses a Select with the elementwise layer that computes its condition, and rounds what is selected to
float32. It does so where dimensions are dynamic, or where it does not make a subgraph of the condition.

    Select(c, x, y)      becomes      Squeeze(Select(Unsqueeze(c, 0), x, y), 0)

A layer that adds a dimension prevents the fusion and moves nothing; it is not removed as a Reshape to the same shape
is. Where x or y has more dimensions than c, the result has no further one, and there is no Squeeze.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.elementwise import Select1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.rewriting import Builder, Replacement, fail, layers

from .intervals import is_small


@openvino_cpu.replaces("selected_integers", seen_in=("2026.4",))
def selected_integers(builder: Builder, node: Node) -> Replacement:
    """Give the condition one more dimension."""
    condition, then, otherwise = node.inputs
    if is_small(then) and is_small(otherwise):
        return fail("it selects no integers that float32 rounds")
    if not condition.node.inputs or isinstance(condition.node.op, Unsqueeze1):
        return fail("no layer that the plug-in fuses computes the condition")
    shape = node.outputs[0].shape
    if not shape.has_rank or node.op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
        return fail("the rank is dynamic, or it does not broadcast as NumPy does")
    chosen = builder.emit(Select1(), layers.unsqueeze(builder, condition, 0), then, otherwise)
    return chosen if chosen.shape.rank == shape.rank else layers.squeeze(builder, chosen, builder.constant([0]))
