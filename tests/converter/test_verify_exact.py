"""verify of models that enlarge rounding: outputs count as equal where both sides are as close to the exact result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from benchmarks.injected_faults import faults
from converter.equivalence.compare import Errors, errors_of
from converter.equivalence.exact import ExactModel
from ir_runtime.execution.wide_floats import in_float64
from ir_runtime.graph.model import Model
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.elementwise import Add1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting import Builder, UniqueNames
from tests.commands import onnx2ir
from tests.engines import run_onnxruntime
from tests.optimization.models import parse
from tests.test_json_output import check

F32 = np.float32
WIDTH = 48


def saved(nodes: list, weights: dict[str, np.ndarray], folder: Path) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), path)
    return path


def chaotic(folder: Path) -> Path:
    """Products and sines in a row, each of which enlarges differences by about three."""
    random = np.random.default_rng(1)
    nodes, weights, last = [], {}, "x"
    for index in range(10):
        weights[f"w{index}"] = (random.standard_normal((WIDTH, WIDTH)) * 4 / np.sqrt(WIDTH)).astype(F32)
        nodes += [
            helper.make_node("MatMul", [last, f"w{index}"], [f"product{index}"], name=f"product{index}"),
            helper.make_node("Sin", [f"product{index}"], [f"sine{index}"], name=f"sine{index}"),
        ]
        last = f"sine{index}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    return saved(nodes, weights, folder)


def quantized(folder: Path) -> Path:
    """Products of codes in a row; every second value lies in the middle between two steps before it is rounded."""
    random = np.random.default_rng(2)
    weights: dict[str, np.ndarray] = {"scale": F32(1 / 7), "zero": np.uint8(128), "weight_zero": np.int8(0)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes0"], name="quantize")]
    for index in range(12):
        weights[f"w{index}"] = random.integers(-3, 4, (WIDTH, WIDTH)).astype(np.int8)
        weights[f"weight_scale{index}"] = F32(0.15)
        inputs = [f"codes{index}", "scale", "zero", f"w{index}", f"weight_scale{index}", "weight_zero", "scale", "zero"]
        nodes.append(helper.make_node("QLinearMatMul", inputs, [f"codes{index + 1}"], name=f"product{index}"))
        inputs = [f"codes{index + 1}", "scale", "zero"]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"real{index}"], name=f"real{index}"))
    nodes.append(helper.make_node("Identity", ["real11"], ["y"]))
    return saved(nodes, weights, folder)


def with_changed_weight(path: Path, number: int, change: Callable[[np.ndarray], np.ndarray]) -> Model:
    """The IR of ``path`` whose product of this number has another weight."""
    model = converter.convert_model(path)
    stems = (f"w{number}", f"product{number}/")
    nodes = [node for node in model.nodes() if node.op.data is not None and node.op.data.size == WIDTH * WIDTH]
    (weight,) = (node for node in nodes if node.name == stems[0] or node.name.startswith(stems[1]))
    held = weight.op.data
    assert held is not None
    weight.op = Const1(value=Tensor.from_array(np.ascontiguousarray(change(held.array().copy())), held.element_type))
    return model


def test_a_right_model_that_enlarges_rounding_passes_and_shows_both_errors(tmp_path: Path) -> None:
    path = chaotic(tmp_path)
    report = converter.verify(path, converter.convert_model(path))
    assert report.passed, str(report)
    (output,) = report.outputs
    assert output.max_absolute > output.tolerance.absolute + output.tolerance.relative, "rounding is not enlarged here"
    errors = output.errors
    assert errors is not None
    assert errors.ir <= 4 * errors.reference
    assert errors.reference > 1e-5
    assert f"errors of 'y' against the result in float64: {errors.to_text()}" in str(report)
    assert errors.to_text() in report._repr_html_()


def test_pages_and_json_show_both_errors(tmp_path: Path) -> None:
    path = chaotic(tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml")
    files = [str(tmp_path / name) for name in ("m.onnx", "m.xml", "page.html")]
    code, printed, _ = onnx2ir("verify", *files[:2], "--json", "--report", files[2])
    assert code == 0
    found = json.loads(printed)
    check("verify", found)
    (output,) = found["outputs"]
    assert output["passed"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Errors against the result in float64" in page
    assert f"{output['errors']['reference']:.3g}" in page


@pytest.mark.parametrize("number", [0, 5, 9])
@pytest.mark.parametrize("weights", [True, False])
def test_a_weight_off_by_a_hundredth_still_fails(tmp_path: Path, number: int, weights: bool) -> None:
    def change(weight: np.ndarray) -> np.ndarray:
        weight.flat[int(np.abs(weight).argmax())] *= F32(1.01)
        return weight

    path = chaotic(tmp_path)
    report = converter.verify(path, with_changed_weight(path, number, change), weights=weights)
    assert not report.passed
    assert report.first_fault is not None
    assert report.first_fault.layer == f"product{number}"


def test_errors_alone_show_a_small_fault(tmp_path: Path) -> None:
    """Weights off by a hundredth change the output by more than rounding does, which is enlarged as well."""
    path = chaotic(tmp_path)
    right, wrong = converter.convert_model(path), with_changed_weight(path, 5, lambda weight: weight * F32(1.01))
    feeds = {"x": np.random.default_rng(3).standard_normal((16, WIDTH)).astype(F32)}
    exact = ExactModel(path, {}).run(feeds)["y"]
    assert exact.dtype == np.float64
    (expected,) = run_onnxruntime(onnx.load(path), feeds)
    good, bad = (ir_runtime.compile_model(model)(feeds)[0] for model in (right, wrong))
    for values, is_alike in ((good, True), (bad, False)):
        errors = errors_of(exact, values, [expected])
        assert errors is not None
        assert errors.are_alike is is_alike


def test_a_quantized_model_whose_ties_go_to_either_side_passes(tmp_path: Path) -> None:
    path = quantized(tmp_path)
    report = converter.verify(path, converter.convert_model(path))
    assert report.passed, str(report)
    errors = report.outputs[0].errors
    assert errors is not None
    assert errors.ties > 0


@pytest.mark.parametrize("number", [0, 6])
def test_a_code_that_is_wrong_still_fails(tmp_path: Path, number: int) -> None:
    def change(weight: np.ndarray) -> np.ndarray:
        weight.flat[5] += 1
        return weight

    path = quantized(tmp_path)
    report = converter.verify(path, with_changed_weight(path, number, change))
    assert not report.passed
    assert [check.name for check in report.weights if not check.passed] == [f"w{number}"]


def test_injected_faults_in_a_model_that_enlarges_rounding(tmp_path: Path) -> None:
    path = chaotic(tmp_path)
    for fault, model, layer, _ in faults(converter.convert_model(path), np.random.default_rng(0), 8):
        try:
            report = converter.verify(path, model)
        except converter.VerificationError:
            continue  # the layers cannot be run any more
        assert not report.passed, (fault, layer)


def test_random_rounding_shows_what_decides_an_output(tmp_path: Path) -> None:
    """Equal logits of 1e8: the last bit of each decides which of them Softmax chooses. Of small ones it does not."""
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((4, WIDTH))).astype(F32)}
    for size, least, most in ((1e8, 0.1, 1.0), (1.0, 1e-9, 1e-6)):
        weights = {"w": np.full((WIDTH, WIDTH), size / WIDTH, F32)}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
        exact = ExactModel(saved(nodes, weights, tmp_path), {})
        right = exact.run(feeds)["y"]
        np.testing.assert_allclose(right, 1 / WIDTH)
        moved = [np.abs(exact.run_with_rounding(feeds, seed)["y"] - right).max() for seed in range(3)]
        assert least < min(moved) <= max(moved) <= most, (size, moved)
        assert np.array_equal(exact.run(feeds)["y"], right)


def test_errors_of_unquantized_models_include_random_rounding(tmp_path: Path) -> None:
    path = chaotic(tmp_path)
    (output,) = converter.verify(path, converter.convert_model(path)).outputs
    assert output.errors is not None
    assert output.errors.ties > output.errors.reference / 30


def test_errors_are_not_compared_where_nan_or_shapes_differ() -> None:
    exact = np.array([1.0, np.nan, np.inf])
    same = np.array([1.0 + 1e-7, np.nan, np.inf], F32)
    errors = errors_of(exact, same, [same])
    assert errors is not None
    assert errors.are_alike
    assert errors_of(exact, np.array([1, 2, np.inf], F32), [same]) is None
    assert errors_of(exact, same, [np.array([1, np.nan, -np.inf], F32)]) is None
    assert errors_of(exact, same[:2], [same]) is None
    assert errors_of(np.array(["a"], np.object_), np.array(["a"], np.object_), []) is None


def test_errors_without_any_in_the_reference() -> None:
    """Where onnxruntime is exact, an IR that is not is different."""
    assert not Errors(1e-3, 1e-3, 0.0, 0.0, 0.0, 0.0, 1.0).are_alike
    assert Errors(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0).are_alike


def test_an_output_of_rounding_alone_whose_exact_result_is_0(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Div", ["a", "k"], ["b"]),
        helper.make_node("Sub", ["b", "x"], ["d"]),
        helper.make_node("ReduceL2", ["d"], ["y"], axes=[1]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(np.float32(3), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report = converter.verify(model, converter.convert_model(model), engine="openvino", stress=True, layers=True)
    assert report.passed, report.to_text()


def test_a_model_in_float64_rounds_nowhere(tmp_path: Path) -> None:
    """Casts, types of 16 bits and bodies become float64, too; NumPy computes the same by hand."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["state", "state"], ["squared"]), helper.make_node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, ["n"]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("squared", TensorProto.FLOAT, ["n"]),
        ],
    )
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["half", "third"], ["product"]),
        helper.make_node("Cast", ["product"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("Loop", ["times", "", "single"], ["y"], body=body),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(np.float16(1 / 3), "third"), numpy_helper.from_array(np.int64(3), "times")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), path)
    x = np.array([1.1, 2.3, 0.7], F32)
    wide = (x.astype(np.float64) * np.float64(np.float16(1 / 3))) ** 8
    np.testing.assert_allclose(ExactModel(path, {}).run({"x": x})["y"], wide, rtol=1e-14)
    types = {
        o.element_type.name for n in in_float64(converter.convert_model(path)).nodes() for o in n.outputs if n.inputs
    }
    assert types.isdisjoint({"f32", "f16"})


def equal_terms() -> onnx.ModelProto:
    """A convolution that adds 1,152 equal terms, whose partial sums are all rounded in one direction."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1])]
    nodes.append(helper.make_node("Relu", ["c"], ["y"], name="relu"))
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 128, 28, 28])]
    weights = [numpy_helper.from_array(np.full((32, 128, 3, 3), 0.000315, np.float32), "w")]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("factor", [1.0, 1.00002])
def test_a_layer_that_is_right_in_float64_is_right(factor: float) -> None:
    """onnx's evaluator in float64 decides where two sums in float32 are further apart than their tolerance."""
    inputs = {"x": np.full((1, 128, 28, 28), 1.27, np.float32)}
    model = converter.convert_model(equal_terms())
    node = next(node for node in model.nodes() if node.op.data is not None and node.op.data.size > 1000)
    assert node.op.data is not None
    changed = node.op.data.array() * np.float32(factor)
    node.op = Const1(value=Tensor.from_array(changed, node.op.data.element_type))
    report = converter.verify(equal_terms(), model, inputs=inputs, layers=True, weights=False)
    errors = [layer.local.errors for layer in report.layers]
    (local,) = (layer.local for layer in report.layers if layer.layer == "conv")
    assert local.passed is (factor == 1.0), local
    assert (errors[0] is not None) is (factor == 1.0)


def test_weights_that_compression_makes_others_are_different(tmp_path: Path) -> None:
    """The derivation is right, but nobody would call the numbers equal."""
    path = chaotic(tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", compress="int8")
    report = converter.verify(path, tmp_path / "m.xml")
    assert (report.verdict, report.derivation.state) == ("different", "derived")
    assert report.reason.startswith("outputs differ by more than compressing weights may change them")


def detector(width: int = 8, rows_of_scores: int = 8) -> onnx.ModelProto:
    """A head without suppression: the best 20 boxes of a map, then the best 20 of their scores, as rows."""
    draw = np.random.default_rng(0)
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[batch, 3, height, width] x) => (float[batch, n, 6] y) {
            half = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, filters)
            gate = Sigmoid (half)
            map = Mul (half, gate)
            flat = Reshape (map, columns)
            rows = Transpose <perm = [0, 2, 1]> (flat)
            raw, logits = Split <axis = 2> (rows, parts)
            shape = Shape (map)
            last = Gather (shape, minus_one)
            end = Cast <to = 1> (last)
            line = Range (zero, end, one)
            height_of_map = Gather (shape, minus_two)
            count = Unsqueeze (height_of_map, first)
            anchors = Tile (line, count)
            column = Unsqueeze (anchors, minus_one_list)
            boxes = Add (raw, column)
            scores = Sigmoid (logits)
            best = ReduceMax <axes = [-1], keepdims = 0> (scores)
            v1, i1 = TopK <axis = 1> (best, most)
            i1u = Unsqueeze (i1, minus_one_list)
            i4 = Tile (i1u, by_four)
            ic = Tile (i1u, by_classes)
            boxes1 = GatherElements <axis = 1> (boxes, i4)
            scores1 = GatherElements <axis = 1> (scores, ic)
            line1 = Flatten (scores1)
            v2, i2 = TopK <axis = 1> (line1, most)
            row = Div (i2, classes)
            class = Mod (i2, classes)
            r4u = Unsqueeze (row, minus_one_list)
            r4 = Tile (r4u, by_four)
            boxes2 = GatherElements <axis = 1> (boxes1, r4)
            score = Unsqueeze (v2, minus_one_list)
            class_real = Cast <to = 1> (class)
            class_column = Unsqueeze (class_real, minus_one_list)
            y = Concat <axis = 2> (boxes2, score, class_column)
        }""")
    weights = {
        "filters": (draw.standard_normal((4 + width, 3, 3, 3)) * 1e-5).astype(F32),
        "columns": np.array([0, 4 + width, -1]),
        "parts": np.array([4, width]),
        "minus_one": np.int64(-1),
        "minus_two": np.int64(-2),
        "minus_one_list": np.array([-1]),
        "first": np.array([0]),
        "zero": F32(0),
        "one": F32(1),
        "most": np.array([20]),
        "by_four": np.array([1, 1, 4]),
        "by_classes": np.array([1, 1, width]),
        "classes": np.int64(rows_of_scores),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    return proto


@pytest.mark.parametrize("shape", ["x[?,3,?,?]", "x[2,3,48,64]"])
def test_rows_whose_keys_agree_within_rounding_may_be_in_another_order(shape: str) -> None:
    proto = detector()
    model = converter.convert_model(proto, input=shape)
    report = converter.verify(proto, model, input=shape)
    assert report.passed, report.reason
    assert any("rows in another order" in note and "(i1, i2)" in note for note in report.notes)
    wrong = converter.convert_model(detector(rows_of_scores=9), input=shape)
    assert converter.verify(proto, wrong, input=shape).verdict == "different"


def test_sizes_are_not_rounded_at_random() -> None:
    """A Range up to a width that was cast to float32 keeps its number of elements."""
    proto = detector()
    exact = ExactModel(proto, {})
    feeds = {"x": np.random.default_rng(0).uniform(0, 1, (2, 3, 48, 64)).astype(F32)}
    assert [exact.run_with_rounding(feeds, seed)["y"].shape for seed in range(4)] == [(2, 20, 6)] * 4


RESIZE = """r (uint8[1,3,60,70] x) => (uint8[a,b,c,d] y) <float[4] s = {1.0, 1.0, 1.7, 2.2}> {
    y = Resize <mode="linear"> (x, , s) }"""
HALVES = """h (float[n] x) => (int32[n] y) <float ten = {10.0}, float half = {0.5}> {
    t = Mul (x, ten) r = Round (t) p = Mul (r, half) y = Cast <to = 6> (p) }"""


@pytest.mark.parametrize(
    ("text", "shift", "verdict"),
    [
        (RESIZE, None, "derived"),
        (RESIZE, -1.0, "different"),
        (RESIZE, -1e-3, "different"),
        (HALVES, None, "derived"),
        (HALVES, -1e-6, "different"),
    ],
)
@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_real_numbers_at_ties_become_either_integer(text: str, shift: float | None, verdict: str, engine: str) -> None:
    """187.99999 and 188 become different integers; halves are exact in float32, so that theirs may not."""
    source = parse(text)
    model = converter.convert_model(source)
    (convert,) = (n for n in model.nodes() if n.op.type == "Convert" and n.outputs[0].element_type.is_integral)
    if shift is not None:
        builder = Builder(UniqueNames(model))
        moved = builder.emit(Add1(), convert.inputs[0], builder.constant(np.float32(shift), "f32"))
        convert.replace_inputs([moved])
    report = converter.verify(source, model, engine=engine)
    assert report.verdict == verdict
    is_noted = "'y' differ by one where rounding in float32 decides between two integers" in report.notes
    assert shift is not None or is_noted == (text is RESIZE)
