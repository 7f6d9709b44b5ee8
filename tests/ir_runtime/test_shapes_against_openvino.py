"""Shapes that are inferred from partial knowledge are at least as tight as OpenVINO's own.

Each call is written as a model of one layer whose inputs are parameters with partial shapes, and constants.
Where the call itself contradicts OpenVINO's shape, it is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

import ir_runtime
from ir_runtime.graph.model import Model, Output
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from tests.engines import core
from tests.ir_runtime.calls import CALLS, Call
from tests.ir_runtime.relaxation import relaxed_shape

CALLS_OF_EACH, RELAXATIONS = 8, 3

ENDLESS = 1 << 24
"""From here on an upper bound is none: OpenVINO divides its greatest dimension and the far ends of slices."""

EMPTY = "OpenVINO leaves out data without elements, which have a shape here and in its own kernels"

LOOSER = {
    "Reshape-1": EMPTY,
    "ConvolutionBackpropData-1": EMPTY,
    "GroupConvolutionBackpropData-1": EMPTY,
    "GroupConvolution-1": "an unknown number of groups is not made of the channels: weights are known in models",
    "NonMaxSuppression-4": "OpenVINO states the most rows, where there are as many as boxes taken",
    "RDFT-9": "OpenVINO takes lengths that it does not know for those of the data",
    "ScaledDotProductAttention-13": "OpenVINO takes ranks that it does not know for that of the query",
}
"""What is less tight here, and why."""

WITHOUT_SHAPES = {"Assign", "Const", "ReadValue", "Result"}
"""A single layer of these makes no model, or one without anything to infer."""


def _chosen() -> dict[str, list[Call]]:
    of_each: dict[str, list[Call]] = defaultdict(list)
    for call in CALLS:
        if call.op.type not in WITHOUT_SHAPES and call.op.opset and not call.op.subgraphs and call.arrays:
            of_each[f"{call.op.type}-{call.op.opset}"].append(call)
    return {name: calls[:: -(-len(calls) // CALLS_OF_EACH)] for name, calls in of_each.items()}


CHOSEN = _chosen()


def _relaxed(call: Call, random: np.random.Generator) -> list[TensorType]:
    """The first input mostly of less than everything, the others mostly constants, as in real models."""
    types = []
    for index, (array, kind) in enumerate(zip(call.arrays, call.kinds)):
        if index in call.fixed or random.random() < (0.75 if index else 0.1):
            types.append(call.exact(index))
        else:
            exact = index in call.shaped
            types.append(TensorType(kind, PartialShape(array.shape) if exact else relaxed_shape(array.shape, random)))
    return types


def _model(call: Call, types: list[TensorType]) -> Model:
    parameters, sources = [], list[Output]()
    for index, kind in enumerate(types):
        if kind.tensor is not None:
            node = make_node(find_operation("Const", 1)(value=kind.tensor), [], f"constant{index}")
        else:
            op = find_operation("Parameter", 1)(element_type=kind.element_type, shape=kind.shape)
            node = make_node(op, [], f"parameter{index}")
            parameters.append(node)
        sources += node.outputs
    layer = make_node(call.op, sources, "layer")
    result = find_operation("Result", 1)
    return Model("one", parameters, [make_node(result(), [out], f"result{out.index}") for out in layer.outputs])


def _inferred(call: Call, types: list[TensorType]) -> Iterator[tuple[PartialShape, PartialShape]]:
    """Our shape and OpenVINO's of each output; nothing where OpenVINO refuses what the kernel here takes."""
    model = _model(call, types)
    if not model.parameters:
        return
    xml, weights = ir_runtime.model_to_bytes(model)
    try:
        theirs = core().read_model(xml, weights) if weights else core().read_model(xml)
    except RuntimeError:
        return
    for ours, other, value in zip(model.outputs, theirs.outputs, call.outputs):
        shape = PartialShape.parse(str(other.get_partial_shape()))
        if shape.accepts(value.shape):
            yield ours.shape, shape


def says_as_much(ours: PartialShape, theirs: PartialShape) -> bool:
    if not (ours.has_rank and theirs.has_rank):
        return ours.has_rank or not theirs.has_rank
    pairs = list(zip(ours, theirs))
    return ours.rank == theirs.rank and all(
        a.low >= b.low and (a.high <= b.high or b.high >= ENDLESS) for a, b in pairs
    )


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_shapes_say_as_much_as_those_of_openvino(name: str) -> None:
    compared, looser = 0, []
    for call in CHOSEN[name]:
        random = np.random.default_rng(call.seed + 1)
        for _ in range(RELAXATIONS):
            types = _relaxed(call, random)
            for ours, theirs in _inferred(call, types):
                compared += 1
                if not says_as_much(ours, theirs):
                    given = "; ".join(map(str, types))
                    looser.append(f"{call.label} of {given}: {ours}, but OpenVINO has {theirs}")
    assert compared
    assert bool(looser) == (name in LOOSER), looser[:3] or f"{LOOSER[name]}: no longer so"
