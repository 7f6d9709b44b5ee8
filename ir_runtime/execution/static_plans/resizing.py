"""Interpolate and Pad: resizing as products with small matrices or sums of picked rows, padding as copies."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.interpolate import Interpolate4, Interpolate11, Taps, scaled_dimension
from ir_runtime.operations.padding import Pad1, Pad12, source_positions

from .binding import Binding, Call, as_matrix, binder, is_float32
from .elementwise import order_of
from .picking import copy_taken

_MAX_DIMENSION_FOR_MATRIX = 96
"""Up to this dimension a product with a matrix of mostly zeros is faster than picking rows one by one."""


@binder(Interpolate4, Interpolate11)
def interpolate(node: Node, b: Binding) -> list[Call] | None:
    """Resize one axis after the other; channels that lie side by side are runs."""
    op: Any = node.op
    x = b.array(node.inputs[0])
    rest = [b.constant(source) for source in node.inputs[1:]]
    if x is None or not x.size or not is_float32(x) or any(array is None for array in rest):
        return None
    if any(op.pads_begin) or any(op.pads_end) or not node.outputs[0].shape.element_count().value:
        return None
    axes_and_taps = _axes(op, x, [array for array in rest if array is not None])
    if axes_and_taps is None:
        return None
    order = (0, 2, 3, 1) if x.ndim == 4 else order_of(x)
    out = b.new(node.outputs[0], order)
    work = x
    calls: list[Call] = []
    for number, (axis, taps) in enumerate(axes_and_taps):
        last = number == len(axes_and_taps) - 1
        shape = [*work.shape[:axis], len(taps.positions), *work.shape[axis + 1 :]]
        target = out if last else _order(b, shape, order)
        _resize(work, target, axis, taps, calls, b)
        work = target
    if not axes_and_taps:
        calls.append(partial(np.copyto, out, x))
    return calls


def _order(b: Binding, shape: list[int], order: tuple[int, ...]) -> Array:
    return b.scratch([shape[axis] for axis in order]).transpose(np.argsort(order))


def _axes(op: Any, x: Array, rest: list[Array]) -> list[tuple[int, Taps]] | None:
    """The axes whose dimensions change, those that shrink first, and what their positions are made from."""
    by_revision_4 = isinstance(op, Interpolate4)
    sizes_or_scales = rest[1] if by_revision_4 and op.shape_calculation_mode == "scales" else rest[0]
    axes = rest[2:] if by_revision_4 else rest[1:]
    chosen = list(range(x.ndim)) if not axes else list(normalize_axes(axes[0].reshape(-1).tolist(), x.ndim))
    axes_and_taps = []
    for axis, value in zip(chosen, sizes_or_scales.reshape(-1).tolist()):
        dimension = x.shape[axis]
        if op.shape_calculation_mode == "scales":
            factor = np.float32(value)
            count = scaled_dimension(dimension, factor)
        else:
            count = int(value)
            factor = np.float32(np.float32(count) / np.float32(dimension))
        if count == dimension and (factor == 1 or op.shape_calculation_mode == "sizes"):
            continue
        axes_and_taps.append((axis, op.taps(dimension, count, factor)))
    return axes_and_taps


def _resize(x: Array, out: Array, axis: int, taps: Taps, calls: list[Call], b: Binding) -> None:
    dimension, count = x.shape[axis], len(taps.positions)
    if taps.weights is None:
        positions = taps.positions[:, 0]
        repeat = count // dimension
        if count == repeat * dimension and (positions == np.arange(count) // repeat).all():
            split = [*out.shape[:axis], dimension, repeat, *out.shape[axis + 1 :]]
            strides = [*out.strides[:axis], out.strides[axis] * repeat, out.strides[axis], *out.strides[axis + 1 :]]
            repeated = np.lib.stride_tricks.as_strided(out, split, strides)
            calls.append(partial(np.copyto, repeated, np.expand_dims(x, axis + 1)))
        else:
            calls.append(partial(copy_taken, x, positions, axis, out))
        return
    if dimension <= _MAX_DIMENSION_FOR_MATRIX:
        matrix = np.zeros((count, dimension), np.float64)
        for tap in range(taps.positions.shape[1]):
            np.add.at(matrix, (np.arange(count), taps.positions[:, tap]), taps.weights[:, tap])
        weights = matrix.astype(np.float32)
        order = order_of(out)
        source, target = _columns(x, axis, order), _columns(out, axis, order)
        if source is None:
            copied = _order(b, list(x.shape), order)
            calls.append(partial(np.copyto, copied, x))
            source = _columns(copied, axis, order)
        if source is not None and target is not None:
            if source.shape[-1] == 1:
                # The axis itself is the innermost one.
                rows, resized = as_matrix(source[..., 0]), as_matrix(target[..., 0])
                if rows is not None and resized is not None:
                    calls.append(partial(_multiply, (rows, weights.T), resized, taps, (x, axis, out)))
                    return
            calls.append(partial(_multiply, (weights, source), target, taps, (x, axis, out)))
            return
    shape = [1] * x.ndim
    shape[axis] = -1
    part = _order(b, list(out.shape), order_of(out))
    first = True
    for tap in range(taps.positions.shape[1]):
        factors = taps.weights[:, tap].astype(np.float32).reshape(shape)
        if not first and not factors.any():
            continue
        into = out if first else part
        calls += [partial(copy_taken, x, taps.positions[:, tap], axis, into), partial(np.multiply, into, factors, into)]
        if not first:
            calls.append(partial(np.add, out, into, out))
        first = False


def _multiply(factors: tuple[Array, Array], target: Array, taps: Taps, resized: tuple[Array, int, Array]) -> None:
    """Multiply with the matrix of weights, or resize ``(data, axis, output)`` by taps where data are not finite.

    The matrix has zeros for all other positions, with which an infinity or NaN would become NaN everywhere.
    """
    np.matmul(*factors, out=target)
    if not np.isfinite(target.sum()):
        data, axis, output = resized
        np.copyto(output, taps.apply(data, axis))


def _columns(array: Array, axis: int, order: tuple[int, ...]) -> Array | None:
    """``[..., dimensions of the axis, everything further inside by this order]``, where the latter is one run."""
    at = order.index(axis)
    turned = array.transpose(order)
    inner = turned.shape[at + 1 :]
    expected = array.itemsize
    for dimension, stride in zip(reversed(inner), reversed(turned.strides[at + 1 :])):
        if dimension != 1 and stride != expected:
            return None
        expected *= dimension
    if turned.strides[at] < expected and turned.shape[at] > 1:
        return None
    shape = (*turned.shape[: at + 1], math.prod(inner))
    return np.lib.stride_tricks.as_strided(turned, shape, (*turned.strides[: at + 1], array.itemsize))


@binder(Pad1, Pad12)
def pad(node: Node, b: Binding) -> list[Call] | None:
    """The data inside, and the borders of one axis after the other, with what the axes before have."""
    op: Any = node.op
    x = b.array(node.inputs[0])
    rest = [b.constant(source) for source in node.inputs[1:]]
    if x is None or not x.size or any(array is None for array in rest):
        return None
    before, after, *more = [array.reshape(-1) for array in rest if array is not None]
    if min(before.min(initial=0), after.min(initial=0)) < 0:
        return None
    value = more[0][0] if more else x.dtype.type(0)
    out = b.new(node.outputs[0], order_of(x))
    index = [slice(begin, begin + dimension) for begin, dimension in zip(before.tolist(), x.shape)]
    calls: list[Call] = [partial(np.copyto, out[tuple(index)], x)]
    for axis, inside in enumerate(index.copy()):
        for part in (slice(0, inside.start), slice(inside.stop, out.shape[axis])):
            index[axis] = part
            border = out[tuple(index)]
            if border.size and op.pad_mode == "constant":
                calls.append(partial(border.fill, value))
            elif border.size:
                sources = source_positions(x.shape[axis], inside.start, int(after[axis]), op.pad_mode) + inside.start
                first, last = sources[part][[0, -1]].tolist()
                # Backwards, or one element again and again.
                index[axis] = slice(first, last + 1) if first == last else slice(first, last - 1 if last else None, -1)
                calls.append(partial(np.copyto, border, out[tuple(index)]))
        index[axis] = slice(None)
    return calls
