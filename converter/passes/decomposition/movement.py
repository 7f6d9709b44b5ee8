"""Elements in another order, shape or number: blocks, patches, borders, updates, sorted and sparse data."""

from __future__ import annotations

import math
from typing import Union

import numpy as np

from ir_runtime.graph import ElementType
from ir_runtime.operations import scatter as ir
from ir_runtime.operations.blocks import BatchToSpace2, DepthToSpace1, ShuffleChannels1, SpaceToBatch2, SpaceToDepth1
from ir_runtime.operations.indexing import OneHot1, OneHot16
from ir_runtime.operations.inputs_outputs import Identity16
from ir_runtime.operations.movement import Squeeze1, Squeeze15
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.patches import Col2Im15, ExtractImagePatches3
from ir_runtime.operations.reordering import Roll7
from ir_runtime.operations.sorting import Bucketize3, SearchSorted15
from ir_runtime.operations.sparse import SparseFillEmptyRows16
from ir_runtime.operations.windows import Window
from ir_runtime.operations.yolo import ReorgYolo2
from ir_runtime.rewriting.expressions import Expression, NotExpressible, concat, loop, positions, where

from .embedding import segment_sizes
from .registry import decomposes


@decomposes(Identity16)
def identity(op: Identity16, x: Expression) -> Expression:
    """The data"""
    return x


@decomposes(Squeeze15)
def squeeze(op: Squeeze15, x: Expression, *axes: Expression) -> Expression:
    """Squeeze-1, which skips no axes"""
    if op.allow_axis_skip:
        raise NotExpressible("whether a dimension is 1 is only known at run time")
    return x.emit(Squeeze1(), *axes)


@decomposes(OneHot16)
def one_hot(op: OneHot16, indices: Expression, depth: Expression, on: Expression, off: Expression) -> Expression:
    """OneHot-1, which ignores negative indices"""
    if op.negative_indices_mode == "normalize":
        size = depth.as_type(indices.element_type)
        indices = where(indices < 0, indices + size.reshape(), indices)
    return indices.emit(OneHot1(axis=op.axis), depth, on, off)


@decomposes(Roll7)
def roll(op: Roll7, x: Expression, shift: Expression, axes: Expression) -> Expression:
    """Concat of the two parts of a Slice along each axis"""
    over = axes.elements()
    if over is None:
        raise NotExpressible("the axes must be known")
    shifts = shift.as_type("i64").broadcast(len(over))
    for place, axis in enumerate(over):
        at = -shifts.gather(place) % x.size(axis).maximum(1)
        x = concat([x.cut(axis, at), x.cut(axis, 0, at)], axis % x.rank)
    return x


@decomposes(Pad1, Pad12)
def pad(
    op: Union[Pad1, Pad12], x: Expression, begins: Expression, ends: Expression, value: Expression | None = None
) -> Expression:
    """For the mode symmetric, Gather by indices that turn back at the edges"""
    if op.pad_mode != "symmetric":
        raise NotExpressible(f"only the mode symmetric is decomposed, but it is {op.pad_mode}")
    for axis in range(x.rank):
        size, before, behind = x.size(axis), *(bound.as_type("i64").gather(axis) for bound in (begins, ends))
        if before.elements() != [0] or behind.elements() != [0]:
            # In a period of twice the size the second half runs backwards.
            period = (positions(before + size + behind) - before) % (size * 2)
            x = x.gather(period.minimum(size * 2 - 1 - period), axis)
    return x


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


@decomposes(Col2Im15)
def col2im(op: Col2Im15, x: Expression, image: Expression, block: Expression) -> Expression:
    """ScatterElementsUpdate of every element to its place in a padded image"""
    sizes, taps = image.elements(), block.elements()
    if sizes is None or taps is None:
        raise NotExpressible("the dimensions of the image and of the blocks must be known")
    windows = [Window(*numbers) for numbers in zip(taps, op.strides, op.dilations, op.pads_begin, op.pads_end)]
    height, width = (size + begin + end for size, begin, end in zip(sizes, op.pads_begin, op.pads_end))
    down, across = (
        np.arange(window.kernel)[:, None] * window.dilation + np.arange(window.count(size)) * window.stride
        for window, size in zip(windows, sizes)
    )
    places = (down[:, None, :, None] * width + across[None, :, None, :]).reshape(-1)
    *lead, _, _ = x.sizes()
    wide = x.at_least_float32()
    columns = wide.reshape(*lead, x.size(-2) // math.prod(taps), places.size)
    outer = columns.sizes()[:-1]
    index = columns.of(places, "i64").broadcast(*columns.sizes())
    total = wide.of(0).broadcast(*outer, height * width).scatter(index, columns, columns.rank - 1, "sum")
    whole = total.reshape(*outer, height, width)
    for axis, (begin, size) in enumerate(zip(op.pads_begin, sizes), len(outer)):
        whole = whole.cut(axis, begin, begin + size)
    return whole.as_type(x.element_type)


@decomposes(ExtractImagePatches3)
def extract_image_patches(op: ExtractImagePatches3, x: Expression) -> Expression:
    """Gather along the height and along the width, and Transpose of the patches' elements in front of the channels"""
    spans = [(size - 1) * rate + 1 for size, rate in zip(op.sizes, op.rates)]
    batch, channels, *sizes = x.sizes()
    if op.auto_pad == "valid":
        counts = [(size - span) // stride + 1 for size, span, stride in zip(sizes, spans, op.strides)]
    else:
        counts = [(size + (stride - 1)) // stride for size, stride in zip(sizes, op.strides)]
        reaches = [(count - 1) * stride + span for count, stride, span in zip(counts, op.strides, spans)]
        totals = [(reach - size).maximum(0) for reach, size in zip(reaches, sizes)]
        pads = [total // 2 for total in totals], [total - total // 2 for total in totals]
        before, behind = pads if op.auto_pad == "same_upper" else pads[::-1]
        x = x.pad([0, 0, *before], [0, 0, *behind])
    # [n, c, h, w] -> [n, c, taps down, rows, w] -> [n, c, taps down, rows, taps across, columns]
    for axis, taps, rate, stride, count in zip((2, 4), op.sizes, op.rates, op.strides, counts):
        x = x.gather(positions(count) * stride + np.arange(taps).reshape(-1, 1) * rate, axis)
    return x.transpose(0, 2, 4, 1, 3, 5).reshape(batch, channels * math.prod(op.sizes), *counts)


_COMBINED = {
    "sum": Expression.__add__,
    "prod": Expression.__mul__,
    "min": Expression.minimum,
    "max": Expression.maximum,
}
_OF_BOOLEANS = {"sum": "max", "prod": "min"}


@decomposes(ir.ScatterElementsUpdate12)
def scatter_elements(
    op: ir.ScatterElementsUpdate12, x: Expression, indices: Expression, updates: Expression, axis: Expression
) -> Expression:
    """A Loop along the axis, whose steps update different elements; means as sums divided by numbers of updates"""
    constant, reduction, element_type = axis.elements(), op.reduction, x.element_type
    if constant is None:
        raise NotExpressible("the axis must be known")
    if reduction == "none":
        return x.emit(ir.ScatterElementsUpdate3(), indices, updates, axis)
    at = constant[0] % x.rank
    if element_type.name == "boolean":
        plain = op.with_attributes(reduction=_OF_BOOLEANS.get(reduction, reduction))
        return x.as_type("i32").emit(plain, indices, updates.as_type("i32"), axis).as_type(element_type)
    if not op.use_init_val:
        neutral = x.of(_neutral(reduction, element_type)).broadcast(*indices.sizes())
        x = x.scatter(indices, neutral, at)
    if reduction == "mean":
        ones = x.of(1).broadcast(*indices.sizes())
        counts = x.of(0).broadcast(*x.sizes()).scatter(indices, ones, at, "sum")
        total = x.scatter(indices, updates, at, "sum")
        return total / (counts + 1 if op.use_init_val else counts.maximum(1))
    if not op.use_init_val:
        return x.scatter(indices, updates, at, reduction)

    pairs = enumerate(zip(x.value.shape, indices.value.shape))
    narrower = [other for other, (size, least) in pairs if other != at and not (size.is_static and size == least)]

    def step(number: Expression, state: Expression) -> list[Expression]:
        places, change = (value.gather(number.reshape(1), at) for value in (indices, updates))
        present = state
        for other in narrower:  # indices may be fewer than elements beside the axis
            present = present.cut(other, 0, indices.size(other))
        combined = _COMBINED[reduction](present.gather_elements(places, at), change)
        return [state.emit(ir.ScatterElementsUpdate3(), places, combined, axis)]

    return loop(indices.size(at), [x], step)[0]


def _neutral(reduction: str, element_type: ElementType) -> float:
    """The value from which a reduction starts."""
    if reduction in ("sum", "mean", "prod"):
        return int(reduction == "prod")
    if element_type.is_real:
        return np.inf if reduction == "min" else -np.inf
    return element_type.limits[1 if reduction == "min" else 0]


@decomposes(ir.ScatterNDUpdate15)
def scatter_nd(op: ir.ScatterNDUpdate15, x: Expression, places: Expression, updates: Expression) -> Expression:
    """A Loop over the places; differences as sums of negated updates"""
    reduction, element_type, size = op.reduction, x.element_type, places.value.shape[-1]
    if reduction == "none":
        return x.scatter_nd(places, updates)
    if element_type.name == "boolean":
        plain = op.with_attributes(reduction=_OF_BOOLEANS.get(reduction, reduction))
        return x.as_type("i32").emit(plain, places, updates.as_type("i32")).as_type(element_type)
    if reduction == "sub":
        return x.emit(op.with_attributes(reduction="sum"), places, 0 - updates)
    if not size.is_static:
        raise NotExpressible("the number of coordinates must be known")
    rows = places.as_type("i64").reshape(-1, size.value)
    changes = updates.reshape(rows.size(0), *x.sizes()[size.value :])

    def step(number: Expression, state: Expression) -> list[Expression]:
        place, change = (value.gather(number.reshape(1)) for value in (rows, changes))
        return [state.scatter_nd(place, _COMBINED[reduction](state.gather_nd(place), change))]

    return loop(rows.size(0), [x], step)[0]


def _places(ordered: Expression, values: Expression, *, right: bool) -> Expression:
    values = values.unsqueeze(-1)
    below = ordered <= values if right else ordered < values
    return below.as_type("i64").sum(-1)


@decomposes(SearchSorted15)
def search_sorted(op: SearchSorted15, ordered: Expression, values: Expression) -> Expression:
    """ReduceSum of Less: how many of the sorted numbers come before each value"""
    ordered = ordered.unsqueeze(-2) if ordered.rank > 1 else ordered
    return _places(ordered, values, right=op.right_mode).as_type(op.output_type)


@decomposes(Bucketize3)
def bucketize(op: Bucketize3, values: Expression, boundaries: Expression) -> Expression:
    """ReduceSum of Less: how many boundaries come before each value"""
    if values.element_type is not boundaries.element_type:
        element_type = "f64" if values.element_type.is_real or boundaries.element_type.is_real else "i64"
        values, boundaries = values.as_type(element_type), boundaries.as_type(element_type)
    return _places(boundaries, values, right=not op.with_right_bound).as_type(op.output_type)


@decomposes(SparseFillEmptyRows16)
def sparse_fill_empty_rows(
    op: SparseFillEmptyRows16, values: Expression, sizes: Expression, places: Expression, default: Expression
) -> list[Expression]:
    """NonZero of the empty rows, whose places are added, and TopK, which sorts all places"""
    element_type, sizes, places = places.element_type, sizes.as_type("i64"), places.as_type("i64")
    empty = segment_sizes(places.gather(0, 1), sizes.gather(0)).equal(0)
    added = empty.non_zero()
    every = concat([places, added.pad([0, 0], [0, 1])], 0)
    filled = concat([values, default.broadcast(added.size(0))], 0)
    # The places in the order of rows and columns.
    order = (every.gather(0, 1) * sizes.gather(1) + every.gather(1, 1)).order(every.size(0))
    return [every.gather(order).as_type(element_type), filled.gather(order), empty]
