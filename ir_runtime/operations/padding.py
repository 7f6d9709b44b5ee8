"""Pad: a border around a tensor, made of a constant or of the tensor's own elements.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/pad-12.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, INFINITY, Array, Dimension, PartialShape
from ir_runtime.graph.indices import take
from ir_runtime.graph.operation import Operation, TensorType, enum, operation
from ir_runtime.graph.value_ranges import Range, hull, values_and_zeros

from .elementwise import merge_types


def check_mirrored(dimension: int, begin: int, end: int, mode: str) -> None:
    """Raise :class:`InferenceError` where a dimension is too short for mode edge, reflect or symmetric."""
    if dimension + begin + end <= 0:
        return
    if mode == "edge":
        if dimension == 0:
            raise InferenceError("an empty dimension has no edge to repeat")
        return
    room = dimension - 1 if mode == "reflect" else dimension
    if max(begin, end) > room:
        raise InferenceError(
            f"mode {mode} can pad {dimension} elements by {max(room, 0)}, but not by {max(begin, end)}"
        )


def source_positions(dimension: int, begin: int, end: int, mode: str) -> Array:
    """For each place along a padded dimension the place it is taken from (edge, reflect, symmetric).

    Negative ``begin`` or ``end`` leave elements out. Raises :class:`InferenceError` where the
    dimension is too short to be mirrored that far.
    """
    check_mirrored(dimension, begin, end, mode)
    places = np.arange(-begin, dimension + end)
    if mode == "edge" or not places.size:
        return np.clip(places, 0, max(dimension - 1, 0))
    skip = 0 if mode == "reflect" else 1
    places = np.where(places < 0, -places - skip, places)
    return np.where(places >= dimension, 2 * (dimension - 1) + skip - places, places)


class Pad(Operation):
    """Adds ``pads_begin[i]`` elements before dimension ``i`` and ``pads_end[i]`` behind it.

    They are ``pad_value`` (a scalar of data's type, 0 where it is left out), the outermost element
    (edge), or a mirror image that leaves the outermost element out (reflect) or has it (symmetric).
    """

    inputs = (3, 4)
    pad_mode: str = enum("constant", "edge", "reflect", "symmetric", default="constant")

    def may_crop(self) -> bool:
        """True if negative pads, which leave elements out, are allowed."""
        return False

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, begin, end = inputs[:3]
        element_type = merge_types([data, *inputs[3:]])
        for subject, pads in (("pads_begin", begin), ("pads_end", end)):
            self._check_pads(subject, pads, data.shape)
        if len(inputs) > 3 and inputs[3].shape.has_rank and inputs[3].shape.rank:
            raise InferenceError(f"the pad value must be a scalar, but has the shape {inputs[3].shape}")
        if not data.shape.has_rank:
            counts = [pads.shape.element_count() for pads in (begin, end)]
            rank = next((count.value for count in counts if count.is_static), None)
            return [TensorType(element_type, PartialShape.dynamic() if rank is None else PartialShape.of_rank(rank))]
        before, after = begin.known_bounds, end.known_bounds
        if before is None or after is None:
            dims = [DYNAMIC if self.may_crop() else Dimension(d.low, INFINITY) for d in data.shape]
            return [TensorType(element_type, PartialShape(dims))]
        exact = before.is_exact and after.is_exact and self.pad_mode != "constant"
        dims = []
        for axis, dimension in enumerate(data.shape):
            first, last = int(before.lower.reshape(-1)[axis]), int(after.lower.reshape(-1)[axis])
            if exact and dimension.is_static:
                check_mirrored(dimension.value, first, last, self.pad_mode)
            high = int(before.upper.reshape(-1)[axis]) + int(after.upper.reshape(-1)[axis])
            dims.append(_sum(dimension, first + last, high, axis))
        return [TensorType(element_type, PartialShape(dims))]

    def _check_pads(self, subject: str, pads: TensorType, shape: PartialShape) -> None:
        if not (pads.element_type.is_integral or pads.element_type.is_dynamic):
            raise InferenceError(f"{subject} must be integers, but are {pads.element_type}")
        if pads.shape.has_rank and pads.shape.rank != 1:
            raise InferenceError(f"{subject} must be a list, but has the shape {pads.shape}")
        if shape.has_rank and not pads.shape.element_count().contains(shape.rank):
            raise InferenceError(
                f"{subject} has {pads.shape[0]} numbers, but the data {shape} have {shape.rank} dimensions"
            )
        constant = pads.constant
        if constant is not None and not self.may_crop() and (constant < 0).any():
            raise InferenceError(f"{subject} must not be negative, but is {constant.tolist()}")

    def moved_inputs(self, count: int) -> Sequence[int]:
        return (0, 3) if count > 3 else (0,)

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Without a value of their own, the pads are zeros."""
        if self.pad_mode != "constant":
            return inputs[0]
        return hull([inputs[0], inputs[3]]) if len(inputs) > 3 else values_and_zeros(self, inputs)

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        before, after = inputs[1].reshape(-1).tolist(), inputs[2].reshape(-1).tolist()
        if not self.may_crop() and any(pad < 0 for pad in before + after):
            raise InferenceError(f"pads must not be negative, but are {before} and {after}")
        if self.pad_mode == "constant":
            fill = inputs[3] if len(inputs) > 3 else np.zeros((), data.dtype)
            return _constant(data, before, after, fill)
        for axis, (begin, end) in enumerate(zip(before, after)):
            if begin or end:
                positions = source_positions(data.shape[axis], begin, end, self.pad_mode)
                data = take(data, positions, axis)
        return data


def _sum(dimension: Dimension, low: int, high: int, axis: int) -> Dimension:
    least = dimension.low + low
    most = INFINITY if dimension.high == INFINITY or high >= INFINITY else min(INFINITY, dimension.high + high)
    if most < 0:
        raise InferenceError(f"the pads leave {most} elements of dimension {axis}, which has {dimension}")
    return Dimension(max(0, min(least, INFINITY)), most)


def _constant(data: Array, before: Sequence[int], after: Sequence[int], fill: Array) -> Array:
    shape = tuple(n + begin + end for n, begin, end in zip(data.shape, before, after))
    if min(shape, default=0) < 0:
        raise InferenceError(f"pads {list(before)} and {list(after)} leave less than nothing of {list(data.shape)}")
    if min([*before, *after], default=0) >= 0 and not any([*before, *after]):
        return data
    out = np.full(shape, fill.reshape(()), data.dtype)
    target = tuple(slice(max(0, begin), n - max(0, end)) for n, begin, end in zip(shape, before, after))
    source = tuple(slice(max(0, -begin), n - max(0, -end)) for n, begin, end in zip(data.shape, before, after))
    values_inside = data[source]
    if values_inside.size:
        out[target] = values_inside
    return out


@operation("Pad", opset=1)
class Pad1(Pad):
    """Pad without negative pads."""


@operation("Pad", opset=12)
class Pad12(Pad):
    """Negative pads leave elements out."""

    def may_crop(self) -> bool:
        return True
