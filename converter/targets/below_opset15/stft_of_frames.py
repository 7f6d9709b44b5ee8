"""STFT, as RDFT of windowed frames.

STFT(signal, window, size, step)   becomes   RDFT(Gather(signal, places of the frames) * window)
"""

from __future__ import annotations

from converter.targets.registry import below_opset15
from ir_runtime.graph import Node, Output
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.signal import RDFT9
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.frames import frames_of
from ir_runtime.rewriting.shape_layers import as_i64, as_list, shape_of


@below_opset15.replaces("stft_of_frames", until="2024.5", seen_in=("2023.3",))
def stft_of_frames(builder: Builder, node: Node) -> Replacement:
    """Gather the frames, and transform them."""
    signal, window, size, step = node.inputs
    if not signal.shape.has_rank:
        return fail("the rank of the signal is dynamic")
    axis = signal.shape.rank - 1
    cut = frames_of(builder, signal, size, step, axis)
    found = builder.emit(
        RDFT9(), layers.multiply(builder, cut, _centred(builder, window, size)), builder.constant([axis + 1])
    )
    if node.op.transpose_frames:  # type: ignore[attr-defined]
        order = [*range(axis), axis + 1, axis, axis + 2]
        found = layers.transpose(builder, found, builder.constant(order))
    return found


def _centred(builder: Builder, window: Output, size: Output) -> Output:
    """The window in the middle of a frame, zeros around it."""
    known, dimension = size.type.constant, window.shape.element_count()
    if known is not None and dimension.is_static and dimension.value == int(known.reshape(-1)[0]):
        return window
    missing = layers.subtract(builder, as_list(builder, as_i64(builder, size)), shape_of(builder, window))
    before = layers.truncated_quotient(builder, missing, builder.constant([2]))
    after = layers.subtract(builder, missing, before)
    return builder.emit(Pad12(pad_mode="constant"), window, before, after, builder.like(0, window))
