"""verify: verdicts, figures, the oracle's name, the first layer that differs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.equivalence.compare import Tolerance, compare
from ir_runtime.operations.elementwise import Add1, Multiply1


@pytest.fixture
def three_layers(tmp_path: Path) -> Path:
    """y = mean(|x * w| + 1), in three layers."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "w"], ["scaled"], name="scale"),
            helper.make_node("Add", ["scaled", "one"], ["shifted"], name="shift"),
            helper.make_node("ReduceL1", ["shifted"], ["y"], name="norm", keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [
            numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "w"),
            numpy_helper.from_array(np.float32(1), "one"),
        ],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_equal_sides_pass(three_layers: Path, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(three_layers), tmp_path / "m.xml")
    report = converter.verify(three_layers, tmp_path / "m.xml", layers=True)
    assert report.passed
    assert report.oracle.startswith("onnxruntime ")
    assert [output.name for output in report.outputs] == ["y"]
    assert report.outputs[0].max_ulps is not None
    assert report.outputs[0].max_ulps <= 4
    assert report.outputs[0].cosine == pytest.approx(1)
    assert [(layer.layer, layer.comparison.name) for layer in report.layers] == [
        ("scale", "scaled"),
        ("shift", "shifted"),
        ("norm", "y"),
    ]
    assert report.first_divergence is None
    json.dumps(report.to_dict())


def test_the_first_layer_that_differs_is_named(three_layers: Path) -> None:
    model = converter.convert_model(three_layers)
    shift = next(node for node in model.nodes() if node.name == "shift")
    assert isinstance(shift.op, Add1)
    shift.op = Multiply1()  # x * w * 1 instead of x * w + 1
    report = converter.verify(three_layers, model)
    assert not report.passed
    assert report.outputs[0].reason == "1 of 1 values are beyond the tolerance"
    assert report.first_divergence is not None
    assert (report.first_divergence.layer, report.first_divergence.type) == ("shift", "Multiply")


def test_the_report_has_the_reason_where_inner_tensors_cannot_be_compared(three_layers: Path) -> None:
    model = converter.convert_model(three_layers)
    next(node for node in model.nodes() if node.name == "shift").outputs[0].names = ["of another model"]
    report = converter.verify(three_layers, model, layers=True)
    assert report.passed
    assert [(layer.layer, layer.part) for layer in report.layers] == [
        ("scale", ("scale",)),
        ("norm", ("shift", "norm")),
    ]
    assert any("1 inner tensors have no counterpart in the IR ('shifted')" in note for note in report.notes)


@pytest.mark.parametrize(("engine", "notes"), [("numpy", 1), ("openvino", 0)])
def test_a_report_says_that_openvino_was_not_asked(three_layers: Path, engine: str, notes: int, tmp_path: Path) -> None:
    page = tmp_path / "v.html"
    report = converter.verify(three_layers, converter.convert_model(three_layers), engine=engine, report=page)
    assert report.passed
    for text in (report.to_text(), json.dumps(report.to_dict()), page.read_text(encoding="utf-8")):
        assert text.count("OpenVINO itself was not asked") == notes


def test_same_seed_same_inputs(three_layers: Path) -> None:
    model = converter.convert_model(three_layers)
    first, second = (converter.verify(three_layers, model, seed=3) for _ in range(2))
    assert first == second
    assert first.seed == 3
    assert first.inputs == {"x": [2, 4]}


def test_inputs_of_the_user(three_layers: Path, tmp_path: Path) -> None:
    model = converter.convert_model(three_layers)
    x = np.ones((5, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    for source in ({"x": x}, tmp_path / "x.npy", tmp_path / "x.npz"):
        report = converter.verify(three_layers, model, inputs=source)
        assert report.passed
        assert report.seed is None
        assert report.inputs == {"x": [5, 4]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"z": np.ones((1, 4), np.float32)}, "the model has no inputs ['z']"),
        ({}, "no values were given for the inputs ['x']"),
        ({"x": np.ones((1, 4), np.float64)}, "input 'x' must have dtype float32 (f32), but has float64"),
        ({"x": np.ones((1, 5), np.float32)}, "input 'x' must have the shape [?,4], but has [1, 5]"),
    ],
)
def test_inputs_that_do_not_fit(three_layers: Path, content: dict, message: str) -> None:
    with pytest.raises(converter.VerificationError) as caught:
        converter.verify(three_layers, converter.convert_model(three_layers), inputs=content)
    assert message in str(caught.value)


def test_an_input_file_that_is_none(three_layers: Path, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"no archive")
    with pytest.raises(converter.VerificationError, match="cannot be read as"):
        converter.verify(three_layers, converter.convert_model(three_layers), inputs=tmp_path / "x.npz")


def test_an_ir_that_lacks_an_output(three_layers: Path) -> None:
    model = converter.convert_model(three_layers)
    model.results[0].output_names = ["other"]
    with pytest.raises(converter.VerificationError, match=r"the IR has no outputs \['y'\]"):
        converter.verify(three_layers, model)


def test_a_model_that_only_the_optimizations_of_onnxruntime_refuse() -> None:
    """x64quantprecision fails on quantized weights that two nodes read (1.32)."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> agraph (float[1, 3, 4, 4] x) => (float[1, 2, 4, 4] y, float[1, 2, 4, 4] z)
        <int8[2, 3, 1, 1] w = {1, -2, 3, -4, 5, 127}, float[2] ws = {0.5, 0.25}, float s = {0.125}, int8 p = {1}> {
            xq = QuantizeLinear (x, s, p)
            xd = DequantizeLinear (xq, s, p)
            yw = DequantizeLinear <axis = 0> (w, ws)
            zw = DequantizeLinear <axis = 0> (w, ws)
            yc = Conv (xd, yw)
            zc = Conv (xd, zw)
            yq = QuantizeLinear (yc, s, p)
            zq = QuantizeLinear (zc, s, p)
            y = DequantizeLinear (yq, s, p)
            z = DequantizeLinear (zq, s, p)
        }""")
    assert converter.verify(model, converter.convert_model(model)).passed


RUN_OTHERWISE = {
    "weights whose scales go along axis 1": (
        "float[n,3,8,8] x) => (float[n,4,6,6] y",
        "float[3] k = {0.5, 0.25, 0.125}, float s = {0.125}, int8 p = {1}",
        """a = QuantizeLinear (x, s, p)
           b = DequantizeLinear (a, s, p)
           c = DequantizeLinear <axis = 1> (w, k)
           d = Conv (b, c)
           e = QuantizeLinear (d, s, p)
           y = DequantizeLinear (e, s, p)""",
        "onnxruntime",
    ),
    "a sequence of parts of two, without keepdims": (
        "float[n,4] x) => (float[n,2] y",
        "int64 i = {2}",
        """s = SplitToSequence <axis = 1, keepdims = 0> (x, i)
           y = SequenceAt (s, zero)""",
        "onnx ReferenceEvaluator",
    ),
}


@pytest.mark.parametrize("batch", ["n", "2"])
@pytest.mark.parametrize("name", RUN_OTHERWISE)
def test_a_model_that_onnxruntime_refuses_when_it_runs(name: str, batch: str) -> None:
    """Fused QLinearConv of other axes, and SplitToSequence without keepdims (1.32)."""
    ports, constants, nodes, oracle = RUN_OTHERWISE[name]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({ports}) <{constants}> {{ {nodes} }}'.replace("[n,", f"[{batch},")
    )
    weights = np.random.default_rng(0).integers(-99, 99, (4, 3, 3, 3)).astype(np.int8)
    model.graph.initializer.extend(
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.int64(0), "zero")]
    )
    report = converter.verify(model, converter.convert_model(model))
    assert report.passed, report.reason
    assert report.oracle.startswith(oracle)
    assert report.oracle.startswith("onnxruntime") or any("evaluator ran the model" in note for note in report.notes)


def test_without_onnxruntime_the_reference_evaluator_is_used_and_named(three_layers: Path) -> None:
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnxruntime' else real(name, *a)\n"
        "sys.modules['onnxruntime'] = None\n"
        "import converter\n"
        f"m = {str(three_layers)!r}\n"
        "r = converter.verify(m, converter.convert_model(m)); print(r.passed, r.oracle)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("True onnx ReferenceEvaluator ")


F32 = np.float32


@pytest.mark.parametrize(
    ("expected", "actual", "passed", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0005], True, ""),
        ([1.0, 2.0], [1.0, 2.01], False, "1 of 2 values are beyond the tolerance"),
        ([np.nan, 1.0], [np.nan, 1.0], True, ""),
        ([np.nan, 1.0], [0.0, 1.0], False, "1 NaN or infinite values differ"),
        ([np.inf, 1.0], [-np.inf, 1.0], False, "1 NaN or infinite values differ"),
        ([np.inf], [np.inf], True, ""),
        ([1000.0, 1e-9], [1000.0, 5e-4], True, ""),
        ([1e-9], [5e-4], False, "1 of 1 values are beyond the tolerance"),
    ],
)
def test_floats(expected: list, actual: list, passed: bool, reason: str) -> None:
    result = compare("t", np.array(expected, F32), np.array(actual, F32))
    assert (result.passed, result.reason) == (passed, reason)


def test_integers_must_be_equal_and_do_not_overflow_when_compared() -> None:
    a, b = np.array([2**63 - 1, 5]), np.array([-(2**63), 5])
    result = compare("t", a, b)
    assert (result.passed, result.reason) == (False, "1 of 2 values differ")
    assert result.max_absolute == float(2**64)
    assert compare("t", a, a).passed


def test_figures() -> None:
    one = np.float32(1)
    result = compare("t", np.array([1, 2], F32), np.array([np.nextafter(one, np.float32(2)), 2], F32), Tolerance(0, 0))
    assert result.max_ulps == 1
    assert result.max_absolute == pytest.approx(2**-23)
    assert compare("t", np.array([-0.0], F32), np.array([0.0], F32)).max_ulps == 0
    assert compare("t", np.array([1, 0], F32), np.array([0, 1], F32)).cosine == 0


@pytest.mark.parametrize(
    ("actual", "reason"),
    [(np.zeros(3, F32), "shape is [3], expected [2]"), (np.zeros(2), "type is float64, expected float32")],
)
def test_types_and_shapes(actual: np.ndarray, reason: str) -> None:
    result = compare("t", np.zeros(2, F32), actual)
    assert (result.passed, result.reason) == (False, reason)


def test_empty_and_text() -> None:
    assert compare("t", np.zeros((0, 3), F32), np.zeros((0, 3), F32)).passed
    words = np.array(["a", "b"], np.object_)
    assert compare("t", words, words).passed
    assert not compare("t", words, words[::-1]).passed


def test_executor_rejects_wrong_inputs_by_name(three_layers: Path) -> None:
    compiled = ir_runtime.compile_model(converter.convert_model(three_layers))
    x = np.zeros((1, 4), np.float32)
    for given, message in [
        ({}, r"no value was given for the inputs \['x'\]"),
        ({"z": x}, "the model has no input 'z'; its inputs are"),
        ({"x": x.astype(np.float64)}, r"input 'x' must have dtype float32 \(f32\), but has float64"),
        ({"x": x[0]}, r"input 'x' must have the shape \[\?,4\], but has \[4\]"),
        ({"x": np.zeros((1, 5), np.float32)}, r"must have the shape \[\?,4\], but has \[1, 5\]"),
    ]:
        with pytest.raises(ir_runtime.ExecutionError, match=message):
            compiled(given)
    assert compiled([x])["y"] == compiled({0: x})[0] == compiled(x)["y"] == 4


def test_a_model_without_outputs_proves_nothing(tmp_path: Path) -> None:
    """Bytes that are a model by their form, but have no graph."""
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x09")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        *([helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in "xy"),
    )
    ir = converter.convert_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    with pytest.raises(converter.VerificationError, match="has no outputs, so that there is nothing to compare"):
        converter.verify(tmp_path / "cut.onnx", ir)
