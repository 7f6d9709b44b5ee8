"""What exporters spell out, one family a module: rows that ``tests/converter/test_idioms.py`` finds and runs.

A module has a dictionary ``IDIOMS`` of :class:`~.graphs.Idiom`, ``NEAR_MISSES`` of :class:`~.graphs.NearMiss`, or
both. Builders take a :class:`~.graphs.Graph` and a generator of random numbers, which chooses among the ways in which
exporters write the same, and return the name of the last tensor.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def rows(kind: str) -> dict[str, Any]:
    """The rows of this kind, of every module; a name that two modules use is an error."""
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(__path__):
        for name, row in getattr(importlib.import_module(f"{__name__}.{module.name}"), kind, {}).items():
            assert name not in found, f"two idioms are called {name!r}"
            found[name] = row
    return found
