"""Signals cut into frames that may overlap."""

from __future__ import annotations

from ir_runtime.graph import Output, element_types
from ir_runtime.operations import generation
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.shape_layers import arange, dim_of


def frames_of(builder: Builder, data: Output, size: Output, step: Output, axis: int) -> Output:
    """``[..., length, ...]`` as ``[..., frames, size, ...]``; ``size`` and ``step`` are scalars."""
    room = layers.subtract(builder, dim_of(builder, data, axis), size)
    stop = layers.add(builder, room, builder.constant(1))
    starts = builder.emit(generation.Range4(output_type=element_types.i64), builder.constant(0), stop, step)
    places = layers.add(builder, layers.unsqueeze(builder, starts, 1), arange(builder, size))
    return layers.gather(builder, data, places, builder.constant(axis))
