"""Pads of convolutions and poolings, in the form that ONNX and onnxruntime know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir_runtime.graph import Dimension

from .context import Context


def padding(ctx: Context, op: Any, kernel: Sequence[Dimension], sizes: Sequence[Dimension]) -> dict[str, Any]:
    """The attributes ``pads`` or ``auto_pad`` of windows of the spatial shape ``kernel`` over data of ``sizes``.

    ``auto_pad`` knows no dilations: the pads are then computed, which needs known dimensions or a stride of 1.
    """
    rank = len(kernel)
    if op.auto_pad == "valid":
        return {"pads": [0] * (2 * rank)}
    if op.auto_pad == "explicit":
        begins, ends = (list(pads[:rank] or [0] * rank) for pads in (op.pads_begin, op.pads_end))
        return {"pads": [*begins, *ends]}
    dilations = dilations_of(op, rank)
    if all(rate == 1 for rate in dilations):
        return {"auto_pad": op.auto_pad.upper()}
    begins, ends = [], []
    for taps, size, stride, dilation in zip(kernel, sizes, op.strides, dilations):
        if not taps.is_static or not (size.is_static or stride == 1):
            ctx.fail(f"with dilations, auto_pad={op.auto_pad} needs data and kernel of known dimensions")
        span = (taps.value - 1) * dilation + 1
        total = span - 1 if stride == 1 else (-(-size.value // stride) - 1) * stride + span - size.value
        total = max(total, 0)
        begins.append(total - total // 2 if op.auto_pad == "same_lower" else total // 2)
        ends.append(total - begins[-1])
    return {"pads": [*begins, *ends]}


def dilations_of(op: Any, rank: int) -> list[int]:
    """The dilations, one for each of ``rank`` dimensions."""
    return list(getattr(op, "dilations", ())[:rank] or [1] * rank)


def spatial(dims: Sequence[Dimension], rank: int) -> list[Dimension]:
    """The last ``rank`` dimensions; dynamic ones where the shape is not known."""
    return list(dims[-rank:]) if dims else [Dimension()] * rank
