"""Range whose limit lies on the other side of the start than the step leads to.

Such a range is empty. The plug-in takes the distance between start and limit for the number of elements, whatever
its sign.

    Range(start, limit, 1)      becomes      Range(start, Maximum(start, limit), 1)

Where bounds of start and limit rule the case out, as those of dimensions do, the layer stays.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph.model import Node
from ir_runtime.operations.generation import Range4
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses


@openvino_cpu.replaces("range_backwards", Range4, seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def range_backwards(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Move a limit that lies before the start to the start."""
    start, limit, step = node.inputs
    if len({value.element_type for value in node.inputs}) > 1:
        return fail("start, limit and step have different types")
    known = step.type.constant
    low, high = start.type.known_bounds, limit.type.known_bounds
    if known is not None and low is not None and high is not None:
        ahead = low.upper <= high.lower if known > 0 else low.lower >= high.upper
        if ahead.all():
            return fail("the limit never lies before the start")
    if known is not None:
        last = (layers.maximum if known > 0 else layers.minimum)(builder, start, limit)
    else:
        ends = layers.maximum(builder, start, limit), layers.minimum(builder, start, limit)
        last = layers.select(builder, layers.greater(builder, step, builder.like(0, step)), *ends)
    return builder.emit(node.op, start, last, step)
