"""Masks of attention: numbers that are added to the scores before Softmax."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Output
from ir_runtime.operations.elementwise import Convert1, Select1
from ir_runtime.operations.movement import Concat1
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


def is_above_minus_infinity(value: Output) -> bool:
    """Whether a mask of numbers never is -inf, as far as the layers that make it tell."""
    known = value.type.constant
    if known is not None:
        return bool((np.asarray(known, np.float64) > -np.inf).all())
    op, inputs = value.node.op, value.node.inputs
    if isinstance(op, Select1):
        return all(is_above_minus_infinity(source) for source in inputs[1:])
    if isinstance(op, Concat1):
        return all(is_above_minus_infinity(source) for source in inputs)
    if isinstance(op, Convert1):
        # Large integers become infinite in 16 bits; booleans do not.
        return inputs[0].element_type is element_types.boolean or (
            not inputs[0].element_type.is_real and value.element_type.bits >= 32
        )
    return bool(inputs) and op.movement and is_above_minus_infinity(inputs[0])
