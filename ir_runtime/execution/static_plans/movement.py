"""Layers that move elements: views where possible, or copies, directly into a Concat's output where one reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ir_runtime.graph import Array, Node, Output, normalize_axis
from ir_runtime.operations import movement
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting.constant_folding import as_tuple

from .binding import Binding, Call, binder


@binder(movement.Transpose1, Slice8, Split1, StridedSlice1, VariadicSplit1, movement.Broadcast1, movement.Broadcast3)
def view(node: Node, b: Binding) -> list[Call] | None:
    """A view, where ``evaluate`` returns a view of its input for any values."""
    return [] if _is_view(node, b) else None


def _is_view(node: Node, b: Binding) -> bool:
    x = b.array(node.inputs[0])
    rest = [b.constant(source) for source in node.inputs[1:]]
    if x is None or not x.size or any(operand is None for operand in rest):
        return False
    results = as_tuple(node.op.evaluate(x, *[operand for operand in rest if operand is not None]))
    shapes = [output.shape.static() for output in node.outputs]
    if not all(operand.shape == shape and _shares(operand, x) for operand, shape in zip(results, shapes)):
        return False
    for output, array in zip(node.outputs, results):
        b.alias(output, array, node.inputs[0])
    return True


def _shares(array: Array, source: Array) -> bool:
    return not array.flags.owndata and np.may_share_memory(array, source)


@binder(movement.Reshape1, movement.Squeeze1, movement.Squeeze15, movement.Unsqueeze1)
def reshape(node: Node, b: Binding) -> list[Call] | None:
    """A view, or one copy: in the order in memory that the data had, where the new axes have one."""
    x = b.array(node.inputs[0])
    output = node.outputs[0]
    if x is None or not x.size:
        return None
    shape = output.shape.static()
    reshaped = x.reshape(shape)
    if _shares(reshaped, x):
        b.alias(output, reshaped, node.inputs[0])
        return []
    out = b.new(output, _kept_order(x, shape))
    target = out.reshape(x.shape)
    if not _shares(target, out):
        return [partial(_copy_reshaped, x, out)]
    return [partial(np.copyto, target, x)]


def _copy_reshaped(x: Array, out: Array) -> None:
    np.copyto(out, x.reshape(out.shape))


def _kept_order(x: Array, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The new axes from the outermost in memory to the innermost one, where each was made of whole axes."""
    axes = [axis for axis in range(x.ndim) if x.shape[axis] != 1]
    steps: list[tuple[int, int]] = []
    for position, dimension in enumerate(shape):
        if dimension == 1:
            steps.append((steps[-1][0] if steps else 1 << 62, position))
            continue
        strides = []
        count = 1
        while count < dimension and axes:
            axis = axes.pop(0)
            count *= x.shape[axis]
            strides.append(abs(x.strides[axis]))
        if count != dimension:
            return None
        steps.append((min(strides), position))
    return tuple([position for _, position in sorted(steps, key=lambda layout: -layout[0])])


@binder(movement.Concat1)
def concat(node: Node, b: Binding) -> list[Call] | None:
    """Copies of the inputs that were not computed directly into the output."""
    output = node.outputs[0]
    arrays = b.all_arrays(node.inputs)
    if arrays is None:
        return None
    axis = normalize_axis(node.op.axis, output.shape.rank)  # type: ignore[attr-defined]
    if output not in b.arrays:
        joined = _neighbours(node.inputs, arrays, axis, b)
        if joined is not None:
            b.alias(output, joined, node.inputs[0])
            return []
        b.new(output, _common_order(arrays))
    whole = b.arrays[output]
    calls: list[Call] = []
    start = 0
    for array in arrays:
        index = [slice(None)] * whole.ndim
        index[axis] = slice(start, start + array.shape[axis])
        start += array.shape[axis]
        target = whole[tuple(index)]
        if array.size and not _same(target, array):
            calls.append(partial(np.copyto, target, array))
    return calls


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _same(a: Array, other: Array) -> bool:
    return _address(a) == _address(other) and a.strides == other.strides


def _neighbours(sources: Sequence[Output], arrays: Sequence[Array], axis: int, b: Binding) -> Array | None:
    """The arrays as one, where they lie side by side in a larger Concat."""
    first = arrays[0]
    homes = [b.homes.get(source) for source in sources]
    if homes[0] is None or any(home is None or home.whole is not homes[0].whole for home in homes):
        return None
    at = _address(first)
    dimension = 0
    for array in arrays:
        if not array.size or array.strides != first.strides or _address(array) != at + dimension * first.strides[axis]:
            return None
        dimension += array.shape[axis]
    shape = [*first.shape[:axis], dimension, *first.shape[axis + 1 :]]
    # Windows of a signal that share their elements, as of a spectrogram, are for reading.
    return np.lib.stride_tricks.as_strided(first, shape, first.strides, writeable=_is_apart(shape, first.strides))


def _is_apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if no two elements of a view can be the same one."""
    extent = 0
    for stride, dimension in sorted((abs(stride), dimension) for stride, dimension in zip(strides, shape)):
        if dimension > 1:
            if stride <= extent:
                return False
            extent += stride * (dimension - 1)
    return True


def _common_order(arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """The order in memory of the largest of them."""
    largest = max(arrays, key=lambda layout: math.prod(layout.shape))
    return tuple(sorted(range(largest.ndim), key=lambda axis: -abs(largest.strides[axis])))
