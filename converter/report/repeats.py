"""Sequences of types that come several times in a row: the blocks of a graph whose names tell of none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.records import record

_MIN_PERIOD = 4
_MAX_PERIOD = 1000
_MIN_KINDS = 3
"""A sequence with fewer different types is no block that people know."""
_MIN_COVERED = 16
"""Fewer layers in all are as easily read one by one."""


@record
class Repeat:
    """``times`` equal sequences of ``period`` tokens from ``start`` on."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.times


def repeats_in(tokens: Sequence[str], reads: Sequence[Sequence[int]]) -> list[Repeat]:
    """The runs of equal sequences in ``tokens``, in order and without overlap, the one that covers most first chosen.

    ``reads`` has for each token the places of the earlier ones that it reads. A run is cut where the fewest values
    pass from one sequence to the next.
    """
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    codes = np.array([numbers[token] for token in tokens], np.int64)
    crossing = _crossing(reads)
    repeats: list[Repeat] = []
    pending = [(0, len(tokens))]
    while pending:
        start, end = pending.pop()
        best = _best(codes[start:end])
        if best is None:
            continue
        run = _cut(Repeat(start + best.start, best.period, best.times), _more_of(best, codes[start:end]), crossing)
        repeats.append(run)
        pending += [(start, run.start), (run.end, end)]
    return sorted(repeats, key=lambda run: run.start)


def _best(codes: Array) -> Repeat | None:
    """The run that covers most tokens, where many short sequences count more than two long ones."""
    best: Repeat | None = None
    most = 0.0
    for period in range(_MIN_PERIOD, min(len(codes) // 2, _MAX_PERIOD) + 1):
        start, length = _longest_run(codes[:-period] == codes[period:])
        times = length // period + 1
        worth = times * period * math.log2(times)
        if times * period < _MIN_COVERED or worth <= most:
            continue
        if len(np.unique(codes[start : start + period])) >= _MIN_KINDS:
            best, most = Repeat(start, period, times), worth
    return best


def _more_of(run: Repeat, codes: Array) -> int:
    """Count the tokens behind the run that continue it; fewer than a period."""
    more = 0
    while run.end + more < len(codes) and codes[run.end + more] == codes[run.end + more - run.period]:
        more += 1
    return more


def _longest_run(equal: Array) -> tuple[int, int]:
    """Return the start of the longest run of true values, and its length."""
    edges = np.flatnonzero(np.concatenate(([True], ~equal, [True])))
    lengths = np.diff(edges) - 1
    at = int(lengths.argmax())
    return int(edges[at]), int(lengths[at])


def _crossing(reads: Sequence[Sequence[int]]) -> list[int]:
    """For each place how many earlier values are read from there on."""
    last = list(range(len(reads)))
    for place, sources in enumerate(reads):
        for source in sources:
            last[source] = max(last[source], place)
    steps = np.zeros(len(reads) + 2, np.int64)
    for source, reader in enumerate(last):
        steps[source + 1] += 1
        steps[reader + 1] -= 1
    return [int(count) for count in np.cumsum(steps)]


def _cut(run: Repeat, more: int, crossing: Sequence[int]) -> Repeat:
    """The run, begun where the fewest values pass; a sequence fewer is as bad as one value more."""

    def moved(offset: int) -> Repeat:
        times = run.times if offset <= more else run.times - 1
        return Repeat(run.start + offset, run.period, times)

    candidates = [moved(offset) for offset in range(run.period)]
    candidates = [repeat for repeat in candidates if repeat.times >= 2]
    return min(
        candidates, key=lambda repeat: (crossing[repeat.start + repeat.period] + run.times - repeat.times, repeat.start)
    )
