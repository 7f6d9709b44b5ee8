"""All rows, by the names of their families."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import tests.rows
from tests.rows.row import Row, named


def families() -> list[str]:
    """Return the modules that have rows, by their names below ``tests.rows``."""
    found = pkgutil.walk_packages(tests.rows.__path__, "tests.rows.")
    return [
        module.name.removeprefix("tests.rows.") for module in found if not module.ispkg and module.name.count(".") > 2
    ]


@functools.cache
def table() -> list[Row]:
    """Return the rows of all families under their full names."""
    return [
        row
        for family in families()
        for row in named(family.replace(".", "/"), importlib.import_module(f"tests.rows.{family}").ROWS)
    ]
