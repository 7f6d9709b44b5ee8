"""The short-time Fourier transform, as transforms of windowed frames.

STFT(signal, window, size, step)   becomes   RDFT(Gather(signal, places of the frames) * window)
"""

from __future__ import annotations

from converter.lowering import layers
from converter.lowering.frames import frames_of
from converter.lowering.shapes import as_i64, as_list, shape_of
from converter.targets.legalisation import legalise
from converter.targets.registry import below_opset15
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.signal import RDFT9, STFT15
from ir_runtime.rewrite import Uses


@below_opset15.register("short_time_transforms")
def short_time_transforms(model: Model) -> int:
    """Put transforms of frames in the place of STFT."""
    return legalise(model, (STFT15,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    signal, window, size, step = node.inputs
    if not signal.shape.has_rank:
        return None
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
    known, extent = size.type.constant, window.shape.element_count()
    if known is not None and extent.is_static and extent.value == int(known.reshape(-1)[0]):
        return window
    missing = layers.subtract(builder, as_list(builder, as_i64(builder, size)), shape_of(builder, window))
    before = layers.truncated_quotient(builder, missing, builder.constant([2]))
    after = layers.subtract(builder, missing, before)
    return builder.emit(Pad12(pad_mode="constant"), window, before, after, builder.like(0, window))
