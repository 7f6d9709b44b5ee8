"""Unique names for new layers."""

from __future__ import annotations

import functools
from collections.abc import Collection

from ..graph import Model, Part


class UniqueNames:
    """A generator of layer names: each differs from all earlier ones, and from those of the layers of ``of``.

    ``of`` may be names, too; a set of names gets the new ones. Those of layers are collected at the first call.
    """

    def __init__(self, of: Model | Part | Collection[str] | None = None) -> None:
        self._of = Part(of) if isinstance(of, Model) else of
        self._next: dict[str, int] = {}

    @functools.cached_property
    def _taken(self) -> set[str]:
        if isinstance(self._of, Part):
            return {node.name for node in self._of.nodes}
        return self._of if isinstance(self._of, set) else set(self._of or ())

    def __call__(self, requested: str) -> str:
        """Return ``requested``, or the first of ``{requested}_1``, ``{requested}_2`` ... that is free."""
        name, number = requested, self._next.get(requested, 0)
        while name in self._taken:
            number += 1
            name = f"{requested}_{number}"
        self._next[requested] = number
        self._taken.add(name)
        return name
