"""Tests that reach what was changed: ``--record`` notes which functions each test calls, ``--changed`` reads it.

The quickest tests of each function are kept in pytest's cache, with the commit that they ran at. ``--changed`` compares
the working tree with that commit: lines that differ lie in functions, whose tests run, and those of changed test files.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("converter", "ir_runtime")
KEPT = 60
"""Tests of a function that are kept."""
SECONDS = 25.0
"""What the chosen tests may take altogether, of wall time."""
KEY = "onnx2ir/reached"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")

Reached = Mapping[str, list[tuple[int, int, list[tuple[float, str]]]]]
"""Functions of each file: their first and last lines, and tests with their seconds."""


class Recorder:
    """Plug-in that notes the functions of the packages that each test calls."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: dict[CodeType, list[tuple[float, str]]] = defaultdict(list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        called: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                called.add(frame.f_code)

        started = time.perf_counter()
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            seconds = time.perf_counter() - started
            for code in called:
                tests = self._tests[code]
                tests.append((round(seconds, 3), item.nodeid))
                if len(tests) > 2 * KEPT:
                    tests.sort()
                    del tests[KEPT:]

    def pytest_sessionfinish(self) -> None:
        functions: dict[str, list[tuple[int, int, list[tuple[float, str]]]]] = defaultdict(list)
        for code, tests in self._tests.items():
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES:
                last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
                functions[str(path.relative_to(ROOT))].append((code.co_firstlineno, last, sorted(tests)[:KEPT]))
        assert self._config.cache is not None
        self._config.cache.set(KEY, {"commit": _git("rev-parse", "HEAD").strip(), "functions": functions})


def choose(config: pytest.Config, items: Iterable[pytest.Item], default: set[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that reach changed lines, and those of ``default`` that stand in changed files.

    Raises UsageError where nothing was recorded.
    """
    recorded = config.cache.get(KEY, None) if config.cache is not None else None
    if recorded is None:
        raise pytest.UsageError("what tests reach is not known: run pytest with --record once")
    lines = changed_lines(_git("diff", "-U0", recorded["commit"], "--", *PACKAGES))
    names = reaching(recorded["functions"], lines)
    files = set(_git("diff", "--name-only", "HEAD", "--", "tests").split())
    return {item for item in items if item.nodeid in names or (item in default and item.nodeid.split("::")[0] in files)}


def changed_lines(diff: str) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of lines that a diff without context changes, by the files of its old side."""
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    path = ""
    for line in diff.splitlines():
        if line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            ranges[path].append((first, first + max(count, 1) - 1))
    return ranges


def reaching(reached: Reached, lines: Mapping[str, Iterable[tuple[int, int]]]) -> set[str]:
    """Return the quickest tests of the innermost functions around these lines, as many as :data:`SECONDS` allow."""
    queues = []
    for path, ranges in lines.items():
        for first, last in ranges:
            around = [entry for entry in reached.get(path, ()) if entry[0] <= last and entry[1] >= first]
            queues += [tests for *_, tests in sorted(around, key=lambda entry: entry[1] - entry[0])]
    chosen: set[str] = set()
    total = 0.0
    for rank in range(KEPT):  # each function's quickest test first
        for seconds, name in (tests[rank] for tests in queues if rank < len(tests)):
            if name not in chosen and total + seconds <= SECONDS:
                chosen.add(name)
                total += seconds
    return chosen


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
