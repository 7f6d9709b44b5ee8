"""The operands of ConvInteger and MatMulInteger: integers of 8 bits less a zero point.

codes -> Convert to i32 [-> Subtract the zero point, as i32]
"""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import reshape
from ir_runtime.graph import Output, element_types
from ir_runtime.operations.elementwise import Convert1, Subtract1
from ir_runtime.records import record

_CODES = (element_types.u8, element_types.i8)


@record
class IntegerOperand:
    """An operand as the operators of integers take it."""

    codes: Output
    zero_point: Value | None
    """In the type of the codes: a scalar, or a vector with an element for each column; None stands for 0."""


def integer_operand(ctx: Context, operand: Output, *, by_column: bool = False) -> IntegerOperand | None:
    """Return what ``operand`` is computed from; None where it is no difference of codes and a single zero point.

    ``by_column`` allows a vector of zero points, one for each element of the last dimension.
    """
    if operand.element_type is not element_types.i32 or not ctx.at_least(10):
        return None
    zero = None
    if isinstance(operand.node.op, Subtract1):
        operand, zero = operand.node.inputs
    codes = _codes(operand)
    if codes is None or zero is None:
        return None if codes is None else IntegerOperand(codes, None)
    if not zero.shape.is_static:
        return None
    dims = zero.shape.static()
    is_single = all(size == 1 for size in dims) and len(dims) <= (codes.shape.rank if codes.shape.has_rank else 0)
    if not is_single and not (by_column and len(dims) == 1 and str(codes.shape) == str(operand.shape)):
        return None
    point = _codes(zero)
    if point is not None and point.element_type is codes.element_type:
        value = ctx.value(point)
    elif zero.type.constant is not None and codes.element_type.holds(zero.type.constant):
        value = ctx.constant(zero.type.constant.astype(codes.element_type.dtype), codes.element_type)
    else:
        return None
    return IntegerOperand(codes, reshape(ctx, value, []) if is_single else value)


def _codes(value: Output) -> Output | None:
    """What a value of i32 is converted from; None where that is no type of 8 bits."""
    if not isinstance(value.node.op, Convert1) or value.node.inputs[0].element_type not in _CODES:
        return None
    return value.node.inputs[0]
