"""Attention as one operation.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/scaled-dot-product-attention.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, PartialShape, broadcast, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation
from ir_runtime.graph.shapes import broadcast_all

from .elementwise import merge_real_types


def is_no_mask(mask: TensorType) -> bool:
    """Return True for a scalar that is no boolean, which stands for no mask in front of a scale."""
    return mask.element_type is not element_types.boolean and mask.shape.has_rank and mask.shape.rank == 0


@operation("ScaledDotProductAttention", opset=13)
class ScaledDotProductAttention13(Operation):
    """SoftMax(scale * query key^T + mask) value, over the last two dimensions.

    query [..., L, E], key [..., S, E], value [..., S, V] give [..., L, V]. The optional inputs are: a mask
    that is broadcast with [..., L, S] (booleans: True where a row attends to a
    column; a scalar of another type means no mask), the scale (1 / sqrt(E) where there is none), and a sink
    [..., L or 1, 1]: a further score in the SoftMax, whose value is zero. With ``causal``, row i attends to
    the columns up to i, and the mask is ignored. A row that attends to no column is NaN.
    """

    inputs = (3, 6)
    causal: bool = boolean(default=False)

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """Each row of the query meets all keys, and then all values."""
        query, key = inputs[:2]
        columns = key.shape[-2].value if key.element_count else 0
        return float((query.element_count + outputs[0].element_count) * columns)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        mask = [] if len(inputs) < 4 or inputs[3].element_type is element_types.boolean else [inputs[3]]
        element_type = merge_real_types([*inputs[:3], *mask, *inputs[4:]])
        query, key, value = (source.shape for source in inputs[:3])
        shapes = (query, key, value)
        if any(shape.has_rank and shape.rank < 2 for shape in shapes):
            raise InferenceError(f"query, key and value must be at least matrices, but are {query}, {key}, {value}")
        if not all(shape.has_rank for shape in shapes):
            return [TensorType(element_type, PartialShape.dynamic())]
        if query[-1].merge(key[-1]) is None:
            raise InferenceError(f"query {query} and key {key} must agree in the last dimension")
        if key[-2].merge(value[-2]) is None:
            raise InferenceError(f"key {key} and value {value} must agree in the last but one dimension")
        batch = broadcast_all(PartialShape(list(shape)[:-2]) for shape in shapes)
        rows = query[-2]
        seen = inputs[3].shape if len(inputs) > 3 and not self.causal else PartialShape.dynamic()
        if seen.has_rank and seen.rank > 1:
            batch = broadcast(batch, PartialShape(list(seen)[:-2]))
            if not rows.contains(1) and not seen[-2].contains(1) and rows.merge(seen[-2]) is None:
                raise InferenceError(f"the mask {seen} has not the rows of the query {query}")
            (rows,) = broadcast(PartialShape([rows]), PartialShape([seen[-2]]))
        return [TensorType(element_type, PartialShape([*batch, rows, value[-1]]))]

    def evaluate(self, *inputs: Array) -> Array:
        query, key, value = (_wide(source) for source in inputs[:3])
        mask = inputs[3] if len(inputs) > 3 else None
        scale = _wide(inputs[4]).reshape(()) if len(inputs) > 4 else query.dtype.type(1 / np.sqrt(query.shape[-1]))
        scores = np.matmul(query * scale, np.swapaxes(key, -1, -2))
        if self.causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
        elif mask is not None and mask.dtype == np.bool_:
            scores = np.where(mask, scores, -np.inf)
        elif mask is not None and mask.ndim:
            scores = scores + _wide(mask)
        seen = scores.shape[-1]
        if len(inputs) > 5:
            sink = _wide(inputs[5])
            scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
            weights = weights / weights.sum(axis=-1, keepdims=True)
        result: Array = np.matmul(weights[..., :seen], value)
        return result.astype(inputs[0].dtype, copy=False)


def _wide(values: Array) -> Array:
    """Floats of 16 bits as float32."""
    return values if values.dtype.itemsize >= 4 else values.astype(np.float32)
