"""Registries of objects under keys: operations, passes, translators, exporters, decompositions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from .errors import InternalError
from .lazy import import_modules_of

K = TypeVar("K")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class Registry(Generic[K, V]):
    """Entries by key, each registered once by a module of ``package``.

    Looking one up imports all modules of the package first, if there is one. ``noun`` is what messages call an entry.
    """

    def __init__(self, noun: str, package: str = "", error: type[Exception] = InternalError) -> None:
        self._noun = noun
        self._package = package
        self._error = error
        self._entries: dict[K, V] = {}

    def add(self, key: K, entry: V, *, replace: bool = False) -> None:
        """Register an entry. Raises the registry's error for a key that has one, unless ``replace`` is set."""
        if key in self._entries and not replace:
            raise self._error(f"the {self._noun} {_name(key)} is registered twice")
        self._entries[key] = entry

    def of(self, keys: Iterable[K], *, replace: bool = False) -> Callable[[V], V]:
        """Decorator: registers a function, or another entry, under each of the keys."""

        def register(entry: V) -> V:
            for key in keys:
                self.add(key, entry, replace=replace)
            return entry

        return register

    def get(self, key: K) -> V | None:
        """Return the entry of a key; None where there is none."""
        return self.entries().get(key)

    def __getitem__(self, key: K) -> V:
        """Return the entry of a key. Raises the registry's error where there is none."""
        entry = self.get(key)
        if entry is None:
            raise self._error(f"there is no {self._noun} {_name(key)}")
        return entry

    def entries(self) -> Mapping[K, V]:
        """All entries by key."""
        if self._package:
            import_modules_of(self._package)
        return self._entries


def _name(key: object) -> str:
    return f"of {key.__name__}" if isinstance(key, type) else f"'{key}'"
