"""Real models as their authors ship them, reshaped, with photographs, and silero-vad: onnxruntime's numbers."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import converter
import ir_runtime
from converter import Preprocess
from converter.equivalence.reference.oracle import session_options
from ir_runtime.graph.model import Model
from ir_runtime.operations.interpolate import Interpolate11
from tests.converter.preprocessing.pictures import MEAN, SCALE, both, compiled, executed
from tests.engines import ENGINES, EXACT, core, output_names, run, run_onnxruntime
from tests.models.sources import INNER, LIGHT, MODELS, OCR, from_wheel, images, light, pages, sounds
from tests.suite.reshape import Reshaping, in_numpy, in_openvino, opened

# --- real models as their authors ship them, reshaped, and with photographs: onnxruntime's numbers ---


def assert_near(actual: Sequence[Any], expected: Sequence[Any], engine: str) -> None:
    """Relative to the greatest value: states have elements around 0."""
    for value, want in zip(actual, map(np.asarray, expected), strict=True):
        assert value.shape == want.shape
        assert value.dtype == want.dtype
        error = np.abs(value.astype(np.float64) - want).max() / np.abs(want).max()
        assert error < 1e-3, f"{engine}: relative error {error:.2g}"


def check(name: str, path: Path, ir: tuple[bytes, bytes], engines: Sequence[str] = ENGINES) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {port.name: MODELS[name][1](port.name) for port in session.get_inputs()}
    expected = session.run(None, feeds)
    for engine in engines:
        assert_near(run(engine, ir, feeds, [port.name for port in session.get_outputs()]), expected, engine)


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    path = MODELS[name][0]()
    ir = written(converter.convert_model(path))
    if name in INNER:
        proto = onnx.load(path)
        del proto.graph.output[:]
        proto.graph.output.append(onnx.ValueInfoProto(name=INNER[name]))
        path = tmp_path / "inner.onnx"
        onnx.save(proto, path)
        ir = written(converter.convert_model(path))
    check(name, path, ir)


REFUSED_PLAIN = {"wespeaker": "Signal size greater than input size"}
"""The plug-in's error for plain layers that a rule of the target replaces."""


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LIGHT])
def test_the_plain_layers_of_a_model(name: str) -> None:
    path = MODELS[name][0]()
    plain = ir_runtime.model_to_bytes(converter.convert_model(path, target="any"))
    if name in REFUSED_PLAIN:
        check(name, path, plain, ["numpy"])
        with pytest.raises(RuntimeError, match=REFUSED_PLAIN[name]):
            check(name, path, plain, ["openvino"])
    else:
        check(name, path, plain)


def test_a_model_whose_dimensions_vary_runs_at_several_sizes() -> None:
    path = MODELS["pp-ocrv4-det"][0]()
    compiled = ir_runtime.compile_model(converter.convert_model(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in [(1, 64, 96), (3, 96, 64)]:
        x = pages(*shape)("x")
        np.testing.assert_allclose(compiled({"x": x})[0], session.run(None, {"x": x})[0], atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("layers", [None, True])
def test_a_wrong_resize_of_a_detector_is_found(layers: bool | None) -> None:
    """Random images leave its output at 1e-7; the first Resize makes four pixels of one at 32 x 32."""
    path = MODELS["pp-ocrv4-det"][0]()
    model = converter.convert_model(path)
    good = converter.verify(path, model, layers=layers)
    assert (good.verdict, good.unproven) == ("derived", ())
    node = next(node for node in model.nodes() if isinstance(node.op, Interpolate11))
    node.op = node.op.with_attributes(coordinate_transformation_mode="half_pixel", nearest_mode="ceil")
    report = converter.verify(path, model, layers=layers)
    assert not report.passed
    assert report.first_fault is not None
    assert report.first_fault.layer == node.name
    assert [layer.layer for layer in report.layers if not layer.local.passed] == [node.name]


def test_weights_made_from_constants_stay_small(tmp_path: Path) -> None:
    """VGG-19 holds 144 million weights, all of them made by ConstantOfShape."""
    converter.save_model(converter.convert_model(light("vgg19")), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").stat().st_size < 10_000_000


# --- real models converted with declared shapes, then given other ones: against onnxruntime on the opened file ---

Make = Callable[[str], np.ndarray]

# The model, the shape that it is converted for (None: as its file declares it), and data of another one.
ROWS: list[tuple[str, Mapping[str, Any] | None, Make]] = [
    ("bvlc_alexnet", None, images(1, 3, 226, 226)),
    ("densenet121", None, images(2, 3, 226, 226)),
    ("inception_v1", None, images(1, 3, 226, 226)),
    ("inception_v2", None, images(1, 3, 226, 226)),
    ("resnet50", None, images(1, 3, 222, 223)),
    ("shufflenet", None, images(1, 3, 224, 224)),
    ("squeezenet", None, images(2, 3, 226, 226)),
    ("squeezenet", None, images(1, 3, 250, 199)),
    ("pp-ocrv4-det", {"x": [1, 3, 64, 64]}, pages(2, 96, 128)),
    ("pp-ocrv4-rec", {"x": [1, 3, 48, 320]}, images(3, 3, 48, 160)),
    ("pp-ocr-cls", {"x": [1, 3, 48, 192]}, images(4, 3, 48, 192)),
    ("nudenet", {"images": [1, 3, 320, 320]}, images(2, 3, 256, 384)),
    ("kaldi", {"waveforms": [1, 16000], "waveforms_lens": [1]}, sounds(2, 12345)),
    ("swift-f0", None, sounds(1, 12000)),
]


def _opened_file(path: Path, output: str | None) -> onnxruntime.InferenceSession:
    model = opened(onnx.load(path))
    if output is not None:
        del model.graph.output[:]
        model.graph.output.append(onnx.ValueInfoProto(name=output))
    options = session_options()
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("name", "declared", "make"), ROWS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(ROWS)])
def test_reshaped(name: str, declared: Mapping[str, Any] | None, make: Make) -> None:
    path = MODELS[name][0]()
    ir = ir_runtime.model_to_bytes(converter.convert_model(path, input=declared, output=INNER.get(name)))
    session = _opened_file(path, INNER.get(name))
    feeds = {port.name: make(port.name) for port in session.get_inputs()}
    expected = session.run(None, feeds)
    shapes = {key: list(array.shape) for key, array in feeds.items()}
    case = Reshaping(name, shapes, feeds, expected, [port.name for port in session.get_outputs()])
    for engine, execute in zip(ENGINES, (in_numpy, in_openvino)):
        assert_near(execute(ir, case), expected, engine)


# --- real models with photographs' preprocessing: the numbers and the executed layers of OpenVINO's PrePostProcessor ---


# name -> (file, input, shape of the model's pictures); the weights of the light ones are made from constants
WITH_PICTURES = {
    "detector of skin": (("nudenet", "nudenet/320n.onnx"), "images", [1, 3, 320, 320]),
    "text direction": (("rapidocr-onnxruntime", f"{OCR}ch_ppocr_mobile_v2.0_cls_infer.onnx"), "x", [1, 3, 48, 192]),
    "text detector": (("rapidocr-onnxruntime", f"{OCR}ch_PP-OCRv4_det_infer.onnx"), "x", [1, 3, 160, 192]),
    "text recogniser": (("rapidocr-onnxruntime", f"{OCR}ch_PP-OCRv4_rec_infer.onnx"), "x", [1, 3, 48, 320]),
    "resnet50": (("resnet50",), "gpu_0/data_0", [1, 3, 224, 224]),
    "squeezenet": (("squeezenet",), "data_0", [1, 3, 224, 224]),
}


def photograph(height: int, width: int) -> np.ndarray:
    """Blocks of colours, u8 NHWC: noise alone is no picture."""
    blocks = np.random.default_rng(1).integers(0, 256, (1, height // 5 + 1, width // 5 + 1, 3))
    return np.kron(blocks, np.ones((1, 5, 5, 1)))[:, :height, :width].astype(np.uint8)


RESIZES = [*((name, "linear") for name in WITH_PICTURES), *(("text direction", way) for way in ("cubic", "nearest"))]


@pytest.mark.parametrize(("name", "resize"), RESIZES)
def test_photographs_of_any_size(name: str, resize: str, tmp_path: Path) -> None:
    place, taken, shape = WITH_PICTURES[name]
    path = light(*place) if len(place) == 1 else from_wheel(*place)
    channels: dict[str, Any] = {"layout": "nhwc", "model_layout": "nchw", "reverse_channels": True}
    steps = Preprocess(element_type="u8", mean=MEAN, scale=SCALE, resize=resize, **channels)
    ours, theirs = (compiled(file) for file in both(path, tmp_path, steps, name=taken, input={taken: shape}))
    for size in ((97, 131), (480, 640), (20, 30)):
        for found, wanted in zip(ours([photograph(*size)]).values(), theirs([photograph(*size)]).values()):
            np.testing.assert_array_equal(found, wanted)
    assert executed(ours) <= executed(theirs)


# --- silero-vad, in all the files its authors ship: one exporter's ranks hang on dimensions, another's on a branch ---

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

VAD_ROWS: list[tuple[str, Mapping[str, Any], list[dict[str, Any]]]] = [
    # file, options of convert_model, inputs
    ("silero_vad", {"input": shapes(576)}, [vad(576, 16000)]),
    ("silero_vad", {"input": {"input": [1, 576]}}, [vad(576, 16000)]),
    ("silero_vad", {"input": shapes(576), "freeze": {"sr": 16000}}, [vad(576, 16000)]),
    ("silero_vad", {"input": shapes(576, "?"), "freeze": {"sr": 16000}}, [vad(576, 16000, batch=3)]),
    ("silero_vad", {"input": shapes(288)}, [vad(288, 8000)]),
    ("silero_vad", {"input": shapes(288), "freeze": {"sr": 8000}}, [vad(288, 8000)]),
    ("silero_vad_16k_op15", {"input": shapes(576)}, [vad(576, 16000)]),
    ("silero_vad_16k_op15", {"input": shapes(576), "freeze": {"sr": 16000}}, [vad(576, 16000)]),
    ("silero_vad_16k_op15", {"input": shapes(576, "?")}, [vad(576, 16000, batch=2)]),
    ("silero_vad", {}, [vad(576, 16000), vad(512, 16000, batch=3), vad(288, 8000, batch=2)]),
    ("silero_vad", {"freeze": {"sr": 16000}}, [vad(576, 16000)]),
    ("silero_vad_16k_op15", {}, [vad(600, 16000)]),
    ("silero_vad_16k_op15", {"input": {"input": ["?", 576]}}, [vad(576, 16000, batch=2)]),
    ("silero_vad_half", {}, [vad(300, None, batch=2)]),
    ("silero_vad_16k_sequence", {}, [SEQUENCE]),
    ("silero_vad_half", {"input": shapes(576)}, [vad(576, None)]),
    ("silero_vad_half", {"input": shapes(576, "?")}, [vad(576, None, batch=2)]),
    ("silero_vad_op18_ifless", {}, [vad(576, 16000), vad(288, 8000)]),
    ("silero_vad_op18_ifless", {"input": shapes(576)}, [vad(576, 16000)]),
    ("silero_vad_op18_ifless", {"input": shapes(576), "freeze": {"sr": 16000}}, [vad(576, 16000)]),
    ("silero_vad_openvino_16k", {}, [vad(576, None)]),
]


def written(model: Model) -> tuple[bytes, bytes]:
    ir = ir_runtime.model_to_bytes(model)
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(*ir)) == ir
    return ir


@pytest.mark.parametrize(("name", "options", "inputs"), VAD_ROWS)
def test_numbers(name: str, options: Mapping[str, Any], inputs: list[dict[str, Any]]) -> None:
    """Where both rates are open, they decide between branches at execution."""
    model = onnx.load(file(name))
    ir = written(converter.convert_model(file(name), **options))
    for feeds in inputs:
        expected = run_onnxruntime(model, feeds)
        given = {key: value for key, value in feeds.items() if key not in options.get("freeze", {})}
        for engine in ENGINES:
            assert_near(run(engine, ir, given, output_names(model)), expected, engine)


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
