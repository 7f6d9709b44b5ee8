"""All rows and layers, by the names of their families."""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from pathlib import Path

from tests.rows.layer import Layer
from tests.rows.row import Row, named


def families() -> list[str]:
    """Return the modules that have rows, by their names below ``tests.rows``."""
    rows = Path(__file__).parent
    return sorted(".".join(path.relative_to(rows).with_suffix("").parts) for path in rows.glob("*/*.py"))


@functools.cache
def table() -> list[Row]:
    """Return the rows of all families under their full names."""
    return [
        row
        for family in families()
        if not family.startswith("layers.")
        for row in named(family.replace(".", "/"), importlib.import_module(f"tests.rows.{family}").ROWS)
    ]


@functools.cache
def layer_table() -> list[Layer]:
    """Return the layers of all families under their full names."""
    found = []
    for family in families():
        if family.startswith("layers."):
            for layer in importlib.import_module(f"tests.rows.{family}").ROWS:
                group = family.replace(".", "/")
                name = f"{group}/{layer.label}".translate(str.maketrans("[]", "<>"))
                found.append(replace(layer, name=name, group=f"{group}/{layer.op.type}"))
    return found
