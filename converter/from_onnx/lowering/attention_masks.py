"""Masks of attention: numbers that are added to the scores before Softmax."""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output, element_types
from ir_runtime.rewriting import layers

_LOWEST = {element_types.f16: -65504.0}
_LOWEST_OF_OTHERS = -3.3e38


def mask_of(ctx: Context, allowed: Output, like: Output, value: float | None = None) -> Output:
    """0 where ``allowed``, elsewhere ``value`` or the lowest finite number, in the type of ``like``."""
    hidden = lowest(like) if value is None else value
    return layers.select(ctx, allowed, ctx.like(0, like), ctx.like(hidden, like))


def lowest(like: Output) -> float:
    """The lowest finite number of a type, or about that."""
    return _LOWEST.get(like.element_type, _LOWEST_OF_OTHERS)
