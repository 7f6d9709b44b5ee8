"""onnxruntime's part of decoding that guesses: how much of a guess holds, and where the source goes on.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BifurcationDetector
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import generation, movement, reduction, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, concat, in_type, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, as_list, dim_of, part_of, shape_of

_NO_TOKEN, _NO_OTHER = -1, -2
"""Numbers that no token has, one behind the source and one before the tokens, so that they match nothing."""


def _sum(ctx: Context, flags: Output) -> Output:
    numbers = in_type(ctx, flags, element_types.i64)
    return ctx.emit(reduction.ReduceSum1(keep_dims=False), numbers, ctx.constant([0]))


def _before_the_first(ctx: Context, flags: Output) -> Output:
    """Return the number of entries before the first that is true."""
    seen = ctx.emit(generation.CumSum3(), in_type(ctx, flags, element_types.i64), ctx.constant(0))
    return _sum(ctx, layers.equal(ctx, seen, ctx.constant(0)))


def _extend(ctx: Context, source: Output, tokens: Output, start: Output, guess: Output) -> Output:
    """The tokens, followed by as much of the guess as the source has, and by the guess's next token."""
    ends = (ctx.constant([np.iinfo(np.int64).max]), ctx.constant([1]))
    rest = ctx.emit(slicing.Slice8(), source, as_list(ctx, start), *ends)
    length = dim_of(ctx, rest, 0)
    head = ctx.emit(slicing.Slice8(), guess, ctx.constant([0]), as_list(ctx, length), ctx.constant([1]))
    held = _before_the_first(ctx, layers.not_equal(ctx, head, rest))
    count = as_list(ctx, add(ctx, held, ctx.constant(1)))
    return concat(ctx, 0, tokens, ctx.emit(slicing.Slice8(), guess, ctx.constant([0]), count, ctx.constant([1])))


@onnx_op("BifurcationDetector", domain=MICROSOFT, versions=(1,))
def bifurcation_detector(
    ctx: Context,
    src_tokens: Output,
    cur_tokens: Output,
    prev_suffix_match_idx: Output,
    pred_tokens: Output | None = None,
    *,
    max_ngram_size: int = 3,
    min_ngram_size: int = 1,
) -> tuple[Output, Output]:
    """The tokens with what holds of a guess, and the place in the source behind their last few, or -1.

    Ever longer ends of the tokens are looked for, until one is not there or ends the source. The place is
    that of the longest one, where it is there once only or ends the source.
    """
    if not 1 <= min_ngram_size <= max_ngram_size:
        raise ctx.invalid(f"sizes must be positive and in order, but are {min_ngram_size} and {max_ngram_size}")
    tokens, start = cur_tokens, as_scalar(ctx, prev_suffix_match_idx, "the index")
    if pred_tokens is not None:
        tokens = _extend(ctx, src_tokens, cur_tokens, start, pred_tokens)
    length = dim_of(ctx, src_tokens, 0)
    rows = unsqueeze(ctx, arange(ctx, add(ctx, length, ctx.constant(1))), 1)
    place, stopped = ctx.constant(-1), ctx.constant(False, "boolean")
    for size in range(min_ngram_size, max_ngram_size + 1):
        longer = concat(ctx, 0, src_tokens, ctx.constant([_NO_TOKEN] * size))
        ending = part_of(ctx, concat(ctx, 0, ctx.constant([_NO_OTHER] * size), tokens), -size, np.iinfo(np.int64).max)
        index = add(ctx, rows, ctx.constant([list(range(size))]))
        windows = layers.gather(ctx, longer, index, ctx.constant(0))
        same = layers.equal(ctx, windows, unsqueeze(ctx, ending, 0))
        match = ctx.emit(reduction.ReduceLogicalAnd1(keep_dims=False), same, ctx.constant([1]))
        count, behind = _sum(ctx, match), add(ctx, _before_the_first(ctx, match), ctx.constant(size))
        has_match = layers.greater(ctx, count, ctx.constant(0))
        at_end = layers.greater_equal(ctx, behind, length)
        once = layers.logical_or(ctx, at_end, layers.equal(ctx, count, ctx.constant(1)))
        here = layers.select(ctx, once, behind, ctx.constant(-1))
        missing = layers.logical_not(ctx, has_match)
        keep = layers.logical_or(ctx, stopped, missing)
        place = layers.select(ctx, keep, place, here)
        stopped = layers.logical_or(ctx, keep, at_end)
    shape = shape_of(ctx, prev_suffix_match_idx)
    return tokens, ctx.emit(movement.Reshape1(special_zero=False), place, shape)
