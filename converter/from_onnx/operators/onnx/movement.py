"""ONNX operators that arrange values anew, and their shapes: Reshape, Transpose, Concat, Split, Expand, Shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.shapes import (
    as_scalar,
    drop_dimensions,
    each_axis_once,
    given_list,
    insert_dimensions,
)
from converter.from_onnx.translation import Context, onnx_form, onnx_op
from ir_runtime.graph import Dimension, Output, normalize_axis
from ir_runtime.operations import blocks, movement, reduction, slicing
from ir_runtime.operations.indexing import Gather8
from ir_runtime.rewriting import layers, shape_layers

_LATEST = (21, 23, 24, 25)
"""Versions in which operators that only move data were given more types, and nothing else."""


@onnx_op("Reshape", versions=(1,))
def reshape_1(ctx: Context, data: Output, *, shape: Sequence[int] | None = None) -> Output:
    """The same values under the shape of an attribute; 0 keeps a dimension, one -1 takes the rest."""
    if shape is None:
        raise ctx.invalid("attribute 'shape' is missing")
    return _reshape(ctx, data, ctx.constant(np.asarray(shape, np.int64)), keep_zero=False)


@onnx_op("Reshape", versions=(5, 13), ignored={"special_zero": 1}, without=("allowzero",))
@onnx_op("Reshape", versions=(14, 19, *_LATEST))
def reshape_14(ctx: Context, data: Output, shape: Output, *, allowzero: int = 0) -> Output:
    """As before, with the shape from an input; with ``allowzero`` a 0 in the shape is a dimension of length 0."""
    return _reshape(ctx, data, shape, keep_zero=bool(allowzero))


def _reshape(ctx: Context, data: Output, shape: Output, keep_zero: bool) -> Output:
    shape = given_list(ctx, shape, "the shape")
    constant = shape.type.constant
    if constant is not None and keep_zero and 0 in constant and -1 in constant:
        raise ctx.invalid(f"with allowzero=1 the shape {constant.tolist()} must not hold both 0 and -1")
    return ctx.emit(movement.Reshape1(special_zero=not keep_zero), data, shape)


@onnx_op("Flatten", versions=(1, 9, 11, 13, *_LATEST))
def flatten(ctx: Context, data: Output, *, axis: int = 1) -> Output:
    """Two dimensions: the product of the dimensions before ``axis``, and of those from it on."""
    if not data.shape.has_rank:
        return _flatten_any_rank(ctx, data, axis)
    rank = data.shape.rank
    if not -rank <= axis <= rank:
        raise ctx.invalid(f"axis {axis} lies outside [{-rank}, {rank}] for the data {data.shape}")
    at = axis + rank if axis < 0 else axis
    sides = [shape_layers.product(ctx, data, range(at)), shape_layers.product(ctx, data, range(at, rank))]
    behind = sides[1].type.constant
    keep = at == 1 and sides[0].type.constant is None and (behind is None or bool(behind.all()))
    if keep:
        # special_zero: the dimension is kept. A computed 0 would stand for a dimension as well, -1 does not.
        sides = [ctx.constant([0]), ctx.constant([-1]) if behind is None else sides[1]]
    # The side that takes more layers may be -1 (what the number of elements leaves) if the other side is not 0.
    for side in sorted(
        (0, 1), key=lambda side: _dynamic_dimensions(data, (range(at), range(at, rank))[side]), reverse=True
    ):
        other = (range(at, rank), range(at))[side]
        if sides[side].type.constant is None and all(data.shape[axis].low for axis in other):
            sides[side] = ctx.constant([-1])
            break
    return ctx.emit(movement.Reshape1(special_zero=keep), data, shape_layers.concat_lists(ctx, sides))


def _dynamic_dimensions(data: Output, axes: Iterable[int]) -> int:
    return sum(not data.shape[axis].is_static for axis in axes)


def _flatten_any_rank(ctx: Context, data: Output, axis: int) -> Output:
    shape = shape_layers.shape_of(ctx, data)
    zero = ctx.constant([0])
    ends = np.iinfo(np.int64)
    parts = [
        ctx.emit(reduction.ReduceProd1(keep_dims=True), part, zero)
        for part in (shape_layers.part_of(ctx, shape, 0, axis), shape_layers.part_of(ctx, shape, axis, ends.max))
    ]
    return ctx.emit(movement.Reshape1(special_zero=False), data, shape_layers.concat_lists(ctx, parts))


@onnx_op("Transpose", versions=(1, 13, *_LATEST))
def transpose(ctx: Context, data: Output, *, perm: Sequence[int] | None = None) -> Output:
    """Output dimension i is input dimension ``perm[i]``; without ``perm`` they are reversed."""
    if perm is None:
        perm = range(data.shape.rank)[::-1] if data.shape.has_rank else []
    elif data.shape.has_rank and sorted(perm) != list(range(data.shape.rank)):
        raise ctx.invalid(f"perm {list(perm)} is not an order of the {data.shape.rank} dimensions of the data")
    return layers.transpose(ctx, data, ctx.constant(np.asarray(perm, np.int64)))


@onnx_form("Transpose", versions=(1, 13, *_LATEST))
def transpose_with_order(ctx: Context, data: Output, order: Output) -> Output:
    """A second input with the order of the dimensions, if it is the default order of ``perm``: their reverse."""
    constant = order.type.constant
    if constant is None or not data.shape.has_rank or constant.tolist() != list(range(data.shape.rank))[::-1]:
        raise ctx.invalid("takes 1 inputs, but got 2: the order of the dimensions is an attribute")
    return transpose(ctx, data)


@onnx_op("Squeeze", versions=(1, 11))
def squeeze_1(ctx: Context, data: Output, *, axes: Sequence[int] | None = None) -> Output:
    """Drops the dimensions of length 1 at ``axes``, or all dimensions of length 1."""
    return squeeze_13(ctx, data, None if axes is None else ctx.constant(np.asarray(axes, np.int64)))


@onnx_op("Squeeze", versions=(13, *_LATEST))
def squeeze_13(ctx: Context, data: Output, axes: Output | None = None) -> Output:
    """As before, with the axes from an input. An empty list means all, in onnxruntime and in the IR."""
    if axes is None or axes.shape.element_count().high == 0:
        return _squeeze_all(ctx, data)
    axes = each_axis_once(ctx, given_list(ctx, axes, "axes"), data)
    if axes.type.constant is not None:
        return layers.squeeze(ctx, data, axes)
    if ctx.declared(axes).shape.element_count().high == 0:
        ctx.graphs.keep_dimensions()
        return _squeeze_all(ctx, data)
    return drop_dimensions(ctx, data, shape_layers.as_list(ctx, axes))


def _squeeze_all(ctx: Context, data: Output) -> Output:
    if not data.shape.has_rank or any(not d.is_static and d.contains(1) for d in data.shape):
        return layers.squeeze(ctx, data)
    ones = [i for i, d in enumerate(data.shape) if d == Dimension(1, 1)]
    if not ones:
        return ctx.emit(movement.Reshape1(special_zero=False), data, shape_layers.shape_of(ctx, data))
    return layers.squeeze(ctx, data, ctx.constant(ones))


@onnx_op("Unsqueeze", versions=(1, 11))
def unsqueeze_1(ctx: Context, data: Output, *, axes: Sequence[int]) -> Output:
    """Inserts dimensions of length 1; ``axes`` are their places in the result."""
    return unsqueeze_13(ctx, data, ctx.constant(np.asarray(axes, np.int64)))


@onnx_op("Unsqueeze", versions=(13, *_LATEST))
def unsqueeze_13(ctx: Context, data: Output, axes: Output) -> Output:
    """As before, with the axes from an input. No axes leave the data as they are; OpenVINO's reader refuses them."""
    axes = given_list(ctx, axes, "axes")
    if axes.shape.element_count().high == 0:
        return data
    if axes.type.constant is None:
        return insert_dimensions(ctx, data, shape_layers.as_list(ctx, axes))
    return ctx.emit(movement.Unsqueeze1(), data, axes)


@onnx_op("Concat", versions=(1,))
def concat_1(ctx: Context, *inputs: Output, axis: int = 1) -> Output:
    """The inputs one after another along ``axis``."""
    return concat_4(ctx, *inputs, axis=axis)


@onnx_op("Concat", versions=(4, 11, 13))
def concat_4(ctx: Context, *inputs: Output, axis: int) -> Output:
    """As before; the axis must be given."""
    if not inputs:
        raise ctx.invalid("there is nothing to concatenate")
    return ctx.emit(movement.Concat1(axis=axis), *inputs)


# --- Split ---


@onnx_op("Split", versions=(1,))
def split_1(
    ctx: Context,
    data: Output,
    lengths: Output | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
) -> list[Output]:
    """Parts along ``axis``, of equal length or of the lengths from an attribute or an input."""
    if lengths is not None and split is not None:
        raise ctx.invalid("the lengths are given twice, by an input and by the attribute 'split'")
    return _split(ctx, data, lengths if split is None else ctx.constant(np.asarray(split, np.int64)), axis)


@onnx_op("Split", versions=(2, 11))
def split_2(ctx: Context, data: Output, *, axis: int = 0, split: Sequence[int] | None = None) -> list[Output]:
    """As before, with the lengths from an attribute."""
    return _split(ctx, data, None if split is None else ctx.constant(np.asarray(split, np.int64)), axis)


@onnx_op("Split", versions=(13,))
def split_13(ctx: Context, data: Output, split: Output | None = None, *, axis: int = 0) -> list[Output]:
    """As before, with the lengths from an input."""
    return _split(ctx, data, split, axis)


@onnx_op("Split", versions=(18,))
def split_18(
    ctx: Context, data: Output, split: Output | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[Output]:
    """As before; of ``num_outputs`` equal parts the last may be shorter."""
    if split is not None and num_outputs is not None:
        raise ctx.invalid("split and num_outputs exclude each other")
    if split is not None:
        return _split(ctx, data, split, axis)
    count = len(ctx.output_names)
    if num_outputs not in (None, count):
        raise ctx.invalid(f"num_outputs is {num_outputs}, but the node has {count} outputs")
    at = normalize_axis(axis, ctx.rank(data, "the data"))
    # Parts that are equal for the declared length are a Split, which refuses lengths that cannot be divided.
    length, declared = data.shape[at], ctx.declared(data).shape[at]
    if declared.is_static and declared.value % count == 0:
        return _split_evenly(ctx, data, count, at)
    if length.is_static:
        return _split_by(ctx, data, _uneven(length.value, count), at)
    return _split_unevenly(ctx, data, count, at)


def _split(ctx: Context, data: Output, lengths: Output | None, axis: int) -> list[Output]:
    count = len(ctx.output_names)
    if lengths is None:
        if data.shape.has_rank:
            axis = normalize_axis(axis, data.shape.rank)
        return _split_evenly(ctx, data, count, axis)
    constant = lengths.type.constant
    if constant is None:
        return _split_dynamic(ctx, data, lengths, count, axis)
    if constant.size != count:
        raise ctx.invalid(f"{constant.size} lengths are given for {count} outputs")
    if (constant < 0).any():
        raise ctx.invalid(f"the lengths {constant.tolist()} must not be negative")
    return _split_by(ctx, data, constant.reshape(-1).tolist(), axis)


def _split_evenly(ctx: Context, data: Output, count: int, axis: int) -> list[Output]:
    return ctx.emit_all(slicing.Split1(num_splits=count), data, ctx.constant(axis))


def _split_by(ctx: Context, data: Output, lengths: Sequence[int], axis: int) -> list[Output]:
    return ctx.emit_all(slicing.VariadicSplit1(), data, ctx.constant(axis), ctx.constant(lengths))


def _uneven(length: int, count: int) -> list[int]:
    each = -(-length // count)
    return [min(each, max(0, length - index * each)) for index in range(count)]


def _split_unevenly(ctx: Context, data: Output, count: int, axis: int) -> list[Output]:
    """Parts of ceil(n / count) elements for a dynamic length n; the last parts may be shorter or empty."""
    whole = shape_layers.dimension_list(ctx, data, axis)
    raised = layers.add(ctx, whole, ctx.constant([count - 1]))
    each = layers.truncated_quotient(ctx, raised, ctx.constant([count]))
    before = layers.multiply(ctx, each, ctx.constant(np.arange(count)))
    left = layers.maximum(ctx, layers.subtract(ctx, whole, before), ctx.constant(0))
    lengths = layers.minimum(ctx, left, each)
    return ctx.emit_all(slicing.VariadicSplit1(), data, ctx.constant(axis), lengths)


def _split_dynamic(ctx: Context, data: Output, lengths: Output, count: int, axis: int) -> list[Output]:
    if lengths.shape.element_count() != Dimension(count, count):
        # The layer has an output for each length: a list of another length must be refused.
        lengths = shape_layers.of_length(ctx, lengths, count)
    return ctx.emit_all(slicing.VariadicSplit1(), data, ctx.constant(axis), lengths)


# --- repeating ---


@onnx_op("Expand", versions=(8, 13))
def expand(ctx: Context, data: Output, shape: Output) -> Output:
    """Broadcasts the data with ``shape``; either may be repeated to fit the other."""
    shape = given_list(ctx, shape, "the shape")
    return ctx.emit(movement.Broadcast3(mode="bidirectional"), data, shape)


@onnx_op("Tile", versions=(1,))
def tile_1(ctx: Context, data: Output, tiles: Output, axis: Output) -> Output:
    """The data ``tiles`` times along one axis."""
    times = shape_layers.as_i64(ctx, as_scalar(ctx, tiles, "tiles"))
    at = int(ctx.known(axis, "the axis").reshape(-1)[0])
    rank = ctx.rank(data, "the data")
    repeats = [times if i == normalize_axis(at, rank) else ctx.constant([1]) for i in range(rank)]
    return ctx.emit(movement.Tile1(), data, shape_layers.concat_lists(ctx, repeats))


@onnx_op("Tile", versions=(6, 13))
def tile_6(ctx: Context, data: Output, repeats: Output) -> Output:
    """The data ``repeats[i]`` times along dimension i."""
    repeats = given_list(ctx, repeats, "repeats")
    number = repeats.shape.element_count()
    if data.shape.has_rank and not number.contains(data.shape.rank):
        raise ctx.invalid(f"{number} repeats are given for the {data.shape.rank} dimensions of the data")
    return ctx.emit(movement.Tile1(), data, repeats)


# --- blocks ---

_BlockMode = Literal["DCR", "CRD"]


@onnx_op("DepthToSpace", versions=(1,), without=("mode",))
@onnx_op("DepthToSpace", versions=(11, 13, 28))
def depth_to_space(ctx: Context, data: Output, *, blocksize: int, mode: _BlockMode = "DCR") -> Output:
    """Channels become blocks of height and width.

    The place in the block is the outer part of the channel (DCR), or the inner one (CRD).
    """
    order = _block_mode(ctx, data, blocksize, mode)
    return ctx.emit(blocks.DepthToSpace1(block_size=blocksize, mode=order), data)


@onnx_op("SpaceToDepth", versions=(1, 13), without=("mode",))
@onnx_op("SpaceToDepth", versions=(28,))
def space_to_depth(ctx: Context, data: Output, *, blocksize: int, mode: _BlockMode = "DCR") -> Output:
    """Blocks of height and width become channels.

    The place in the block is the outer part of the channel (DCR), or the inner one (CRD).
    """
    order = _block_mode(ctx, data, blocksize, mode)
    return ctx.emit(blocks.SpaceToDepth1(block_size=blocksize, mode=order), data)


def _block_mode(ctx: Context, data: Output, blocksize: int, mode: str) -> str:
    if blocksize < 1:
        raise ctx.invalid(f"blocksize must be positive, but is {blocksize}")
    if data.shape.has_rank and data.shape.rank != 4:
        raise ctx.invalid(f"the data must have 4 dimensions, but have the shape {data.shape}")
    return "blocks_first" if mode == "DCR" else "depth_first"


@onnx_op("Shape", versions=(1, 13), without=("start", "end"))
@onnx_op("Shape", versions=(15, 19, 21, 23, 24, 25))
def shape(ctx: Context, data: Output, *, start: int = 0, end: int | None = None) -> Output:
    """The dimensions of the data from ``start`` up to, but without, ``end``; both are clipped to the rank."""
    dimensions = shape_layers.shape_of(ctx, data)
    if start == 0 and end is None:
        return dimensions
    places = list(range(data.shape.rank)[start:end]) if data.shape.has_rank else []
    if places:
        return ctx.emit(Gather8(), dimensions, ctx.constant(places), ctx.constant(0))
    return shape_layers.part_of(ctx, dimensions, start, np.iinfo(np.int64).max if end is None else end)


@onnx_op("Size", versions=(1, 13, 19, 21, 23, 24, 25))
def size(ctx: Context, data: Output) -> Output:
    """The number of elements, a scalar."""
    # The length of the flattened data is exact also in an engine that multiplies dimensions in float32.
    flat = ctx.emit(movement.Reshape1(special_zero=False), data, ctx.constant([-1]))
    return as_scalar(ctx, shape_layers.shape_of(ctx, flat), "the number of elements")
