"""Numbers of segments: how often each comes."""

from __future__ import annotations

from ir_runtime.graph import element_types

from .context import Context
from .graph import Value
from .sizes import Size, as_list
from .updates import scatter_elements


def segment_sizes(ctx: Context, segment: Value, count: Size) -> Value:
    """How often each number below ``count`` stands in a list."""
    ones = ctx.emit("Expand", ctx.constant(1), ctx.emit("Shape", segment))
    zeros = ctx.emit("Expand", ctx.constant(0), as_list(ctx, count))
    return scatter_elements(ctx, zeros, ctx.cast(segment, element_types.i64), ones, 0, "add")
