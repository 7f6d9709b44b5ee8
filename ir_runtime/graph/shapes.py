"""Dimensions as intervals, partial shapes, and how shapes merge and broadcast."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Union

from ..errors import InferenceError, ModelError

INFINITY = 2**63 - 1
"""The upper bound of a dimension that has none."""


class Dimension:
    """A dimension known to lie between ``low`` and ``high``, both inclusive. Immutable."""

    __slots__ = ("high", "is_static", "low")

    def __init__(self, low: int = 0, high: int = INFINITY) -> None:
        if not 0 <= low <= high <= INFINITY:
            raise ModelError(f"a dimension cannot range from {low} to {high}")
        self.low = low
        self.high = high
        self.is_static = low == high

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dimension) and self.low == other.low and self.high == other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    @property
    def value(self) -> int:
        """The dimension; raises :class:`ModelError` where it is not known."""
        if not self.is_static:
            raise ModelError(f"the dimension {self} is not known before execution")
        return self.low

    def contains(self, dimension: int) -> bool:
        """True if the dimension may have this size."""
        return self.low <= dimension <= self.high

    def merge(self, other: Dimension) -> Dimension | None:
        """The intersection of both intervals; None where it is empty."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        # What is known of the other one beside its interval is not lost.
        if low == other.low and high == other.high:
            return other
        if low == self.low and high == self.high:
            return self
        return Dimension(low, high) if low <= high else None

    def union(self, other: Dimension) -> Dimension:
        """The smallest interval that holds both."""
        if self is other:
            return self
        return Dimension(min(self.low, other.low), max(self.high, other.high))

    def __add__(self, other: Dimension | int) -> Dimension:
        other = as_dimension(other)
        high = INFINITY if INFINITY in (self.high, other.high) else _clip(self.high + other.high)
        return Dimension(_clip(self.low + other.low), high)

    def __mul__(self, other: Dimension | int) -> Dimension:
        other = as_dimension(other)
        high = 0 if 0 in (self.high, other.high) else _clip(self.high * other.high)
        return Dimension(_clip(self.low * other.low), high)

    def __str__(self) -> str:
        if self.is_static:
            return str(self.low)
        if self.low == 0 and self.high == INFINITY:
            return "?"
        return f"{self.low or ''}..{'' if self.high == INFINITY else self.high}"

    def __repr__(self) -> str:
        return f"Dimension({self})"


class NamedDimension(Dimension):
    """A dynamic dimension with a name: all that have one name are equal, whatever their length.

    Several names stand for the sum of the dimensions that have them.
    """

    __slots__ = ("names",)

    def __init__(self, names: Sequence[str], low: int = 0, high: int = INFINITY) -> None:
        super().__init__(low, high)
        self.names = tuple(names)


def _clip(dimension: int) -> int:
    return min(dimension, INFINITY)


def quotient(product: Dimension, factor: Dimension) -> Dimension | None:
    """The dimension that times ``factor`` gives ``product``: 0 where both are 0, None where there is none."""
    if factor.high == 0:
        return Dimension(0, 0) if product.low == 0 else None
    low = min(product.low, 1) if factor.high == INFINITY else -(-product.low // factor.high)
    high = INFINITY if product.high == INFINITY else product.high // max(factor.low, 1)
    return Dimension(low, high) if low <= high else None


DYNAMIC = Dimension()
_ONE = Dimension(1, 1)

DimensionLike = Union[Dimension, int, None]


def as_dimension(dimension: DimensionLike) -> Dimension:
    """A number, ``None`` or ``-1`` (unknown), or a dimension."""
    if isinstance(dimension, Dimension):
        return dimension
    if dimension is None or dimension == -1:
        return DYNAMIC
    return _of_dimension(int(dimension))


@functools.lru_cache(1 << 12)
def _of_dimension(dimension: int) -> Dimension:
    return Dimension(dimension, dimension)


class PartialShape:
    """A shape of which the rank and any dimension may be unknown. Immutable."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Iterable[DimensionLike] | None) -> None:
        self._dims = None if dims is None else tuple([d if d.__class__ is Dimension else as_dimension(d) for d in dims])

    @classmethod
    def dynamic(cls) -> PartialShape:
        """The shape of unknown rank."""
        return cls(None)

    @classmethod
    def of_rank(cls, rank: int) -> PartialShape:
        """A shape of this rank whose dimensions are dynamic."""
        return cls([DYNAMIC] * rank)

    @classmethod
    def parse(cls, text: str) -> PartialShape:
        """Read the IR's notation: ``2,?,1..10,..5,-1``, ``...`` for unknown rank, empty for a scalar."""
        text = text.strip().strip("[]").strip()
        if text == "...":
            return cls.dynamic()
        if not text:
            return cls(())
        return cls([_parse_dimension(part.strip(), text) for part in text.split(",")])

    @property
    def has_rank(self) -> bool:
        """True if the number of dimensions is known."""
        return self._dims is not None

    @property
    def rank(self) -> int:
        """The number of dimensions; raises :class:`InferenceError` where it is unknown."""
        if self._dims is None:
            return len(self.dims)
        return len(self._dims)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The dimensions; raises :class:`InferenceError` where their number is unknown."""
        if self._dims is None:
            raise InferenceError("the number of dimensions must be known here, but it is not")
        return self._dims

    @property
    def is_static(self) -> bool:
        """True if every dimension is one number."""
        # A list and not a generator: this is called so often that the generator's frame would be measurable.
        return self._dims is not None and False not in [dimension.is_static for dimension in self._dims]

    def static(self) -> tuple[int, ...]:
        """Every dimension; raises :class:`ModelError` where one is unknown."""
        return tuple(d.value for d in self.dims)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dims)

    def __len__(self) -> int:
        return len(self.dims)

    def __getitem__(self, index: int) -> Dimension:
        return self.dims[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartialShape) and self._dims == other._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def replace(self, index: int, dimension: DimensionLike) -> PartialShape:
        """The same shape with one dimension changed."""
        dims: list[DimensionLike] = list(self.dims)
        dims[index] = dimension
        return PartialShape(dims)

    def accepts(self, shape: Sequence[int]) -> bool:
        """True if an array of that shape fits."""
        if self._dims is None:
            return True
        return len(self._dims) == len(shape) and all(d.contains(n) for d, n in zip(self._dims, shape))

    def merge(self, other: PartialShape) -> PartialShape | None:
        """The shapes that fit both; None where there are none."""
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if len(self._dims) != len(other._dims):
            return None
        merged = [a.merge(b) for a, b in zip(self._dims, other._dims)]
        return None if None in merged else PartialShape(merged)

    def union(self, other: PartialShape) -> PartialShape:
        """The smallest partial shape that holds both."""
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return PartialShape.dynamic()
        return PartialShape([a.union(b) for a, b in zip(self._dims, other._dims)])

    def element_count(self) -> Dimension:
        """The product of all dimensions, as far as it is known."""
        if self._dims is None:
            return DYNAMIC
        if self.is_static:
            return _of_dimension(_clip(math.prod([dimension.low for dimension in self._dims])))
        product = Dimension(1, 1)
        for dimension in self._dims:
            product = product * dimension
        return product

    @property
    def least_count(self) -> int:
        """The least number of elements."""
        return 0 if self._dims is None else math.prod([dimension.low for dimension in self._dims])

    @property
    def greatest_count(self) -> int:
        """The greatest number of elements, :data:`INFINITY` or more where there is none."""
        return INFINITY if self._dims is None else math.prod([dimension.high for dimension in self._dims])

    def to_text(self) -> str:
        """The notation of a Parameter's ``shape`` attribute."""
        return "..." if self._dims is None else ",".join(str(d) for d in self._dims)

    def __str__(self) -> str:
        return f"[{self.to_text()}]"

    def __repr__(self) -> str:
        return f"PartialShape({self})"


def _parse_dimension(part: str, whole: str) -> Dimension:
    if part in ("?", "-1"):
        return DYNAMIC
    matched = re.fullmatch(r"(\d*)(\.\.)?(\d*)", part)
    if not part or matched is None or (matched[2] is None and not matched[1]):
        raise ModelError(f"{part!r} in the shape {whole!r} is not a dimension")
    if matched[2] is None:
        return Dimension(_bounded(part, whole), _bounded(part, whole))
    low = _bounded(matched[1], whole) if matched[1] else 0
    high = _bounded(matched[3], whole) if matched[3] else INFINITY
    if low > high:
        raise ModelError(f"{part!r} in the shape {whole!r} runs backwards")
    return Dimension(low, high)


def _bounded(digits: str, whole: str) -> int:
    # The length is checked first: converting millions of digits takes minutes, which an attacker could use.
    if len(digits) > 19 or int(digits) > INFINITY:
        raise ModelError(f"a dimension of the shape {whole[:80]!r} is beyond 2^63 - 1")
    return int(digits)


def broadcast(a: PartialShape, b: PartialShape) -> PartialShape:
    """The shape that NumPy's broadcasting rule gives; raises :class:`InferenceError` where it cannot hold."""
    if not a.has_rank or not b.has_rank:
        return PartialShape.dynamic()
    rank = max(a.rank, b.rank)
    left = (_ONE,) * (rank - a.rank) + a.dims
    right = (_ONE,) * (rank - b.rank) + b.dims
    return PartialShape([x if x is y else _broadcast_dimension(x, y, a, b) for x, y in zip(left, right)])


def _broadcast_dimension(x: Dimension, y: Dimension, a: PartialShape, b: PartialShape) -> Dimension:
    if x.high == x.low == 1:
        return y
    if y.high == y.low == 1:
        return x
    x_may_be_one, y_may_be_one = x.contains(1), y.contains(1)
    if not x_may_be_one and not y_may_be_one:
        merged = x.merge(y)
        if merged is None:
            raise InferenceError(f"the shapes {a} and {b} cannot be broadcast together")
        return merged
    if not y_may_be_one:
        return y
    if not x_may_be_one:
        return x
    return x.union(y)


def broadcast_to(a: PartialShape, b: PartialShape) -> PartialShape | None:
    """The shape ``a``, refined by the fact that ``b`` broadcasts to it; None where it cannot."""
    if not a.has_rank or not b.has_rank:
        return a
    if b.rank > a.rank:
        return None
    lead = a.rank - b.rank
    dims = [x if y.contains(1) else x.merge(y) for x, y in zip(a.dims[lead:], b)]
    return None if None in dims else PartialShape([*a.dims[:lead], *dims])


def broadcast_all(shapes: Iterable[PartialShape]) -> PartialShape:
    """:func:`broadcast` over any number of shapes; a scalar where there is none."""
    result = PartialShape(())
    for shape in shapes:
        result = broadcast(result, shape)
    return result


def require_rank(subject: str, shape: PartialShape, rank: int) -> PartialShape:
    """The shape, of which only the rank may be unknown; :class:`InferenceError` for another rank."""
    if shape.has_rank and shape.rank != rank:
        raise InferenceError(f"{subject} must have {rank} dimensions, but the shape is {shape}")
    return shape if shape.has_rank else PartialShape.of_rank(rank)


def same_dimension(subject: str, *dimensions: Dimension) -> Dimension:
    """The intersection of all dimensions; :class:`InferenceError` where it is empty."""
    common = DYNAMIC
    for dimension in dimensions:
        merged = common.merge(dimension)
        if merged is None:
            raise InferenceError(f"{subject} must agree, but is {common} and {dimension}")
        common = merged
    return common


def normalize_axis(axis: int, rank: int, subject: str = "axis") -> int:
    """``axis`` counted from the front; raises :class:`InferenceError` outside ``[-rank, rank)``."""
    if not -rank <= axis < rank:
        raise InferenceError(f"{subject} {axis} lies outside the range [{-rank}, {rank - 1}] of rank {rank}")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Every axis counted from the front; raises :class:`InferenceError` for one named twice."""
    normalized = tuple(normalize_axis(int(axis), rank) for axis in axes)
    if len(set(normalized)) != len(normalized):
        raise InferenceError(f"the axes {list(normalized)} name a dimension twice")
    return normalized
