"""Changes of a model that run one after the other, by name and in order: passes, and the rules of a target.

Each is a function that changes a model in place, bodies included, and returns how often it acted. It
registers itself with those that it must come after; nothing lists them all.
"""

from __future__ import annotations

import graphlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from converter.errors import ConversionError
from ir_runtime.graph import Model

Run = Callable[[Model], int]


@dataclass(frozen=True)
class Pass:
    """A named change of the whole model."""

    name: str
    run: Run
    after: tuple[str, ...]
    on_request: bool
    """Whether it runs only where it is asked for by name."""


class Pipeline:
    """The passes that the modules of one package register, each after those that it must come after."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._loaded = False
        self.registered: dict[str, Pass] = {}

    def register(self, name: str, *, after: Iterable[str] = (), on_request: bool = False) -> Callable[[Run], Run]:
        """Decorator: registers a pass. Its docstring says what it is for, what it matches, and what it makes of it."""

        def register(run: Run) -> Run:
            if name in self.registered:
                raise ConversionError(f"a pass called '{name}' is registered twice")
            self.registered[name] = Pass(name, run, tuple(after), on_request)
            return run

        return register

    def all(self) -> list[Pass]:
        """Every pass, each after those that it must come after; otherwise by name."""
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._loaded = True
        found = self.registered
        sorter = graphlib.TopologicalSorter({name: sorted(found[name].after) for name in sorted(found)})
        return [found[name] for name in sorter.static_order()]

    def run(self, model: Model, requested: Iterable[str] = ()) -> dict[str, int]:
        """Change ``model`` by every pass that is not on request, or is among ``requested``.

        Returns how often each acted, of those that did; raises :class:`ConversionError` for an unknown name.
        """
        passes = self.all()
        wanted = set(requested)
        unknown = wanted - self.registered.keys()
        if unknown:
            raise ConversionError(f"there is no pass called '{min(unknown)}'; there are {[one.name for one in passes]}")
        counts = {one.name: one.run(model) for one in passes if not one.on_request or one.name in wanted}
        return {name: count for name, count in counts.items() if count}


passes = Pipeline("converter.passes")
"""What every model goes through between translation and target."""
model_pass = passes.register


def run_pass(name: str, model: Model) -> int:
    """Change ``model`` by one pass alone; how often it acted."""
    passes.all()
    return passes.registered[name].run(model)
