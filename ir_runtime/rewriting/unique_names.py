"""Names for new layers."""

from __future__ import annotations

from collections.abc import Set
from typing import cast

from ..graph.model import Model, Part


class UniqueNames:
    """Layer names of which none is given twice."""

    def __init__(self, of: Model | Part | None = None) -> None:
        self._taken: Set[str] = set()
        if isinstance(of, Model):
            self._taken = {node.name for node in of.nodes()}
        elif of is not None:
            self._taken = of.names
        self._next: dict[str, int] = {}

    def __call__(self, wanted: str) -> str:
        """``wanted``, or the first of ``wanted_1``, ``wanted_2`` ... that is free."""
        name, number = wanted, self._next.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._next[wanted] = number
        if isinstance(self._taken, frozenset):  # what many may have of a part is copied for the first new name
            self._taken = set(self._taken)
        cast("set[str]", self._taken).add(name)
        return name
