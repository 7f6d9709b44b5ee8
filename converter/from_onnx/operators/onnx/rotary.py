"""RotaryEmbedding, of ONNX and of onnxruntime: heads rotated by angles that depend on their position.

Letters in shapes: b batches, s positions, n heads, h numbers a head.
https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output
from ir_runtime.operations import movement, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, concat, cut, in_type, multiply, reshape, subtract, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, as_list, concat_lists, dim_of


def angles(ctx: Context, cache: Output, places: Output, heads_at: int) -> Output:
    """The rows of the cache for positions ``[b, s]`` or ``[s]``, with a dimension of 1 for the heads."""
    gathered = layers.gather(ctx, cache, places, ctx.constant(0))
    if places.shape.rank == 1:
        gathered = unsqueeze(ctx, gathered, 0)
    return unsqueeze(ctx, gathered, heads_at)


Half = int | Output
"""The number of angles: an integer, or a scalar output where it is dynamic."""


def rotated(
    ctx: Context, x: Output, cos: Output, sin: Output, half: Half, interleaved: bool, whole: bool = False
) -> Output:
    """The first 2 ``half`` numbers of each head (``whole``: all of them), rotated in pairs; the others stay.

    The numbers of a pair are neighbours if ``interleaved``, else ``half`` elements lie between their starts.
    """
    end = 2 * half if isinstance(half, int) else add(ctx, half, half)
    width = x.shape[3]
    is_all = whole or (isinstance(half, int) and width.is_static and width.value == 2 * half)
    if interleaved:
        first, second = (_cut(ctx, x, start, None if whole else end, 2) for start in (0, 1))
        real = subtract(ctx, multiply(ctx, first, cos), multiply(ctx, second, sin))
        imaginary = add(ctx, multiply(ctx, second, cos), multiply(ctx, first, sin))
        pairs = concat(ctx, 4, unsqueeze(ctx, real, 4), unsqueeze(ctx, imaginary, 4))
        result = reshape(ctx, pairs, [0, 0, 0, -1])
    else:
        # OpenVINO fuses this form into one layer in both layouts, also where numbers stay, if the axis is -1 and not 3.
        data = x if is_all else _cut(ctx, x, 0, end)
        first, second = _cut(ctx, data, 0, half), _cut(ctx, data, half, None)
        partners = concat(ctx, -1, multiply(ctx, second, ctx.like(-1, second)), first)
        cos, sin = (concat(ctx, -1, angle, angle) for angle in (cos, sin))
        result = add(ctx, multiply(ctx, data, cos), multiply(ctx, partners, sin))
    return result if is_all else concat(ctx, 3, result, _cut(ctx, x, end, None))


def _cut(ctx: Context, x: Output, start: Half, stop: Half | None, step: int = 1) -> Output:
    """``x[..., start:stop:step]`` along the numbers of a head."""
    if isinstance(start, int) and not isinstance(stop, Output):
        return cut(ctx, x, start, stop, 3, step)
    ends = (np.iinfo(np.int64).max if stop is None else stop, step, 3)
    bounds = (as_list(ctx, end) if isinstance(end, Output) else ctx.constant([end]) for end in (start, *ends))
    return ctx.emit(slicing.Slice8(), x, *bounds)


def half_of(ctx: Context, cache: Output) -> Half:
    """Return the number of angles per position in onnxruntime's cache."""
    ctx.rank(cache, "cos_cache", 2)
    return cache.shape[1].value if cache.shape[1].is_static else dim_of(ctx, cache, 1)


def _rotated_heads(
    ctx: Context,
    x: Output,
    cos: Output,
    sin: Output,
    half: Half,
    *,
    interleaved: int | None = None,
    is_packed_batching: int | None = None,
    num_heads: int | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
) -> Output:
    """The heads of ``[b, s, n h]`` or ``[b, n, s, h]`` rotated by the angles of each position ``[b, s, half]``.

    The angles of all rows may be the same, ``[s, half]``.
    """
    if scale not in (None, 1.0):
        raise ctx.unsupported("the attribute scale, which onnxruntime's CPU kernel ignores, is not supported")
    if is_packed_batching:
        raise ctx.unsupported("packed batches are not supported")
    rank = ctx.rank(x, "the input", 3, 4)
    if rotary_embedding_dim and not num_heads and rank == 3:
        raise ctx.invalid("rotary_embedding_dim needs num_heads")
    if rotary_embedding_dim and isinstance(half, int) and rotary_embedding_dim != 2 * half:
        raise ctx.invalid(f"rotary_embedding_dim is {rotary_embedding_dim}, but cos_cache has {half} angles")
    data, heads_at = x, 1
    if rank == 3:
        heads_at = 2
        if rotary_embedding_dim and num_heads:
            data = reshape(ctx, x, [0, 0, num_heads, -1])
        elif isinstance(half, int):
            data = reshape(ctx, x, [0, 0, -1, 2 * half])
        else:
            shape = concat_lists(ctx, [ctx.constant([0, 0, -1]), add(ctx, half, half)])
            data = ctx.emit(movement.Reshape1(special_zero=True), x, shape)
    cos, sin = (unsqueeze(ctx, table, *([0] if table.shape.rank == 2 else []), heads_at) for table in (cos, sin))
    whole = not rotary_embedding_dim and not isinstance(half, int)
    result = rotated(ctx, data, cos, sin, half, bool(interleaved), whole)
    return result if rank == 4 else reshape(ctx, result, [0, 0, -1])


@onnx_op("RotaryEmbedding", domain=MICROSOFT, versions=(1,))
@attributes_of(_rotated_heads)
def rotary_embedding(
    ctx: Context, x: Output, position_ids: Output, cos_cache: Output, sin_cache: Output, **attributes: Any
) -> Output:
    """``[b, s, n h]`` or ``[b, n, s, h]``, each head rotated by the angles of its position.

    ``position_ids`` are ``[b, s]``, or one number, the first position.
    """
    places, sequence_at = position_ids, 1 if ctx.rank(x, "the input", 3, 4) == 3 else 2
    if ctx.rank(position_ids, "position_ids") == 1:
        numbers = in_type(ctx, arange(ctx, dim_of(ctx, x, sequence_at)), position_ids.element_type)
        places = add(ctx, numbers, position_ids)
    half = half_of(ctx, cos_cache)
    cos, sin = (layers.gather(ctx, cache, places, ctx.constant(0)) for cache in (cos_cache, sin_cache))
    return _rotated_heads(ctx, x, cos, sin, half, **attributes)


@onnx_op("MRotaryEmbedding", domain=MICROSOFT, versions=(1,))
@attributes_of(_rotated_heads)
def multimodal_rotary_embedding(
    ctx: Context,
    x: Output,
    position_ids: Output,
    cos_cache: Output,
    sin_cache: Output,
    *,
    mrope_layout: int | None = None,
    mrope_section: Sequence[int],
    **attributes: Any,
) -> Output:
    """As RotaryEmbedding, with three positions for each token ``[3, b, s]``: in time, of its row and of its column.

    ``mrope_section`` tells how many angles come from each: one section behind the other (``mrope_layout`` 0), or in
    turn from the three until the sections of rows and columns are used up (1).
    """
    if len(mrope_section) != 3 or min(mrope_section) < 0:
        raise ctx.invalid(f"mrope_section must be three numbers of 0 or more, but is {list(mrope_section)}")
    half = sum(mrope_section)
    cached_half = half_of(ctx, cos_cache)
    if isinstance(cached_half, int) and cached_half != half:
        raise ctx.invalid(f"mrope_section {list(mrope_section)} has {half} angles, but cos_cache has {cached_half}")
    columns = np.arange(half)
    if not mrope_layout:
        source = np.repeat(np.arange(3), mrope_section)
    elif mrope_layout == 1:
        reach = 3 * np.array(mrope_section)[columns % 3]
        source = np.where(columns < reach, columns % 3, 0)
    else:
        raise ctx.invalid(f"mrope_layout must be 0 or 1, but is {mrope_layout}")
    chosen = ctx.constant(source * half + columns)
    cos, sin = (
        layers.gather(ctx, _side_by_side(ctx, cache, position_ids), chosen, ctx.constant(2))
        for cache in (cos_cache, sin_cache)
    )
    return _rotated_heads(ctx, x, cos, sin, half, **attributes)


def _side_by_side(ctx: Context, cache: Output, places: Output) -> Output:
    """The rows of a cache for places ``[3, b, s]``, those of a token one behind the other: ``[b, s, 3 half]``."""
    gathered = layers.gather(ctx, cache, places, ctx.constant(0))
    return reshape(ctx, layers.transpose(ctx, gathered, ctx.constant([1, 2, 0, 3])), [0, 0, -1])


@onnx_op("RotaryEmbedding", versions=(23,))
def rotary_embedding_23(
    ctx: Context,
    x: Output,
    cos_cache: Output,
    sin_cache: Output,
    position_ids: Output | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Output:
    """``[b, s, n h]`` or ``[b, n, s, h]``, the first ``rotary_embedding_dim`` numbers of each head rotated.

    The caches hold one row for each position if ``position_ids`` ``[b, s]`` are given, else they are
    ``[b, s, angles]``.
    """
    rank = ctx.rank(x, "the input", 3, 4)
    heads = num_heads or 0
    if rank == 3 and heads < 1:
        raise ctx.invalid("num_heads is required where the input has 3 dimensions")
    data = x if rank == 4 else reshape(ctx, x, [0, 0, heads, -1])
    cache_rank = 3 if position_ids is None else 2
    for name, cache in (("cos_cache", cos_cache), ("sin_cache", sin_cache)):
        if ctx.rank(cache, name) != cache_rank:
            with_ids = "without" if position_ids is None else "with"
            raise ctx.invalid(f"{name} must have {cache_rank} dimensions {with_ids} position_ids, but is {cache.shape}")
    half = _angles_of(ctx, data, cos_cache, rotary_embedding_dim)
    if isinstance(half, int) and any(not cache.shape[-1].contains(half) for cache in (cos_cache, sin_cache)):
        raise ctx.invalid(
            f"the caches must hold {half} angles for each position, but are {cos_cache.shape} and {sin_cache.shape}"
        )
    heads_at = 2 if rank == 3 else 1
    if position_ids is None:
        cos, sin = (unsqueeze(ctx, cache, heads_at) for cache in (cos_cache, sin_cache))
    else:
        cos, sin = (angles(ctx, cache, position_ids, heads_at) for cache in (cos_cache, sin_cache))
    result = rotated(ctx, data, cos, sin, half, bool(interleaved), whole=not rotary_embedding_dim)
    return result if rank == 4 else reshape(ctx, result, [0, 0, -1])


def _angles_of(ctx: Context, data: Output, cache: Output, rotated_count: int) -> Half:
    """Return the number of pairs of each head to rotate."""
    width = data.shape[3]
    if not rotated_count and not width.is_static:
        return cache.shape[-1].value if cache.shape[-1].is_static else dim_of(ctx, cache, cache.shape.rank - 1)
    count = rotated_count or width.value
    width = ctx.declared(data).shape[3]
    if count % 2 or (width.is_static and count > width.value):
        raise ctx.invalid(f"rotary_embedding_dim must be even and at most {width}, but is {count}")
    return count // 2
