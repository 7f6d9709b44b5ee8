"""Caches as variables and back, step by step against onnxruntime with the caches as inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper
from openvino import opset13 as ops

import converter
import ir_runtime
from ir_runtime import compile_model
from tests.graphs import Graph

from .decoders import DECODERS, HEADS, LAYERS, Decoder
from .encoder_decoders import OnnxDecoder, OpenVinoDecoder, padded, prompt_of, type_of

# --- decoders whose caches are variables, against onnxruntime with the caches as inputs and outputs ---

PROMPT, STEPS = 20, 12


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_each_step_has_the_logits_of_onnxruntime(decoder: Decoder, tmp_path: Path) -> None:
    """A batch padded on the left, in two parts, then tokens, of other beams in the fifth step; twice, with a reset."""
    model = decoder.build()
    converter.save_model(converter.convert_model(model, stateful=True), tmp_path / "decoder.xml")
    onnx_side, ir = OnnxDecoder(decoder, model), OpenVinoDecoder(tmp_path / "decoder.xml")
    close = functools.partial(np.testing.assert_allclose, atol=5e-2 if decoder.kind == np.float16 else 2e-4, rtol=0)
    prompts = [prompt_of(length, seed) for seed, length in enumerate((PROMPT, 9, 13))]
    beams = {4: [2, 0, 0]}
    for run in range(2):
        tokens, mask = padded(prompts)
        steps = [prompt_of(3, 100 * run + seed).T for seed in range(STEPS)]
        found = [ir(tokens[:, :15], mask[:, :15]), ir(tokens[:, 15:], mask)]
        for at, step in enumerate(steps):
            mask = np.concatenate([mask[beams.get(at, [0, 1, 2])], np.ones_like(step)], axis=1)
            found.append(ir(step, mask, beams.get(at)))
        assert np.isfinite(found[-1]).all()
        for row, beam in enumerate(beams[4]):
            onnx_side.reset()
            wanted = onnx_side(prompts[beam])[0]
            close(found[1][beam], wanted[-5:])
            close(found[0][beam, 20 - len(wanted) :], wanted[:-5])
            for at, step in enumerate(steps):
                of = beam if at < 4 else row
                close(found[2 + at][of], onnx_side(step[of : of + 1])[0])
        ir.reset()  # the second run starts with no keys again
    types = [type_of(operation) for operation in ir.compiled.get_runtime_model().get_ops()]
    if decoder.softcap:
        assert types.count("Softmax") == LAYERS  # the operation of attention has no limit of scores
    else:
        assert (types.count("ScaledDotProductAttention"), types.count("Softmax")) == (LAYERS, 0)


@pytest.mark.parametrize("batch", [None, 1, 2])
@pytest.mark.parametrize("name", ["grouped", "grouped, window and sink", "onnx", "spelled"])
def test_as_many_queries_as_heads(name: str, batch: int | None, tmp_path: Path) -> None:
    """The plug-in's step without a cache overwrites what it reads then; the one with a cache needs no rule."""
    decoder = DECODERS[name]
    source = decoder.build()
    model = converter.convert_model(source, stateful=True)
    assert "Maximum" not in [
        node.op.type for node in model.nodes() if node.origin and "Transpose" in node.origin.op_type
    ]
    if batch is not None:
        static = {"input_ids": [batch, HEADS], "position_ids": [batch, HEADS], "beam_idx": [batch]}
        model.reshape({**static, "attention_mask": [batch, -1]})
    converter.save_model(model, tmp_path / "decoder.xml")
    ir, onnx_side = OpenVinoDecoder(tmp_path / "decoder.xml"), OnnxDecoder(decoder, source)
    rows = batch or 2
    parts = [np.concatenate([prompt_of(HEADS, 7 * row + part) for row in range(rows)]) for part in range(3)]
    found = [ir(part) for part in parts]
    for row in range(rows):
        onnx_side.reset()
        for part, logits in zip(parts, found):
            np.testing.assert_allclose(logits[row : row + 1], onnx_side(part[row : row + 1]), atol=2e-4, rtol=0)


@pytest.mark.parametrize("bound", ["Min", "Mod", "Gather", "If"])
def test_positions_change_beyond_a_bound(bound: str) -> None:
    """The input ``position_ids`` replaces what counts the tokens, and nothing behind it."""
    decoder = Decoder("spelled", positions=False, bound=bound)
    source = decoder.build()
    model = converter.convert_model(source, stateful=True)
    session, onnx_side = ir_runtime.compile_model(model).session(), OnnxDecoder(decoder, source)
    for at, count in ((0, 5), (5, PROMPT), (5 + PROMPT, 1)):
        tokens, feeds = prompt_of(count, at), {"attention_mask": np.ones((1, at + count), np.int64)}
        feeds |= {"position_ids": np.arange(at, at + count)[None], "beam_idx": np.int32([0]), "input_ids": tokens}
        np.testing.assert_allclose(session(feeds)["logits"], onnx_side(tokens), atol=2e-4, rtol=0)


# --- variables as inputs and outputs again: of our stateful IRs, and of those of others ---


def names_of(nodes: list[ir_runtime.graph.model.Node]) -> set[str]:
    return {node.end_names[0] for node in nodes}


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_there_and_back(decoder: Decoder) -> None:
    source = decoder.build()
    model = converter.convert_model(source, stateful=True)
    assert converter.make_stateless(model) == len(decoder.caches)
    presents = {name.replace("past_key_values", "present") for name in decoder.caches}
    assert names_of(model.results) == {"logits", *presents}
    assert names_of(model.parameters) == {"input_ids", "attention_mask", "position_ids", *decoder.caches}
    assert not model.sinks
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir_runtime.model_to_bytes(model)))
    onnx_side, tokens = OnnxDecoder(decoder, source), prompt_of(9)
    caches = {name: value.astype(np.float32) for name, value in decoder.empty_caches(1).items()}
    length = 0
    for _ in range(3):
        length += tokens.shape[1]
        feeds = {
            "input_ids": tokens,
            "attention_mask": np.ones((1, length), np.int64),
            "position_ids": np.arange(length - tokens.shape[1], length)[None],
            **caches,
        }
        found = compiled(feeds)
        wanted = onnx_side(tokens)
        np.testing.assert_allclose(found["logits"], wanted, atol=5e-2 if decoder.kind == np.float16 else 2e-4)
        caches = {name: found[name.replace("past_key_values", "present")] for name in caches}
        tokens = wanted[:, -1:].argmax(-1)


def test_a_model_of_openvino(tmp_path: Path) -> None:
    """A counter: what it returns is also what it keeps, and its variable has a name of its own."""
    x = ops.parameter([2], np.float32, name="x")
    read = ops.read_value(ops.constant(np.zeros(2, np.float32)), "sum", np.float32, [2])
    total = ops.add(read, x)
    model = openvino.Model([ops.result(total, name="y")], [ops.assign(total, "sum")], [x], "counter")
    model.outputs[0].get_tensor().set_names({"y"})
    model.inputs[0].get_tensor().set_names({"x"})
    openvino.save_model(model, tmp_path / "counter.xml", compress_to_fp16=False)
    read_back = ir_runtime.read_model(tmp_path / "counter.xml")
    assert converter.make_stateless(read_back) == 1
    found = ir_runtime.compile_model(read_back)({"x": np.ones(2, np.float32), "sum": np.full(2, 3, np.float32)})
    assert found["y"].tolist() == found["sum.next"].tolist() == [4, 4]


# --- which outputs are which inputs of the next call, and what is said where that cannot be told ---

SHAPE = ["batch", 2, "past", 4]


def caches(names: Mapping[str, str], *, op_type: str = "Concat", shape: Sequence[object] = SHAPE) -> onnx.ModelProto:
    """A model that returns each cache with something added, and the sum of what is new."""
    graph = Graph(opset=17)
    keys = graph["input_ids"].Cast(to=TensorProto.FLOAT).Unsqueeze([1, 3]).Expand([1, 2, 1, 4])
    total = keys.ReduceSum(keepdims=0)
    outputs: dict[str, tuple[Any, Any]] = {"total": (total, [])}
    for past, present in names.items():
        more = {"axis": 2} if op_type == "Concat" else {}
        outputs[present] = (graph(op_type, past, keys if more else total, **more), None)
    inputs: dict[str, tuple[Any, Any]] = {"input_ids": (np.int64, ["batch", "tokens"])}
    return graph.model(inputs | dict.fromkeys(names, (np.float32, shape)), outputs)


def variables(model: onnx.ModelProto, stateful: bool | Mapping[str, str] = True) -> dict[str, str]:
    nodes = converter.convert_model(model, stateful=stateful).nodes()
    found = [node.op.attributes() for node in nodes if node.op.type == "ReadValue"]
    return {one["variable_id"]: one["variable_shape"] for one in found}


@pytest.mark.parametrize("names", [
    {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"},
    {"past_key_self_0": "present_key_self_0"},
    {"past.3.conv": "present.3.conv"},
    {"past_states.0.ssm_state": "present.0.ssm_state"},
    {"past_state.1": "present_states.1"},
    {"cache_in": "cache_out"},
    {"key_cache": "key_cache_out"},
    {"a": "b"},  # the layers alone tell
])  # fmt: skip
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
