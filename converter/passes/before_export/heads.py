"""Heads of keys and values that several heads of the query share: what an IR repeats, ONNX's operators do not."""

from __future__ import annotations

from ir_runtime.graph import Output
from ir_runtime.operations.movement import Broadcast3, Reshape1, Unsqueeze1
from ir_runtime.rewriting import NotMatched, anything, constant, layer

_COPIED = layer(Broadcast3, layer(Unsqueeze1, anything("heads"), constant("axis")), constant("counts"), name="copied")
_MERGED = layer(Reshape1, _COPIED, constant("sizes"), name="merged")


def without_repetition(repeated: Output) -> Output | None:
    """The heads ``[b, n, t, h]`` of which each stands as often in a row in ``repeated`` ``[b, n r, t, h]``.

    None where the layers in front are not Unsqueeze, Broadcast by constant counts, and a Reshape that merges the new
    dimension with the heads.
    """
    match = _MERGED.match(repeated)
    if isinstance(match, NotMatched):
        return None
    heads, copied, merged = match["heads"], match.node("copied").op, match.node("merged").op
    axis, counts, sizes = (match.array(name).reshape(-1).tolist() for name in ("axis", "counts", "sizes"))
    assert isinstance(copied, Broadcast3)
    assert isinstance(merged, Reshape1)
    if axis not in ([2], [-3]) or copied.mode != "bidirectional" or not merged.special_zero or not heads.shape.has_rank:
        return None
    if heads.shape.rank != 4 or not heads.shape[1].is_static or not heads.shape[3].is_static:
        return None
    _, count, _, width = heads.shape.dims
    is_repeated = counts == [1, 1, counts[2], 1, 1] and sizes == [0, count.value * counts[2], -1, width.value]
    return heads if is_repeated else None
