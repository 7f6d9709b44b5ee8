"""Tile over dimensions or repeats that come at run time, as Broadcast and Reshape.

The plug-in's Tile returns elements of other places in these cases; its Broadcast does not:

- the repeats come at run time;
- dimensions come at run time, and several of them are repeated.

    [a, b] -> Tile(r0, r1)      becomes      [a, b] -> Unsqueeze [1, a, 1, b] -> Broadcast [r0, a, r1, b]
                                                    -> Reshape [r0 a, r1 b]

Behind arithmetic with a single number that comes at run time, Unsqueeze and Broadcast of more than six dimensions
return memory that was never written. The rules therefore repeat a few dimensions, then the next ones:

    [a, b, c, d] -> Tile(r, s, t, 1)      becomes      Unsqueeze [1, a, 1, b, c, d] -> Broadcast -> Reshape
                                                       -> Unsqueeze [ra, sb, 1, c, d] -> Broadcast -> Reshape

The plug-in may store images and volumes of one channel with the channels last, as the memory is the same. Its Tile
then repeats along the wrong dimensions. It has no such layout for more than five dimensions:

    [n, 1, h, w] -> Tile(1, 1, r, 1)      becomes      Unsqueeze [n, 1, h, w, 1, 1] -> Tile -> Squeeze

A Tile of static dimensions by constant repeats stays, and so does one of a single dimension among several channels.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.movement import Broadcast3, Reshape1, Tile1
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import concat, in_type
from ir_runtime.rewriting.shape_layers import shape_of

_MOST_DIMENSIONS = 6
"""The plug-in's arithmetic is wrong on more dimensions."""


@openvino_cpu.replaces("tile_repeats_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def tile_repeats_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Repeat along every dimension by Broadcast."""
    data, repeats = node.inputs
    if repeats.type.constant is not None:
        return fail("the repeats are constant")
    if not _has_a_count_for_each_dimension(node):
        return fail("the rank is dynamic, or is not the number of repeats")
    counts = in_type(builder, repeats, element_types.i64)
    return _in_steps(builder, data, list(range(data.shape.rank)), counts, None)


@openvino_cpu.replaces("tile_dynamic_dimensions", since="2026.1", seen_in=("2026.4",))
def tile_dynamic_dimensions(builder: Builder, node: Node) -> Replacement:
    """Repeat along several dimensions by Broadcast, and one channel in a layout that the plug-in does not change."""
    data, repeats = node.inputs
    constant = repeats.type.constant
    if constant is None:
        return fail("the repeats come at run time")
    if not _has_a_count_for_each_dimension(node):
        return fail("the rank is dynamic, or is not the number of repeats")
    times = constant.reshape(-1).astype(np.int64)
    if data.shape.is_static or np.sum(times != 1) < 2:
        replacement = _beside_one_channel(builder, data, times)
        return replacement or fail(
            "every dimension is static, or only one is repeated, and not beside a single channel"
        )
    if not times.all():
        final = layers.multiply(builder, repeats, shape_of(builder, data))
        return builder.emit(Broadcast3(mode="numpy"), builder.like(_nothing(data), data), final)
    return _in_steps(builder, data, np.flatnonzero(times != 1).tolist(), repeats, times)


def _has_a_count_for_each_dimension(node: Node) -> bool:
    data, repeats = node.inputs
    return data.shape.has_rank and repeats.shape.element_count().contains(data.shape.rank)


def _nothing(data: Output) -> object:
    """An element that is repeated no times."""
    return "" if data.element_type.category == "string" else 0


def _in_steps(builder: Builder, data: Output, axes: list[int], repeats: Output, values: Array | None) -> Output:
    """``data`` repeated along some axes, as many at once as do not make more dimensions than the plug-in takes."""
    at_once = max(_MOST_DIMENSIONS - data.shape.rank, 1)
    for start in range(0, len(axes), at_once):
        some = axes[start : start + at_once]
        data = _repeat(builder, data, some, repeats, values)
    return data


def _repeat(builder: Builder, data: Output, axes: list[int], repeats: Output, values: Array | None) -> Output:
    rank = data.shape.rank
    shape = shape_of(builder, data)
    if values is None:
        pieces = [_entry(builder, repeats, axis) if axis in axes else builder.constant([1]) for axis in range(rank)]
        some = concat(builder, 0, *pieces)
    else:
        some = builder.constant([int(times) if axis in axes else 1 for axis, times in enumerate(values)])
    final = layers.multiply(builder, some, shape)
    if rank >= _MOST_DIMENSIONS and values is not None:  # one dimension, which Tile repeats as it should
        return builder.emit(Tile1(), data, some)
    single = layers.unsqueeze(builder, data, *(axis + index for index, axis in enumerate(axes)))
    if values is None:
        wide = []
        for axis in range(rank):
            wide += [_entry(builder, repeats, axis)] if axis in axes else []
            wide.append(_entry(builder, shape, axis))
        spread = builder.emit(Broadcast3(mode="numpy"), single, concat(builder, 0, *wide))
    else:
        target = np.insert(np.ones(rank, np.int64), axes, values[axes])
        spread = builder.emit(Broadcast3(mode="bidirectional"), single, builder.constant(target))
    return builder.emit(Reshape1(special_zero=False), spread, final)


def _entry(builder: Builder, values: Output, index: int) -> Output:
    return layers.gather(builder, values, builder.constant([index]), builder.constant(0))


def _beside_one_channel(builder: Builder, data: Output, times: Array) -> Output | None:
    """Return layers that keep data of one channel from being stored with channels last; None if not needed."""
    rank = data.shape.rank
    if rank not in (4, 5) or not data.shape[1].contains(1) or data.shape.is_static:
        return None
    repeated = [(n, dimension) for n, dimension in zip(times.tolist(), data.shape) if n != 1]
    if all(n > 1 and dimension.is_static and dimension.value == 1 for n, dimension in repeated):
        return builder.emit(Broadcast3(mode="bidirectional"), data, builder.constant(times))
    more = list(range(rank, 6))
    wide = layers.unsqueeze(builder, data, *more)
    tiled = builder.emit(Tile1(), wide, builder.constant([*times.tolist(), *[1] * len(more)]))
    return layers.squeeze(builder, tiled, builder.constant(more))
