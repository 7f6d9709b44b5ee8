"""The last layer of YOLO networks."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.activation import SoftMax8
from ir_runtime.operations.yolo import RegionYolo1
from ir_runtime.rewriting.expressions import Expression, concat


@decomposes(RegionYolo1)
def region_yolo(op: RegionYolo1, x: Expression) -> Expression:
    """Sigmoid of places and scores, and Sigmoid or Softmax of the classes, in a Reshape by regions"""
    batch, _, height, width = sizes = x.sizes()
    parts = x.reshape(batch, op.regions(), op.coords + 1 + op.classes, height, width)
    places = min(2, op.coords)
    pieces = [parts.cut(2, 0, places).sigmoid()] if places else []
    if op.coords > places:
        pieces.append(parts.cut(2, places, op.coords))
    if not op.do_softmax:
        return concat([*pieces, parts.cut(2, op.coords).sigmoid()], 2).reshape(*sizes)
    classes = parts.cut(2, op.coords + 1).emit(SoftMax8(axis=2))
    result = concat([*pieces, parts.cut(2, op.coords, op.coords + 1).sigmoid(), classes], 2)
    return result.reshape(*sizes[: op.axis % 4], -1, *sizes[op.end_axis % 4 + 1 :])
