"""ONNX's BitCast: the same bits as another type.

The IR has no operation that looks at bits of floats. Between the two types the bits
are an i32. A float's sign, exponent and fraction follow from comparing it and from scaling it with
powers of two, both of which are exact; a float of 8 bits or fewer is given by how many floats are smaller.
Floats of 32 bits are composed from their parts the same way; others are looked up in a table of all of them,
subnormal numbers included.
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.graph.element_types import pack, unpack
from ir_runtime.operations import elementwise
from ir_runtime.operations.sorting import Bucketize3
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, where


@record
class _Layout:
    """The layout of a float's bits: one for the sign, then the exponent, then the fraction."""

    bits: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.fraction - 2)) - 1

    @property
    def special(self) -> int:
        """The exponent of infinity and NaN."""
        return 2 * self.bias + 1

    @property
    def infinity(self) -> int:
        """Its bits."""
        return self.special << self.fraction

    def steps(self) -> tuple[Array, Array]:
        """For each exponent two powers of two; the fraction times both is the number.

        Two, because one may lie beyond what a normal float32 holds.
        """
        power = np.maximum(np.arange(self.special + 1), 1) - self.bias - self.fraction
        first = power // 2
        return np.ldexp(1.0, first), np.ldexp(1.0, power - first)


_FLOATS = {
    element_types.f32: _Layout(32, 23),
    element_types.f16: _Layout(16, 10),
    element_types.bf16: _Layout(16, 7),
}


@onnx_op("BitCast", versions=(26,))
def bit_cast(ctx: Context, data: Expression, *, to: int) -> Expression:
    """The bits of each element as a value of type ``to``, which is as wide.

    Arithmetic cannot distinguish NaNs: as an integer each has the bits of the usual one
    (no sign, and of the fraction the highest bit), and integers become some NaN.
    """
    target_type, source_type = element_type_of(to), data.element_type
    if source_type.bits != target_type.bits:
        raise ctx.invalid(f"{source_type} has {source_type.bits} bits, but {target_type} has {target_type.bits}")
    if target_type is source_type:
        return data
    constant = data.value.type.constant
    if constant is not None:
        bits = np.frombuffer(pack(constant, source_type), np.uint8)
        return data.of(unpack(bits, target_type, constant.shape), target_type)
    declared = ctx.declared(data.value).shape
    if declared.is_static and 0 in declared.static():
        # Looking up nothing is not safe everywhere, so that this holds for no elements alone; they have any bits.
        ctx.graphs.keep_dimensions()
        return data.as_type(target_type)
    if source_type.bits == 64:
        if source_type.is_real or target_type.is_real:
            raise ctx.unsupported(
                f"the bits of {source_type} as {target_type}, where they are computed at run time: "
                f"OpenVINO computes with 32 bits of them"
            )
        return data.as_type(target_type)
    return _of_words(_words(data), target_type)


def _words(data: Expression) -> Expression:
    """The bits of each element, the lowest ones of i32; those above them are undefined."""
    element_type = data.element_type
    if not element_type.is_real:
        return data.as_type("i32")
    x = data.as_type("f32")
    layout = _FLOATS.get(element_type)
    magnitude = _rank_bits(x, element_type) if layout is None else _bits_of(x, layout)
    usual = int(_codes(np.full(1, np.nan), element_type)[0]) if element_type is not element_types.f4e2m1 else 0
    if usual:
        magnitude = where(x.emit(elementwise.IsNaN10()), magnitude.of(usual), magnitude)
    if element_type is element_types.f8e8m0:
        return magnitude  # It has no sign.
    signed = where(x.equal(0), 1 / x, x)  # The reciprocals of zeros have their sign.
    sign = magnitude.of(np.array(1 << (element_type.bits - 1), np.uint32).view(np.int32))
    return magnitude.emit(elementwise.BitwiseOr13(), where(signed < 0, sign, 0))


def _of_words(words: Expression, target_type: ElementType) -> Expression:
    """Reinterpret the lowest bits of i32 as another type."""
    if target_type is element_types.f32:
        return _float_of(words)
    if target_type.bits == 32:
        return words.as_type(target_type)  # The same bits in both engines.
    low = words.emit(elementwise.BitwiseAnd13(), words.of((1 << target_type.bits) - 1))
    if target_type.is_real:
        table = unpack(np.frombuffer(_all_codes(target_type), np.uint8), target_type, (1 << target_type.bits,))
        return low.of(table, target_type).gather(low)
    if target_type.category == "signed":
        half = 1 << (target_type.bits - 1)
        low = where(low.greater_equal(half), low - 2 * half, low)
    return low.as_type(target_type)


def _all_codes(element_type: ElementType) -> bytes:
    """Every float of up to 16 bits, by its bits, as a file has them."""
    if element_type.bits == 16:
        return np.arange(1 << 16, dtype="<u2").tobytes()
    return pack(np.arange(1 << element_type.bits), element_types.u8 if element_type.bits == 8 else element_types.u4)


def _codes(values: Array, element_type: ElementType) -> Array:
    """The bits of floats."""
    converted = values.astype(element_type.dtype)
    return converted.view(np.dtype(f"u{converted.dtype.itemsize}"))


def _not_above(size: Expression, rising: Array) -> Expression:
    """Count the ascending numbers that are not above each element."""
    return size.emit(Bucketize3(output_type=element_types.i32, with_right_bound=False), size.of(rising))


def _rank_bits(x: Expression, element_type: ElementType) -> Expression:
    """The bits of the magnitude of a float of at most 8 bits, given as f32: how many floats above 0 are not above."""
    floats = unpack(np.frombuffer(_all_codes(element_type), np.uint8), element_type, (1 << element_type.bits,)).astype(
        np.float32
    )
    rising = floats[1 : None if element_type is element_types.f8e8m0 else 1 << (element_type.bits - 1)]
    return _not_above(abs(x), rising[~np.isnan(rising)])


def _bits_of(x: Expression, layout: _Layout) -> Expression:
    """The bits of the magnitude of numbers that a float of that layout holds, given as f32; of NaN any."""
    size = abs(x)
    is_number = size <= np.ldexp(2 - np.ldexp(1.0, -layout.fraction), layout.bias)
    size = where(is_number, size, 0)
    # The exponent is how many of the powers of two, from the least normal number on, are not above.
    exponent = _not_above(size, np.ldexp(1.0, np.arange(1, layout.special) - layout.bias))
    for step in layout.steps():
        size = size * size.of(1 / step).gather(exponent)
    # The highest bit of a normal number's fraction is not stored; added, it raises the exponent by one.
    lifted = np.maximum(np.arange(layout.special + 1) - 1, 0) << layout.fraction
    bits = size.as_type("i32") + exponent.of(lifted).gather(exponent)
    return where(is_number, bits, layout.infinity)


def _float_of(bits: Expression) -> Expression:
    """The f32 of which i32 has the bits."""
    layout = _FLOATS[element_types.f32]

    def field(shift: int, mask: int) -> Expression:
        part = bits.emit(elementwise.BitwiseRightShift15(), bits.of(shift)) if shift else bits
        return part.emit(elementwise.BitwiseAnd13(), bits.of(mask))

    exponent = field(layout.fraction, layout.special)
    fraction = field(0, (1 << layout.fraction) - 1).as_type("f32")
    first = np.where(np.arange(layout.special + 1) > 0, 1 << layout.fraction, 0)
    value = fraction + fraction.of(first).gather(exponent)
    for step in layout.steps():
        # Of infinity and NaN nothing but the sign is taken from here.
        step[-1] = 1
        value = value * value.of(step).gather(exponent)

    beyond = where(fraction.equal(0), fraction.of(np.inf), np.nan)
    value = where(exponent.equal(layout.special), beyond, value)
    return value * value.of([1, -1]).gather(field(layout.bits - 1, 1))
