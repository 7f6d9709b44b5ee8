"""ONNX operators that pick or place by index: Gather*, Scatter*, OneHot, NonZero, Compress, TopK, Unique."""

from __future__ import annotations

from typing import Literal

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types, normalize_axis
from ir_runtime.operations import elementwise, indexing, movement, scatter, slicing, sorting
from ir_runtime.rewriting import layers, shape_layers


@onnx_op("Gather", versions=(1, 11, 13))
def gather(ctx: Context, data: Output, indices: Output, *, axis: int = 0) -> Output:
    """Slices of the data along ``axis``; negative indices count from the end."""
    if data.shape.has_rank:
        axis = normalize_axis(axis, data.shape.rank)
    return layers.gather(ctx, data, indices, ctx.constant(axis))


@onnx_op("GatherElements", versions=(11, 13))
def gather_elements(ctx: Context, data: Output, indices: Output, *, axis: int = 0) -> Output:
    """``out[i][j] = data[i][indices[i][j]]`` for axis 1. Indices may cover a part of the other dimensions."""
    rank = ctx.rank(data, "the data")
    at = normalize_axis(axis, rank)
    if ctx.rank(indices, "the indices") != rank:
        raise ctx.invalid(f"data and indices must have one rank, but are {data.shape} and {indices.shape}")
    # Where the declared dimensions are equal, different ones are refused.
    declared = zip(ctx.declared(data).shape, ctx.declared(indices).shape)
    differing = [other for other, (a, b) in enumerate(declared) if other != at and not (a == b and a.is_static)]
    if differing:
        # The IR wants equal dimensions, ONNX uses as much of the data as there are indices. A Slice in
        # this place OpenVINO takes for superfluous and removes, and then refuses the shapes.
        free = [0 if other in differing else 1 for other in range(rank)]
        cut = slicing.StridedSlice1(begin_mask=free, end_mask=free)
        zeros, ones = ctx.constant(np.zeros(rank, np.int64)), ctx.constant(np.ones(rank, np.int64))
        data = ctx.emit(cut, data, zeros, shape_layers.shape_of(ctx, indices), ones)
    return ctx.emit(indexing.GatherElements6(axis=at), data, indices)


@onnx_op("GatherND", versions=(11,), without=("batch_dims",))
@onnx_op("GatherND", versions=(12, 13))
def gather_nd(ctx: Context, data: Output, indices: Output, *, batch_dims: int = 0) -> Output:
    """Slices of the data, each chosen by one tuple along the last dimension of indices.

    The first ``batch_dims`` dimensions are those of both inputs.
    """
    return ctx.emit(indexing.GatherND8(batch_dims=batch_dims), data, indices)


# --- placing ---

_Reduction = Literal["none", "add", "mul", "max", "min"]
_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _reduction(ctx: Context, name: str, later: bool) -> str:
    if name in ("max", "min") and not later:
        ctx.tolerate(f"reduction must be none, add or mul before opset 18, but is {name!r}")
    return _REDUCTIONS[name]


@onnx_op("Scatter", versions=(9, 11), without=("reduction",))
@onnx_op("ScatterElements", versions=(11, 13), without=("reduction",))
@onnx_op("ScatterElements", versions=(16, 18))
def scatter_elements(
    ctx: Context, data: Output, indices: Output, updates: Output, *, axis: int = 0, reduction: _Reduction = "none"
) -> Output:
    """The data with ``out[i][indices[i][j]] = updates[i][j]`` for axis 1.

    ``reduction`` adds the updates to, multiplies them with (16) or compares them to (18) what is there.
    """
    mode = _reduction(ctx, reduction, ctx.version >= 18)
    if data.shape.has_rank:
        axis = normalize_axis(axis, data.shape.rank)
    if mode == "none":
        op: scatter.ScatterElementsUpdate3 | scatter.ScatterElementsUpdate12 = scatter.ScatterElementsUpdate3()
    else:
        op = scatter.ScatterElementsUpdate12(reduction=mode, use_init_val=True)
    return ctx.emit(op, data, indices, updates, ctx.constant(axis))


@onnx_op("ScatterND", versions=(11, 13), without=("reduction",))
@onnx_op("ScatterND", versions=(16, 18))
def scatter_nd(
    ctx: Context, data: Output, indices: Output, updates: Output, *, reduction: _Reduction = "none"
) -> Output:
    """The data with whole slices replaced, each placed by one tuple along the last dimension of indices.

    ``reduction`` is as in ScatterElements.
    """
    mode = _reduction(ctx, reduction, ctx.version >= 18)
    op = scatter.ScatterNDUpdate4() if mode == "none" else scatter.ScatterNDUpdate15(reduction=mode)
    return ctx.emit(op, data, indices, updates)


@onnx_op("TensorScatter", versions=(24,))
def tensor_scatter(
    ctx: Context,
    past_cache: Output,
    update: Output,
    write_indices: Output | None = None,
    *,
    axis: int = -2,
    mode: Literal["linear", "circular"] = "linear",
) -> Output:
    """The cache with ``update`` written along ``axis``, for each batch from its own index on."""
    rank = ctx.rank(past_cache, "the cache")
    at = normalize_axis(axis, rank)
    if at == 0:
        raise ctx.invalid("axis must not be 0, which is the batch")
    steps = shape_layers.arange(ctx, shape_layers.dim_of(ctx, update, at))
    places = ctx.emit(movement.Reshape1(special_zero=False), steps, ctx.constant(_column(rank, at)))
    if write_indices is not None:
        starts = ctx.emit(
            movement.Reshape1(special_zero=False),
            shape_layers.as_i64(ctx, write_indices),
            ctx.constant(_column(rank, 0)),
        )
        places = layers.add(ctx, starts, places)
    if mode == "circular":
        places = ctx.emit(elementwise.FloorMod1(), places, shape_layers.dim_of(ctx, past_cache, at))
    places = ctx.emit(movement.Broadcast3(mode="numpy"), places, shape_layers.shape_of(ctx, update))
    return ctx.emit(scatter.ScatterElementsUpdate3(), past_cache, places, update, ctx.constant(at))


def _column(rank: int, axis: int) -> list[int]:
    """The shape that lays a list along one dimension."""
    return [-1 if dimension == axis else 1 for dimension in range(rank)]


# --- finding and marking ---


@onnx_op("OneHot", versions=(9, 11, 28))
def one_hot(ctx: Context, indices: Output, depth: Output, values: Output, *, axis: int = -1) -> Output:
    """A new dimension of length ``depth`` that holds ``values[1]`` at the index and ``values[0]`` elsewhere.

    From version 11 on negative indices count from the end; before, they mark nothing.
    """
    rank = ctx.rank(indices, "the indices")
    at = normalize_axis(axis, rank + 1)
    count = as_scalar(ctx, shape_layers.as_i64(ctx, depth), "the depth")
    places = shape_layers.as_i64(ctx, indices)
    if ctx.version >= 11:
        places = shape_layers.normalized_positions(ctx, places, count)
    off, on = (layers.gather(ctx, values, ctx.constant(i), ctx.constant(0)) for i in (0, 1))
    return ctx.emit(indexing.OneHot1(axis=at), places, count, on, off)


@onnx_op("NonZero", versions=(9, 13))
def non_zero(ctx: Context, data: Output) -> Output:
    """The positions of all elements that are not zero, one column each."""
    coordinates = ctx.emit(indexing.NonZero3(output_type=element_types.i64), data)
    if data.shape.has_rank and data.shape.rank == 0:
        # A scalar has no dimensions, and so no rows; the IR gives it one.
        bounds = [ctx.constant([value]) for value in (0, 0, 1, 0)]
        return ctx.emit(slicing.Slice8(), coordinates, *bounds)
    return coordinates


@onnx_op("Compress", versions=(9, 11, 28))
def compress(ctx: Context, data: Output, condition: Output, *, axis: int | None = None) -> Output:
    """The slices along ``axis`` (the elements, where there is none) for which the condition holds.

    Elements of a computed condition beyond the data select nothing, as in onnxruntime. Where the condition is no list,
    as in what paddle2onnx writes for masked_select, its elements count in their order, as there.
    """
    condition = shape_layers.as_list(ctx, condition) if condition.shape.has_rank else condition
    at = 0
    if axis is None:
        data = shape_layers.as_list(ctx, data)
    else:
        at = normalize_axis(axis, ctx.rank(data, "the data"))
    constant = condition.type.constant
    if constant is not None:
        chosen = ctx.constant(np.flatnonzero(constant))
    else:
        size = shape_layers.dimension_list(ctx, data, at)
        within = ctx.emit(slicing.Slice8(), condition, ctx.constant([0]), size, ctx.constant([1]))
        chosen = shape_layers.as_list(ctx, ctx.emit(indexing.NonZero3(output_type=element_types.i64), within))
    return layers.gather(ctx, data, chosen, ctx.constant(at))


@onnx_op("Trilu", versions=(14,))
def trilu(ctx: Context, data: Output, k: Output | None = None, *, upper: int = 1) -> Output:
    """The upper or lower triangle of the last two dimensions, the rest set to zero.

    ``k`` shifts the diagonal, which belongs to the triangle, up (positive) or down.
    """
    rank = ctx.rank(data, "the data", least=2)
    rows = shape_layers.arange(ctx, shape_layers.dim_of(ctx, data, rank - 2))
    columns = shape_layers.arange(ctx, shape_layers.dim_of(ctx, data, rank - 1))
    diagonal = ctx.constant(0) if k is None else as_scalar(ctx, shape_layers.as_i64(ctx, k), "k")
    start = layers.unsqueeze(ctx, rows, 1)
    if diagonal.type.constant != 0:
        start = layers.add(ctx, start, diagonal)
    is_inside = ctx.emit(elementwise.GreaterEqual1() if upper else elementwise.LessEqual1(), columns, start)
    zeros = {element_types.boolean: False, element_types.string: ""}
    zero = ctx.like(zeros.get(data.element_type, 0), data)
    return layers.select(ctx, is_inside, data, zero)


@onnx_op("TopK", versions=(1,))
def top_k_1(ctx: Context, data: Output, *, k: int, axis: int = -1) -> list[Output]:
    """The ``k`` greatest elements along ``axis`` in descending order, and their indices."""
    return _top_k(ctx, data, ctx.constant(k), axis, largest=True)


@onnx_op("TopK", versions=(10,), without=("largest", "sorted"))
@onnx_op("TopK", versions=(11, 24))
def top_k(ctx: Context, data: Output, k: Output, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Output]:
    """As before, with k from an input; without ``largest`` the least elements in ascending order.

    Without ``sorted`` any order will do.
    """
    return _top_k(ctx, data, k, axis, bool(largest))


def _top_k(ctx: Context, data: Output, k: Output, axis: int, largest: bool) -> list[Output]:
    at = normalize_axis(axis, ctx.rank(data, "the data"))
    count = shape_layers.as_i64(ctx, as_scalar(ctx, k, "k"))
    mode = "max" if largest else "min"
    op = sorting.TopK11(axis=at, mode=mode, sort="value", index_element_type=element_types.i64, stable=True)
    return ctx.emit_all(op, data, count)


@onnx_op("Unique", versions=(11, 28))
def unique(ctx: Context, data: Output, *, axis: int | None = None, sorted: int = 1) -> list[Output]:
    """The different elements, or slices along ``axis``, in ascending order or as they came.

    Also the place where each stands first, which of them each element is, and how often each occurs.
    """
    op = sorting.Unique10(
        sorted=bool(sorted), index_element_type=element_types.i64, count_element_type=element_types.i64
    )
    if axis is None:
        return ctx.emit_all(op, data)
    return ctx.emit_all(op, data, ctx.constant(normalize_axis(axis, ctx.rank(data, "the data"))))
