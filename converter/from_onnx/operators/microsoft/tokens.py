"""onnxruntime's operators on tokens: guesses that hold, n-grams that come again, hashes of numbers and n-grams.

Hashes are defined by arithmetic modulo 2^32 or 2^64. OpenVINO's CPU plug-in has no integers of more than 32 bits, so
numbers of 64 bits are computed as eight bytes each.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import element_types
from ir_runtime.operations import elementwise
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting.expressions import Expression, concat, positions, where
from ir_runtime.rewriting.shape_layers import shape_of

from .packed_tokens import Rows

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
        ctx.rank(value.value, name, 2)
    places = _find_repeated(input_ids, scores.size(1), ngram_size)
    blocked = scores.of(-np.inf).broadcast(*places.sizes())
    return scores.pad([0, 0], [0, 1]).scatter(places, blocked, 1).cut(1, 0, -1)


_BYTES = 8
_LARGEST_MODULUS = 2**23
"""Products of a byte and a remainder have to fit into 31 bits."""


def _bits(number: int) -> int:
    """Return the int32 that has the lowest 32 bits of a number."""
    return int(np.array(number & 0xFFFFFFFF, np.uint32).view(np.int32))


def _xor(a: Expression, b: Expression | int) -> Expression:
    return a.emit(elementwise.BitwiseXor13(), a.of(b))


def _and(a: Expression, mask: int) -> Expression:
    return a.emit(elementwise.BitwiseAnd13(), a.of(mask))


def _shifted_right(word: Expression, count: int) -> Expression:
    """Shift 32 bits, and put zeros in front whatever the sign is."""
    return _and(word.emit(elementwise.BitwiseRightShift15(), word.of(count)), (1 << (32 - count)) - 1)


def _rotated_left(word: Expression, count: int) -> Expression:
    left = word.emit(elementwise.BitwiseLeftShift15(), word.of(count))
    return left.emit(elementwise.BitwiseOr13(), _shifted_right(word, 32 - count))


@onnx_op("MurmurHash3", domain=MICROSOFT, versions=(1,))
def murmur_hash_3(ctx: Context, x: Expression, *, positive: int = 1, seed: int = 0) -> Expression:
    """MurmurHash3_x86_32 of each number of 32 bits, an u32 or i32.

    https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp
    """
    if x.element_type not in (element_types.i32, element_types.u32):
        raise ctx.unsupported(f"hashes of {x.element_type} are not supported, only those of i32 and u32")
    word = _rotated_left(x.as_type("i32") * _bits(0xCC9E2D51), 15) * _bits(0x1B873593)
    state = _rotated_left(_xor(word, _bits(seed)), 13) * 5 + _bits(0xE6546B64)
    state = _xor(state, 4)  # the length in bytes
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = _xor(state, _shifted_right(state, shift)) * _bits(factor)
    state = _xor(state, _shifted_right(state, 16))
    return state.as_type("u32") if positive else state


@onnx_op("NGramHashMapping", domain=MICROSOFT, versions=(1,))
def ngram_hash_mapping(
    ctx: Context,
    input_ids: Expression,
    multipliers: Expression,
    vocab_sizes: Expression,
    past_ids: Expression | None = None,
    head_offsets: Expression | None = None,
    eos_token_id: Expression | None = None,
    segment_ids: Expression | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
) -> list[Expression]:
    """Hashes ``[b, s, heads]`` of the n-grams that end at each token, for n from 2 on, and the ids of the next call.

    A hash is the exclusive or of the ids of an n-gram times their multipliers, modulo the size of the head's
    vocabulary.
    """
    ctx.rank(input_ids.value, "input_ids", 2)
    mapping = _Mapping(
        ctx, multipliers, vocab_sizes, head_offsets, eos_token_id, pad_id, max_ngram_size, n_head_per_ngram
    )
    ids = mapping.with_past(input_ids, past_ids)
    hashes = mapping.hashes(ids, mapping.segments(segment_ids, None), reset_on_eos)
    return [hashes, ids.cut(1, input_ids.size(1))]


@onnx_op("VarlenNGramHashMapping", domain=MICROSOFT, versions=(1,))
def packed_ngram_hash_mapping(
    ctx: Context,
    input_ids: Expression,
    multipliers: Expression,
    vocab_sizes: Expression,
    cumulative_sequence_length: Expression,
    past_ids: Expression | None = None,
    head_offsets: Expression | None = None,
    eos_token_id: Expression | None = None,
    segment_ids: Expression | None = None,
    past_segment_ids: Expression | None = None,
    capture_count: Expression | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
    state_update_capacity: int = 0,
) -> list[Expression | None]:
    """Hashes ``[t, heads]`` of packed tokens ``[t]``; and ids and segments of the next call."""
    if state_update_capacity:
        raise ctx.unsupported("states after each of the first tokens (state_update_capacity) are not supported")
    ctx.rank(input_ids.value, "input_ids", 1)
    rows = Rows.of(ctx, input_ids, cumulative_sequence_length, None)
    mapping = _Mapping(
        ctx, multipliers, vocab_sizes, head_offsets, eos_token_id, pad_id, max_ngram_size, n_head_per_ngram
    )
    ids = mapping.with_past(rows.split(input_ids).transpose(1, 0), past_ids)
    segments = None
    if segment_ids is not None:
        segments = mapping.segments(rows.split(segment_ids).transpose(1, 0), past_segment_ids)
    hashes = mapping.hashes(ids, segments, reset_on_eos)
    last = rows.lengths().unsqueeze(1) + np.arange(mapping.past)
    present = [None if values is None else values.gather_elements(last, 1) for values in (ids, segments)]
    return [rows.join(hashes.transpose(1, 0, 2)), *present]


class _Mapping:
    """Parameters of the hashes of n-grams."""

    def __init__(
        self,
        ctx: Context,
        multipliers: Expression,
        vocab_sizes: Expression,
        offsets: Expression | None,
        eos: Expression | None,
        pad_id: int,
        max_ngram_size: int,
        heads: int,
    ) -> None:
        if max_ngram_size < 2 or heads < 1:
            raise ctx.invalid(
                f"max_ngram_size must be at least 2 and n_head_per_ngram at least 1, but they are {max_ngram_size} "
                f"and {heads}"
            )
        factors = ctx.known(multipliers.value, "multipliers").reshape(-1).tolist()
        sizes = ctx.known(vocab_sizes.value, "vocab_sizes").reshape(-1)
        self.past = max_ngram_size - 1
        if len(factors) < max_ngram_size or sizes.size != self.past * heads:
            raise ctx.invalid(
                f"{max_ngram_size} multipliers and {self.past * heads} vocab_sizes are required, but there are "
                f"{len(factors)} and {sizes.size}"
            )
        if sizes.min() < 1:
            raise ctx.invalid(f"vocab_sizes must be positive, but are {sizes.tolist()}")
        self.ctx, self.factors, self.sizes = ctx, factors, sizes.reshape(self.past, heads)
        self.offsets, self.eos = offsets, None if eos is None else eos.reshape(1, 1)
        self.filler = vocab_sizes.of([[pad_id]]) if self.eos is None else self.eos

    def with_past(self, ids: Expression, past: Expression | None) -> Expression:
        """Ids ``[b, past + s]``."""
        if past is None:
            past = self.filler.broadcast(ids.size(0), self.past)
        return concat([past, ids], 1)

    def segments(self, segments: Expression | None, past: Expression | None) -> Expression | None:
        """Segments ``[b, past + s]``; without a past no boundary is before the first token."""
        if segments is not None and past is None:
            past = segments.cut(1, 0, 1).broadcast(segments.size(0), self.past)
        return None if segments is None or past is None else concat([past, segments], 1)

    def hashes(self, ids: Expression, segments: Expression | None, reset_on_eos: int) -> Expression:
        """The hashes ``[b, s, heads]``. Ids before a boundary count as the end of a text, or as padding."""
        tokens, reset = [self._earlier(ids, 0)], None
        for distance in range(1, self.past + 1):
            token, resets = self._earlier(ids, distance), [] if reset is None else [reset]
            if reset_on_eos and self.eos is not None:
                resets.append(token.equal(self.eos))
            if segments is not None:
                near, far = (self._earlier(segments, place) for place in (distance - 1, distance))
                resets.append(~near.equal(far))
            if resets:
                reset = reduce(lambda a, b: a | b, resets)
                token = where(reset, self.filler, token)
            tokens.append(token)
        hashed = _hashes(self.ctx, tokens, self.factors, self.sizes)
        return hashed if self.offsets is None else hashed + self.offsets

    def _earlier(self, values: Expression, distance: int) -> Expression:
        """The value ``distance`` places before each token."""
        return values.cut(1, self.past - distance, -distance if distance else None)


def _hashes(ctx: Context, tokens: list[Expression], factors: list[int], sizes: np.ndarray) -> Expression:
    """The hashes of all heads, where ``sizes`` has a row for each n."""
    element_type = tokens[0].element_type
    if element_type is element_types.i32:
        products = [token * _bits(factor) for token, factor in zip(tokens, factors)]
        mixes = [reduce(_xor, products[: 2 + n]).unsqueeze(2) for n in range(len(sizes))]
        return concat([mix % row for mix, row in zip(mixes, sizes.tolist())], 2)
    if sizes.max() > _LARGEST_MODULUS:
        raise ctx.unsupported(f"vocab_sizes of i64 must be at most 2^23, but one is {sizes.max()}")
    products = [_product(token, factor) for token, factor in zip(tokens, factors)]
    mixes = [reduce(_xor, products[: 2 + n]) for n in range(len(sizes))]
    return concat([_remainders(mix, row) for mix, row in zip(mixes, sizes)], 2).as_type(element_type)


def _product(token: Expression, factor: int) -> Expression:
    """The eight bytes ``[b, s, 8]``, lowest first, of a product of 64 bits.

    ``token`` is an id of at most 32 bits, as all integers are in OpenVINO. Sums of products of bytes are whole numbers
    below 2^24, which a product of matrices of float32 computes exactly.
    """
    word = token.as_type("i32").unsqueeze(2)
    low = [_and(_shifted_right(word, 8 * place) if place else word, 255) for place in range(4)]
    sign = where(word < 0, word.of(255), 0)
    digits = concat([*low, *[sign] * (_BYTES - 4)], 2)
    places = np.arange(_BYTES)
    distance = places - places[:, np.newaxis]
    digits_of_factor = np.array([(factor >> (8 * place)) & 255 for place in range(_BYTES)])
    table = np.where(distance >= 0, digits_of_factor[np.maximum(distance, 0)], 0)
    sums = digits.as_type("f32").matmul(digits.of(table, "f32")).as_type("i32")
    carry, result = None, []
    for place in range(_BYTES):
        total = sums.cut(2, place, place + 1)
        total = total if carry is None else total + carry
        result.append(_and(total, 255))
        carry = _shifted_right(total, 8)
    return concat(result, 2)


def _remainders(digits: Expression, moduli: np.ndarray) -> Expression:
    """The remainders ``[b, s, moduli]`` of signed numbers of eight bytes."""
    weights = np.array([[pow(256, place, int(size)) for size in moduli] for place in range(_BYTES)])
    # The highest bit counts -2^63 instead of 2^63.
    negative = _shifted_right(digits.cut(2, _BYTES - 1), 7)
    wrapped = np.array([-pow(256, _BYTES, int(size)) % int(size) for size in moduli])
    terms = [digits.cut(2, place, place + 1) * row % moduli for place, row in enumerate(weights)]
    return reduce(lambda a, b: a + b, [*terms, negative * wrapped]) % moduli
