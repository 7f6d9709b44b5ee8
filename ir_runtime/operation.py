"""The base class of every IR operation, its attributes, and the look-up by type and opset.

A class stands for one revision of one operation. Its attributes are dataclass fields that carry the
XML's name and default; a wrong or missing one fails at construction.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from . import element_types
from .element_types import Array, ElementType
from .errors import AttributeValueError, InferenceError, ModelError, UnsupportedError
from .shapes import INFINITY, Dimension, PartialShape
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Model, SubGraph

Runner = Callable[[Sequence[Array]], list[Array]]
"""Executes a body: arrays for its parameters in, arrays of its results out."""


@dataclass(frozen=True)
class Bounds:
    """What is known of a small integer tensor's values: each lies in ``[lower, upper]``."""

    lower: Array
    upper: Array

    @property
    def is_exact(self) -> bool:
        return bool((self.lower == self.upper).all())

    def dimensions(self) -> list[Dimension]:
        """The values as extents; negative ones count as unknown."""
        pairs = zip(self.lower.reshape(-1).tolist(), self.upper.reshape(-1).tolist())
        return [Dimension(low, high) if low >= 0 else Dimension() for low, high in pairs]


@dataclass(frozen=True)
class TensorType:
    """What is known about a tensor before execution.

    ``tensor`` holds the values where they are constant; ``bounds`` what is known of the values of a
    small integer tensor, such as one made from shapes.
    """

    element_type: ElementType
    shape: PartialShape
    tensor: Tensor | None = None
    bounds: Bounds | None = None

    @property
    def constant(self) -> Array | None:
        """The values, where they are known exactly."""
        if self.tensor is not None:
            return self.tensor.array()
        if self.bounds is not None and self.bounds.is_exact:
            return self.bounds.lower.astype(self.element_type.dtype)
        return None

    @property
    def known_bounds(self) -> Bounds | None:
        """Bounds of the values; those of a constant are exact."""
        if self.bounds is not None:
            return self.bounds
        if self.tensor is None or not self.element_type.is_integral or self.tensor.size > BOUNDS_LIMIT:
            return None
        values = self.tensor.array()
        if self.element_type is element_types.u64:
            values = np.minimum(values, np.uint64(INFINITY))
        exact = values.astype(np.int64)
        return Bounds(exact, exact)

    def __str__(self) -> str:
        return f"{self.element_type}{self.shape}"


BOUNDS_LIMIT = 64
"""Bounds are followed through tensors of at most this many elements."""

_REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True)
class AttributeSpec:
    """How one attribute is checked, read from and written to XML."""

    kind: str
    values: tuple[str, ...] = ()
    xml: str | None = None


def _attribute(default: Any, spec: AttributeSpec) -> Any:
    return dataclasses.field(default=default, metadata={"spec": spec})


def integer(default: Any = _REQUIRED, xml: str | None = None) -> Any:
    """An int64 attribute."""
    return _attribute(default, AttributeSpec("integer", xml=xml))


def integers(default: Any = _REQUIRED, xml: str | None = None) -> Any:
    """A list of int64."""
    return _attribute(default, AttributeSpec("integers", xml=xml))


def real(default: Any = _REQUIRED) -> Any:
    """A floating-point attribute."""
    return _attribute(default, AttributeSpec("real"))


def reals(default: Any = _REQUIRED) -> Any:
    """A list of floating-point numbers."""
    return _attribute(default, AttributeSpec("reals"))


def boolean(default: Any = _REQUIRED, xml: str | None = None) -> Any:
    """``true`` or ``false``."""
    return _attribute(default, AttributeSpec("boolean", xml=xml))


def text(default: Any = _REQUIRED) -> Any:
    """Free text."""
    return _attribute(default, AttributeSpec("text"))


def texts(default: Any = _REQUIRED) -> Any:
    """A list of words."""
    return _attribute(default, AttributeSpec("texts"))


def enum(default: Any, *values: str) -> Any:
    """One of ``values``; read in any case, written as spelled here."""
    return _attribute(default, AttributeSpec("enum", values))


def type_of_elements(default: Any = _REQUIRED) -> Any:
    """An element type."""
    return _attribute(default, AttributeSpec("element_type"))


def partial_shape(default: Any = _REQUIRED) -> Any:
    """A partial shape."""
    return _attribute(default, AttributeSpec("partial_shape"))


REQUIRED: Any = _REQUIRED
"""For :func:`enum`: there is no default."""


class Operation:
    """One IR operation of one opset.

    Every subclass is a frozen dataclass with keyword arguments, and checks its attributes when made:
    :class:`AttributeValueError` for a wrong one. Subclasses give ``infer`` (types and shapes) and
    ``evaluate`` (the NumPy kernel, which neither writes into its inputs nor keeps them; it may return
    views of them).
    """

    type: ClassVar[str] = ""
    opset: ClassVar[int] = 0
    inputs: ClassVar[tuple[int, int | None]] = (0, 0)
    """The least and the greatest number of inputs; None where there is no greatest."""
    role: ClassVar[str] = ""
    """What a model lists it under: ``parameter``, ``constant``, ``result``, ``sink``, or nothing."""
    deterministic: ClassVar[bool] = True
    """False where two evaluations may differ: such an operation is never folded."""
    movement: ClassVar[bool] = False
    """True where the outputs are a selection of the first input's values, so that bounds follow."""
    subgraph_names: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(body, port map) XML names of an operation with bodies."""

    if TYPE_CHECKING:

        def __init__(self, **attributes: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    def __post_init__(self) -> None:
        for field, spec in attribute_fields(type(self)):
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, _checked(value, spec, self.type, spec.xml or field.name))

    def infer(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        """Types and shapes of the outputs; raises :class:`InferenceError` where the inputs contradict."""
        raise UnsupportedError(f"{self.type} has no shape inference")

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        """The outputs' values."""
        raise UnsupportedError(f"{self.type} cannot be executed")

    def execute(self, runners: Sequence[Runner], inputs: Sequence[Array]) -> Array | tuple[Array, ...]:
        """``evaluate``, for operations with bodies handed one runner a body."""
        return self.evaluate(*inputs)

    def infer_bounds(self, inputs: Sequence[TensorType]) -> Bounds | None:
        """What is known of the first output's values, where it is a small integer tensor."""
        if not self.movement:
            return None
        first = inputs[0].known_bounds
        rest = [other.constant for other in inputs[1:]]
        if first is None or any(value is None for value in rest):
            return None
        lower = self.evaluate(first.lower, *rest)  # type: ignore[arg-type]
        upper = self.evaluate(first.upper, *rest)  # type: ignore[arg-type]
        if isinstance(lower, tuple) or isinstance(upper, tuple):
            return None
        return Bounds(lower, upper)

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        """The bodies with their port maps."""
        return ()

    def with_bodies(self, bodies: Sequence[Model]) -> Operation:
        """The same operation over other bodies, with the same port maps."""
        raise UnsupportedError(f"{self.type} has no bodies")

    def specialized(self, inputs: Sequence[TensorType]) -> Operation:
        """The same operation with bodies whose types are what follows from inputs of these types."""
        return self

    def of_type(self, kind: TensorType) -> Operation:
        """For a parameter: the same with another element type and shape."""
        raise UnsupportedError(f"{self.type} is no parameter")

    @property
    def data(self) -> Tensor | None:
        """The constant data that belongs into the ``.bin`` file."""
        return None

    def attributes(self) -> dict[str, str]:
        """Every attribute by its XML name, as text."""
        return {
            spec.xml or field.name: format_attribute(getattr(self, field.name))
            for field, spec in attribute_fields(type(self))
        }

    def check_input_count(self, count: int) -> None:
        low, high = self.inputs
        if count < low or (high is not None and count > high):
            wanted = f"{low}" if low == high else f"{low} to {'any number' if high is None else high}"
            raise InferenceError(f"{self.type} takes {wanted} inputs, but got {count}")


def attribute_fields(
    cls: type[Operation],
) -> list[tuple[dataclasses.Field[Any], AttributeSpec]]:
    """The fields of an operation class that are XML attributes."""
    fields = getattr(cls, "__dataclass_fields__", {}).values()
    return [(f, f.metadata["spec"]) for f in fields if "spec" in f.metadata]


def _fail(op: str, name: str, value: Any, wanted: str) -> AttributeValueError:
    return AttributeValueError(f"{op}: attribute '{name}' must be {wanted}, but is {value!r}")


def _checked(value: Any, spec: AttributeSpec, op: str, name: str) -> Any:
    try:
        return _CHECKS[spec.kind](value, spec)
    except (TypeError, ValueError, ModelError) as error:
        wanted = f"one of {', '.join(spec.values)}" if spec.values else f"of kind {spec.kind}"
        raise _fail(op, name, value, wanted) from error


def _integer(value: Any, spec: AttributeSpec) -> int:
    if isinstance(value, (bool, float, np.floating)) or not -(2**63) <= int(value) < 2**63:
        raise ValueError("not an int64")
    return int(value)


def _integers(value: Any, spec: AttributeSpec) -> tuple[int, ...]:
    return tuple(_integer(item, spec) for item in value)


def _boolean(value: Any, spec: AttributeSpec) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError("not a boolean")
    return bool(value)


def _string(value: Any, spec: AttributeSpec) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _enum(value: Any, spec: AttributeSpec) -> str:
    lowered = _string(value, spec).lower()
    for known in spec.values:
        if known.lower() == lowered:
            return known
    raise ValueError("not a member")


_CHECKS: Mapping[str, Callable[[Any, AttributeSpec], Any]] = {
    "integer": _integer,
    "integers": _integers,
    "real": lambda value, spec: float(value),
    "reals": lambda value, spec: tuple(float(item) for item in value),
    "boolean": _boolean,
    "text": _string,
    "texts": lambda value, spec: tuple(_string(item, spec) for item in value),
    "enum": _enum,
    "element_type": lambda value, spec: element_types.element_type(value),
    "partial_shape": lambda value, spec: value if isinstance(value, PartialShape) else PartialShape(value),
}


def format_attribute(value: Any) -> str:
    """The XML text of an attribute's value."""
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


def parse_attribute(text: str, spec: AttributeSpec) -> Any:
    """The value that an attribute's XML text stands for; raises :class:`ValueError`."""
    if spec.kind == "integer":
        return _parse_int(text)
    if spec.kind == "integers":
        return tuple(_parse_int(part) for part in _split(text))
    if spec.kind == "real":
        return _parse_real(text)
    if spec.kind == "reals":
        return tuple(_parse_real(part) for part in _split(text))
    if spec.kind == "boolean":
        return _parse_bool(text)
    if spec.kind == "texts":
        return tuple(_split(text))
    if spec.kind == "element_type":
        return element_types.element_type(text.lower())
    if spec.kind == "partial_shape":
        return PartialShape.parse(text)
    return text


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


T = TypeVar("T", bound=type[Operation])

_REVISIONS: dict[str, dict[int, type[Operation]]] = {}
_XML_NAMES: dict[str, str] = {}
_LAST_OPSET: dict[str, int] = {}


def operation(name: str, *, opset: int, last_opset: int | None = None, replace: bool = False) -> Callable[[T], T]:
    """Class decorator: registers a revision of the IR operation ``name``, introduced in ``opset``.

    ``name`` is the ``type`` that stands in the XML. ``last_opset`` marks an operation that later
    opsets no longer list. Registering a revision twice is an error unless ``replace`` is set.
    """

    def register(made: T) -> T:
        made.type = name
        made.opset = opset
        revisions = _REVISIONS.setdefault(name, {})
        if opset in revisions and not replace:
            raise ModelError(f"operation {name} of opset{opset} is registered twice")
        revisions[opset] = made
        _XML_NAMES[name.lower()] = name
        if last_opset is not None:
            _LAST_OPSET[name] = last_opset
        return made

    return register


def find_operation(name: str, opset: int) -> type[Operation]:
    """The revision of ``name`` that ``opset`` selects: the newest one not above it.

    Raises :class:`UnsupportedError` where there is none.
    """
    known = _XML_NAMES.get(name.lower())
    revisions = _REVISIONS.get(known or "", {})
    candidates = [version for version in revisions if version <= opset]
    if known is None or not candidates:
        raise UnsupportedError(f"operation {name} of opset{opset} is not known")
    if opset > _LAST_OPSET.get(known, opset):
        raise UnsupportedError(f"operation {name} is gone since opset{_LAST_OPSET[known] + 1}")
    return revisions[max(candidates)]


def all_operations() -> list[type[Operation]]:
    """Every registered revision, by name and opset."""
    return [_REVISIONS[n][v] for n in sorted(_REVISIONS) for v in sorted(_REVISIONS[n])]
