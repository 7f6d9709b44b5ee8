"""Forms in which a constant of the IR may hold a tensor of the ONNX file: other layouts, types and orders.

Values are compared bit by bit, so that NaN equals itself, and -0 is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from ir_runtime.graph import Array, Tensor

_MOST_PERMUTED = 5
"""Axes up to which all orders of them are tried."""
_SAME_SHARE = 0.5
_RELATIVE_NEARNESS = 0.01
_SAMPLED = 64
_PIECE_BYTES = 1 << 20

ValueSum = tuple[str, int, int]


def form_of(tensor: Tensor, held: Tensor) -> str | None:
    """Describe how ``held`` holds the values of ``tensor``: empty where unchanged; None where it does not."""
    if tensor.element_type is held.element_type and tensor.size == held.size:
        if _same_bytes(tensor, held):
            return "" if tensor.shape == held.shape else "reshaped"
        if not tensor.element_type.bits:
            return None
        return _reorder(tensor.array(), held.array())
    if not tensor.element_type.bits or not held.element_type.bits or not tensor.size or not held.size:
        return None
    expected, actual = tensor.array(), held.array()
    if tensor.element_type is held.element_type:
        return _of_other_size(expected, actual)
    if tensor.size != held.size:
        return None
    with np.errstate(all="ignore"):
        nearest = expected.astype(actual.dtype)
        exact = tensor.element_type.is_real or np.array_equal(nearest.astype(expected.dtype), expected)
        shift = _shift(expected, actual)
    if shift:
        return f"as {held.element_type}, shifted by {shift}"
    if not exact or (tensor.element_type.is_real and not held.element_type.is_real):
        return None
    if np.array_equal(bits_of(nearest), bits_of(actual)):
        return f"as {held.element_type}"
    order = _reorder(nearest, actual)
    return None if order is None else f"as {held.element_type}, {order}"


def _same_bytes(tensor: Tensor, held: Tensor) -> bool:
    if tensor.sample() != held.sample() and tensor.span() is not None and held.span() is not None:
        return False
    left, right = _pieces(tensor), _pieces(held)
    return all(a == b for a, b in zip(left, right))


def _pieces(tensor: Tensor) -> Iterator[bytes]:
    """The bytes in pieces of one size."""
    rest = b""
    for chunk in tensor.chunks():
        rest = rest + bytes(chunk) if rest else bytes(chunk)
        whole = len(rest) - len(rest) % _PIECE_BYTES
        for start in range(0, whole, _PIECE_BYTES):
            yield rest[start : start + _PIECE_BYTES]
        rest = rest[whole:]
    yield rest


def _reorder(expected: Array, actual: Array) -> str | None:
    reordered = layout_of(expected, actual, only_equal=True)
    if reordered is not None:
        return "transposed"
    return "in another order" if np.array_equal(np.sort(bits_of(expected)), np.sort(bits_of(actual))) else None


def _of_other_size(expected: Array, actual: Array) -> str | None:
    """A scalar that stands for many values, or a part of a larger constant."""
    few, many = sorted([bits_of(expected), bits_of(actual)], key=len)
    if (few == few[0]).all() and (many == few[0]).all():
        return "one number for all"
    if len(few) > 1 and actual.size > expected.size:
        at = np.flatnonzero(many[: len(many) - len(few) + 1] == few[0])[:_SAMPLED]
        if any(np.array_equal(many[start : start + len(few)], few) for start in at.tolist()):
            return "part of a larger constant"
    return None


def _shift(expected: Array, actual: Array) -> int:
    """The number that is added to every whole number, as where u8 became i8; 0 for none."""
    if expected.dtype.kind not in "iu" or actual.dtype.kind not in "iu" or expected.size != actual.size:
        return 0
    shifts = np.unique(actual.reshape(-1).astype(np.int64) - expected.reshape(-1).astype(np.int64))
    return int(shifts[0]) if len(shifts) == 1 else 0


def layout_of(expected: Array, actual: Array, *, only_equal: bool = False) -> Array | None:
    """``expected`` in the order of its axes that is nearest to ``actual``, in the shape of ``actual``.

    None where their sizes differ; with ``only_equal`` also where no order makes them equal, bit by bit.
    """
    if expected.size != actual.size:
        return None
    values: Array | None = None
    least = float("inf")
    for axes in _orders(expected):
        transposed = expected.transpose(axes)
        if only_equal:
            if np.array_equal(bits_of(transposed.flat[:_SAMPLED]), bits_of(actual.flat[:_SAMPLED])) and (
                np.array_equal(bits_of(transposed), bits_of(actual))
            ):
                return transposed.reshape(actual.shape)
            continue
        candidate = transposed.reshape(actual.shape)
        gap = largest_gap(candidate, actual)
        if values is None or gap < least:
            values, least = candidate, gap
    return values


def largest_gap(expected: Array, actual: Array) -> float:
    """The largest difference of two arrays of one shape; NaN where none is a number, of strings 0 or 1."""
    if expected.dtype.kind in "OUST":
        return float(np.any(expected != actual))
    with np.errstate(all="ignore"):
        gaps = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
    return float(np.nanmax(gaps, initial=0.0)) if gaps.size == 0 or not np.isnan(gaps).all() else float("nan")


def matrix_layouts(expected: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """``expected`` in another shape of its size, and the transposed matrix where that has the shape, too."""
    yield expected.reshape(shape)
    if expected.ndim == 2 and expected.T.shape == shape:
        yield expected.T


def _orders(array: Array) -> Iterator[tuple[int, ...]]:
    if array.ndim > _MOST_PERMUTED:
        yield tuple(range(array.ndim))
        return
    yield from permutations(range(array.ndim))


def bits_of(array: Array) -> Array:
    """The bits of each element as a whole number, in one dimension."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat if flat.dtype.kind in "OUSTb" else flat.view(f"u{flat.dtype.itemsize}")


def mostly_equal(expected: Array, actual: Array) -> bool:
    """True if at least half of the values are equal."""
    return bool(np.mean(bits_of(expected) == bits_of(actual)) >= _SAME_SHARE)


def mostly_near(expected: Array, actual: Array) -> bool:
    """True if at least half of the values are at most a hundredth apart."""
    if expected.dtype.kind != "f" or not expected.any():
        return False
    with np.errstate(all="ignore"):
        near = np.abs(actual.astype(np.float64) - expected) <= _RELATIVE_NEARNESS * np.abs(expected.astype(np.float64))
    return bool(np.mean(near) >= _SAME_SHARE)


def count_missing(expected: Array, actual: Array) -> int:
    """Count the expected values that the other array does not have, with repetitions."""
    ours, times = np.unique(bits_of(expected), return_counts=True)
    theirs, there = np.unique(bits_of(actual), return_counts=True)
    _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return int(expected.size - np.minimum(times[left], there[right]).sum())


def value_sum(tensor: Tensor) -> ValueSum:
    """The type, the size and the sum of all bits: equal for tensors of the same elements in any order."""
    bits = bits_of(tensor.array()) if tensor.element_type.bits else np.zeros(0, np.uint8)
    return tensor.element_type.name, tensor.size, int(bits.sum(dtype=np.uint64))
