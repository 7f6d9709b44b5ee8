"""silero-vad, in all the files its authors ship: one exporter's ranks hang on dimensions, another's on a branch."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
import ir_runtime
from ir_runtime.graph.model import Model
from tests.engines import ENGINES, EXACT, core, output_names, run, run_onnxruntime
from tests.models.sources import from_wheel

STATE = [2, 1, 128]


@functools.cache
def file(name: str) -> str:
    return str(from_wheel("silero-vad", f"silero_vad/data/{name}.onnx"))


def speech(*shape: int) -> np.ndarray:
    """A voice's harmonics under an envelope, with some noise."""
    time = np.arange(shape[-1]) / 16000
    voice = sum(np.sin(2 * np.pi * 140 * n * time) / n for n in range(1, 12)) * np.hanning(shape[-1])
    noise = np.random.default_rng(0).standard_normal(shape)
    return (0.1 * voice + 0.01 * noise).astype(np.float32)


def state(*shape: int) -> np.ndarray:
    return (0.1 * np.random.default_rng(1).standard_normal(shape)).astype(np.float32)


def vad(samples: int, rate: int | None, batch: int = 1) -> dict[str, Any]:
    feeds = {"input": speech(batch, samples), "state": state(2, batch, 128)}
    return feeds if rate is None else {**feeds, "sr": np.array(rate, np.int64)}


def shapes(samples: Any, batch: Any = 1) -> dict[str, list[Any]]:
    return {"input": [batch, samples], "state": [2, batch, 128]}


SEQUENCE = {"input": speech(5, 576), "h": state(1, 1, 128), "c": state(1, 1, 128)}

ROWS: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = [
    # file, options of convert_model, inputs
    ("silero_vad", {"input": shapes(576)}, vad(576, 16000)),
    ("silero_vad", {"input": {"input": [1, 576]}}, vad(576, 16000)),
    ("silero_vad", {"input": shapes(576), "freeze": {"sr": 16000}}, vad(576, 16000)),
    ("silero_vad", {"input": shapes(576, "?"), "freeze": {"sr": 16000}}, vad(576, 16000, batch=3)),
    ("silero_vad", {"input": shapes(288)}, vad(288, 8000)),
    ("silero_vad", {"input": shapes(288), "freeze": {"sr": 8000}}, vad(288, 8000)),
    ("silero_vad_16k_op15", {"input": shapes(576)}, vad(576, 16000)),
    ("silero_vad_16k_op15", {"input": shapes(576), "freeze": {"sr": 16000}}, vad(576, 16000)),
    ("silero_vad_16k_op15", {"input": shapes(576, "?")}, vad(576, 16000, batch=2)),
    ("silero_vad", {}, vad(576, 16000)),
    ("silero_vad", {}, vad(512, 16000, batch=3)),
    ("silero_vad", {}, vad(288, 8000, batch=2)),
    ("silero_vad", {"freeze": {"sr": 16000}}, vad(576, 16000)),
    ("silero_vad_16k_op15", {}, vad(600, 16000)),
    ("silero_vad_16k_op15", {"input": {"input": ["?", 576]}}, vad(576, 16000, batch=2)),
    ("silero_vad_half", {}, vad(300, None, batch=2)),
    ("silero_vad_16k_sequence", {}, SEQUENCE),
    ("silero_vad_half", {"input": shapes(576)}, vad(576, None)),
    ("silero_vad_half", {"input": shapes(576, "?")}, vad(576, None, batch=2)),
    ("silero_vad_op18_ifless", {}, vad(576, 16000)),
    ("silero_vad_op18_ifless", {}, vad(288, 8000)),
    ("silero_vad_op18_ifless", {"input": shapes(576)}, vad(576, 16000)),
    ("silero_vad_op18_ifless", {"input": shapes(576), "freeze": {"sr": 16000}}, vad(576, 16000)),
    ("silero_vad_openvino_16k", {}, vad(576, None)),
]


def written(model: Model) -> tuple[bytes, bytes]:
    ir = ir_runtime.model_to_bytes(model)
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(*ir)) == ir
    return ir


@pytest.mark.parametrize(("name", "options", "feeds"), ROWS)
def test_numbers(name: str, options: Mapping[str, Any], feeds: dict[str, Any]) -> None:
    expected = run_onnxruntime(onnx.load(file(name)), feeds)
    ir = written(converter.convert_model(file(name), **options))
    given = {key: value for key, value in feeds.items() if key not in options.get("freeze", {})}
    for engine in ENGINES:
        for value, want in zip(run(engine, ir, given, output_names(onnx.load(file(name)))), expected, strict=True):
            assert value.shape == want.shape
            assert value.dtype == want.dtype
            # Relative to what the values amount to: the states have elements around 0.
            assert np.abs(value - want).max() / np.abs(want).max() < 1e-3, engine


@pytest.mark.parametrize("rate", [8000, 16000])
def test_the_rate_decides_between_branches_at_execution(rate: int) -> None:
    """32 ms and their context at either rate, while the shape of the input is dynamic."""
    ir = written(converter.convert_model(file("silero_vad_op18_ifless")))
    feeds = vad(576 if rate == 16000 else 288, rate)
    expected = run_onnxruntime(onnx.load(file("silero_vad_op18_ifless")), feeds)
    for engine in ENGINES:
        np.testing.assert_allclose(run(engine, ir, feeds)[0], expected[0], rtol=1e-3)


def test_a_branch_for_another_rate_fails_when_it_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """576 samples are a chunk at 16 kHz, and nothing at 8 kHz; onnxruntime refuses them there, too."""
    with caplog.at_level(logging.WARNING, "converter"):
        ir = written(converter.convert_model(file("silero_vad"), input=shapes(576)))
    assert "else_branch of the If that makes 'If_0_outputs_0' contradicts" in caplog.text
    feeds = vad(576, 8000)
    runs: list[Callable[[], Any]] = [
        lambda: run_onnxruntime(onnx.load(file("silero_vad")), feeds),
        lambda: run("openvino", ir, feeds),
    ]
    for attempt in runs:
        with pytest.raises(Exception):  # noqa: B017, PT011 (neither engine has an error class for this)
            attempt()
    with pytest.raises(ir_runtime.ModelError, match="else_branch contradicts the shapes around it"):
        run("numpy", ir, feeds)


@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_16k_op15"])
def test_lengths_in_one_request(name: str) -> None:
    """The shape of the input stays open; lengths that give more than one frame have no state to go with."""
    ir = written(converter.convert_model(file(name)))
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    xml, weights = ir
    model = core().read_model(xml, openvino.Tensor(np.frombuffer(weights, np.uint8)))
    request = core().compile_model(model, "CPU", EXACT).create_infer_request()
    for batch, samples in ((1, 576), (3, 512), (1, 600), (2, 300), (1, 2000), (1, 576)):
        feeds = vad(samples, 16000, batch)
        if samples == 2000:
            with pytest.raises(ir_runtime.ModelError, match="else_branch contradicts the shapes around it"):
                compiled(feeds)
            with pytest.raises(RuntimeError):
                request.infer(feeds)
            with pytest.raises(Exception, match="LSTM"):
                run_onnxruntime(onnx.load(file(name)), feeds)
            continue
        expected = run_onnxruntime(onnx.load(file(name)), feeds)
        for results in (compiled(feeds), request.infer(feeds)):
            for output, want in zip(output_names(onnx.load(file(name))), expected):
                np.testing.assert_allclose(results[output], want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_a_rate_that_is_not_served() -> None:
    """Any rate but 16 kHz takes the branch for 8 kHz, which 576 samples do not fit."""
    with pytest.raises(converter.ConversionError, match="LSTM"):
        converter.convert_model(file("silero_vad"), input=shapes(576), freeze={"sr": 44100})


def test_known_shapes_leave_no_branch() -> None:
    model = converter.convert_model(file("silero_vad"), input=shapes(576), freeze={"sr": 16000}, static=True)
    assert all(node.op.type != "If" for node in model.nodes())
    assert [output.shape.static() for output in model.outputs] == [(1, 1), tuple(STATE)]
