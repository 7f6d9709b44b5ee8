"""Groups of channels that lie side by side in memory: sums of columns, which need no other order.

A group normalisation is a Reshape to ``[N, groups, rest]``, an MVN over the rest, and a Reshape back; an instance
normalisation is an MVN over the spatial dimensions, where each channel is a group.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.execution.kernels import Site
from ir_runtime.graph import Array, Node, Output, normalize_axes
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.normalization import MVN6, GroupNormalization12

from .binding import Binding, Call, Produced, as_matrix, is_float32, producer

_MAX_REPEATED_ROW = 1 << 12
_SUMMED_ROWS = 1 << 8
"""Rows whose squares are added one after the other: one long sum of float32 rounds what it adds at its end."""
_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def reshaped_and_back(node: Node, site: Site) -> list[Node] | None:
    """The Reshape and the MVN in front of ``node``, and itself, where together they normalise groups of channels."""
    if not isinstance(node.op, Reshape1) or not isinstance(node.inputs[0].node.op, MVN6):
        return None
    mvn = node.inputs[0].node
    first = mvn.inputs[0].node
    x = first.inputs[0] if isinstance(first.op, Reshape1) else None
    axes = site.constants.get(mvn.inputs[1])
    if x is None or axes is None or site.only_user(mvn.outputs[0]) is not node:
        return None
    if site.only_user(first.outputs[0]) is not mvn or first not in site.users.get(x, []):
        return None
    shape, between = x.shape, mvn.inputs[0].shape
    if (
        not shape.is_static
        or not between.is_static
        or node.outputs[0].shape != shape
        or shape.rank not in _CHANNELS_LAST
    ):
        return None
    if between.rank < 3 or between.static()[0] != shape.static()[0] or shape.static()[1] % max(1, between.static()[1]):
        return None
    expected_axes = sorted(normalize_axes(np.atleast_1d(axes).tolist(), between.rank))
    return [first, mvn, node] if expected_axes == list(range(2, between.rank)) else None


def group_normalization(nodes: list[Node], b: Binding, target: Output) -> Produced | None:
    """Of nodes that :func:`reshaped_and_back` found, for channels that lie side by side."""
    first, mvn, _ = nodes
    x = b.array(first.inputs[0])
    return None if x is None else normalized_groups(x, mvn.inputs[0].shape.static()[1], mvn.op, b, target)


def normalized_groups(x: Array, groups: int, op: Any, b: Binding, target: Output) -> Produced | None:
    """``[N, C, ...]`` with channels last in memory, else None."""
    if x.ndim not in _CHANNELS_LAST or not x.size or not is_float32(x) or not groups:
        return None
    order = _CHANNELS_LAST[x.ndim]
    images = x.transpose(order)
    channels = x.shape[1]
    if images.strides[-1] != x.itemsize or as_matrix(images[0]) is None or math.prod(x.shape[2:]) == 1:
        return None
    out = b.new(target, order).transpose(order)
    parts: list[tuple[tuple[Any, ...], list[Call]]] = []
    for item in range(len(x)):
        seen, normalized = as_matrix(images[item]), as_matrix(out[item])
        if seen is None or normalized is None:
            return None
        rows = len(seen)
        count = 1
        if seen.flags.c_contiguous and normalized.flags.c_contiguous:
            # Long rows: several positions as one.
            count = max(n for n in range(1, max(2, _MAX_REPEATED_ROW // channels + 1)) if rows % n == 0)
        seen, normalized = seen.reshape(rows // count, -1), normalized.reshape(rows // count, -1)
        parts.append(
            ((slice(item, item + 1),), _calls(seen, normalized, count, groups, rows * channels // groups, op, b))
        )
    return Produced([], order, parts)


@producer(GroupNormalization12)
def scaled_groups(node: Node, b: Binding, target: Output, followed: bool) -> Produced | None:
    """The same, then scale and bias of each channel."""
    op: Any = node.op
    x, scale, bias = b.array(node.inputs[0]), b.constant(node.inputs[1]), b.constant(node.inputs[2])
    if x is None or scale is None or bias is None:
        return None
    mvn = MVN6(eps=op.epsilon, normalize_variance=True)
    produced = normalized_groups(x, op.num_groups, mvn, b, target)
    if produced is None:
        return None
    rows = b.arrays[target].transpose(_CHANNELS_LAST[x.ndim])
    for (items,), calls in produced.parts:
        calls += [
            partial(np.multiply, rows[items], scale, rows[items]),
            partial(np.add, rows[items], bias, rows[items]),
        ]
    return produced


def _calls(seen: Array, target: Array, count: int, groups: int, size: int, op: Any, b: Binding) -> list[Call]:
    """``seen`` [rows, count * groups * channels of a group] to ``target``; ``size`` elements are a group."""
    wide = seen.shape[1]
    sums = b.reused("sums", (wide,))
    each = sums.reshape(count, groups, wide // count // groups)
    total = b.reused("totals", (1, groups, 1))
    elements, small = np.float32(size), np.float32(op.eps)
    calls: list[Call] = [
        partial(np.add.reduce, seen, axis=0, out=sums),
        partial(np.add.reduce, each, axis=(0, 2), keepdims=True, out=total),
        partial(np.divide, total, elements, total),
        partial(np.copyto, each, total),
        partial(np.subtract, seen, sums, target),
    ]
    if not op.normalize_variance:
        return calls
    strips = range(0, len(target), _SUMMED_ROWS)
    squares = b.reused("squares", (len(strips), wide))
    for start, into in zip(strips, squares):
        strip = target[start : start + _SUMMED_ROWS]
        calls.append(partial(np.einsum, "ij,ij->j", strip, strip, out=into))
    calls += [
        partial(np.add.reduce, squares, axis=0, out=sums),
        partial(np.add.reduce, each, axis=(0, 2), keepdims=True, out=total),
        partial(np.divide, total, elements, total),
    ]
    if op.eps_mode == "OUTSIDE_SQRT":
        calls += [partial(np.sqrt, total, total), partial(np.add, total, small, total)]
    else:
        calls += [partial(np.add, total, small, total), partial(np.sqrt, total, total)]
    return [*calls, partial(np.copyto, each, total), partial(np.divide, target, sums, target)]
