"""The constants of the source model from which a tensor was computed, and by which operations.

A tensor that was read from a file has the name of its constant. What folding, a pass or compression computes from
tensors refers to theirs; the references are only resolved when a record is written. Nothing here holds data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from ..records import record


@record
class Computed:
    """The provenance of a tensor that was computed from other tensors."""

    steps: tuple[str, ...]
    """The types of the operations that were folded (``Transpose``), and words for what passes did (``scaled``)."""
    sources: tuple[Provenance, ...]
    """The sources of the tensors that it was computed from: the names of constants, or what computed them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the constants among ``sources``; of a resolved provenance these are all."""
        return tuple(source for source in self.sources if isinstance(source, str))

    def resolved(self) -> Computed:
        """Return all steps and all names of constants, each once, in the order of the computation."""
        steps: dict[str, None] = {}
        names: dict[str, None] = {}
        opened: set[int] = set()
        # Not recursive: constants may be computed from others in thousands of steps.
        stack: list[tuple[Provenance, bool]] = [(self, False)]
        while stack:
            provenance, is_done = stack.pop()
            if isinstance(provenance, str):
                names.setdefault(provenance)
            elif is_done:
                steps.update(dict.fromkeys(provenance.steps))
            elif id(provenance) not in opened:
                opened.add(id(provenance))
                stack.append((provenance, True))
                stack += [(source, False) for source in reversed(provenance.sources)]
        return Computed(tuple(steps), tuple(names))


Provenance = Union[str, Computed]
"""The name of the constant that a tensor is as it was read, or what it was computed from."""


def computed(step: str, sources: Iterable[Provenance | None]) -> Computed | None:
    """Return the provenance of what ``step`` computes from tensors of these; None if all of theirs are unknown."""
    constants = tuple(source for source in sources if source is not None)
    return Computed((step,), constants) if constants else None
