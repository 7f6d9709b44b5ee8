"""Two tensors brought to one element type."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from ir_runtime.operations.type_promotion import ConvertPromoteTypes14


@ir_op(ConvertPromoteTypes14)
def convert_promote_types(ctx: Context, op: ConvertPromoteTypes14, a: Value, b: Value) -> list[Value]:
    """Cast of both to the type that inference found"""
    if ctx.node.outputs[0].element_type.is_dynamic:
        ctx.fail("whether an input is a scalar must be known: the common type follows from it")
    return [a, b]
