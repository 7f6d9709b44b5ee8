"""float32 numbers as float16, and whether they fit, computed on their bits in blocks that fit a processor's cache.

NumPy's own conversion takes longer than a disk needs to deliver the weights. The results are the same: rounded to the
nearest number, and halfway to the even one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir_runtime.graph import Array

LARGEST = 65504.0
"""float16's largest finite number."""
SMALLEST = 2.0**-14
"""Its smallest normal one."""
_BLOCK = 1 << 15
_SMALLEST_BITS = 0x38800000
_LARGEST_BITS = 0x477FE000
_INFINITY_BITS = 0x7F800000
_BEYOND_BITS = 0x477FF000
"""From here on numbers are rounded to infinity."""
_REBIAS = (127 - 15) << 23


def misfits(values: Array) -> tuple[bool, int]:
    """Return if a finite number is beyond float16's largest, and how many are below its smallest normal one.

    ``values`` is a row of float32 or float64; zeros fit.
    """
    if values.dtype != np.float32:
        magnitude = np.abs(values)
        return bool(((magnitude > LARGEST) & np.isfinite(magnitude)).any()), int(
            np.count_nonzero((magnitude < SMALLEST) & (magnitude > 0))
        )
    beyond, tiny = False, 0
    for bits in _blocks(values):
        magnitude = bits & np.uint32(0x7FFFFFFF)
        if magnitude.size and magnitude.max() > _LARGEST_BITS:
            beyond = beyond or bool(((magnitude > _LARGEST_BITS) & (magnitude < _INFINITY_BITS)).any())
        magnitude -= np.uint32(1)  # zeros become the largest number
        tiny += int(np.count_nonzero(magnitude < _SMALLEST_BITS - 1))
    return beyond, tiny


def to_half(values: Array) -> Array:
    """The numbers of a row as float16; what is too large becomes infinite."""
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    halves = np.empty(values.size, np.float16)
    codes = halves.view(np.uint16)
    start = 0
    for bits in _blocks(values):
        end = start + bits.size
        magnitude = bits & np.uint32(0x7FFFFFFF)
        if magnitude.max() >= _BEYOND_BITS:
            with np.errstate(over="ignore"):
                halves[start:end] = values[start:end]
        else:
            codes[start:end] = _codes(bits, magnitude)
        start = end
    return halves


def _blocks(values: Array) -> Iterator[Array]:
    bits = np.ascontiguousarray(values).view(np.uint32)
    for start in range(0, bits.size, _BLOCK):
        yield bits[start : start + _BLOCK]


def _codes(bits: Array, magnitude: Array) -> Array:
    """float16's bits in 32: the exponent has another bias, and the last 13 bits of the fraction are rounded away."""
    codes = magnitude >> np.uint32(13)
    codes &= np.uint32(1)  # halfway goes to the even number
    codes += magnitude
    codes -= np.uint32(_REBIAS - 0x0FFF)
    codes >>= np.uint32(13)
    if magnitude.min() < _SMALLEST_BITS:
        # Below the normal numbers float16 counts in steps of 2^-24, which is what float32 has at 0.5.
        steps = (magnitude.view(np.float32) + np.float32(0.5)).view(np.uint32)
        steps -= np.uint32(0x3F000000)
        np.copyto(codes, steps, where=magnitude < _SMALLEST_BITS)
    signs = bits >> np.uint32(16)
    signs &= np.uint32(0x8000)
    codes |= signs
    return codes
