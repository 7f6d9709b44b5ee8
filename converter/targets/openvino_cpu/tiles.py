"""Tile over extents or repeats that come at run time, as Broadcast and Reshape.

The plug-in's Tile returns elements of other places where the repeats come at run time, or where extents do and
several dimensions are repeated; its Broadcast does not.

    [a, b] -> Tile(r0, r1)      becomes      [a, b] -> Unsqueeze [1, a, 1, b] -> Broadcast [r0, a, r1, b]
                                                    -> Reshape [r0 a, r1 b]

Images and volumes of one channel may be stored with the channels last, which looks the same; Tile then repeats
along the wrong dimensions. That layout ends at five dimensions:

    [n, 1, h, w] -> Tile(1, 1, r, 1)      becomes      Unsqueeze [n, 1, h, w, 1, 1] -> Tile -> Squeeze

Seen in OpenVINO 2026.4, repeats at run time in 2023.3 and 2024.6, too.
Extents that are all known, or one repeated dimension of others, stay one Tile.
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.lowering.shapes import as_list, shape_of
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.element_types import Array
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.movement import Broadcast3, Concat1, Reshape1, Tile1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("tiles")
def tiles(model: Model) -> int:
    """Say those repetitions by Broadcast that Tile gets wrong."""
    return legalise(model, (Tile1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, repeats = node.inputs
    if not data.shape.has_rank or not repeats.shape.element_count().contains(data.shape.rank):
        return None
    known = repeats.type.constant
    if known is None:
        return _any_times(builder, data, repeats)
    times = known.reshape(-1).astype(np.int64)
    if data.shape.is_static or np.sum(times != 1) < 2:
        return _beside_one_channel(builder, data, times)
    final = layers.multiply(builder, repeats, shape_of(builder, data))
    if not times.all():
        return builder.emit(Broadcast3(mode="numpy"), builder.like(_nothing(data), data), final)
    repeated = np.flatnonzero(times != 1)
    target = np.insert(np.ones(data.shape.rank, np.int64), repeated, times[repeated])
    single = layers.unsqueeze(builder, data, *(repeated + np.arange(repeated.size)).tolist())
    spread = builder.emit(Broadcast3(mode="bidirectional"), single, builder.constant(target))
    return builder.emit(Reshape1(special_zero=False), spread, final)


def _nothing(data: Output) -> object:
    """An element that is repeated no times."""
    return "" if data.element_type.kind == "string" else 0


def _any_times(builder: Builder, data: Output, repeats: Output) -> Output:
    shape = shape_of(builder, data)
    columns = [layers.unsqueeze(builder, part, 1) for part in (repeats, shape)]
    wide = as_list(builder, builder.emit(Concat1(axis=1), *columns))
    single = layers.unsqueeze(builder, data, *range(0, 2 * data.shape.rank, 2))
    spread = builder.emit(Broadcast3(mode="numpy"), single, wide)
    return builder.emit(Reshape1(special_zero=False), spread, layers.multiply(builder, repeats, shape))


def _beside_one_channel(builder: Builder, data: Output, times: Array) -> Output | None:
    """What keeps data that may have one channel from being stored with the channels last."""
    rank = data.shape.rank
    if rank not in (4, 5) or not data.shape[1].contains(1) or data.shape.is_static:
        return None
    repeated = [(n, extent) for n, extent in zip(times.tolist(), data.shape) if n != 1]
    if all(n > 1 and extent.is_static and extent.value == 1 for n, extent in repeated):
        return builder.emit(Broadcast3(mode="bidirectional"), data, builder.constant(times))
    more = list(range(rank, 6))
    wide = layers.unsqueeze(builder, data, *more)
    tiled = builder.emit(Tile1(), wide, builder.constant([*times.tolist(), *[1] * len(more)]))
    return layers.squeeze(builder, tiled, builder.constant(more))
