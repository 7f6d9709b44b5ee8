"""IR that OpenVINO's own importer makes of every model of ONNX's node suite: read here, its numbers.

The peer is OpenVINO's CPU plug-in on the very same file. What differs stands in
``known_foreign_differences.json`` with its reason, and is strict.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import numpy_helper

import ir_runtime
from tests.engines import HAS_AVX512, assert_close, run_numpy, run_openvino
from tests.suite.node_suite import Case, node_cases

KNOWN = Path(__file__).parent / "known_foreign_differences.json"


PADDED = "test_attention_4d_causal_padded_kv_bf16"
"""Differs on processors without AVX-512, and on others as a function that is written out."""


@cache
def known_differences() -> dict[str, str]:
    masked = "without AVX-512 the plug-in returns other values for masked rows of attention in bfloat16"
    found = {} if HAS_AVX512 else {PADDED: masked}
    for entry in json.loads(KNOWN.read_text()):
        for case in entry["cases"]:
            assert case not in found, f"{case} is listed twice"
            found[case] = entry["reason"]
    if not HAS_AVX512:
        del found[f"{PADDED}_expanded"]
    return found


def foreign_ir(case: Case, folder: Path) -> tuple[bytes, bytes]:
    source, xml = folder / "m.onnx", folder / "m.xml"
    source.write_bytes(case.model.SerializeToString())
    try:
        openvino.save_model(openvino.convert_model(source), xml, compress_to_fp16=False)
    except Exception as error:
        pytest.skip(f"OpenVINO does not import this model: {str(error)[-200:]}")
    return xml.read_bytes(), xml.with_suffix(".bin").read_bytes()


def array_of(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(actual: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """How the outputs differ; empty where they do not."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs, expected {len(expected)}"
    for index, (value, want) in enumerate(zip(actual, expected)):
        real = want.dtype.kind not in "iubOU" and want.size
        # Sums round by what their terms amount to, however small the sum itself is.
        greatest = (
            np.abs(want.astype(np.float64), where=np.isfinite(want), out=np.zeros(want.shape)).max() if real else 0
        )
        try:
            assert_close(value, want, rtol=1e-3, atol=1e-5 * max(1.0, greatest))
        except AssertionError as error:
            return f"output {index}: {' '.join(str(error).split())}"
    return ""


def test_every_known_difference_is_a_case() -> None:
    assert set(known_differences()) <= {case.name for case in node_cases()}


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    ir = foreign_ir(case, tmp_path)
    inputs = case.data_sets[0][0]
    if any(not isinstance(value, (onnx.TensorProto, np.ndarray, np.generic)) for value in inputs):
        pytest.skip("an input is a sequence or absent")
    feeds: dict[Any, Any] = {index: array_of(value) for index, value in enumerate(inputs)}
    try:
        expected = run_openvino(ir, feeds)
    except Exception as error:
        pytest.skip(f"OpenVINO's CPU plug-in does not run its own IR: {str(error)[-200:]}")
    model = ir_runtime.read_model(*ir)
    actual = run_numpy(ir, feeds)
    if any(node.op.type == "RandomUniform" for node in model.nodes()):
        assert [(value.dtype, value.shape) for value in actual] == [(value.dtype, value.shape) for value in expected]
        return
    found = difference(actual, expected)
    reason = known_differences().get(case.name)
    if reason is None:
        assert found == ""
    else:
        assert found != "", f"agrees, but is listed as different: {reason}"
