"""Picking and placing by index: Gather and its relatives.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/gather-8.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import (
    DYNAMIC,
    INFINITY,
    Array,
    Dimension,
    ElementType,
    PartialShape,
    element_types,
    normalize_axis,
)
from ir_runtime.graph.indices import as_indices, take
from ir_runtime.graph.operation import (
    Operation,
    Required,
    TensorType,
    enum,
    integer,
    operation,
    required_indices,
    type_of_elements,
)
from ir_runtime.graph.value_ranges import positions

from .elementwise import merge_types
from .scatter import check_indices, from_front, required_tuples


class Gather(Operation):
    """Slices of ``data`` along ``axis``, chosen by ``indices``; negative indices count from the end.

    The output has data's shape with dimension ``axis`` replaced by the shape of indices, without its
    first ``batch_dims`` dimensions, which data and indices share.
    """

    inputs = (3, 3)
    movement = True

    def batch(self, rank: int) -> int:
        """The number of batch dimensions for indices of that rank."""
        return 0

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, indices, axis = inputs
        constant = axis.constant
        check_indices(indices)
        if not data.shape.has_rank or not indices.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        batch = self.batch(indices.shape.rank)
        at = data.shape.rank - 1 if constant is None else normalize_axis(int(constant.reshape(-1)[0]), data.shape.rank)
        if not 0 <= batch <= min(at, indices.shape.rank):
            raise InferenceError(f"there cannot be {batch} batch dimensions before axis {at} of {data.shape}")
        shared = PartialShape(data.shape.dims[:batch]).merge(PartialShape(indices.shape.dims[:batch]))
        if shared is None:
            raise InferenceError(f"{data.shape} and {indices.shape} must share the first {batch} dimensions")
        if constant is None:
            unknown = [DYNAMIC] * (data.shape.rank + indices.shape.rank - 1 - 2 * batch)
            return [TensorType(data.element_type, PartialShape([*shared, *unknown]))]
        self._check_range(indices.constant, data.shape[at], at)
        dims = [*shared, *data.shape.dims[batch:at], *indices.shape.dims[batch:], *data.shape.dims[at + 1 :]]
        return [TensorType(data.element_type, PartialShape(dims))]

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        data, axis = inputs[0].shape, inputs[2].constant
        if axis is None or not data.has_rank:
            return {}
        return {1: required_indices(data, [normalize_axis(int(axis.reshape(-1)[0]), data.rank)])}

    @staticmethod
    def _check_range(chosen: Array | None, dimension: Dimension, axis: int) -> None:
        if chosen is None or not chosen.size or dimension.high == INFINITY:
            return
        low, high = int(chosen.min()), int(chosen.max())
        if not (-dimension.high <= low and high < dimension.high):
            raise InferenceError(f"indices from {low} to {high} lie outside dimension {axis} of {dimension} elements")

    def evaluate(self, *inputs: Array) -> Array:
        data, indices, axis = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        batch = self.batch(indices.ndim)
        indices = as_indices(indices)
        if batch == 0:
            # NumPy returns a single object, such as a string, without an array.
            return np.asarray(take(data, indices, at), data.dtype)
        # Each batch dimension gets an index of its own that runs along with the others.
        shared = data.shape[:batch]
        moved = np.moveaxis(data, at, batch)
        lead = np.ogrid[tuple(slice(n) for n in shared)]
        tail = (1,) * (indices.ndim - batch)
        places = tuple(index.reshape(index.shape + tail) for index in lead)
        picked = moved[(*places, indices)]
        # The dimensions between the batch and the axis are now behind the indices.
        between = range(indices.ndim, indices.ndim + at - batch)
        return np.moveaxis(picked, tuple(between), tuple(range(batch, at)))


@operation("Gather", opset=1)
class Gather1(Gather):
    """Gather without batch dimensions."""


@operation("Gather", opset=7)
class Gather7(Gather):
    """Gather within the first ``batch_dims`` dimensions, which data and indices share."""

    batch_dims: int = integer(default=0)

    def batch(self, rank: int) -> int:
        return self.batch_dims + (rank if self.batch_dims < 0 else 0)


@operation("Gather", opset=8)
class Gather8(Gather7):
    """Adds negative indices."""


@operation("GatherElements", opset=6)
class GatherElements6(Operation):
    """Element by element: ``out[i][j] = data[i][indices[i][j]]`` for axis 1; shaped like indices.

    Data and indices have one rank, and equal dimensions beside the axis.
    """

    inputs = (2, 2)
    movement = True
    axis: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, indices = inputs
        check_indices(indices)
        if not data.shape.has_rank or not indices.shape.has_rank:
            shape_source = indices.shape if indices.shape.has_rank else data.shape
            shape = PartialShape.of_rank(shape_source.rank) if shape_source.has_rank else shape_source
            return [TensorType(data.element_type, indices.shape if indices.shape.has_rank else shape)]
        if data.shape.rank != indices.shape.rank:
            raise InferenceError(f"data and indices must have one rank, but are {data.shape} and {indices.shape}")
        at = normalize_axis(self.axis, data.shape.rank)
        merged = data.shape.replace(at, None).merge(indices.shape)
        if merged is None:
            raise InferenceError(f"{data.shape} and {indices.shape} must agree beside axis {at}")
        return [TensorType(data.element_type, merged)]

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        data = inputs[0].shape
        return {1: required_indices(data, [normalize_axis(self.axis, data.rank)])} if data.has_rank else {}

    def evaluate(self, *inputs: Array) -> Array:
        data, indices = inputs
        at = normalize_axis(self.axis, data.ndim)
        return np.take_along_axis(data, from_front(indices, data.shape[at]), at)


class _GatherND(Operation):
    """Each index tuple along the last dimension of indices picks one slice of data.

    Data and indices share the first ``batch_dims`` dimensions.
    """

    inputs = (2, 2)
    movement = True
    batch_dims: int = integer(default=0)

    def joins_batches(self) -> bool:
        """True if the batch dimensions of the output are one dimension."""
        return False

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, indices = inputs
        check_indices(indices)
        element_type, batch = data.element_type, self.batch_dims
        if not (data.shape.has_rank and indices.shape.has_rank):
            return [TensorType(element_type, PartialShape.dynamic())]
        if not 0 <= batch < min(data.shape.rank, indices.shape.rank):
            raise InferenceError(
                f"there cannot be {batch} batch dimensions in data of {data.shape} and indices of {indices.shape}"
            )
        shared = PartialShape(data.shape.dims[:batch]).merge(PartialShape(indices.shape.dims[:batch]))
        if shared is None:
            raise InferenceError(f"{data.shape} and {indices.shape} must share the first {batch} dimensions")
        if not indices.shape[-1].is_static:
            return [TensorType(element_type, PartialShape.dynamic())]
        depth = indices.shape[-1].value
        if batch + depth > data.shape.rank:
            raise InferenceError(f"indices name {depth} dimensions behind {batch}, but the data have {data.shape.rank}")
        lead = [shared.element_count()] if self.joins_batches() and batch > 1 else list(shared)
        dims = [*lead, *indices.shape.dims[batch:-1], *data.shape.dims[batch + depth :]]
        return [TensorType(element_type, PartialShape(dims))]

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        return {1: required_tuples(inputs[0].shape, inputs[1].shape, self.batch_dims)}

    def evaluate(self, *inputs: Array) -> Array:
        data, indices = inputs
        batch, depth = self.batch_dims, indices.shape[-1]
        lead = np.ogrid[tuple(slice(n) for n in data.shape[:batch])]
        tail = (1,) * (indices.ndim - 1 - batch)
        places = [index.reshape(index.shape + tail) for index in (lead if batch else ())]
        places += [from_front(indices[..., i], data.shape[batch + i]) for i in range(depth)]
        if not places:
            return np.broadcast_to(data, indices.shape[:-1] + data.shape)
        picked = data[tuple(np.broadcast_arrays(*places)) if depth else tuple(places)]
        if not depth:
            picked = np.broadcast_to(
                picked.reshape(data.shape[:batch] + tail + data.shape[batch:]), indices.shape[:-1] + data.shape[batch:]
            )
        if self.joins_batches() and batch > 1:
            return picked.reshape(-1, *picked.shape[batch:])
        return picked


@operation("GatherND", opset=5)
class GatherND5(_GatherND):
    """The batch dimensions of the output are one dimension."""

    def joins_batches(self) -> bool:
        return True


@operation("GatherND", opset=8)
class GatherND8(_GatherND):
    """The batch dimensions of the output are those of the inputs."""


class _OneHot(Operation):
    """A new dimension at ``axis`` that holds on_value at the index, and off_value elsewhere.

    Inputs: indices, depth (a scalar: the length of the new dimension), on_value and off_value (scalars).
    An index out of range gives off_value alone.
    """

    inputs = (4, 4)
    axis: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        indices, depth, on, off = inputs
        check_indices(indices)
        element_type = merge_types([on, off])
        bounds = depth.known_bounds
        dimension = DYNAMIC if bounds is None else bounds.dimensions()[0]
        if bounds is not None and int(bounds.upper.reshape(-1)[0]) < 0:
            raise InferenceError(f"the depth must not be negative, but is {bounds.upper}")
        if not indices.shape.has_rank:
            return [TensorType(element_type, PartialShape.dynamic())]
        at = normalize_axis(self.axis, indices.shape.rank + 1)
        dims = [*indices.shape.dims[:at], dimension, *indices.shape.dims[at:]]
        return [TensorType(element_type, PartialShape(dims))]

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        """Return what indices must be that have a position."""
        depth = inputs[1].constant
        return {} if depth is None or not depth.size else {0: Required(0, max(0, int(depth.reshape(-1)[0]) - 1))}

    def front(self, indices: Array, depth: int) -> Array:
        """Each index as a position; one out of range has no position."""
        return indices

    def evaluate(self, *inputs: Array) -> Array:
        indices, depth, on, off = inputs
        count = int(depth.reshape(-1)[0])
        at = normalize_axis(self.axis, indices.ndim + 1)
        shape = [1] * (indices.ndim + 1)
        shape[at] = count
        chosen = np.expand_dims(self.front(indices.astype(np.int64), count), at) == np.arange(count).reshape(shape)
        return np.where(chosen, on.reshape(()), off.reshape(()))

    def moved_inputs(self, count: int) -> Sequence[int]:
        return (2, 3)


@operation("OneHot", opset=1)
class OneHot1(_OneHot):
    """Negative indices are out of range."""


@operation("OneHot", opset=16)
class OneHot16(_OneHot):
    """Negative indices are out of range, or count from the end."""

    negative_indices_mode: str = enum("ignore_negative", "normalize", default="ignore_negative")

    def front(self, indices: Array, depth: int) -> Array:
        if self.negative_indices_mode == "ignore_negative":
            return indices
        return np.where(indices < 0, indices + depth, indices)


@operation("NonZero", opset=3)
class NonZero3(Operation):
    """The positions of all elements that are not zero, one column each, in row-major order.

    The output has one row a dimension; a scalar counts as a list of one element.
    """

    inputs = (1, 1)
    value_range = positions
    output_type: ElementType = type_of_elements(default=element_types.i64)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        count = shape.element_count()
        rank = max(1, shape.rank) if shape.has_rank else None
        return [TensorType(self.output_type, PartialShape([rank, Dimension(0, count.high)]))]

    def evaluate(self, *inputs: Array) -> Array:
        return np.array(np.nonzero(np.atleast_1d(inputs[0])), self.output_type.dtype)
