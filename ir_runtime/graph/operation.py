"""The base class of every IR operation, the types of its inputs and outputs, and the lookup by type and opset.

A class is one revision of one operation. It declares its attributes with the functions of
:mod:`.attributes`, which can be imported from here, too; a wrong or missing attribute fails at construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..errors import AttributeValueError, InferenceError, ModelError, UnsupportedError
from ..lazy import FAMILIES, import_modules_of
from ..records import record
from . import element_types
from .attributes import (
    Attribute,
    argument,
    boolean,
    enum,
    format_attribute,
    integer,
    integers,
    own_attributes,
    partial_shape,
    real,
    reals,
    strings,
    text,
    type_of_elements,
)
from .element_types import Array, ElementType
from .shapes import INFINITY, PartialShape
from .tensor import Tensor
from .value_ranges import Bounds, Range, corners, hull

Kind = TypeVar("Kind", bound="Operation")
ClassOf = type[Kind]

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform

    from .model import Model, SubGraph
else:

    def dataclass_transform(**_):
        """``typing.dataclass_transform`` exists from Python 3.11 on; only type checkers use it."""
        return lambda cls: cls


__all__ = [
    "BOUNDS_LIMIT",
    "FOLD_LIMIT",
    "Attribute",
    "Operation",
    "Required",
    "Runner",
    "TensorType",
    "all_operations",
    "argument",
    "boolean",
    "enum",
    "find_operation",
    "integer",
    "integers",
    "operation",
    "partial_shape",
    "real",
    "reals",
    "required_indices",
    "text",
    "strings",
    "type_of_elements",
]

Runner = Callable[[Sequence[Array]], list[Array]]
"""Runs a body: takes arrays for its parameters, returns arrays of its results."""


@record
class TensorType:
    """The type of a value before execution: element type, partial shape, and its values where they are known.

    ``element_type`` and ``shape`` may be dynamic. ``tensor`` holds the values where they are constant; ``bounds`` the
    bounds of the values of a small integer tensor, such as one made from shapes.
    """

    element_type: ElementType
    shape: PartialShape
    tensor: Tensor | None = None
    bounds: Bounds | None = None

    def __init__(
        self, element_type: ElementType, shape: PartialShape, tensor: Tensor | None = None, bounds: Bounds | None = None
    ) -> None:
        values = self.__dict__
        values["element_type"], values["shape"], values["tensor"], values["bounds"] = (
            element_type,
            shape,
            tensor,
            bounds,
        )

    def agrees_with(self, other: TensorType) -> bool:
        """True if a value can have both types: of what is known of them, nothing differs."""
        types = (self.element_type, other.element_type)
        return (types[0] is types[1] or any(t.is_dynamic for t in types)) and self.shape.merge(other.shape) is not None

    @property
    def element_count(self) -> int:
        """The number of elements; 0 where the shape is dynamic."""
        return self.shape.element_count().value if self.shape.is_static else 0

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
        if self.element_type is element_types.u64 and values.size and values.max() > INFINITY:
            return None
        exact = values.astype(np.int64)
        return Bounds(exact, exact)

    def __str__(self) -> str:
        return f"{self.element_type}{self.shape}"


@record
class Required:
    """The requirement that the elements of an input are whole numbers from ``low`` to ``high``, both included.

    With ``distinct`` no number occurs twice, with ``rising`` they rise from ``low`` to ``high``; ``total`` is the sum
    of all elements, None for any.
    """

    low: int
    high: int
    distinct: bool = False
    total: int | None = None
    rising: bool = False


def required_indices(data: PartialShape, axes: Sequence[int]) -> Required | None:
    """Return what is required of indices of ``data`` along each of the ``axes``; None where nothing is known."""
    if not data.has_rank:
        return None
    lengths = [data[axis].value for axis in axes if axis < data.rank and data[axis].is_static and data[axis].value > 0]
    return Required(0, min(lengths) - 1) if lengths else None


FOLD_LIMIT = 1 << 16
"""A constant result of at most this many bytes is folded, however small its inputs are."""
BOUNDS_LIMIT = 64
"""Bounds are inferred for tensors of at most this many elements."""


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    eq_default=False,
    field_specifiers=(
        integer,
        integers,
        real,
        reals,
        boolean,
        text,
        strings,
        enum,
        type_of_elements,
        partial_shape,
        argument,
    ),
)
class Operation:
    """One IR operation of one opset.

    Subclasses declare their attributes, which become keyword arguments of the constructor, and give
    ``infer`` (types and shapes) and ``evaluate`` (the NumPy kernel, which neither writes into its
    inputs nor keeps them; it may return views of them). Instances do not change once made.
    """

    type: ClassVar[str] = ""
    opset: ClassVar[int] = 0
    inputs: ClassVar[tuple[int, int | None]] = (0, 0)
    """The least and the greatest number of inputs; None where there is no greatest."""
    role: ClassVar[str] = ""
    """Its place in a model: ``parameter``, ``constant``, ``result``, ``sink``, or empty."""
    deterministic: ClassVar[bool] = True
    """False where two evaluations may differ: such an operation is never folded."""
    movement: ClassVar[bool] = False
    """True where each element of the outputs is an element of the first input, unchanged.

    Attributes, shapes and the other inputs decide which one, never the elements themselves.
    """
    elementwise: ClassVar[bool] = False
    """True where an output element depends only on the input elements at its place, after broadcasting."""
    commutative: ClassVar[bool] = False
    """True where the two inputs may change places."""
    monotone: ClassVar[bool] = False
    """True for an elementwise operation that is monotonic in each input, whatever the others are.

    So it is least and greatest where the inputs are at an end of their range, or at one of the turning points.
    """
    turning_points: ClassVar[tuple[float, ...]] = ()
    """Values of the first input between which the operation is monotonic."""
    subgraph_names: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The XML names (body, port map) of each body."""

    declared: ClassVar[Mapping[str, Attribute]] = {}
    """The constructor's arguments by name, those of the base classes first."""
    _in_xml: ClassVar[tuple[Attribute, ...]] = ()
    _own: ClassVar[Mapping[str, Attribute]] = {}
    """The attributes that the class itself declares."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._own = own_attributes(cls)
        attributes: dict[str, Attribute] = {}
        for base in reversed(cls.__mro__):
            attributes.update(base.__dict__.get("_own", {}))
        cls.declared = attributes
        cls._in_xml = tuple([entry for entry in attributes.values() if entry.xml])

    def __init__(self, **attributes: Any) -> None:
        """Takes each declared attribute; raises :class:`AttributeValueError` for a wrong or missing one."""
        # Not through __setattr__, which raises.
        values = self.__dict__
        for name, attribute in self.declared.items():
            if name in attributes:
                values[name] = attribute.checked(attributes[name], self._label())
            elif attribute.is_required:
                raise AttributeValueError(f"{self._label()}: attribute '{name}' is required")
            else:
                values[name] = attribute.default
        for name in attributes:
            if name not in self.declared:
                attribute_names = ", ".join(self.declared) or "none"
                raise AttributeValueError(f"{self._label()} has no attribute '{name}'; known are: {attribute_names}")
        self.validate()

    def validate(self) -> None:
        """Check attributes against each other. Called by the constructor once all of them are set."""

    def with_attributes(self, **changed: Any) -> Self:
        """The same operation with some attributes changed."""
        return self.as_operation(type(self), **changed)

    def as_operation(self, cls: ClassOf[Kind], **changed: Any) -> Kind:
        """An operation of another class, whose attributes this one has, with some of them changed."""
        return cls(**{**{name: getattr(self, name) for name in cls.declared}, **changed})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._label()} cannot be changed: '{name}' was given when it was made")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._label()} cannot be changed: '{name}' was given when it was made")

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.declared)
        return f"{type(self).__name__}({arguments})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Some classes are made by factories: pickle finds them by their type and opset only.
        registered = _REVISIONS.get(self.type, {}).get(self.opset) is type(self)
        identity = (self.type, self.opset) if registered else type(self)
        return _unpickle, (identity, {name: getattr(self, name) for name in self.declared})

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Operation:
        """Operations do not change; their bodies may, and are copied."""
        return self.with_changed_bodies(lambda body: body.clone())

    @classmethod
    def _label(cls) -> str:
        return cls.type or cls.__name__

    def infer(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        """Types and shapes of the outputs; raises :class:`InferenceError` where the inputs contradict."""
        raise UnsupportedError(f"{self.type} has no shape inference")

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        """The outputs' values."""
        raise UnsupportedError(f"{self.type} cannot be executed")

    def execute(self, runners: Sequence[Runner], inputs: Sequence[Array]) -> Array | tuple[Array, ...]:
        """As ``evaluate``; operations with bodies get one runner for each body."""
        return self.evaluate(*inputs)

    def moved_inputs(self, count: int) -> Sequence[int]:
        """The places of the inputs, of ``count``, whose elements are those of the outputs, unchanged.

        Attributes, shapes and the other inputs decide which element comes where.
        """
        return (0,) if self.movement else ()

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """The range of an output's elements for ranges of the inputs; None where nothing follows.

        The ranges of an elementwise operation's inputs may have dimensions, which broadcast as in NumPy: then the
        result is the range of each element. Others get ranges of whole tensors. The result is that of exact
        arithmetic: the caller accounts for rounding and for integers that wrap, and has NaN apart.

        Raises ArithmeticError or ValueError where the operation is not defined for such values.
        """
        moved = self.moved_inputs(len(inputs))
        if moved:
            return hull(inputs[place] for place in moved)
        return corners(self.evaluate, inputs, self.turning_points) if self.monotone else None

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        """Return what a call requires of the elements of inputs of these types, by position; by default nothing.

        Wider values than the operation takes would be refused; narrower ones, such as indices that all count from
        the front, are as good.
        """
        return {}

    @property
    def is_pure(self) -> bool:
        """True if the inputs alone decide the outputs, and nothing else happens.

        So two such layers of equal inputs are equal, and the outputs of one whose inputs are constants are constants.
        """
        return self.deterministic and not self.role and not self.subgraphs

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        """About how many multiplications a call takes, or operations that are as costly.

        By default one for each element of the outputs. Tensors of dynamic shapes count as empty.
        """
        return float(sum(output.element_count for output in outputs))

    def infer_bounds(self, inputs: Sequence[TensorType]) -> Bounds | None:
        """Bounds of the first output's values where they follow from the inputs' shapes; None for others."""
        return None

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        """The bodies with their port maps."""
        return ()

    def with_bodies(self, bodies: Sequence[Model]) -> Operation:
        """The same operation over other bodies, with the same port maps."""
        raise UnsupportedError(f"{self.type} has no bodies")

    def with_changed_bodies(self, change: Callable[[Model], Model]) -> Operation:
        """The same operation over ``change(body)`` for each of its bodies; itself where all of them stay."""
        subgraphs = self.subgraphs
        bodies = [change(sub.body) for sub in subgraphs]
        if all(new is sub.body for new, sub in zip(bodies, subgraphs)):
            return self
        return self.with_bodies(bodies)

    def specialized(self, inputs: Sequence[TensorType]) -> Operation:
        """The same operation with bodies whose types are inferred from inputs of these types."""
        return self

    def of_type(self, tensor_type: TensorType) -> Operation:
        """For a parameter: the same with another element type and shape."""
        raise UnsupportedError(f"{self.type} is no parameter")

    @property
    def data(self) -> Tensor | None:
        """The constant's data, which is stored in the ``.bin`` file; None for every other operation."""
        return None

    def attributes(self) -> dict[str, str]:
        """The XML text of every attribute, by its XML name."""
        values = self.__dict__
        return {
            entry.xml: format_attribute(values[entry.name] if entry.name in values else getattr(self, entry.name))
            for entry in self._in_xml
        }

    @classmethod
    def xml_attributes(cls) -> list[Attribute]:
        """The attributes that are written to XML."""
        return list(cls._in_xml)

    def check_input_count(self, count: int) -> None:
        """Raises :class:`InferenceError` where the operation does not take that many inputs."""
        low, high = self.inputs
        if count < low or (high is not None and count > high):
            requirement = f"{low}" if low == high else f"{low} to {'any number' if high is None else high}"
            raise InferenceError(f"{self.type} takes {requirement} inputs, but got {count}")


T = TypeVar("T", bound=type[Operation])

OUTSIDE_OPSETS = 0
"""The opset of operations that no opset has; ``version`` is ``extension`` in the XML."""

_REVISIONS: dict[str, dict[int, type[Operation]]] = {}
_XML_NAMES: dict[str, str] = {}
_LAST_OPSET: dict[str, int] = {}


def operation(name: str, *, opset: int, last_opset: int | None = None, replace: bool = False) -> Callable[[T], T]:
    """Class decorator: registers a revision of the IR operation ``name``, introduced in ``opset``.

    ``name`` is the ``type`` in the XML. ``last_opset`` is the last opset that has the operation, where later
    opsets dropped it. Registering a revision twice is an error unless ``replace`` is set.
    """

    def register(cls: T) -> T:
        if not cls.__module__.startswith(_OWN):
            _register_all()  # users' operations come after those of the package, and may replace them
        cls.type = name
        cls.opset = opset
        revisions = _REVISIONS.setdefault(name, {})
        if opset in revisions and not replace:
            raise ModelError(f"operation {name} of opset{opset} is registered twice")
        revisions[opset] = cls
        _XML_NAMES[name.lower()] = name
        if last_opset is not None:
            _LAST_OPSET[name] = last_opset
        return cls

    return register


_OWN = "ir_runtime.operations."


def _unpickle(identity: type[Operation] | tuple[str, int], attributes: dict[str, Any]) -> Operation:
    """The operation of a class, or of a type and opset."""
    cls = find_operation(*identity) if isinstance(identity, tuple) else identity
    return cls(**attributes)


def _register_all() -> None:
    """Register all operations of the package, whichever of its modules were imported before."""
    import_modules_of(FAMILIES["operations"])


def find_operation(name: str, opset: int) -> type[Operation]:
    """The revision of ``name`` that ``opset`` selects: the newest one not above it.

    Raises :class:`UnsupportedError` where there is none.
    """
    _register_all()
    type_name = _XML_NAMES.get(name.lower())
    revisions = _REVISIONS.get(type_name or "", {})
    candidates = [version for version in revisions if version <= opset and (version or not opset)]
    if type_name is None or not candidates:
        origin = f"opset{opset}" if opset != OUTSIDE_OPSETS else "an extension"
        raise UnsupportedError(f"operation {name} of {origin} is not known")
    if opset > _LAST_OPSET.get(type_name, opset):
        raise UnsupportedError(f"operation {name} is gone since opset{_LAST_OPSET[type_name] + 1}")
    return revisions[max(candidates)]


def all_operations() -> list[type[Operation]]:
    """Every registered revision, by name and opset."""
    _register_all()
    return [_REVISIONS[n][v] for n in sorted(_REVISIONS) for v in sorted(_REVISIONS[n])]
