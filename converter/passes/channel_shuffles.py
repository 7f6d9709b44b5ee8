"""Shuffled channels and blocks of space that an exporter spelled out by Reshape, Transpose and Reshape.

    x [n, c, h, w] -> Reshape [n, g, c / g, h, w] -> Transpose(0, 2, 1, 3, 4) -> Reshape [n, c, h, w]
                                                                   becomes      x -> ShuffleChannels(g)
    x -> Reshape [n, r, r, c / r^2, h, w] -> Transpose(0, 3, 4, 1, 5, 2) -> Reshape [n, c / r^2, h * r, w * r]
                                                                   becomes      x -> DepthToSpace(r)

Target shapes may be constant or computed from the shape of ``x``; the number of channels is static.
"""

from __future__ import annotations

import math

from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.blocks import DepthToSpace1, ShuffleChannels1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import NotMatched, anything, constant, fail, layer
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes
from .target_shapes import DimensionOf, Number, is_shape

_X = anything("x")
_INNER = layer(Reshape1, _X, anything("shape"), name="first")
_PATTERN = layer(Reshape1, layer(Transpose1, _INNER, constant("order")), anything("last shape"))

_DEPTH_TO_SPACE: dict[tuple[int, ...], str] = {(0, 3, 4, 1, 5, 2): "blocks_first", (0, 1, 4, 2, 5, 3): "depth_first"}


@passes.replaces("channel_shuffles", Reshape1, after=["equal_layers"], fuses=True)
def channel_shuffle(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Put one layer in the place of three."""
    found = _PATTERN.match(node.outputs[0])
    if isinstance(found, NotMatched):
        return found
    x, order = found["x"], tuple(found.array("order").reshape(-1).tolist())
    if not x.shape.has_rank or x.shape.rank < 3 or not x.shape[1].is_static or not x.shape[1].value:
        return fail("the number of channels is not known")
    split = found["first"].shape
    if not split.has_rank:
        return fail("the rank in between is not known")
    dims = [dim.low if dim.is_static else 0 for dim in split.dims]
    made = _shuffle(x, order, dims) or _blocks(x, order, dims)
    if made is None:
        return fail(f"{list(order)} shuffles neither channels nor blocks")
    op, between, last = made
    first, final = found.node("first"), node
    if not is_shape(first.inputs[1], between, x, kept=len(between) if first.op.special_zero else 0):  # type: ignore[attr-defined]
        return fail("the first shape has other dimensions than those of the data")
    if not is_shape(final.inputs[1], last, x, kept=1 if final.op.special_zero else 0):  # type: ignore[attr-defined]
        return fail("the last shape has other dimensions than those of the data")
    return found.check_private(uses) or builder.emit(op, x)


def _shuffle(x: Output, order: tuple[int, ...], dims: list[int]) -> tuple[Operation, list[Number], list[Number]] | None:
    rank = x.shape.rank
    if order != (0, 2, 1, *range(3, rank + 1)):
        return None
    groups, rest = dims[1:3]
    if groups * rest != x.shape[1].value:
        return None
    space: list[Number] = [DimensionOf(x, axis) for axis in range(2, rank)]
    batch = DimensionOf(x, 0)
    return ShuffleChannels1(axis=1, group=groups), [batch, groups, rest, *space], [batch, groups * rest, *space]


def _blocks(x: Output, order: tuple[int, ...], dims: list[int]) -> tuple[Operation, list[Number], list[Number]] | None:
    if x.shape.rank != 4 or len(dims) != 6:
        return None
    channels, (batch, height, width) = x.shape[1].value, (DimensionOf(x, axis) for axis in (0, 2, 3))
    mode = _DEPTH_TO_SPACE.get(order)
    block = math.isqrt(channels // max(1, dims[3 if mode == "blocks_first" else 1]))
    if mode is not None and block > 1 and channels % block**2 == 0:
        depth = channels // block**2
        grouped = [block, block, depth] if mode == "blocks_first" else [depth, block, block]
        wide = [side._replace(factor=block) for side in (height, width)]
        return DepthToSpace1(mode=mode, block_size=block), [batch, *grouped, height, width], [batch, depth, *wide]
    return None
