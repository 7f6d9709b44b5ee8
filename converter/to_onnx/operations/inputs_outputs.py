"""Constants, identities, and texts, which ONNX does not take apart.

Parameters and results are the graph's own; variables have become inputs and outputs.
"""

from __future__ import annotations

import numpy as np

from converter.onnx_file.types import onnx_number
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.registry import REFUSALS
from ir_runtime.graph import Tensor, element_types
from ir_runtime.operations.inputs_outputs import Assign3, Assign6, Const1, Identity16, ReadValue3, ReadValue6
from ir_runtime.operations.strings import StringTensorPack15, StringTensorUnpack15

REFUSALS.of((ReadValue3, ReadValue6, Assign3, Assign6))(
    "ONNX has no variables, and only those of the model itself become inputs and outputs, not those of a body"
)


@ir_op(Const1)
def const(ctx: Context, op: Const1) -> Value:
    """An initializer with the data of the ``.bin``; floats of 4 bits as codes, and Gather of what these stand for"""
    element_type = op.value.element_type
    if element_type in (element_types.nf4, element_types.f4e2m1) and ctx.at_least(21):
        return _looked_up(ctx, op.value)
    if not onnx_number(element_type) or element_type is element_types.f4e2m1:
        # nf4 (whose numbers are float32 in memory), u1, u3 and u6 (uint8).
        dtype = np.float32 if element_type.is_real else np.uint8
        return ctx.initializer(Tensor.from_array(op.value.array().astype(dtype)), _name(ctx))
    if element_type is element_types.u2:
        ctx.opsets.require(25, "a constant of the type u2")
    elif element_type in (element_types.u4, element_types.i4):
        ctx.opsets.require(21, f"a constant of the type {element_type}")
    return ctx.initializer(op.value, _name(ctx))


def _looked_up(ctx: Context, values: Tensor) -> Value:
    """Floats of 4 bits, kept as codes: Gather of the sixteen numbers that they stand for."""
    packed = np.frombuffer(b"".join(values.chunks()), np.uint8)
    codes = ctx.initializer(Tensor.from_packed(packed, element_types.u4, values.shape), _name(ctx))
    every = np.arange(16, dtype=np.uint8)
    table = element_types.unpack(every[0::2] | (every[1::2] << 4), values.element_type, (16,)).astype(np.float32)
    return ctx.emit("Gather", ctx.constant(table), ctx.cast(codes, element_types.i32), axis=0)


def _name(ctx: Context) -> str:
    (output,) = ctx.node.outputs
    return output.names[0] if output.names else ctx.node.name


@ir_op(Identity16)
def identity(ctx: Context, op: Identity16, x: Value) -> Value:
    """Identity"""
    return x


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
