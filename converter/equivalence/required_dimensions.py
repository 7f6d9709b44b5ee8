"""Dynamic dimensions of inputs that the weights of a model determine.

    x [n, ?, h, w] -> Convolution(weights [16, 3, 3, 3])      x has 3 channels
    x [n, ?, ?] -> Transpose -> MatMul(weights [64, 8])       the dimension that becomes the last one is 64

The dimensions of a layer's inputs are polynomials in those of the model's inputs: see
:mod:`ir_runtime.analysis.symbolic_shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from converter.equivalence.dimensions import with_dimensions
from ir_runtime import Port
from ir_runtime.analysis.polynomials import Polynomial, product
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Model, Node, PartialShape, normalize_axis
from ir_runtime.operations.convolution import (
    Convolution1,
    ConvolutionBackpropData1,
    GroupConvolution1,
    GroupConvolutionBackpropData1,
)
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.grid_sample import GridSample9
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.normalization import BatchNormInference5
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5
from ir_runtime.operations.slicing import VariadicSplit1

_Dims = Sequence[Polynomial]
_Equations = Iterator[tuple[Polynomial, Polynomial]]

_EQUATIONS: dict[type, Callable[[Any, Sequence[_Dims]], _Equations]] = {}


def with_required_dimensions(model: Model, ports: Sequence[Port]) -> list[Port]:
    """Return the model's ``ports`` with dimensions that layers with weights require in the place of dynamic ones."""
    shapes = symbolic_shapes()
    places: dict[Polynomial, tuple[int, int]] = {}
    for number, node in enumerate(model.parameters):
        for axis, size in enumerate(shapes.dims(node.outputs[0]) or ()):
            places.setdefault(size, (number, axis))
    required: dict[tuple[int, int], int] = {}
    for node in model.nodes():
        inputs = [shapes.dims(value) for value in node.inputs]
        for left, right in _equations(node, inputs):
            for dimension, length in ((left, right.value), (right, left.value)):
                place = places.get(dimension)
                if place is not None and dimension.value is None and length is not None:
                    required.setdefault(place, length)
    return [
        with_dimensions(port, PartialShape([required.get((number, axis)) for axis in range(port.partial_shape.rank)]))
        if port.partial_shape.has_rank
        else port
        for number, port in enumerate(ports)
    ]


def _equations(node: Node, inputs: Sequence[_Dims | None]) -> _Equations:
    """Pairs of dimensions that have to be equal."""
    equations = _EQUATIONS.get(type(node.op)) or (_of_elements if isinstance(node.op, Binary) else None)
    if equations is None or any(dims is None for dims in inputs):
        return
    try:
        yield from equations(node, [dims for dims in inputs if dims is not None])
    except IndexError:  # of ranks that the layer refuses
        return


def _equations_of(*operations: type) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _EQUATIONS.update(dict.fromkeys(operations, function))
        return function

    return register


def _of_elements(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    if getattr(node.op, "auto_broadcast", "") != "numpy":
        return
    for left, right in zip(reversed(inputs[0]), reversed(inputs[1])):
        if 1 not in (left.value, right.value):  # which would be repeated
            yield left, right


@_equations_of(MatMul1)
def _of_product(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    op: Any = node.op
    left, right = inputs
    rows = -2 if op.transpose_a and len(left) > 1 else -1
    columns = -1 if op.transpose_b or len(right) == 1 else -2
    yield left[rows], right[columns]


@_equations_of(Convolution1, ConvolutionBackpropData1, GroupConvolution1, GroupConvolutionBackpropData1)
def _of_convolution(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    data, weights = inputs[:2]
    is_transposed = isinstance(node.op, (ConvolutionBackpropData1, GroupConvolutionBackpropData1))
    is_grouped = isinstance(node.op, (GroupConvolution1, GroupConvolutionBackpropData1))
    channels = weights[is_grouped + (not is_transposed)]
    yield data[1], product([weights[0], channels]) if is_grouped else channels


@_equations_of(BatchNormInference5)
def _of_batch_normalization(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    yield inputs[0][1], inputs[1][0]


@_equations_of(LSTMSequence5, GRUSequence5, RNNSequence5)
def _of_recurrence(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    data, state, weights, recurrence = inputs[0], inputs[1], inputs[-3], inputs[-2]
    yield data[2], weights[2]
    yield state[1], weights[0]
    yield state[2], recurrence[2]
    if isinstance(node.op, LSTMSequence5):
        yield inputs[2][2], recurrence[2]


@_equations_of(GridSample9)
def _of_grid(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    yield inputs[1][-1], Polynomial.constant(2)


@_equations_of(VariadicSplit1)
def _of_split(node: Node, inputs: Sequence[_Dims]) -> _Equations:
    axis, lengths = (value.type.constant for value in node.inputs[1:])
    if axis is not None and lengths is not None and (lengths >= 0).all():
        yield (
            inputs[0][normalize_axis(int(axis.reshape(-1)[0]), len(inputs[0]))],
            Polynomial.constant(int(lengths.sum())),
        )
