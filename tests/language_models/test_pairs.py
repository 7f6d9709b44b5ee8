"""Which outputs are which inputs of the next call, and what is said where that cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
from ir_runtime import compile_model

from .decoders import DECODERS

SHAPE = ["batch", 2, "past", 4]


def caches(
    names: Mapping[str, str], *, op_type: str = "Concat", shape: Sequence[object] = SHAPE, kind: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """A model that returns each cache with something added, and the sum of what is new."""
    nodes = [helper.make_node("Cast", ["input_ids"], ["wide"], to=kind)]
    nodes.append(helper.make_node("Unsqueeze", ["wide", "axes"], ["new"]))
    nodes.append(helper.make_node("Expand", ["new", "sizes"], ["keys"]))
    for past, present in names.items():
        if op_type == "Concat":
            nodes.append(helper.make_node("Concat", [past, "keys"], [present], axis=2))
        else:
            nodes.append(helper.make_node(op_type, [past, "total"], [present]))
    nodes.append(helper.make_node("ReduceSum", ["keys"], ["total"], keepdims=0))
    nodes.sort(key=lambda node: node.op_type in ("Add", "Mul"))  # what reads the sum comes behind it
    graph = helper.make_graph(
        nodes,
        "caches",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]),
            *(helper.make_tensor_value_info(name, kind, shape) for name in names),
        ],
        [
            helper.make_tensor_value_info("total", kind, []),
            *(helper.make_tensor_value_info(name, kind, None) for name in names.values()),
        ],
        [
            helper.make_tensor("axes", TensorProto.INT64, [2], [1, 3]),
            helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 2, 1, 4]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def variables(model: onnx.ModelProto, stateful: bool | Mapping[str, str] = True) -> dict[str, str]:
    """The variables of the stateful model, each with its shape."""
    nodes = converter.convert_model(model, stateful=stateful).nodes()
    found = [node.op.attributes() for node in nodes if node.op.type == "ReadValue"]
    return {one["variable_id"]: one["variable_shape"] for one in found}


@pytest.mark.parametrize(
    "names",
    [
        {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"},
        {"past_key_self_0": "present_key_self_0"},
        {"past.3.conv": "present.3.conv"},
        {"past_states.0.ssm_state": "present.0.ssm_state"},
        {"past_state.1": "present_states.1"},
        {"cache_in": "cache_out"},
        {"key_cache": "key_cache_out"},
        {"a": "b"},  # the layers alone tell
    ],
)
def test_pairs_are_found(names: Mapping[str, str]) -> None:
    assert variables(caches(names)) == {past + present: "?,2,?,4" for past, present in names.items()}


def test_states_of_fixed_shape_have_no_beams() -> None:
    model = converter.convert_model(caches({"state": "stateN"}, op_type="Add", shape=[1, 2, 1, 4]), stateful=True)
    assert [node.end_names[0] for node in model.parameters] == ["input_ids"]
    assert np.asarray(compile_model(model)({"input_ids": np.ones((1, 3), np.int64)})["total"]) == 24


def test_states_of_language_models_have_beams() -> None:
    recurrent = caches({"past_states.0": "present.0"}, op_type="Add", shape=["batch", 2, 1, 4])
    model = converter.convert_model(recurrent, stateful=True)
    assert [node.end_names[0] for node in model.parameters] == ["input_ids", "beam_idx"]


def test_names_that_are_given_count() -> None:
    model = caches({"a": "b", "c": "d"})
    assert set(variables(model, {"a": "d", "c": "b"})) == {"ad", "cb"}


ERRORS = {
    "no caches": (caches({"x": "y"}, op_type="Mul"), True, r"has no caches: none of its inputs \('input_ids', 'x'\)"),
    "an unknown input": (caches({"a": "b"}), {"z": "b"}, "has no input 'z'; there are input_ids, a"),
    "an unknown output": (caches({"a": "b"}), {"a": "z"}, "has no output 'z'; there are total, b"),
    "other types": (caches({"a": "b"}), {"input_ids": "b"}, "output 'b' .* cannot become input 'input_ids'"),
    "two dynamic lengths": (
        caches({"past": "present"}, shape=["batch", "heads", "past", "size"], op_type="Add"),
        True,
        "of the cache 'past' .* the dimensions 1, 2, 3 are dynamic, but only the number of keys may be",
    ),
}


@pytest.mark.parametrize(("model", "stateful", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(model: onnx.ModelProto, stateful: bool | Mapping[str, str], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model, stateful=stateful)


def test_a_mask_that_is_not_there_is_missed() -> None:
    model = DECODERS["grouped"].build()
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name == "attention_mask":
                node.input[index] = "input_ids" if node.op_type == "Shape" else "lengths"
    del model.graph.input[1]
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, ["batch", 1, 1]))
    with pytest.raises(converter.ConversionError, match="needs an attention mask"):
        converter.convert_model(model, stateful=True)
