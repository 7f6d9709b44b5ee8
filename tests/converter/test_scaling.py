"""What a conversion takes grows no faster than the model: Python's calls with the nodes, memory not with the weights."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
import ir_runtime
from benchmarks.growing_graphs import FORMS
from tests.converter.optimization.models import parse
from tests.peak_memory import PEAK

SMALL, LARGE = 400, 1600


def model_of(form: str, count: int) -> bytes:
    opset = [helper.make_opsetid("", 17)]
    made = helper.make_model(FORMS[form](count), opset_imports=opset, ir_version=9)
    data: bytes = made.SerializeToString()
    return data


def calls_of(data: bytes) -> int:
    """How many functions, of Python and of C, are called for a conversion and for writing the result."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        ir_runtime.model_to_bytes(converter.convert_model(data))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_calls_is_linear_in_the_number_of_nodes(form: str) -> None:
    calls_of(model_of(form, 10))  # what is imported and cached once
    small, large = (calls_of(model_of(form, count)) for count in (SMALL, LARGE))
    assert large < 1.25 * small * LARGE / SMALL


@pytest.mark.full
@pytest.mark.parametrize("form", ["chain", "sums", "ifs"])
def test_models_of_many_nodes_are_converted(form: str) -> None:
    model = converter.convert_model(model_of(form, 20_000))
    assert sum(len(part.nodes) for part in model.parts()) > 20_000


SCRIPT = f"""{PEAK}
import sys, converter
converter.save_model(converter.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=sys.argv[3] == "half")
print(peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("external", [False, True], ids=["embedded", "external"])
@pytest.mark.parametrize("precision", ["full", "half"])
def test_memory_does_not_follow_the_weights(tmp_path: Path, external: bool, precision: str) -> None:
    peaks = [peak(tmp_path / str(dimension), dimension, external, precision) for dimension in (64, 4096)]
    assert peaks[1] - peaks[0] < 24 * 1024  # KiB, of 128 MiB of weights


def peak(folder: Path, dimension: int, external: bool, precision: str) -> int:
    """KiB at most in a process of its own."""
    folder.mkdir()
    weights = {f"w{at}": np.full((dimension, dimension), at + 1, np.float32) for at in range(2)}
    text = f"g (float[1,{dimension}] x) => (float[1,{dimension}] y) {{ v = MatMul (x, w0) y = MatMul (v, w1) }}"
    where = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0} if external else {}
    onnx.save(parse(text, **weights), folder / "m.onnx", **where)
    command = [sys.executable, "-c", SCRIPT, str(folder / "m.onnx"), str(folder / "m.xml"), precision]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+", done.stdout.strip())
    return int(done.stdout)
