"""Range whose limit lies on the other side of the start than the step leads to.

Such a range is empty. The plug-in takes the distance between start and limit for the number of elements, whatever
its sign.

    Range(start, limit, 1)      becomes      Range(start, Maximum(start, limit), 1)

Where bounds of start and limit rule the case out, as those of dimensions do, the layer stays, also where dimensions
are converted to floats.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("range_backwards", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def range_backwards(builder: Builder, node: Node) -> Replacement:
    """Move a limit that lies before the start to the start."""
    start, limit, step = node.inputs
    if len({value.element_type for value in node.inputs}) > 1:
        return fail("start, limit and step have different types")
    constant = step.type.constant
    low, high = _ends(start), _ends(limit)
    if constant is not None and low is not None and high is not None:
        ahead = low[1] <= high[0] if constant > 0 else low[0] >= high[1]
        if ahead.all():
            return fail("the limit never lies before the start")
    if constant is not None:
        last = (layers.maximum if constant > 0 else layers.minimum)(builder, start, limit)
    else:
        ends = layers.maximum(builder, start, limit), layers.minimum(builder, start, limit)
        last = layers.select(builder, layers.greater(builder, step, builder.like(0, step)), *ends)
    return builder.emit(node.op, start, last, step)


def _ends(value: Output) -> tuple[Array, Array] | None:
    """The least and the most that a number is; of a converted one those before, which rounding keeps in order."""
    constant = value.type.constant
    if constant is not None:
        return constant, constant
    if isinstance(value.node.op, Convert1) and value.element_type.is_real:
        value = value.node.inputs[0]
    bounds = value.type.known_bounds
    return None if bounds is None else (bounds.lower, bounds.upper)
