"""The IR's operations, one family a module.

The converter imports the families that it needs; :func:`register_all` serves look-ups of operations by name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def register_all() -> None:
    """Import every family, which registers its operations."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
