"""Passes that change a model one after the other, by name and in order: those of the converter, the rules of a target.

A pass changes a model in place, bodies included. It registers itself with the operations that it looks for and with
those that it must come after; nothing lists them all by hand. A package's ``index.json``, which ``docs/generate.py``
writes, has the module of each pass, so that a model pays only for the passes that can match.
"""

from __future__ import annotations

import contextlib
import functools
import graphlib
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from ir_runtime.boundary import described
from ir_runtime.errors import AttributeValueError, InferenceError, InternalError, ModelError
from ir_runtime.graph.invariants import Promise, check
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import register_all
from ir_runtime.records import record

from .output_tensors import give_own_tensors, promised_names
from .replace_layers import Replace, replace_layers
from .shared_shapes import shared_shapes
from .trace import PassTrace, Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

Run = Callable[[Model, PassTrace], int]
"""Changes a model and returns how many layers it replaced or added."""
Release = tuple[int, int]
"""A release of OpenVINO: year and number."""
_INDEX = "index.json"
_INDEXED = ("after", "since", "until", "fuses", "rounds")
"""The fields of an entry that the index stores beside its types."""


def release_of(text: str) -> Release:
    """``"2024.6"`` as (2024, 6); raises :class:`ModelError` for anything else."""
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise ModelError(f"a release is written as 2024.6, but got {text!r}")
    return int(parts[0]), int(parts[1])


class Conditions(TypedDict, total=False):
    """When a pass runs, as it is registered; what :class:`Entry` holds of it."""

    after: Iterable[str]
    since: str | None
    until: str | None
    seen_in: Iterable[str]
    fuses: bool
    rounds: bool


@record
class Entry:
    """A pass that need not be loaded, and when it runs.

    Of a target's rule ``since`` and ``until`` are the first and the last release that need it, None where there is no
    such end, and ``seen_in`` those in which its reason was seen, which the index leaves out. With ``fuses`` it puts
    one layer in the place of several that mean the same, which who wants the plain translation leaves out. One that
    ``rounds`` computes constants from others, such as scaled weights, which who wants those of the file leaves out.
    """

    name: str
    module: str
    types: frozenset[str] | None
    """The types of the layers that it looks for; None where it looks at every model."""
    after: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    seen_in: tuple[str, ...] = ()
    fuses: bool = False
    rounds: bool = False

    def holds_for(self, release: Release | None) -> bool:
        """Whether a release needs the pass; None is the newest one."""
        if self.until is not None and (release is None or release > release_of(self.until)):
            return False
        return self.since is None or release is None or release >= release_of(self.since)

    def row(self) -> dict[str, object]:
        """What the index stores of it below its name."""
        types = None if self.types is None else sorted(self.types)
        return {"types": types} | {name: getattr(self, name) for name in _INDEXED} | {"after": sorted(self.after)}

    @classmethod
    def of(cls, name: str, module: str, types: Iterable[str] | None, conditions: Mapping[str, Any]) -> Entry:
        """The entry of a pass with these conditions, as they are registered or stored in the index."""
        found = None if types is None else frozenset(types)
        lists = {list_name: tuple(conditions.get(list_name, ())) for list_name in ("after", "seen_in")}
        return cls(name, module, found, **{**conditions, **lists})


@record
class Pass:
    """A named change of the whole model."""

    name: str
    run: Run
    operations: tuple[type[Operation], ...] | None
    """The operations that it looks for; None where it looks at every model."""
    conditions: Conditions

    @property
    def entry(self) -> Entry:
        """When it runs: where the model has a type of its operations, of all that are registered by now."""
        types = None if self.operations is None else _types(self.operations)
        return Entry.of(self.name, self.run.__module__, types, dict(self.conditions))


class Pipeline:
    """The passes that the modules of one package register, each after those that it must come after."""

    is_thorough: ClassVar[bool] = False
    """Whether every layer is checked after every pass, as tests do, and not inputs and outputs alone."""

    def __init__(self, package: str | None) -> None:
        """``package`` is searched for passes; without one there are those that are registered by hand."""
        self._package = package
        self.registered: dict[str, Pass] = {}

    def register(
        self, name: str, *, operations: tuple[type[Operation], ...] | None = None, **conditions: Unpack[Conditions]
    ) -> Callable[[Run], Run]:
        """Decorator: registers a pass. The docstring: purpose, what it matches, the layers before and after."""

        def register(run: Run) -> Run:
            if name in self.registered:
                raise InternalError(f"a pass called '{name}' is registered twice")
            for option in ("after", "seen_in"):
                if isinstance(conditions.get(option), str):
                    raise InternalError(f"'{option}' of the pass '{name}' must be a list, but is one string")
            self.registered[name] = Pass(name, run, operations, conditions)
            return run

        return register

    def replaces(
        self, name: str, *operations: type[Operation], **conditions: Unpack[Conditions]
    ) -> Callable[[Replace], Replace]:
        """Decorator: registers a pass that replaces single layers of ``operations``.

        The function emits the replacement of a layer, or returns :func:`~ir_runtime.rewriting.matching.fail` with
        the reason why it stays.
        """

        fuses = conditions.get("fuses", False)

        def register(replace: Replace) -> Replace:
            def run(model: Model, trace: PassTrace) -> int:
                return replace_layers(model, operations, replace, trace, fuses=fuses)

            run.__module__, run.__doc__ = replace.__module__, replace.__doc__
            self.register(name, operations=operations, **conditions)(run)
            return replace

        return register

    def all(self) -> list[Pass]:
        """Every pass, each after those that it must come after; otherwise by name. Imports the whole package."""
        for module in self._modules():
            importlib.import_module(module)
        return [self.registered[entry.name] for entry in _ordered(one.entry for one in self.registered.values())]

    def index(self) -> str:
        """The text of the package's index: for each module its passes, and what decides when they run."""
        register_all()  # a pass looks for what is derived from its operations, too
        rows: dict[str, dict[str, object]] = {module.rpartition(".")[2]: {} for module in self._modules()}
        for entry in sorted((one.entry for one in self.all()), key=lambda entry: entry.name):
            rows[entry.module.rpartition(".")[2]][entry.name] = entry.row()
        return json.dumps(rows, indent=1) + "\n"

    @property
    def index_path(self) -> Path:
        """Where :meth:`index` is stored."""
        return self._folder / _INDEX

    def run(
        self,
        model: Model,
        order: Sequence[Pass] | None = None,
        *,
        release: Release | None = None,
        fuse: bool = True,
        exact: bool = False,
        trace: Trace | None = None,
    ) -> dict[str, int]:
        """Change ``model`` by the passes that ``release`` needs; how many layers each changed, of those that did.

        ``order`` names the passes to run instead. Without ``fuse`` those that fuse are left out, with ``exact`` those
        that round. ``trace`` collects what they did. Whatever a pass replaces, each Result keeps a tensor of its own
        with its names. After every pass
        the model is checked. Raises :class:`ir_runtime.InternalError`, which names the pass, where an invariant is
        broken.
        """
        counts: dict[str, int] = {}
        promised = promised_names(model)
        promise = Promise.of(model, thorough=Pipeline.is_thorough)
        trace = Trace() if trace is None else trace
        with model.walked_once(), shared_shapes():
            types = model.types
            for entry in self._needed(release, fuse, exact) if order is None else [one.entry for one in order]:
                if entry.types is not None and not entry.types & types:
                    continue
                # A pass gets a valid model: layers that it cannot make are its own fault.
                with _blamed_on(entry.name, InferenceError, AttributeValueError):
                    count = self._loaded(entry).run(model, trace.of(entry.name))
                if not count:
                    continue
                counts[entry.name] = count
                with _blamed_on(entry.name, ModelError):
                    give_own_tensors(model, promised)
                    model.changed()
                    types = model.types
                    check(model, promise, f"the pass '{entry.name}'", thorough=Pipeline.is_thorough)
        return counts

    @functools.cached_property
    def _folder(self) -> Path:
        assert self._package is not None
        (path,) = importlib.import_module(self._package).__path__
        return Path(path)

    def _modules(self) -> list[str]:
        if self._package is None:
            return []
        return sorted(f"{self._package}.{module.name}" for module in pkgutil.iter_modules([str(self._folder)]))

    def _needed(self, release: Release | None, fuse: bool, exact: bool) -> Iterator[Entry]:
        for entry in self._entries():
            if entry.holds_for(release) and (fuse or not entry.fuses) and not (exact and entry.rounds):
                yield entry

    def _entries(self) -> Sequence[Entry]:
        """Every pass in order: those of the index, and those of modules that the index does not know."""
        indexed = self._indexed
        known = {entry.module for entry in indexed}
        registered = [one.entry for one in self.registered.values() if one.run.__module__ not in known]
        return _ordered([*indexed, *registered]) if registered else indexed

    @functools.cached_property
    def _indexed(self) -> Sequence[Entry]:
        rows: Mapping[str, Mapping[str, dict[str, Any]]] = {}
        if self._package is not None and self.index_path.exists():
            rows = json.loads(self.index_path.read_text(encoding="utf-8"))
        found = []
        for module in self._modules():
            known = rows.get(module.rpartition(".")[2])
            if known is None:
                importlib.import_module(module)  # newer than the index: it registers what it has
            else:
                found += [Entry.of(name, module, row.pop("types"), row) for name, row in known.items()]
        return _ordered(found)

    def _loaded(self, entry: Entry) -> Pass:
        if entry.name not in self.registered:
            importlib.import_module(entry.module)
        if entry.name not in self.registered:
            raise InternalError(f"{entry.module} has no pass '{entry.name}': run docs/generate.py to renew the index")
        return self.registered[entry.name]


@contextlib.contextmanager
def _blamed_on(name: str, *also: type[Exception]) -> Iterator[None]:
    """Errors of the package's own, and those of ``also``, become an :class:`InternalError` that names the pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InternalError):
            is_told = f"'{name}'" in str(error)
        else:
            is_told = isinstance(error, (MemoryError, ModelError)) and not isinstance(error, also)
        if is_told:
            raise
        raise InternalError(
            f"the pass '{name}' failed, which is a fault of this package: {described(error)}"
        ) from error


def _types(operations: Iterable[type[Operation]]) -> set[str]:
    """The types of these operations and of those derived from them."""
    found: set[str] = set()
    pending = list(operations)
    while pending:
        operation = pending.pop()
        found.add(operation.type)
        pending.extend(operation.__subclasses__())
    return found - {""}


def _ordered(entries: Iterable[Entry]) -> list[Entry]:
    """Each pass after those that it must come after; otherwise by name.

    Raises :class:`InternalError` where a pass is to come after one that there is not.
    """
    found = {entry.name: entry for entry in entries}
    for entry in found.values():
        unknown = sorted(set(entry.after) - found.keys())
        if unknown:
            raise InternalError(f"the pass '{entry.name}' is to run after '{unknown[0]}', but no pass has this name")
    sorter = graphlib.TopologicalSorter({name: sorted(found[name].after) for name in sorted(found)})
    return [found[name] for name in sorter.static_order() if name in found]
