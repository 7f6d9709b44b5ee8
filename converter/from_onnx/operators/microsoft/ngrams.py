"""onnxruntime's look at the n-grams of a text while it is generated.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NGramRepeatBlock
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.rewriting.expressions import Expression, positions, where


def _find_repeated(ids: Expression, no_token: Expression, size: int) -> Expression:
    """The last token of each n-gram; ``no_token`` where the tokens before it are not those that end the row.

    ``size`` times ``no_token`` stands before each row, so that rows have an n-gram however short they are: the plug-in
    crashes when it looks nothing up.
    """
    longer = ids.pad([0, size], [0, 0], no_token)
    ends = longer.cut(1, size - 1)
    if size == 1:
        return ends
    starts = positions(ids.size(1) + 2).unsqueeze(1) + np.arange(size - 1)
    before = longer.gather(starts, 1)
    same = before.cut(1, 0, -1).equal(before.cut(1, -1)).all(2)
    return where(same, ends, no_token)


@onnx_op("NGramRepeatBlock", domain=MICROSOFT, versions=(1,))
def ngram_repeat_block(ctx: Context, input_ids: Expression, scores: Expression, *, ngram_size: int) -> Expression:
    """Scores, -inf for each token that would end an n-gram which its row already has.

    What the other n-grams write goes into a column behind the last token.
    """
    if ngram_size < 1:
        raise ctx.invalid(f"ngram_size must be positive, but is {ngram_size}")
    for value, name in ((input_ids, "input_ids"), (scores, "scores")):
        if ctx.rank(value.value, name) != 2:
            raise ctx.invalid(f"{name} must have 2 dimensions, but has {value.rank}")
    places = _find_repeated(input_ids, scores.size(1), ngram_size)
    blocked = scores.of(-np.inf).broadcast(*places.sizes())
    return scores.pad([0, 0], [0, 1]).scatter(places, blocked, 1).cut(1, 0, -1)
