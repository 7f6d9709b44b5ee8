"""Parts of a tensor: Slice, StridedSlice, Split, VariadicSplit, SliceScatter.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/slice-8.html
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, INFINITY, Array, Dimension, PartialShape, normalize_axes, normalize_axis
from ir_runtime.graph.operation import Operation, Required, TensorType, integer, integers, operation
from ir_runtime.graph.value_ranges import Bounds

from .elementwise import merge_types

_FAR = 2**31 - 1
"""A start or stop from here on, or up to its negative, means the end of the dimension on that side."""

_ENDLESS = 1 << 80
"""Stands for an unbounded dimension when an upper bound is computed: no known count reaches it."""

_BEYOND = 1 << 90
"""A position out of range of all dimensions, :data:`_ENDLESS` too."""

Interval = tuple[int, int]


def _flat(array: Array) -> list[int]:
    values: list[int] = array.reshape(-1).tolist()
    return values


def sliced_dimension(size: Dimension, start: Interval, stop: Interval, step: int) -> Dimension:
    """The number of elements of ``start:stop:step``, where start and stop lie in the given intervals.

    Negative positions count from the end, those out of range are moved to the nearest end, as in Python.
    For the upper bound, a start or stop beyond 2^31 - 2 on either side is the end of the dimension: exporters
    write open ends as the greatest number of 32 or of 64 bits.
    """
    counts: list[Dimension] = []
    for low_start, high_start in _halves(start):
        for low_stop, high_stop in _halves(stop):
            # For each sign the position is monotonic in start and stop, so that the ends of the intervals decide.
            first, last = (low_start, high_stop) if step > 0 else (high_start, low_stop)
            endless = _ENDLESS if size.high == INFINITY else size.high
            most = max(_distances(size.low, endless, _open_end(first, step < 0), _open_end(last, step > 0), step))
            first, last = (high_start, low_stop) if step > 0 else (low_start, high_stop)
            least = min(_distances(size.low, size.high, first, last, step))
            counts.append(Dimension(_steps(least, step), _steps(most, step)))
    return functools.reduce(Dimension.union, counts)


def _halves(ends: Interval) -> list[Interval]:
    """An interval of positions without a change of sign: the part counted from the end, and the other."""
    low, high = ends
    return [part for part in ((low, min(high, -1)), (max(low, 0), high)) if part[0] <= part[1]]


def _open_end(position: int, upwards: bool) -> int:
    """A position that means the end of the dimension on its side, moved beyond all dimensions."""
    if upwards:
        return _BEYOND if position >= _FAR else position
    return -_BEYOND if position <= -_FAR else position


def _distances(low: int, high: int, start: int, stop: int, step: int) -> list[int]:
    """Distances from start to stop for dimensions from low to high; the least and the greatest are among them."""
    # The distance is linear in the dimension between the dimensions at which a position comes into range.
    bends = [turn for end in (start, stop) for turn in (abs(end), abs(end + 1))]
    sizes = [low, high, *[turn for turn in bends if low < turn < high]]
    return [_distance(size, start, stop, step) for size in sizes]


def _distance(size: int, start: int, stop: int, step: int) -> int:
    least, most = (0, size) if step > 0 else (-1, size - 1)
    first, last = (min(max(end + size if end < 0 else end, least), most) for end in (start, stop))
    return max(0, last - first if step > 0 else first - last)


def _steps(distance: int, step: int) -> int:
    return INFINITY if distance >= INFINITY else -(-distance // abs(step))


def _checked_step(step: int) -> int:
    if step == 0:
        raise InferenceError("the step of a slice must not be 0")
    return step


def _slices(rank: int, axes: Sequence[int] | None, *parts: Array) -> tuple[slice, ...]:
    """Return one slice per dimension from lists of starts, stops and steps."""
    starts, stops, steps = (_flat(part) for part in parts)
    chosen = [slice(None)] * rank
    names = range(len(starts)) if axes is None else axes
    for axis, start, stop, step in zip(normalize_axes(names, rank), starts, stops, steps):
        chosen[axis] = slice(start, stop, _checked_step(step))
    return tuple(chosen)


def _check_lists(names: Sequence[str], inputs: Sequence[TensorType]) -> int | None:
    """The length of the lists; raises :class:`InferenceError` where it differs."""
    count: Dimension = DYNAMIC
    for name, value in zip(names, inputs):
        if not (value.element_type.is_integral or value.element_type.is_dynamic):
            raise InferenceError(f"{name} must hold integers, but holds {value.element_type}")
        if not value.shape.has_rank:
            continue
        if value.shape.rank != 1:
            raise InferenceError(f"{name} must be a list, but has the shape {value.shape}")
        merged = count.merge(value.shape[0])
        if merged is None:
            raise InferenceError(
                f"{', '.join(names)} must have one length, but {name} has {value.shape[0]}, not {count}"
            )
        count = merged
    return count.value if count.is_static else None


def _interval(bounds: Bounds | None, index: int) -> Interval:
    if bounds is None:
        return -INFINITY, INFINITY
    return int(bounds.lower.reshape(-1)[index]), int(bounds.upper.reshape(-1)[index])


def _sliced_shape(shape: PartialShape, parts: Sequence[TensorType], axes: TensorType | None) -> PartialShape:
    start, stop, step = parts
    count = _check_lists(("start", "stop", "step", "axes"), [*parts, *([axes] if axes else [])])
    if not shape.has_rank:
        return PartialShape.dynamic()
    steps = step.constant
    names = None if axes is None else axes.constant
    if (axes is not None and names is None) or count is None:
        # Some dimensions get shorter, and none longer.
        return PartialShape([Dimension(0, size.high) for size in shape])
    chosen = normalize_axes(range(count) if names is None else _flat(names), shape.rank)
    dims = list(shape)
    for index, axis in enumerate(chosen):
        if steps is None:
            dims[axis] = Dimension(0, dims[axis].high)
            continue
        by = _checked_step(int(steps.reshape(-1)[index]))
        low, high = _interval(start.known_bounds, index), _interval(stop.known_bounds, index)
        dims[axis] = sliced_dimension(dims[axis], low, high, by)
    return PartialShape(dims)


@operation("Slice", opset=8)
class Slice8(Operation):
    """``data[start:stop:step]`` along ``axes``, by default the first ones.

    Inputs: data, then start, stop, step and optionally axes, lists of integers of one length.
    Positions are Python's: negative ones count from the end, those beyond it are moved there.
    """

    inputs = (4, 5)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        axes = inputs[4] if len(inputs) > 4 else None
        return [TensorType(inputs[0].element_type, _sliced_shape(inputs[0].shape, inputs[1:4], axes))]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        axes = _flat(inputs[4]) if len(inputs) > 4 else None
        return data[_slices(data.ndim, axes, *inputs[1:4])]


@operation("SliceScatter", opset=15)
class SliceScatter15(Operation):
    """``data`` with its part ``[start:stop:step]`` replaced by ``updates``, which have its shape.

    Inputs: data, updates, start, stop, step and optionally axes.
    """

    inputs = (5, 6)

    def moved_inputs(self, count: int) -> Sequence[int]:
        return (0, 1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, updates = inputs[:2]
        part = _sliced_shape(data.shape, inputs[2:5], inputs[5] if len(inputs) > 5 else None)
        part_of_updates = part.merge(updates.shape)
        if part_of_updates is None:
            raise InferenceError(f"the updates must have the shape {part}, but have {updates.shape}")
        # The updates have as many dimensions as the data.
        ranked = part_of_updates.has_rank and not data.shape.has_rank
        shape = PartialShape.of_rank(part_of_updates.rank) if ranked else data.shape
        return [TensorType(merge_types([data, updates]), shape)]

    def evaluate(self, *inputs: Array) -> Array:
        data, updates = inputs[:2]
        out = data.copy()
        out[_slices(data.ndim, _flat(inputs[5]) if len(inputs) > 5 else None, *inputs[2:5])] = updates
        return out


@operation("StridedSlice", opset=1)
class StridedSlice1(Operation):
    """``data[begin:end:strides]`` with masks, one number a position of ``begin``.

    A 1 in ``begin_mask`` or ``end_mask`` takes everything on that side. ``new_axis_mask`` inserts a
    dimension of 1, ``shrink_axis_mask`` takes the one element at begin and drops the dimension, and
    a 1 in ``ellipsis_mask`` takes all dimensions that no other position takes.
    """

    inputs = (3, 4)
    movement = True
    begin_mask: Sequence[int] = integers(default=())
    end_mask: Sequence[int] = integers(default=())
    new_axis_mask: Sequence[int] = integers(default=())
    shrink_axis_mask: Sequence[int] = integers(default=())
    ellipsis_mask: Sequence[int] = integers(default=())

    def plan(self, rank: int, count: int) -> Iterator[tuple[str, int, int]]:
        """Return the steps in order: (kind, dimension of data, position in begin).

        Kinds are ``new``, ``whole``, ``one`` and ``part``.
        """
        if sum(map(bool, self.ellipsis_mask)) > 1:
            raise InferenceError("ellipsis_mask may hold a single 1")
        inserted = sum(
            1 for i in range(count) if self.is_set(self.new_axis_mask, i) and not self.is_set(self.ellipsis_mask, i)
        )
        ellipsis = any(self.is_set(self.ellipsis_mask, i) for i in range(count))
        named = count - inserted - ellipsis
        if named > rank:
            raise InferenceError(f"begin names {named} dimensions, but the data have {rank}")
        axis = 0
        for i in range(count):
            if self.is_set(self.ellipsis_mask, i):
                for _ in range(rank - named):
                    yield "whole", axis, i
                    axis += 1
            elif self.is_set(self.new_axis_mask, i):
                yield "new", axis, i
            else:
                yield ("one" if self.is_set(self.shrink_axis_mask, i) else "part"), axis, i
                axis += 1
        for rest in range(axis, rank):
            yield "whole", rest, count

    @staticmethod
    def is_set(mask: Sequence[int], index: int) -> bool:
        return index < len(mask) and bool(mask[index])

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, begin, end = inputs[:3]
        element_type = data.element_type
        count = _check_lists(("begin", "end", "strides"), inputs[1:])
        if not data.shape.has_rank or count is None:
            return [TensorType(element_type, PartialShape.dynamic())]
        strides = inputs[3].constant if len(inputs) > 3 else np.ones(count, np.int64)
        dims: list[Dimension] = []
        for subject, axis, i in self.plan(data.shape.rank, count):
            if subject == "new":
                dims.append(Dimension(1, 1))
            elif subject == "whole":
                dims.append(data.shape[axis])
            elif subject == "part":
                if strides is None:
                    dims.append(Dimension(0, data.shape[axis].high))
                    continue
                step = _checked_step(int(strides.reshape(-1)[i]))
                ends = (INFINITY, -INFINITY) if step < 0 else (0, INFINITY)
                low = (ends[0], ends[0]) if self.is_set(self.begin_mask, i) else _interval(begin.known_bounds, i)
                high = (ends[1], ends[1]) if self.is_set(self.end_mask, i) else _interval(end.known_bounds, i)
                dims.append(sliced_dimension(data.shape[axis], low, high, step))
        return [TensorType(element_type, PartialShape(dims))]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        begin, end = _flat(inputs[1]), _flat(inputs[2])
        strides = _flat(inputs[3]) if len(inputs) > 3 else [1] * len(begin)
        chosen: list[Any] = []
        for subject, axis, i in self.plan(data.ndim, len(begin)):
            if subject == "new":
                chosen.append(None)
            elif subject == "whole":
                chosen.append(slice(None))
            elif subject == "one":
                first = 0 if self.is_set(self.begin_mask, i) else begin[i]
                chosen.append(normalize_axis(first, data.shape[axis], "begin"))
            else:
                low = None if self.is_set(self.begin_mask, i) else begin[i]
                high = None if self.is_set(self.end_mask, i) else end[i]
                chosen.append(slice(low, high, _checked_step(strides[i])))
        return data[tuple(chosen)]


def _axis_of(axis: TensorType) -> int | None:
    constant = axis.constant
    if constant is not None and constant.size != 1:
        raise InferenceError(f"the axis must be a single number, but has the shape {axis.shape}")
    return None if constant is None else int(constant.reshape(-1)[0])


def _with_bounds(op: Operation, inputs: Sequence[TensorType], outputs: list[TensorType]) -> list[TensorType]:
    """The outputs with the bounds of their own part of the data."""
    first = inputs[0].known_bounds
    rest = [value.constant for value in inputs[1:]]
    if first is None or any(value is None for value in rest) or not outputs:
        return outputs
    present = [value for value in rest if value is not None]
    lower, upper = op.evaluate(first.lower, *present), op.evaluate(first.upper, *present)
    return [TensorType(o.element_type, o.shape, None, Bounds(a, b)) for o, a, b in zip(outputs, lower, upper)]


@operation("Split", opset=1)
class Split1(Operation):
    """The data in ``num_splits`` equal parts along an axis (a scalar input)."""

    inputs = (2, 2)
    movement = True
    num_splits: int = integer()

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axis = inputs
        if self.num_splits < 1:
            raise InferenceError(f"num_splits must be positive, but is {self.num_splits}")
        axis_value = _axis_of(axis)
        shape = data.shape
        if shape.has_rank and axis_value is None:
            shape = PartialShape.of_rank(shape.rank)
        elif shape.has_rank and axis_value is not None:
            at = normalize_axis(axis_value, shape.rank)
            size = shape[at]
            if size.is_static and size.value % self.num_splits:
                raise InferenceError(f"dimension {at} of {shape} cannot be split into {self.num_splits} equal parts")
            high = INFINITY if size.high == INFINITY else size.high // self.num_splits
            shape = shape.replace(at, Dimension(-(-size.low // self.num_splits), high))
        outputs = [TensorType(data.element_type, shape)] * self.num_splits
        return _with_bounds(self, inputs, outputs)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        data, axis = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        if data.shape[at] % self.num_splits:
            raise InferenceError(f"{data.shape[at]} elements cannot be split into {self.num_splits} equal parts")
        return tuple(np.split(data, self.num_splits, at))


@operation("VariadicSplit", opset=1)
class VariadicSplit1(Operation):
    """The data in parts of the given lengths along an axis; one length may be -1 and takes the rest."""

    inputs = (3, 3)
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axis, lengths = inputs
        axis_value = _axis_of(axis)
        count = _check_lists(("split_lengths",), [lengths])
        if count is None:
            raise InferenceError("the number of split lengths must be known, as it is the number of outputs")
        shape = data.shape
        if not shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())] * count
        sizes = lengths.constant
        if axis_value is None or sizes is None:
            at = None if axis_value is None else normalize_axis(axis_value, shape.rank)
            dims = [Dimension(0, d.high) if at is None or i == at else d for i, d in enumerate(shape)]
            whole = PartialShape(dims)
            bounds = lengths.known_bounds
            if at is None or bounds is None:
                return [TensorType(data.element_type, whole)] * count
            parts_of = [whole.replace(at, part.merge(whole[at]) or whole[at]) for part in bounds.dimensions()]
            return [TensorType(data.element_type, part) for part in parts_of]
        at = normalize_axis(axis_value, shape.rank)
        size = shape[at]
        parts = _flat(sizes)
        rest = sum(part for part in parts if part != -1)
        if parts.count(-1) > 1 or min(parts, default=0) < -1:
            raise InferenceError(f"the split lengths {parts} must not be negative; a single one may be -1")
        if -1 in parts and rest <= size.high:
            low = max(0, size.low - rest)
            high = INFINITY if size.high == INFINITY else size.high - rest
            left = Dimension(low, high)
        elif -1 in parts or not size.contains(rest):
            raise InferenceError(f"the split lengths {parts} do not add up to dimension {at} of {shape}")
        else:
            left = DYNAMIC
        outputs = [TensorType(data.element_type, shape.replace(at, left if part == -1 else part)) for part in parts]
        return _with_bounds(self, inputs, outputs)

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        axis, shape = _axis_of(inputs[1]), inputs[0].shape
        size = shape[normalize_axis(axis, shape.rank)] if axis is not None and shape.has_rank else DYNAMIC
        return {2: Required(0, size.value, total=size.value)} if size.is_static else {}

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        data, axis, lengths = inputs
        at = normalize_axis(int(axis.reshape(-1)[0]), data.ndim)
        parts = _flat(lengths)
        if -1 in parts:
            parts[parts.index(-1)] = data.shape[at] - sum(part for part in parts if part != -1)
        if sum(parts) != data.shape[at] or min(parts, default=0) < 0:
            raise InferenceError(f"the split lengths {parts} do not add up to {data.shape[at]}")
        return tuple(np.split(data, np.cumsum(parts)[:-1], at)) if parts else ()
