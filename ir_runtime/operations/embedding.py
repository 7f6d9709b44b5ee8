"""Sums of table rows chosen by index (EmbeddingBag*, EmbeddingSegmentsSum, SegmentMax), and beams (GatherTree).

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/embedding-bag-offsets-15.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape, as_dimension
from ir_runtime.graph.element_types import finfo, from_dtype
from ir_runtime.graph.indices import bincount, repeat
from ir_runtime.graph.operation import Operation, TensorType, enum, operation
from ir_runtime.graph.shapes import require_rank, same_dimension

from .elementwise import merge_types


def _bags(rows: Array, segment: Array, count: int, mean: bool) -> Array:
    """Sums (or means) of ``rows`` by the number of the segment that each belongs to."""
    wide = rows.astype(np.float32) if rows.dtype.kind not in "iuf" or rows.dtype.itemsize < 4 else rows
    out = np.zeros((count, *rows.shape[1:]), wide.dtype)
    np.add.at(out, segment, wide)
    if mean:
        sizes = np.maximum(bincount(segment, count), 1)
        out = out / sizes.reshape(-1, *[1] * (rows.ndim - 1))
    return out.astype(rows.dtype)


def _apply_weights(rows: Array, weights: Array | None) -> Array:
    if weights is None:
        return rows
    return rows * weights.reshape(-1, *[1] * (rows.ndim - 1)).astype(rows.dtype)


def _table_output(table: TensorType, count: Dimension) -> list[TensorType]:
    if not table.shape.has_rank:
        return [TensorType(table.element_type, table.shape)]
    if table.shape.rank == 0:
        raise InferenceError("the table must have rows")
    return [TensorType(table.element_type, table.shape.replace(0, count))]


def _first(shape: PartialShape) -> Dimension:
    return shape[0] if shape.has_rank and shape.rank else DYNAMIC


class _Offsets(Operation):
    """Bag i sums the rows of indices[offsets[i]:offsets[i + 1]].

    Inputs: table, indices, offsets, optionally the row for empty bags (negative or none: zeros), and
    optionally one weight an index.
    """

    inputs = (3, 5)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return _table_output(inputs[0], _first(inputs[2].shape))

    def evaluate(self, *inputs: Array) -> Array:
        table, indices, offsets = inputs[:3]
        default = int(inputs[3].reshape(-1)[0]) if len(inputs) > 3 else -1
        rows = _apply_weights(table[indices], inputs[4] if len(inputs) > 4 else None)
        sizes = np.diff(np.append(offsets, len(indices)))
        segment = repeat(np.arange(len(offsets)), sizes)
        out = _bags(rows, segment, len(offsets), getattr(self, "reduction", "sum") == "mean")
        if default >= 0:
            out[sizes == 0] = table[default]
        return out


@operation("EmbeddingBagOffsetsSum", opset=3)
class EmbeddingBagOffsetsSum3(_Offsets):
    """Bags of consecutive indices, summed."""


@operation("EmbeddingBagOffsets", opset=15)
class EmbeddingBagOffsets15(_Offsets):
    """Bags of consecutive indices, summed or averaged."""

    reduction: str = enum("sum", "mean", default="sum")


class _Packed(Operation):
    """Bag i sums the rows that row i of the indices (a matrix) names; optionally with weights."""

    inputs = (2, 3)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[1].shape if len(inputs) < 3 else inputs[1].shape.merge(inputs[2].shape)
        if shape is None:
            raise InferenceError(f"there must be a weight for each index, but the shapes are {inputs[1]}, {inputs[2]}")
        return _table_output(inputs[0], _first(shape))

    def evaluate(self, *inputs: Array) -> Array:
        table, indices = inputs[:2]
        rows = _apply_weights(table[indices.reshape(-1)], inputs[2] if len(inputs) > 2 else None)
        segment = np.repeat(np.arange(len(indices)), indices.shape[1])
        return _bags(rows, segment, len(indices), getattr(self, "reduction", "sum") == "mean")


@operation("EmbeddingBagPackedSum", opset=3)
class EmbeddingBagPackedSum3(_Packed):
    """Bags of equal size, summed."""


@operation("EmbeddingBagPacked", opset=15)
class EmbeddingBagPacked15(_Packed):
    """Bags of equal size, summed or averaged."""

    reduction: str = enum("sum", "mean", default="sum")


@operation("EmbeddingSegmentsSum", opset=3)
class EmbeddingSegmentsSum3(Operation):
    """Sums of rows by segment.

    Inputs: table, indices, the ascending segment number of each index, the number of segments, and
    optionally the row for empty segments and one weight an index.
    """

    inputs = (4, 6)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        bounds = inputs[3].known_bounds
        return _table_output(inputs[0], DYNAMIC if bounds is None else bounds.dimensions()[0])

    def evaluate(self, *inputs: Array) -> Array:
        table, indices, segment = inputs[:3]
        count = int(inputs[3].reshape(-1)[0])
        default = int(inputs[4].reshape(-1)[0]) if len(inputs) > 4 else -1
        rows = _apply_weights(table[indices], inputs[5] if len(inputs) > 5 else None)
        out = _bags(rows, segment.astype(np.int64), count, mean=False)
        if default >= 0:
            out[bincount(segment, count) == 0] = table[default]
        return out


@operation("SegmentMax", opset=16)
class SegmentMax16(Operation):
    """The greatest elements of the rows of each segment.

    Inputs: data, the ascending segment number of each row, optionally the number of segments. Empty
    segments hold zeros, or the least number of the type.
    """

    inputs = (2, 3)
    fill_mode: str = enum("zero", "lowest", default="zero")

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        count = DYNAMIC
        if len(inputs) > 2:
            bounds = inputs[2].known_bounds
            count = DYNAMIC if bounds is None else bounds.dimensions()[0]
        elif inputs[1].constant is not None:
            segment = inputs[1].constant
            count = as_dimension(int(segment[-1]) + 1 if segment.size else 0)
        return _table_output(inputs[0], count)

    def evaluate(self, *inputs: Array) -> Array:
        data, segment = inputs[:2]
        counted = int(segment[-1]) + 1 if segment.size else 0
        count = int(inputs[2].reshape(-1)[0]) if len(inputs) > 2 else counted
        lowest = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
        out = np.full((count, *data.shape[1:]), lowest, data.dtype)
        inside = segment < count
        np.maximum.at(out, segment[inside], data[inside])
        empty = bincount(segment[inside], count) == 0
        if self.fill_mode == "zero":
            out[empty] = 0
        elif data.dtype.kind not in "iu":
            out[empty] = finfo(from_dtype(data.dtype)).min
        return out


@operation("GatherTree", opset=1)
class GatherTree1(Operation):
    """Whole beams from the ids chosen at each step and the beam that each continued.

    Inputs: step_ids and parent_idx ``[time, batch, beam]``, max_seq_len ``[batch]``, end_token. What
    stands behind a sequence's end, or behind its first end_token, is end_token.
    """

    inputs = (4, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types([inputs[0], inputs[1]])
        shape = inputs[0].shape.merge(inputs[1].shape)
        if shape is None:
            raise InferenceError(f"ids and parents must have one shape, but have {inputs[0].shape}, {inputs[1].shape}")
        shape = require_rank("the ids", shape, 3)
        lengths = require_rank("the lengths", inputs[2].shape, 1)[0]
        shape = shape.replace(1, same_dimension("the batch of ids and lengths", shape[1], lengths))
        return [TensorType(element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        ids, parents, lengths, end = inputs
        steps, batches, beams = ids.shape
        end_token = end.reshape(-1)[0]
        out = np.full(ids.shape, end_token, ids.dtype)
        rows = np.arange(batches)[:, None]
        parent = np.tile(np.arange(beams), (batches, 1))
        last = np.minimum(lengths.reshape(-1, 1).astype(np.int64), steps)
        for step in range(steps - 1, -1, -1):
            alive = step < last
            chosen = ids[step][rows, parent]
            out[step] = np.where(alive, chosen, end_token)
            parent = np.where(alive, parents[step][rows, parent].astype(np.int64), parent)
        finished = np.cumsum(out == end_token, axis=0) > 0
        return np.where(finished, end_token, out)
