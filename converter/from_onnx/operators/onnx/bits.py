"""ONNX's BitCast: the same bits as another type.

The IR has no operation that looks at bits of floats. Between the two types the bits
are an i32. A float's sign, exponent and fraction follow from comparing it and from scaling it with
powers of two, both of which are exact; a float of 8 bits or fewer is given by how many floats are smaller.
Floats of 32 bits are composed from their parts the same way; others are looked up in a table of all of them,
subnormal numbers included.
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Array, ElementType, Output, element_types
from ir_runtime.graph.element_types import pack, unpack
from ir_runtime.operations import elementwise, sorting
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

_I32, _F32 = element_types.i32, element_types.f32


@record
class _Layout:
    """How a float's bits are shared out: one for the sign, then the exponent, then the fraction."""

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
def bit_cast(ctx: Context, data: Output, *, to: int) -> Output:
    """The bits of each element as a value of type ``to``, which is as wide.

    Arithmetic cannot distinguish NaNs: as an integer each has the bits of the usual one
    (no sign, and of the fraction the highest bit), and integers become some NaN.
    """
    wanted, given = element_type_of(to), data.element_type
    if given.bits != wanted.bits:
        raise ctx.invalid(f"{given} has {given.bits} bits, but {wanted} has {wanted.bits}")
    if wanted is given:
        return data
    known = data.type.constant
    if known is not None:
        bits = np.frombuffer(pack(known, given), np.uint8)
        return ctx.constant(unpack(bits, wanted, known.shape), wanted)
    declared = ctx.declared(data).shape
    if declared.is_static and 0 in declared.static():
        # Looking up nothing is not safe everywhere, so that this holds for no elements alone; they have any bits.
        ctx.graphs.keep_dimensions()
        return in_type(ctx, data, wanted)
    if given.bits == 64:
        if given.is_real or wanted.is_real:
            raise ctx.unsupported(
                f"the bits of {given} as {wanted}, where they are computed at run time: "
                f"OpenVINO computes with 32 bits of them"
            )
        return in_type(ctx, data, wanted)
    return _of_words(ctx, _words(ctx, data), wanted)


def _words(ctx: Context, data: Output) -> Output:
    """The bits of each element, the lowest ones of i32; those above them are undefined."""
    kind = data.element_type
    if not kind.is_real:
        return in_type(ctx, data, _I32)
    x = in_type(ctx, data, _F32)
    layout = _FLOATS.get(kind)
    magnitude = _ranked(ctx, x, kind) if layout is None else _bits_of(ctx, x, layout)
    usual = int(_codes(np.full(1, np.nan), kind)[0]) if kind is not element_types.f4e2m1 else 0
    if usual:
        magnitude = layers.select(ctx, ctx.emit(elementwise.IsNaN10(), x), ctx.constant(usual, _I32), magnitude)
    if kind is element_types.f8e8m0:
        return magnitude  # It has no sign.
    zero = ctx.constant(0, _F32)
    reciprocal = layers.divide(ctx, ctx.constant(1, _F32), x)  # Of zeros it has the sign.
    signed = layers.select(ctx, layers.equal(ctx, x, zero), reciprocal, x)
    is_negative = layers.less(ctx, signed, zero)
    sign = ctx.constant(np.array(1 << (kind.bits - 1), np.uint32).view(np.int32), _I32)
    sign = layers.select(ctx, is_negative, sign, ctx.constant(0, _I32))
    return ctx.emit(elementwise.BitwiseOr13(), magnitude, sign)


def _of_words(ctx: Context, words: Output, wanted: ElementType) -> Output:
    """What the lowest bits of i32 are in another type."""
    if wanted is _F32:
        return _float_of(ctx, words)
    if wanted.bits == 32:
        return in_type(ctx, words, wanted)  # The same bits in both engines.
    low = ctx.emit(elementwise.BitwiseAnd13(), words, ctx.constant((1 << wanted.bits) - 1, _I32))
    if wanted.is_real:
        table = unpack(np.frombuffer(_all_codes(wanted), np.uint8), wanted, (1 << wanted.bits,))
        return _looked_up(ctx, table, low, wanted)
    if wanted.kind == "signed":
        half = 1 << (wanted.bits - 1)
        beyond = layers.greater_equal(ctx, low, ctx.constant(half, _I32))
        moved = layers.subtract(ctx, low, ctx.constant(2 * half, _I32))
        low = layers.select(ctx, beyond, moved, low)
    return in_type(ctx, low, wanted)


def _all_codes(kind: ElementType) -> bytes:
    """Every float of up to 16 bits, by its bits, as a file has them."""
    if kind.bits == 16:
        return np.arange(1 << 16, dtype="<u2").tobytes()
    return pack(np.arange(1 << kind.bits), element_types.u8 if kind.bits == 8 else element_types.u4)


def _codes(values: Array, kind: ElementType) -> Array:
    """The bits of floats."""
    made = values.astype(kind.dtype)
    return made.view(np.dtype(f"u{made.dtype.itemsize}"))


def _ranked(ctx: Context, x: Output, kind: ElementType) -> Output:
    """The bits of the magnitude of a float of at most 8 bits, given as f32: how many floats above 0 are not above."""
    floats = unpack(np.frombuffer(_all_codes(kind), np.uint8), kind, (1 << kind.bits,)).astype(np.float32)
    rising = floats[1 : None if kind is element_types.f8e8m0 else 1 << (kind.bits - 1)]
    rising = rising[~np.isnan(rising)]
    size = layers.absolute(ctx, x)
    return ctx.emit(
        sorting.Bucketize3(output_type=element_types.i32, with_right_bound=False), size, ctx.constant(rising, _F32)
    )


def _looked_up(ctx: Context, table: Array, places: Output, kind: ElementType) -> Output:
    return layers.gather(ctx, ctx.constant(table, kind), places, ctx.constant(0))


def _bits_of(ctx: Context, x: Output, layout: _Layout) -> Output:
    """The bits of the magnitude of numbers that a float of that layout holds, given as f32; of NaN any."""

    def number(value: float) -> Output:
        return ctx.constant(value, _F32)

    size = layers.absolute(ctx, x)
    greatest = np.ldexp(2 - np.ldexp(1.0, -layout.fraction), layout.bias)
    is_number = layers.less_equal(ctx, size, number(greatest))
    size = layers.select(ctx, is_number, size, number(0))
    # The exponent is how many of the powers of two, from the least normal number on, are not above.
    powers = np.ldexp(1.0, np.arange(1, layout.special) - layout.bias)
    bucket = sorting.Bucketize3(output_type=element_types.i32, with_right_bound=False)
    exponent = ctx.emit(bucket, size, ctx.constant(powers, _F32))
    for step in layout.steps():
        size = layers.multiply(ctx, size, _looked_up(ctx, 1 / step, exponent, _F32))
    # The highest bit of a normal number's fraction is not stored; added, it raises the exponent by one.
    lifted = np.maximum(np.arange(layout.special + 1) - 1, 0) << layout.fraction
    bits = layers.add(ctx, in_type(ctx, size, _I32), _looked_up(ctx, lifted, exponent, _I32))

    return layers.select(ctx, is_number, bits, ctx.constant(layout.infinity, _I32))


def _float_of(ctx: Context, bits: Output) -> Output:
    """The f32 of which i32 has the bits."""
    layout = _FLOATS[_F32]

    def field(shift: int, mask: int) -> Output:
        part = bits if not shift else ctx.emit(elementwise.BitwiseRightShift15(), bits, ctx.constant(shift, _I32))
        return ctx.emit(elementwise.BitwiseAnd13(), part, ctx.constant(mask, _I32))

    exponent = field(layout.fraction, layout.special)
    fraction = in_type(ctx, field(0, (1 << layout.fraction) - 1), _F32)
    first = np.where(np.arange(layout.special + 1) > 0, 1 << layout.fraction, 0)
    value = layers.add(ctx, fraction, _looked_up(ctx, first, exponent, _F32))
    for step in layout.steps():
        # Of infinity and NaN nothing but the sign is taken from here.
        step[-1] = 1
        value = layers.multiply(ctx, value, _looked_up(ctx, step, exponent, _F32))

    is_whole = layers.equal(ctx, fraction, ctx.constant(0, _F32))
    beyond = layers.select(ctx, is_whole, ctx.constant(np.inf, _F32), ctx.constant(np.nan, _F32))
    is_special = layers.equal(ctx, exponent, ctx.constant(layout.special, _I32))
    value = layers.select(ctx, is_special, beyond, value)
    sign = _looked_up(ctx, np.array([1, -1]), field(layout.bits - 1, 1), _F32)
    return layers.multiply(ctx, value, sign)
