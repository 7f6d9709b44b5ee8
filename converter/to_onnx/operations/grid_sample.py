"""GridSample: values interpolated at the positions of a grid."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from ir_runtime.operations.grid_sample import GridSample9

_MODES_SINCE_20 = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
"""Modes of the IR -> names that opset 20 gave them in ONNX; before it, both are the same."""


@ir_op(GridSample9)
def grid_sample(ctx: Context, op: GridSample9, x: Value, grid: Value) -> Value:
    """GridSample (opset 16)"""
    ctx.opsets.require(16, "GridSample")
    mode = _MODES_SINCE_20[op.mode] if ctx.opset >= 20 else op.mode
    positions = ctx.cast(grid, x.element_type) if x.element_type.is_real else grid
    return ctx.emit(
        "GridSample", x, positions, mode=mode, padding_mode=op.padding_mode, align_corners=int(op.align_corners)
    )
