"""Operands whose shapes broadcast as ONNX's do: aligned with the last dimensions."""

from __future__ import annotations

from .context import Context
from .graph import Value


def aligned(ctx: Context, rule: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands of an operation with this ``auto_broadcast``: ``pdpd`` aligns b with the first dimensions of a."""
    if rule != "pdpd":
        return a, b
    if not a.shape.has_rank or not b.shape.has_rank:
        ctx.fail("auto_broadcast='pdpd' needs operands of known rank")
    behind = a.shape.rank - b.shape.rank
    if behind <= 0:
        return a, b
    axes = ctx.constant(list(range(b.shape.rank, a.shape.rank)))
    return a, ctx.emit("Unsqueeze", b, axes)
