"""Depthwise convolutions of channels that lie side by side: one pass over the output for each element of the kernel.

A row of positions with all its channels is one run in memory, and so is what an element of the kernel sees of it. The
weights are repeated for as many columns as stay in the first-level cache with them. With a stride the columns are first
split by their remainders, which makes what an element sees a run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.operations.windows import Window

from .binding import Binding, Call

_BLOCK_ELEMENTS = 1 << 16
_RUN_ELEMENTS = 1 << 10
"""Elements of an output that are computed at once. Longer runs take 1.2 to 1.7 times as long, as do those of 200."""


def depthwise(images: Array, weights: Array, windows: list[Window], out: Array, b: Binding) -> list[Call]:
    """``images`` [N, H, W, C], ``weights`` [C, kernel's rows, kernel's columns], ``out`` [N, H, W, C]."""
    y, x = windows
    batch, rows, columns, channels = out.shape
    width = -(-((columns - 1) * x.stride + x.span) // x.stride)
    top, left = (window.pads(dimension)[0] for window, dimension in zip(windows, images.shape[1:3]))
    step = min(rows, max(1, _BLOCK_ELEMENTS // (columns * channels)))
    # The rows that a part sees: [H, remainder, W, C].
    split = b.scratch(((step - 1) * y.stride + y.span, x.stride, width, channels))
    calls: list[Call] = []
    copied = list(_columns(images.shape[2], split, left, calls))
    at_once = min(
        (n for n in range(1, columns + 1) if columns % n == 0),
        key=lambda n: max(n * channels / _RUN_ELEMENTS, _RUN_ELEMENTS / (n * channels)),
    )
    runs, run = columns // at_once, at_once * channels
    by_remainder: dict[int, list[int]] = {}
    for tap in range(x.kernel):
        by_remainder.setdefault(tap * x.dilation % x.stride, []).append(tap)
    factors = []
    for taps in by_remainder.values():
        repeated = np.broadcast_to(
            weights[:, :, taps].transpose(1, 2, 0)[:, :, None], (y.kernel, len(taps), at_once, channels)
        )
        repeated_taps = b.site.packed(weights, ("repeated", at_once, tuple(taps)), partial(np.asarray, repeated))
        factors.append(repeated_taps.reshape(y.kernel, len(taps), run))
    spare = b.scratch((step, runs, run)) if len(factors) > 1 else None
    strides = split.strides
    for item in range(batch):
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            target = np.lib.stride_tricks.as_strided(
                out[item, start:stop], (stop - start, runs, run), (out.strides[1], 4 * run, 4)
            ) if _is_run(out) else b.reused("rows", stop - start, runs, run)  # fmt: skip
            calls += _rows(
                images[item], start * y.stride - top, split[: (stop - start - 1) * y.stride + y.span], copied
            )
            for number, (remainder, taps) in enumerate(by_remainder.items()):
                apart = (taps[1] - taps[0]) * x.dilation // x.stride if len(taps) > 1 else 0
                seen = np.lib.stride_tricks.as_strided(
                    split[:, remainder, taps[0] * x.dilation // x.stride :],
                    (y.kernel, len(taps), stop - start, runs, run),
                    (y.dilation * strides[0], apart * strides[2], y.stride * strides[0], 4 * run, 4),
                )
                into = target if number == 0 or spare is None else spare[: stop - start]
                calls.append(partial(np.einsum, "abhji,abi->hji", seen, factors[number], out=into))
                if number:
                    calls.append(partial(np.add, target, into, target))
            if not _is_run(out):
                shaped = target.reshape(stop - start, columns, channels)
                calls.append(partial(np.copyto, out[item, start:stop], shaped))
    return calls


def _is_run(out: Array) -> bool:
    """True if a row with all its channels is one run in memory."""
    return out.strides[3] == 4 and (out.shape[2] == 1 or out.strides[2] == 4 * out.shape[3])


def _columns(columns: int, split: Array, left: int, calls: list[Call]) -> Iterator[tuple[slice, Array]]:
    """Columns of an image, and where they go: each to those of its remainder. ``calls`` fill the others."""
    stride, width = split.shape[1:3]
    for remainder in range(stride):
        # Column c of the padded image is c // stride of those with the remainder c % stride.
        first = max(0, -((remainder - left) // stride))
        stop = min(width, max(first, -((remainder - left - columns) // stride)))
        part = split[:, remainder]
        calls += [partial(border.fill, 0) for border in (part[:, :first], part[:, stop:]) if border.size]
        if stop > first:
            start = first * stride + remainder - left
            yield slice(start, start + (stop - first - 1) * stride + 1, stride), part[:, first:stop]


def _rows(image: Array, start: int, split: Array, copied: list[tuple[slice, Array]]) -> list[Call]:
    """Calls that place the rows of an image from ``start`` on, which may lie outside of it."""
    count = len(split)
    first = min(count, max(0, -start))
    stop = max(first, min(count, len(image) - start))
    calls: list[Call] = [partial(border.fill, 0) for border in (split[:first], split[stop:]) if border.size]
    if stop > first:
        calls += [
            partial(np.copyto, target[first:stop], image[start + first : start + stop, source])
            for source, target in copied
        ]
    return calls
