"""One thread for NumPy's own products while a plan runs.

Plans share out work themselves. The threads of OpenBLAS beside them would wait busily for the next product, on the
processors that elementwise work needs, and two callers at once would queue for them. How many there are is one
number for the whole process, so that the first plan that runs sets it, and the last puts it back. A NumPy on another
library is left as it is.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "_64", "")


def _found() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """How to read and set the number of threads."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for prefix in _PREFIXES:
                for suffix in _SUFFIXES:
                    read = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                    write = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                    if read is not None and write is not None:
                        return read, write
    return None


class SingleThreaded:
    """A context in which products take one thread; it may be entered by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1
        self._control: tuple[Callable[[], int], Callable[[int], Any]] | None = None
        self._searched = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._searched:
                self._control = _found()
                self._searched = True
            self._inside += 1
            if self._inside == 1 and self._control is not None:
                read, write = self._control
                self._before = read()
                if self._before != 1:
                    write(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._control is not None and self._before != 1:
                self._control[1](self._before)


single_threaded = SingleThreaded()
