"""Imports the modules that translate an operator.

Importing a module registers its translators (see :mod:`.registry`). The index names the modules of an operator. Where
they have no translator for a node, the registry imports all modules: a new one works before the index is written anew.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ir_runtime.lazy import import_modules_of

PACKAGE = "converter.from_onnx.operators"
INDEX = Path(__file__).parent.parent / "operators" / "index.json"
"""Domain -> operator -> its modules, without the package's name."""


@functools.cache
def index() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The index; empty where the file cannot be read."""
    try:
        read: dict[str, dict[str, list[str]]] = json.loads(INDEX.read_text())
    except OSError:
        return {}
    return read


def import_families(op_type: str, domain: str) -> None:
    """Import the modules that the index names for an operator."""
    for module in _modules(op_type, domain):
        importlib.import_module(f"{PACKAGE}.{module}")


def import_families_of_any_domain(op_type: str) -> None:
    """Import the modules of all operators of a name; all modules where the index has no such operator."""
    domains = [domain for domain in index() if _modules(op_type, domain)]
    for domain in domains:
        import_families(op_type, domain)
    if not domains:
        import_all_families()


def is_imported(op_type: str, domain: str) -> bool:
    """True if one of the operator's modules has been imported, or is being imported."""
    return any(f"{PACKAGE}.{module}" in sys.modules for module in _modules(op_type, domain))


def _modules(op_type: str, domain: str) -> Sequence[str]:
    return index().get(domain, {}).get(op_type, ())


def import_all_families() -> None:
    """Import every module of the package."""
    import_modules_of(PACKAGE)
