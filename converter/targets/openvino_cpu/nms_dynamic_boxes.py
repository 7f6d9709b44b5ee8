"""NonMaxSuppression of boxes whose last dimension, or rank, is dynamic.

The plug-in requires the rank, and 4 coordinates as a static dimension.

    boxes [n, k, ?] -> NonMaxSuppression      becomes      boxes -> Reshape [0, 0, 4] -> NonMaxSuppression
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import reshape


@openvino_cpu.replaces("nms_dynamic_boxes", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def nms_dynamic_boxes(builder: Builder, node: Node) -> Replacement:
    """Give boxes and scores a rank, and boxes 4 coordinates."""
    boxes, scores, *others = node.inputs
    if not boxes.shape.has_rank or not boxes.shape[2].is_static:
        boxes = reshape(builder, boxes, [0, 0, 4])
    if not scores.shape.has_rank:
        scores = reshape(builder, scores, [0, 0, 0])
    sources = (boxes, scores, *others)
    if sources == node.inputs:
        return fail("the rank of boxes and scores and the number of coordinates are static")
    return builder.emit_all(node.op, *sources)
