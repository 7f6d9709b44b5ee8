"""Attention as one operation.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/scaled-dot-product-attention.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError, UnsupportedError
from ir_runtime.graph import Array, Dimension, PartialShape, broadcast, element_types
from ir_runtime.graph.operation import OUTSIDE_OPSETS, Operation, TensorType, boolean, integer, operation, real, text
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
        seen = PartialShape(()) if len(inputs) < 4 or self.causal else inputs[3].shape
        if not seen.has_rank:  # the mask may widen the result, and add dimensions
            return [TensorType(element_type, PartialShape.dynamic())]
        if seen.rank > 1:
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


@operation("GroupQueryAttention", opset=OUTSIDE_OPSETS)
class GroupQueryAttention(Operation):
    """Attention over a cache in which several heads of the queries share one of keys and values.

    OpenVINO's importer writes it for onnxruntime's operator of that name. Queries [b, heads, s, d], new keys and values
    [b, kv_heads, s, d], their past [b, kv_heads, p, d], the last position of each row [b], and the total length give
    [b, s, heads * d] and the present keys and values. Optional are cosines and sines [positions, d / 2] for
    ``do_rotary``, the positions of the queries [b, s], a bias of the scores, and a sink of each head; a constant of the
    dynamic type stands for one that is left out.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
    """

    inputs = (7, 16)
    causal: bool = boolean(default=True)
    do_rotary: bool = boolean(default=False)
    k_quant_type: str = text(default="NONE")
    kv_cache_bit_width: int = integer(default=0)
    kv_num_heads: int = integer()
    local_window_size: int = integer(default=-1)
    num_heads: int = integer()
    rotary_interleaved: bool = boolean(default=False)
    scale: float = real(default=0.0)
    sliding_window_cache: bool = boolean(default=False)
    smooth_softmax: bool = boolean(default=False)
    v_quant_type: str = text(default="NONE")

    def validate(self) -> None:
        if {self.k_quant_type, self.v_quant_type} != {"NONE"} or self.kv_cache_bit_width or self.sliding_window_cache:
            raise UnsupportedError("GroupQueryAttention over a quantized cache or a cache of a window is not known")
        if self.kv_num_heads < 1 or self.num_heads % self.kv_num_heads:
            raise InferenceError(
                f"num_heads must be a multiple of kv_num_heads, but they are {self.num_heads} and {self.kv_num_heads}"
            )

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if any(not source.element_type.is_dynamic for source in inputs[12:]):
            raise UnsupportedError("GroupQueryAttention with scales or norms of keys and queries is not known")
        query, past = inputs[0].shape, inputs[3].shape
        if any(source.shape.has_rank and source.shape.rank != 4 for source in inputs[:5]):
            raise InferenceError("queries, keys, values and their past must have four dimensions")
        if inputs[5].shape.has_rank and inputs[5].shape.rank != 1:
            raise InferenceError(f"the last positions must be a list, but have the shape {inputs[5].shape}")
        batch = Dimension()
        steps, size = (query[2], query[3]) if query.has_rank else (Dimension(), Dimension())
        for source in inputs[:6]:
            merged = batch.merge(source.shape[0]) if source.shape.has_rank else batch
            if merged is None:
                raise InferenceError(f"each input must have {batch} rows, but one has the shape {source.shape}")
            batch = merged
        width = size.value * self.num_heads if size.is_static else Dimension()
        heads = past.dims[1] if past.has_rank else self.kv_num_heads
        present = PartialShape([batch, heads, Dimension(), size])
        element_type = inputs[0].element_type
        shapes = (PartialShape([batch, steps, width]), present, present)
        return [TensorType(element_type, shape) for shape in shapes]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        query, key, value, past_key, past_value, last, total = inputs[:7]
        optional = [None if source.dtype == np.object_ else source for source in inputs[7:12]]
        cosines, sines, positions, bias, sink = optional + [None] * (5 - len(optional))
        batch, heads, steps, size = query.shape
        length = int(total.reshape(()))
        first = np.zeros(batch, np.int64) if length == steps else last.reshape(-1).astype(np.int64) + 1 - steps
        ordinals = first[:, None] + np.arange(steps)
        if self.do_rotary:
            if cosines is None or sines is None:
                raise ExecutionError("do_rotary requires cosines and sines, which are inputs 7 and 8")
            angles = [table[ordinals if positions is None else positions][:, None] for table in (cosines, sines)]
            query, key = (self._rotate(source, *angles) for source in (query, key))
        presents = []
        for past, new in ((past_key, key), (past_value, value)):
            present = np.zeros((batch, new.shape[1], max(past.shape[2], length), size), new.dtype)
            present[:, :, : past.shape[2]] = past
            for row, start in enumerate(first):
                present[row, :, start : start + steps] = new[row]
            presents.append(present)
        keys, values = (np.repeat(_wide(present), heads // self.kv_num_heads, axis=1) for present in presents)
        scale = query.dtype.type(self.scale or 1 / np.sqrt(size))
        scores = np.matmul(_wide(query) * scale, np.swapaxes(keys, -1, -2))
        at, columns = ordinals[:, None, :, None], np.arange(keys.shape[2])
        seen = columns <= (at if self.causal else last.reshape(-1, 1, 1, 1))
        if self.local_window_size >= 0:
            seen = seen & (columns > at - self.local_window_size)
        if bias is not None:
            scores[..., : bias.shape[-1]] += bias
        scores = np.where(seen, scores, -np.inf)
        if sink is None and self.smooth_softmax:
            sink = np.zeros(heads, scores.dtype)
        if sink is not None:
            column = np.broadcast_to(sink.reshape(1, heads, 1, 1), (*scores.shape[:-1], 1))
            scores = np.concatenate([scores, column], -1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        result = np.matmul(weights[..., : keys.shape[2]], values).swapaxes(1, 2).reshape(batch, steps, -1)
        return (result.astype(inputs[0].dtype), *presents)

    def _rotate(self, source: Array, cosines: Array, sines: Array) -> Array:
        """Rotate pairs of the first elements of each head, neighbours where ``rotary_interleaved``."""
        half = cosines.shape[-1]
        low, high = (
            (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
            if self.rotary_interleaved
            else (slice(half), slice(half, 2 * half))
        )
        result, a, b = source.copy(), source[..., low], source[..., high]
        result[..., low], result[..., high] = a * cosines - b * sines, a * sines + b * cosines
        return result
