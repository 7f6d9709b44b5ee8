"""Fourier transforms of real signals that are longer than what is given.

The plug-in cuts what is longer than ``signal_size``. What is shorter it should fill with zeros: RDFT refuses
that, and IRDFT reads on behind the end.

    x -> RDFT(size)           becomes      x -> Pad(max(size - extent, 0)) -> RDFT(size)
    x -> IRDFT(size)          becomes      x -> Pad(max(size / 2 + 1 - extent, 0)) -> IRDFT(size)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4. Signals that are known to be long enough stay as they are.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.lowering.shapes import as_i64, concat_lists, dim_of
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.signal import IRDFT9, RDFT9
from ir_runtime.rewrite import Uses


@openvino_cpu.register("transforms")
def transforms(model: Model) -> int:
    """Fill up signals before they are transformed."""
    return legalise(model, (RDFT9, IRDFT9), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    if len(node.inputs) < 3:
        return None
    data, axes, size = node.inputs
    known = axes.type.constant
    if known is None or known.size != 1 or not data.shape.has_rank:
        return None
    parts = isinstance(node.op, IRDFT9)  # complex numbers, their two parts behind all dimensions
    axis = int(known.reshape(-1)[0]) % (data.shape.rank - parts)
    wanted = as_i64(builder, size)
    if parts:
        half = layers.divide(builder, wanted, builder.constant([2]))
        wanted = layers.add(builder, half, builder.constant([1]))
    least = wanted.type.constant
    if least is not None and data.shape[axis].low >= int(least.reshape(-1)[0]):
        return None
    missing = layers.subtract(builder, wanted, dim_of(builder, data, axis))
    missing = layers.maximum(builder, missing, builder.constant([0]))
    rank = data.shape.rank
    counts = (axis, rank - axis - 1)
    before, behind = ([builder.constant([0] * count)] if count else [] for count in counts)
    ends = [*before, missing, *behind]
    begins = builder.constant([0] * rank)
    filled = builder.emit(Pad12(), data, begins, concat_lists(builder, ends), builder.like(0, data))
    return builder.emit(node.op, filled, axes, size)
