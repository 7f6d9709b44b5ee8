"""Imports at the time of the first use: names of a package, and all modules of a package.

The one place for both, so that a command or a script pays for the modules that it uses. Importing this module imports
nothing else of the package.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and the names of a package that imports its names when they are first used.

    ``names`` has for each module the names that it defines; a module that starts with a dot is one of the package.
    See PEP 562.
    """
    module_of = {name: module for module, defined in names.items() for name in defined}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names_of_package, sorted(module_of)


FAMILIES: dict[str, str] = {}
"""The package whose modules register what a registry below it looks up, by the name of the registry.

Whoever stands above both enters it, so that the registry does not import what stands on it.
"""


@functools.cache
def import_modules_of(package: str) -> None:
    """Import every module of a package and of the packages in it: each registers what it defines."""
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
