"""float32 numbers as float16, and whether they fit: in blocks that stay in a processor's cache, on the numbers' bits.

NumPy's own conversion goes number by number, and takes longer than a disk needs to deliver the weights. The results
are the same: rounded to the nearest, to even halfway.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir_runtime.element_types import Array

LARGEST = 65504.0
"""float16's largest finite number."""
SMALLEST = 2.0**-14
"""Its smallest normal one."""
_BLOCK = 1 << 15
_SMALLEST_BITS = 0x38800000
_LARGEST_BITS = 0x477FE000
_INFINITY_BITS = 0x7F800000
_BEYOND_BITS = 0x477FF000
"""What is rounded to infinity, from here on."""
_REBIAS = (127 - 15) << 23


def misfits(values: Array) -> tuple[bool, int]:
    """Whether some finite one of the numbers is beyond float16's largest; how many are below its smallest normal one.

    ``values`` is a row of float32 or float64; zeros fit.
    """
    if values.dtype != np.float32:
        reach = np.abs(values)
        return bool(((reach > LARGEST) & np.isfinite(reach)).any()), int(
            np.count_nonzero((reach < SMALLEST) & (reach > 0))
        )
    beyond, tiny = False, 0
    for bits in _blocks(values):
        reach = bits & np.uint32(0x7FFFFFFF)
        if reach.size and reach.max() > _LARGEST_BITS:
            beyond = beyond or bool(((reach > _LARGEST_BITS) & (reach < _INFINITY_BITS)).any())
        reach -= np.uint32(1)  # zeros become the largest number
        tiny += int(np.count_nonzero(reach < _SMALLEST_BITS - 1))
    return beyond, tiny


def to_half(values: Array) -> Array:
    """The numbers of a row as float16; what is too large becomes infinite."""
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    made = np.empty(values.size, np.float16)
    codes = made.view(np.uint16)
    start = 0
    for bits in _blocks(values):
        end = start + bits.size
        reach = bits & np.uint32(0x7FFFFFFF)
        if reach.max() >= _BEYOND_BITS:
            with np.errstate(over="ignore"):
                made[start:end] = values[start:end]
        else:
            codes[start:end] = _codes(bits, reach)
        start = end
    return made


def _blocks(values: Array) -> Iterator[Array]:
    bits = np.ascontiguousarray(values).view(np.uint32)
    for start in range(0, bits.size, _BLOCK):
        yield bits[start : start + _BLOCK]


def _codes(bits: Array, reach: Array) -> Array:
    """float16's bits in 32: the exponent counts from another number, and 13 bits of the fraction are rounded away."""
    codes = reach >> np.uint32(13)
    codes &= np.uint32(1)  # halfway goes to the even number
    codes += reach
    codes -= np.uint32(_REBIAS - 0x0FFF)
    codes >>= np.uint32(13)
    if reach.min() < _SMALLEST_BITS:
        # Below the normal numbers float16 counts in steps of 2^-24, which is what float32 has at 0.5.
        steps = (reach.view(np.float32) + np.float32(0.5)).view(np.uint32)
        steps -= np.uint32(0x3F000000)
        np.copyto(codes, steps, where=reach < _SMALLEST_BITS)
    signs = bits >> np.uint32(16)
    signs &= np.uint32(0x8000)
    codes |= signs
    return codes
