"""Boxes as arrays: how much they overlap, and which of them give way to others.

A box is ``[..., 4]``: the lower ends of both directions, then the upper ones. No operation stands here;
the families of object detection share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ir_runtime.element_types import Array

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
    return lambda one, others: overlaps(boxes[one], boxes[others], pixel, touching)


def by_score(scores: Array, least: float | None = None, most: int = -1) -> Array:
    """The indices of the greatest scores above ``least``, in falling order; ``most`` -1 takes all.

    Equal scores stay in the order of their indices.
    """
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > np.float32(least)]
    return order if most < 0 else order[:most]


def unsuppressed(
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
        kept = worst < bound if inclusive else ~(worst > bound)
        order, worst = order[kept], worst[kept]
    return taken
