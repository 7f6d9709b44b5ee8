"""Picking and placing by index: Gather and its relatives.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-8.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array, ElementType
from ir_runtime.errors import InferenceError
from ir_runtime.operation import Bounds, Operation, TensorType, integer, operation, type_of_elements
from ir_runtime.shapes import Dimension, PartialShape, normalize_axis


class _Gather(Operation):
    """Slices of ``data`` along ``axis``, chosen by ``indices``; negative indices count from the end."""

    inputs = (3, 3)

    def batch(self) -> int:
        return 0

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, indices, axis = inputs
        known = axis.constant
        kind = data.element_type
        if not (indices.element_type.is_integral or indices.element_type.is_dynamic):
            raise InferenceError(f"indices must be integers, but are {indices.element_type}")
        if not data.shape.has_rank or not indices.shape.has_rank or known is None:
            return [TensorType(kind, PartialShape.dynamic())]
        at = normalize_axis(int(known.reshape(-1)[0]), data.shape.rank)
        batch = self.batch() + (indices.shape.rank if self.batch() < 0 else 0)
        chosen, extent = indices.constant, data.shape[at]
        if (
            chosen is not None
            and chosen.size
            and extent.is_static
            and not (-extent.value <= chosen.min() and chosen.max() < extent.value)
        ):
            raise InferenceError(f"indices lie outside dimension {at} of {data.shape}")
        return [
            TensorType(
                kind, PartialShape([*data.shape.dims[:at], *indices.shape.dims[batch:], *data.shape.dims[at + 1 :]])
            )
        ]

    def infer_bounds(self, inputs: Sequence[TensorType]) -> Bounds | None:
        first, indices, axis = inputs[0].known_bounds, inputs[1].constant, inputs[2].constant
        if first is None or indices is None or axis is None:
            return None
        return Bounds(self.evaluate(first.lower, indices, axis), self.evaluate(first.upper, indices, axis))

    def evaluate(self, *inputs: Array) -> Array:
        data, indices, axis = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        batch = self.batch() + (indices.ndim if self.batch() < 0 else 0)
        if batch == 0:
            return np.take(data, indices, at)
        lead = data.shape[:batch]
        flat = data.reshape(-1, *data.shape[batch:])
        wanted = indices.reshape(len(flat), *indices.shape[batch:])
        parts = [np.take(part, index, at - batch) for part, index in zip(flat, wanted)]
        return np.stack(parts).reshape(*lead, *parts[0].shape)


@operation("Gather", opset=1)
class Gather1(_Gather):
    """Gather without batch dimensions."""


@operation("Gather", opset=7)
class Gather7(_Gather):
    """Gather within the first ``batch_dims`` dimensions, which data and indices share."""

    batch_dims: int = integer(0)

    def batch(self) -> int:
        return self.batch_dims


@operation("Gather", opset=8)
class Gather8(Gather7):
    """Adds negative indices."""


@operation("NonZero", opset=3)
class NonZero3(Operation):
    """The positions of all elements that are not zero, one column each, in row-major order."""

    inputs = (1, 1)
    output_type: ElementType = type_of_elements(element_types.i64)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        count = shape.element_count()
        rank = shape.rank if shape.has_rank else None
        return [TensorType(self.output_type, PartialShape([rank, Dimension(0, count.high)]))]

    def evaluate(self, *inputs: Array) -> Array:
        found = np.nonzero(inputs[0]) if inputs[0].ndim else np.nonzero(np.atleast_1d(inputs[0]))[:0]
        return np.array(found, self.output_type.dtype).reshape(inputs[0].ndim, -1)
