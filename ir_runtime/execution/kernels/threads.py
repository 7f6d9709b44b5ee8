"""Work shared among threads. NumPy releases the interpreter's lock while it computes."""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from ir_runtime import threads

T = TypeVar("T")

ENOUGH = 1 << 18
"""A second thread is used from this effort on: elements times passes over them."""
_BUFFER_ELEMENTS = 512
_ALIGNMENT = 64
_PARTS_PER_THREAD = 4
"""The mean number of parts that a thread takes."""


class Workers:
    """``count`` threads, the caller's included; the others start when they are first needed.

    Several callers may share them: each also takes parts of its own work, so that none only waits for a free thread.
    """

    def __init__(self, count: int) -> None:
        self.count = count if count < 2 or threads.are_available() else 1
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def each(self, work: Callable[[Sequence[T]], Any], items: Sequence[T], effort: int) -> None:
        """Call ``work`` with parts of ``items``, on several threads where the effort is worth it.

        A thread that is free takes the next part: one that gets no processor does not delay the others.
        """
        parts = min(_PARTS_PER_THREAD * self.count, len(items))
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

        pool = self._start()
        helpers: list[Future[Any]] = [pool.submit(_quietly, take) for _ in range(min(self.count, parts) - 1)]
        try:
            take()
        finally:
            # After an error, too, all threads have to end: they write into arrays of the caller.
            left.clear()
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
        for error in errors:
            if error is not None:
                raise error

    def _start(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count - 1, "onnx2ir")
            return self._pool


def _quietly(work: Callable[[], None]) -> None:
    # NumPy's error handling and buffer size are settings of each thread.
    with np.errstate(all="ignore"), Unbuffered():
        work()


class Unbuffered:
    """A context in which NumPy computes rows of some hundred elements without copying them to its buffers.

    With its default buffers of 8192 elements, NumPy copies shorter rows that are not adjacent in memory before and
    after an operation, which then takes three times as long.
    """

    def __enter__(self) -> None:
        self._before = np.setbufsize(_BUFFER_ELEMENTS)

    def __exit__(self, *_: object) -> None:
        np.setbufsize(self._before)


def aligned_empty(shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Uninitialised memory that begins where a line of the cache does.

    Elsewhere AVX-512 reads two lines for each vector: products of few rows take 1.1 to 1.3 times as long, sums of two
    arrays up to twice as long. NumPy's own arrays begin at multiples of 16 bytes.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size > sys.maxsize - _ALIGNMENT:  # of which NumPy makes a ValueError
        raise MemoryError(f"{size} bytes are more than an array can have")
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


class _Held(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[str, Any] = {}


_HELD = _Held()


def scratch(purpose: str, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Float32 values in memory of this thread, uninitialised, valid until the next call for ``purpose``."""
    count = math.prod(shape)
    held = _HELD.buffers.get(purpose)
    if held is None or held.size < count:
        held = aligned_empty((count,))
        _HELD.buffers[purpose] = held
    return held[:count].reshape(shape)
