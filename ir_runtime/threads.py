"""Threads: availability on the platform, number of processors, and a parallel map that keeps the order."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_THREADS = 4
"""Each thread holds some of the weights that it works on: with more, memory grows faster than the speed."""
LARGE = 1 << 28
"""Minimum number of bytes of weights for which several threads share the work."""


@functools.cache
def are_available() -> bool:
    """True if a thread can be started; otherwise the caller does alone what threads would share.

    CPython compiled to WebAssembly, as in Pyodide, cannot start any.
    """
    try:
        thread = threading.Thread(target=int)
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], byte_count: int) -> Iterator[Result]:
    """Yield the results of ``function`` for all items, in their order.

    ``byte_count`` is the number of bytes that it reads for all items. From :data:`LARGE` on, threads compute several
    results at a time, as NumPy and the system release the interpreter's lock. An error is raised in place of its
    result; items that no thread has begun are then skipped.
    """
    count = min(_MAX_THREADS, processors()) if byte_count >= LARGE and are_available() else 1
    if count < 2:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # takes longer to import than small work takes

    with ThreadPoolExecutor(count, "onnx2ir") as pool:
        yield from pool.map(function, items)
