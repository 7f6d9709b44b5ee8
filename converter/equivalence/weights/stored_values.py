"""The values of a tensor in a constant: their bits, in whatever order, as they are or in another type.

NaN equals itself, and -0 is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir_runtime.graph import Array, Tensor

_PIECE_BYTES = 1 << 20

ValueSum = tuple[str, int, int]


def form_of(tensor: Tensor, held: Tensor) -> str | None:
    """Describe how ``held`` holds the values of ``tensor``: empty where unchanged; None where it does not."""
    if tensor.size != held.size:
        return None
    if tensor.element_type is held.element_type:
        if _same_bytes(tensor, held):
            return "" if tensor.shape == held.shape else "reshaped"
        return _reorder(tensor.array(), held.array()) if tensor.element_type.bits else None
    nearest = converted(tensor, held)
    if nearest is None:
        return None
    actual = held.array()
    if np.array_equal(bits_of(nearest), bits_of(actual)):
        return f"as {held.element_type}"
    order = _reorder(nearest, actual)
    return None if order is None else f"as {held.element_type}, {order}"


def converted(tensor: Tensor, held: Tensor) -> Array | None:
    """The nearest values of the other constant's type; None where whole numbers are not the same in it."""
    if tensor.element_type is held.element_type:
        return tensor.array()
    if not (tensor.element_type.bits and held.element_type.bits and tensor.size):
        return None
    expected = tensor.array()
    with np.errstate(all="ignore"):
        nearest = expected.astype(held.element_type.dtype)
        if tensor.element_type.is_real:
            return nearest if held.element_type.is_real else None
        return nearest if np.array_equal(nearest.astype(expected.dtype), expected) else None


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
    if any(np.array_equal(bits_of(layout), bits_of(actual)) for layout in layouts(expected, actual.shape)):
        return "transposed"
    return "in another order" if np.array_equal(np.sort(bits_of(expected)), np.sort(bits_of(actual))) else None


def layouts(expected: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """``expected`` in another shape of its size, and as if its axes were in reverse."""
    yield expected.reshape(shape)
    yield expected.T.reshape(shape)


def largest_gap(expected: Array, actual: Array) -> float:
    """The largest difference of two arrays of one shape; NaN where none is a number, of strings 0 or 1."""
    if expected.dtype.kind in "OUST":
        return float(np.any(expected != actual))
    with np.errstate(all="ignore"):
        gaps = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
    return float(np.nanmax(gaps, initial=0.0)) if gaps.size == 0 or not np.isnan(gaps).all() else float("nan")


def bits_of(array: Array) -> Array:
    """The bits of each element as a whole number, in one dimension."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat if flat.dtype.kind in "OUSTb" else flat.view(f"u{flat.dtype.itemsize}")


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
