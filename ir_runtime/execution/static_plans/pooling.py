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

_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
_BLOCK_ELEMENTS = 1 << 16


@binder(AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14)
def pooling(node: Node, b: Binding) -> list[Call] | None:
    op: Any = node.op
    x = b.array(node.inputs[0])
    if x is None or x.ndim not in _CHANNELS_LAST or not x.size or not is_float32(x) or not _only_first(node, b):
        return None
    if not node.outputs[0].shape.element_count().value:
        return None
    is_mean = isinstance(op, (AvgPool1, AvgPool14, AvgPool16))
    order = _CHANNELS_LAST[x.ndim]
    windows: list[Window] = op.windows()
    out = b.new(node.outputs[0], order).transpose(order)
    images = x.transpose(order)
    if x.ndim == 3:
        images, out, windows = images[:, None], out[:, None], [Window(1, 1, 1, 0, 0), *windows]
    calls: list[Call] = []
    dimensions = images.shape[1:3]
    seen = padded(images, windows, calls, b, 0 if is_mean else -np.inf)
    function = np.add if is_mean else np.maximum
    y, x_window = windows
    # Along the columns first: each row of the result is contiguous.
    along = b.scratch((*seen.shape[:2], *out.shape[2:])) if x_window.kernel > 1 or x_window.stride > 1 else None
    if along is None:
        along = seen
    else:
        taps = [shifted(seen, 2, x_window, tap, out.shape[2]) for tap in range(x_window.kernel)]
        _joined(taps, along, function, calls)
    if is_mean:
        along = _divided(along, seen, x_window, dimensions[1], 2, op.exclude_pad, calls, b)
    _joined([shifted(along, 1, y, tap, out.shape[1]) for tap in range(y.kernel)], out, function, calls)
    if is_mean:
        _divided(out, along, y, dimensions[0], 1, op.exclude_pad, calls, b)
    elif len(node.outputs) > 1:
        calls.append(partial(_unless_nan, op, x, b.arrays[node.outputs[0]]))
    return calls


def _joined(taps: list[Array], out: Array, function: Any, calls: list[Call]) -> None:
    if len(taps) == 1:
        calls.append(partial(np.copyto, out, taps[0]))
        return
    calls.append(partial(function, taps[0], taps[1], out=out))
    calls.extend(partial(function, out, tap, out=out) for tap in taps[2:])


def _divided(
    sums: Array, source: Array, window: Window, dimension: int, axis: int, exclude: bool, calls: list[Call], b: Binding
) -> Array:
    """The sums divided by the numbers of their elements, along one axis."""
    divisor = covered(window, dimension, not exclude).astype(np.float32)
    if (divisor == 1).all():
        return sums
    out = b.scratch(sums.shape) if sums is source else sums
    if (divisor == divisor[0]).all():
        calls.append(partial(np.divide, sums, divisor[0], out))
    else:
        calls.append(partial(np.divide, sums, divisor.reshape([-1 if at == axis else 1 for at in range(4)]), out))
    return out


def _unless_nan(op: Any, x: Array, out: Array) -> None:
    """Let ``evaluate`` compute ``out`` where it has NaN: the maximum of a window with NaN depends on the order in which
    its elements are compared."""
    if np.isnan(out.max()):
        np.copyto(out, op.evaluate(x)[0])


def _only_first(node: Node, b: Binding) -> bool:
    return all(not b.site.users.get(one) and one not in b.site.results for one in node.outputs[1:])
