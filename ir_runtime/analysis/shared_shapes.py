"""One :class:`~.symbolic_shapes.SymbolicShapes` for all passes over a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .symbolic_shapes import SymbolicShapes

_shared: ContextVar[list[SymbolicShapes] | None] = ContextVar("shared symbolic shapes", default=None)


@contextlib.contextmanager
def shared_shapes() -> Iterator[None]:
    """A context in which :func:`symbolic_shapes` returns one object: what it knows stays true while layers change."""
    if _shared.get() is not None:  # one around it
        yield
        return
    token = _shared.set([])
    try:
        yield
    finally:
        _shared.reset(token)


def symbolic_shapes() -> SymbolicShapes:
    """Return the symbolic shapes; within :func:`shared_shapes` with all earlier results."""
    from .symbolic_shapes import SymbolicShapes  # few passes ask

    shared = _shared.get()
    if shared is None:
        return SymbolicShapes()
    if not shared:
        shared.append(SymbolicShapes())
    return shared[0]
