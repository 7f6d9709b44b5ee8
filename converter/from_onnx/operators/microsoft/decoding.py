"""onnxruntime's part of decoding that guesses: how much of a guess holds, and where the source goes on.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BifurcationDetector
"""

from __future__ import annotations

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting.expressions import Expression, concat, positions, where
from ir_runtime.rewriting.shape_layers import shape_of

_NO_TOKEN, _NO_OTHER = -1, -2
"""Numbers that no token has, one behind the source and one before the tokens, so that they match nothing."""


def _count(flags: Expression) -> Expression:
    return flags.as_type("i64").sum(0)


def _before_the_first(flags: Expression) -> Expression:
    """Return the number of entries before the first that is true."""
    return _count(flags.as_type("i64").cumulative_sum(0).equal(0))


def _extend(source: Expression, tokens: Expression, start: Expression, guess: Expression) -> Expression:
    """The tokens, followed by as much of the guess as the source has, and by the guess's next token."""
    rest = source.cut(0, start)
    held = _before_the_first(~guess.cut(0, 0, rest.size(0)).equal(rest))
    return concat([tokens, guess.cut(0, 0, held + 1)], 0)


@onnx_op("BifurcationDetector", domain=MICROSOFT, versions=(1,))
def bifurcation_detector(
    ctx: Context,
    src_tokens: Expression,
    cur_tokens: Expression,
    prev_suffix_match_idx: Expression,
    pred_tokens: Expression | None = None,
    *,
    max_ngram_size: int = 3,
    min_ngram_size: int = 1,
) -> tuple[Expression, Expression]:
    """The tokens with what holds of a guess, and the place in the source behind their last few, or -1.

    Ever longer ends of the tokens are looked for, until one is not there or ends the source. The place is
    that of the longest one, where it is there once only or ends the source.
    """
    if not 1 <= min_ngram_size <= max_ngram_size:
        raise ctx.invalid(f"sizes must be positive and in order, but are {min_ngram_size} and {max_ngram_size}")
    tokens, start = cur_tokens, Expression(ctx, as_scalar(ctx, prev_suffix_match_idx.value, "the index"))
    if pred_tokens is not None:
        tokens = _extend(src_tokens, cur_tokens, start, pred_tokens)
    length = src_tokens.size(0)
    rows = positions(length + 1).unsqueeze(1)
    place, stopped = length.of(-1), length.of(False, "boolean")
    for size in range(min_ngram_size, max_ngram_size + 1):
        longer = concat([src_tokens, src_tokens.of([_NO_TOKEN] * size)], 0)
        ending = concat([tokens.of([_NO_OTHER] * size), tokens], 0).cut(0, -size)
        match = longer.gather(rows + list(range(size))).equal(ending.unsqueeze(0)).all(1)
        count, behind = _count(match), _before_the_first(match) + size
        at_end = behind >= length
        keep = stopped | ~(count > 0)
        place = where(keep, place, where(at_end | count.equal(1), behind, -1))
        stopped = keep | at_end
    shape = Expression(ctx, shape_of(ctx, prev_suffix_match_idx.value))
    return tokens, place.emit(Reshape1(special_zero=False), shape)
