"""Translators of ONNX operators: a package a domain, a module a family.

A model needs a few of the families, and importing all takes longer than converting many a model. Which ones it needs
is found in their sources: a family spells the names of its operators in double quotes, where it registers them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

from converter.translation.registry import onnx_op

__all__ = ["onnx_op"]

_QUOTED = re.compile(rb'"([A-Za-z]\w*)"')


@functools.cache
def register_all() -> None:
    """Import every family, which registers its operators."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)


def register(op_type: str) -> None:
    """Import the families that speak of an operator, in whatever domain; all of them where none does."""
    name = op_type.encode()
    found = [module for module, words in words_of_modules().items() if name in words]
    for module in found:
        importlib.import_module(module)
    if not found:
        register_all()


@functools.cache
def words_of_modules() -> Mapping[str, frozenset[bytes]]:
    """What each family has in double quotes; nothing where the sources cannot be read."""
    root = Path(__file__).parent
    found = {}
    try:
        for path in sorted(root.glob("*/*.py")):
            words = frozenset(_QUOTED.findall(path.read_bytes()))
            found[f"{__name__}.{path.parent.name}.{path.stem}"] = words
    except OSError:
        return {}
    return found
