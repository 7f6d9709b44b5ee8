"""ONNX's BitCast: the same bits as another type."""

from __future__ import annotations

import numpy as np

from converter.context import Context
from converter.onnx_types import element_type_of
from converter.registry import onnx_op
from ir_runtime import element_types
from ir_runtime.element_types import ElementType, pack, unpack
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise

from .shapes import in_type

_SMALL = {  # signed -> unsigned, of types that i32 holds
    element_types.i8: element_types.u8,
    element_types.i16: element_types.u16,
}


@onnx_op("BitCast", versions=(26,))
def bit_cast(ctx: Context, data: Output, *, to: int) -> Output:
    """The bits of each element as a value of type ``to``, which is as wide.

    The IR has no such operation: constants are computed, integers of 8 and 16 bits go through
    arithmetic, and anything else is unsupported.
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
    if given is element_types.boolean and wanted.is_integral:
        return in_type(ctx, data, wanted)
    if _SMALL.get(given) is wanted:
        return _moved(ctx, data, wanted, elementwise.Less1(), 0, 1 << wanted.bits)
    if _SMALL.get(wanted) is given:
        return _moved(ctx, data, wanted, elementwise.GreaterEqual1(), 1 << (wanted.bits - 1), -(1 << wanted.bits))
    raise ctx.unsupported(f"the bits of {given} as {wanted}, where they are computed at execution")


def _moved(ctx: Context, data: Output, to: ElementType, compare: elementwise.Binary, edge: int, by: int) -> Output:
    """The values with ``by`` added to those beyond the edge."""
    wide = in_type(ctx, data, element_types.i32)
    beyond = ctx.emit(compare, wide, ctx.constant(edge, "i32"))
    moved = ctx.emit(elementwise.Add1(), wide, ctx.constant(by, "i32"))
    return in_type(ctx, ctx.emit(elementwise.Select1(), beyond, moved, wide), to)
