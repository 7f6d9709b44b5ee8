"""Facts that operation classes declare, checked against what they compute.

A declared fact holds in every call, and a fact that holds in every call is declared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.equivalence.inputs.input_values import fitting
from ir_runtime import ModelError, Node, Operation, Output, PartialShape, Tensor, TensorType
from ir_runtime.analysis.value_ranges import ValueRange, value_range
from ir_runtime.graph import Array, element_types, make_node
from ir_runtime.graph.attributes import format_attribute
from ir_runtime.graph.operation import OUTSIDE_OPSETS, all_operations
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.ir_runtime.operations.relaxation import OF_REVISION, RANDOM, name_of, operation, types
from tests.rows.layer import Layer

UNEXAMINED = {
    **dict.fromkeys(RANDOM, "its values differ from call to call"),
    **dict.fromkeys(("ReadValue-3", "ReadValue-6"), "it returns its input only where the variable has no value yet"),
}
OPERATIONS = all_operations()
"""Those of the package: extensions that other tests load register more."""
REVISIONS = sorted((cls for cls in OPERATIONS if name_of(cls) in {*OF_REVISION} - {*UNEXAMINED}), key=name_of)


def _evaluate(call: Layer, inputs: list[Array]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return as_tuple(call.op.evaluate(*inputs))


def _labels(data: Array, seed: int) -> Array | None:
    """Distinct numbers in random order, of both signs and with fractions where the type has them; None for few."""
    if data.dtype.kind not in "fiu" or data.dtype.itemsize < 4:
        return None
    labels = np.random.default_rng(seed).permutation(data.size) + 1
    if data.dtype.kind != "u":
        labels = labels * np.where(labels % 2, 300, -300)
    if data.dtype.kind == "f":
        labels = labels + 0.25
    return labels.reshape(data.shape).astype(data.dtype)


def _moves(call: Layer) -> bool | None:
    """Whether other elements in the same places come out in the same places; None where the call cannot tell."""
    if call.op.subgraphs or call.op.role or not call.arrays:
        return False
    first, second = (_labels(call.arrays[0], seed) for seed in (1, 2))
    if first is None or second is None or first.size < 3:
        return None
    rest = list(call.arrays[1:])
    try:
        pairs = list(zip(_evaluate(call, [first, *rest]), _evaluate(call, [second, *rest])))
    except (ModelError, ValueError, IndexError):
        return False  # the first input holds lengths or places
    renamed = dict(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist()))
    if not any(before.size for before, _ in pairs):
        return None
    return all(
        before.shape == after.shape
        and [renamed.get(value) for value in before.reshape(-1).tolist()] == after.reshape(-1).tolist()
        for before, after in pairs
    )


def _is_elementwise(call: Layer) -> bool | None:
    """Whether elements in other places come out in these places; None where the call cannot tell."""
    if call.op.subgraphs or call.op.role or not call.arrays:
        return False
    if getattr(call.op, "auto_broadcast", "numpy") == "pdpd":
        return None
    try:
        shape = np.broadcast_shapes(*[array.shape for array in call.arrays])
    except ValueError:
        return False
    if len(call.outputs) != 1 or call.outputs[0].shape != shape:
        return False
    order = np.random.default_rng(call.seed).permutation(call.outputs[0].size)
    if order.size < 3 or (order == np.arange(order.size)).all():
        return None

    def shuffled(array: Array) -> Array:
        return np.broadcast_to(array, shape).reshape(-1)[order].reshape(shape)

    inputs = [array if array.size == 1 else shuffled(array) for array in call.arrays]
    try:
        (result,) = _evaluate(call, inputs)
    except (ModelError, ValueError, IndexError, TypeError):
        return False
    expected = shuffled(call.outputs[0])
    if result.dtype.kind in "fV":
        return bool(np.allclose(result.astype(float), expected.astype(float), rtol=1e-6, atol=0, equal_nan=True))
    return np.array_equal(result, expected)


def _commutes(call: Layer) -> bool | None:
    """Whether the result is the same where two inputs change places; None where the call cannot tell."""
    if call.op.subgraphs or len(call.arrays) != 2:
        return False
    if getattr(call.op, "auto_broadcast", "numpy") == "pdpd" or np.array_equal(*call.arrays):
        return None
    try:
        results = _evaluate(call, call.arrays[::-1])
    except (ModelError, ValueError, IndexError, TypeError):
        return False
    pairs = zip(results, call.outputs)
    return all(np.array_equal(*pair, equal_nan=call.outputs[0].dtype.kind == "f") for pair in pairs)


@pytest.mark.parametrize("cls", [cls for cls in REVISIONS if cls.movement], ids=name_of)
def test_movement_takes_symbols(cls: type[Operation]) -> None:
    """Shapes are inferred by moving polynomials, which NumPy holds as objects."""
    for call in OF_REVISION[name_of(cls)]:
        data, *rest = call.arrays
        for result, expected in zip(_evaluate(call, [data.astype(np.object_), *rest]), call.outputs):
            np.testing.assert_array_equal(np.asarray(result).astype(expected.dtype), expected)


@pytest.mark.parametrize(
    ("fact", "holds"), [("movement", _moves), ("elementwise", _is_elementwise), ("commutative", _commutes)]
)
def test_a_fact_is_declared_where_it_holds(fact: str, holds: object) -> None:
    wrong = []
    for cls in REVISIONS:
        calls = sorted(OF_REVISION[name_of(cls)], key=lambda call: sum(array.size for array in call.arrays))
        results = map(holds, calls)  # type: ignore[call-overload]
        decided = (result for result in results if result is not None)
        if (next(decided, False) and all(decided)) is not getattr(cls, fact):
            wrong.append(f"{name_of(cls)}.{fact} is {getattr(cls, fact)}")
    assert not wrong, "; ".join(wrong)


WITHOUT_A_RANGE = {
    "sums and products of as many elements as the shapes tell, and their roundings":
        "AvgPool AdaptiveAvgPool Col2Im CumSum Convolution ConvolutionBackpropData BinaryConvolution "
        "GroupConvolution GroupConvolutionBackpropData DeformableConvolution MatMul GroupedMatMul Einsum "
        "ScaledDotProductAttention Inverse EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked "
        "EmbeddingBagPackedSum EmbeddingSegmentsSum SegmentMax ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSum "
        "CTCLoss DFT IDFT RDFT IRDFT STFT ISTFT BatchNormInference GRN LRN MVN NormalizeL2 GroupNormalization "
        "GridSample ROIAlign ROIAlignRotated ROIPooling PSROIPooling DeformablePSROIPooling "
        "ExperimentalDetectronROIFeatureExtractor I420toBGR I420toRGB NV12toBGR NV12toRGB BGRtoNV12 RGBtoNV12 "
        "GRUCell GRUSequence LSTMCell LSTMSequence RNNCell RNNSequence GroupQueryAttention",
    "cubic interpolation overshoots": "Interpolate",
    "carries bits of the type's width": "BitwiseLeftShift BitwiseOr BitwiseXor",
    "coordinates and scores are computed from several inputs":
        "DetectionOutput ExperimentalDetectronDetectionOutput ExperimentalDetectronGenerateProposalsSingleImage "
        "GenerateProposals ExperimentalDetectronPriorGridGenerator ExperimentalDetectronTopKROIs PriorBox "
        "PriorBoxClustered Proposal NonMaxSuppression NMSRotated MatrixNms MulticlassNms RegionYolo",
    "its bodies compute the values": "If Loop TensorIterator",
    "the caller or an earlier call decides the values": "Parameter ReadValue",
    "has no inputs, or is read by nobody": "Const Result Assign",
    "indices, filled with others": "CTCGreedyDecoder CTCGreedyDecoderSeqLen GatherTree",
    "strings, and places in them": "StringTensorPack StringTensorUnpack",
    "values and indices of several inputs in one output": "SparseFillEmptyRows",
    "the outputs have a type that both inputs decide": "ConvertPromoteTypes",
    "its scale and shift round to a type of 8 bits": "FakeConvert",
    "has poles": "Tan",
}  # fmt: skip
"""Why operations say nothing of the range of their outputs, and which those are."""


def _node(call: Layer) -> Node:
    """The call as a layer of constants, of whose outputs nothing is inferred."""
    inputs = [make_node(Const1(value=Tensor.from_array(array)), ()).outputs[0] for array in call.arrays]
    types = [TensorType(element_types.from_dtype(one.dtype), PartialShape(one.shape)) for one in call.outputs]
    return Node(call.op, inputs, types, "layer")


def _contradiction(values: ValueRange, array: Array) -> str:
    if array.dtype.kind in "iub":
        outside = not values.low <= int(array.min()) or not int(array.max()) <= values.high
        return f"{array.tolist()} is not within {values}" if outside else ""
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any() and not values.may_be_nan:
        return f"{numbers.tolist()} has NaN, which {values} has not"
    numbers = numbers[~np.isnan(numbers)]
    outside = ((numbers < values.low) | (numbers > values.high)).any()
    return f"{numbers.tolist()} is not within {values}" if outside else ""


def _has_elements(call: Layer) -> bool:
    return all(array.size and array.dtype != np.object_ for array in (*call.arrays, *call.outputs))


@pytest.mark.parametrize("name", sorted(set(OF_REVISION) - set(RANDOM)))
def test_values_lie_in_the_range_that_follows_from_the_inputs(name: str) -> None:
    for call in filter(_has_elements, OF_REVISION[name]):
        if call.op.role or call.op.subgraphs:
            continue
        for output, array in zip(_node(call).outputs, call.outputs):
            wrong = _contradiction(value_range(output), array)
            assert not wrong, f"{call.label}: {wrong}"


def test_an_operation_answers_for_its_range_or_is_listed_with_the_reason() -> None:
    silent = set()
    for cls in OPERATIONS:
        calls = [call for call in OF_REVISION.get(name_of(cls), []) if not (call.op.role or call.op.subgraphs)]
        outputs = [output for call in filter(_has_elements, calls) for output in _node(call).outputs]
        answers = [_is_narrower(output) for output in outputs if output.element_type is not element_types.boolean]
        if not (cls.monotone or any(answers)) and (answers or not outputs):
            silent.add(cls.type)
    assert silent == set(" ".join(WITHOUT_A_RANGE.values()).split())


def _is_narrower(value: Output) -> bool:
    """Whether more is known than the type tells."""
    kind = value.element_type
    return value_range(value)[:2] != (kind.limits if kind.is_integral else (-np.inf, np.inf))


CELL = {"hidden_size": 4, "activations": ["sigmoid", "tanh", "tanh"]}


@pytest.mark.parametrize(
    ("label", "inputs", "expected"),
    [
        ("MatMul-1", "f32[5,2,3] f32[3,4]", 5 * 2 * 3 * 4),
        ("Convolution-1", "f32[2,3,8,8] f32[4,3,5,5]", 2 * 4 * 4 * 4 * 3 * 5 * 5),
        ("GroupConvolution-1", "f32[1,6,8,8] f32[2,4,3,1,1]", 8 * 8 * 8 * 3),
        ("ConvolutionBackpropData-1", "f32[2,3,4,4] f32[3,5,2,2]", 2 * 3 * 4 * 4 * 5 * 2 * 2),
        ("ScaledDotProductAttention-13", "f32[2,4,3,8] f32[2,4,5,8] f32[2,4,5,6]", 2 * 4 * 3 * 5 * (8 + 6)),
        ("LSTMCell-4", "f32[2,3] f32[2,4] f32[2,4] f32[16,3] f32[16,4] f32[16]", 2 * 16 * (3 + 4)),
        ("GRUSequence-5", "f32[2,7,3] f32[2,1,4] i32[2] f32[1,12,3] f32[1,12,4] f32[1,12]", 2 * 7 * 12 * (3 + 4)),
        ("Add-1", "f32[2,3] f32[3]", 6),
    ],
)
def test_multiplications(label: str, inputs: str, expected: int) -> None:
    cell = {"LSTMCell-4": CELL, "GRUSequence-5": {**CELL, "activations": ["sigmoid", "tanh"]}}
    op, kinds = operation(label, cell.get(label, {})), types(inputs)
    assert op.multiplications(kinds, list(op.infer(kinds))) == expected


@pytest.mark.parametrize("cls", [cls for cls in REVISIONS if cls.required is not Operation.required], ids=name_of)
def test_calls_take_the_values_that_are_required(cls: type[Operation]) -> None:
    for call in OF_REVISION[name_of(cls)]:
        kinds = [call.exact(index) for index in range(len(call.arrays))]
        for index, required in call.op.required(kinds).items():
            if required is None or (required.distinct and call.arrays[index].size > required.high + 1):
                continue
            array = call.arrays[index]
            values = fitting(required).make(np.random.default_rng(0), array.shape).astype(array.dtype)
            _evaluate(call, [*call.arrays[:index], values, *call.arrays[index + 1 :]])


def test_only_operations_with_bodies_or_a_role_or_chance_are_not_pure() -> None:
    impure = {name_of(cls) for cls in OPERATIONS for call in OF_REVISION.get(name_of(cls), []) if not call.op.is_pure}
    assert impure == {
        *("Const-1", "Result-1", "Assign-3", "Assign-6", "ReadValue-3", "ReadValue-6"),
        *("If-8", "Loop-5", "TensorIterator-1", *RANDOM),
    }


TABLE: dict[str, dict[str, Any]] = {
    (entry.get("xml_type") or name): revisions
    for name, revisions in json.loads((Path(__file__).parents[2] / "data" / "ops.json").read_text()).items()
    for entry in revisions.values()
}

EVERY = pytest.mark.every_row  # a default that is wrong shows in no other test

# The table counts the constant's place in the .bin as attributes; here the weights layout knows it.
CLASSES = [cls for cls in all_operations() if cls.role != "constant" and cls.opset != OUTSIDE_OPSETS]

KINDS = {
    "int": "integer",
    "int[]": "integers",
    "float": "real",
    "float[]": "reals",
    "bool": "boolean",
    "string": "text",
    "string[]": "strings",
    "enum": "enum",
    "element_type": "element_type",
    "partial_shape": "partial_shape",
}

# The table was read off one set of attributes and the most inputs. By the specification modes such as Broadcast's
# explicit take more, and biases and axes may be left out.
INPUT_COUNTS: dict[str, tuple[int, int | None]] = {
    "Broadcast-3": (2, 3),
    "Einsum-7": (1, None),
    "ExperimentalDetectronROIFeatureExtractor-6": (2, None),
    "GRUCell-3": (4, 5),
    "Interpolate-4": (3, 4),
    "Interpolate-11": (2, 3),
    "LSTMCell-4": (5, 6),
    "RNNCell-1": (4, 5),
    "SliceScatter-15": (5, 6),
}


@EVERY
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.type}-{cls.opset}")
def test_attributes_and_input_counts(cls: type[Operation]) -> None:
    entry = TABLE[cls.type][f"opset{cls.opset}"]
    described, counts = entry.get("attributes", {}), entry.get("inputs_accepted")
    assert {attribute.xml for attribute in cls.xml_attributes()} == set(described)
    for attribute in cls.xml_attributes():
        row, name, kind = described[attribute.xml], attribute.name, attribute.value_type
        if kind != "text" or row["type"] != "enum":
            assert kind == KINDS[row["type"]] or (kind == "enum" and row["type"] == "string"), name
        if kind == "enum" and isinstance(row.get("values"), list):
            assert set(attribute.values) >= set(row["values"]), name
        if not attribute.is_required and row["default"] is not None and not row["required"]:
            assert _plain(format_attribute(attribute.default)) == _plain(row["default"]), name
    if isinstance(counts, list):  # not "1..N", which gives no list
        assert cls.inputs == INPUT_COUNTS.get(f"{cls.type}-{cls.opset}", (min(counts), max(counts)))


def _plain(value: Any) -> str:
    """Return a default as text; lists with one entry a spatial dimension are given for two of them in the table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    try:
        return str(float(value))
    except ValueError:
        return str(value).strip()


@EVERY
def test_every_revision_of_the_table_is_there() -> None:
    listed = {(name, opset) for name, revisions in TABLE.items() for opset in revisions}
    assert listed == {(cls.type, f"opset{cls.opset}") for cls in all_operations() if cls.opset != OUTSIDE_OPSETS}
