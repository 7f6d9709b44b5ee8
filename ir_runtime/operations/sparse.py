"""Sparse tensors: SparseFillEmptyRows.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/fill-empty-rows-16.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape, element_types
from ir_runtime.graph.operation import Operation, TensorType, operation
from ir_runtime.graph.shapes import require_rank, same_dimension

from .elementwise import merge_types


@operation("SparseFillEmptyRows", opset=16)
class SparseFillEmptyRows16(Operation):
    """A sparse matrix with a value at the start of every row that has none.

    Inputs: values ``[m]``, the dimensions ``[rows, columns]``, the values' places ``[m, 2]``, and the
    scalar to fill with. Outputs, by row and column: places ``[k, 2]``, values ``[k]``, and for each row
    whether it was empty.
    """

    inputs = (4, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        values, sizes, places, default = inputs
        element_type = merge_types([values, default])
        whole = merge_types([sizes, places])
        if not (whole.is_integral or whole.is_dynamic):
            raise InferenceError(f"dimensions and places must be integers, but are {whole}")
        same_dimension("the number of dimensions", require_rank("the dimensions", sizes.shape, 1)[0], Dimension(2, 2))
        require_rank("the value to fill with", default.shape, 0)
        value_count = require_rank("the values", values.shape, 1)[0]
        entry_count, columns = require_rank("the places", places.shape, 2)
        same_dimension("the number of values", value_count, entry_count)
        same_dimension("the number of dimensions", columns, Dimension(2, 2))
        rows = DYNAMIC if sizes.known_bounds is None else sizes.known_bounds.dimensions()[0]
        empty = None
        if sizes.constant is not None and places.constant is not None:
            count = int(_is_empty(sizes.constant, places.constant).sum())
            empty = Dimension(count, count)
        return [
            TensorType(whole, PartialShape([DYNAMIC if empty is None else entry_count + empty, 2])),
            TensorType(element_type, PartialShape([DYNAMIC if empty is None else value_count + empty])),
            TensorType(element_types.boolean, PartialShape([rows])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        values, sizes, places, default = inputs
        empty = _is_empty(sizes, places)
        added = np.zeros((int(empty.sum()), 2), places.dtype)
        added[:, 0] = np.flatnonzero(empty)
        everywhere = np.concatenate([places, added])
        filled = np.concatenate([values, np.broadcast_to(default.reshape(()), len(added))])
        order = np.lexsort((everywhere[:, 1], everywhere[:, 0]))
        return everywhere[order], filled[order], empty


def _is_empty(sizes: Array, places: Array) -> Array:
    """For each row whether no place is in it; :class:`InferenceError` for a place outside."""
    if places.size and ((places < 0) | (places >= sizes)).any():
        raise InferenceError(f"a value's place lies outside a matrix of the dimensions {sizes.tolist()}")
    empty = np.ones(int(sizes[0]), np.bool_)
    empty[places[:, 0]] = False
    return empty
