"""Choose the rows of a test that run without ``--full``: the fewest in which each value of each parameter occurs.

A value is a parameter's value itself, and what it consists of: the fields of a data class, the entries of a mapping,
the element type and the rank of an array, the ranks of all of them, the words of a row's name. A row that is a single
object (an operator with its attributes, a call of an operation) is thus chosen for an operator, an attribute or a type
that no other chosen row has.

Processor time bounds what a test may take: :data:`SHARE` of the time of all of its rows, but at least :data:`LEAST` and
at most :data:`MOST` seconds. Rows with the most values that have not occurred come first, so that a bound leaves out
the fewest values; it leaves out no refusal. Tests with rows of more than :data:`LONG` seconds run with ``--full`` alone, and so do those whose
first row makes what the others share in more than twice that. ``tests/row_seconds.json`` has the time of a row where
it differs much from :data:`USUAL`, and what the first one takes beside that; ``pytest --full --measure`` renews it.
"""

from __future__ import annotations

import enum
import heapq
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LEAST, SHARE, MOST = 0.2, 0.02, 2.0
"""Minimum seconds of a test, share of the time of all of its rows, maximum seconds."""
LONG = 0.6
"""Seconds of a row above which a test runs with ``--full`` alone."""
USUAL = (0.04, 0.0)
"""Seconds of a row, and of the first one beside that, of a test that ``row_seconds.json`` does not have."""
OVERHEAD = 0.003
"""Seconds that pytest takes for a row."""
DEPTH = 3
"""Maximum depth of nested values whose parts are compared."""

FILE = Path(__file__).with_name("row_seconds.json")

Value = Hashable
_WORDS = re.compile(r"[^\W_]+")


def choose(rows: Sequence[pytest.Item], seconds: tuple[float, float]) -> list[pytest.Item]:
    """Return the rows of one test that run without ``--full``; ``seconds`` is as :data:`USUAL`."""
    each, first = seconds
    if each > LONG or first > 2 * LONG:
        return []
    if len(rows) == 1:
        return list(rows)
    each += OVERHEAD
    budget = min(MOST, max(LEAST, SHARE * each * len(rows)))
    limit = len(rows) if rows[0].get_closest_marker("every_value") else max(1, int(budget / each))
    names = [row.nodeid for row in rows]
    chosen = cover([values_of(row) for row in rows], names, limit)
    refusals = [refusals_of(row) for row in rows]
    shown = set[Value]().union(*(refusals[index] for index in chosen))
    chosen += cover([refusal - shown for refusal in refusals], names, len(rows))
    return [rows[index] for index in sorted(chosen)]


def cover(values: Sequence[set[Value]], names: Sequence[str], most: int) -> list[int]:
    """Return the indices of at most ``most`` rows, in their order, in which as many of the values occur as possible.

    Greedy: the row with the most values that have not occurred is next. Among equal rows the checksums of their names
    decide, not the order, as the first seed or shape is often the plainest.
    """
    missing = set[Value]().union(*values)
    order = [zlib.crc32(name.encode()) for name in names]
    heap = [(-len(of_row), order[index], index) for index, of_row in enumerate(values)]
    heapq.heapify(heap)
    result: list[int] = []
    while missing and len(result) < most:
        _, _, index = heapq.heappop(heap)
        gain = len(values[index] & missing)
        if heap and (-gain, order[index], index) > heap[0]:  # its gain has fallen below that of another row
            heapq.heappush(heap, (-gain, order[index], index))
            continue
        missing -= values[index]
        result.append(index)
    return sorted(result)


def group_of(item: pytest.Item) -> str:
    """Return the name under which rows are chosen together: the test, or the group of a row in ``tests/rows``."""
    row = getattr(item, "callspec", None) and item.callspec.params.get("row")  # type: ignore[attr-defined]
    group = getattr(row, "group", "")
    return group if "/" in group else item.nodeid.partition("[")[0]


def refusals_of(item: pytest.Item) -> set[Value]:
    """Return what a row of ``tests/rows`` shows that does not happen: the error, or the layer that an idiom is not."""
    row = getattr(item, "callspec", None) and item.callspec.params.get("row")  # type: ignore[attr-defined]
    refusal = getattr(row, "refused", "") or getattr(row, "absent", "")
    return {(row.op_type, refusal)} if refusal else set()


class Measurement:
    """Plug-in that measures the processor time of each row, of the processes that it starts as well.

    Other programs on the machine do not change it. The slowest row of a test is left out of the mean, and what it takes
    beyond that counts as the first row's: it imports or makes what the others share, unless it ran a batch of rows of
    other tests. Tests of a single row that is not long, and those whose rows are about as slow as usual, need no line.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.batched: dict[str, bool] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_START] = _processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            item.user_properties.append(("seconds", _processor_seconds() - item.stash[_START]))
            item.user_properties.append(("group", group_of(item)))
            item.user_properties.append(("batches", item.get_closest_marker("batches") is not None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            properties = dict(report.user_properties)
            self.seconds[properties["group"]].append(properties["seconds"])
            self.batched[properties["group"]] = properties["batches"]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        seconds_by_test = row_seconds()
        for name, rows in self.seconds.items():
            seconds_by_test.pop(name, None)
            mean = (sum(rows) - max(rows)) / (len(rows) - 1) if len(rows) > 1 else rows[0]
            usual, first = USUAL[0], 0.0 if self.batched[name] else max(rows) - mean
            is_slow = mean > (1.5 * usual if len(rows) > 1 else LONG) or first > LONG
            if is_slow or (mean < usual / 2 and len(rows) > LEAST / usual):
                seconds_by_test[name] = (max(0.002, round(mean, 3)), round(first, 3))
        lines = [f" {json.dumps(name)}: {json.dumps(seconds)}" for name, seconds in sorted(seconds_by_test.items())]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


_START = pytest.StashKey[float]()


def _processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def row_seconds() -> dict[str, tuple[float, float]]:
    """Return the seconds of a row, and of the first one beside that, by the name of its test, of unusual tests."""
    return {name: (float(each), float(first)) for name, (each, first) in json.loads(FILE.read_text()).items()}


def values_of(row: pytest.Item) -> set[Value]:
    """Return the values that occur in a row: each parameter's, their parts, and the words of the row's name."""
    spec = getattr(row, "callspec", None)
    if spec is None:
        return set()
    found: set[Value] = {*_WORDS.findall(spec.id)}
    for name, value in spec.params.items():
        found.add((name, id(value)))
        found.update(parts(value) if len(spec.params) == 1 else [(name, part) for part in parts(value)])
    return found


_parts_by_id: dict[tuple[int, int], tuple[Any, list[Value]]] = {}
"""Objects and their parts by ``id`` and depth, as rows share objects. A reference keeps the id from being reused."""


def parts(value: Any, depth: int = DEPTH) -> list[Value]:
    """Return what a value consists of, as things that can be compared across rows; that of objects is computed once."""
    if value is None or isinstance(value, (bool, int, float, complex, bytes, enum.Enum)):
        return [repr(value)]
    if isinstance(value, str):
        return [value, *_WORDS.findall(value)] if len(value) < 200 else ["long text"]
    if isinstance(value, type) or callable(value):
        return [getattr(value, "__qualname__", type(value).__name__)]
    known = _parts_by_id.get((id(value), depth))
    if known is None:
        known = _parts_by_id[id(value), depth] = value, _parts_of(value, depth)
    return known[1]


def _parts_of(value: Any, depth: int) -> list[Value]:
    found: list[Value] = []
    if isinstance(value, (np.ndarray, np.generic)):
        return [f"{value.dtype}", f"rank {value.ndim}", *(["empty"] if value.size == 0 else [])]
    if isinstance(value, np.dtype):
        return [f"{value}"]
    if depth == 0:
        return [type(value).__name__]
    if isinstance(value, Mapping):
        ranks = tuple(item.ndim for item in value.values() if isinstance(item, np.ndarray))
        found += [len(value), *((ranks, number) for number in range(3))]  # they decide most: each counts as three
        for key, item in value.items():
            found += [(f"{key}", part) for part in parts(item, depth - 1)]
    elif isinstance(value, (tuple, list, set, frozenset)):
        found.append(len(value))
        for item in value:
            found += parts(item, depth - 1)
    else:
        found.append(type(value).__name__)
        for name in getattr(value, "__dataclass_fields__", ()):
            found += [(name, part) for part in parts(getattr(value, name), depth - 1)]
    return found
