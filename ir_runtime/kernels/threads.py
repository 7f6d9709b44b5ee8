"""Work shared out among threads. NumPy lets go of the interpreter's lock while it computes."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

ENOUGH = 1 << 18
"""Elements times passes from which on a second thread is worth waking."""
_BUFFER = 512
_PARTS = 4
"""How many parts each thread has to take on the average."""


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """``count`` threads, the caller's included; the others start when they are first needed.

    Several callers may share them: each does a part of its own work, so that none waits for a free thread alone.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def each(self, work: Callable[[Sequence[T]], Any], items: Sequence[T], effort: int) -> None:
        """``work`` on parts of ``items``, on several threads where the effort is worth it.

        Whoever is free takes the next part: a thread that the machine has no processor for holds nobody up.
        """
        parts = min(_PARTS * self.count, len(items))
        if self.count < 2 or parts < 2 or effort < ENOUGH:
            work(items)
            return
        ends = [len(items) * i // parts for i in range(parts + 1)]
        left = deque(itertools.pairwise(ends))

        def take() -> None:
            while left:
                try:
                    start, stop = left.popleft()
                except IndexError:
                    return
                work(items[start:stop])

        pool = self._started()
        helpers: list[Future[Any]] = [pool.submit(_quietly, take) for _ in range(min(self.count, parts) - 1)]
        try:
            take()
        finally:
            # Even after an error nobody may write on into arrays that the caller has given up.
            left.clear()
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
        for error in errors:
            if error is not None:
                raise error

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count - 1, "onnx2ir")
            return self._pool


def _quietly(work: Callable[[], None]) -> None:
    # What NumPy does about overflow, and its buffers, are set for each thread.
    with np.errstate(all="ignore"), Unbuffered():
        work()


class Unbuffered:
    """A context in which NumPy does not gather rows of some hundred elements in its buffers first.

    With its usual buffers of 8192 elements an operation on rows shorter than that, which do not lie one after the
    other, copies them before and after; it takes three times as long as without.
    """

    def __enter__(self) -> None:
        self._before = np.setbufsize(_BUFFER)

    def __exit__(self, *_: object) -> None:
        np.setbufsize(self._before)


class _Held(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[str, Any] = {}


_HELD = _Held()


def scratch(purpose: str, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """``count`` float32 values of this thread's own, of any content, until it asks again for the same purpose."""
    held = _HELD.buffers.get(purpose)
    if held is None or held.size < count:
        held = np.empty(count, np.float32)
        _HELD.buffers[purpose] = held
    return held[:count]
