"""Depthwise convolutions of channels that lie side by side: one pass over the output for each element of the kernel.

A row of positions with all its channels is one run in memory, and so is what an element of the kernel sees of it; the
weights are repeated along the row. With a stride the columns are first split by their remainders, which makes what an
element sees a run again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.operations.windows import Window

from .binding import Binding, Call

_BLOCK_ELEMENTS = 1 << 15


def depthwise(
    images: Array, weights: Array, windows: list[Window], out: Array, calls: list[Call], b: Binding
) -> list[tuple[tuple[Any, ...], list[Call]]]:
    """``images`` [N, H, W, C], ``weights`` [C, kernel's rows, kernel's columns], ``out`` [N, H, W, C]."""
    y, x = windows
    batch, rows, columns, channels = out.shape
    width = -(-((columns - 1) * x.stride + x.span) // x.stride)
    top, left = (window.pads(dimension)[0] for window, dimension in zip(windows, images.shape[1:3]))
    height = (rows - 1) * y.stride + y.span
    # [N, H, remainder, W, C]
    split = b.scratch((batch, height, x.stride, width, channels))
    _fill(images, split, top, left, calls)
    run = columns * channels
    by_remainder: dict[int, list[int]] = {}
    for tap in range(x.kernel):
        by_remainder.setdefault(tap * x.dilation % x.stride, []).append(tap)
    factors = []
    for taps in by_remainder.values():
        repeated = np.broadcast_to(
            weights[:, :, taps].transpose(1, 2, 0)[:, :, None], (y.kernel, len(taps), columns, channels)
        )
        repeated_taps = b.packed(weights, ("repeated", columns, tuple(taps)), partial(np.array, repeated))
        factors.append(repeated_taps.reshape(y.kernel, len(taps), run))
    step = max(1, _BLOCK_ELEMENTS // run)
    spare = b.scratch((min(step, rows), run)) if len(factors) > 1 else None
    strides = split.strides
    parts: list[tuple[tuple[Any, ...], list[Call]]] = []
    for item in range(batch):
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            target = np.lib.stride_tricks.as_strided(
                out[item, start:stop], (stop - start, run), (out.strides[1], 4)
            ) if _is_run(out) else b.reused("rows", (stop - start, run))  # fmt: skip
            made_calls: list[Call] = []
            for number, (remainder, taps) in enumerate(by_remainder.items()):
                first = split[item, start * y.stride :, remainder, taps[0] * x.dilation // x.stride]
                apart = (taps[1] - taps[0]) * x.dilation // x.stride if len(taps) > 1 else 0
                seen = np.lib.stride_tricks.as_strided(
                    first,
                    (y.kernel, len(taps), stop - start, run),
                    (y.dilation * strides[1], apart * strides[3], y.stride * strides[1], 4),
                )
                into = target if number == 0 or spare is None else spare[: stop - start]
                made_calls.append(partial(np.einsum, "abhi,abi->hi", seen, factors[number], out=into))
                if number:
                    made_calls.append(partial(np.add, target, into, target))
            if not _is_run(out):
                shaped = target.reshape(stop - start, columns, channels)
                made_calls.append(partial(np.copyto, out[item, start:stop], shaped))
            parts.append(((slice(item, item + 1), slice(start, stop)), made_calls))
    return parts


def _is_run(out: Array) -> bool:
    """True if a row with all its channels is one run in memory."""
    return out.strides[3] == 4 and (out.shape[2] == 1 or out.strides[2] == 4 * out.shape[3])


def _fill(images: Array, split: Array, top: int, left: int, calls: list[Call]) -> None:
    """Calls that place the images in the padding, each column with those of its remainder."""
    height, stride, width = split.shape[1:4]
    rows, columns = images.shape[1:3]
    bottom = min(height, top + rows)
    for border in (split[:, :top], split[:, bottom:]):
        if border.size:
            calls.append(partial(border.fill, 0))
    for remainder in range(stride):
        # Column c of the padded image is c // stride of those with the remainder c % stride.
        first = max(0, -((remainder - left) // stride))
        stop = min(width, max(first, -((remainder - left - columns) // stride)))
        part = split[:, top:bottom, remainder]
        for border in (part[:, :, :first], part[:, :, stop:]):
            if border.size:
                calls.append(partial(border.fill, 0))
        if stop > first:
            start = first * stride + remainder - left
            source = images[:, : bottom - top, start : start + (stop - first - 1) * stride + 1 : stride]
            calls.append(partial(np.copyto, part[:, :, first:stop], source))
