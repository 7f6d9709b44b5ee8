"""Symbolic shapes: dimensions that are equal for all input shapes, and values computed from dimensions.

Every dynamic dimension of a graph gets a symbol. The operations' own ``infer`` hands symbols on: a dimension that an
operation takes over from its input is the very same object in its output. Small integer tensors that are computed
from shapes are known element by element, as polynomials in these symbols.

    x [b, s, 384] -> ShapeOf -> [b, s, 384] -> Gather(1) -> s
    x, [b, s, 12, 32] -> Reshape -> [b, s, 12, 32] -> Transpose -> [b, 12, s, 32]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import Array, Dimension, Node, Output, PartialShape
from ir_runtime.graph.operation import BOUNDS_LIMIT, TensorType
from ir_runtime.operations.generation import ShapeOf

from .polynomials import Polynomial
from .symbolic_elements import RULES, Elements, array_of, constant_elements, ends_of, is_small
from .symbolic_inference import REFINEMENTS, SHAPE_RULES
from .symbols import SymbolicBounds, Symbols, is_known


class SymbolicShapes(Symbols):
    """Symbolic dimensions and small integer tensors of one graph.

    A layer is noted with all that it is computed from, when something of it is asked for. What is noted stays true
    while layers are replaced by others that compute the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._noted: set[Node] = set()
        self.limited: dict[Polynomial, Polynomial] = {}
        """For each symbol of a dimension with a limit the dimension without it."""
        self._dims: dict[Output, tuple[Dimension, ...] | None] = {}
        self._elements: dict[Output, Elements | None] = {}
        self._in_types: dict[Output, TensorType] = {}
        self._places: dict[Polynomial, tuple[Output, int]] = {}

    # --- what is known ---

    def dims(self, value: Output) -> list[Polynomial] | None:
        """The dimensions of a value as polynomials; None where the rank is dynamic."""
        dims = self.dims_of(value)
        return None if dims is None else [self.polynomial(dimension) for dimension in dims]

    def dims_of(self, value: Output) -> tuple[Dimension, ...] | None:
        """The dimensions of a value, those that are dynamic with symbols; None where the rank is dynamic."""
        if value.shape.is_static:
            return value.shape.dims
        if value not in self._dims:
            self._note(value.node)
        return self._dims[value]

    def elements(self, value: Output) -> Elements | None:
        """The elements of a small integer or boolean tensor as polynomials (0 and 1 for booleans); None for others."""
        if value not in self._elements:
            if value.node not in self._noted and value.node.inputs and is_small(value):
                self._note(value.node)
            if value not in self._elements:
                self._elements[value] = constant_elements(value)
        return self._elements[value]

    def is_computed(self, value: Output) -> bool:
        """True if a value that is no constant is known element by element."""
        return self._elements.get(value) is not None and value.tensor is None

    def knows_elements_of(self, node: Node) -> bool:
        """True if the elements of all outputs of a layer, whose inputs are known, are polynomials."""
        for output, elements in zip(node.outputs, self._elements_of(node)):
            if elements is None:
                return False
            self._hold(output, elements)
        return bool(node.outputs)

    def take_over(self, value: Output, replaced: Output) -> None:
        """Note that a value has the dimensions, with their symbols, of the one that it replaces."""
        self._noted.add(value.node)
        self._dims[value] = self.dims_of(replaced)

    def place(self, polynomial: Polynomial) -> tuple[Output, int] | None:
        """The first value that has it among its elements, and where in row-major order; None where none has."""
        return self._places.get(polynomial)

    # --- walking ---

    def _note(self, start: Node) -> None:
        """Note a layer, after all that it is computed from."""
        pending = [start]
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
        for output, elements in zip(node.outputs, self._elements_of(node)):
            if elements is not None and output not in self._elements:
                self._hold(output, elements)
        if all(output.shape.is_static for output in node.outputs):
            return
        inferred = self._infer(node)
        for output, shape in zip(node.outputs, inferred):
            self._dims[output] = self._named(output.shape, shape)

    def _hold(self, value: Output, elements: Elements) -> None:
        self._elements[value] = elements
        for index, element in enumerate(elements.reshape(-1).tolist()):
            if element.value is None:
                self._places.setdefault(element, (value, index))

    def _named(self, declared: PartialShape, shape: PartialShape | None) -> tuple[Dimension, ...] | None:
        """The dimensions of a shape: those with symbols taken over, the others with new ones."""
        if not declared.has_rank:
            return None
        candidates: Sequence[Dimension | None] = [None] * declared.rank
        if shape is not None and shape.has_rank and shape.rank == declared.rank:
            candidates = list(shape)
        return tuple(
            own if own.is_static else other if other is not None and is_known(other) else self.fresh(own)
            for own, other in zip(declared, candidates)
        )

    def _infer(self, node: Node) -> Sequence[PartialShape | None]:
        nothing: list[PartialShape | None] = [None] * len(node.outputs)
        op = node.op
        if not node.inputs or op.subgraphs or op.role:
            return nothing
        if op.elementwise and len(node.inputs) == 1:
            return [PartialShape(self.dims_of(node.inputs[0]))]
        rule = next((rule for operation_class, rule in SHAPE_RULES.items() if isinstance(op, operation_class)), None)
        if rule is not None:
            return [rule(self, node)]
        try:
            inferred = op.infer([self._type(source) for source in node.inputs])
        except ModelError:
            return nothing
        if len(inferred) != len(nothing):
            return nothing
        shapes: list[PartialShape | None] = [tensor_type.shape for tensor_type in inferred]
        refine = next((rule for operation_class, rule in REFINEMENTS.items() if isinstance(op, operation_class)), None)
        if refine is not None and shapes[0] is not None and shapes[0].has_rank:
            shapes[0] = refine(self, shapes[0], node)
        return shapes

    def _type(self, value: Output) -> TensorType:
        if value.tensor is not None:
            return value.type
        tensor_type = self._in_types.get(value)
        if tensor_type is None:
            dims, elements, bounds = self.dims_of(value), self.elements(value), value.type.known_bounds
            if elements is not None and bounds is not None:
                pairs = zip(elements.reshape(-1).tolist(), bounds.dimensions())
                bounds = SymbolicBounds(bounds, [self.as_dimension(polynomial, plain) for polynomial, plain in pairs])
            tensor_type = TensorType(value.element_type, PartialShape(dims), None, bounds)
            self._in_types[value] = tensor_type
        return tensor_type

    # --- elements ---

    def _elements_of(self, node: Node) -> Sequence[Elements | None]:
        nothing: list[Elements | None] = [None] * len(node.outputs)
        op = node.op
        if not node.inputs or False in [is_small(output) for output in node.outputs]:
            return nothing
        if node.outputs and node.outputs[0] in self._elements:
            return [self._elements[output] for output in node.outputs]
        if isinstance(op, ShapeOf):
            dims = self.dims(node.inputs[0])
            return nothing if dims is None or len(dims) > BOUNDS_LIMIT else [array_of(dims, (len(dims),))]
        moved = op.moved_inputs(len(node.inputs))
        if moved:
            return self._move(node, moved) or nothing
        operands = [self.elements(source) for source in node.inputs]
        if any(operand is None for operand in operands):
            return nothing
        rule = next((rule for classes, rule in RULES if isinstance(op, classes)), None)
        if rule is None:
            return nothing
        elements = rule(self, node, operands)
        return nothing if elements is None else [elements]

    def _move(self, node: Node, moved: Sequence[int]) -> Sequence[Elements] | None:
        """The elements in their new places. Inputs of which some are not computed from shapes get symbols."""
        values: list[Elements | None] = [
            self.elements(source) if place in moved else self._constant(source)
            for place, source in enumerate(node.inputs)
        ]
        if all(values[place] is None for place in moved):
            return None
        values = [
            self._opaque(source) if value is None and place in moved else value
            for place, (source, value) in enumerate(zip(node.inputs, values))
        ]
        if any(value is None for value in values):
            return None
        try:
            result = node.op.evaluate(*values)  # type: ignore[arg-type]
        except (ModelError, ValueError, IndexError):
            return None
        return [_polynomials(array) for array in (result if isinstance(result, tuple) else (result,))]

    def _constant(self, value: Output) -> Array | None:
        """The elements of a constant, or of what shapes decide, such as a comparison of dimensions."""
        constant = value.type.constant
        if constant is not None:
            return constant
        elements = self.elements(value)
        if elements is None or any(element.value is None for element in elements.reshape(-1).tolist()):
            return None
        numbers = [element.value for element in elements.reshape(-1).tolist()]
        return np.array(numbers, value.element_type.dtype).reshape(elements.shape)

    def _opaque(self, value: Output) -> Elements | None:
        if not value.shape.is_static or not is_small(value):
            return None
        shape = value.shape.static()
        ends = ends_of(value, math.prod(shape))
        self._hold(value, array_of([self.keyed((value, i), end) for i, end in enumerate(ends)], shape))
        return self._elements[value]


def _polynomials(values: Any) -> Elements:
    """The elements that an operation moved; some put zeros of their own between them."""
    elements = np.asarray(values, np.object_)
    flat = [
        element if isinstance(element, Polynomial) else Polynomial.constant(int(element))
        for element in elements.reshape(-1).tolist()
    ]
    return array_of(flat, elements.shape)
