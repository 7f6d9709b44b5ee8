"""Blocks of space as channels or batches, and shuffled channels."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import rank_of
from ir_runtime.operations.blocks import DepthToSpace1, SpaceToDepth1


@ir_op(DepthToSpace1)
def depth_to_space(ctx: Context, op: DepthToSpace1, x: Value) -> Value:
    """DepthToSpace for images, else Reshape and Transpose"""
    rank, block = rank_of(ctx, x, "the data"), op.block_size
    if rank == 4:
        mode = "DCR" if op.mode == "blocks_first" else "CRD"
        return ctx.emit("DepthToSpace", x, blocksize=block, mode=mode)
    return ctx.decompose()[0]


@ir_op(SpaceToDepth1)
def space_to_depth(ctx: Context, op: SpaceToDepth1, x: Value) -> Value:
    """SpaceToDepth for images with the blocks first, else Reshape and Transpose"""
    rank, block = rank_of(ctx, x, "the data"), op.block_size
    if rank == 4 and op.mode == "blocks_first":
        return ctx.emit("SpaceToDepth", x, blocksize=block)
    return ctx.decompose()[0]
