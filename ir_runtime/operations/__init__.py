"""The IR's operations, one family a module.

Who converts imports the families that it needs; :func:`register_all` is for those who look operations up by name.
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
