"""Stateful IRs against the ONNX model step by step, and faults that are put into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
from converter.equivalence.steps import verify_steps
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Add1, Greater1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting.caches import variable_behind
from tests.commands import said
from tests.graphs import Graph

from .decoders import DECODERS, Decoder, write_folder


def stateful(decoder: Decoder) -> tuple[onnx.ModelProto, Model]:
    model = decoder.build()
    return model, converter.convert_model(model, stateful=True)


@pytest.mark.parametrize("engine", ["numpy", "openvino"])
@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_each_decoder_passes(decoder: Decoder, engine: str) -> None:
    report = verify_steps(*stateful(decoder), steps=5, engine=engine)
    assert report.passed, report.verdict
    assert len({step.run for step in report.steps}) == 5
    assert len(report.steps) > 30


def constant(value: object) -> Node:
    return make_node(Const1(value=Tensor.from_array(np.asarray(value))), (), "changed by hand")


def attentions(model: Model) -> list[Node]:
    return [node for node in model.nodes() if isinstance(node.op, ScaledDotProductAttention13)]


def swap_keys_and_values(model: Model) -> str:
    node = attentions(model)[1]
    query, keys, values, *others = node.inputs
    node.inputs = (query, values, keys, *others)
    return node.name


def move_positions(model: Model) -> str:
    """One further along, for the keys and queries of all layers but not for those of the past: only steps show it."""
    parameter = next(node for node in model.parameters if node.name == "position_ids")
    readers = [node for node in model.nodes() if parameter.outputs[0] in node.inputs and isinstance(node.op, Gather8)]
    factor = make_node(Add1(), [parameter.outputs[0], parameter.outputs[0]], "positions twice")
    for reader in readers:
        reader.inputs = [factor.outputs[0] if one is parameter.outputs[0] else one for one in reader.inputs]
    return readers[0].name


def move_window(model: Model) -> str:
    node = next(node for node in model.nodes() if isinstance(node.op, Greater1))
    add = node.inputs[1].node
    add.replace_input(1, constant(np.int64(-9)).outputs[0])
    return node.name


def ignore_the_mask(model: Model) -> str:
    """Every key counts, those of padding too: only a batch shows it."""
    parameter = next(node for node in model.parameters if node.name == "attention_mask")
    for node in model.nodes():
        if node.op.type == "NotEqual" and parameter.outputs[0] in node.inputs:
            node.replace_input(1, constant(np.int64(-1)).outputs[0])
            return node.name
    raise AssertionError("there is no comparison with the mask")


def keep_the_rows(model: Model) -> str:
    """``beam_idx`` is ignored: only beams show it."""
    for node in model.nodes():
        if isinstance(node.op, Concat1) and isinstance(node.inputs[0].node.op, Gather8):
            gather = node.inputs[0].node
            if variable_behind(gather.outputs[0]) is not None:
                node.replace_input(0, gather.inputs[0])
    return ""


def spoil_what_is_kept(model: Model) -> str:
    """The first variable keeps twice its keys: the second step shows it."""
    sink = model.sinks[0]
    twice = make_node(Add1(), [sink.inputs[0], sink.inputs[0]], "twice")
    sink.inputs = [twice.outputs[0]]
    return ""


FAULTS: dict[str, tuple[Callable[[Model], str], Decoder, str, bool]] = {
    "keys and values are swapped": (swap_keys_and_values, Decoder(), "a prompt, then tokens", True),
    "positions are wrong": (move_positions, Decoder(), "a prompt, then tokens", True),
    "a window is off by one": (move_window, Decoder(window=8), "a prompt, then tokens", True),
    "padding counts": (ignore_the_mask, Decoder(), "a batch padded on the left", False),
    "beams are ignored": (keep_the_rows, Decoder(), "beams", False),
    "a cache is spoilt": (spoil_what_is_kept, Decoder(), "a prompt, then tokens", True),
}


@pytest.mark.parametrize(("spoil", "decoder", "run", "is_layer"), FAULTS.values(), ids=FAULTS)
def test_faults_are_found(spoil: Callable[[Model], str], decoder: Decoder, run: str, is_layer: bool) -> None:
    model, ir = stateful(decoder)
    spoil(ir)
    report = verify_steps(model, ir, steps=4)
    assert not report.passed
    assert report.first_wrong is not None
    assert report.first_wrong.run == run
    assert (report.layer is not None) == is_layer, report.layer_problem
    assert report.verdict == "different"
    assert run in report.reason
    assert f"; from its derivation layer '{report.derivation.differences[0].layer}'" in report.reason


def test_the_layer_with_swapped_keys_is_named() -> None:
    model, ir = stateful(Decoder())
    name = swap_keys_and_values(ir)
    report = verify_steps(model, ir, steps=1)
    assert report.layer is not None
    assert name in (report.layer.layer, *report.layer.part)
    assert f"the first layer is '{report.layer.layer}'" in report.reason


def test_rounded_weights_are_allowed_for_and_hide_no_fault(tmp_path: Path) -> None:
    model, ir = stateful(Decoder())
    converter.save_model(ir, tmp_path / "ir.xml", compress="int8")
    assert verify_steps(model, tmp_path / "ir.xml", steps=3).passed
    swap_keys_and_values(ir)
    converter.save_model(ir, tmp_path / "wrong.xml", compress="int8")
    assert not verify_steps(model, tmp_path / "wrong.xml", steps=3).passed


def recurrent(token_by_token: bool) -> onnx.ModelProto:
    """A state that each token is added to, padding as well; or one that takes one token in a step."""
    graph = Graph(3, opset=17)
    new = graph.weight(9, 9, depth=1).Gather("input_ids")
    total = new.Squeeze([1]) if token_by_token else new.ReduceSum([1], keepdims=0)
    state = graph["past_states.0"] * 0.5 + total
    inputs = {"input_ids": (np.int64, ["batch", "tokens"]), "past_states.0": (np.float32, ["batch", 9])}
    return graph.model(inputs, {"logits": (new + state.Unsqueeze([1]), None), "present.0": (state, None)})


@pytest.mark.parametrize("engine", ["numpy", "openvino"])
@pytest.mark.parametrize("token_by_token", [False, True])
def test_recurrent_models_pass(token_by_token: bool, engine: str) -> None:
    """Rows of a padded batch are those of the ONNX model, which has no mask; prompts are as long as it takes them."""
    model = recurrent(token_by_token)
    report = verify_steps(model, converter.convert_model(model, stateful=True), steps=3, engine=engine)
    assert report.passed, report
    runs = {step.run for step in report.steps}
    assert ("a batch padded on the left" in runs) is not token_by_token
    assert ("a prompt token by token, then tokens" in runs) is token_by_token
    assert "beams" in runs


@pytest.mark.parametrize("token_by_token", [False, True])
def test_a_recurrent_model_with_another_factor_fails(token_by_token: bool) -> None:
    model = recurrent(token_by_token)
    ir = converter.convert_model(model, stateful=True)
    node = next(node for node in ir.nodes() if node.op.type == "Multiply")
    node.replace_input(1, constant(np.array([0.501], np.float32)).outputs[0])
    assert not verify_steps(model, ir, steps=2).passed


def test_errors() -> None:
    model, ir = stateful(Decoder())
    plain = converter.convert_model(model)
    with pytest.raises(converter.VerificationError, match="has no variables: steps are for models that keep"):
        verify_steps(model, plain, steps=1)
    other = Decoder("spelled").build()
    for tensor in (*other.graph.input, *other.graph.output):
        tensor.name = tensor.name.replace("past_key_values", "former").replace("present", "later")
    with pytest.raises(converter.VerificationError, match="must be called as an input and an output of the ONNX model"):
        verify_steps(other, ir, steps=1)


def test_commands(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", Decoder())
    files = [tmp_path / "onnx", tmp_path / "ir"]
    for words, code, parts in (
        (["convert", files[0], "--stateful", "-o", files[1], "--compress", "int8", "--verify"], 0, "beams|PASSED"),
        (["verify", *files, "--steps", 2, "--engine", "openvino"], 0, "IR in OpenVINO"),
        (["-q", "verify", *files, "--steps", 2, "--json"], 0, '"passed": true|"run": "a prompt, then tokens"'),
        (["verify", *files], 2, "compared with --steps N"),
        (["verify", *files, "--steps", 2, "--stress"], 2, "--stress cannot be used with --steps"),
    ):
        found, text = said(*words)
        assert found == code, text
        assert all(part in text for part in parts.split("|")), text


def test_a_wrong_ir_fails_the_command(tmp_path: Path) -> None:
    model, ir = stateful(Decoder())
    onnx.save(model, tmp_path / "model.onnx")
    swap_keys_and_values(ir)
    converter.save_model(ir, tmp_path / "ir.xml")
    code, text = said("verify", tmp_path / "model.onnx", tmp_path / "ir.xml", "--steps", 2)
    assert code == 1
    assert "first layer that is wrong although its inputs are right" in text
    assert "FAILED" in text
