"""Values made from shapes and ranges: ShapeOf, Range, Eye, and running sums (CumSum).

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/generation/range-4.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import INFINITY, Array, Dimension, ElementType, PartialShape, element_types, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation, type_of_elements
from ir_runtime.graph.value_ranges import Bounds, Range, hull, positions

from .movement import target_dimensions


class ShapeOf(Operation):
    """The dimensions of the input, as a list of integers."""

    inputs = (1, 1)
    value_range = positions

    def index_type(self) -> ElementType:
        return element_types.i64

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        return [TensorType(self.index_type(), PartialShape([shape.rank if shape.has_rank else None]))]

    def infer_bounds(self, inputs: Sequence[TensorType]) -> Bounds | None:
        shape = inputs[0].shape
        if not shape.has_rank:
            return None
        lower = np.array([d.low for d in shape], np.int64)
        return Bounds(lower, np.array([d.high for d in shape], np.int64))

    def evaluate(self, *inputs: Array) -> Array:
        return np.array(inputs[0].shape, self.index_type().dtype)


@operation("ShapeOf", opset=1)
class ShapeOf1(ShapeOf):
    """The dimensions as i64."""


@operation("ShapeOf", opset=3)
class ShapeOf3(ShapeOf):
    """The dimensions as i32 or i64."""

    output_type: ElementType = type_of_elements(default=element_types.i64)

    def index_type(self) -> ElementType:
        return self.output_type


class _Range(Operation):
    """start, start + step, ... up to, but without, stop. All three are scalars."""

    inputs = (3, 3)

    def value_type(self, inputs: Sequence[TensorType]) -> ElementType:
        return inputs[0].element_type

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        for name, value in zip(("start", "stop", "step"), inputs):
            if value.shape.has_rank and value.shape.element_count().low > 1:
                raise InferenceError(f"{name} must be a scalar, but has the shape {value.shape}")
        constants = [value.constant for value in inputs]
        dimension = self._between(*[value.known_bounds for value in inputs])
        if all(value is not None for value in constants):
            count = self._count(*[v.reshape(-1)[0] for v in constants if v is not None])
            dimension = Dimension(count, count)
        return [TensorType(self.value_type(inputs), PartialShape([dimension]))]

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return hull(inputs[:2])

    @classmethod
    def _between(cls, start: Bounds | None, stop: Bounds | None, step: Bounds | None) -> Dimension:
        """Return the number of elements for integers between bounds; the step must be known."""
        if start is None or stop is None or step is None or not step.is_exact:
            return Dimension()
        by = int(step.lower.reshape(-1)[0])
        (first, last), (low, high) = (
            (int(ends.lower.reshape(-1)[0]), int(ends.upper.reshape(-1)[0])) for ends in (start, stop)
        )
        if by < 0:
            first, last, low, high = last, first, high, low
        most = cls._count(np.int64(first), np.int64(high), np.int64(by))
        endless = {first, high} & {INFINITY, -INFINITY - 1}
        return Dimension(cls._count(np.int64(last), np.int64(low), np.int64(by)), INFINITY if endless else most)

    @staticmethod
    def _count(start: object, stop: object, step: object) -> int:
        a, b, c = np.asarray(start), np.asarray(stop), np.asarray(step)
        if a.dtype.kind in "iu":
            first, last, by = int(a), int(b), int(c)
            if by == 0:
                raise InferenceError("the step of a range must not be 0")
            return max(0, -((first - last) // by) if (last - first) * by > 0 else 0)
        if float(c) == 0:
            raise InferenceError("the step of a range must not be 0")
        return max(0, int(np.ceil((float(b) - float(a)) / float(c))))

    def generate(self, dtype: np.dtype[np.generic], inputs: Sequence[Array]) -> Array:
        start, stop, step = (np.asarray(value).reshape(-1)[0] for value in inputs)
        count = self._count(start, stop, step)
        if dtype.kind in "iu" and np.asarray(start).dtype.kind in "iu":
            return (int(start) + np.arange(count) * int(step)).astype(dtype)
        # In the type of the numbers themselves, as float32 where that is smaller.
        wide = np.result_type(start.dtype, np.float32) if start.dtype.kind == "f" else np.dtype(np.float32)
        return (wide.type(start) + np.arange(count).astype(wide) * wide.type(step)).astype(dtype)


@operation("Range", opset=1)
class Range1(_Range):
    """A range in the type of its inputs."""

    def evaluate(self, *inputs: Array) -> Array:
        return self.generate(inputs[0].dtype, inputs)


@operation("Range", opset=4)
class Range4(_Range):
    """A range in a declared type."""

    output_type: ElementType = type_of_elements(default=element_types.dynamic)

    def value_type(self, inputs: Sequence[TensorType]) -> ElementType:
        return self.output_type

    def evaluate(self, *inputs: Array) -> Array:
        return self.generate(self.output_type.dtype, inputs)


@operation("Eye", opset=9)
class Eye9(Operation):
    """Ones on a diagonal of zeros.

    Inputs: the numbers of rows and columns and the diagonal (all scalars; the main diagonal is 0,
    those above it are positive), and optionally the shape of a batch in front.
    """

    inputs = (3, 4)
    output_type: ElementType = type_of_elements(default=element_types.dynamic)

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return np.asarray(0, np.object_), np.asarray(1, np.object_)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        dims: list[Dimension] = []
        if len(inputs) > 3:
            lead = target_dimensions(inputs[3])
            if lead is None:
                return [TensorType(self.output_type, PartialShape.dynamic())]
            dims += lead
        for name, value in zip(("the number of rows", "the number of columns"), inputs):
            bounds = value.known_bounds
            if bounds is not None and (bounds.upper < 0).any():
                raise InferenceError(f"{name} must not be negative, but is {bounds.upper.tolist()}")
            dims.append(Dimension() if bounds is None else bounds.dimensions()[0])
        return [TensorType(self.output_type, PartialShape(dims))]

    def evaluate(self, *inputs: Array) -> Array:
        rows, columns, diagonal = (int(value.reshape(-1)[0]) for value in inputs[:3])
        places = np.arange(columns) - np.arange(rows)[:, None] == diagonal
        lead = inputs[3].reshape(-1).tolist() if len(inputs) > 3 else []
        return np.broadcast_to(places.astype(self.output_type.dtype), (*lead, rows, columns))


@operation("CumSum", opset=3)
class CumSum3(Operation):
    """Running sums along an axis (a scalar input).

    ``exclusive`` leaves each element out of its own sum, ``reverse`` sums from the end.
    """

    inputs = (2, 2)
    exclusive: bool = boolean(default=False)
    reverse: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axis = inputs
        constant = axis.constant
        if constant is not None and data.shape.has_rank:
            normalize_axis(int(constant.reshape(-1)[0]), data.shape.rank)
        return [TensorType(data.element_type, data.shape)]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        at = normalize_axis(int(inputs[1].reshape(-1)[0]), data.ndim)
        small = data.dtype.itemsize < 4 and data.dtype.kind not in "iu"
        values = np.flip(data, at) if self.reverse else data
        sums = np.cumsum(values, at, dtype=np.float32 if small else data.dtype)
        if self.exclusive:
            shifted = np.zeros_like(sums)
            keep: list[slice] = [slice(None)] * data.ndim
            move = list(keep)
            keep[at], move[at] = slice(1, None), slice(None, -1)
            shifted[tuple(keep)] = sums[tuple(move)]
            sums = shifted
        return (np.flip(sums, at) if self.reverse else sums).astype(data.dtype, copy=False)
