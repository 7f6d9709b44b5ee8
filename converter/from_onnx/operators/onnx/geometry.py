"""ONNX's AffineGrid and GridSample.

GridSample is the IR's own for images, and for other ranks a sum over gathered neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph import Dimension, Output, element_types
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import elementwise, grid_sample, indexing, matmul, movement, reduction
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import arange, as_i64, concat_lists, dim_of, part_of, shape_of

_MODES = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
_OLD_MODES = {mode: mode for mode in ("bilinear", "nearest", "bicubic")}


@onnx_op("GridSample", versions=(16,))
def grid_sample_16(
    ctx: Context,
    x: Output,
    grid: Output,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Output:
    """Values of images ``[N, C, H, W]`` at the places of a grid ``[N, OH, OW, 2]``."""
    return _sample(ctx, x, grid, align_corners, mode, _OLD_MODES, padding_mode)


@onnx_op("GridSample", versions=(20, 22))
def grid_sample_20(
    ctx: Context, x: Output, grid: Output, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Output:
    """Values of data with any number ``r`` of spatial dimensions at places of ``r`` coordinates."""
    return _sample(ctx, x, grid, align_corners, mode, _MODES, padding_mode)


def _sample(
    ctx: Context, x: Output, grid: Output, align_corners: int, mode: str, modes: dict[str, str], padding: str
) -> Output:
    if mode not in modes:
        raise ctx.invalid(f"mode must be one of {', '.join(modes)}, but is '{mode}'")
    if padding not in ("zeros", "border", "reflection"):
        raise ctx.invalid(f"padding_mode must be zeros, border or reflection, but is '{padding}'")
    rank = (x if x.shape.has_rank else grid).shape
    if not rank.has_rank:
        raise ctx.unsupported("the rank of the data or the grid must be known while converting, but is not")
    if ctx.version == 16 and rank.rank != 4:
        raise ctx.invalid(f"the data and the grid must have four dimensions in opset 16, but the shape is {rank}")
    kind = x.element_type
    if kind is element_types.string:
        raise ctx.unsupported("the IR samples grids of numbers alone, and the data are texts")
    if not kind.is_real and not kind.is_dynamic and mode != "nearest":
        raise ctx.unsupported(f"interpolation between elements of type {kind} is not defined")
    exact = kind.is_real and kind.bits == 64
    # OpenVINO computes with f32 or i32 alone; every type up to these comes through them unchanged.
    wide = element_types.f64 if exact else element_types.f32 if kind.is_real else element_types.i32
    if kind.is_dynamic or (not kind.is_real and kind.bits >= 32):
        wide = kind
    data = _converted(ctx, x, wide)
    places = in_type(ctx, grid, element_types.f64 if grid.element_type is element_types.f64 else element_types.f32)
    if rank.rank == 4:
        op = grid_sample.GridSample9(align_corners=bool(align_corners), mode=modes[mode], padding_mode=padding)
        return _converted(ctx, ctx.emit(op, data, places), kind)
    if rank.rank < 3:
        raise ctx.invalid(f"the data must have at least one spatial dimension, but the shape is {rank}")
    sampler = _Sampler(ctx, bool(align_corners), modes[mode], padding)
    return _converted(ctx, sampler.sample(data, places, rank.rank - 2), kind)


def _converted(ctx: Context, value: Output, kind: element_types.ElementType) -> Output:
    return value if kind.is_dynamic else in_type(ctx, value, kind)


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

    index: Output
    weight: Output | None
    within: Output | None


@record
class _Sampler:
    """Interpolation as one GatherND of all neighbours, weighted and summed.

    Along each of ``r`` dimensions a place has ``t`` neighbours (1, 2 or 4); the neighbours of all
    dimensions together are ``r`` dimensions of length ``t`` behind the places.
    """

    ctx: Context
    align_corners: bool
    mode: str
    padding: str

    def sample(self, data: Output, grid: Output, spatial: int) -> Output:
        """``[N, C, d1 .. dr]`` at ``[N, o1 .. or, r]``: ``[N, C, o1 .. or]``."""
        ctx = self.ctx
        near = [
            self._neighbours(grid, spatial - 1 - axis, dim_of(ctx, data, 2 + axis), self._beside(axis, spatial))
            for axis in range(spatial)
        ]
        taps = ctx.constant([len(_STEPS[self.mode])] * spatial)
        target = concat_lists(ctx, [part_of(ctx, shape_of(ctx, grid), 0, spatial + 1), taps])
        last = ctx.constant([2 * spatial + 1])
        columns = [
            ctx.emit(movement.Unsqueeze1(), ctx.emit(movement.Broadcast3(mode="numpy"), found.index, target), last)
            for found in near
        ]
        places = columns[0] if len(columns) == 1 else ctx.emit(movement.Concat1(axis=2 * spatial + 1), *columns)
        channels_last = layers.transpose(ctx, data, ctx.constant([0, *range(2, spatial + 2), 1]))
        seen = ctx.emit(indexing.GatherND8(batch_dims=1), channels_last, places)
        within = self._product(elementwise.LogicalAnd1(), [found.within for found in near])
        if within is not None:
            inside = ctx.emit(movement.Unsqueeze1(), within, last)
            seen = layers.select(ctx, inside, seen, ctx.like(0, seen))
        weight = self._product(elementwise.Multiply1(), [found.weight for found in near])
        axes = ctx.constant(list(range(spatial + 1, 2 * spatial + 1)))
        if weight is None:
            total = layers.squeeze(ctx, seen, axes)
        else:
            scale = in_type(ctx, ctx.emit(movement.Unsqueeze1(), weight, last), seen.element_type)
            total = ctx.emit(reduction.ReduceSum1(keep_dims=False), layers.multiply(ctx, seen, scale), axes)
        return layers.transpose(ctx, total, ctx.constant([0, spatial + 1, *range(1, spatial + 1)]))

    def _beside(self, axis: int, spatial: int) -> Output:
        """Where dimensions of 1 go so that the neighbours ``[N, o.., t]`` lie along one of ``r`` dimensions."""
        return self.ctx.constant([spatial + 1 + i for i in range(spatial) if i != axis])

    def _product(self, op: Operation, parts: list[Output | None]) -> Output | None:
        """All parts combined, of which all or none are there."""
        total: Output | None = None
        for part in parts:
            total = part if total is None or part is None else self.ctx.emit(op, total, part)
        return total

    def _neighbours(self, grid: Output, coordinate: int, count: Output, ones: Output) -> _Neighbours:
        """The neighbours along the dimension of ``count`` elements, with dimensions of 1 put in at ``ones``."""
        ctx = self.ctx
        normal = layers.gather(ctx, grid, ctx.constant([coordinate]), ctx.constant(-1))
        number = in_type(ctx, count, grid.element_type)
        one, two = ctx.like(1, grid), ctx.like(2, grid)
        shifted = layers.add(ctx, normal, one)
        if self.align_corners:
            last = layers.subtract(ctx, number, one)
            place = layers.multiply(ctx, layers.divide(ctx, shifted, two), last)
        else:
            scaled = layers.multiply(ctx, shifted, number)
            place = layers.divide(ctx, layers.subtract(ctx, scaled, one), two)
        if self.mode == "nearest":
            index, weight = ctx.emit(elementwise.Round5(mode="half_to_even"), place), None
        else:
            start = ctx.emit(elementwise.Floor1(), place)
            weight = self._polynomials(_POLYNOMIALS[self.mode], layers.subtract(ctx, place, start))
            index = layers.add(ctx, start, ctx.constant(_STEPS[self.mode], grid.element_type))
        index, within = self._inside(index, number)
        parts = [
            None if part is None else ctx.emit(movement.Unsqueeze1(), part, ones) if ones.shape[0].low else part
            for part in (index, weight, within)
        ]
        assert parts[0] is not None
        return _Neighbours(parts[0], parts[1], parts[2])

    def _polynomials(self, coefficients: Sequence[Sequence[float]], at: Output) -> Output:
        """One polynomial a row, in ascending powers, by Horner's rule: ``[..., 1]`` gives ``[..., rows]``."""
        ctx = self.ctx
        columns = list(zip(*coefficients))
        total = ctx.constant(columns[-1], at.element_type)
        for column in reversed(columns[:-1]):
            total = layers.multiply(ctx, total, at)
            total = layers.add(ctx, total, ctx.constant(column, at.element_type))
        return total

    def _inside(self, index: Output, count: Output) -> tuple[Output, Output | None]:
        """Indices (i64) brought into the data by the padding, and whether they were there, if it is zeros."""
        ctx = self.ctx
        last = layers.subtract(ctx, count, ctx.like(1, index))
        if self.padding == "reflection":
            index = self._mirrored(index, count, last)
        clipped = layers.maximum(ctx, layers.minimum(ctx, index, last), ctx.like(0, index))
        within = layers.equal(ctx, index, clipped) if self.padding == "zeros" else None
        return as_i64(ctx, clipped), within

    def _mirrored(self, index: Output, count: Output, last: Output) -> Output:
        """Indices reflected at the outer elements' centres, or at their outer edges."""
        ctx = self.ctx
        two, one = ctx.like(2, index), ctx.like(1, index)
        period = layers.multiply(ctx, last if self.align_corners else count, two)
        if self.align_corners:
            period = layers.maximum(ctx, period, one)
        turns = ctx.emit(elementwise.Floor1(), layers.divide(ctx, index, period))
        along = layers.subtract(ctx, index, layers.multiply(ctx, turns, period))
        back = layers.subtract(ctx, period, along)
        if not self.align_corners:
            back = layers.subtract(ctx, back, one)
        return layers.minimum(ctx, along, back)


# --- AffineGrid ---


@onnx_op("AffineGrid", versions=(20,))
def affine_grid(ctx: Context, theta: Output, size: Output, *, align_corners: int = 0) -> Output:
    """The places that affine maps ``[N, r, r + 1]`` give to every element of data of shape ``size``.

    The output is ``[N, *spatial, r]``, with the coordinates of the last dimension first.
    """
    count = size.shape.element_count()
    if not count.is_static:
        raise ctx.unsupported("the number of dimensions in size must be known while converting")
    spatial = count.value - 2
    if spatial not in (2, 3):
        raise ctx.invalid(f"size must have 4 or 5 dimensions, but has {count.value}")
    if ctx.rank(theta, "theta") != 3 or theta.shape[1].merge(Dimension(spatial, spatial)) is None:
        raise ctx.invalid(f"theta must be [N, {spatial}, {spatial + 1}], but the shape is {theta.shape}")
    kind = theta.element_type
    small = kind in (element_types.f16, element_types.bf16)
    maps = in_type(ctx, theta, element_types.f32) if small else theta
    dimensions_ = part_of(ctx, as_i64(ctx, size), 2, 2 + spatial)
    lines = []
    for axis in reversed(range(spatial)):
        line = _line(ctx, part_of(ctx, dimensions_, axis, axis + 1), maps, bool(align_corners))
        along = ctx.constant([-1 if i == axis else 1 for i in range(spatial)])
        lines.append(ctx.emit(movement.Reshape1(special_zero=False), line, along))
    columns = [
        ctx.emit(
            movement.Unsqueeze1(),
            ctx.emit(movement.Broadcast3(mode="numpy"), line, dimensions_),
            ctx.constant([spatial]),
        )
        for line in [*lines, ctx.like(1, maps)]
    ]
    places = ctx.emit(movement.Concat1(axis=spatial), *columns)
    flat = ctx.emit(movement.Reshape1(special_zero=False), places, ctx.constant([1, -1, spatial + 1]))
    mapped = ctx.emit(matmul.MatMul1(transpose_b=True), flat, maps)
    shape = concat_lists(ctx, [dim_of(ctx, maps, 0), dimensions_, ctx.constant(spatial)])
    grid = ctx.emit(movement.Reshape1(special_zero=False), mapped, shape)
    return in_type(ctx, grid, kind) if small else grid


def _line(ctx: Context, count: Output, like: Output, align_corners: bool) -> Output:
    """The places of ``count`` (a list of one) elements between -1 and 1: centres, or from end to end."""
    scalar = as_scalar(ctx, count, "a dimension")
    steps = in_type(ctx, arange(ctx, scalar), like.element_type)
    number = in_type(ctx, count, like.element_type)
    one, two = ctx.like(1, like), ctx.like(2, like)
    if align_corners:
        parts, first = layers.subtract(ctx, number, one), steps
    else:
        parts, first = number, layers.add(ctx, steps, ctx.like(0.5, like))
    scaled = layers.divide(ctx, layers.multiply(ctx, first, two), parts)
    return layers.subtract(ctx, scaled, one)
