"""Folders with encoder and decoder, step by step against onnxruntime with caches as inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

import converter
from tests.commands import said
from tests.converter.language_models.encoder_decoders import FILES, Onnx

from .encoder_decoders import BANDS, FRAMES, HEADS, LAYERS, NAMES, SIZE, VOCABULARY, EncoderDecoder

MODELS = {
    "text": EncoderDecoder(),
    "speech": EncoderDecoder(speech=True),
    "speech, no mask for one token": EncoderDecoder(speech=True, one_token=True),
    "text, float16": EncoderDecoder(kind=np.float16),
}
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
Array = np.ndarray


class Ir:
    def __init__(self, folder: Path) -> None:
        core = openvino.Core()
        self.encoder = core.compile_model(folder / "openvino_encoder_model.xml", "CPU", PROPERTIES)
        self.decoder = core.compile_model(folder / "openvino_decoder_model.xml", "CPU", PROPERTIES)
        self.request = self.decoder.create_infer_request()

    def encode(self, given: Mapping[str, Array]) -> Mapping[str, Array]:
        self.request.reset_state()
        self.read = {"encoder_hidden_states": np.array(self.encoder(dict(given))["last_hidden_state"], np.float32)}
        if "attention_mask" in given:
            self.read["encoder_attention_mask"] = given["attention_mask"]
        return self.read

    def step(self, tokens: Array, beams: Sequence[int] | None = None) -> Array:
        rows = np.array(range(len(tokens)) if beams is None else beams, np.int32)
        return np.array(self.request.infer({"input_ids": tokens, "beam_idx": rows, **self.read})["logits"])


def given_to(model: EncoderDecoder, seed: int = 0, lengths: Sequence[int] = (9,)) -> Mapping[str, Array]:
    """Random inputs of the encoder; texts of these lengths, padded on the right."""
    random = np.random.default_rng(seed)
    if model.speech:
        return {"input_features": random.normal(size=(len(lengths), BANDS, FRAMES)).astype(model.kind)}
    tokens = random.integers(1, VOCABULARY, (len(lengths), max(lengths)))
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    return {"input_ids": tokens * mask, "attention_mask": mask}


def tokens_of(rows: int, count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (rows, count))


def row_of(given: Mapping[str, Array], row: int) -> Mapping[str, Array]:
    length = int(given["attention_mask"][row].sum()) if "attention_mask" in given else None
    return {name: value[row : row + 1, :length] for name, value in given.items()}


class Both:
    def __init__(self, model: EncoderDecoder, files: Sequence[str], folder: Path) -> None:
        self.model = model
        model.save(folder / "onnx", files)
        self.made = converter.convert_language_model(folder / "onnx", folder / "ir")
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
        given = given_to(both.model, run)
        both.close(both.ir.encode(given)["encoder_hidden_states"], both.onnx.encode(given)["encoder_hidden_states"])
        step = tokens_of(1, 4, run)
        for _ in range(24):
            wanted = both.onnx.step(step)
            both.close(both.ir.step(step), wanted)
            step = wanted[:, -1:].argmax(-1)
            found.add(int(step[0, 0]))
    assert len(found) > 10, "few tokens prove little"


def test_a_batch_in_two_parts_is_its_rows(both: Both) -> None:
    """Rows 0 and 1 are beams of the first input, rows 2 and 3 of the second; the encoder's states are read once."""
    given = {name: value.repeat(2, axis=0) for name, value in given_to(both.model, 5, (7, 4)).items()}
    prompt, steps = tokens_of(4, 5, 1), [tokens_of(4, 1, seed) for seed in range(3)]
    both.ir.encode(given)
    together = [both.ir.step(prompt[:, :3]), both.ir.step(prompt[:, 3:])]
    both.ir.read["encoder_hidden_states"] = np.full_like(both.ir.read["encoder_hidden_states"], np.nan)
    together += [both.ir.step(steps[0]), both.ir.step(steps[1], [1, 1, 3, 2]), both.ir.step(steps[2])]
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
    given, prompt, step = given_to(both.model), tokens_of(1, 3), tokens_of(3, 1, 2)
    both.ir.encode(given)
    both.ir.step(prompt)
    both.ir.read = {name: value.repeat(3, axis=0) for name, value in both.ir.read.items()}
    found = both.ir.step(step, [0, 0, 0])
    for row in range(3):
        both.onnx.encode(given)
        both.onnx.step(prompt)
        both.close(found[row], both.onnx.step(step[row : row + 1])[0])


def type_of(operation: openvino.Node) -> str:
    found: str = operation.get_rt_info()["layerType"].astype(str)
    return found


def test_layers(both: Both) -> None:
    operations = both.ir.decoder.get_runtime_model().get_ops()
    steps = [operation for operation in operations if type_of(operation) == "ScaledDotProductAttention"]
    assert len(steps) == LAYERS
    for step in steps:  # with the caches that grow
        sources = [type_of(port.get_source_output().get_node()) for port in step.inputs()]
        assert sources.count("MemoryInput") == 2
    model = openvino.Core().read_model(both.made.model)
    kinds = [operation.get_type_name() for operation in model.get_ops()]
    assert kinds.count("ScaledDotProductAttention") == 2 * LAYERS  # none is there twice, for both calls
    assert kinds.count("MatMul") == LAYERS * 10 + 1
    read = both.onnx.encode(given_to(both.model))
    assert [port.names for port in model.inputs if len(port.names) != 1] == []  # optimum-intel asks for any
    assert {port.any_name for port in model.inputs} == {"beam_idx", "input_ids", *read}
    for variable in model.get_variables():
        shape = variable.get_info().data_shape
        assert [str(dim) for dim in shape] == ["?", str(HEADS), "?", str(SIZE)]


def test_compressed_weights(tmp_path: Path) -> None:
    model = MODELS["text"]
    model.save(tmp_path / "onnx")
    found = {}
    for compress in (None, "int8"):
        made = converter.convert_language_model(tmp_path / "onnx", tmp_path / f"{compress}", compress=compress)
        ir = Ir(tmp_path / f"{compress}")
        ir.encode(given_to(model))
        found[compress] = ir.step(tokens_of(1, 4)), made.model.with_suffix(".bin").stat().st_size
    assert found["int8"][1] < 0.5 * found[None][1]
    error = np.abs(found["int8"][0] - found[None][0]).max() / np.abs(found[None][0]).max()
    assert 0 < error < 0.1


OPTIONS: dict[str, dict[str, Any]] = {
    "an older release": {"target": "cpu@2023.3"},
    "any runtime": {"target": "any"},
    "not fused": {"fuse": False},
    "exact": {"exact": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", ["text", "speech"])
def test_options(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = MODELS[name]
    model.save(tmp_path / "onnx")
    converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir", **options)
    ours, theirs = Ir(tmp_path / "ir"), Onnx(model)
    for side in (ours, theirs):
        side.encode(given_to(model))
    for seed, count in enumerate((5, 1, 1)):
        step = tokens_of(1, count, seed)
        np.testing.assert_allclose(ours.step(step), theirs.step(step), atol=2e-4, rtol=0)


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


def test_commands(tmp_path: Path) -> None:
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
