"""ONNX's AffineGrid and GridSample.

GridSample is the IR's own for images, and for other ranks a sum over gathered neighbours.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Literal

from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Dimension, Output, element_types
from ir_runtime.operations import grid_sample, movement
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat, positions, where
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import part_of, shape_of

_OLD_MODES: dict[str, Any] = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


@onnx_op("GridSample", versions=(16,))
def grid_sample_16(
    ctx: Context,
    x: Output,
    grid: Output,
    *,
    align_corners: int = 0,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Output:
    """Values of images ``[N, C, H, W]`` at the places of a grid ``[N, OH, OW, 2]``."""
    rank = (x if x.shape.has_rank else grid).shape
    if not rank.has_rank:
        raise ctx.unsupported("the rank of the data or the grid must be known while converting, but is not")
    if ctx.version == 16 and rank.rank != 4:
        raise ctx.invalid(f"the data and the grid must have four dimensions in opset 16, but the shape is {rank}")
    element_type = x.element_type
    if element_type is element_types.string:
        raise ctx.unsupported("the IR samples grids of numbers alone, and the data are texts")
    if not element_type.is_real and not element_type.is_dynamic and mode != "nearest":
        raise ctx.unsupported(f"interpolation between elements of type {element_type} is not defined")
    exact = element_type.is_real and element_type.bits == 64
    # OpenVINO computes with f32 or i32 alone; every type up to these comes through them unchanged.
    wide = element_types.f64 if exact else element_types.f32 if element_type.is_real else element_types.i32
    if element_type.is_dynamic or (not element_type.is_real and element_type.bits >= 32):
        wide = element_type
    data = _convert(ctx, x, wide)
    places = in_type(ctx, grid, element_types.f64 if grid.element_type is element_types.f64 else element_types.f32)
    if rank.rank == 4:
        op = grid_sample.GridSample9(align_corners=bool(align_corners), mode=mode, padding_mode=padding_mode)
        return _convert(ctx, ctx.emit(op, data, places), element_type)
    if rank.rank < 3:
        raise ctx.invalid(f"the data must have at least one spatial dimension, but the shape is {rank}")
    sampler = _Sampler(bool(align_corners), mode, padding_mode)
    sampled = sampler.sample(Expression(ctx, data), Expression(ctx, places), rank.rank - 2)
    return _convert(ctx, sampled.value, element_type)


@onnx_op("GridSample", versions=(20, 22))
@attributes_of(grid_sample_16)
def grid_sample_20(
    ctx: Context, x: Output, grid: Output, *, mode: Literal["linear", "nearest", "cubic"] = "linear", **attributes: Any
) -> Output:
    """Values of data with any number ``r`` of spatial dimensions at places of ``r`` coordinates."""
    return grid_sample_16(ctx, x, grid, mode=_OLD_MODES[mode], **attributes)


def _convert(ctx: Context, value: Output, element_type: element_types.ElementType) -> Output:
    return value if element_type.is_dynamic else in_type(ctx, value, element_type)


# Which neighbours of a place are seen, counted from the element before it (the nearest, for nearest).
_STEPS = {"nearest": [0], "bilinear": [0, 1], "bicubic": [-1, 0, 1, 2]}

_A = grid_sample.CUBIC
_POLYNOMIALS: dict[str, list[list[float]]] = {
    "bilinear": [[1, -1], [0, 1]],
    "bicubic": [[0, _A, -2 * _A, _A], [1, 0, -_A - 3, _A + 2], [0, -_A, 2 * _A + 3, -_A - 2], [0, 0, _A, -_A]],
}
"""The neighbours' weights, each in ascending powers of how far the place lies behind the element before it."""


@record
class _Neighbours:
    """Indices along one dimension, their weights, and whether the data have them; None for always one or true."""

    index: Expression
    weight: Expression | None
    within: Expression | None


@record
class _Sampler:
    """Interpolation as one GatherND of all neighbours, weighted and summed.

    Along each of ``r`` dimensions a place has ``t`` neighbours (1, 2 or 4); the neighbours of all
    dimensions together are ``r`` dimensions of length ``t`` behind the places.
    """

    align_corners: bool
    mode: str
    padding: str

    def sample(self, data: Expression, grid: Expression, spatial: int) -> Expression:
        """``[N, C, d1 .. dr]`` at ``[N, o1 .. or, r]``: ``[N, C, o1 .. or]``."""
        near = [
            # Dimensions of 1 let the neighbours [N, o.., t] lie along one of r dimensions.
            self._neighbours(
                grid, spatial - 1 - axis, data.size(2 + axis), [spatial + 1 + i for i in range(spatial) if i != axis]
            )
            for axis in range(spatial)
        ]
        places = Expression(grid.builder, shape_of(grid.builder, grid.value))
        lengths = Expression(grid.builder, part_of(grid.builder, places.value, 0, spatial + 1))
        target = lengths, lengths.of([len(_STEPS[self.mode])] * spatial)
        last = 2 * spatial + 1
        columns = [neighbour.index.broadcast(*target, mode="numpy").unsqueeze(last) for neighbour in near]
        seen = data.transpose(0, *range(2, spatial + 2), 1).gather_nd(concat(columns, last), batch_dims=1)
        within = [neighbour.within for neighbour in near if neighbour.within is not None]
        if within:
            seen = where(functools.reduce(operator.and_, within).unsqueeze(last), seen, 0)
        weights = [neighbour.weight for neighbour in near if neighbour.weight is not None]
        axes = range(spatial + 1, 2 * spatial + 1)
        if weights:
            weight = functools.reduce(operator.mul, weights).unsqueeze(last).as_type(seen.element_type)
            total = (seen * weight).sum(*axes)
        else:
            total = seen.squeeze(*axes)
        return total.transpose(0, spatial + 1, *range(1, spatial + 1))

    def _neighbours(self, grid: Expression, coordinate: int, count: Expression, ones: Sequence[int]) -> _Neighbours:
        """The neighbours along the dimension of ``count`` elements, with dimensions of 1 put in at ``ones``."""
        number = count.as_type(grid.element_type)
        shifted = grid.gather([coordinate], -1) + 1
        place = shifted / 2 * (number - 1) if self.align_corners else (shifted * number - 1) / 2
        if self.mode == "nearest":
            index, weight = place.round(), None
        else:
            start = place.floor()
            weight = _polynomials(_POLYNOMIALS[self.mode], place - start)
            index = start + _STEPS[self.mode]
        index, within = self._inside(index, number)
        parts = (None if part is None else part.unsqueeze(*ones) for part in (weight, within))
        return _Neighbours(index.unsqueeze(*ones), *parts)

    def _inside(self, index: Expression, count: Expression) -> tuple[Expression, Expression | None]:
        """Indices (i64) brought into the data by the padding, and whether they were there, if it is zeros."""
        last = count - 1
        if self.padding == "reflection":
            index = self._mirror(index, count, last)
        clipped = index.minimum(last).maximum(0)
        within = index.equal(clipped) if self.padding == "zeros" else None
        return clipped.as_type("i64"), within

    def _mirror(self, index: Expression, count: Expression, last: Expression) -> Expression:
        """Indices reflected at the outer elements' centres, or at their outer edges."""
        period = (last * 2).maximum(1) if self.align_corners else count * 2
        along = index - (index / period).floor() * period
        back = period - along
        return along.minimum(back if self.align_corners else back - 1)


def _polynomials(coefficients: Sequence[Sequence[float]], at: Expression) -> Expression:
    """Evaluate one polynomial per row, in ascending powers, by Horner's rule: ``[..., 1]`` gives ``[..., rows]``."""
    highest, *others = reversed(list(zip(*coefficients)))
    total = at.of(highest)
    for column in others:
        total = total * at + column
    return total


# --- AffineGrid ---


@onnx_op("AffineGrid", versions=(20,))
def affine_grid(ctx: Context, theta: Expression, size: Expression, *, align_corners: int = 0) -> Expression:
    """The places that affine maps ``[N, r, r + 1]`` give to every element of data of shape ``size``.

    The output is ``[N, *spatial, r]``, with the coordinates of the last dimension first.
    """
    count, shape = size.value.shape.element_count(), theta.value.shape
    if not count.is_static:
        raise ctx.unsupported("the number of dimensions in size must be known while converting")
    spatial = count.value - 2
    if spatial not in (2, 3):
        raise ctx.invalid(f"size must have 4 or 5 dimensions, but has {count.value}")
    if ctx.rank(theta.value, "theta") != 3 or shape[1].merge(Dimension(spatial, spatial)) is None:
        raise ctx.invalid(f"theta must be [N, {spatial}, {spatial + 1}], but the shape is {shape}")
    maps = theta.at_least_float32()

    def listed(values: Expression, start: int, stop: int) -> Expression:
        return Expression(ctx, part_of(ctx, values.value, start, stop))

    dimensions = listed(size.as_type("i64"), 2, 2 + spatial)
    lines = []
    for axis in reversed(range(spatial)):
        line = _line(listed(dimensions, axis, axis + 1), maps, bool(align_corners))
        lines.append(line.reshape(*(-1 if i == axis else 1 for i in range(spatial))))
    columns = [line.broadcast(dimensions, mode="numpy").unsqueeze(spatial) for line in [*lines, maps.of(1)]]
    mapped = concat(columns, spatial).reshape(1, -1, spatial + 1).matmul(maps, transpose_b=True)
    target = maps.size_list([maps.size(0), dimensions, spatial])
    return mapped.emit(movement.Reshape1(special_zero=False), target).as_type(theta.element_type)


def _line(count: Expression, like: Expression, align_corners: bool) -> Expression:
    """The places of ``count`` (a list of one) elements between -1 and 1: centres, or from end to end."""
    element_type = like.element_type
    steps = positions(count.reshape()).as_type(element_type)
    number = count.as_type(element_type)
    parts, first = (number - 1, steps) if align_corners else (number, steps + 0.5)
    return first * 2 / parts - 1
