"""What is inferred holds what is computed, however little is known, and is as tight as what OpenVINO infers."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph import Model, Output, PartialShape, TensorType, element_types, infer_types, make_node
from ir_runtime.graph.operation import all_operations, find_operation
from ir_runtime.operations.type_promotion import ConvertPromoteTypes14
from tests.engines import core
from tests.ir_runtime.operations.relaxation import OF_REVISION, RANDOM, contradiction, name_of, relaxed, relaxed_shape
from tests.rows.layer import Layer
from tests.rows.table import layer_table

RELAXATIONS = 20
"""How often less than everything about the inputs of a call is told."""

OPERATIONS = all_operations()
"""Those of the package: extensions that other tests load register more."""
UNCALLED = {"Parameter-1": "its value comes from the caller, and its type from its attributes"}


def test_every_operation_is_called() -> None:
    assert {name_of(cls) for cls in OPERATIONS} - set(OF_REVISION) == set(UNCALLED)
    assert {name for name, count in Counter(call.label for call in layer_table()).items() if count > 1} == set()


def _knowledge(call: Layer) -> Iterator[list[TensorType]]:
    """First everything about the inputs, then less."""
    yield [call.exact(index) for index in range(len(call.arrays))]
    random = np.random.default_rng(call.seed)
    for _ in range(RELAXATIONS):
        yield relaxed(call, random)


def _shown(types: list[TensorType]) -> str:
    parts = []
    for kind in types:
        bounds = kind.known_bounds
        parts.append(str(kind) if bounds is None else f"{kind} of {bounds.lower.tolist()} to {bounds.upper.tolist()}")
    return "; ".join(parts)


@pytest.mark.parametrize("name", sorted(OF_REVISION))
def test_inferred_types_hold_the_outputs(name: str) -> None:
    for call in OF_REVISION[name]:
        for types in _knowledge(call):
            what = f"{call.label} with {_shown(types)}"
            try:
                found = infer_types(call.op, types)
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
            assert len(found) == len(call.outputs), what
            for index, (kind, value) in enumerate(zip(found, call.outputs)):
                wrong = contradiction(kind, value, values=name not in RANDOM)
                assert not wrong, f"{what}, output {index}: {wrong}"


CALLS_OF_EACH, RELAXATIONS_OF_EACH = 12, 6

ENDLESS = 1 << 24
"""From here on an upper bound is none: OpenVINO divides its greatest dimension and the far ends of slices."""

EMPTY = "OpenVINO leaves out data without elements, which have a shape here and in its own kernels"

LOOSER = {
    "Reshape-1": EMPTY,
    "ConvolutionBackpropData-1": EMPTY,
    "GroupConvolutionBackpropData-1": EMPTY,
    **dict.fromkeys(
        ("NonMaxSuppression-1", "NonMaxSuppression-3", "NonMaxSuppression-4"),
        "OpenVINO states the most rows, where there are as many as boxes taken",
    ),
    "RandomUniform-8": "OpenVINO takes a list of at most two numbers for one of two",
    **dict.fromkeys(("IRDFT-9", "RDFT-9"), "OpenVINO takes lengths that it does not know for those of the data"),
    "StringTensorUnpack-15": "OpenVINO counts the bytes where there are no texts",
    "Unique-10": "OpenVINO takes dimensions that may be 0 for 1 at least",
    "ScaledDotProductAttention-13": "OpenVINO takes ranks that it does not know for that of the query",
}
"""What is less tight here, and why."""

WITHOUT_SHAPES = {"Assign", "Const", "ReadValue", "Result"}
"""A single layer of these makes no model, or one without anything to infer."""


def _chosen() -> dict[str, list[Layer]]:
    of_each: dict[str, list[Layer]] = defaultdict(list)
    for call in layer_table():
        if call.op.type not in WITHOUT_SHAPES and call.op.opset and not call.op.subgraphs and call.arrays:
            of_each[f"{call.op.type}-{call.op.opset}"].append(call)
    return {name: calls[:: -(-len(calls) // CALLS_OF_EACH)] for name, calls in of_each.items()}


CHOSEN = _chosen()


def _relaxed(call: Layer, random: np.random.Generator) -> list[TensorType]:
    """The first input mostly of less than everything, the others mostly constants, as in real models."""
    types = []
    for index, (array, kind) in enumerate(zip(call.arrays, call.kinds)):
        if index in call.fixed or random.random() < (0.75 if index else 0.1):
            types.append(call.exact(index))
        else:
            exact = index in call.shaped
            types.append(TensorType(kind, PartialShape(array.shape) if exact else relaxed_shape(array.shape, random)))
    return types


def _model(call: Layer, types: list[TensorType]) -> Model:
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


def _inferred(call: Layer, types: list[TensorType]) -> Iterator[tuple[PartialShape, PartialShape]]:
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
        for _ in range(RELAXATIONS_OF_EACH):
            types = _relaxed(call, random)
            for ours, theirs in _inferred(call, types):
                compared += 1
                if not says_as_much(ours, theirs):
                    given = "; ".join(map(str, types))
                    looser.append(f"{call.label} of {given}: {ours}, but OpenVINO has {theirs}")
    assert compared
    assert bool(looser) == (name in LOOSER), looser[:3] or f"{LOOSER[name]}: no longer so"


KINDS = [kind for kind in element_types.ALL if kind.name not in ("dynamic", "string")]


def promoted_by_openvino(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    nodes = [
        ops.parameter(openvino.PartialShape(str(x.shape)), getattr(openvino.Type, x.element_type.name)) for x in (a, b)
    ]
    try:
        node = ops.convert_promote_types(*nodes, **attributes)
    except RuntimeError:
        return None
    assert node.output(0).get_element_type() == node.output(1).get_element_type()
    return node.output(0).get_element_type().get_type_name()


def promoted(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    try:
        types = ConvertPromoteTypes14(**attributes).infer([a, b])
    except ir_runtime.ModelError:
        return None
    assert [t.shape for t in types] == [a.shape, b.shape]
    assert types[0].element_type is types[1].element_type
    return str(types[0].element_type)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("target", ["f32", "i64"])
@pytest.mark.parametrize("shapes", [("2", "2"), ("2", ""), ("", "?"), ("...", "")])
def test_promotion_of_every_pair_of_types(unsafe: bool, scalars: bool, target: str, shapes: tuple[str, str]) -> None:
    attributes = {"promote_unsafe": unsafe, "pytorch_scalar_promotion": scalars, "u64_integer_promotion_target": target}
    for pair in itertools.product(KINDS, repeat=2):
        a, b = (TensorType(kind, PartialShape.parse(shape)) for kind, shape in zip(pair, shapes))
        assert promoted(attributes, a, b) == promoted_by_openvino(attributes, a, b), (pair, attributes)
