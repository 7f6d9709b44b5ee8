"""The passes that run on a translated model, by name and in order.

A pass is a function that changes a model in place and says whether it did. It registers itself with the
passes that it must come after; nothing lists them all.
"""

from __future__ import annotations

import graphlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from converter.errors import ConversionError
from ir_runtime.graph import Model

Run = Callable[[Model], bool]


@dataclass(frozen=True)
class Pass:
    """A named change of the whole model, bodies included."""

    name: str
    run: Run
    after: tuple[str, ...]
    on_request: bool
    """Whether it runs only where it is asked for by name."""


_PASSES: dict[str, Pass] = {}


def model_pass(name: str, *, after: Iterable[str] = (), on_request: bool = False) -> Callable[[Run], Run]:
    """Decorator: registers a pass. Its docstring says what it is for, what it matches, and what it makes of it."""

    def register(run: Run) -> Run:
        if name in _PASSES:
            raise ConversionError(f"a pass called '{name}' is registered twice")
        _PASSES[name] = Pass(name, run, tuple(after), on_request)
        return run

    return register


@cache
def _load() -> None:
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def all_passes() -> list[Pass]:
    """Every pass, each after those that it must come after; otherwise by name."""
    _load()
    sorter = graphlib.TopologicalSorter({name: sorted(_PASSES[name].after) for name in sorted(_PASSES)})
    return [_PASSES[name] for name in sorter.static_order()]


def run_passes(model: Model, requested: Iterable[str] = ()) -> list[str]:
    """Change ``model`` by every pass that is not on request, or is among ``requested``.

    Returns the names of those that changed something; raises :class:`ConversionError` for an unknown name.
    """
    passes = all_passes()
    wanted = set(requested)
    unknown = wanted - {one.name for one in passes}
    if unknown:
        raise ConversionError(f"there is no pass called '{min(unknown)}'; there are {[one.name for one in passes]}")
    return [one.name for one in passes if (not one.on_request or one.name in wanted) and one.run(model)]


def run_pass(name: str, model: Model) -> bool:
    """Change ``model`` by one pass alone; whether it did."""
    _load()
    return _PASSES[name].run(model)
