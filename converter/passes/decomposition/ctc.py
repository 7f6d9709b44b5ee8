"""Connectionist temporal classification: greedy decoders and the loss."""

from __future__ import annotations

import functools

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.activation import LogSoftmax5
from ir_runtime.operations.ctc import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6, CTCLoss4
from ir_runtime.rewriting.expressions import Expression, Operand, concat, loop, positions, where


def _shift(rows: Expression, by: int, value: Operand) -> Expression:
    """Each row's values further right, and ``value`` before them."""
    return concat([rows.of(value).broadcast(rows.size(0), by), rows], 1).cut(1, 0, rows.size(1))


def _decode(classes: Expression, inside: Expression, blank: Expression, merge: bool) -> Expression:
    """Return the mask of the classes to keep: no blanks, and with ``merge`` no repetitions of the class just before."""
    is_kept = inside & ~classes.equal(blank)
    return is_kept & ~classes.equal(_shift(classes, 1, -1)) if merge else is_kept


def _to_front(classes: Expression, is_kept: Expression, fill: Operand) -> tuple[Expression, Expression]:
    """The kept classes of each row, one after another, with ``fill`` behind them; and their number ``[n, 1]``."""
    chosen = is_kept.as_type("i64")
    count = chosen.sum(1, keep_dims=True)
    place = where(is_kept, chosen.cumulative_sum(1), (1 - chosen).cumulative_sum(1) + count)
    return classes.scatter(place - 1, where(is_kept, classes, fill), 1), count


def _best(probabilities: Expression) -> Expression:
    return probabilities.top(1)[1].squeeze(-1)


@decomposes(CTCGreedyDecoder1)
def ctc_greedy_decoder(op: CTCGreedyDecoder1, x: Expression, mask: Expression) -> Expression:
    """TopK, and ScatterElementsUpdate of the kept classes to the front of each row"""
    classes = _best(x).transpose(1, 0)
    inside = mask.transpose(1, 0).equal(0).as_type("i64").cumulative_sum(1).equal(0)
    is_kept = _decode(classes, inside, x.size(2) - 1, op.ctc_merge_repeated)
    return _to_front(classes, is_kept, -1)[0].as_type(x.element_type).unsqueeze(2, 3)


@decomposes(CTCGreedyDecoderSeqLen6)
def ctc_greedy_decoder_of_lengths(
    op: CTCGreedyDecoderSeqLen6, x: Expression, lengths: Expression, blank: Expression | None = None
) -> list[Expression]:
    """TopK, and ScatterElementsUpdate of the kept classes to the front of each row"""
    classes = _best(x)
    inside = positions(x.size(1)) < lengths.as_type("i64").unsqueeze(1)
    is_kept = _decode(classes, inside, _blank(x, blank), op.merge_repeated)
    decoded, count = _to_front(classes, is_kept, -1)
    return [decoded.as_type(op.classes_index_type), count.squeeze(1).as_type(op.sequence_length_type)]


def _blank(x: Expression, blank: Expression | None) -> Expression:
    """The blank class, by default the last one."""
    return x.size(2) - 1 if blank is None else blank.as_type("i64").reshape()


@decomposes(CTCLoss4)
def ctc_loss(
    op: CTCLoss4,
    logits: Expression,
    steps: Expression,
    labels: Expression,
    counts: Expression,
    blank: Expression | None = None,
) -> Expression:
    """A Loop over the steps, which adds up the probabilities of all paths in logarithms"""
    element_type, none = logits.element_type, _blank(logits, blank)
    steps, labels, counts = (value.as_type("i64") for value in (steps, labels, counts))
    targets, count = _targets(op, labels, counts, none)
    # The states of a path are blank, first label, blank, second label ... blank.
    batch, length = targets.sizes()
    pairs = concat([none.broadcast(batch, length, 1), targets.unsqueeze(2)], 2).reshape(batch, length * 2)
    states = concat([pairs, none.broadcast(batch, 1)], 1)
    reached = _reached(op, logits.at_least_float32(), steps, states)
    at_blank = reached.gather_elements(count * 2, 1)
    at_label = reached.gather_elements((count * 2 - 1).maximum(0), 1)
    total = _log_sum([at_blank, where(count > 0, at_label, -np.inf)])
    return (-total).squeeze(1).as_type(element_type)


def _targets(op: CTCLoss4, labels: Expression, counts: Expression, blank: Expression) -> tuple[Expression, Expression]:
    """The labels ``[n, t]`` that paths spell, with blanks behind them, and their number ``[n, 1]``."""
    places = positions(labels.size(1))
    inside = places < counts.unsqueeze(1)
    if op.unique:
        same = labels.unsqueeze(2).equal(labels.unsqueeze(1))
        repeats = same & (places < places.unsqueeze(1))
        inside = inside & repeats.as_type("i64").sum(2).equal(0)
    elif op.preprocess_collapse_repeated:
        inside = inside & (places.equal(0) | ~labels.equal(_shift(labels, 1, -1)))
    return _to_front(labels, inside, blank)


def _reached(op: CTCLoss4, logits: Expression, steps: Expression, states: Expression) -> Expression:
    """Logarithms of the probabilities of each state ``[n, s]`` after the last step."""
    least, zero = logits.of(-np.inf), logits.of(0)
    places = positions(states.size(1))
    is_label = (places % 2).equal(1)
    skips = is_label & (places > 1)
    if op.ctc_merge_repeated:
        skips = skips & ~states.equal(_shift(states, 2, -1))
    skipping, staying = where(skips, zero, least), where(is_label, least, zero)
    start = where(places.equal(0), zero, least).broadcast(*states.sizes())
    scores = logits.emit(LogSoftmax5(axis=-1))

    def step(number: Expression, before: Expression) -> list[Expression]:
        paths = [
            before if op.ctc_merge_repeated else before + staying,
            _shift(before, 1, -np.inf),
            _shift(before, 2, -np.inf) + skipping,
        ]
        onward = _log_sum(paths) + scores.gather(number, 1).gather_elements(states, 1)
        return [where(number < steps.unsqueeze(1), onward, before)]

    return loop(logits.size(1), [start], step)[0]


def _log_sum(logarithms: list[Expression]) -> Expression:
    """The logarithm of the sum of numbers given by their logarithms; minus infinity is that of 0."""
    most = functools.reduce(Expression.maximum, logarithms)
    base = where(most.equal(-np.inf), most.of(0), most)
    return functools.reduce(Expression.__add__, [(logarithm - base).exp() for logarithm in logarithms]).log() + base
