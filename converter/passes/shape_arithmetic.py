"""Compute shapes with as few layers as possible, and let Reshapes copy dimensions.

    x [b, s, 384] -> ShapeOf -> Gather(0) -> Unsqueeze -> |
                  -> ShapeOf -> Gather(1) -> Unsqueeze -> Concat [.., 12, 32] -> Reshape(x)
    becomes       x -> Reshape(x, [0, 0, 12, 32])

    y = Gelu(x) [b, s, 64] -> ShapeOf -> Gather(1)              becomes      x -> ShapeOf -> Gather(1)
    Slice(x, 2 to ShapeOf(x)[1])                                becomes      Slice(x, 2 to the end)
    Select(Equal(shape, -1), 1, shape) -> Broadcast             becomes      shape -> Broadcast

Dimensions that are equal whatever the inputs' shapes are, are read from the first tensor that has them. They stay
dynamic: a Reshape takes a dimension over (0) or has the only one that follows from the others (-1) where that is
proven for every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir_runtime.analysis.polynomials import Polynomial, product
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.analysis.symbolic_inference import reshaped
from ir_runtime.errors import ContradictionError, InferenceError
from ir_runtime.graph import ElementType, Model, Node, Output, Part
from ir_runtime.graph.operation import BOUNDS_LIMIT
from ir_runtime.operations import scatter
from ir_runtime.operations.elementwise import Arithmetic, Convert1
from ir_runtime.operations.generation import ShapeOf, ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.movement import Concat1, Reshape1, Unsqueeze1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.reduction import ReduceProd1
from ir_runtime.operations.slicing import Slice8, Split1, VariadicSplit1
from ir_runtime.rewriting import Builder, PassTrace, UniqueNames
from ir_runtime.rewriting.type_updates import infer_node

from .registry import passes

_CALCULATED = (
    *(Arithmetic, ReduceProd1, Split1, VariadicSplit1, Pad, scatter.ScatterUpdate3, scatter.ScatterNDUpdate4),
    *(scatter.ScatterElementsUpdate3, scatter.ScatterElementsUpdate12, scatter.ScatterNDUpdate15),
)
"""Operations whose lists are read as they are: other ways to their elements are no shorter."""
_END = 2**63 - 1
"""The stop of a slice that reaches the end of the dimension."""


@passes.register("shape_arithmetic")
def shape_arithmetic(model: Model, trace: PassTrace) -> int:
    """Give what reads lists of dimensions shorter ways to them."""
    count, changed = 0, set[Model]()
    # Bodies come before the layers that have them.
    for part in reversed(model.parts()):
        walk = _Walk(part, changed, trace)
        walk.run()
        if walk.count:
            changed.add(part.model)
            count += walk.count
    return count


class _Walk:
    """One graph, layer by layer in its order: inputs replaced, types inferred again, dimensions noted."""

    def __init__(self, part: Part, changed_bodies: set[Model], trace: PassTrace) -> None:
        self._part = part
        self._changed_bodies = changed_bodies
        self._trace = trace
        self._shapes = symbolic_shapes()
        self._builder = Builder(UniqueNames(part))
        self._sources: dict[frozenset[Polynomial], tuple[Output, list[Polynomial]]] = {}
        """For each set of dynamic dimensions the first value that has them, of those whose shape is read."""
        self._whole: dict[tuple[Polynomial, ...], Output] = {}
        """For each shape the first value that has it, of those whose shape is read."""
        self._lists: dict[tuple[tuple[Polynomial, ...], int, ElementType], Output | None] = {}
        self._noted = 0
        """The number of emitted layers whose dimensions are noted."""
        self._new_types: set[Output] = set()
        self.count = 0

    def run(self) -> None:
        nodes = self._part.nodes
        reads_shapes = bool(self._part.nodes_of((ShapeOf,)))
        if not reads_shapes and not any(sub.body in self._changed_bodies for n in nodes for sub in n.op.subgraphs):
            return
        for node in nodes:
            if node.op.data is not None:
                continue
            before = node.inputs
            if not node.op.role:
                self._builder.begin(node)
                self._simplify(node)
            if node.inputs != before:
                self.count += 1
                self._trace.matched(node)
            if self._must_infer(node, before):
                self._new_types.update(_infer_again(node))
            self._note(node)

    # --- walking ---

    def _note(self, node: Node) -> None:
        self._shapes.add(node)
        if isinstance(node.op, ShapeOf):
            dims = self._shapes.dims(node.inputs[0])
            if dims is not None:
                unknown = frozenset(dimension for dimension in dims if dimension.value is None)
                self._sources.setdefault(unknown, (node.inputs[0], dims))
                self._whole.setdefault(tuple(dims), node.inputs[0])

    def _must_infer(self, node: Node, before: Sequence[Output]) -> bool:
        if node.op.role == "parameter":
            return False
        if self._changed_bodies and any(sub.body in self._changed_bodies for sub in node.op.subgraphs):
            return True
        return node.inputs != before or not self._new_types.isdisjoint(node.inputs)

    # --- what reads dimensions ---

    def _simplify(self, node: Node) -> None:
        op = node.op
        reads = [index for index, source in enumerate(node.inputs) if self._shapes.is_computed(source)]
        if not reads:
            return
        if isinstance(op, Reshape1) and self._reshape(node):
            return
        if isinstance(op, Slice8) and self._slice(node):
            return
        if self._shapes.knows_elements_of(node) and not isinstance(op, _CALCULATED):
            return  # a step on the way, which nothing needs once its readers have shorter ways
        for index in reads:
            self._shorten(node, index, self._shapes.elements(node.inputs[index]))

    def _shorten(self, node: Node, index: int, elements: Any) -> None:
        """Let the layer read these elements by the shortest way."""
        source = node.inputs[index]
        if elements is None or source.tensor is not None or isinstance(source.node.op, _CALCULATED):
            return
        shortened = self._list(elements.reshape(-1).tolist(), elements.ndim, source.element_type)
        if shortened is not None and not _is_same(shortened, source):
            node.replace_input(index, shortened)

    def _reshape(self, node: Node) -> bool:
        assert isinstance(node.op, Reshape1)
        value, source = node.inputs
        if source.tensor is not None:
            return False
        dims, elements = self._shapes.dims(value), self._shapes.elements(source)
        if dims is None or elements is None:
            return False
        target = elements.reshape(-1).tolist()
        shape = reshaped(self._shapes, dims, target, node.op.special_zero)
        shorter = self._with_zeros(dims, target, shape, node.op.special_zero)
        if shorter is None:
            return False
        node.replace_input(1, self._builder.constant(shorter, source.element_type))
        self._note_emitted()
        node.op = Reshape1(special_zero=True)
        return True

    def _with_zeros(
        self,
        dims: Sequence[Polynomial],
        target: Sequence[Polynomial],
        shape: Sequence[Polynomial | None],
        special_zero: bool,
    ) -> list[int] | None:
        """The target with 0 for dimensions that the input has in the same place, and -1 for one other."""
        result: list[int] = []
        rest: list[int] = []
        for index, (requested, dimension) in enumerate(zip(target, shape)):
            if dimension is not None and index < len(dims) and dimension == dims[index] and dimension.value is None:
                result.append(0)
            elif requested.value is not None and requested.value > 0:
                result.append(requested.value)
            elif requested.value == 0 and special_zero:
                result.append(0)
            else:
                result.append(-1)
                rest.append(index)
        if len(rest) > 1 or (rest and not self._follows(dims, result, shape, rest[0], target)):
            return None
        return result

    def _follows(
        self,
        dims: Sequence[Polynomial],
        reshape_target: Sequence[int],
        shape: Sequence[Polynomial | None],
        at: int,
        target: Sequence[Polynomial],
    ) -> bool:
        """True if the dimension ``at`` is what the others leave, for every shape of the inputs."""
        if target[at].value == -1:
            return True
        have = product(
            dimension for i, dimension in enumerate(dims) if i >= len(reshape_target) or reshape_target[i] != 0
        )
        others = product(Polynomial.constant(size) for i, size in enumerate(reshape_target) if i != at and size != 0)
        requested = shape[at]
        return requested is not None and have == others * requested

    def _slice(self, node: Node) -> bool:
        """Let stops at the end of a dimension be the end, and starts as far from it as it is long the beginning."""
        dims = self._shapes.dims(node.inputs[0])
        lists = [self._shapes.elements(source) for source in node.inputs[1:]]
        if dims is None or any(bounds is None for bounds in lists):
            return False
        starts, stops, steps, *named = [bounds.reshape(-1).tolist() for bounds in lists if bounds is not None]
        axes = [element.value for element in named[0]] if named else list(range(len(stops)))
        if any(axis is None for axis in axes):
            return False
        sizes = [dims[axis] for axis in axes]
        reach = [
            step.value == 1 and self._shapes.reaches_end(stop, size) for stop, step, size in zip(stops, steps, sizes)
        ]
        if node.inputs[2].tensor is None and any(reach):
            ends = [Polynomial.constant(_END) if whole else stop for whole, stop in zip(reach, stops)]
            self._shorten(node, 2, _shaped(ends, lists[1]))
        elif not any(reach):
            self._shorten(node, 2, lists[1])
        zero = Polynomial.constant(0)
        begins = [zero if (start + size).value == 0 else start for start, size in zip(starts, sizes)]
        self._shorten(node, 1, _shaped(begins, lists[0]))
        return True

    # --- emitting lists ---

    def _list(self, elements: Sequence[Polynomial], rank: int, element_type: ElementType) -> Output | None:
        """A list (or with rank 0 a number) of these elements; None where there is no way to one of them."""
        if rank > 1 or not elements:
            return None
        key = (tuple(elements), rank, element_type)
        if key not in self._lists:
            self._lists[key] = self._emit(elements, rank, element_type)
            self._note_emitted()
        return self._lists[key]

    def _emit(self, elements: Sequence[Polynomial], rank: int, element_type: ElementType) -> Output | None:
        if all(element.value is not None for element in elements):
            values = [element.value for element in elements]
            return self._builder.constant(values if rank else values[0], element_type)
        if rank == 0:
            return self._number(elements[0], element_type)
        whole = self._whole.get(tuple(elements))
        if whole is not None:
            return self._builder.emit(ShapeOf3(output_type=element_type), whole)
        parts = self._parts(elements, element_type)
        if parts is None or len(parts) == 1:
            return None if parts is None else parts[0]
        return self._builder.emit(Concat1(axis=0), *parts)

    def _parts(self, elements: Sequence[Polynomial], element_type: ElementType) -> list[Output] | None:
        """Constants, dimensions of one tensor, and single elements, one after another."""
        parts: list[Output] = []
        at = 0
        while at < len(elements):
            count = next((i for i, element in enumerate(elements[at:]) if element.value is None), len(elements) - at)
            if count:
                parts.append(
                    self._builder.constant([element.value for element in elements[at : at + count]], element_type)
                )
                at += count
                continue
            source, count = self._run(elements[at:])
            if source is not None:
                parts.append(self._dimensions(source, elements[at : at + count], element_type))
                at += count
                continue
            whole, count = self._list_with(elements[at:], element_type)
            number = whole or self._number(elements[at], element_type, rank=1)
            if number is None:
                return None
            parts.append(number)
            at += count
        return parts

    def _list_with(self, elements: Sequence[Polynomial], element_type: ElementType) -> tuple[Output | None, int]:
        """Return the list that has the leading elements in this order, and its length; else None and 1."""
        place = self._shapes.place(elements[0])
        if place is None or place[0].element_type is not element_type or place[0].shape.rank != 1:
            return None, 1
        values = self._shapes.elements(place[0])
        if values is None or values.size < 2 or list(elements[: values.size]) != values.tolist():
            return None, 1
        return place[0], values.size

    def _run(self, elements: Sequence[Polynomial]) -> tuple[tuple[Output, list[Polynomial]] | None, int]:
        """The first source of the most leading elements, and how many these are."""
        best, most = None, 0
        for elements_of_source, source in self._sources.items():
            count = next((i for i, element in enumerate(elements) if element not in elements_of_source), len(elements))
            if count > most:
                best, most = source, count
        return best, most

    def _dimensions(
        self, source: tuple[Output, list[Polynomial]], requested: Sequence[Polynomial], element_type: ElementType
    ) -> Output:
        value, dims = source
        shape = self._builder.emit(ShapeOf3(output_type=element_type), value)
        if list(requested) == dims:
            return shape
        axes = [dims.index(dimension) for dimension in requested]
        return self._builder.emit(Gather8(), shape, self._builder.constant(axes), self._builder.constant(0))

    def _number(self, requested: Polynomial, element_type: ElementType, rank: int = 0) -> Output | None:
        """One element as a number, or with rank 1 as a list."""
        source, count = self._run([requested])
        if count and source is not None:
            shape = self._builder.emit(ShapeOf3(output_type=element_type), source[0])
            index = source[1].index(requested)
            if rank and len(source[1]) == 1:
                return shape
            at = self._builder.constant([index] if rank else index)
            return self._builder.emit(Gather8(), shape, at, self._builder.constant(0))
        place = self._shapes.place(requested)
        if place is None:
            return None
        value, index = place
        if value.element_type is not element_type:
            value = self._builder.emit(Convert1(destination_type=element_type), value)
        if value.shape.rank == 0:
            return self._builder.emit(Unsqueeze1(), value, self._builder.constant([0])) if rank else value
        if value.shape.rank > 1:
            return None
        if rank and value.shape.static() == (1,):
            return value
        at = self._builder.constant([index] if rank else index)
        return self._builder.emit(Gather8(), value, at, self._builder.constant(0))

    def _note_emitted(self) -> None:
        """Note the dimensions of new layers."""
        for layer in self._builder.emitted[self._noted :]:
            self._shapes.add(layer)
        self._noted = len(self._builder.emitted)


def _infer_again(node: Node) -> list[Output]:
    """Infer the types of a layer whose inputs are known more exactly; return the outputs whose types have changed.

    Its new inputs have the values of the old ones, so that only the model itself can contradict them.
    """
    try:
        return infer_node(node)
    except InferenceError as error:
        place = f"layer '{node.name}' ({node.op.type})" if node.origin is None else str(node.origin)
        raise ContradictionError(f"{place}: {error}") from error


def _shaped(elements: Sequence[Polynomial], like: Any) -> Any:
    copy = like.copy()
    copy.reshape(-1)[:] = elements
    return copy


def _is_same(candidate: Output, output: Output) -> bool:
    """True if a new value is computed as a known one is, of the same weights and equal small constants."""
    pending, compared = [(candidate, output)], set[tuple[Output, Output]]()
    while pending:
        pair = pending.pop()
        a, b = pair
        if a is b or pair in compared:
            continue
        compared.add(pair)
        if a.index != b.index or type(a.node.op) is not type(b.node.op) or len(a.node.inputs) != len(b.node.inputs):
            return False
        if a.tensor is not None or b.tensor is not None:
            if not _are_equal_lists(a, b):
                return False
            continue
        if not a.node.inputs or a.node.op.attributes() != b.node.op.attributes():
            return False
        pending.extend(zip(a.node.inputs, b.node.inputs))
    return True


def _are_equal_lists(a: Output, b: Output) -> bool:
    if a.tensor is None or b.tensor is None or a.element_type is not b.element_type or a.shape != b.shape:
        return False
    return a.tensor.size <= BOUNDS_LIMIT and a.tensor.array().tolist() == b.tensor.array().tolist()
