"""Operations that move values without computing any: Reshape, Transpose, Concat, Broadcast ...

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/shape/reshape-1.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape, broadcast, normalize_axes, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, operation
from ir_runtime.graph.shapes import quotient

from .elementwise import merge_types


def target_dimensions(target: TensorType) -> list[Dimension] | None:
    """The dimensions in an input that holds a shape; None where even their number is unknown."""
    bounds = target.known_bounds
    if bounds is not None:
        return bounds.dimensions()
    if target.shape.has_rank and target.shape.rank == 1 and target.shape[0].is_static:
        return [DYNAMIC] * target.shape[0].value
    return None


@operation("Reshape", opset=1)
class Reshape1(Operation):
    """The same values in row-major order under another shape.

    One dimension may be -1, which follows from the number of elements; with ``special_zero`` a 0 keeps the
    input's dimension.
    """

    inputs = (2, 2)
    movement = True
    special_zero: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, target = inputs
        element_type = data.element_type
        bounds = target.known_bounds
        if bounds is None:
            count = target.shape.element_count() if target.shape.has_rank else DYNAMIC
            shape = PartialShape.of_rank(count.value) if count.is_static else PartialShape.dynamic()
            return [TensorType(element_type, shape)]
        dims: list[Dimension | None] = []
        kept_axes: set[int] = set()
        perhaps_kept = False
        pairs = zip(bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist())
        for index, (low, high) in enumerate(pairs):
            if low == high == -1:
                if None in dims:
                    raise InferenceError("at most one dimension may be -1")
                dims.append(None)
            elif high < -1:
                raise InferenceError(f"{high} is no dimension")
            elif low == high == 0 and self.special_zero:
                if data.shape.has_rank and index >= data.shape.rank:
                    raise InferenceError(f"dimension {index} is to be kept, but data has the shape {data.shape}")
                dims.append(data.shape[index] if data.shape.has_rank else DYNAMIC)
                kept_axes.add(index)
            elif low < 0:
                perhaps_kept = perhaps_kept or (self.special_zero and high >= 0)
                # It might be -1.
                dims.append(DYNAMIC)
            elif low == 0 and self.special_zero:
                perhaps_kept = True
                kept_dimension = data.shape[index] if data.shape.has_rank and index < data.shape.rank else DYNAMIC
                dims.append(Dimension(low, high).union(kept_dimension))
            else:
                dims.append(Dimension(low, high))
        if perhaps_kept and None in dims and data.shape.element_count().low == 0:
            # Without elements, the dimension for -1 depends on which empty dimensions are kept.
            dims = [DYNAMIC if dimension is None else dimension for dimension in dims]
        return [TensorType(element_type, self._fill(data.shape, dims, kept_axes))]

    @staticmethod
    def _fill(source: PartialShape, dims: list[Dimension | None], kept_axes: set[int]) -> PartialShape:
        """The output shape, with the dimension for -1 (None in ``dims``) computed from those without ``kept_axes``."""
        have = PartialShape([d for i, d in enumerate(source) if i not in kept_axes] if source.has_rank else None)
        taken = PartialShape([d for i, d in enumerate(dims) if d is not None and i not in kept_axes])
        rest = quotient(have.element_count(), taken.element_count())
        fits = have.element_count().merge(taken.element_count()) if None not in dims else rest
        if fits is None:
            shape_text = ",".join("-1" if d is None else str(d) for d in dims)
            raise InferenceError(f"the elements of {source} do not fit into [{shape_text}]")
        return PartialShape([rest if dimension is None else dimension for dimension in dims])

    def evaluate(self, *inputs: Array) -> Array:
        data, target = inputs
        dimensions: list[int] = target.reshape(-1).tolist()
        kept_axes = {i for i, dimension in enumerate(dimensions) if dimension == 0} if self.special_zero else set()
        shape = [data.shape[i] if i in kept_axes else dimension for i, dimension in enumerate(dimensions)]
        if -1 in shape and data.size == 0:
            # The kept dimensions do not affect the dimension for -1, even if one is empty.
            rest = math.prod(
                dimension for i, dimension in enumerate(dimensions) if dimension != -1 and i not in kept_axes
            )
            have = math.prod(dimension for i, dimension in enumerate(data.shape) if i not in kept_axes)
            shape[shape.index(-1)] = have // rest if rest else 0
        return data.reshape(shape)


@operation("Transpose", opset=1)
class Transpose1(Operation):
    """Output dimension ``i`` is input dimension ``order[i]``; an empty order reverses them all."""

    inputs = (2, 2)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, order = inputs
        constant = order.constant
        if constant is None or not data.shape.has_rank:
            if constant is not None and constant.size:
                return [TensorType(data.element_type, PartialShape.of_rank(constant.size))]
            shape = PartialShape.of_rank(data.shape.rank) if data.shape.has_rank else PartialShape.dynamic()
            return [TensorType(data.element_type, shape)]
        rank = data.shape.rank
        axes = constant.tolist() or list(range(rank))[::-1]
        if sorted(axes) != list(range(rank)):
            raise InferenceError(f"{axes} is not an order of the {rank} dimensions of {data.shape}")
        return [TensorType(data.element_type, PartialShape([data.shape[axis] for axis in axes]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, order = inputs
        return np.transpose(data, order.tolist() or None)


@operation("Squeeze", opset=1)
class Squeeze1(Operation):
    """Drops the dimensions ``axes``, which are 1, or all dimensions that are 1."""

    inputs = (1, 2)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = inputs[0]
        axes = inputs[1].constant if len(inputs) > 1 else np.empty(0, np.int64)
        if not data.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        if axes is None:
            count = inputs[1].shape.element_count()
            is_count_constant = count.is_static and 0 < count.value <= data.shape.rank
            shape = PartialShape.of_rank(data.shape.rank - count.value) if is_count_constant else PartialShape.dynamic()
            return [TensorType(data.element_type, shape)]
        if axes.size == 0:
            if any(not d.is_static and d.contains(1) for d in data.shape):
                return [TensorType(data.element_type, PartialShape.dynamic())]
            kept_dims = [d for d in data.shape if d != Dimension(1, 1)]
            return [TensorType(data.element_type, PartialShape(kept_dims))]
        dropped = normalize_axes(np.atleast_1d(axes).tolist(), data.shape.rank)
        for axis in dropped:
            if not data.shape[axis].contains(1):
                raise InferenceError(f"dimension {axis} of {data.shape} is not 1 and cannot be dropped")
        return [TensorType(data.element_type, PartialShape([d for i, d in enumerate(data.shape) if i not in dropped]))]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        axes = np.atleast_1d(inputs[1]).tolist() if len(inputs) > 1 else []
        return np.squeeze(data, tuple(axes) if axes else None)


@operation("Squeeze", opset=15)
class Squeeze15(Squeeze1):
    """With ``allow_axis_skip`` a dimension in ``axes`` that is not 1 is kept."""

    allow_axis_skip: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if not self.allow_axis_skip or len(inputs) < 2:
            return super().infer(inputs)
        data = inputs[0]
        axes = inputs[1].constant
        if axes is None or not data.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        named = [i for i in normalize_axes(np.atleast_1d(axes).tolist(), data.shape.rank) if data.shape[i].contains(1)]
        if any(not data.shape[i].is_static for i in named):
            return [TensorType(data.element_type, PartialShape.dynamic())]
        return [TensorType(data.element_type, PartialShape([d for i, d in enumerate(data.shape) if i not in named]))]

    def evaluate(self, *inputs: Array) -> Array:
        if not self.allow_axis_skip or len(inputs) < 2:
            return super().evaluate(*inputs)
        data = inputs[0]
        named = normalize_axes(np.atleast_1d(inputs[1]).tolist(), data.ndim)
        return np.squeeze(data, tuple(axis for axis in named if data.shape[axis] == 1))


@operation("Unsqueeze", opset=1)
class Unsqueeze1(Operation):
    """Inserts dimensions of 1, which are the dimensions ``axes`` of the output."""

    inputs = (2, 2)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axes = inputs
        constant = axes.constant
        if not data.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        if constant is None:
            count = axes.shape.element_count()
            shape = PartialShape.of_rank(data.shape.rank + count.value) if count.is_static else PartialShape.dynamic()
            return [TensorType(data.element_type, shape)]
        rank = data.shape.rank + constant.size
        inserted = normalize_axes(np.atleast_1d(constant).tolist(), rank)
        rest = iter(data.shape)
        return [TensorType(data.element_type, PartialShape([1 if i in inserted else next(rest) for i in range(rank)]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, axes = inputs
        return np.expand_dims(data, tuple(np.atleast_1d(axes).tolist()))


@operation("Concat", opset=1)
class Concat1(Operation):
    """The inputs one after another along ``axis``."""

    inputs = (1, None)
    axis: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types(inputs)
        ranked = [value.shape for value in inputs if value.shape.has_rank]
        if not ranked:
            return [TensorType(element_type, PartialShape.dynamic())]
        rank = ranked[0].rank
        if any(shape.rank != rank for shape in ranked):
            raise InferenceError(f"all inputs must have one rank, but are {', '.join(map(str, ranked))}")
        axis = normalize_axis(self.axis, rank)
        total = Dimension(0, 0)
        common = PartialShape.of_rank(rank)
        for value in inputs:
            shape = value.shape if value.shape.has_rank else PartialShape.of_rank(rank)
            total = total + shape[axis]
            merged = common.merge(shape.replace(axis, DYNAMIC))
            if merged is None:
                raise InferenceError(f"the inputs differ beside axis {axis}: {', '.join(map(str, ranked))}")
            common = merged
        return [TensorType(element_type, common.replace(axis, total))]

    def moved_inputs(self, count: int) -> Sequence[int]:
        return range(count)

    def evaluate(self, *inputs: Array) -> Array:
        return np.concatenate(inputs, self.axis)


class Broadcast(Operation):
    """The input, repeated to the target shape."""

    inputs = (2, 3)
    movement = True
    modes = ("numpy", "explicit")
    mode: str

    def target(self, inputs: Sequence[TensorType]) -> PartialShape:
        dims = target_dimensions(inputs[1])
        return PartialShape.dynamic() if dims is None else PartialShape(dims)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, target = inputs[0], self.target(inputs)
        mode = getattr(self, "mode", "numpy")
        if mode == "bidirectional":
            return [TensorType(data.element_type, broadcast(data.shape, target))]
        static = data.shape.has_rank and target.has_rank and target.is_static
        if mode == "numpy" and static:
            too_long = data.shape.rank > target.rank
            if too_long or broadcast(data.shape, target).merge(target) is None:
                raise InferenceError(f"{data.shape} cannot be repeated to {target}")
        return [TensorType(data.element_type, target)]

    def evaluate(self, *inputs: Array) -> Array:
        data, shape = inputs[0], tuple(inputs[1].reshape(-1).tolist())
        mode = getattr(self, "mode", "numpy")
        if mode == "bidirectional":
            return np.broadcast_to(data, np.broadcast_shapes(data.shape, shape))
        if mode == "explicit":
            placed = [1] * len(shape)
            for axis, dimension in zip(inputs[2].tolist(), data.shape):
                placed[axis] = dimension
            data = data.reshape(placed)
        return np.broadcast_to(data, shape)


@operation("Broadcast", opset=1)
class Broadcast1(Broadcast):
    """Modes numpy and explicit."""

    mode: str = enum("numpy", "explicit", default="numpy")


@operation("Broadcast", opset=3)
class Broadcast3(Broadcast):
    """Adds bidirectional: the target may have dimensions of 1, too."""

    mode: str = enum("numpy", "explicit", "bidirectional", default="numpy")


@operation("Tile", opset=1)
class Tile1(Operation):
    """The data repeated ``repeats[i]`` times along each dimension.

    Where repeats and the data's rank differ, the shorter of the two is filled up with ones in front.
    """

    inputs = (2, 2)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, repeats = inputs
        times = target_dimensions(repeats)
        if times is None or not data.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        constant = repeats.constant
        if constant is not None and (constant < 0).any():
            raise InferenceError(f"repeats must not be negative, but are {constant.tolist()}")
        unit = Dimension(1, 1)
        rank = max(len(times), data.shape.rank)
        dims = [unit] * (rank - data.shape.rank) + list(data.shape)
        times = [unit] * (rank - len(times)) + times
        return [TensorType(data.element_type, PartialShape([d * n for d, n in zip(dims, times)]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, repeats = inputs
        return np.tile(data, repeats.reshape(-1).tolist())
