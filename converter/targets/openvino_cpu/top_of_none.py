"""TopK of no elements, as a Slice of nothing.

The plug-in wants at least one.

    x -> TopK(0)      becomes      x -> Slice(0, 0) -> values
                                             -> Convert -> indices

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from converter.lowering.layers import cut, in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewrite import Uses


@openvino_cpu.register("top_of_none")
def top_of_none(model: Model) -> int:
    """Cut off everything where none is wanted."""
    return legalise(model, (TopK11,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> list[Output] | None:
    data, count = node.inputs
    known = count.type.constant
    if known is None or known.any() or not isinstance(node.op, TopK11):
        return None
    nothing = cut(builder, data, 0, 0, node.op.axis)
    return [nothing, in_type(builder, nothing, node.outputs[1].element_type)]
