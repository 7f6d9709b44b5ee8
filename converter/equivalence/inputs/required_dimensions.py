"""Dynamic dimensions of inputs for which the layers of a model accept one length only.

    x [n, ?, h, w] -> Convolution(weights [16, 3, 3, 3])      x has 3 channels
    x [n, ?, ?] -> Transpose -> MatMul(weights [64, 8])       the dimension that becomes the last one is 64

The operations know what they accept: ``infer`` refuses an interval in which no length fits. The dimensions of a
layer's inputs are polynomials in those of the model's inputs: see :mod:`ir_runtime.analysis.symbolic_shapes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from converter.equivalence.inputs.dimensions import with_dimensions
from ir_runtime import Port
from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.errors import ModelError
from ir_runtime.graph import Dimension, Model, Node, PartialShape, TensorType
from ir_runtime.graph.shape_inference import infer_types

_LONGEST = 2**31 - 1
"""A length that no weights have, and a prime number, which no Reshape divides."""


def with_required_dimensions(model: Model, ports: Sequence[Port]) -> list[Port]:
    """Return the model's ``ports`` with the lengths that layers require instead of dynamic dimensions."""
    shapes = symbolic_shapes()
    own = [shapes.dims(parameter.outputs[0]) or () for parameter in model.parameters]
    dynamic = {dimension for dims in own for dimension in dims if dimension.value is None}
    required: dict[Polynomial, int] = {}
    for node in model.nodes():
        if node.op.subgraphs or node.op.role:
            continue
        inputs = [shapes.dims(value) for value in node.inputs]
        for dimension in {dimension for dims in inputs for dimension in dims or ()} & dynamic - required.keys():
            length = _only_length(functools.partial(_accepts, node, inputs, dimension))
            if length is not None:
                required[dimension] = length
    return [
        with_dimensions(port, PartialShape([required.get(dimension) for dimension in dims]))
        for port, dims in zip(ports, own)
    ]


def _only_length(accepts: Callable[[Dimension], bool]) -> int | None:
    """Return the only length that is accepted, 1 apart, which may be repeated; None where there are several."""
    if accepts(Dimension(_LONGEST, _LONGEST)):
        return None
    low, high = 2, _LONGEST
    while low < high:
        middle = (low + high) // 2
        if accepts(Dimension(low, middle)):
            if accepts(Dimension(middle + 1, high)):
                return None
            high = middle
        else:
            low = middle + 1
    return next((length for length in (low, 1) if accepts(Dimension(length, length))), None)


def _accepts(node: Node, inputs: Sequence[Sequence[Polynomial] | None], dimension: Polynomial, size: Dimension) -> bool:
    """Return True if inference accepts the layer where ``dimension`` of its inputs is ``size``."""
    types = [
        TensorType(value.element_type, PartialShape([size if own == dimension else own.value for own in dims]))
        if dims is not None and dimension in dims
        else value.type
        for value, dims in zip(node.inputs, inputs)
    ]
    try:
        infer_types(node.op, types)
    except ModelError:
        return False
    return True
