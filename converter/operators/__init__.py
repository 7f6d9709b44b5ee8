"""Translators of ONNX operators: a package a domain, a module a family.

A model needs a few of the families, and importing all takes longer than many a conversion. ``index.json`` says
which modules register an operator; ``docs/generate.py`` derives it from the registry. Where it is not that of these
files, every family is imported, so that adding an operator needs nothing but the operator.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from converter.translation.registry import onnx_op

__all__ = ["onnx_op"]

INDEX = Path(__file__).parent / "index.json"


@functools.cache
def register_all() -> None:
    """Import every family, which registers its operators."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)


def register(domain: str, op_type: str) -> None:
    """Import the families that an operator stands in, if it stands in one."""
    index = _index()
    if index is None:
        register_all()
        return
    for module in index.get(domain, {}).get(op_type, ()):
        importlib.import_module(f"{__name__}.{module}")


@functools.cache
def _index() -> Mapping[str, Mapping[str, Sequence[str]]] | None:
    """Domain -> operator -> modules; None where the file is missing, or not that of these modules."""
    try:
        stored = json.loads(INDEX.read_text())
    except (OSError, ValueError):
        return None
    operators: dict[str, dict[str, list[str]]] = stored["operators"]
    return operators if stored["modules"] == sizes() else None


def sizes() -> dict[str, int]:
    """The size of every module's file: which ones there are, and whether they are those of the index."""
    found: dict[str, int] = {}
    pending = [("", Path(__file__).parent)]
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name, dot, suffix = entry.name.rpartition(".")
                if suffix == "py" and name != "__init__":
                    found[f"{prefix}{name}"] = entry.stat().st_size
                elif not dot and not entry.name.startswith("_") and entry.is_dir():
                    pending.append((f"{prefix}{entry.name}.", folder / entry.name))
    return found


def index_of(modules_of: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """The text of ``index.json`` for operators by domain and name."""
    operators: dict[str, dict[str, list[str]]] = {}
    for (domain, op_type), modules in sorted(modules_of.items()):
        operators.setdefault(domain, {})[op_type] = sorted(name.removeprefix(f"{__name__}.") for name in modules)
    return json.dumps({"modules": dict(sorted(sizes().items())), "operators": operators}, indent=0) + "\n"
