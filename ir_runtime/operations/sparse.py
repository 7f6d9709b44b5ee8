"""Sparse tensors: SparseFillEmptyRows.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sparse/fill-empty-rows-16.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array
from ir_runtime.errors import InferenceError
from ir_runtime.operation import Operation, TensorType, operation
from ir_runtime.shapes import DYNAMIC, Dimension, PartialShape

from .detection import ranked, same_extent
from .elementwise import merge_types


@operation("SparseFillEmptyRows", opset=16)
class SparseFillEmptyRows16(Operation):
    """A sparse matrix with a value at the start of every row that has none.

    Inputs: values ``[m]``, the extents ``[rows, columns]``, the values' places ``[m, 2]``, and the
    scalar to fill with. Outputs, by row and column: places ``[k, 2]``, values ``[k]``, and for each row
    whether it was empty.
    """

    inputs = (4, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        values, extents, places, default = inputs
        kind = merge_types([values, default])
        whole = merge_types([extents, places])
        if not (whole.is_integral or whole.is_dynamic):
            raise InferenceError(f"extents and places must be integers, but are {whole}")
        same_extent("the number of dimensions", ranked("the extents", extents.shape, 1)[0], Dimension(2, 2))
        ranked("the value to fill with", default.shape, 0)
        given = ranked("the values", values.shape, 1)[0]
        listed, columns = ranked("the places", places.shape, 2)
        same_extent("the number of values", given, listed)
        same_extent("the number of dimensions", columns, Dimension(2, 2))
        rows = DYNAMIC if extents.known_bounds is None else extents.known_bounds.dimensions()[0]
        empty = None
        if extents.constant is not None and places.constant is not None:
            count = int(_is_empty(extents.constant, places.constant).sum())
            empty = Dimension(count, count)
        return [
            TensorType(whole, PartialShape([DYNAMIC if empty is None else listed + empty, 2])),
            TensorType(kind, PartialShape([DYNAMIC if empty is None else given + empty])),
            TensorType(element_types.boolean, PartialShape([rows])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        values, extents, places, default = inputs
        empty = _is_empty(extents, places)
        added = np.zeros((int(empty.sum()), 2), places.dtype)
        added[:, 0] = np.flatnonzero(empty)
        everywhere = np.concatenate([places, added])
        filled = np.concatenate([values, np.broadcast_to(default.reshape(()), len(added))])
        order = np.lexsort((everywhere[:, 1], everywhere[:, 0]))
        return everywhere[order], filled[order], empty


def _is_empty(extents: Array, places: Array) -> Array:
    """For each row whether no place is in it; :class:`InferenceError` for a place outside."""
    if places.size and ((places < 0) | (places >= extents)).any():
        raise InferenceError(f"a value's place lies outside a matrix of the extents {extents.tolist()}")
    empty = np.ones(int(extents[0]), np.bool_)
    empty[places[:, 0]] = False
    return empty
