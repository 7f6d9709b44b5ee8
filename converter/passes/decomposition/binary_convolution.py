"""Convolution of signs."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.convolution import BinaryConvolution1, Convolution1
from ir_runtime.rewriting.expressions import Expression, where


@decomposes(BinaryConvolution1)
def binary_convolution(op: BinaryConvolution1, x: Expression, weights: Expression) -> Expression:
    """Convolution of the signs: -1 for 0, 1 for any other number; padding has the sign of ``pad_value``"""
    single = x.of(1, "f32")
    signs, kernel = (where(operand.as_type("boolean"), single, -1) for operand in (x, weights))
    fill = 1 if op.pad_value else -1
    convolution = Convolution1(
        strides=op.strides,
        pads_begin=op.pads_begin,
        pads_end=op.pads_end,
        dilations=op.dilations,
        auto_pad=op.auto_pad,
    )
    # Signs less the padding's are 0 in the padding; the sum of the kernel times the padding's sign is added back.
    result = (signs - fill).emit(convolution, kernel) + kernel.sum(1, 2, 3).unsqueeze(1, 2) * fill
    return result.as_type(x.element_type)
