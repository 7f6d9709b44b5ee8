"""The attributes of IR operations: how each is declared, checked, read from and written to XML.

An operation's class declares ``axis: int = integer(default=1)``. The declaration is a descriptor that
knows its name; the values are in the instances. No code is generated for a class, so that hundreds of
classes cost next to nothing at import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AttributeValueError, ModelError
from . import element_types
from .shapes import PartialShape

if TYPE_CHECKING:
    from .element_types import ElementType

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()
"""The default of an attribute that has none."""


class Attribute:
    """One attribute of an operation: a descriptor. ``op.axis`` is its value, ``Class.axis`` the attribute itself."""

    __slots__ = ("_check", "default", "name", "value_type", "values", "xml")

    name: str
    """The attribute's name in Python and in the constructor."""
    xml: str
    """Its name in XML; empty where it is not written there."""

    def __init__(self, value_type: str, default: Any, values: tuple[str, ...] = (), xml: str | None = None) -> None:
        self.value_type = value_type
        self.default = default
        self.values = values
        self.name = ""
        self.xml = xml or ""
        self._check = _CHECKS[value_type]

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if self.value_type != "argument":
            self.xml = self.xml or name
        if self.default is not REQUIRED:
            self.default = self.checked(self.default, owner.__name__)

    # There is no __set__, so that a value in the instance comes first: this runs for the class only.
    def __get__(self, instance: object, owner: type | None = None) -> Attribute:
        if instance is not None:
            raise AttributeError(f"{type(instance).__name__} has not been given '{self.name}'")
        return self

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def checked(self, value: Any, operation: str) -> Any:
        """Return ``value`` converted to the attribute's type; raises :class:`AttributeValueError` where it fails."""
        try:
            return self._check(value, self)
        except (TypeError, ValueError, ModelError) as error:
            requirement = f"one of {', '.join(self.values)}" if self.values else f"of type {self.value_type}"
            raise AttributeValueError(
                f"{operation}: attribute '{self.xml or self.name}' must be {requirement}, but is {value!r}",
                value,
            ) from error

    def parse(self, text: str) -> Any:
        """Return the value of an XML string; raises :class:`ValueError` for a malformed one."""
        return _PARSERS[self.value_type](text)


def own_attributes(cls: type) -> dict[str, Attribute]:
    """Return the attributes that the class itself declares, without those of its bases, in order."""
    return {name: value for name, value in vars(cls).items() if isinstance(value, Attribute)}


# --- declarations: they return Any, so that the annotation of the attribute decides its type ---


def integer(*, default: int = REQUIRED, xml: str | None = None) -> Any:
    """An int64 attribute."""
    return Attribute("integer", default, xml=xml)


def integers(*, default: Iterable[int] = REQUIRED, xml: str | None = None) -> Any:
    """A list of int64."""
    return Attribute("integers", default, xml=xml)


def real(*, default: float = REQUIRED) -> Any:
    """A floating-point attribute."""
    return Attribute("real", default)


def reals(*, default: Iterable[float] = REQUIRED) -> Any:
    """A list of floating-point numbers."""
    return Attribute("reals", default)


def boolean(*, default: bool = REQUIRED, xml: str | None = None) -> Any:
    """``true`` or ``false``."""
    return Attribute("boolean", default, xml=xml)


def text(*, default: str = REQUIRED) -> Any:
    """Free text."""
    return Attribute("text", default)


def strings(*, default: Iterable[str] = REQUIRED) -> Any:
    """A list of strings without commas."""
    return Attribute("strings", default)


def enum(*values: str, default: str = REQUIRED) -> Any:
    """One of ``values``: upper and lower case are equal when it is read, and it is written as spelled here."""
    return Attribute("enum", default, values)


def type_of_elements(*, default: ElementType = REQUIRED) -> Any:
    """An element type."""
    return Attribute("element_type", default)


def partial_shape(*, default: PartialShape = REQUIRED) -> Any:
    """A partial shape."""
    return Attribute("partial_shape", default)


def argument(*, default: Any = REQUIRED) -> Any:
    """An argument of the constructor that is no attribute in XML. It is not checked."""
    return Attribute("argument", default)


# --- checks ---


def _integer(value: Any, attribute: Attribute) -> int:
    if isinstance(value, (bool, float, np.floating)) or not -(2**63) <= int(value) < 2**63:
        raise ValueError("not an int64")
    return int(value)


def _boolean(value: Any, attribute: Attribute) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError("not a boolean")
    return bool(value)


def _string(value: Any, attribute: Attribute) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value


def _enum(value: Any, attribute: Attribute) -> str:
    lowered = _string(value, attribute).lower()
    for candidate in attribute.values:
        if candidate.lower() == lowered:
            return candidate
    raise ValueError("not a member")


_CHECKS: Mapping[str, Callable[[Any, Attribute], Any]] = {
    "integer": _integer,
    "integers": lambda value, attribute: tuple(_integer(item, attribute) for item in value),
    "real": lambda value, attribute: float(value),
    "reals": lambda value, attribute: tuple(float(item) for item in value),
    "boolean": _boolean,
    "text": _string,
    "strings": lambda value, attribute: tuple(_string(item, attribute) for item in value),
    "enum": _enum,
    "element_type": lambda value, attribute: element_types.element_type(value),
    "partial_shape": lambda value, attribute: value if isinstance(value, PartialShape) else PartialShape(value),
    "argument": lambda value, attribute: value,
}


# --- XML strings ---


def format_attribute(value: Any) -> str:
    """Return the XML string of an attribute's value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, PartialShape):
        return value.to_text()
    if isinstance(value, tuple):
        return ", ".join(format_attribute(item) for item in value)
    if isinstance(value, float):
        return repr(value)
    return str(value)


_NUMBER = r"[+-]?\d{1,20}"
_REAL = r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)"


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_int(text: str) -> int:
    if not re.fullmatch(_NUMBER, text.strip()):
        raise ValueError(f"{text[:80]!r} is not an integer")
    return int(text)


def _parse_real(text: str) -> float:
    if not re.fullmatch(_REAL, text.strip().lower()):
        raise ValueError(f"{text[:80]!r} is not a number")
    return float(text)


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false", "1", "0"):
        raise ValueError(f"{text[:80]!r} is neither true nor false")
    return lowered in ("true", "1")


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "integer": _parse_int,
    "integers": lambda text: tuple(_parse_int(part) for part in _split(text)),
    "real": _parse_real,
    "reals": lambda text: tuple(_parse_real(part) for part in _split(text)),
    "boolean": _parse_bool,
    "text": str,
    "strings": lambda text: tuple(_split(text)),
    "enum": str,  # _enum checks the members
    "element_type": lambda text: element_types.element_type(text.lower()),
    "partial_shape": PartialShape.parse,
}
