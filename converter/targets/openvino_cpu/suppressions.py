"""NonMaxSuppression of boxes whose last extent comes at run time.

The plug-in wants to know beforehand that boxes have 4 coordinates, and how many dimensions there are.

    boxes [n, k, ?] -> NonMaxSuppression      becomes      boxes -> Reshape [0, 0, 4] -> NonMaxSuppression

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering.layers import reshape
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.detection import NonMaxSuppression9
from ir_runtime.rewrite import Uses


@openvino_cpu.register("suppressions")
def suppressions(model: Model) -> int:
    """Say that boxes have 4 coordinates."""
    return legalise(model, (NonMaxSuppression9,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> list[Output] | None:
    boxes, scores, *others = node.inputs
    if not boxes.shape.has_rank or not boxes.shape[2].is_static:
        boxes = reshape(builder, boxes, [0, 0, 4])
    if not scores.shape.has_rank:
        scores = reshape(builder, scores, [0, 0, 0])
    given = [boxes, scores, *others]
    return None if given == node.inputs else builder.emit_all(node.op, *given)
