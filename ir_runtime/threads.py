"""True if the platform has threads: CPython compiled to WebAssembly, as in Pyodide, cannot start any."""

from __future__ import annotations

import functools
import threading


@functools.cache
def are_available() -> bool:
    """True if a thread can be started. Where not, work that threads would share is done by the caller alone."""
    try:
        thread = threading.Thread(target=int)
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True
