"""Constants and identities. Parameters and results are the graph's own; variables have become inputs and outputs."""

from __future__ import annotations

import numpy as np

from converter.onnx_file.types import onnx_number
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.registry import ir_op
from ir_runtime.graph import element_types
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Identity16


@ir_op(Const1)
def const(ctx: Context, op: Const1) -> Value:
    """An initializer, with the data of the ``.bin`` as it is."""
    kind = op.value.element_type
    if not onnx_number(kind):
        # nf4 (whose numbers are float32 in memory), u1, u3 and u6 (uint8).
        dtype = np.float32 if kind.is_real else np.uint8
        return ctx.initializer(Tensor.from_array(op.value.array().astype(dtype)), _name(ctx))
    if kind is element_types.u2:
        ctx.opsets.require(25, "a constant of the type u2")
    elif kind in (element_types.u4, element_types.i4):
        ctx.opsets.require(21, f"a constant of the type {kind}")
    return ctx.initializer(op.value, _name(ctx))


def _name(ctx: Context) -> str:
    (output,) = ctx.node.outputs
    return output.names[0] if output.names else ctx.node.name


@ir_op(Identity16)
def identity(ctx: Context, op: Identity16, x: Value) -> Value:
    """Identity"""
    return x
