"""Decoders whose caches are variables, against onnxruntime with the caches as inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import converter
import ir_runtime

from .decoders import DECODERS, HEADS, LAYERS, Decoder
from .running import OnnxDecoder, OpenVinoDecoder, padded, prompt_of

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
