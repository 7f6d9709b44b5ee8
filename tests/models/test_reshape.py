"""Real models converted with declared shapes, then given other ones: against onnxruntime on the opened file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import converter
import ir_runtime
from converter.equivalence.oracle import session_options
from tests.engines import ENGINES
from tests.models.test_real_models import INNER, MODELS, images, pages, sounds
from tests.suite.reshape import Reshaping, in_numpy, in_openvino, opened

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
    written = ir_runtime.model_to_bytes(converter.convert_model(path, input=declared, output=INNER.get(name)))
    session = _opened_file(path, INNER.get(name))
    feeds = {port.name: make(port.name) for port in session.get_inputs()}
    expected = session.run(None, feeds)
    shapes = {key: list(array.shape) for key, array in feeds.items()}
    case = Reshaping(name, shapes, feeds, expected, [port.name for port in session.get_outputs()])
    for engine, run in zip(ENGINES, (in_numpy, in_openvino)):
        for value, want in zip(run(written, case), expected):
            assert value.shape == want.shape, engine
            assert value.dtype == want.dtype, engine
            error = np.abs(value.astype(np.float64) - want).max() / np.abs(want).max()
            assert error < 1e-3, f"{engine}: relative error {error:.2g}"
