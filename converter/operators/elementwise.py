"""ONNX's arithmetic, comparison, logic and unary mathematics."""

from __future__ import annotations

from collections.abc import Sequence

from converter.context import Context
from converter.registry import onnx_op
from ir_runtime.graph import Output
from ir_runtime.operation import Operation
from ir_runtime.operations import elementwise as ir


def _unary(op_type: str, versions: Sequence[int], cls: type[Operation]) -> None:
    def translate(ctx: Context, x: Output) -> Output:
        return ctx.emit(cls(), x)

    onnx_op(op_type, versions=versions)(translate)


_unary("Erf", (9, 13), ir.Erf1)
