"""Order: TopK.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sort/top-k-11.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array, ElementType
from ir_runtime.errors import InferenceError
from ir_runtime.operation import Operation, TensorType, boolean, enum, integer, operation, type_of_elements
from ir_runtime.shapes import DYNAMIC, Dimension, PartialShape, normalize_axis


class _TopK(Operation):
    """The ``k`` greatest (or least) elements along ``axis``, and where they stood.

    ``sort`` orders them by value (best first), by index, or not at all. Of equal elements the one
    with the lower index comes first.
    """

    inputs = (2, 2)
    axis: int = integer(0)
    mode: str = enum("max", "max", "min")
    sort: str = enum("none", "none", "value", "index")
    index_element_type: ElementType = type_of_elements(element_types.i32)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, k = inputs
        shape = PartialShape.dynamic()
        if data.shape.has_rank:
            at = normalize_axis(self.axis, data.shape.rank)
            shape = data.shape.replace(at, self._extent(data.shape[at], k))
        return [TensorType(data.element_type, shape), TensorType(self.index_element_type, shape)]

    def _extent(self, available: Dimension, k: TensorType) -> Dimension:
        known = k.constant
        if known is None:
            return Dimension(0, available.high)
        count = int(known.reshape(-1)[0])
        if count < 0 or count > available.high:
            raise InferenceError(f"k is {count}, but axis {self.axis} has {available} elements")
        return Dimension(count, count) if count >= 0 else DYNAMIC

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        data, k = inputs
        count = int(k.reshape(-1)[0])
        at = normalize_axis(self.axis, data.ndim)
        if count > data.shape[at]:
            raise InferenceError(f"k is {count}, but axis {self.axis} has {data.shape[at]} elements")
        order = np.argsort(_descending(data) if self.mode == "max" else data, axis=at, kind="stable")
        order = np.take(order, range(count), at)
        if self.sort == "index":
            order = np.sort(order, axis=at)
        return np.take_along_axis(data, order, at), order.astype(self.index_element_type.dtype)


def _descending(data: Array) -> Array:
    """Keys whose ascending order is the data's descending order, without overflow."""
    if data.dtype.kind in "iu":
        return np.invert(data)
    return np.logical_not(data) if data.dtype == np.bool_ else -data


@operation("TopK", opset=1)
class TopK1(_TopK):
    """TopK with indices in the type asked for."""


@operation("TopK", opset=3)
class TopK3(_TopK):
    """As the first revision, for any integer type of ``k``."""


@operation("TopK", opset=11)
class TopK11(_TopK):
    """Adds ``stable``: equal elements keep their order (here they always do)."""

    stable: bool = boolean(False)
