"""verify with values that are not finite, with compressed weights in OpenVINO, and against an IR of another target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.equivalence.engines import engine_for
from tests.converter.option_models import encoder, feeds_for, quantized_operators, recurrent
from tests.converter.test_verify_layers import overwrite


def model_of(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: list, output: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=output)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product(*more: onnx.NodeProto, output: str = "p") -> onnx.ModelProto:
    weights = {"w": np.random.default_rng(0).standard_normal((64, 48))}
    return model_of([helper.make_node("MatMul", ["x", "w"], ["p"], "product"), *more], weights, [4, 64], output)


def failed(report: converter.Report) -> list[str]:
    return [sample.description for sample in report.samples if not sample.passed]


def test_where_onnxruntime_loses_nan_onnxs_own_evaluator_decides() -> None:
    """onnxruntime's LSTM makes finite numbers of NaN."""
    report = converter.verify(recurrent(), converter.convert_model(recurrent()), stress=True)
    assert report.passed
    assert "NaN: the IR computes what onnx's own evaluator does, and onnxruntime does not" in report.notes
    wrong = converter.convert_model(recurrent())
    node = next(node for node in wrong.nodes() if node.op.data is not None and node.op.data.size == 128 * 40)
    assert node.op.data is not None
    overwrite(wrong, node.name, np.roll(node.op.data.array(), 1))
    assert "stress: large numbers" in failed(converter.verify(recurrent(), wrong, stress=True))


@pytest.mark.parametrize(
    ("more", "operator", "left_out"),
    [
        ([("Cast", "p", {"to": TensorProto.UINT32}), ("Cast", "a", {"to": TensorProto.FLOAT})], "Cast", ["infinities", "NaN"]),
        ([("Cast", "p", {"to": TensorProto.FLOAT16})], "", []),
    ],
)  # fmt: skip
def test_results_that_onnx_does_not_define_are_not_compared(more: list, operator: str, left_out: list[str]) -> None:
    made = "abc"
    nodes = [helper.make_node(op, [x], [made[i]], f"n{i}", **kept) for i, (op, x, kept) in enumerate(more)]
    model = product(*nodes, output=made[len(more) - 1])
    report = converter.verify(model, converter.convert_model(model), stress=True)
    assert report.passed
    notes = [note for note in report.notes if "were not compared" in note]
    assert [note.split()[0] for note in notes] == left_out
    assert all(f"({operator})" in note for note in notes)
    ran = [sample.description for sample in report.samples if sample.description.startswith("stress")]
    assert len(ran) == 6 - len(left_out)


@pytest.mark.parametrize(
    ("node", "shape", "note"),
    [
        (("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), [1, 2, 8, 8], "do not agree"),
        (("LRN", {"size": 3, "alpha": 10.0}), [1, 6, 4, 4], "do not agree"),
        (("GridSample", {}), [1, 4, 4, 2], "refuses them"),
    ],
)
def test_values_on_which_the_references_do_not_agree_are_not_compared(
    node: tuple[str, dict], shape: list[int], note: str
) -> None:
    """onnxruntime loses NaN in some windows of MaxPool and spreads it in LRN, the evaluator does neither."""
    operator, attributes = node
    inputs = ["image", "x"] if operator == "GridSample" else ["x"]
    weights = {"image": np.random.default_rng(0).standard_normal((1, 2, 5, 7))} if len(inputs) > 1 else {}
    model = model_of([helper.make_node(operator, inputs, ["y"], "layer", **attributes)], weights, shape, "y")
    report = converter.verify(model, converter.convert_model(model), stress=True)
    assert report.passed, report
    assert any(line.startswith("NaN were not compared") and line.endswith(note) for line in report.notes)


def test_an_ir_that_limits_infinities_is_different() -> None:
    """Both references keep them."""
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"], "limits")]
    wrong = model_of(nodes, {"low": np.array(-3e38), "high": np.array(3e38)}, [4, 8], "y")
    right = model_of([helper.make_node("Identity", ["x"], ["y"], "same")], {}, [4, 8], "y")
    report = converter.verify(right, converter.convert_model(wrong), stress=True)
    assert failed(report) == ["stress: infinities"]


def test_infinities_are_left_out_where_weights_are_rounded(tmp_path: Path) -> None:
    """A weight that is rounded to 0 makes NaN of what was infinite."""
    converter.save_model(converter.convert_model(product()), tmp_path / "m.xml", compress="int4")
    report = converter.verify(product(), tmp_path / "m.xml", stress=True)
    assert report.passed
    assert "infinities are left out: they become NaN where a weight was rounded to 0" in report.notes


def test_what_overflows_is_left_out_where_weights_are_rounded(tmp_path: Path) -> None:
    """Scores that are divided by a denormal number are infinite; which ones are, depends on the weights."""
    converter.save_model(converter.convert_model(encoder()), tmp_path / "m.xml", compress="int4")
    report = converter.verify(encoder(), tmp_path / "m.xml", stress=True)
    assert report.passed, report
    assert "denormal numbers are left out: results overflow, and where depends on rounded weights" in report.notes
    ran = [sample.description for sample in report.samples if sample.description.startswith("stress")]
    assert ran == ["stress: zeros", "stress: large numbers", "stress: small numbers", "stress: NaN"]
    exact = converter.verify(encoder(), converter.convert_model(encoder()), stress=True)
    assert exact.passed
    assert "stress: denormal numbers" in [sample.description for sample in exact.samples]


def test_openvino_computes_in_float32_with_compressed_weights(tmp_path: Path) -> None:
    """By default its products with weights of 8 bits round the data to 8 bits, too: the outputs differ by 0.03."""
    converter.save_model(converter.convert_model(encoder()), tmp_path / "m.xml", compress="int8")
    from ir_runtime import read_model

    feeds = feeds_for(encoder(), {"n": 2, "s": 6})
    model = read_model(tmp_path / "m.xml")
    ours = engine_for("numpy", model).run(feeds)
    for value, other in zip(ours, engine_for("openvino", model, tmp_path / "m.xml").run(feeds)):
        np.testing.assert_allclose(other, value, rtol=0, atol=2e-5)


def test_a_limit_of_openvino_alone_is_not_called_rounding() -> None:
    """OpenVINO's Relu of NaN is 0, which docs/limits.md lists."""
    model = product(helper.make_node("Relu", ["p"], ["y"], "relu"), output="y")
    report = converter.verify(model, converter.convert_model(model), stress=True, engine="openvino")
    assert failed(report) == ["stress: infinities", "stress: NaN"]
    assert not report.only_adds_up
    assert report.first_fault is None
    assert report.limits == ("layer 'relu' (ReLU) loses NaN",)
    assert report.verdict == "different"
    assert "by a known limit" in report.reason
    assert all(
        layer.local.passed for layer in converter.verify(model, converter.convert_model(model), stress=True).layers
    )


def test_another_ir_of_a_quantised_model_may_take_the_next_step_where_no_layer_is_wrong() -> None:
    """In OpenVINO the IR for "cpu" runs in 8 bits, the one for "any" as onnxruntime does.

    How often they take different steps depends on the processor.
    """
    model = quantized_operators()
    plain = converter.convert_model(model, target="any")
    report = converter.verify(model, plain, engine="openvino", against=converter.convert_model(model))
    assert report.passed, report
    wrong = converter.convert_model(model, target="any")
    node = next(node for node in wrong.nodes() if node.op.data is not None and node.op.data.size == 400 * 24)
    assert node.op.data is not None
    overwrite(wrong, node.name, np.roll(node.op.data.array(), 1))
    assert not converter.verify(model, plain, engine="openvino", against=wrong).passed
