"""Pipelines of passes, each of which changes a model: those of the converter, and the rules of a target.

The order is a text: a list of :class:`Entry` with the reason beside each line, such as ``converter/passes/order.py``.
An entry names the operations that its pass looks for, and its module is imported when a model has one of them. A pass
changes a model in place, bodies included, and registers its function under the name of its entry.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, get_args

from ir_runtime.analysis.shared_shapes import shared_shapes
from ir_runtime.errors import InternalError, ModelError
from ir_runtime.graph import Model, Node
from ir_runtime.graph.invariants import PASSES, Stage
from ir_runtime.graph.operation import Operation, all_operations
from ir_runtime.lazy import import_modules_of
from ir_runtime.records import record

from .builder import Builder
from .checks import Checks
from .contracts import EXACT, Contract
from .matching import Match, Pattern
from .replace_layers import Edit, Replace, Replacement, edit_layers, replace_layers
from .trace import PassTrace, Trace

Run = Callable[[Model, PassTrace], int]
"""Changes a model and returns how many layers it replaced or added."""
Fuse = Callable[[Builder, Node, Match], Replacement]
"""Emits the replacement of the layers of a match."""
Release = tuple[int, int]
"""A release of OpenVINO: year and number."""
Group = Literal["cleanup", "fusion", "rounding", "storage", "target"]
"""Category of a pass: ``cleanup`` removes or joins layers, ``fusion`` replaces the layers that an exporter emits for
one operator by the layer of it, ``rounding`` computes new constants from those of the file, ``storage`` changes only
where constants are stored, ``target`` replaces what a runtime computes wrongly, slowly or not at all."""
_NOT_PLAIN = frozenset({"cleanup", "fusion"})
"""The groups that ``fuse=False`` leaves out: without them the layers of each ONNX node remain."""


def release_of(text: str) -> Release:
    """``"2024.6"`` as (2024, 6); raises :class:`ModelError` for anything else."""
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise ModelError(f"a release is written as 2024.6, but got {text!r}")
    return int(parts[0]), int(parts[1])


@record
class Entry:
    """A line in the order of a pipeline: which pass runs here, for which models, and why here.

    ``operations`` are the class names of the operations that the pass looks for, base classes included (``Binary``);
    None for a pass that runs for every model. ``contract`` says how far results may be from those before, by
    default not at all, which ``tests/converter/test_contracts.py`` holds. ``after`` names the passes that have to run
    earlier; the others may run in any order, which ``tests/fuzz/test_random_graphs.py`` tries. ``module`` is the module
    in the package of the pipeline, by default the one called like the pass.
    """

    name: str
    operations: Sequence[str] | None
    groups: Sequence[Group]
    reason: str
    contract: Contract = EXACT
    after: Sequence[str] = ()
    module: str = ""

    @property
    def fuses(self) -> bool:
        """True for a pass that ``fuse=False`` leaves out."""
        return not _NOT_PLAIN.isdisjoint(self.groups)

    def check(self, earlier: Iterable[str]) -> None:
        """Raise :class:`InternalError` unless the entry is well formed and may follow these."""
        for field in ("operations", "groups", "after"):
            if isinstance(getattr(self, field), str):
                raise InternalError(f"'{field}' of the pass '{self.name}' must be a list, but is one string")
        unknown = sorted(set(self.groups) - set(get_args(Group)))
        if unknown or not self.groups:
            raise InternalError(f"the pass '{self.name}' must be of the groups {get_args(Group)}, not {self.groups}")
        if not self.reason:
            raise InternalError(f"the pass '{self.name}' has no reason for its place in the order")
        if not isinstance(self.contract, Contract):
            raise InternalError(f"the contract of the pass '{self.name}' must be a Contract, not {self.contract!r}")
        if self.name in earlier:
            raise InternalError(f"the pass '{self.name}' is listed twice")
        for name in self.after:
            if name not in earlier:
                raise InternalError(f"the pass '{self.name}' must run after '{name}', which is not listed before it")


@record
class Pass:
    """A named change of the whole model.

    Of a target's rule ``since`` and ``until`` are the first and the last release that need it, None where there is no
    such end, and ``seen_in`` those in which a probe showed its reason.
    """

    entry: Entry
    run: Run
    since: str | None = None
    until: str | None = None
    seen_in: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.entry.name

    def holds_for(self, release: Release | None) -> bool:
        """True if a release needs the pass; None is the newest one."""
        if self.until is not None and (release is None or release > release_of(self.until)):
            return False
        return self.since is None or release is None or release >= release_of(self.since)


class Pipeline:
    """The passes of one package, in the order of a list."""

    def __init__(self, package: str | None, order: Sequence[Entry], stage: Stage = PASSES) -> None:
        """``package`` has the modules of the passes; without one they are registered by hand.

        Raises :class:`InternalError` for an order that names a pass twice, or before one that it must come after.
        """
        self._package = package
        self._stage = stage
        self._entries: dict[str, Entry] = {}
        for entry in order:
            entry.check(self._entries)
            self._entries[entry.name] = entry
        self.registered: dict[str, Pass] = {}

    def register(
        self, name: str, *, since: str | None = None, until: str | None = None, seen_in: Sequence[str] = ()
    ) -> Callable[[Run], Run]:
        """Decorator: registers a pass. The docstring: purpose, what it matches, the layers before and after.

        Raises :class:`InternalError` for a name that is not in the order, or that is registered already.
        """
        if name not in self._entries:
            raise InternalError(f"the pass '{name}' is registered, but not listed in the order of {self._package}")
        if name in self.registered:
            raise InternalError(f"a pass called '{name}' is registered twice")
        if isinstance(seen_in, str):
            raise InternalError(f"'seen_in' of the pass '{name}' must be a list, but is one string")

        def register(run: Run) -> Run:
            self.registered[name] = Pass(self._entries[name], run, since, until, seen_in)
            return run

        return register

    def replaces(
        self,
        name: str,
        *operations: type[Operation],
        since: str | None = None,
        until: str | None = None,
        seen_in: Sequence[str] = (),
    ) -> Callable[[Replace], Replace]:
        """Decorator: registers a pass that replaces single layers of the operations in its entry.

        The function emits the replacement of a layer, or returns :func:`~ir_runtime.rewriting.matching.fail` with
        the reason why it stays. A module that has a table of ``operations`` passes them here: they must be those of
        the entry.
        """
        register_run = self.register(name, since=since, until=until, seen_in=seen_in)
        entry = self._entries[name]
        if operations and {operation.__name__ for operation in operations} != set(entry.operations or ()):
            raise InternalError(f"the pass '{name}' replaces other operations than its entry in the order names")

        def register(replace: Replace) -> Replace:
            def run(model: Model, trace: PassTrace) -> int:
                return replace_layers(model, _operations_in(model, entry), replace, trace, fuses=entry.fuses)

            run.__module__, run.__doc__ = replace.__module__, replace.__doc__
            register_run(run)
            return replace

        return register

    def edits(
        self, name: str, *, since: str | None = None, until: str | None = None, seen_in: Sequence[str] = ()
    ) -> Callable[[Edit], Edit]:
        """Decorator: registers a pass that changes the graph around single layers of the operations in its entry.

        The function gets a layer and names for new ones. It returns how many changes it made, or
        :func:`~ir_runtime.rewriting.matching.fail` with the reason for none.
        """
        register_run = self.register(name, since=since, until=until, seen_in=seen_in)

        def register(edit: Edit) -> Edit:
            def run(model: Model, trace: PassTrace) -> int:
                return edit_layers(model, _operations_in(model, self._entries[name]), edit, trace)

            run.__module__, run.__doc__ = edit.__module__, edit.__doc__
            register_run(run)
            return edit

        return register

    def fuses(self, name: str, pattern: Pattern) -> Callable[[Fuse], Fuse]:
        """Decorator: registers a pass that replaces the layers of a pattern, whose inner values nothing else reads.

        The function gets the match as well, and is otherwise one for :meth:`replaces`.
        """

        def register(fuse: Fuse) -> Fuse:
            def replace(builder: Builder, node: Node) -> Replacement:
                match = pattern.find(node.outputs[0])
                match.check_private()
                return fuse(builder, node, match)

            replace.__module__, replace.__doc__ = fuse.__module__, fuse.__doc__
            self.replaces(name)(replace)
            return fuse

        return register

    def all(self) -> list[Pass]:
        """Every pass in order. Imports the whole package, and checks the order against it."""
        if self._package is not None:
            import_modules_of(self._package)
        class_names = {cls.__name__ for operation in all_operations() for cls in operation.__mro__}
        for entry in self._entries.values():
            for name in set(entry.operations or ()) - class_names:
                raise InternalError(f"the pass '{entry.name}' looks for '{name}', but no operation is called so")
        return [self._load(entry) for entry in self._entries.values()]

    def run(
        self,
        model: Model,
        order: Sequence[Pass] | None = None,
        *,
        release: Release | None = None,
        fuse: bool = True,
        exact: bool = False,
        skip: Collection[str] = (),
        trace: Trace | None = None,
    ) -> dict[str, int]:
        """Change ``model`` by the passes that ``release`` needs; how many layers each changed, of those that did.

        ``order`` names the passes to run instead. Without ``fuse`` the groups ``cleanup`` and ``fusion`` are left out,
        with ``exact`` the group ``rounding``, and the passes that ``skip`` names. ``trace`` collects what they did.
        Whatever a pass replaces, each Result keeps a tensor of its own with its names. After every pass the model is
        checked. Raises :class:`ir_runtime.InternalError`, which names the pass, where an invariant is broken.
        """
        counts: dict[str, int] = {}
        checks = Checks(model, self._stage)
        trace = Trace() if trace is None else trace
        with shared_shapes():
            classes = _classes_in(model).keys()
            for entry in self._needed(fuse, exact, skip) if order is None else [step.entry for step in order]:
                if entry.operations is not None and classes.isdisjoint(entry.operations):
                    continue
                step = self._load(entry)
                if order is None and not step.holds_for(release):
                    continue
                count = checks.run(entry.name, partial(step.run, model, trace.of(entry.name)), bool)
                if count:
                    counts[entry.name] = count
                    classes = _classes_in(model).keys()
        return counts

    @property
    def contracts(self) -> dict[str, Contract]:
        """The contract of each pass by its name, none of which is imported."""
        return {entry.name: entry.contract for entry in self._entries.values()}

    @property
    def optional(self) -> list[str]:
        """The names of the passes that ``fuse=False`` leaves out, all of which a model can do without."""
        return [entry.name for entry in self._entries.values() if entry.fuses]

    def _needed(self, fuse: bool, exact: bool, skip: Collection[str]) -> Iterator[Entry]:
        for entry in self._entries.values():
            if (fuse or not entry.fuses) and not (exact and "rounding" in entry.groups) and entry.name not in skip:
                yield entry

    def _load(self, entry: Entry) -> Pass:
        module = f"{self._package}.{entry.module or entry.name}"
        if entry.name not in self.registered and self._package is not None:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        if entry.name not in self.registered:
            raise InternalError(f"the order lists the pass '{entry.name}', but {module} registers none of this name")
        return self.registered[entry.name]


def _operations_in(model: Model, entry: Entry) -> tuple[type[Operation], ...]:
    """The operations of an entry of which the model has layers."""
    classes = _classes_in(model)
    return tuple(classes[name] for name in entry.operations or () if name in classes)


def _classes_in(model: Model) -> Mapping[str, type[Operation]]:
    """The operations of a model and their base classes by name, bodies included."""
    operations = {operation for part in model.parts() for operation in part.operations}
    return {cls.__name__: cls for operation in operations for cls in operation.__mro__ if issubclass(cls, Operation)}
