"""Caches as variables and back, step by step against onnxruntime with the caches as inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from openvino import opset13 as ops

import converter
import ir_runtime
from converter.command_line import main
from ir_runtime import compile_model

from .decoders import DECODERS, HEADS, LAYERS, Decoder
from .running import OnnxDecoder, OpenVinoDecoder, padded, prompt_of

# --- decoders whose caches are variables, against onnxruntime with the caches as inputs and outputs ---

PROMPT, STEPS = 20, 12


class Pair:
    """A decoder in both engines."""

    def __init__(self, decoder: Decoder, folder: Path) -> None:
        model = decoder.build()
        self.onnx = OnnxDecoder(decoder, model)
        self.model = converter.convert_model(model, stateful=True)
        converter.save_model(self.model, folder / "decoder.xml")
        self.ir = OpenVinoDecoder(folder / "decoder.xml")
        self.tolerance = 5e-2 if decoder.kind == np.float16 else 2e-4

    def close(self, actual: np.ndarray, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(actual, wanted, atol=self.tolerance, rtol=0)


@pytest.fixture(params=DECODERS.values(), ids=DECODERS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    return Pair(request.param, tmp_path)


def test_each_step_has_the_logits_of_onnxruntime(pair: Pair) -> None:
    tokens = prompt_of(PROMPT)
    for run in range(2):
        step, mask = tokens, np.ones_like(tokens)
        for seed in range(STEPS):
            pair.close(pair.ir(step, mask), pair.onnx(step))
            step = prompt_of(1, 100 * run + seed)
            mask = np.concatenate([mask, np.ones_like(step)], axis=1)
        pair.onnx.reset()
        pair.ir.reset()  # the second run starts with no keys again


def test_a_prompt_in_two_parts(pair: Pair) -> None:
    tokens = prompt_of(PROMPT)
    wanted = pair.onnx(tokens)
    first = pair.ir(tokens[:, :7], np.ones((1, 7), np.int64))
    pair.close(first, wanted[:, :7])
    pair.close(pair.ir(tokens[:, 7:], np.ones_like(tokens)), wanted[:, 7:])


def test_a_batch_padded_on_the_left_is_its_rows(pair: Pair) -> None:
    prompts = [prompt_of(length, seed) for seed, length in enumerate((PROMPT, 5, 13))]
    tokens, mask = padded(prompts)
    together = pair.ir(tokens, mask)
    step = together[:, -1:].argmax(-1)
    after = pair.ir(step, np.concatenate([mask, np.ones_like(step)], axis=1))
    assert np.isfinite(together).all()
    for row, prompt in enumerate(prompts):
        pair.onnx.reset()
        pair.close(together[row, -1], pair.onnx(prompt)[0, -1])
        pair.close(after[row, -1], pair.onnx(step[row : row + 1])[0, -1])


def test_beams_go_on_with_the_past_that_beam_idx_names(pair: Pair) -> None:
    prompts = [prompt_of(9, seed) for seed in range(3)]
    tokens, mask = padded(prompts)
    pair.ir(tokens, mask)
    step, beams = prompt_of(3, 8).T, [2, 0, 0]
    after = pair.ir(step, np.concatenate([mask, np.ones_like(step)], axis=1), beams)
    for row, beam in enumerate(beams):
        pair.onnx.reset()
        pair.onnx(prompts[beam])
        pair.close(after[row, -1], pair.onnx(step[row : row + 1])[0, -1])


def test_the_plug_in_runs_attention_in_one_step(pair: Pair, request: pytest.FixtureRequest) -> None:
    types = pair.ir.layer_types()
    if "softcap" in request.node.name:
        assert types.count("Softmax") == LAYERS  # the operation has no limit of scores
    else:
        assert types.count("ScaledDotProductAttention") == LAYERS
        assert "Softmax" not in types


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
    found = [ir(part, np.ones((rows, HEADS * (at + 1)), np.int64)) for at, part in enumerate(parts)]
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
        tokens, mask = prompt_of(count, at), np.ones((1, at + count), np.int64)
        positions = np.arange(at, at + count)[None]
        feeds = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, "beam_idx": np.int32([0])}
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


def test_a_model_without_variables() -> None:
    model = converter.convert_model(DECODERS["spelled"].build())
    with pytest.raises(converter.ConversionError, match="has no variables: it is stateless already"):
        converter.make_stateless(model)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_the_command(tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(Decoder().build(), stateful=True), tmp_path / "decoder.xml")
    code, text = run("convert", tmp_path / "decoder.xml", "--stateless", "-o", tmp_path / "plain.xml")
    assert code == 0, text
    assert "4 variables are inputs and outputs" in text
    assert "past_key_values.1.value" in names_of(ir_runtime.read_model(tmp_path / "plain.xml").parameters)
    code, text = run("convert", tmp_path / "plain.xml", "--stateless", "-o", tmp_path / "again.xml")
    assert code == 1
    assert "has no variables" in text
    code, text = run("convert", tmp_path / "decoder.xml", "--stateless", "--batch", 2, "-o", tmp_path / "again.xml")
    assert code == 2
    assert "--batch cannot be used with --stateless" in text
    assert not (tmp_path / "again.xml").exists()


# --- which outputs are which inputs of the next call, and what is said where that cannot be told ---

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
