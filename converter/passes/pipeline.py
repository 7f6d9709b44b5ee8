"""Changes of a model that run one after the other, by name and in order: passes, and the rules of a target.

Each is a function that changes a model in place, bodies included, and returns how often it acted. It
registers itself with those that it must come after; nothing lists them all.
"""

from __future__ import annotations

import graphlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from converter.errors import ConversionError
from ir_runtime.graph import Model
from ir_runtime.invariants import Promise, check
from ir_runtime.output_tensors import give_own_tensors, promised_names
from ir_runtime.records import record

Run = Callable[[Model], int]


@record
class Pass:
    """A named change of the whole model."""

    name: str
    run: Run
    after: tuple[str, ...]


class Pipeline:
    """The passes that the modules of one package register, each after those that it must come after."""

    is_thorough: ClassVar[bool] = False
    """Whether every layer is checked after every pass, as tests do, and not inputs and outputs alone."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._loaded = False
        self.registered: dict[str, Pass] = {}

    def register(self, name: str, *, after: Iterable[str] = ()) -> Callable[[Run], Run]:
        """Decorator: registers a pass. Its docstring says what it is for, what it matches, and what it makes of it."""

        def register(run: Run) -> Run:
            if name in self.registered:
                raise ConversionError(f"a pass called '{name}' is registered twice")
            self.registered[name] = Pass(name, run, tuple(after))
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

    def run(self, model: Model, order: Sequence[Pass] | None = None) -> dict[str, int]:
        """Change ``model`` by every pass, in ``order`` or that of :meth:`all`; how often each acted, of those that did.

        Whatever a pass replaces, each Result keeps a tensor of its own with its names. After every pass the model is
        checked. Raises :class:`ir_runtime.InternalError`, which names the pass, where an invariant is broken.
        """
        counts: dict[str, int] = {}
        promised = promised_names(model)
        promise = Promise.of(model, thorough=Pipeline.is_thorough)
        with model.walked_once():
            for one in self.all() if order is None else order:
                count = one.run(model)
                if count:
                    counts[one.name] = count
                    give_own_tensors(model, promised)
                    model.changed()
                    check(model, promise, f"the pass '{one.name}'", thorough=Pipeline.is_thorough)
        return counts


passes = Pipeline("converter.passes")
"""What every model goes through between translation and target."""
model_pass = passes.register
