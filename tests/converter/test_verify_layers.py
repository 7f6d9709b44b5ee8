"""verify, inside the model: the layer that is wrong, outputs that prove nothing, the smallest part that shows it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.command_line.verify import print_report
from converter.derivation import without_record
from converter.equivalence.compare import compare
from converter.equivalence.report import LayerDifference, Report
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1
from tests.peak_memory import PEAK


def saved(nodes: list, initializers: dict[str, np.ndarray], folder: Path, outputs: list[str], shape: list) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in initializers.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """Twelve products with activations, the last one by zeros: the output is 0 whatever comes before."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], {}, "x"
    for index in range(12):
        weights[f"w{index}"] = (rng.standard_normal((16, 16)) / 4).astype(np.float32)
        nodes += [
            helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], name=f"product{index}"),
            helper.make_node("Tanh", [f"p{index}"], [f"t{index}"], name=f"tanh{index}"),
        ]
        last = f"t{index}"
    weights["zeros"] = np.zeros((16, 4), np.float32)
    nodes += [
        helper.make_node("MatMul", [last, "zeros"], ["y"], name="head"),
        helper.make_node("ReduceMean", [last], ["m"], name="mean", keepdims=0),
    ]
    return saved(nodes, weights, tmp_path, ["y"], ["n", 16])


def layer(model: Model, name: str) -> Node:
    return next(node for node in model.nodes() if node.name == name)


def overwrite(model: Model, name: str, change: np.ndarray) -> None:
    """Put other values into the constant of a tensor, which may be stored transposed and then has no tensor's name.

    Values of the tensor's shape are transposed, too, if the constant is.
    """
    constants = [node for node in model.nodes() if node.op.data is not None]
    node = next(node for node in constants if name in (node.name, *node.outputs[0].names))
    assert node.op.data is not None
    if change.shape != node.op.data.shape and change.shape == node.op.data.shape[::-1]:
        change = change.T
    node.op = Const1(value=Tensor.from_array(change, node.op.data.element_type))


def test_the_first_wrong_layer_is_distinguished_from_those_behind_it(deep: Path) -> None:
    model = converter.convert_model(deep)
    product = layer(model, "product5")
    product.op = product.op.with_attributes(transpose_b=not product.op.transpose_b)
    report = converter.verify(deep, model, weights=False)
    assert not report.passed
    fault = report.first_fault
    assert fault is not None
    assert (fault.layer, fault.node, fault.comparison.name) == ("product5", "product5", "p5")
    wrong = [one.comparison.name for one in report.layers if not one.comparison.passed]
    assert wrong[:3] == ["p5", "t5", "p6"]
    assert [one.comparison.name for one in report.layers if not one.local.passed] == ["p5"]
    (change,) = report.derivation.differences
    assert (change.layer, change.what) == ("product5", ("transpose_b is false where the other model has true",))
    assert report.reason.endswith(
        "from its derivation layer 'product5': transpose_b is false where the other model has true"
    )


def test_notes_are_printed(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(converter.verify(deep, converter.convert_model(deep)))
    assert "note: output 'y' is 0 everywhere" in " ".join(capsys.readouterr().out.split())


def test_an_output_that_is_zero_everywhere_has_a_note_and_its_layers_count(deep: Path) -> None:
    model = converter.convert_model(deep)
    good = converter.verify(deep, model)
    assert good.passed
    assert any("output 'y' is 0 everywhere: it proves nothing" in note for note in good.notes)
    for index in range(12):
        overwrite(model, f"w{index}", np.ones((16, 16), np.float32))
    bad = converter.verify(deep, model, weights=False)
    assert all(output.passed for output in bad.outputs)
    assert not bad.passed
    assert bad.first_fault is not None
    assert bad.first_fault.layer == "product0"


def test_an_output_that_no_input_reaches_has_a_note(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["nothing"], name="nothing"),
        helper.make_node("Add", ["nothing", "b"], ["y"], name="add"),
    ]
    weights = {"zero": np.zeros(3, np.float32), "b": np.arange(3, dtype=np.float32)}
    path = saved(nodes, weights, tmp_path, ["y"], [2, 3])
    report = converter.verify(path, converter.convert_model(path))
    assert report.passed
    assert "output 'y' is the same in all 2 runs: it proves nothing about the layers before it" in report.notes


def test_a_layer_that_refuses_its_inputs_is_named(deep: Path) -> None:
    model = converter.convert_model(deep)
    overwrite(model, "w7", np.ones((8, 16), np.float32))
    with pytest.raises(converter.VerificationError, match=r"first layer that is wrong .* is 'product7'"):
        converter.verify(deep, model)


def test_rounding_that_adds_up_is_no_fault(tmp_path: Path) -> None:
    """A chain that doubles what its rounding costs at each step parts visibly, and every layer is right."""
    nodes, last = [], "x"
    for index in range(40):
        nodes += [
            helper.make_node("Mul", [last, "four"], [f"a{index}"], name=f"mul{index}"),
            helper.make_node("Sub", ["one", last], [f"b{index}"], name=f"sub{index}"),
            helper.make_node("Mul", [f"a{index}", f"b{index}"], [f"c{index}"], name=f"map{index}"),
            helper.make_node("Sin", [f"c{index}"], [f"d{index}"], name=f"sin{index}"),
        ]
        last = f"d{index}"
    weights = {"four": np.float32(3.99).reshape(1), "one": np.float32(1).reshape(1)}
    path = saved(nodes, weights, tmp_path, [last], [64])
    model = converter.convert_model(path)
    report = converter.verify(path, model, layers=True, samples=1, inputs={"x": np.linspace(0.1, 0.9, 64, dtype="f4")})
    assert report.first_fault is None
    assert len(report.layers) == 160
    # Not a pass, for nobody can tell; but no layer is to blame.
    parted = replace(report, outputs=(replace(report.outputs[0], passed=False),))
    assert parted.only_adds_up
    assert (parted.verdict, parted.passed) == ("different", False)
    assert parted.reason.startswith("outputs differ, but no single layer is wrong")
    assert parted.to_dict()["only_adds_up"] is True
    assert not replace(parted, layers=()).only_adds_up  # nobody has looked


@pytest.mark.parametrize("wrong", [False, True])
def test_a_code_between_two_steps_may_take_either_and_no_other_code_may(tmp_path: Path, wrong: bool) -> None:
    """Every sum is a step and a half but for the last bit of a scale: onnxruntime's fused sums put 23 codes elsewhere."""
    weights = {
        "s": np.float32(2 / 255),
        "z": np.uint8(128),
        "one": np.array([255], np.uint8),
        "t": np.float32(1 / 255),
        "zero": np.uint8(0),
        "u": np.nextafter(np.float32(2 / 255), np.float32(1)),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["codes"]),
        helper.make_node(
            "QLinearAdd", ["codes", "s", "z", "one", "t", "zero", "u", "zero"], ["sums"], domain="com.microsoft"
        ),
        helper.make_node("DequantizeLinear", ["sums", "u", "zero"], ["y"]),
    ]
    path = saved(nodes, weights, tmp_path, ["y"], [256])
    proto = onnx.load(path)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, path)
    model = converter.convert_model(path, target="any")
    if wrong:  # each sum a quarter of a step too large: those beside the middle go to the next step
        other = onnx.load(path)
        other.graph.initializer[3].CopyFrom(numpy_helper.from_array(np.float32(1.002 / 255), "t"))
        model = converter.convert_model(other, target="any")
    inputs = {"x": ((np.arange(256) - 128) * np.float32(2 / 255)).astype(np.float32)}
    report = converter.verify(path, model, inputs=inputs, layers=True, weights=False)
    assert report.passed is not wrong
    assert [layer.comparison.name for layer in report.layers if not layer.local.passed] == ["sums"] * wrong


def test_the_smallest_part_is_written_and_shows_it(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    overwrite(model, "w3", np.eye(16, dtype=np.float32))
    folder = tmp_path / "fault"
    report = converter.verify(deep, model, minimise=folder, weights=False)
    assert "1 layer and 1 ONNX nodes; this part alone shows it" in report.minimised
    assert sorted(path.name for path in folder.iterdir()) == [
        "expected.npz", "inputs.npz", "model.bin", "model.onnx", "model.xml",
    ]  # fmt: skip
    part = onnx.load(folder / "model.onnx")
    assert [node.op_type for node in part.graph.node] == ["MatMul"]
    again = converter.verify(folder / "model.onnx", folder / "model.xml", inputs=folder / "inputs.npz")
    assert not again.passed
    with np.load(folder / "inputs.npz") as feeds, np.load(folder / "expected.npz") as expected:
        weight = numpy_helper.to_array(part.graph.initializer[0])
        np.testing.assert_allclose(feeds["t2"] @ weight, expected["p3"], rtol=1e-5, atol=1e-6)


def test_sums_of_millions_of_terms_may_lose_what_partial_sums_lose(tmp_path: Path) -> None:
    path = saved([helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)], {}, tmp_path, ["y"], [4, 1024, 1024])
    assert converter.verify(path, converter.convert_model(path), layers=True, samples=1).passed


@pytest.mark.full
def test_activations_of_gigabytes_are_compared_in_little_memory(tmp_path: Path) -> None:
    """24 layers of 32 MiB each: held at once they would take three quarters of a GB on each side."""
    nodes, last = [], "x"
    for index in range(24):
        nodes.append(helper.make_node("Tanh" if index % 2 else "Neg", [last], [f"t{index}"], name=f"layer{index}"))
        last = f"t{index}"
    nodes.append(helper.make_node("ReduceMean", [last], ["y"], keepdims=0))
    path = saved(nodes, {}, tmp_path, ["y"], [8, 1024, 1024])
    code = (
        f"{PEAK}\nimport converter\n"
        f"m = {str(path)!r}\n"
        "model = converter.convert_model(m)\n"
        "r = converter.verify(m, model, samples=1)\n"
        "before = peak()\n"
        "r = converter.verify(m, model, samples=1, layers=True)\n"
        "assert r.passed and len(r.layers) == 25, r\n"
        "print((peak() - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 500


def test_a_name_stays_only_where_the_value_is_the_same() -> None:
    """The Expand of a number goes, because Mul broadcasts by itself: no value of the IR has its name any more."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Expand", ["two", "shape"], ["wide"]),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
        [numpy_helper.from_array(np.float32(2), "two")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    ir = converter.convert_model(model)
    assert [node.op.type for node in ir.nodes()] == ["Parameter", "Const", "Multiply", "Result"]
    assert {name for node in ir.nodes() for output in node.outputs for name in output.names} == {"x", "two", "y"}
    report = converter.verify(model, ir, layers=True)
    assert report.passed, str(report)


def test_a_name_that_another_program_moved_is_no_fault(tmp_path: Path) -> None:
    """OpenVINO's importer leaves a convolution its name when it has the scale of a normalization, too."""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((4, 3, 3, 3)), "s": np.array([0.5, 2, 3, 4]), "b": random.standard_normal(4)}
    weights.update(m=np.zeros(4), v=np.ones(4))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["y"], name="relu"),
    ]
    path = saved(
        nodes, {name: value.astype(np.float32) for name, value in weights.items()}, tmp_path, ["y"], [1, 3, 8, 8]
    )
    model = without_record(converter.convert_model(path))
    conv = next(node for node in model.nodes() if node.op.type == "Convolution")
    assert not {"c", "n"} & set(conv.outputs[0].names)
    conv.outputs[0].names = [*conv.outputs[0].names, "c"]
    report = converter.verify(path, model, layers=True)
    assert (report.verdict, [layer.comparison.name for layer in report.layers]) == ("equal", ["n", "y"]), report
    weight = conv.inputs[1].node
    assert weight.op.data is not None
    weight.op = Const1(value=Tensor.from_array(weight.op.data.array()[:, ::-1].copy(), weight.outputs[0].element_type))
    report = converter.verify(path, model, layers=True)
    assert report.verdict == "different"
    assert report.first_fault is not None


def test_a_constant_of_fewer_bits_may_have_the_name_of_the_tensor(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["w"], ["e"], name="exp"),
        helper.make_node("MatMul", ["x", "e"], ["y"], name="product"),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)}
    path = saved(nodes, weights, tmp_path, ["y"], [4, 64])
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", compress_to_fp16=True, record=False)
    model = ir_runtime.read_model(tmp_path / "m.xml")
    convert = next(node for node in model.nodes() if node.op.type == "Convert")
    convert.inputs[0].names, convert.outputs[0].names = ["e"], []
    report = converter.verify(path, model, layers=True)
    assert (report.verdict, [layer.comparison.name for layer in report.layers]) == ("equal", ["y"]), report


def test_a_part_of_many_layers_names_a_few() -> None:
    difference = compare("t", np.float32([1]), np.float32([2]))
    part = tuple(f"layer{number}" for number in range(180))
    fault = LayerDifference("layer9", "Add", difference, difference, "node", part)
    text = Report("oracle", 0, {}, (difference,), (fault,)).to_text()
    assert "one of layer0, layer1," in text
    assert "layer7 and 172 more" in text
    assert "layer8," not in text
