"""Names for new layers."""

from __future__ import annotations

import functools

from ..graph import Model, Part


class UniqueNames:
    """Layer names of which none is given twice: those of ``of``, which are looked up for the first name, are taken."""

    def __init__(self, of: Model | Part | None = None) -> None:
        self._of = Part(of) if isinstance(of, Model) else of
        self._next: dict[str, int] = {}

    @functools.cached_property
    def _taken(self) -> set[str]:
        return set() if self._of is None else {node.name for node in self._of.nodes}

    def __call__(self, wanted: str) -> str:
        """``wanted``, or the first of ``wanted_1``, ``wanted_2`` ... that is free."""
        name, number = wanted, self._next.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._next[wanted] = number
        self._taken.add(name)
        return name
