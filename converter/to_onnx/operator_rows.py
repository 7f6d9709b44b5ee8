"""Operations that are one ONNX operator of the same inputs."""

from __future__ import annotations

from typing import Any

from ir_runtime.graph.operation import Operation

from .broadcasting import aligned
from .context import Context
from .graph import Value
from .registry import ir_op


def writes(op_type: str, *operations: type[Operation], **attributes: Any) -> None:
    """Register operations that are written as one operator of their inputs.

    ``attributes`` are those of the operator; a string is the name of the operation's attribute that has the value.
    """

    def export(ctx: Context, op: Operation, *inputs: Value) -> Value:
        values = {key: getattr(op, value) if isinstance(value, str) else value for key, value in attributes.items()}
        rule = getattr(op, "auto_broadcast", "numpy")
        return ctx.emit(op_type, *(aligned(ctx, rule, *inputs) if rule == "pdpd" else inputs), **values)

    fixed = ", ".join(f"{key} = {value:.4g}" for key, value in attributes.items() if not isinstance(value, str))
    export.__doc__ = f"{op_type} with {fixed}" if fixed else op_type
    ir_op(*operations)(export)
