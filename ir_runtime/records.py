"""Frozen data classes without generated code.

The standard library writes and compiles four functions for each data class, which takes a millisecond: for some forty
classes a fifth of the time in which a small model is converted. Records share these functions; a class of which
thousands of instances are made has a constructor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform as dataclass_transform
else:

    def dataclass_transform(**_):
        """``typing.dataclass_transform`` exists from Python 3.11 on; only type checkers use it."""
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Class decorator: as ``dataclass(frozen=True)``, with the functions that the class does not define itself.

    A base class that is no record may define them, too.
    """
    own = {name for base in cls.__mro__[:-1] for name in vars(base)}
    record_class = dataclass(init=False, repr=False, eq=False)(cls)
    untyped: Any = record_class
    untyped._names = tuple(entry.name for entry in fields(untyped))
    untyped._compared = tuple(entry.name for entry in fields(untyped) if entry.compare)
    untyped._defaults = {entry.name: entry.default for entry in fields(untyped) if entry.default is not MISSING}
    untyped._factories = {
        entry.name: entry.default_factory for entry in fields(untyped) if entry.default_factory is not MISSING
    }
    for name, function in _SHARED.items():
        if name not in own:
            setattr(record_class, name, function)
    return record_class


def _init(self: Any, *values: Any, **named: Any) -> None:
    bind(self, self.__dict__, values, named)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def bind(self: Any, stored: dict[str, Any], values: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Store the arguments of a constructor, and the defaults of others, by the names of the fields."""
    if len(values) > len(self._names):
        raise TypeError(f"{type(self).__name__} takes {len(self._names)} values, but got {len(values)}")
    stored.update(zip(self._names, values))
    for name, value in named.items():
        if name in stored or name not in self._names:
            raise TypeError(f"{type(self).__name__} has no field '{name}', or it is given twice")
        stored[name] = value
    if len(stored) < len(self._names):
        for name in self._names:
            if name in stored:
                continue
            if name in self._defaults:
                stored[name] = self._defaults[name]
            elif name in self._factories:
                stored[name] = self._factories[name]()
            else:
                raise TypeError(f"{type(self).__name__} needs a value for '{name}'")


def _values(self: Any) -> tuple[Any, ...]:
    stored = self.__dict__
    return tuple([stored[name] for name in self._compared])


def _eq(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._names)})"


def _frozen(self: Any, name: str, *_: Any) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__name__} cannot be changed: '{name}' was given when it was made")


_SHARED: dict[str, Callable[..., Any]] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _frozen,
    "__delattr__": _frozen,
}
