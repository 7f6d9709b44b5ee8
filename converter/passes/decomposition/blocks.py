"""Blocks of space as channels or batches, and shuffled channels: by Reshape, Transpose and Reshape."""

from __future__ import annotations

import math

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.blocks import BatchToSpace2, DepthToSpace1, ShuffleChannels1, SpaceToBatch2, SpaceToDepth1
from ir_runtime.operations.yolo import ReorgYolo2
from ir_runtime.rewriting.expressions import Expression, NotExpressible


@decomposes(DepthToSpace1)
def depth_to_space(op: DepthToSpace1, x: Expression) -> Expression:
    """Reshape, Transpose and Reshape"""
    batch, channels, *space = x.sizes()
    number, block = len(space), op.block_size
    depth = channels // block**number
    blocks_first = op.mode == "blocks_first"
    parts = [*[block] * number, depth] if blocks_first else [depth, *[block] * number]
    order, first = ([0, 1 + number], 1) if blocks_first else ([0, 1], 2)
    order += [part for axis in range(number) for part in (2 + number + axis, first + axis)]
    return x.reshape(batch, *parts, *space).transpose(*order).reshape(batch, depth, *(size * block for size in space))


@decomposes(SpaceToDepth1)
def space_to_depth(op: SpaceToDepth1, x: Expression) -> Expression:
    """Reshape, Transpose and Reshape"""
    batch, channels, *space = x.sizes()
    block = op.block_size
    smaller = [size // block for size in space]
    outer = [2 + 2 * axis for axis in range(len(space))]
    inner = [axis + 1 for axis in outer]
    order = [0, *inner, 1, *outer] if op.mode == "blocks_first" else [0, 1, *inner, *outer]
    parts = x.reshape(batch, channels, *(part for factor in smaller for part in (factor, block)))
    return parts.transpose(*order).reshape(batch, channels * block ** len(space), *smaller)


@decomposes(ReorgYolo2)
def reorg_yolo(op: ReorgYolo2, x: Expression) -> Expression:
    """Reshape, Transpose and Reshape"""
    batch, channels, height, width = x.sizes()
    step = op.stride[0]
    parts = x.reshape(batch, channels // step**2, height, step, width, step).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(batch, channels * step**2, height // step, width // step)


def _lists(*values: Expression) -> list[list[int]]:
    lists = [elements for value in values if (elements := value.elements()) is not None]
    if len(lists) < len(values):
        raise NotExpressible("the blocks, and what is added or cut, must be known")
    return lists


@decomposes(SpaceToBatch2)
def space_to_batch(
    op: SpaceToBatch2, x: Expression, block: Expression, begin: Expression, end: Expression
) -> Expression:
    """Pad, Reshape, Transpose and Reshape"""
    by, before, after = _lists(block, begin, end)
    padded = x.pad(before, after) if any([*before, *after]) else x
    smaller = [dimension // size for dimension, size in zip(padded.sizes(), by)]
    parts = padded.reshape(*(part for pair in zip(smaller, by) for part in pair))
    order = [*range(1, 2 * len(by), 2), *range(0, 2 * len(by), 2)]
    return parts.transpose(*order).reshape(smaller[0] * math.prod(by), *smaller[1:])


@decomposes(BatchToSpace2)
def batch_to_space(
    op: BatchToSpace2, x: Expression, block: Expression, begin: Expression, end: Expression
) -> Expression:
    """Reshape, Transpose, Reshape and Slice"""
    by, before, after = _lists(block, begin, end)
    batch, *space = x.sizes()
    sizes = [batch // math.prod(by), *space]
    order = [part for axis in range(len(by)) for part in (len(by) + axis, axis)]
    result = x.reshape(*by, *sizes).transpose(*order).reshape(*(dimension * size for dimension, size in zip(sizes, by)))
    for axis, (first, last) in enumerate(zip(before, after)):
        result = result.cut(axis, first, -last if last else None) if first or last else result
    return result


@decomposes(ShuffleChannels1)
def shuffle_channels(op: ShuffleChannels1, x: Expression) -> Expression:
    """Reshape, Transpose and Reshape"""
    axis, sizes = op.axis % x.rank, x.sizes()
    parts = x.reshape(*sizes[:axis], op.group, sizes[axis] // op.group, *sizes[axis + 1 :])
    order = list(range(x.rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    return parts.transpose(*order).reshape(*sizes)
