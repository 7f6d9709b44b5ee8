"""Sequences and optionals that are lowered while converting, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from tests.engines import check_node, converted

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def model(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], *, rows: object = 4, **constants: object
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(
        op_type,
        [i if i != "_" else "" for i in inputs.split()],
        outputs.split(),
        name=f"{op_type}_{outputs.split()[0]}",
        **attributes,
    )


@pytest.mark.parametrize("at", [0, 2, -1])
def test_construct_insert_erase_at_length(at: int) -> None:
    nodes = [
        node("Neg", "x", "n"),
        node("Abs", "x", "a"),
        node("SequenceConstruct", "x n", "s"),
        node("SequenceInsert", "s a at", "t"),
        node("SequenceErase", "t one", "u"),
        node("SequenceAt", "u zero", "y"),
        node("SequenceLength", "t", "count"),
    ]
    check_node(model(nodes, ["y", "count"], at=at, one=1, zero=0), {"x": X})


@pytest.mark.parametrize(
    ("split", "attributes"),
    [(None, {}), (None, {"keepdims": 0}), (None, {"axis": 1}), (3, {}), ([1, 3], {}), ([2, 1], {"axis": -1})],
)
def test_split_and_join(split: object, attributes: dict) -> None:
    inputs = "x" if split is None else "x split"
    nodes = [node("SplitToSequence", inputs, "s", **attributes), node("SequenceAt", "s last", "y")]
    if attributes.get("keepdims", 1):
        nodes.append(node("ConcatFromSequence", "s", "z", axis=attributes.get("axis", 0)))
    else:
        nodes.append(node("ConcatFromSequence", "s", "z", axis=1, new_axis=1))
    constants = {} if split is None else {"split": split}
    check_node(model(nodes, ["y", "z"], last=-1, **constants), {"x": X})


def test_map_over_a_sequence_with_a_value_from_outside() -> None:
    body = helper.make_graph(
        [node("Add", "i x", "j"), node("ReduceSum", "j", "k", keepdims=0)],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.FLOAT, None)],
        [onnx.ValueInfoProto(name=name) for name in ("j", "k")],
    )
    nodes = [
        node("SplitToSequence", "x", "s"),
        node("SequenceMap", "s", "m k2", body=body),
        node("ConcatFromSequence", "m", "y", axis=0),
        node("ConcatFromSequence", "k2", "z", axis=0, new_axis=1),
    ]
    rows = [row[None] + X for row in X]
    expected = [np.concatenate(rows), np.array([row.sum() for row in rows], np.float32)]
    check_node(model(nodes, ["y", "z"]), {"x": X}, expected)


def test_optionals_and_identity() -> None:
    nodes = [
        node("Optional", "x", "o"),
        node("Identity", "o", "p"),
        node("OptionalHasElement", "p", "has"),
        node("OptionalGetElement", "p", "y"),
        node("OptionalHasElement", "", "none"),
    ]
    nodes[-1].ClearField("input")
    check_node(model(nodes, ["y", "has", "none"]), {"x": X}, [X, np.array(True), np.array(False)])


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        (
            [node("SequenceConstruct", "x", "y")],
            {},
            "the output 'y' is a sequence, and the IR carries nothing but tensors",
        ),
        ([node("SequenceConstruct", "x", "s"), node("Relu", "s", "y")], {}, "input 0 is a sequence"),
        ([node("SequenceConstruct", "x", "s"), node("SequenceAt", "s at", "y")], {"at": 3}, "position 3 lies outside"),
        ([node("SequenceLength", "x", "y")], {}, "input_sequence must be a sequence, but is a tensor"),
        (
            [node("SplitToSequence", "x n", "s"), node("SequenceLength", "s", "y")],
            {"n": [1, 1]},
            "do not add up to the dimension 4",
        ),
    ],
)
def test_sequences_that_cannot_be_lowered(nodes: list[onnx.NodeProto], constants: dict, message: str) -> None:
    with pytest.raises(converter.ConversionError) as caught:
        converter.convert_model(model(nodes, ["y"], **constants))
    assert message in str(caught.value)


def test_a_dynamic_dimension_is_refused_with_that_reason() -> None:
    nodes = [node("SplitToSequence", "x", "s"), node("SequenceLength", "s", "y")]
    with pytest.raises(converter.UnsupportedModelError, match="the dimension along axis 0 must be known"):
        converted(model(nodes, ["y"], rows="n"))


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [("StringNormalizer", "no operations on strings"), ("ImageDecoder", "no decoding of image files")],
)
def test_refused_operators_give_the_reason(op_type: str, reason: str) -> None:
    proto = model([node(op_type, "x", "y")], ["y"])
    proto.opset_import[0].version = 20
    with pytest.raises(converter.UnsupportedModelError, match=reason):
        converter.convert_model(proto)
