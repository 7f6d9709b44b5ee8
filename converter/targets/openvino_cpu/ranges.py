"""Range that would have to run backwards.

Where the limit lies on the other side of the start than the step leads to, nothing is to be made; the plug-in takes
the distance between them for the number of elements, whatever its sign.

    Range(start, limit, 1)      becomes      Range(start, Maximum(start, limit), 1)

Bounds of the two that rule it out, as those of extents do, leave the layer alone.
Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.generation import Range4
from ir_runtime.rewrite import Uses


@openvino_cpu.register("ranges")
def ranges(model: Model) -> int:
    """Let no limit lie behind the start."""
    return legalise(model, (Range4,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    start, limit, step = node.inputs
    if len({value.element_type for value in node.inputs}) > 1:
        return None
    known = step.type.constant
    low, high = start.type.known_bounds, limit.type.known_bounds
    if known is not None and low is not None and high is not None:
        ahead = low.upper <= high.lower if known > 0 else low.lower >= high.upper
        if ahead.all():
            return None
    if known is not None:
        last = (layers.maximum if known > 0 else layers.minimum)(builder, start, limit)
    else:
        ends = layers.maximum(builder, start, limit), layers.minimum(builder, start, limit)
        last = layers.select(builder, layers.greater(builder, step, builder.like(0, step)), *ends)
    return builder.emit(node.op, start, last, step)
