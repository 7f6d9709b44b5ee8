"""ONNX's TfIdfVectorizer on numbers: how often each n-gram of a pool occurs in a sequence.

The IR has no such operation and none that reads texts, so tokens must be numbers. All tokens are compared with all
tokens of every n-gram at once; an n-gram occurs where all its tokens are equal.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Array, element_types
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat

_MAX_COLUMNS = 1 << 20
"""The most columns of a result; constants have an entry for each, also for those without an n-gram."""


@record
class _Grams:
    """The n-grams of one length: their tokens ``[count, length]`` and their numbers in the pool."""

    tokens: Array
    numbers: Array

    @property
    def length(self) -> int:
        return self.tokens.shape[1]


def _pool(
    ctx: Context, pool: Sequence[int], starts: Sequence[int], element_type: element_types.ElementType
) -> list[_Grams]:
    """The pool's n-grams by their length, from 1 on; those that the input's type cannot hold are left out."""
    limits = np.iinfo(element_type.dtype)
    grams, number = [], 0
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        if not 0 <= start <= stop <= len(pool) or (stop - start) % length:
            raise ctx.invalid(
                f"ngram_counts must divide the {len(pool)} numbers of the pool into whole n-grams, "
                f"but the {length}-grams are the numbers {start} to {stop}"
            )
        tokens = np.array(pool[start:stop], np.int64).reshape(-1, length)
        if len(np.unique(tokens, axis=0)) != len(tokens):
            raise ctx.invalid(f"the pool has a {length}-gram twice")
        possible = ((tokens >= limits.min) & (tokens <= limits.max)).all(1)
        grams.append(_Grams(tokens[possible], number + np.flatnonzero(possible)))
        number += len(tokens)
    return grams


_MAX_DISTANCE = 1000
"""The greatest distance between tokens of an n-gram in rows of dynamic length; each distance takes layers."""


def _counts(ctx: Context, tokens: Expression, grams: _Grams, distances: Sequence[int]) -> Expression | None:
    """Count each n-gram in the rows of ``[n, l]``, as ``[n, count]``; None where the rows are too short.

    Its tokens have one of the ``distances`` from one another.
    """
    column = tokens.unsqueeze(2)
    equal = [column.equal(grams.tokens[:, i]) for i in range(grams.length)]
    counts = []
    for distance in distances:
        reach = (grams.length - 1) * distance
        if tokens.value.shape[1].high <= reach:
            break
        if distance > _MAX_DISTANCE:
            raise ctx.unsupported(
                f"max_skip_count of more than {_MAX_DISTANCE - 1} needs rows of a known length, "
                f"but they are {tokens.value.shape}"
            )
        # Each token's part of the rows; empty where its end comes before its start.
        parts = [
            matches.cut(1, i * distance, i * distance - reach or None) if reach else matches
            for i, matches in enumerate(equal)
        ]
        counts.append(functools.reduce(operator.and_, parts).as_type("f32").sum(1))
    return functools.reduce(operator.add, counts) if counts else None


def _place(counts: Expression, columns: Array, weights: Array, width: int) -> Expression:
    """``[n, width]``, where column ``columns[i]`` has the sum of its n-grams' counts ``[n, i]`` times weights.

    Each column takes as many n-grams as the one with most of them has, the missing ones with the weight 0.
    """
    members: list[list[int]] = [[] for _ in range(width)]
    for number, column in enumerate(columns.tolist()):
        members[column].append(number)
    parts = []
    for turn in range(max(map(len, members))):
        taken = np.array([of_column[turn] if turn < len(of_column) else -1 for of_column in members])
        scale = np.where(taken >= 0, weights[taken], 0)
        is_all = np.array_equal(taken, np.arange(len(columns)))
        part = counts if is_all else counts.gather(np.maximum(taken, 0), 1)
        parts.append(part * scale if (scale != 1).any() else part)
    return functools.reduce(operator.add, parts)


@onnx_op("TfIdfVectorizer", versions=(9,))
def tf_idf_vectorizer(
    ctx: Context,
    x: Expression,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: Literal["TF", "IDF", "TFIDF"],
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> Expression:
    """For tokens ``[l]`` or ``[n, l]`` the n-grams' frequencies, by ``ngram_indexes``.

    The tokens of an n-gram follow each other, or with the same number of others between them, up to
    ``max_skip_count``. Mode TF counts, TFIDF multiplies by the n-grams' weights, and IDF gives the
    weights of those that are there.
    """
    if pool_strings or x.element_type is element_types.string:
        raise ctx.unsupported("the tokens are texts, with which the IR's layers do not compute")
    rank = ctx.rank(x.value, "the input")
    if rank not in (1, 2):
        raise ctx.invalid(f"the input must be a sequence or a batch of them, but has the shape {x.value.shape}")
    if not 1 <= min_gram_length <= max_gram_length <= len(ngram_counts) or max_skip_count < 0:
        raise ctx.invalid(
            f"n-grams of {min_gram_length} to {max_gram_length} tokens with up to {max_skip_count} between them "
            f"cannot be taken from a pool of 1- to {len(ngram_counts)}-grams"
        )
    places = np.array(ngram_indexes, np.int64)
    pool = _pool(ctx, pool_int64s or (), ngram_counts, x.element_type)
    needed_count = max((int(grams.numbers[-1]) + 1 for grams in pool if len(grams.numbers)), default=0)
    if not places.size or places.min() < 0 or len(places) < needed_count:
        raise ctx.invalid(
            f"the {needed_count} n-grams need as many ngram_indexes from 0 on, but they are {places.tolist()}"
        )
    if places.max() >= _MAX_COLUMNS:
        raise ctx.unsupported(
            f"a result of {int(places.max()) + 1} columns is too wide; up to {_MAX_COLUMNS} are possible"
        )
    if weights and len(weights) != len(places):
        raise ctx.invalid(f"there are {len(weights)} weights, but {len(places)} ngram_indexes")
    scale = np.array(weights if weights and mode != "TF" else np.ones(len(places)), np.float64)

    tokens = x if rank == 2 else x.unsqueeze(0)
    parts, numbers = [], []
    for grams in pool[min_gram_length - 1 : max_gram_length]:
        # A single token has no distance.
        distances = range(1, 2 if grams.length == 1 else max_skip_count + 2)
        counts = _counts(ctx, tokens, grams, distances) if len(grams.numbers) else None
        if counts is not None:
            parts.append(counts)
            numbers.append(grams.numbers)
    width = int(places.max()) + 1
    if parts:
        chosen = np.concatenate(numbers)
        counts = concat(parts, 1)
        if mode == "IDF":
            if len(np.unique(places[chosen])) != len(chosen):
                raise ctx.unsupported("ONNX does not define the result of mode IDF where n-grams share an index")
            counts = counts.minimum(1)
        counted = _place(counts, places[chosen], scale[chosen], width)
    else:
        counted = x.of(0, "f32").broadcast(tokens.size(0), width, mode="numpy")
    return counted if rank == 2 else counted.squeeze(0)
