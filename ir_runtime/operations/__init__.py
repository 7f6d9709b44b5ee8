"""The IR's operations, one family a module.

The converter imports the families that it needs; :func:`register_all` serves look-ups of operations by name.
"""

from __future__ import annotations

from ir_runtime.lazy import import_modules_of


def register_all() -> None:
    """Import every family, which registers its operations."""
    import_modules_of(__name__)
