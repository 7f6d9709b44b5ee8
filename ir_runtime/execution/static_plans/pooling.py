"""Pooling of float32 along one axis after the other, of channels that lie side by side in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14
from ir_runtime.operations.windows import Window, covered, shifted

from .binding import Binding, Call, binder, is_float32
from .convolution import padded


@binder(AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14)
def pooling(node: Node, b: Binding) -> list[Call] | None:
    op: Any = node.op
    x = b.array(node.inputs[0])
    if x is None or x.ndim < 3 or not x.size or not is_float32(x) or not _only_first(node, b):
        return None
    if not node.outputs[0].shape.element_count().value:
        return None
    is_mean = isinstance(op, (AvgPool1, AvgPool14, AvgPool16))
    order = (0, *range(2, x.ndim), 1)
    windows: list[Window] = op.windows()
    if any(min(window.pads(dimension)) < 0 for window, dimension in zip(windows, x.shape[2:])):
        return None
    out = b.new(node.outputs[0], order).transpose(order)
    images = x.transpose(order)
    calls: list[Call] = []
    seen = padded(images, windows, calls, b, 0 if is_mean else -np.inf)
    function = np.add if is_mean else np.maximum
    # Along the last of the dimensions first: each row of the result is contiguous.
    for axis in range(len(windows), 0, -1):
        window, count = windows[axis - 1], out.shape[axis]
        if axis == 1:
            target = out
        elif window.kernel == window.stride == 1 and seen.shape[axis] == images.shape[axis]:
            continue
        else:
            target = b.scratch((*seen.shape[:axis], count, *seen.shape[axis + 1 :]))
        _join([shifted(seen, axis, window, tap, count) for tap in range(window.kernel)], target, function, calls)
        if is_mean:
            _divide(target, window, images.shape[axis], axis, op.exclude_pad, calls)
        seen = target
    if not is_mean and len(node.outputs) > 1:
        calls.append(partial(_unless_nan, op, x, b.arrays[node.outputs[0]]))
    return calls


def _join(taps: list[Array], out: Array, function: Any, calls: list[Call]) -> None:
    if len(taps) == 1:
        calls.append(partial(np.copyto, out, taps[0]))
        return
    calls.append(partial(function, taps[0], taps[1], out=out))
    calls.extend(partial(function, out, tap, out=out) for tap in taps[2:])


def _divide(sums: Array, window: Window, dimension: int, axis: int, exclude: bool, calls: list[Call]) -> None:
    """Divide the sums by the numbers of their elements along one axis."""
    divisor = covered(window, dimension, not exclude).astype(np.float32)
    if (divisor == divisor[0]).all():
        divisor = divisor[:1]
    if (divisor != 1).any():
        shape = [1] * sums.ndim
        shape[axis] = -1
        calls.append(partial(np.divide, sums, divisor.reshape(shape), sums))


def _unless_nan(op: Any, x: Array, out: Array) -> None:
    """Let ``evaluate`` compute ``out`` where it has NaN.

    The maximum of a window with NaN depends on the order in which its elements are compared.
    """
    if np.isnan(out.max()):
        np.copyto(out, op.evaluate(x)[0])


def _only_first(node: Node, b: Binding) -> bool:
    return all(not b.site.users.get(output) and output not in b.site.results for output in node.outputs[1:])
