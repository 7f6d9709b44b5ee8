"""Pads in front of convolutions and poolings become theirs.

    x -> Pad(0, 0, 1, 1 by 0) -> Convolution                        becomes      x -> Convolution(pads 1, 1)
    x -> Pad(0, 0, 1, 1 by 0) -> AvgPool(counts its pads)           becomes      x -> AvgPool(pads 1, 1)
    x -> Pad(0, 0, 1, 1 by -infinity) -> MaxPool                    becomes      x -> MaxPool(pads 1, 1)

Only constant pads of the spatial dimensions; none that crop. Pads that anything else reads stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool, IndexedMaxPool, Pooling
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail

from .registry import passes


@passes.replaces("folded_pads")
def folded_pad(builder: Builder, node: Node) -> Replacement:
    """Let the window read what the Pad reads."""
    pad, op = node.inputs[0].node, node.op
    assert isinstance(op, (Convolution1, GroupConvolution1, Pooling))
    if not isinstance(pad.op, Pad):
        return fail(f"its data are made by {pad.op.type}, not by Pad")
    if pad.outputs[0].only_user is not node or node.inputs.count(pad.outputs[0]) != 1:
        return fail(f"layer '{pad.name}' is read elsewhere, too")
    if op.auto_pad not in ("explicit", "valid"):
        return fail("its own pads follow from the dimensions")
    added = _added_pads(pad)
    if isinstance(added, NotMatched):
        return added
    rank = len(op.strides)
    if len(added[0]) != rank:
        return fail("the rank of the pads is not that of the window")
    own = (op.pads_begin, op.pads_end) if op.auto_pad == "explicit" else ((0,) * rank, (0,) * rank)
    fill = _fill(pad)
    why = _pools(op, own, added, fill, node) if isinstance(op, Pooling) else _convolves(fill)
    if why is not None:
        return fail(why)
    begins, ends = ([a + b for a, b in zip(mine, more)] for mine, more in zip(own, added))
    attributes: dict[str, object] = {"pads_begin": begins, "pads_end": ends, "auto_pad": "explicit"}
    if isinstance(op, AvgPool):
        attributes["exclude_pad"] = False
    return builder.emit_all(op.with_attributes(**attributes), pad.inputs[0], *node.inputs[1:])


def _added_pads(pad: Node) -> tuple[list[int], list[int]] | NotMatched:
    """The pads of the spatial dimensions."""
    before, after = (source.type.constant for source in pad.inputs[1:3])
    if pad.op.pad_mode != "constant" or before is None or after is None:  # type: ignore[attr-defined]
        return fail("the pads are no constant, or not filled with one")
    begins, ends = before.reshape(-1).tolist(), after.reshape(-1).tolist()
    if min(begins + ends) < 0:
        return fail("pads crop")
    if any(begins[:2] + ends[:2]):
        return fail("pads are not of spatial dimensions alone")
    return begins[2:], ends[2:]


def _fill(pad: Node) -> Array | None:
    """The value that is filled in; None where it is not constant."""
    return np.zeros(1) if len(pad.inputs) < 4 else pad.inputs[3].type.constant


def _convolves(fill: Array | None) -> str | None:
    return None if fill is not None and fill.size == 1 and not fill.any() else "the pads are not filled with 0"


def _pools(
    op: Pooling,
    own: Sequence[Sequence[int]],
    added: Sequence[Sequence[int]],
    fill: Array | None,
    node: Node,
) -> str | None:
    """Why pads cannot become those of a pooling, whose windows all have to hold data."""
    dilations = getattr(op, "dilations", ()) or (1,) * len(op.kernel)
    if op.rounding_type != "floor":
        return "windows that begin in the pads count otherwise"
    if any(d != 1 for d in dilations):
        return "windows have gaps"
    if any(a + b >= size for sides in zip(own, added) for a, b, size in zip(*sides, op.kernel)):
        return "a window could lie in the pads alone"
    if isinstance(op, AvgPool):
        if op.exclude_pad and any(any(side) for side in own):
            return "its own pads do not count"
        return _convolves(fill)
    if fill is None or fill.size != 1 or not np.isneginf(fill.astype(np.float64)).all():
        return "the pads are not filled with the least number"
    if isinstance(op, IndexedMaxPool) and node.outputs[1].uses:
        return "indices count the pads, too"
    return None
