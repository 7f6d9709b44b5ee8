"""Placing updates by index: ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/scatter-elements-update-12.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, PartialShape, normalize_axis
from ir_runtime.graph.operation import Operation, Required, TensorType, boolean, enum, operation, required_indices

from .elementwise import merge_types


def check_indices(indices: TensorType) -> None:
    """Raises :class:`InferenceError` unless they are integers."""
    if not (indices.element_type.is_integral or indices.element_type.is_dynamic):
        raise InferenceError(f"indices must be integers, but are {indices.element_type}")


def from_front(indices: Array, dimension: int) -> Array:
    """Indices of which negative ones count from the end, all from the front, as signed integers."""
    signed = indices.astype(np.int64, copy=False)
    if signed.size and not (-dimension <= signed.min() and signed.max() < dimension):
        raise InferenceError(f"indices from {signed.min()} to {signed.max()} lie outside {dimension} elements")
    return np.where(signed < 0, signed + dimension, signed)


def required_tuples(data: PartialShape, indices: PartialShape, batch: int = 0) -> Required | None:
    """Return what is required of tuples of indices, which name as many axes of ``data`` behind the ``batch``."""
    if not data.has_rank or not indices.has_rank or not indices.rank:
        return None
    return required_indices(data, range(batch, batch + indices[-1].value if indices[-1].is_static else data.rank))


class _Scatter(Operation):
    """Shared by all: a copy of data with updates placed by indices; type and shape are data's."""

    inputs = (4, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, indices, updates = inputs[:3]
        check_indices(indices)
        element_type = merge_types([data, updates])
        if data.shape.has_rank and len(inputs) > 3:
            constant = inputs[3].constant
            if constant is not None:
                normalize_axis(int(constant.reshape(-1)[0]), data.shape.rank)
        self.check_shapes(data.shape, indices.shape, updates.shape)
        return [TensorType(element_type, data.shape)]

    def check_shapes(self, data: PartialShape, indices: PartialShape, updates: PartialShape) -> None:
        """Raises :class:`InferenceError` where the shapes contradict each other."""

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        data, axis = inputs[0].shape, inputs[3].constant
        if axis is None or not data.has_rank:
            return {}
        return {1: required_indices(data, [normalize_axis(int(axis.reshape(-1)[0]), data.rank)])}

    def moved_inputs(self, count: int) -> Sequence[int]:
        return (0, 2) if getattr(self, "reduction", "none") == "none" else ()


@operation("ScatterUpdate", opset=3)
class ScatterUpdate3(_Scatter):
    """Whole slices along ``axis`` are replaced: ``out[..., indices[i], ...] = updates[..., i, ...]``.

    Inputs: data, indices, updates (shaped as a Gather of data by indices), axis.
    """

    def check_shapes(self, data: PartialShape, indices: PartialShape, updates: PartialShape) -> None:
        if data.has_rank and indices.has_rank and updates.has_rank and updates.rank != data.rank + indices.rank - 1:
            raise InferenceError(
                f"updates must have {data.rank + indices.rank - 1} dimensions, but have the shape {updates}"
            )

    def evaluate(self, *inputs: Array) -> Array:
        data, indices, updates, axis = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        out = data.copy()
        out[(slice(None),) * at + (from_front(indices, data.shape[at]),)] = updates
        return out


_REDUCERS: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
}


def _neutral(reduction: str, dtype: np.dtype[Any]) -> Any:
    """The initial value of a reduction that does not use the value in ``data``."""
    if reduction == "prod":
        return 1
    if reduction not in ("min", "max"):
        return 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if reduction == "min" else info.min
    if dtype == np.bool_:
        return reduction == "min"
    return np.inf if reduction == "min" else -np.inf


def scatter(data: Array, places: Any, updates: Array, reduction: str, use_init: bool = True) -> Array:
    """A copy of ``data`` in which ``updates`` are placed at, or reduced into, ``places``.

    Small floats are reduced in float32 and rounded once. Booleans: sum is or, prod is and.
    """
    if reduction == "none":
        out = data.copy()
        out[places] = updates
        return out
    small = data.dtype.itemsize < 4 and data.dtype.kind not in "iub"
    out = data.astype(np.float32) if small else data.copy()
    values = updates.astype(out.dtype, copy=False)
    if not use_init:
        out[places] = _neutral(reduction, out.dtype)
    with np.errstate(all="ignore"):
        _REDUCERS[reduction].at(out, places, values)
    if reduction == "mean":
        counts = np.zeros(out.shape, np.int64)
        np.add.at(counts, places, 1)
        counts += 1 if use_init else counts == 0
        out = out // counts.astype(out.dtype) if out.dtype.kind in "iu" else out / counts
    return out.astype(data.dtype, copy=False)


class _ScatterElements(_Scatter):
    """Element by element: ``out[i][indices[i][j]] = updates[i][j]`` for axis 1.

    Inputs: data, indices, updates of the shape of indices, axis. Of several updates to one place the
    last wins, unless they are reduced.
    """

    def check_shapes(self, data: PartialShape, indices: PartialShape, updates: PartialShape) -> None:
        if indices.merge(updates) is None:
            raise InferenceError(f"indices and updates must have one shape, but have {indices} and {updates}")
        if data.has_rank and indices.has_rank and data.rank != indices.rank:
            raise InferenceError(f"indices must have the rank of the data {data}, but have the shape {indices}")

    def evaluate(self, *inputs: Array) -> Array:
        data, indices, updates, axis = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[at] = from_front(indices, data.shape[at])
        reduction, use_init = getattr(self, "reduction", "none"), getattr(self, "use_init_val", True)
        return scatter(data, tuple(places), updates, reduction, use_init)


@operation("ScatterElementsUpdate", opset=3)
class ScatterElementsUpdate3(_ScatterElements):
    """Updates replace the values in data."""


@operation("ScatterElementsUpdate", opset=12)
class ScatterElementsUpdate12(_ScatterElements):
    """Updates may be reduced, with the value in data or (``use_init_val`` false) without it."""

    reduction: str = enum("none", "sum", "prod", "min", "max", "mean", default="none")
    use_init_val: bool = boolean(default=True)


class _ScatterND(_Scatter):
    """Each index tuple along the last dimension of indices places one slice of updates.

    Inputs: data, indices ``[..., k]``, updates ``[..., *data.shape[k:]]``.
    """

    inputs = (3, 3)

    def check_shapes(self, data: PartialShape, indices: PartialShape, updates: PartialShape) -> None:
        if not (data.has_rank and indices.has_rank):
            return
        if indices.rank == 0:
            raise InferenceError("indices must have at least one dimension")
        if not indices[-1].is_static:
            return
        depth = indices[-1].value
        if depth > data.rank:
            raise InferenceError(f"indices name {depth} dimensions, but the data have {data.rank}")
        expected = PartialShape([*indices.dims[:-1], *data.dims[depth:]])
        if expected.merge(updates) is None:
            raise InferenceError(f"updates must have the shape {expected}, but have {updates}")

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        return {1: required_tuples(inputs[0].shape, inputs[1].shape)}

    def evaluate(self, *inputs: Array) -> Array:
        data, indices, updates = inputs
        depth = indices.shape[-1]
        if not depth:
            raise InferenceError("index tuples must name at least one dimension")
        places = tuple(from_front(indices[..., i], data.shape[i]) for i in range(depth))
        return scatter(data, places, updates, getattr(self, "reduction", "none"))


@operation("ScatterNDUpdate", opset=4)
class ScatterNDUpdate4(_ScatterND):
    """Updates replace the values in data."""


@operation("ScatterNDUpdate", opset=15)
class ScatterNDUpdate15(_ScatterND):
    """Updates may be reduced with the value in data."""

    reduction: str = enum("none", "sum", "sub", "prod", "min", "max", default="none")
