"""Encoders with decoders, and stateful IRs, step by step against onnxruntime; and faults that are put into them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
from converter.equivalence.verdict.steps import verify_steps
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
from .encoder_decoders import FILES, HEADS, LAYERS, NAMES, SIZE, VOCABULARY, Array, EncoderDecoder, Ir, Onnx, type_of

# --- stateful IRs against the ONNX model step by step, and faults that are put into them ---


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
    name = spoil(ir)
    report = verify_steps(model, ir, steps=4)
    assert not report.passed
    assert report.first_wrong is not None
    assert report.first_wrong.run == run
    assert (report.layer is not None) == is_layer, report.layer_problem
    if report.layer is not None:
        assert name in ("", report.layer.layer, *report.layer.part)
        assert f"the first layer is '{report.layer.layer}'" in report.reason
    assert report.verdict == "different"
    assert run in report.reason
    assert f"; from its derivation layer '{report.derivation.differences[0].layer}'" in report.reason


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
def test_recurrent_models(token_by_token: bool, engine: str) -> None:
    """Rows of a padded batch are those of the ONNX model, which has no mask; prompts are as long as it takes them."""
    model = recurrent(token_by_token)
    ir = converter.convert_model(model, stateful=True)
    report = verify_steps(model, ir, steps=3, engine=engine)
    assert report.passed, report
    runs = {step.run for step in report.steps}
    assert ("a batch padded on the left" in runs) is not token_by_token
    assert ("a prompt token by token, then tokens" in runs) is token_by_token
    assert "beams" in runs
    factor = next(node for node in ir.nodes() if node.op.type == "Multiply")
    factor.replace_input(1, constant(np.array([0.501], np.float32)).outputs[0])
    assert not verify_steps(model, ir, steps=2, engine=engine).passed


def test_errors() -> None:
    model, ir = stateful(Decoder())
    plain = converter.convert_model(model)
    with pytest.raises(converter.VerificationError, match="has no variables: steps are for models that keep"):
        verify_steps(model, plain, steps=1)
    named = Decoder("spelled").build().SerializeToString()
    other = onnx.ModelProto.FromString(named.replace(b"past_key_values", b"former_keys_val"))
    with pytest.raises(converter.VerificationError, match="must be called as an input and an output of the ONNX model"):
        verify_steps(other, ir, steps=1)


def test_commands(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", Decoder())
    files = [tmp_path / "onnx", tmp_path / "ir"]
    _, wrong = stateful(Decoder())
    swap_keys_and_values(wrong)
    converter.save_model(wrong, tmp_path / "wrong.xml")
    for words, code, parts in (
        (["convert", files[0], "--stateful", "-o", files[1], "--compress", "int8", "--verify"], 0, "beams|PASSED"),
        (["verify", *files, "--steps", 2, "--engine", "openvino"], 0, "IR in OpenVINO"),
        (["-q", "verify", *files, "--steps", 2, "--json"], 0, '"passed": true|"run": "a prompt, then tokens"'),
        (["verify", *files], 2, "compared with --steps N"),
        (["verify", *files, "--steps", 2, "--stress"], 2, "--stress cannot be used with --steps"),
        (["verify", files[0] / "model.onnx", tmp_path / "wrong.xml", "--steps", 2], 1,
         "first layer that is wrong although its inputs are right|FAILED"),
    ):  # fmt: skip
        found, text = said(*words)
        assert found == code, text
        assert all(part in text for part in parts.split("|")), text


# --- folders with encoder and decoder, step by step against onnxruntime with caches as inputs and outputs ---

MODELS = {
    "text": EncoderDecoder(),
    "speech": EncoderDecoder(speech=True),
    "speech, no mask for one token": EncoderDecoder(speech=True, one_token=True),
    "text, float16": EncoderDecoder(kind=np.float16),
}


def tokens_of(rows: int, count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (rows, count))


def row_of(given: Mapping[str, Array], row: int) -> Mapping[str, Array]:
    length = int(given["attention_mask"][row].sum()) if "attention_mask" in given else None
    return {name: value[row : row + 1, :length] for name, value in given.items()}


class Both:
    def __init__(self, model: EncoderDecoder, files: Sequence[str], folder: Path, **options: Any) -> None:
        self.model = model
        model.save(folder / "onnx", files)
        self.made = converter.convert_language_model(folder / "onnx", folder / "ir", **options)
        self.onnx, self.ir = Onnx(model), Ir(folder / "ir")
        self.tolerance = 5e-2 if model.kind == np.float16 else 2e-4

    def close(self, actual: Array, wanted: Array) -> None:
        np.testing.assert_allclose(actual, wanted, atol=self.tolerance, rtol=0)


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    found: EncoderDecoder = request.param
    return found


@pytest.fixture(params=FILES.values(), ids=FILES)
def both(model: EncoderDecoder, request: pytest.FixtureRequest, tmp_path: Path) -> Both:
    return Both(model, request.param, tmp_path)


def test_greedy_tokens_and_logits(both: Both) -> None:
    found: set[int] = set()
    for run in range(2):  # the second has other states of the encoder
        given = both.model.feeds(run)
        both.close(both.ir.encode(given)["encoder_hidden_states"], both.onnx.encode(given)["encoder_hidden_states"])
        step = tokens_of(1, 4, run)
        for _ in range(24):
            wanted = both.onnx.step(step)
            both.close(both.ir(step), wanted)
            step = wanted[:, -1:].argmax(-1)
            found.add(int(step[0, 0]))
    assert len(found) > 10, "few tokens prove little"


def test_a_batch_in_two_parts_is_its_rows(both: Both) -> None:
    """Rows 0 and 1 are beams of the first input, rows 2 and 3 of the second; the encoder's states are read once."""
    given = {name: value.repeat(2, axis=0) for name, value in both.model.feeds(5, (7, 4)).items()}
    prompt, steps = tokens_of(4, 5, 1), [tokens_of(4, 1, seed) for seed in range(3)]
    both.ir.encode(given)
    together = [both.ir(prompt[:, :3]), both.ir(prompt[:, 3:])]
    both.ir.read["encoder_hidden_states"] = np.full_like(both.ir.read["encoder_hidden_states"], np.nan)
    together += [both.ir(steps[0]), both.ir(steps[1], beams=[1, 1, 3, 2]), both.ir(steps[2])]
    for row, beam in enumerate((1, 1, 3, 2)):
        both.onnx.encode(row_of(given, beam))
        wanted = both.onnx.step(prompt[beam : beam + 1])[0]
        both.close(together[0][beam], wanted[:3])
        both.close(together[1][beam], wanted[3:])
        both.close(together[2][beam], both.onnx.step(steps[0][beam : beam + 1])[0])
        for found, step in zip(together[3:], steps[1:]):
            both.close(found[row], both.onnx.step(step[row : row + 1])[0])


def test_a_prompt_of_one_row_becomes_several_beams(both: Both) -> None:
    """As openvino-genai searches: the first call has one row, the others one for each beam."""
    given, prompt, step = both.model.feeds(), tokens_of(1, 3), tokens_of(3, 1, 2)
    both.ir.encode(given)
    both.ir(prompt)
    both.ir.read = {name: value.repeat(3, axis=0) for name, value in both.ir.read.items()}
    found = both.ir(step, beams=[0, 0, 0])
    for row in range(3):
        both.onnx.encode(given)
        both.onnx.step(prompt)
        both.close(found[row], both.onnx.step(step[row : row + 1])[0])


def test_layers(both: Both) -> None:
    operations = both.ir.compiled.get_runtime_model().get_ops()
    steps = [operation for operation in operations if type_of(operation) == "ScaledDotProductAttention"]
    assert len(steps) == LAYERS
    for step in steps:  # with the caches that grow
        sources = [type_of(port.get_source_output().get_node()) for port in step.inputs()]
        assert sources.count("MemoryInput") == 2
    model = openvino.Core().read_model(both.made.model)
    kinds = [operation.get_type_name() for operation in model.get_ops()]
    assert kinds.count("ScaledDotProductAttention") == 2 * LAYERS  # none is there twice, for both calls
    assert kinds.count("MatMul") == LAYERS * 10 + 1
    read = both.onnx.encode(both.model.feeds())
    assert [port.names for port in model.inputs if len(port.names) != 1] == []  # optimum-intel asks for any
    assert {port.any_name for port in model.inputs} == {"beam_idx", "input_ids", *read}
    for variable in model.get_variables():
        shape = variable.get_info().data_shape
        assert [str(dim) for dim in shape] == ["?", str(HEADS), "?", str(SIZE)]


def test_compressed_weights(tmp_path: Path) -> None:
    logits, sizes = [], []
    for compress in (None, "int8"):
        both = Both(MODELS["text"], NAMES, tmp_path / f"{compress}", compress=compress)
        both.ir.encode(both.model.feeds())
        logits.append(both.ir(tokens_of(1, 4)))
        sizes.append(both.made.model.with_suffix(".bin").stat().st_size)
    assert sizes[1] < 0.5 * sizes[0]
    assert 0 < np.abs(logits[1] - logits[0]).max() < 0.1 * np.abs(logits[0]).max()


OPTIONS: dict[str, dict[str, Any]] = {
    "an older release": {"target": "cpu@2023.3"},
    "any runtime": {"target": "any"},
    "not fused": {"fuse": False},
    "exact": {"exact": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", ["text", "speech"])
def test_options(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    both = Both(MODELS[name], NAMES, tmp_path, **options)
    for side in (both.ir, both.onnx):
        side.encode(both.model.feeds())
    for seed, count in enumerate((5, 1, 1)):
        both.close(both.ir(tokens_of(1, count, seed)), both.onnx.step(tokens_of(1, count, seed)))


def test_a_merged_decoder_beside_the_others_changes_nothing(tmp_path: Path) -> None:
    """As Optimum leaves its folders."""
    written = {}
    for name, files in {"two": NAMES[:3], "all": NAMES}.items():
        MODELS["text"].save(tmp_path / name, files)
        made = converter.convert_language_model(tmp_path / name, tmp_path / f"{name}-ir")
        written[name] = [path.read_bytes() for path in (made.model, made.model.with_suffix(".bin"))]
    assert written["two"] == written["all"]


@pytest.mark.parametrize("other", NAMES[1:3])
def test_a_merged_decoder_beside_one_other(other: str, tmp_path: Path) -> None:
    MODELS["text"].save(tmp_path / "onnx", (NAMES[0], other, NAMES[3]))
    made = converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir")
    assert made.encoder is not None
    assert "then_branch" in made.model.read_text()  # that of the merged one


def test_commands_of_encoder_decoders(tmp_path: Path) -> None:
    MODELS["speech"].save(tmp_path / "onnx")
    code, text = said("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir", "--json", "--quiet")
    assert code == 0, text
    models = json.loads(text)["models"]
    assert [(one["part"], Path(one["xml"]).name) for one in models] == [
        *((part, f"openvino_{part}_model.xml") for part in ("encoder", "decoder"))
    ]
    assert all(Path(one[key]).is_file() for one in models for key in ("xml", "bin"))
    code, text = said("verify", tmp_path / "onnx", tmp_path / "ir", "--steps", "2")
    assert code == 2
    assert "'onnx2ir verify encoder_model.onnx openvino_encoder_model.xml' compares the encoder" in text
    code, text = said("verify", tmp_path / "onnx/encoder_model.onnx", tmp_path / "ir/openvino_encoder_model.xml")
    assert code == 0, text
