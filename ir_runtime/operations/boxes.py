"""Boxes as arrays: how much they overlap, and which of them are suppressed.

A box is ``[..., 4]``: the lower ends of both directions, then the upper ones. This module has no
operation; the families of object detection share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ir_runtime.graph import Array

Shares = Callable[[int, Array], Array]
"""Intersection over union of one box with others, all given by their index."""


def areas(boxes: Array, pixel: float = 0.0) -> Array:
    """The area of each box; ``pixel`` is 1 where the upper ends are the last pixels inside."""
    return np.prod(boxes[..., 2:] - boxes[..., :2] + boxes.dtype.type(pixel), axis=-1)


def overlaps(box: Array, boxes: Array, pixel: float = 0.0, touching: bool = False) -> Array:
    """Intersection over union of a box ``[4]`` with others ``[n, 4]``; 0 where either has no area.

    With ``touching`` it is 0 as well where the boxes lie apart by less than the pixel that is added.
    """
    between = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = np.prod(np.maximum(between + boxes.dtype.type(pixel), 0), axis=1)
    theirs, own = areas(boxes, pixel), areas(box, pixel)
    usable = (theirs > 0) & (own > 0)
    if touching:
        usable &= (between >= 0).all(axis=1)
    return np.where(usable, common, 0) / np.where(usable, theirs + own - common, 1)


def shares_of(boxes: Array, pixel: float = 0.0, touching: bool = False) -> Shares:
    """:func:`overlaps` of the boxes with one another."""
    return lambda index, others: overlaps(boxes[index], boxes[others], pixel, touching)


def by_score(scores: Array, least: float | None = None, most: int = -1) -> Array:
    """The indices of the greatest scores above ``least``, in falling order; ``most`` -1 takes all.

    Equal scores stay in the order of their indices.
    """
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > np.float32(least)]
    return order if most < 0 else order[:most]


def select_unsuppressed(
    order: Array, shares: Shares, threshold: float, most: int, *, inclusive: bool = False, shrink: float = 1.0
) -> list[int]:
    """Of the boxes in ``order`` those that overlap none taken before them too much, at most ``most``.

    Too much is above ``threshold``, or from it on if ``inclusive``. A ``shrink`` below 1 multiplies a
    threshold above a half after each box that is taken.
    """
    taken: list[int] = []
    bound: Any = np.float32(threshold)
    worst = np.zeros(len(order), np.float32)
    while len(order) and len(taken) < most:
        best = int(order[0])
        taken.append(best)
        order = order[1:]
        worst = np.maximum(worst[1:], shares(best, order))
        if shrink < 1 and bound > 0.5:
            bound = bound * np.float32(shrink)
        is_kept = worst < bound if inclusive else ~(worst > bound)
        order, worst = order[is_kept], worst[is_kept]
    return taken


def refined(boxes: Array, deltas: Array, pixel: float = 0.0, limit: float | None = None) -> Array:
    """Boxes whose centre moves by parts of their size, and whose size changes by factors.

    ``deltas`` ``[..., 4]`` are the parts in either direction and the logarithms of the factors, which
    ``limit`` bounds. The upper ends are where the boxes end, even if ``pixel`` is 1 for the given ones.
    """
    dtype = boxes.dtype.type
    sizes = boxes[..., 2:] - boxes[..., :2] + dtype(pixel)
    centres = deltas[..., :2] * sizes + (boxes[..., :2] + dtype(0.5) * sizes)
    powers = deltas[..., 2:] if limit is None else np.minimum(deltas[..., 2:], dtype(limit))
    half = dtype(0.5) * (np.exp(powers) * sizes)
    return np.concatenate([centres - half, centres + half], -1)


def clipped(boxes: Array, width: Array, height: Array) -> Array:
    """Boxes cut to those of the corners ``0, 0`` and ``width, height``."""
    return np.maximum(np.minimum(boxes, np.stack([width, height, width, height])), 0)


def large_enough(boxes: Array, width: Array, height: Array, pixel: float = 0.0) -> Array:
    """Return the mask of boxes of at least that width and height."""
    sizes = boxes[..., 2:] - boxes[..., :2] + boxes.dtype.type(pixel)
    return (sizes[..., 0] >= width) & (sizes[..., 1] >= height)
