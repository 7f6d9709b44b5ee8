"""Discrete Fourier transforms (RDFT, IRDFT) with a ``signal_size`` beyond the signal.

The plug-in cuts a longer signal. It should fill up a shorter one with zeros: RDFT refuses it, and IRDFT reads past
the end.

    x -> RDFT(size)           becomes      x -> Pad(max(size - dimension, 0)) -> RDFT(size)
    x -> IRDFT(size)          becomes      x -> Pad(max(size / 2 + 1 - dimension, 0)) -> IRDFT(size)

Signals that are known to be long enough stay as they are.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.signal import IRDFT9
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import as_i64, concat_lists, dim_of


@openvino_cpu.replaces("dft_of_short_signals", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def dft_of_short_signals(builder: Builder, node: Node) -> Replacement:
    """Pad the signal before the transform."""
    if len(node.inputs) < 3:
        return fail("it has no signal_size, and so transforms the whole signal")
    data, axes, size = node.inputs
    constant = axes.type.constant
    if constant is None or constant.size != 1 or not data.shape.has_rank:
        return fail("it has no single constant axis, or the rank is dynamic")
    parts = isinstance(node.op, IRDFT9)  # complex numbers: the last dimension has their two parts
    axis = int(constant.reshape(-1)[0]) % (data.shape.rank - parts)
    size_value = as_i64(builder, size)
    if parts:
        half = layers.divide(builder, size_value, builder.constant([2]))
        size_value = layers.add(builder, half, builder.constant([1]))
    least = size_value.type.constant
    if least is not None and data.shape[axis].low >= int(least.reshape(-1)[0]):
        return fail("the signal is known to be long enough")
    missing = layers.subtract(builder, size_value, dim_of(builder, data, axis))
    missing = layers.maximum(builder, missing, builder.constant([0]))
    rank = data.shape.rank
    counts = (axis, rank - axis - 1)
    before, behind = ([builder.constant([0] * count)] if count else [] for count in counts)
    ends = [*before, missing, *behind]
    begins = builder.constant([0] * rank)
    filled = builder.emit(Pad12(), data, begins, concat_lists(builder, ends), builder.like(0, data))
    return builder.emit(node.op, filled, axes, size)
