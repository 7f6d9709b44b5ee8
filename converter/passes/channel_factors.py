"""Weights times one factor for each output channel, computed when they are read: models of any size fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir_runtime.files.digests import blake2b
from ir_runtime.graph import Array, Node, Tensor, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.matmul import MatMul1

SCALED = "scaled"
"""The step in the provenance of weights whose channels were multiplied by factors."""
_BLOCK_BYTES = 1 << 22
_TYPES = (element_types.f16, element_types.f32, element_types.f64)


def channel_axes(node: Node, weights: int) -> tuple[int, ...]:
    """The axes of input ``weights`` of a convolution or a product that make an output channel."""
    if not isinstance(node.op, MatMul1):
        return tuple(node.op.channel_axes)  # type: ignore[attr-defined]
    return (0 if node.op.transpose_b else 1,) if weights == 1 else (1 if node.op.transpose_a else 0,)


def scaled(
    weights: Tensor, axes: tuple[int, ...], factors: Array, *sources: Tensor, is_requested: bool = False
) -> Tensor | str:
    """``weights`` times ``factors`` (float64, one or one for each channel of ``axes``), or why they have to stay.

    Products are rounded once. What becomes infinite stays, and so does a channel whose largest weight is too small
    for the precision of its type. Weights of float16 stay unless the user asked for the product: they are rounded
    already, and a second time moved an output of a segmentation network by 0.3 percent of its range. ``sources`` are
    the constants that the factors were computed from.
    """
    if weights.element_type not in _TYPES or (weights.element_type is element_types.f16 and not is_requested):
        return f"the weights are {weights.element_type}"
    shape = [size if axis in axes else 1 for axis, size in enumerate(weights.shape)]
    wide = factors.reshape(shape) if factors.size > 1 else factors.reshape([1] * len(shape))
    most = np.zeros(shape)
    reduced = tuple(axis for axis in range(len(shape)) if axis not in axes)
    for start, block in _blocks(weights):
        own = _rows(most, start, len(block))
        np.maximum(own, np.abs(block).max(axis=reduced, keepdims=True, initial=0), out=own)
    with np.errstate(all="ignore"):
        largest = most * np.abs(wide)
    info = finfo(weights.element_type)
    if not (largest <= float(info.max)).all():
        return "scaled weights are not finite in their type"
    if (largest[largest > 0] < float(info.smallest_normal)).any() or ((largest == 0) & (most > 0) & (wide != 0)).any():
        return "scaled weights are too small for their type"

    def parts() -> Iterator[Array]:
        for start, block in _blocks(weights):
            product = block.astype(np.float64) * _rows(wide, start, len(block))
            yield product.astype(weights.element_type.dtype)

    kin = blake2b(b"%b%r%b" % (weights.sample(), weights.shape, wide.tobytes())).digest()
    tensor = Tensor.computed_in_parts(weights.element_type, weights.shape, parts, kin, weights, SCALED)
    return tensor.derived(SCALED, weights, *sources)


def _rows(values: Array, start: int, count: int) -> Array:
    """Return the values that broadcast to the rows from ``start`` on."""
    return values if values.shape[0] == 1 else values[start : start + count]


def _blocks(weights: Tensor) -> Iterator[tuple[int, Array]]:
    """The weights in blocks along the first axis, each with its place; no more of a file is kept in memory."""
    values = weights.array()
    if not values.size:
        return
    count = max(1, _BLOCK_BYTES // (values.nbytes // len(values)))
    for start in range(0, len(values), count):
        yield start, values[start : start + count]
        weights.forget()
