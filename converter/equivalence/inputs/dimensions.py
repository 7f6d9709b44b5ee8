"""Sizes for the dynamic dimensions of inputs: dimensions of one name get one size; several are tried in turn."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from converter.equivalence.reference.reference_model import ReferenceModel
from converter.onnx_file.graph import operator_of
from ir_runtime import Port
from ir_runtime.graph import Dimension, PartialShape
from ir_runtime.records import record

Shapes = dict[str, tuple[int, ...]]


@record
class _Sizes:
    """Sizes for dynamic dimensions: the first one, those of images, all others."""

    batch: int
    space: int
    other: int
    sound: int = 0
    """For real inputs of at most three dimensions, such as sound; 0 for as ``other``."""


# Small sizes first; then what models with strides, windows and fixed heads need. Of smaller images a network that
# halves them several times has one pixel left.
_TRIED = [
    _Sizes(2, 128, 8),
    _Sizes(1, 128, 8),
    _Sizes(2, 32, 8),
    _Sizes(1, 32, 8),
    _Sizes(2, 64, 16),
    _Sizes(1, 64, 16),
    _Sizes(1, 64, 1),
    _Sizes(1, 128, 4),
    _Sizes(1, 224, 32),
    _Sizes(1, 256, 64),
    _Sizes(1, 224, 128),
    _Sizes(1, 320, 512),
    _Sizes(1, 640, 256, 16000),
    _Sizes(1, 48, 3),
    _Sizes(1, 1, 1),
    _Sizes(4, 512, 256),
    _Sizes(8, 32, 8),
    # Widths that 3, 5 and 7 heads divide.
    _Sizes(2, 32, 24),
    _Sizes(1, 32, 840),
]
# Sizes that differ from those of the first runs.
_OTHER = [
    _Sizes(3, 160, 5),
    _Sizes(1, 160, 12),
    _Sizes(3, 48, 5),
    _Sizes(3, 96, 12),
    _Sizes(1, 96, 12),
    _Sizes(1, 160, 24),
    _Sizes(3, 32, 8),
    _Sizes(1, 32, 7),
]
_LARGER = [_Sizes(1, 224, 32), _Sizes(1, 320, 64)]
_LONGEST = 4096
_STRIDES = (1, 2, 4, 8)
_MOST_TABLES = 8
_PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "Gather", "LSTM", "GRU", "RNN"}
"""Operators whose weights do not have the length of the data."""
_MOST_OF_ALL_DYNAMIC = 32
"""The largest width and height of images whose channels are dynamic, too, as those inside a network are."""
_CHANNELS = (1, 3, 4)
"""Of images; other inputs of four dimensions are caches and the like, whose lengths go with those of sequences."""


def has_dynamic_dimensions(ports: Sequence[Port]) -> bool:
    """True if any input has a dynamic dimension."""
    return any(not port.partial_shape.is_static for port in ports)


def with_dimensions(port: Port, shape: PartialShape) -> Port:
    """The port with the dimensions of ``shape`` that fit its own."""
    own = port.partial_shape
    if not own.has_rank or not shape.has_rank or shape.rank != own.rank:
        return port
    return replace(port, partial_shape=PartialShape([a.merge(b) or a for a, b in zip(own, shape)]))


@record
class ShapeCandidates:
    """Shapes to try for the inputs of an IR. ``names`` gives the ONNX input of each port; ``masks`` are ports."""

    ports: Sequence[Port]
    graph: ReferenceModel
    names: Mapping[str, str]
    masks: Collection[str]

    def usual(self) -> Iterator[Shapes]:
        """Shapes by the ports' names, the most usual first.

        Dimensions that the ONNX file gives one name are equal, and one whose name is a sum of names has that sum. A
        mask beside caches is as long as the cached tokens and the new ones together.
        """
        yield from self._distinct(_TRIED)

    def declared(self) -> Iterator[Shapes]:
        """Shapes with the dimensions that the ONNX file declares, where those of the IR are dynamic."""
        ports = [self._with_declared(port) for port in self.ports]
        if ports != list(self.ports):
            yield from replace(self, ports=ports).usual()

    def _with_declared(self, port: Port) -> Port:
        name = self.names.get(port.name, "")
        return with_dimensions(port, self.graph.declared(name))

    def others(self, used: Shapes) -> Iterator[Shapes]:
        """Shapes that differ from ``used``."""
        for shapes in self._distinct(_OTHER):
            if shapes != used:
                yield shapes

    def beyond(self, used: Shapes, ports: Sequence[Port]) -> Iterator[Shapes]:
        """Shapes in which one dimension is longer than the only length that layers take.

        ``ports`` have the dimensions as they are declared. Dimensions of one name are longer together.
        """
        groups: dict[object, list[tuple[str, int]]] = {}
        for declared, port in zip(ports, self.ports):
            if not declared.partial_shape.has_rank:
                continue
            name = self.names.get(port.name, "")
            symbols = self.graph.dim_params(name)
            for axis, (wide, dimension) in enumerate(zip(declared.partial_shape, port.partial_shape)):
                if dimension.is_static and not wide.is_static and used[port.name][axis] < wide.high:
                    symbol = symbols[axis] if axis < len(symbols) else ""
                    groups.setdefault(symbol or (port.name, axis), []).append((port.name, axis))
        for axes in groups.values():
            yield {
                name: tuple(size + ((name, axis) in axes) for axis, size in enumerate(shape))
                for name, shape in used.items()
            }

    def larger(self, used: Shapes) -> Iterator[Shapes]:
        """Shapes of more elements than ``used``."""
        for shapes in self._distinct(_LARGER):
            if _elements(shapes) > _elements(used):
                yield shapes

    def fixed_by_weights(self) -> Iterator[Shapes]:
        """Shapes of models that take one length or size only: that of a table that is added to the data.

        Example: Whisper's encoder halves the length of its input, and adds a table of 1500 positions.
        """
        lengths = _rows_of_tables(self.graph)[:_MOST_TABLES]
        sizes = [_Sizes(1, 128, 8, length * stride) for length in lengths for stride in _STRIDES]
        sizes += [_Sizes(1, 128, length * stride) for length in lengths for stride in _STRIDES]
        sizes += [_Sizes(1, side, 8) for length in lengths for side in _sides(self.graph, length)]
        yield from self._distinct(sizes)

    def _distinct(self, tried: Sequence[_Sizes]) -> Iterator[Shapes]:
        seen: list[Shapes] = []
        for sizes in tried:
            plain = _shapes(self.ports, self.graph, self.names, sizes)
            for shapes in (_with_caches(self.ports, plain, self.masks), plain):
                if shapes not in seen:
                    seen.append(shapes)
                    yield shapes


def _rows_of_tables(graph: ReferenceModel) -> list[int]:
    """The rows of the weights that nodes join with data element by element, and the declared dimensions of outputs."""
    table_sizes = []
    for node in graph.operators:
        for value in node.inputs if operator_of(node).op_type not in _PRODUCTS else ():
            if value.node.op.role == "constant" and value.shape.rank >= 2:
                table_sizes.append(value.shape[-2].value)
    for value in graph.outputs.values():
        table_sizes += [dim.dim_value for dim in value.type.tensor_type.shape.dim if dim.HasField("dim_value")]
    return sorted({rows for rows in table_sizes if 1 < rows <= _LONGEST}, reverse=True)


def _sides(graph: ReferenceModel, rows: int) -> Iterator[int]:
    """Sides of square images of which a convolution makes ``rows`` patches, or these beside a class token."""
    kernels = {
        kernel.shape[-1].value
        for node in graph.operators
        if operator_of(node).op_type == "Conv"
        for kernel in node.inputs[1:2]
        if kernel.node.op.role == "constant" and kernel.shape.rank == 4
    }
    for count in (rows, rows - 1):
        side = math.isqrt(max(count, 0))
        if side * side == count:
            yield from (side * kernel for kernel in sorted(kernels) if kernel > 1)


def _elements(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


_CACHED = 2
"""The axis of a cache that counts tokens; the others are batch, heads and the width of a head."""


def _with_caches(ports: Sequence[Port], shapes: Shapes, masks: Collection[str]) -> Shapes:
    """``shapes`` with masks as long as cached and new tokens together, where caches have a dynamic length."""
    cached = [
        shapes[port.name][_CACHED]
        for port in ports
        if port.element_type.is_real
        and port.partial_shape.has_rank
        and port.partial_shape.rank == _CACHED + 2
        and not port.partial_shape[_CACHED].is_static
        and port.partial_shape[_CACHED + 1].is_static
    ]
    tokens = [
        shapes[port.name][1]
        for port in ports
        if port.element_type.is_integral and port.name not in masks and len(shapes[port.name]) == 2
    ]
    if not cached or not tokens:
        return shapes
    longer = dict(shapes)
    for port in ports:
        if port.name in masks and port.partial_shape.has_rank and not port.partial_shape[-1].is_static:
            longer[port.name] = (*shapes[port.name][:-1], cached[0] + tokens[0])
    return longer


def _shapes(ports: Sequence[Port], graph: ReferenceModel, names: Mapping[str, str], sizes: _Sizes) -> Shapes:
    chosen = {
        symbol: dimension.value
        for port in ports
        if port.partial_shape.has_rank and port.name in names
        for symbol, dimension in zip(graph.dim_params(names[port.name]), port.partial_shape)
        if symbol and dimension.is_static
    }
    later: list[tuple[Port, int, str]] = []
    shapes: dict[str, list[int]] = {}
    for port in ports:
        name = names.get(port.name, "")
        if not port.partial_shape.has_rank:
            shapes[port.name] = [sizes.batch, 3, sizes.space, sizes.space]
            continue
        dims = port.partial_shape.dims
        symbols = graph.dim_params(name)
        shape = [0] * len(dims)
        other = sizes.sound or sizes.other if port.element_type.is_real and len(dims) <= 3 else sizes.other
        image = len(dims) >= 4 and any(not dims[at].is_static or dims[at].value in _CHANNELS for at in (1, -1))
        image = image and not (len(dims) == 4 and dims[-1].is_static and not dims[2].is_static)
        space = (
            sizes.space
            if sum(not dimension.is_static for dimension in dims[1:]) < 3
            else min(sizes.space, _MOST_OF_ALL_DYNAMIC)
        )
        for index, dimension in enumerate(dims):
            symbol = symbols[index] if index < len(symbols) else ""
            usual = sizes.batch if index == 0 and len(dims) > 1 else space if image else other
            if dimension.is_static:
                shape[index] = dimension.value
            elif symbol and not symbol.isidentifier():
                later.append((port, index, symbol))
                shape[index] = _within(dimension, usual)
            else:
                shape[index] = (
                    chosen.setdefault(symbol, _within(dimension, usual)) if symbol else _within(dimension, usual)
                )
        shapes[port.name] = shape
    for port, index, symbol in later:
        value = _evaluate(symbol, chosen, sizes.other)
        if value is not None:
            shapes[port.name][index] = _within(port.partial_shape.dims[index], value)
    return {name: tuple(shape) for name, shape in shapes.items()}


def _within(dimension: Dimension, usual: int) -> int:
    return int(max(dimension.low, min(dimension.high, usual)))


_OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _evaluate(symbol: str, chosen: dict[str, int], default: int) -> int | None:
    """The value of a dimension's name that is a sum or product of other names; None for any other text."""
    try:
        value = _term(ast.parse(symbol, mode="eval").body, chosen, default)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return value if value >= 0 else None


def _term(term: ast.AST, chosen: dict[str, int], default: int) -> int:
    if isinstance(term, ast.BinOp) and type(term.op) in _OPERATORS:
        return _OPERATORS[type(term.op)](_term(term.left, chosen, default), _term(term.right, chosen, default))
    if isinstance(term, ast.Name):
        return chosen.setdefault(term.id, default)
    if isinstance(term, ast.Constant) and isinstance(term.value, int):
        return term.value
    raise ValueError("neither a name, a number nor a sum of them")
