"""Real weights as whole numbers on a grid: ``(code - zero_point) * scale``, for each channel or group.

The grid reaches from the least to the greatest weight (or zero):

    asymmetric   codes 0 .. 15    scale = (greatest - least) / 15
    symmetric    codes -8 .. 7    scale = the farthest from zero / -8, or / 8 where it is negative

Weights that are all whole numbers have steps of one and stay exact, because rules may rely on whole results.
A symmetric grid has larger steps where its shorter side would miss a weight by more than half a step. Scales are
float16, rounded away from zero *before* the codes are computed, so that no weight moves by more than half a step;
float32 where float16 would make the steps larger by more than one part in 64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ir_runtime.files.digests import blake2b
from ir_runtime.graph import Array, ElementType, Tensor, element_types
from ir_runtime.records import record

_BLOCK = 1 << 18
"""Weights that are converted at a time: few enough for a processor's cache."""
_MOST_STEP_GROWTH = 1 + 1 / 64
_LARGEST = 65504.0
"""A larger value belongs to a mask, not to weights: its lowest value must not become infinite."""

Index = tuple[slice, ...]


@record
class OnGrid:
    """Weights as codes of 4 or 8 bits; the scales and zero points have a dimension of 1 where they are shared."""

    codes: Tensor
    scale: Tensor
    zero_point: Tensor | None


def element_type_of_codes(bits: int, symmetric: bool) -> ElementType:
    """The type of codes: signed where there is no zero point."""
    return element_types.element_type(f"{'i' if symmetric else 'u'}{bits}")


def put_on_grid(
    source: Tensor, shape: tuple[int, ...], reduced: tuple[int, ...], bits: int, symmetric: bool
) -> OnGrid | str:
    """The weights of ``source`` in ``shape``, on grids that are shared along the axes ``reduced``.

    Reads the weights once, for their ranges; the codes are computed when they are written. Returns the reason where
    there is no such grid.
    """
    element_type = element_type_of_codes(bits, symmetric)
    low, high, whole = _ranges(source, shape, reduced)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return "are not finite"
    if max(-low.min(initial=0), high.max(initial=0)) > _LARGEST:
        return f"have values beyond {_LARGEST:.0f}"
    if whole:
        scale = _unit_scale(low, high, element_type)
        if not scale.all():
            return f"are whole numbers of more than {bits} bits"
    else:
        scale = _symmetric_scale(low, high, bits) if symmetric else (high - low) / np.float32((1 << bits) - 1)
    scale = _round_scale(scale)
    zero = None if symmetric else np.rint(-low / scale.astype(np.float32)).clip(*element_type.limits)
    identity = blake2b(scale.tobytes(), digest_size=16)
    identity.update(b"" if zero is None else zero.tobytes())

    def codes() -> Iterator[Array]:
        steps, least, greatest = scale.astype(np.float32), *(np.float32(limit) for limit in element_type.limits)
        narrow = np.int8 if symmetric else np.uint8
        for index, values in _blocks(source, shape):
            shared = _shared(index, reduced)
            with np.errstate(over="ignore"):  # codes beyond the limits are clipped below
                part = np.divide(values, steps[shared], dtype=np.float32)
            np.rint(part, out=part)
            if zero is not None:
                part += zero[shared]
            np.minimum(np.maximum(part, least, out=part), greatest, out=part)
            yield part.astype(narrow)

    return OnGrid(
        Tensor.computed_in_parts(element_type, shape, codes, identity.digest(), source, f"{element_type} codes"),
        Tensor.from_array(scale).derived("scales", source),
        None if zero is None else _zero_points(zero, element_type).derived("zero points", source),
    )


def _zero_points(values: Array, element_type: ElementType) -> Tensor:
    return Tensor.from_array(values.astype(np.uint8).astype(element_type.dtype), element_type)


def _ranges(source: Tensor, shape: tuple[int, ...], reduced: tuple[int, ...]) -> tuple[Array, Array, bool]:
    """The least and the greatest weight, or zero, of each grid, and whether all weights are whole numbers."""
    stored = source.in_stored_order()
    if stored is not source:
        split = _axes_of_rows(source.shape[0], shape)
        order = (*range(split, len(shape)), *range(split))
        back = tuple(np.argsort(order))
        shape, reduced = tuple(shape[axis] for axis in order), tuple(back[axis] for axis in reduced)
        low, high, whole = _ranges(stored, shape, reduced)
        return low.transpose(back), high.transpose(back), whole
    grids = tuple(1 if axis in reduced else dimension for axis, dimension in enumerate(shape))
    low, high = np.zeros(grids, np.float32), np.zeros(grids, np.float32)
    whole = True
    for index, values in _blocks(source, shape):
        part = values.astype(np.float32, copy=False)
        shared = _shared(index, reduced)
        np.minimum(low[shared], part.min(axis=reduced, keepdims=True), out=low[shared])
        np.maximum(high[shared], part.max(axis=reduced, keepdims=True), out=high[shared])
        whole = whole and bool((np.rint(part) == part).all())
    return low, high, whole


def _axes_of_rows(rows: int, shape: tuple[int, ...]) -> int:
    """The number of axes of ``shape`` that the rows of a matrix are split to."""
    return next(count for count in range(1, len(shape) + 1) if math.prod(shape[:count]) == rows)


def _unit_scale(low: Array, high: Array, element_type: ElementType) -> Array:
    """A scale of 1 or -1 with which codes of ``element_type`` reach from ``low`` to ``high``; 0 where there is none."""
    least, greatest = element_type.limits
    if not least:
        return np.where(high - low <= greatest, np.float32(1), np.float32(0))
    up, down = (low >= least) & (high <= greatest), (-high >= least) & (-low <= greatest)
    return np.where(up, np.float32(1), np.where(down, np.float32(-1), np.float32(0)))


def _symmetric_scale(low: Array, high: Array, bits: int) -> Array:
    half = np.float32(1 << (bits - 1))
    reach = np.maximum(np.maximum(-low, high) / half, np.minimum(-low, high) / (half - np.float32(0.5)))
    return np.where(-low >= high, reach, -reach)


def _round_scale(scale: Array) -> Array:
    """The scale as float16, rounded away from zero; as float32 where the steps would grow too much; tiny for zeros."""
    scale = np.where(scale == 0, np.finfo(np.float32).eps, scale)
    with np.errstate(over="ignore"):
        half = scale.astype(np.float16)
        half = np.where(np.abs(half) < np.abs(scale), np.nextafter(half, np.copysign(np.float16(np.inf), half)), half)
    grown = np.abs(half.astype(np.float32)) <= np.abs(scale) * np.float32(_MOST_STEP_GROWTH)
    return half if grown.all() else scale


def _blocks(source: Tensor, shape: tuple[int, ...]) -> Iterator[tuple[Index, Array]]:
    """The weights in ``shape`` as blocks of at most about :data:`_BLOCK` elements in C order, each with its index."""
    parts = source.parts()
    rest = next(parts)
    for index in _indices(shape):
        block_shape = tuple(part.stop - part.start for part in index)
        size = math.prod(block_shape)
        pieces = [rest[:size]]
        while (missing := size - sum(piece.size for piece in pieces)) > 0:
            rest = next(parts)
            pieces.append(rest[:missing])
        rest = rest[pieces[-1].size :]
        yield index, (pieces[0] if len(pieces) == 1 else np.concatenate(pieces)).reshape(block_shape)


def _indices(shape: tuple[int, ...]) -> Iterator[Index]:
    """Indices of parts of at most about :data:`_BLOCK` elements, which follow each other in C order."""
    inner, axis = 1, len(shape) - 1
    while axis > 0 and inner * shape[axis] <= _BLOCK:
        inner *= shape[axis]
        axis -= 1
    rows = max(1, _BLOCK // inner)
    behind = tuple(slice(0, dimension) for dimension in shape[axis + 1 :])
    for outer in np.ndindex(*shape[:axis]):
        before = tuple(slice(i, i + 1) for i in outer)
        for start in range(0, shape[axis], rows):
            yield (*before, slice(start, min(start + rows, shape[axis])), *behind)


def _shared(index: Index, reduced: tuple[int, ...]) -> Index:
    return tuple(slice(None) if axis in reduced else part for axis, part in enumerate(index))
