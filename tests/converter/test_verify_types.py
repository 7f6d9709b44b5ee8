"""verify of inputs and outputs that NumPy has no types for: onnxruntime gives them back as bytes, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from tests.engines import run_onnxruntime
from tests.random_data import generator

OF_FLOATS = [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2]
FOUR_BITS = [TensorProto.INT4, TensorProto.UINT4]


def cast(source: int, target: int, extra: bool = False) -> onnx.ModelProto:
    """A Cast between two types; ``extra`` gives the input back as well."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=target), helper.make_node("Identity", ["x"], ["z"])]
    outputs = [helper.make_tensor_value_info("y", target, ["n"]), helper.make_tensor_value_info("z", source, ["n"])]
    graph = helper.make_graph(
        nodes[: 1 + extra], "g", [helper.make_tensor_value_info("x", source, ["n"])], outputs[: 1 + extra]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def saved(tmp_path: Path, model: onnx.ModelProto) -> tuple[Path, Path]:
    onnx.save(model, tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    return tmp_path / "m.onnx", tmp_path / "m.xml"


@pytest.mark.parametrize("kind", [*OF_FLOATS, *FOUR_BITS])
@pytest.mark.parametrize("extra", [False, True])
def test_outputs_of_every_type(tmp_path: Path, kind: int, extra: bool) -> None:
    # Of floats onnxruntime rounds to 4 bits what the specification cuts off.
    source = TensorProto.INT8 if kind in FOUR_BITS else TensorProto.FLOAT
    report = converter.verify(*saved(tmp_path, cast(source, kind, extra)))
    assert report.passed
    assert report.oracle.startswith("onnxruntime")


@pytest.mark.parametrize("kind", OF_FLOATS)
@pytest.mark.parametrize("target", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_inputs_of_every_type(tmp_path: Path, kind: int, target: int) -> None:
    report = converter.verify(*saved(tmp_path, cast(kind, target)))
    assert report.passed
    assert report.oracle.startswith("onnxruntime")


@pytest.mark.parametrize("kind", [*OF_FLOATS, *FOUR_BITS])
def test_wrong_numbers_are_seen(tmp_path: Path, kind: int) -> None:
    path, xml = saved(tmp_path, cast(TensorProto.FLOAT, kind))
    other = cast(TensorProto.FLOAT, kind)
    other.graph.node[0].input[0] = "w"
    other.graph.node.insert(0, helper.make_node("Neg", ["x"], ["w"]))
    converter.save_model(converter.convert_model(other), xml)
    assert not converter.verify(path, xml).passed


@pytest.mark.parametrize(
    ("kind", "values"), [(TensorProto.BFLOAT16, [1.0, 257.0]), (TensorProto.FLOAT8E4M3FN, [1.0625, 400.0])]
)
def test_the_oracle_rounds_as_the_type_does(kind: int, values: list[float]) -> None:
    """bfloat16 has 8 bits of mantissa, of which 257 needs 9; 1.0625 lies between 1 and 1.125, and goes to the even."""
    (found,) = run_onnxruntime(cast(TensorProto.FLOAT, kind), {"x": np.array(values, np.float32)})
    expected = {TensorProto.BFLOAT16: [1.0, 256.0], TensorProto.FLOAT8E4M3FN: [1.0, 384.0]}[kind]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(kind)
    assert found.astype(np.float64).tolist() == expected


def in_16_bits(scale: float = 1.0) -> onnx.ModelProto:
    """Twelve products with what follows them in float16, between inputs and outputs of float32."""
    r = generator(5)
    nodes = [helper.make_node("Cast", ["x"], ["v0"], to=TensorProto.FLOAT16)]
    weights = {"g": np.full(48, scale, np.float16)}
    for at in range(12):
        weights[f"w{at}"] = (r.standard_normal((48, 48)) / 5).astype(np.float16)
        nodes += [
            helper.make_node("MatMul", [f"v{at}", f"w{at}"], [f"p{at}"]),
            helper.make_node("Add", [f"p{at}", f"v{at}"], [f"s{at}"]),
            helper.make_node("LayerNormalization", [f"s{at}", "g"], [f"v{at + 1}"]),
        ]
    nodes.append(helper.make_node("Cast", ["v12"], ["y"], to=TensorProto.FLOAT))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [30, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [30, 48])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_that_computes_in_16_bits_passes(tmp_path: Path) -> None:
    """Its output is of float32, and further away than float32 rounds: onnxruntime's two ways differ by as much."""
    report = converter.verify(*saved(tmp_path, in_16_bits()), layers=True)
    assert report.passed
    (output,) = report.outputs
    assert output.max_absolute > 1e-4
    assert any("plain runs differ by up to" in note for note in report.notes)
    assert all(layer.local.passed for layer in report.layers)


def test_a_fault_in_a_model_that_computes_in_16_bits_is_found(tmp_path: Path) -> None:
    path, xml = saved(tmp_path, in_16_bits())
    text = xml.read_text()
    at = text.index('name="v12/MVN"')
    xml.write_text(text[:at] + text[at:].replace('eps="1e-05"', 'eps="0.05"', 1))
    report = converter.verify(path, xml)
    assert not report.passed
    fault = report.first_fault
    assert fault is not None
    assert fault.layer == "v12/MVN"


@pytest.mark.parametrize("is_initializer", [True, False])
def test_string_constants(tmp_path: Path, is_initializer: bool) -> None:
    """The IR in a file holds strings behind their offsets; they are compared with the ONNX file's, and with others."""

    def words(last: str) -> onnx.ModelProto:
        constant = helper.make_tensor("words", TensorProto.STRING, [3], ["alpha", "", last])
        node = helper.make_node("Constant", [], ["words"], value=constant)
        nodes = [
            helper.make_node("ArgMax", ["x"], ["index"], axis=0),
            helper.make_node("Gather", ["words", "index"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes if is_initializer else [node, *nodes],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
            [helper.make_tensor_value_info("y", TensorProto.STRING, [1])],
            [constant] if is_initializer else [],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)

    path, xml = saved(tmp_path, words("gamma"))
    report = converter.verify(path, xml, layers=True)
    assert report.passed
    assert report.weight_states == {"identical": 1}
    onnx.save(words("delta"), path)
    report = converter.verify(path, xml)
    assert not report.passed
    assert [check.reason for check in report.weights] == [
        "1 of 3 values differ, the first at 2: gamma instead of delta"
    ]
