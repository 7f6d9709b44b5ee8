"""What OpenVINO's CPU plug-in computes otherwise and no rule replaces, as docs/limits.md lists it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Operation
from ir_runtime.operations.activation import Clamp1, ReLU1
from tests.engines import assert_close, converted, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.ir_runtime.execution.kernel_checks import model_of
from tests.rows.row import const, several

X = {"x": np.array([np.nan, -3, 0.5, 7], np.float32)}
LOW, HIGH = np.float32(-1), np.float32(1)
BEYOND = {"x": np.array([-np.inf, np.inf, 3e9, -2.5], np.float32)}
ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "NaN in Clamp": ("Clip", X, {"low": LOW, "high": HIGH}, {}),
    "NaN in ReLU": ("Relu", X, {}, {}),
    "NaN in Maximum": ("Max", X, {"low": LOW}, {}),
    "NaN in Minimum": ("Min", X, {"high": HIGH}, {}),
    "floats beyond int32 as int64": ("Cast", BEYOND, {}, {"to": onnx.TensorProto.INT64}),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [[4], ["n"]], ids=["static", "dynamic"])
@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_what_limits_lists(name: str, shape: list[Any], engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "openvino":
        reason = "where this passes, the plug-in is right: take the line from docs/limits.md"
        request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    op_type, feeds, constants, attributes = ROWS[name]
    model = node_model(op_type, feeds, opset=13, constants=constants, attributes=attributes, shapes={"x": shape})
    run = run_numpy if engine == "numpy" else run_openvino
    assert_close(run(converted(model), feeds)[0], run_onnxruntime(model, feeds)[0])


VERIFIED = {
    # the operator before, which makes values that reach the limit, and the layer
    "NaN in ReLU": ("Log", "Relu", "loses NaN"),
    "NaN in Clamp": ("Log", "Clip", "loses NaN"),
    "NaN in Maximum": ("Log", "Max", "loses NaN"),
    "floats beyond int32 as int64": ("Exp", "Cast", "turns floats beyond int32 into -2^31"),
}


@pytest.mark.parametrize("name", VERIFIED)
@pytest.mark.parametrize("shape", [[64], ["n"]], ids=["static", "dynamic"])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_verify_tells_limits_from_faults(
    name: str, shape: list[Any], is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, op_type, text = VERIFIED[name]
    _, _, constants, attributes = ROWS[name]
    values = np.linspace(-4, 40, 64, dtype=np.float32)
    how = "<to = 7>" if attributes else ""
    stored = {key: const(value) for key, value in constants.items()}
    nodes = f"l = {before} (x) y = {op_type} {how} ({', '.join(['l', *constants])})"
    kind = "int64" if op_type == "Cast" else "float"
    model = next(
        several(nodes, dims={"x": shape}, outputs=f"{kind}[{shape[0]}] y", label=name, opset=13, x=values, **stored)
    ).model
    if is_faulty:  # the plug-in seems to return other numbers, too
        _add_one_in(monkeypatch)
    report = converter.verify(model, converter.convert_model(model), engine="openvino", inputs={"x": values})
    assert report.verdict == "different"
    if is_faulty:
        assert "although its inputs are right" in report.reason
    else:
        assert report.limits
        assert text in report.reason
        assert report.first_fault is None


def _add_one_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from converter.equivalence import engines

    openvino = engines._openvino

    def wrong(*arguments: Any) -> Any:
        engine = openvino(*arguments)
        return replace(engine, run=lambda feeds: [value + value.dtype.type(1) for value in engine.run(feeds)])

    monkeypatch.setattr(engines, "_openvino", wrong)


LARGE = [(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5, -3, (1 << 24) + 3]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", [ReLU1(), Clamp1(min=-3.5, max=(1 << 29) + 1), Clamp1(min=(1 << 25) + 1, max=2.0**40)])
def test_limits_of_other_exporters(op: Operation, is_open: bool, kind: type[np.integer[Any]]) -> None:
    data = np.maximum(LARGE, 0 if kind is np.uint32 else -(1 << 26)).astype(kind)
    model = model_of(lambda builder, x: builder.emit(op, x), [data], is_open)
    model.parameters[0].outputs[0].names, model.results[0].inputs[0].names = ["x"], ["y"]
    expected = op.evaluate(data)
    openvino_cpu.run(model)
    assert_close(run_openvino(ir_runtime.model_to_bytes(model), {"x": data})[0], expected)
