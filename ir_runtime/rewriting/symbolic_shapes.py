"""Which dimensions are equal, whatever the inputs' shapes are, and what is computed from dimensions.

Every dynamic dimension of a graph gets a symbol. The operations' own ``infer`` hands symbols on: a dimension that an
operation takes over from its input is the very same object in its output. Small integer tensors that are computed
from shapes are known element by element, as polynomials in these symbols.

    x [b, s, 384] -> ShapeOf -> [b, s, 384] -> Gather(1) -> s
    x, [b, s, 12, 32] -> Reshape -> [b, s, 12, 32] -> Transpose -> [b, 12, s, 32]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.operation import BOUNDS_LIMIT, Bounds, Operation, TensorType
from ir_runtime.graph.shapes import INFINITY, Dimension, NamedDimension, PartialShape
from ir_runtime.operations.elementwise import (
    Add1,
    Arithmetic,
    Binary,
    Comparison,
    Convert1,
    Divide1,
    Equal1,
    FloorMod1,
    Greater1,
    GreaterEqual1,
    Less1,
    LessEqual1,
    Mod1,
    Multiply1,
    NotEqual1,
    Select1,
    Subtract1,
    Unary,
)
from ir_runtime.operations.generation import Range4, ShapeOf1, ShapeOf3
from ir_runtime.operations.indexing import Gather1, Gather7, Gather8
from ir_runtime.operations.movement import (
    Broadcast1,
    Broadcast3,
    Concat1,
    Reshape1,
    Squeeze1,
    Transpose1,
    Unsqueeze1,
)
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.reduction import ReduceProd1
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1

from .polynomials import Polynomial, product

_END = 2**31 - 1
"""Exporters write this number, or a larger one, for the end of a slice."""

Elements = Any
"""A NumPy array of polynomials, shaped like the tensor."""

SELECTIONS: tuple[type[Operation], ...] = (
    Broadcast1,
    Broadcast3,
    Gather1,
    Gather7,
    Gather8,
    Reshape1,
    Slice8,
    Split1,
    Squeeze1,
    StridedSlice1,
    Transpose1,
    Unsqueeze1,
    VariadicSplit1,
)
"""Operations whose outputs are elements of their first input, chosen by the others."""


class SymbolicDimension(Dimension):
    """A dynamic dimension with its polynomial. Equal to itself alone, whatever its bounds."""

    __slots__ = ("_shapes", "polynomial")

    def __init__(self, shapes: SymbolicShapes, polynomial: Polynomial, low: int, high: int) -> None:
        super().__init__(low, high)
        self.is_static = False
        self.polynomial = polynomial
        self._shapes = shapes

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Dimension | int) -> Dimension:
        found = _polynomial_of(other)
        plain = super().__add__(other)
        return plain if found is None else self._shapes.dimension(self.polynomial + found, plain)

    __radd__ = __add__

    def __mul__(self, other: Dimension | int) -> Dimension:
        found = _polynomial_of(other)
        plain = super().__mul__(other)
        return plain if found is None else self._shapes.dimension(self.polynomial * found, plain)

    __rmul__ = __mul__

    def merge(self, other: Dimension) -> Dimension | None:
        """As for other dimensions; this one where both are known to lie in its interval."""
        merged = super().merge(other)
        is_own = merged is not None and (merged.low, merged.high) == (self.low, self.high)
        return self if is_own else merged


def _polynomial_of(dimension: Dimension | int) -> Polynomial | None:
    if isinstance(dimension, SymbolicDimension):
        return dimension.polynomial
    if isinstance(dimension, int):
        return Polynomial.constant(dimension)
    return Polynomial.constant(dimension.value) if dimension.is_static else None


def _is_known(dimension: Dimension) -> bool:
    return dimension.is_static or isinstance(dimension, SymbolicDimension)


class _SymbolicBounds(Bounds):
    """Bounds of values that are known as polynomials."""

    def __init__(self, bounds: Bounds, dimensions: Sequence[Dimension]) -> None:
        super().__init__(bounds.lower, bounds.upper)
        self.__dict__["_dimensions"] = list(dimensions)

    def dimensions(self) -> list[Dimension]:
        return list(self.__dict__["_dimensions"])


class SymbolicShapes:
    """What is known of the dimensions and the small integer tensors of one graph.

    A layer is noted with all that it is computed from, when something of it is asked for. What is noted stays true
    while layers are replaced by others that compute the same.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[float, float]] = []
        """For each symbol its bounds."""
        self._dimensions: dict[Polynomial, SymbolicDimension] = {}
        self._noted: set[Node] = set()
        self._keys: dict[Any, Polynomial] = {}
        self._remainders: dict[int, tuple[Polynomial, int]] = {}
        """For each symbol of a quotient rounded down what the division leaves, and the divisor."""
        self._limited: dict[Polynomial, Polynomial] = {}
        """For each symbol of a dimension with a limit the dimension without it."""
        self._dims: dict[Output, tuple[Dimension, ...] | None] = {}
        self._elements: dict[Output, Elements | None] = {}
        self._in_types: dict[Output, TensorType] = {}
        self._places: dict[Polynomial, tuple[Output, int]] = {}

    # --- what is known ---

    def dims(self, value: Output) -> list[Polynomial] | None:
        """The dimensions of a value as polynomials; None where the rank is dynamic."""
        dims = self._dims_of(value)
        return None if dims is None else [self._polynomial(dimension) for dimension in dims]

    def _dims_of(self, value: Output) -> tuple[Dimension, ...] | None:
        if value.shape.is_static:
            return value.shape.dims
        if value not in self._dims:
            self._note(value.node)
        return self._dims[value]

    def elements(self, value: Output) -> Elements | None:
        """The elements of a small integer or boolean tensor as polynomials (0 and 1 for booleans); None for others."""
        if value not in self._elements:
            if value.node not in self._noted and value.node.inputs and _is_small(value):
                self._note(value.node)
            if value not in self._elements:
                self._elements[value] = _constant_elements(value)
        return self._elements[value]

    def is_computed(self, value: Output) -> bool:
        """Whether a value that is no constant is known element by element."""
        return self._elements.get(value) is not None and value.tensor is None

    def knows_elements_of(self, node: Node) -> bool:
        """Whether the elements of all outputs of a layer, whose inputs are known, are polynomials."""
        for output, found in zip(node.outputs, self._elements_of(node)):
            if found is None:
                return False
            self._hold(output, found)
        return bool(node.outputs)

    def low(self, polynomial: Polynomial) -> float:
        """A lower bound of its value."""
        return self._end(polynomial, -math.inf)

    def high(self, polynomial: Polynomial) -> float:
        """An upper bound of its value."""
        return self._end(polynomial, math.inf)

    def _end(self, polynomial: Polynomial, end: float) -> float:
        found = self._end_of_terms(polynomial, end)
        rest, shift, scale = self._without_quotients(polynomial, end)
        if rest is polynomial:
            return found
        other = self._end_of_terms(rest, end)
        if math.isinf(other):
            return found
        other = -((-int(other) - shift) // scale) if end < 0 else (int(other) + shift) // scale
        return max(found, other) if end < 0 else min(found, other)

    def _without_quotients(self, polynomial: Polynomial, end: float) -> tuple[Polynomial, int, int]:
        """The polynomial times ``scale`` without quotients that were rounded down, and what its remainders add.

        A quotient q of x and d is (x - r) / d, where the remainder r is 0 to d - 1.
        """
        shift, scale = 0, 1
        pending = polynomial.symbols & self._remainders.keys()
        while pending:
            number = max(pending)  # what a quotient is made of has symbols of lower numbers
            remainder, divisor = self._remainders[number]
            factor = polynomial.factor((number,))
            if factor:
                polynomial = polynomial * Polynomial.constant(divisor) + remainder * Polynomial.constant(factor)
                shift = shift * divisor + (-factor * (divisor - 1) if (factor > 0) == (end < 0) else 0)
                scale *= divisor
            pending = {other for other in polynomial.symbols & self._remainders.keys() if other < number}
        return polynomial, shift, scale

    def _end_of_terms(self, polynomial: Polynomial, end: float) -> float:
        total: float = 0
        for monomial, factor in polynomial.terms:
            ranges = [self._ranges[number] for number in monomial]
            if any(low < 0 for low, _ in ranges):
                return end
            takes_lowest = (factor > 0) == (end < 0)
            total += factor * math.prod([low if takes_lowest else high for low, high in ranges])
        return end if math.isnan(total) else total

    def place(self, polynomial: Polynomial) -> tuple[Output, int] | None:
        """The first value that has it among its elements, and where in row-major order; None where none has."""
        return self._places.get(polynomial)

    # --- symbols ---

    def dimension(self, polynomial: Polynomial, within: Dimension) -> Dimension:
        """The dimension of this value, which lies ``within`` an interval."""
        value = polynomial.value
        if value is not None and value >= 0:
            return Dimension(value, value)
        known = self._dimensions.get(polynomial)
        if known is None:
            known = SymbolicDimension(self, polynomial, within.low, within.high)
            self._dimensions[polynomial] = known
        return known

    def _fresh(self, within: Dimension) -> Dimension:
        if isinstance(within, NamedDimension):
            return self.dimension(self._of_names(within), within)
        return self.dimension(self._symbol(within.low, within.high), within)

    def _of_names(self, dimension: NamedDimension) -> Polynomial:
        names = dimension.names
        ends = (dimension.low, dimension.high) if len(names) == 1 else (0, INFINITY)
        total = Polynomial.constant(0)
        for name in names:
            total = total + self._keyed(("name", name), ends)
        return total

    def _symbol(self, low: int, high: int) -> Polynomial:
        self._ranges.append((low, math.inf if high == INFINITY else high))
        return Polynomial.symbol(len(self._ranges) - 1)

    def _keyed(self, key: Any, ends: tuple[int, int]) -> Polynomial:
        """The symbol of an expression that is no polynomial, such as a quotient: one for equal expressions."""
        if key not in self._keys:
            self._keys[key] = self._symbol(*ends)
        return self._keys[key]

    def _polynomial(self, dimension: Dimension) -> Polynomial:
        found = _polynomial_of(dimension)
        assert found is not None, "every dimension is static or has a symbol"
        return found

    # --- walking ---

    def _note(self, wanted: Node) -> None:
        """Note a layer, after all that it is computed from."""
        pending = [wanted]
        while pending:
            node = pending[-1]
            missing = [s.node for s in node.inputs if s.node not in self._noted and s.node.op.data is None]
            if missing and node not in self._noted:
                pending.extend(missing)
                continue
            pending.pop()
            if node not in self._noted:
                self.add(node)

    def add(self, node: Node) -> None:
        """Note the outputs of a layer, whose inputs are noted already."""
        self._noted.add(node)
        for output, found in zip(node.outputs, self._elements_of(node)):
            if found is not None and output not in self._elements:
                self._hold(output, found)
        if all(output.shape.is_static for output in node.outputs):
            return
        inferred = self._inferred(node)
        for output, shape in zip(node.outputs, inferred):
            self._dims[output] = self._named(output.shape, shape)

    def _hold(self, value: Output, elements: Elements) -> None:
        self._elements[value] = elements
        for index, one in enumerate(elements.reshape(-1).tolist()):
            if one.value is None:
                self._places.setdefault(one, (value, index))

    def _named(self, declared: PartialShape, found: PartialShape | None) -> tuple[Dimension, ...] | None:
        """The dimensions of a shape: those with symbols taken over, the others with new ones."""
        if not declared.has_rank:
            return None
        candidates: Sequence[Dimension | None] = [None] * declared.rank
        if found is not None and found.has_rank and found.rank == declared.rank:
            candidates = list(found)
        return tuple(
            own if own.is_static else other if other is not None and _is_known(other) else self._fresh(own)
            for own, other in zip(declared, candidates)
        )

    def _inferred(self, node: Node) -> Sequence[PartialShape | None]:
        nothing: list[PartialShape | None] = [None] * len(node.outputs)
        op = node.op
        if not node.inputs or op.subgraphs or op.role:
            return nothing
        if isinstance(op, (Unary, Convert1)):
            return [PartialShape(self._dims_of(node.inputs[0]))]
        if isinstance(op, Reshape1):
            return [self._reshaped(node)]
        if isinstance(op, Range4):
            return [self._range(node)]
        if isinstance(op, Slice8):
            return [self._sliced(node)]
        if isinstance(op, (Pad1, Pad12)):
            return [self._padded(node)]
        try:
            inferred = op.infer([self._type(source) for source in node.inputs])
        except ModelError:
            return nothing
        if len(inferred) != len(nothing):
            return nothing
        shapes: list[PartialShape | None] = [kind.shape for kind in inferred]
        if isinstance(op, Binary) and op.auto_broadcast == "numpy" and shapes[0] is not None and shapes[0].has_rank:
            shapes[0] = self._widened(shapes[0], node)
        return shapes

    def _type(self, value: Output) -> TensorType:
        known = self._in_types.get(value)
        if known is None:
            dims, elements, bounds = self._dims_of(value), self.elements(value), value.type.known_bounds
            if elements is not None and bounds is not None and value.tensor is None:
                pairs = zip(elements.reshape(-1).tolist(), bounds.dimensions())
                bounds = _SymbolicBounds(bounds, [self._as_dimension(one, plain) for one, plain in pairs])
            known = TensorType(value.element_type, PartialShape(dims), value.tensor, bounds)
            self._in_types[value] = known
        return known

    def _as_dimension(self, polynomial: Polynomial, plain: Dimension) -> Dimension:
        """An element as a dimension: one that may be negative means something else."""
        return self.dimension(polynomial, plain) if self.low(polynomial) >= 0 else plain

    # --- shapes that depend on values ---

    def _reshaped(self, node: Node) -> PartialShape | None:
        target, dims = self.elements(node.inputs[1]), self.dims(node.inputs[0])
        if target is None:
            return None
        shape = self.reshaped(dims, target.reshape(-1).tolist(), node.op.special_zero)  # type: ignore[attr-defined]
        if len(shape) != len(node.outputs[0].shape.dims):
            return None
        pairs = zip(shape, node.outputs[0].shape)
        return PartialShape([own if one is None else self.dimension(one, own) for one, own in pairs])

    def reshaped(
        self, dims: Sequence[Polynomial] | None, target: Sequence[Polynomial], special_zero: bool
    ) -> list[Polynomial | None]:
        """The dimensions after Reshape to ``target``, None for those that are not known."""
        found: list[Polynomial | None] = []
        rest = None
        for index, wanted in enumerate(target):
            own = dims[index] if dims is not None and index < len(dims) else None
            if wanted.value == -1:
                rest = index
                found.append(None)
            elif wanted.value == 0 and special_zero:
                found.append(own)
            else:
                # Where it is 0, it may stand for the input's dimension.
                is_sure = not special_zero or self.low(wanted) >= 1 or own is None or self._is_zero_with(own, wanted)
                found.append(wanted if is_sure and self.low(wanted) >= 0 else None)
        if rest is not None and dims is not None:
            found[rest] = self._remainder(dims, found, rest, special_zero)
        return found

    def _is_zero_with(self, own: Polynomial, wanted: Polynomial) -> bool:
        """Whether ``wanted`` is 0 only if ``own`` is."""
        if own == wanted:
            return True
        rest = wanted.quotient(own)
        return (rest is not None and self.low(rest) >= 1) or own.quotient(wanted) is not None

    def _remainder(
        self, dims: Sequence[Polynomial], found: Sequence[Polynomial | None], at: int, special_zero: bool
    ) -> Polynomial | None:
        """The dimension for -1. Dimensions that both sides have in one place cancel out, even where they are 0."""
        kept = {
            i for i, one in enumerate(found) if special_zero and one is not None and i < len(dims) and one == dims[i]
        }
        others = [one for i, one in enumerate(found) if i != at and i not in kept]
        if any(one is None or self.low(one) < 1 for one in others):
            return None
        have = product([one for i, one in enumerate(dims) if i not in kept])
        return have.quotient(product([one for one in others if one is not None]))

    def _sliced(self, node: Node) -> PartialShape:
        """Slices that are known to lie within the dimension, and those from the beginning of a static dimension.

        The latter have what is smaller: the dimension or the stop.
        """
        dims: list[Dimension] = list(node.outputs[0].shape)
        before, lists = self._dims_of(node.inputs[0]), [self.elements(source) for source in node.inputs[1:]]
        if before is None:
            return node.outputs[0].shape
        names = lists[3] if len(lists) > 3 else None
        axes = range(len(dims)) if len(lists) < 4 else () if names is None else [one.value for one in names.tolist()]
        sliced = {axis % len(dims) for axis in axes if axis is not None}
        known = len(sliced) == len(axes) or len(lists) < 4
        dims = [own if i in sliced or not known else before[i] for i, own in enumerate(dims)]
        starts, stops, steps = lists[:3]
        if starts is None or stops is None or steps is None or not known:
            return PartialShape(dims)
        for axis, start, stop, step in zip(axes, starts.tolist(), stops.tolist(), steps.tolist()):
            size = before[axis]
            if step.value is None or step.value < 1:
                continue
            first, last = (self._position(one, self._polynomial(size)) for one in (start, stop))
            if first is not None and last is not None:
                count = self._floor(last - first + step - Polynomial.constant(1), step.value)
                dims[axis] = self._as_dimension(count, dims[axis])
            elif step.value == 1 and start.value == 0 and size.is_static and size.value > 1 and self.low(stop) >= 0:
                within = dims[axis]
                smaller = self._keyed(("minimum", stop, size.value), (within.low, within.high))
                self._limited[smaller] = stop
                dims[axis] = self.dimension(smaller, within)
        return PartialShape(dims)

    def _position(self, bound: Polynomial, size: Polynomial) -> Polynomial | None:
        """Where a slice with a positive step starts or stops, counted from the beginning; None where not known."""
        if bound.value is not None and bound.value < 0:
            bound = size + bound
        elif bound.value is not None and bound.value >= _END:
            return size
        if self.low(bound) < 0:
            return None
        return bound if self.low(size - bound) >= 0 else size if self.low(bound - size) >= 0 else None

    def reaches_end(self, stop: Polynomial, size: Polynomial) -> bool:
        """Whether the stop of a slice is the end of the dimension or behind it."""
        if stop.value is not None and stop.value < 0:
            return False
        return self.low(stop - size) >= 0

    def _padded(self, node: Node) -> PartialShape | None:
        """Each dimension and what comes before and behind it."""
        before, (first, last) = self.dims(node.inputs[0]), (self.elements(source) for source in node.inputs[1:3])
        if before is None or first is None or last is None:
            return None
        sums = [one + front + back for one, front, back in zip(before, first.tolist(), last.tolist())]
        return PartialShape([self._as_dimension(one, own) for one, own in zip(sums, node.outputs[0].shape)])

    def _widened(self, shape: PartialShape, node: Node) -> PartialShape:
        """The shape of an elementwise result. A dimension and itself with a limit above 1 give the dimension.

        Where the limit is less than the dimension, the operands do not fit together.
        """
        dims = list(shape)
        operands = [self.dims(source) for source in node.inputs]
        for place in range(1, len(dims) + 1):
            if dims[-place].is_static or isinstance(dims[-place], SymbolicDimension):
                continue
            pair = [own[-place] for own in operands if own is not None and len(own) >= place]
            for one, other in (pair, pair[::-1]) if len(pair) == 2 else ():
                if self._limited.get(one) == other:
                    dims[-place] = self.dimension(other, dims[-place])
        return PartialShape(dims)

    def _range(self, node: Node) -> PartialShape | None:
        """start, start + 1, ... limit - 1 are as many as lie between both."""
        start, limit, step = (self.elements(source) for source in node.inputs)
        if start is None or limit is None or step is None or _only(step).value != 1:
            return None
        count = _only(limit) - _only(start)
        return PartialShape([self._as_dimension(count, node.outputs[0].shape[0])])

    # --- elements ---

    def _elements_of(self, node: Node) -> Sequence[Elements | None]:
        nothing: list[Elements | None] = [None] * len(node.outputs)
        op = node.op
        if not node.inputs or False in [_is_small(output) for output in node.outputs]:
            return nothing
        if node.outputs and node.outputs[0] in self._elements:
            return [self._elements[output] for output in node.outputs]
        if isinstance(op, (ShapeOf1, ShapeOf3)):
            dims = self.dims(node.inputs[0])
            return nothing if dims is None or len(dims) > BOUNDS_LIMIT else [_array(dims, (len(dims),))]
        if isinstance(op, SELECTIONS):
            return self._selected(node) or nothing
        known = [self.elements(source) for source in node.inputs]
        if any(one is None for one in known):
            return self._partly(node, known) or nothing
        rule = next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)
        if rule is None:
            return nothing
        found = rule(self, node, known)
        return nothing if found is None else [found]

    def _selected(self, node: Node) -> Sequence[Elements] | None:
        first = self.elements(node.inputs[0])
        rest = [source.type.constant for source in node.inputs[1:]]
        if first is None or any(one is None for one in rest):
            return None
        try:
            found = node.op.evaluate(first, *rest)  # type: ignore[arg-type]
        except (ModelError, ValueError, IndexError):
            return None
        outputs = found if isinstance(found, tuple) else (found,)
        return [np.asarray(one, np.object_) for one in outputs]

    def _partly(self, node: Node, known: Sequence[Elements | None]) -> Sequence[Elements] | None:
        """A list of which parts are not computed from shapes: these get symbols of their own."""
        if not isinstance(node.op, Concat1) or all(one is None for one in known):
            return None
        filled = [self._opaque(source) if one is None else one for source, one in zip(node.inputs, known)]
        present = [one for one in filled if one is not None]
        return [np.concatenate(present, node.op.axis)] if len(present) == len(filled) else None

    def _opaque(self, value: Output) -> Elements | None:
        if not value.shape.is_static or not _is_small(value):
            return None
        shape = value.shape.static()
        ends = _ends(value, math.prod(shape))
        self._hold(value, _array([self._keyed((value, i), one) for i, one in enumerate(ends)], shape))
        return self._elements[value]

    def _arithmetic(self, node: Node, known: Sequence[Elements]) -> Elements | None:
        """Sums, differences and products are polynomials; other results get a symbol for each expression."""
        op = node.op
        if op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
            return None
        a, b = np.broadcast_arrays(*known)
        pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), _ends(node.outputs[0], a.size))
        return _array([self._calculated(op, x, y, ends) for x, y, ends in pairs], a.shape)

    def _calculated(self, op: Operation, x: Polynomial, y: Polynomial, ends: tuple[int, int]) -> Polynomial:
        for kind, calculate in _POLYNOMIAL.items():
            if isinstance(op, kind):
                return calculate(x, y)
        if isinstance(op, Divide1) and self.low(y) >= 1:
            exact = x.quotient(y)
            if exact is not None:
                return exact
        if isinstance(op, (Divide1, FloorMod1, Mod1)) and y.value is not None and y.value >= 1:
            rounds_down = isinstance(op, FloorMod1) or (isinstance(op, Divide1) and op.m_pythondiv)
            if rounds_down or self.low(x) >= 0:
                quotient = self._floor(x, y.value)
                return quotient if isinstance(op, Divide1) else x - quotient * y
        return self._keyed((type(op), *op.attributes().values(), x, y), ends)

    def _floor(self, x: Polynomial, divisor: int) -> Polynomial:
        """The quotient rounded down. What the divisor divides comes out of it; the rest gets a symbol.

        That of -x is the negative of that of x + divisor - 1, so that x and what fills it up share a symbol.
        """
        parts = [(monomial, *_divided(factor, divisor, not monomial)) for monomial, factor in x.terms]
        whole = Polynomial([(monomial, quotient) for monomial, quotient, _ in parts])
        rest = Polynomial([(monomial, left) for monomial, _, left in parts])
        if rest.value is not None:
            return whole
        if next(factor for monomial, factor in rest.terms if monomial) < 0:
            return whole - self._floor(Polynomial.constant(divisor - 1) - rest, divisor)
        ends = [int(end) // divisor if math.isfinite(end) else None for end in (self.low(rest), self.high(rest))]
        low, high = (-INFINITY if ends[0] is None else ends[0], INFINITY if ends[1] is None else ends[1])
        symbol = self._keyed(("floor", rest, divisor), (low, high))
        self._remainders[min(symbol.symbols)] = rest - symbol * Polynomial.constant(divisor), divisor
        return whole + symbol

    def _compared(self, node: Node, known: Sequence[Elements]) -> Elements | None:
        """Comparisons that the bounds of both sides decide; None where one of them is not decided."""
        if node.op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
            return None
        a, b = np.broadcast_arrays(*known)
        found = [self._decided(node.op, x - y) for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist())]
        if any(one is None for one in found):
            return None
        return _array([Polynomial.constant(int(bool(one))) for one in found], a.shape)

    def _decided(self, op: Operation, difference: Polynomial) -> bool | None:
        low, high = self.low(difference), self.high(difference)
        for kind, (holds, fails) in _DECISIONS.items():
            if isinstance(op, kind):
                return True if holds(low, high) else False if fails(low, high) else None
        return None

    def _chosen(self, node: Node, known: Sequence[Elements]) -> Elements | None:
        condition, then, otherwise = known
        if node.op.auto_broadcast == "pdpd" or any(  # type: ignore[attr-defined]
            one.value is None for one in condition.reshape(-1).tolist()
        ):
            return None
        holds = _array([bool(one.value) for one in condition.reshape(-1).tolist()], condition.shape).astype(bool)
        return np.asarray(np.where(holds, then, otherwise), np.object_)

    def _converted(self, node: Node, known: Sequence[Elements]) -> Elements | None:
        kinds = (node.inputs[0].element_type, node.outputs[0].element_type)
        return known[0] if all(kind.is_integral and kind.bits >= 32 for kind in kinds) else None

    def _product(self, node: Node, known: Sequence[Elements]) -> Elements | None:
        if node.inputs[0].shape.rank != 1 or known[1].size != 1:
            return None
        shape = (1,) if node.op.keep_dims else ()  # type: ignore[attr-defined]
        return _array([product(known[0].tolist())], shape)

    def _concatenated(self, node: Node, known: Sequence[Elements]) -> Elements:
        return np.concatenate(known, node.op.axis)  # type: ignore[attr-defined]


_Rule = Callable[[SymbolicShapes, Node, Sequence[Elements]], Union[Elements, None]]
_RULES: Sequence[tuple[tuple[type[Operation], ...], _Rule]] = (
    ((Arithmetic,), SymbolicShapes._arithmetic),
    ((Comparison,), SymbolicShapes._compared),
    ((Select1,), SymbolicShapes._chosen),
    ((Convert1,), SymbolicShapes._converted),
    ((ReduceProd1,), SymbolicShapes._product),
    ((Concat1,), SymbolicShapes._concatenated),
)
_POLYNOMIAL: dict[type[Operation], Callable[[Polynomial, Polynomial], Polynomial]] = {
    Add1: Polynomial.__add__,
    Subtract1: Polynomial.__sub__,
    Multiply1: Polynomial.__mul__,
}
_End = Callable[[float, float], bool]
_DECISIONS: dict[type[Operation], tuple[_End, _End]] = {
    Equal1: (lambda low, high: low == high == 0, lambda low, high: low > 0 or high < 0),
    NotEqual1: (lambda low, high: low > 0 or high < 0, lambda low, high: low == high == 0),
    Less1: (lambda low, high: high < 0, lambda low, high: low >= 0),
    LessEqual1: (lambda low, high: high <= 0, lambda low, high: low > 0),
    Greater1: (lambda low, high: low > 0, lambda low, high: high <= 0),
    GreaterEqual1: (lambda low, high: low >= 0, lambda low, high: high < 0),
}
"""For each comparison with 0 the bounds with which it holds, and those with which it does not."""


def _divided(factor: int, divisor: int, is_constant: bool) -> tuple[int, int]:
    """Quotient and remainder; the remainder of a constant is not negative, that of a factor has its sign."""
    quotient, left = divmod(factor if is_constant else abs(factor), divisor)
    return (-quotient, -left) if factor < 0 and not is_constant else (quotient, left)


def _array(values: Iterable[Any], shape: Sequence[int]) -> Elements:
    flat = list(values)
    found = np.empty(len(flat), np.object_)
    found[:] = flat
    return found.reshape(tuple(shape))


def _ends(value: Output, count: int) -> list[tuple[int, int]]:
    """The bounds of each element."""
    bounds = value.type.known_bounds
    if bounds is None:
        return [(-INFINITY, INFINITY)] * count
    return list(zip(bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist()))


def _only(elements: Elements) -> Polynomial:
    first: Polynomial = elements.reshape(-1)[0]
    return first


def _is_small(value: Output) -> bool:
    kind = value.element_type
    if not (kind is element_types.boolean or (kind.is_integral and kind.bits >= 32)):
        return False
    return value.shape.has_rank and value.shape.element_count().high <= BOUNDS_LIMIT


def _constant_elements(value: Output) -> Elements | None:
    if not _is_small(value):
        return None
    known: Array | None = value.type.constant
    if known is None:
        return None
    return _array([Polynomial.constant(int(one)) for one in known.reshape(-1).tolist()], known.shape)
