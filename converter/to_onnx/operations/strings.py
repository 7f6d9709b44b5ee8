"""Texts, which ONNX does not take apart."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.registry import REFUSALS
from ir_runtime.graph import Tensor, element_types
from ir_runtime.operations.strings import StringTensorPack15, StringTensorUnpack15

REFUSALS.add(StringTensorUnpack15, "no ONNX operator gives the bytes of a text")


@ir_op(StringTensorPack15)
def string_tensor_pack(ctx: Context, op: StringTensorPack15, begins: Value, ends: Value, symbols: Value) -> Value:
    """A constant of texts"""
    constants = [ctx.constant_values(source) for source in (begins, ends, symbols)]
    arrays = [constant for constant in constants if constant is not None]
    if len(arrays) < len(constants):
        ctx.fail("no ONNX operator makes a text of bytes: begins, ends and bytes must be known")
    try:
        texts = op.evaluate(*arrays)
    except UnicodeDecodeError as error:
        ctx.fail(f"the bytes of a text are not UTF-8: {error}")
    return ctx.initializer(Tensor.from_array(texts, element_types.string))
