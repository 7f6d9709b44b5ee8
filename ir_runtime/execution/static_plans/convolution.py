"""Convolutions of float32 with constant weights, of channels that lie side by side in memory (N, H, W, C).

Windows are unfolded a few rows of positions at a time, in runs of a row of the kernel with all its channels, or of a
row of positions where there are few channels, and multiplied with the weights as a matrix. A window of one element is a
product without copies.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.execution.kernels.product_calls import Factor, is_matrix_for_blas, product_calls
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.windows import Window

from .binding import Binding, Call, as_matrix, binder, is_float32
from .depthwise import depthwise

_UNFOLDED_ELEMENTS_AT_ONCE = 1 << 18
"""Windows are unfolded in blocks of about this many elements."""
_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}


@binder(Convolution1, GroupConvolution1)
def convolution(node: Node, b: Binding) -> list[Call] | None:
    """Over one or two spatial dimensions."""
    x, weights, target = b.array(node.inputs[0]), b.constant(node.inputs[1]), node.outputs[0]
    if x is None or weights is None or x.ndim not in _CHANNELS_LAST or not is_float32(x, weights):
        return None
    op: Any = node.op
    grouped = isinstance(op, GroupConvolution1)
    rank = x.ndim - 2
    windows: list[Window] = op.windows(weights.shape[-rank:])
    if not x.size or not weights.size or any(min(w.pads(n)) < 0 for w, n in zip(windows, x.shape[2:])):
        return None
    if not grouped:
        weights = weights[None]
    order = _CHANNELS_LAST[x.ndim]
    home = b.homes.get(target)
    whole = None if home is None else b.arrays.get(home.whole)
    if whole is not None and whole.strides[1] != whole.itemsize:  # whose channels are not last
        return None
    images = x.transpose(order)
    out = b.new(target, order).transpose(order)
    single = Window(1, 1, 1, 0, 0)
    is_depthwise = len(weights) > 1 and weights.shape[1] == weights.shape[2] == 1
    if rank == 1 and is_depthwise:
        # One row of positions: runs of all of it.
        images, out, weights, windows = images[:, None], out[:, None], weights[..., None, :], [single, *windows]
    elif rank == 1:
        # Positions are rows of one column each: parts are some of them.
        images, out, weights, windows = images[:, :, None], out[:, :, None], weights[..., None], [*windows, single]
    if is_depthwise:
        return depthwise(images, weights[:, 0, 0], windows, out, b)
    return _dense(images, weights, node.inputs[1], windows, out, b)


def padded(
    images: Array, windows: list[Window], calls: list[Call], b: Binding, value: float = 0, *, by_channel: bool = False
) -> Array:
    """Return ``[N, ..., C]`` with the padding that the windows see, and calls that fill it.

    Without padding it is the images themselves. With it, channels lie side by side in memory, unless ``by_channel``.
    """
    begins = [window.pads(dimension)[0] for window, dimension in zip(windows, images.shape[1:])]
    spans = [
        (window.count(dimension) - 1) * window.stride + window.span
        for window, dimension in zip(windows, images.shape[1:])
    ]
    if not any(begins) and all(span <= dimension for span, dimension in zip(spans, images.shape[1:])):
        return images
    if by_channel:
        images_with_border = np.moveaxis(b.scratch((images.shape[0], images.shape[-1], *spans)), 1, -1)
    else:
        images_with_border = b.scratch((images.shape[0], *spans, images.shape[-1]))
    inside = images_with_border
    source = images
    for axis, (begin, span, dimension) in enumerate(zip(begins, spans, images.shape[1:]), 1):
        before = (slice(None),) * axis
        stop = min(span, begin + dimension)
        for border in (inside[(*before, slice(begin))], inside[(*before, slice(stop, None))]):
            if border.size:
                calls.append(partial(border.fill, value))
        inside, source = inside[(*before, slice(begin, stop))], source[(*before, slice(stop - begin))]
    calls.append(partial(np.copyto, inside, source))
    return images_with_border


def _dense(
    images: Array,
    weights: Array,
    constant: Output,
    windows: list[Window],
    out: Array,
    b: Binding,
) -> list[Call]:
    """``weights`` are ``[groups, outputs, inputs, height, width]``, whatever the shape of the ``constant`` is."""
    groups, per_group, depth = weights.shape[:3]
    y, x = windows
    batch, rows, columns, _ = out.shape
    pointwise = y.kernel == x.kernel == 1
    declared = b.site.constants[constant].shape

    def restored(packed: Array) -> Array:
        return packed.reshape(y.kernel, x.kernel, depth, per_group).transpose(3, 2, 0, 1).reshape(declared)

    def made(array: Array) -> Array:
        return array.reshape(per_group, depth, y.kernel, x.kernel).transpose(2, 3, 1, 0)

    factor = Factor(constant, "dense", made, b.site, restored)
    # Of few channels, such as those of the model's input, rows of one channel are longer than the rows of a window.
    by_channel = groups == 1 and images.strides[2] == 4 and columns > x.kernel * depth
    calls: list[Call] = []
    seen = padded(images, windows, calls, b, by_channel=by_channel)
    if pointwise and groups == 1:
        seen = seen[:, : (rows - 1) * y.stride + 1 : y.stride, : (columns - 1) * x.stride + 1 : x.stride]
        flat = as_matrix(seen)
        if flat is None or not is_matrix_for_blas(flat):
            copied = b.scratch(seen.shape)
            calls.append(partial(np.copyto, copied, seen))
            seen = copied
        return calls + product_calls(_matrix(seen), factor, _matrix(out), b.reused)
    strides = seen.strides
    unfolded = np.lib.stride_tricks.as_strided(
        seen,
        (batch, rows, columns, y.kernel, x.kernel, seen.shape[3]),
        (strides[0], y.stride * strides[1], x.stride * strides[2], y.dilation * strides[1], x.dilation * strides[2],
         strides[3]),
    )  # fmt: skip
    area = y.kernel * x.kernel * depth
    limit = _UNFOLDED_ELEMENTS_AT_ONCE // max(1, area * groups)
    held = b.scratch((min(batch * rows * columns, max(limit, columns)) * groups * area,))
    for index in _parts(batch, rows, columns, limit):
        source, target = unfolded[index], out[index]
        count = math.prod(source.shape[:-3])
        dense = held[: count * groups * area]
        places = source.shape[:-3]
        if groups == 1:
            if by_channel:
                source, matrix = np.moveaxis(source, (-3, -2, -1), (0, 1, 2)), dense.reshape(area, count).T
            else:
                matrix = dense.reshape(count, area)
            copy = partial(np.copyto, dense.reshape(source.shape), source)
            calls += [copy, *product_calls(matrix, factor, _matrix(target), b.reused)]
            continue
        packed = b.site.packed(weights, "groups", lambda: weights.transpose(0, 3, 4, 2, 1))
        matrices = packed.reshape(groups, area, per_group)
        split = source.reshape(*source.shape[:-1], groups, depth)
        turned = dense.reshape(groups, *places, y.kernel, x.kernel, depth)
        copy = partial(np.copyto, turned, np.moveaxis(split, -2, 0))
        each = np.lib.stride_tricks.as_strided(
            _matrix(target), (groups, count, per_group), (4 * per_group, _matrix(target).strides[0], 4)
        )
        calls += [copy, partial(np.matmul, dense.reshape(groups, count, area), matrices, out=each)]
    return calls


def _matrix(array: Array) -> Array:
    matrix = as_matrix(array)
    assert matrix is not None
    return matrix


def _parts(batch: int, rows: int, columns: int, positions: int) -> list[tuple[Any, ...]]:
    """Indices of about so many positions: some images, or some rows of one."""
    image = rows * columns
    if image <= positions:
        step = max(1, positions // max(image, 1))
        return [(slice(start, min(start + step, batch)), slice(0, rows)) for start in range(0, batch, step)]
    count = -(-rows // max(1, positions // columns))
    ends = [rows * number // count for number in range(count + 1)]
    return [
        (slice(item, item + 1), slice(start, stop))
        for item in range(batch)
        for start, stop in itertools.pairwise(ends)
        if stop > start
    ]
