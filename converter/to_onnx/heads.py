"""Heads of keys and values that several heads of the query share: what an IR repeats, ONNX's operators do not."""

from __future__ import annotations

from ir_runtime.graph import Output
from ir_runtime.operations.movement import Broadcast3, Reshape1, Unsqueeze1


def without_repetition(repeated: Output) -> Output | None:
    """The heads ``[b, n, t, h]`` of which each stands as often in a row in ``repeated`` ``[b, n r, t, h]``.

    None where the layers in front are not Unsqueeze, Broadcast by constant counts, and a Reshape that merges the new
    dimension with the heads.
    """
    merged = repeated.node
    if not isinstance(merged.op, Reshape1):
        return None
    copied = merged.inputs[0].node
    if not isinstance(copied.op, Broadcast3) or copied.op.mode != "bidirectional":
        return None
    lifted = copied.inputs[0].node
    if not isinstance(lifted.op, Unsqueeze1) or _numbers(lifted.inputs[1]) not in ([2], [-3]):
        return None
    heads = lifted.inputs[0]
    counts, sizes = _numbers(copied.inputs[1]), _numbers(merged.inputs[1])
    if not heads.shape.has_rank or heads.shape.rank != 4 or counts is None or sizes is None or len(sizes) != 4:
        return None
    _, count, _, width = heads.shape.dims
    if not count.is_static or not width.is_static or counts != [1, 1, counts[2], 1, 1]:
        return None
    keeps_batch = merged.op.special_zero and sizes[0] == 0
    return heads if keeps_batch and sizes[1:] == [count.value * counts[2], -1, width.value] else None


def _numbers(value: Output) -> list[int] | None:
    known = value.type.constant
    return None if known is None else [int(number) for number in known.reshape(-1)]
