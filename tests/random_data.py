"""Random numbers that each test has to itself.

A generator that a whole file draws from would give a test other numbers when it runs alone, in another
order or in another process. Those made here begin anew with each test, from its name.
"""

from __future__ import annotations

import zlib
from typing import Any, cast

import numpy as np

_running: str | None = None
"""The test that runs; None while files are imported."""


def begin(test: str) -> None:
    """From now on ``test``, of which this is the full name, draws its numbers. ``conftest.py`` calls it."""
    global _running
    _running = test


class _OfEachTest:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._owner: str | None = None
        self._generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        if self._owner != _running:
            self._owner = _running
            own = [] if _running is None else [zlib.crc32(_running.encode())]
            self._generator = np.random.default_rng([self._seed, *own])
        return getattr(self._generator, name)


def generator(seed: int) -> np.random.Generator:
    """What is drawn from it while a file is imported follows from the file alone, then from the test alone."""
    return cast(np.random.Generator, _OfEachTest(seed))
