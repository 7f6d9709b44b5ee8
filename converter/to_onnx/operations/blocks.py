"""Blocks of space as channels or batches, and shuffled channels."""

from __future__ import annotations

import math

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import known_list, rank_of, reshape_to, transpose
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import divide, multiply, sizes_of
from ir_runtime.operations.blocks import BatchToSpace2, DepthToSpace1, ShuffleChannels1, SpaceToBatch2, SpaceToDepth1


@ir_op(DepthToSpace1)
def depth_to_space(ctx: Context, op: DepthToSpace1, x: Value) -> Value:
    """DepthToSpace for images, else Reshape and Transpose"""
    rank, block = rank_of(ctx, x, "the data"), op.block_size
    if rank == 4:
        mode = "DCR" if op.mode == "blocks_first" else "CRD"
        return ctx.emit("DepthToSpace", x, blocksize=block, mode=mode)
    batch, channels, *space = sizes_of(ctx, x)
    number = len(space)
    depth = divide(ctx, channels, block**number)
    blocks = [block] * number
    if op.mode == "blocks_first":
        parts, order, first = [batch, *blocks, depth, *space], [0, 1 + number], 1
    else:
        parts, order, first = [batch, depth, *blocks, *space], [0, 1], 2
    for axis in range(number):
        order += [2 + number + axis, first + axis]
    moved = transpose(ctx, reshape_to(ctx, x, parts), order)
    return reshape_to(ctx, moved, [batch, depth, *[multiply(ctx, one, block) for one in space]])


@ir_op(SpaceToDepth1)
def space_to_depth(ctx: Context, op: SpaceToDepth1, x: Value) -> Value:
    """SpaceToDepth for images with the blocks first, else Reshape and Transpose"""
    rank, block = rank_of(ctx, x, "the data"), op.block_size
    if rank == 4 and op.mode == "blocks_first":
        return ctx.emit("SpaceToDepth", x, blocksize=block)
    batch, channels, *space = sizes_of(ctx, x)
    smaller = [divide(ctx, one, block) for one in space]
    parts = [batch, channels, *[part for one in smaller for part in (one, block)]]
    outer = [2 + 2 * axis for axis in range(len(space))]
    inner = [axis + 1 for axis in outer]
    order = [0, *inner, 1, *outer] if op.mode == "blocks_first" else [0, 1, *inner, *outer]
    moved = transpose(ctx, reshape_to(ctx, x, parts), order)
    return reshape_to(ctx, moved, [batch, multiply(ctx, channels, block ** len(space)), *smaller])


def _lists(ctx: Context, *values: Value) -> list[list[int]]:
    found = []
    for value in values:
        known = known_list(ctx, value)
        if known is None:
            ctx.fail("the blocks, and what is added or cut, must be known")
        found.append(known)
    return found


@ir_op(SpaceToBatch2, local_function=True)
def space_to_batch(ctx: Context, op: SpaceToBatch2, x: Value, block: Value, begin: Value, end: Value) -> Value:
    """Pad, Reshape, Transpose and Reshape"""
    by, before, after = _lists(ctx, block, begin, end)
    rank = len(by)
    padded = ctx.emit("Pad", x, ctx.constant([*before, *after])) if any([*before, *after]) else x
    sizes = [
        one + first + last if isinstance(one, int) else ctx.emit("Add", one, ctx.constant([first + last]))
        for one, first, last in zip(sizes_of(ctx, x), before, after)
    ]
    smaller = [divide(ctx, one, size) for one, size in zip(sizes, by)]
    parts = [part for one, size in zip(smaller, by) for part in (one, size)]
    order = [*[1 + 2 * axis for axis in range(rank)], *[2 * axis for axis in range(rank)]]
    moved = transpose(ctx, reshape_to(ctx, padded, parts), order)
    return reshape_to(ctx, moved, [multiply(ctx, smaller[0], math.prod(by)), *smaller[1:]])


@ir_op(BatchToSpace2, local_function=True)
def batch_to_space(ctx: Context, op: BatchToSpace2, x: Value, block: Value, begin: Value, end: Value) -> Value:
    """Reshape, Transpose, Reshape and Slice"""
    by, before, after = _lists(ctx, block, begin, end)
    rank = len(by)
    batch, *space = sizes_of(ctx, x)
    smaller = divide(ctx, batch, math.prod(by))
    order = [part for axis in range(rank) for part in (rank + axis, axis)]
    moved = transpose(ctx, reshape_to(ctx, x, [*by, smaller, *space]), order)
    whole = [multiply(ctx, one, size) for one, size in zip([smaller, *space], by)]
    made = reshape_to(ctx, moved, whole)
    if not any([*before, *after]):
        return made
    stops = [-last if last else (1 << 62) for last in after]
    return ctx.emit("Slice", made, ctx.constant(before), ctx.constant(stops), ctx.constant(list(range(rank))))


@ir_op(ShuffleChannels1, local_function=True)
def shuffle_channels(ctx: Context, op: ShuffleChannels1, x: Value) -> Value:
    """Reshape, Transpose and Reshape"""
    rank = rank_of(ctx, x, "the data")
    axis = op.axis % rank
    sizes = sizes_of(ctx, x)
    parts = [*sizes[:axis], op.group, divide(ctx, sizes[axis], op.group), *sizes[axis + 1 :]]
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    return reshape_to(ctx, transpose(ctx, reshape_to(ctx, x, parts), order), sizes)
