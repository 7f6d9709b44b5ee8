"""Pads of convolutions and poolings, in the form that ONNX and onnxruntime know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir_runtime.graph import Dimension
from ir_runtime.operations.windows import Window

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
    pads = []
    for taps, size, stride, dilation in zip(kernel, sizes, op.strides, dilations):
        if not taps.is_static or not (size.is_static or stride == 1):
            ctx.fail(f"with dilations, auto_pad={op.auto_pad} needs data and kernel of known dimensions")
        # With a stride of 1 all sizes have the same pads.
        pads.append(Window(taps.value, stride, dilation, 0, 0, op.auto_pad).pads(size.value if size.is_static else 1))
    return {"pads": [begin for begin, _ in pads] + [end for _, end in pads]}


def dilations_of(op: Any, rank: int) -> list[int]:
    """The dilations, one for each of ``rank`` dimensions."""
    return list(getattr(op, "dilations", ())[:rank] or [1] * rank)


def spatial(dims: Sequence[Dimension], rank: int) -> list[Dimension]:
    """The last ``rank`` dimensions; dynamic ones where the shape is not known."""
    return list(dims[-rank:]) if dims else [Dimension()] * rank
