"""verify looks for every tensor that the file declares in the IR, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1


def real(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def saved(nodes: list, weights: dict[str, np.ndarray], inputs: dict[str, tuple[int, list]], folder: Path) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def lookup(tmp_path: Path) -> Path:
    """A look-up in 1,000 rows of which a run asks for a few, a convolution with bias, a recurrent layer."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="look"),
        helper.make_node("Transpose", ["rows"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("Conv", ["turned", "k", "b"], ["c"], name="conv", pads=[1, 1]),
        helper.make_node("Transpose", ["c"], ["steps"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["steps", "W", "R", "B"], ["all", "last"], name="lstm", hidden_size=6),
        helper.make_node("Squeeze", ["last", "axis"], ["flat"]),
        helper.make_node("Gemm", ["flat", "g", "h"], ["y"], name="gemm", transB=1, alpha=0.5),
    ]
    weights = {
        "table": real(1000, 8),
        "k": real(5, 8, 3),
        "b": real(5),
        "W": real(1, 24, 5),
        "R": real(1, 24, 6),
        "B": real(1, 48),
        "axis": np.array([0]),
        "g": real(3, 6),
        "h": real(3),
        "left": real(4),
    }
    return saved(nodes, weights, {"ids": (TensorProto.INT64, ["n", "s"])}, tmp_path)


def states(report: converter.Report) -> dict[str, str]:
    return {check.name: check.state for check in report.weights}


def constants(model: Model) -> list[Node]:
    return [node for node in model.nodes() if node.op.data is not None and node.op.data.element_type.is_real]


def change(node: Node, at: int, bit: int) -> None:
    held = node.op.data
    assert held is not None
    array = held.array().copy()
    array.reshape(-1).view(np.uint32)[at] ^= np.uint32(1 << bit)
    node.op = Const1(value=Tensor.from_array(array, held.element_type))


def test_every_tensor_is_accounted_for(lookup: Path) -> None:
    report = converter.verify(lookup, converter.convert_model(lookup))
    assert report.passed
    found = states(report)
    assert set(found) == {"table", "k", "b", "W", "R", "B", "axis", "g", "h", "left"}
    assert found["left"] == "unused"
    identical = {name for name, state in found.items() if state == "identical"}
    assert {"table", "k", "b", "W", "R", "h"} <= identical
    assert found["g"] == "scaled"  # by the alpha of its node
    forms = {check.name: check.form for check in report.weights}
    assert forms["table"] == forms["k"] == ""
    assert forms["b"] == "reshaped"
    assert forms["W"] == "in another order"  # the IR has its gates in another order


def test_five_transposed_dimensions(tmp_path: Path) -> None:
    weights = np.arange(72, dtype=np.float32).reshape(2, 3, 2, 3, 2)
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[4, 2, 0, 3, 1]),
        helper.make_node("Mul", ["x", "t"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, 2, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    (check,) = converter.verify(path, converter.convert_model(path)).weights
    assert (check.name, check.state, check.form) == ("w", "identical", "transposed")


@pytest.mark.parametrize("record", [True, False])
def test_weights_that_nodes_round_twice_are_no_scaled_ones(tmp_path: Path, record: bool) -> None:
    """Products are rounded, and their quotients again: a weight normalization as jax2onnx writes it."""
    nodes = [
        helper.make_node("ReduceL2", ["w"], ["norm"], axes=[1]),
        helper.make_node("Mul", ["w", "g"], ["product"]),
        helper.make_node("Div", ["product", "norm"], ["quotient"]),
        helper.make_node("Gemm", ["x", "quotient"], ["y"], transB=1),
    ]
    path = saved(nodes, {"w": real(16, 40), "g": real(16, 1)}, {"x": (TensorProto.FLOAT, ["n", 40])}, tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", record=record)
    report = converter.verify(path, tmp_path / "m.xml")
    assert report.passed
    assert states(report)["w"] == "folded"


@pytest.mark.parametrize("bit", [0, 12, 31])
@pytest.mark.parametrize("name", ["table", "k", "b", "W", "R", "g"])
def test_one_bit_is_found_wherever_it_is(lookup: Path, name: str, bit: int) -> None:
    """The last row of the table is asked for by no run, and the lowest bits drown in rounding."""
    model = converter.convert_model(lookup)
    good = converter.verify(lookup, model, samples=1)
    (layer,) = next(check.layers for check in good.weights if check.name == name)
    node = next(node for node in model.nodes() if node.name == layer)
    assert node.op.data is not None
    change(node, node.op.data.size - 1, bit)
    bad = converter.verify(lookup, model, samples=1)
    assert not bad.passed
    check = next(check for check in bad.weights if check.name == name)
    assert (check.state, check.layers) == ("changed", (layer,))
    assert check.reason.startswith("1 of ")
    assert all(other.passed for other in bad.weights if other.name != name)


@pytest.mark.parametrize("change", ["halved", "scaled"])
def test_a_little_of_every_value_is_found(lookup: Path, change: str) -> None:
    """A bias that was rounded, or scaled by 1.0001, is hidden by the sums that it is added to."""
    model = converter.convert_model(lookup)
    good = converter.verify(lookup, model, samples=1)
    (name,) = next(check.layers for check in good.weights if check.name == "b")
    node = next(node for node in model.nodes() if node.name == name)
    assert node.op.data is not None
    array = node.op.data.array()
    wrong = array.astype(np.float16).astype(np.float32) if change == "halved" else array * np.float32(1.0001)
    node.op = Const1(value=Tensor.from_array(wrong, node.op.data.element_type))
    bad = converter.verify(lookup, model, samples=1)
    assert [check.name for check in bad.weights if not check.passed] == ["b"]


def test_float16_and_whole_numbers_of_the_model_are_not_rounded_weights(lookup: Path, tmp_path: Path) -> None:
    model = converter.convert_model(lookup)
    converter.save_model(model, tmp_path / "half.xml", compress_to_fp16=True)
    report = converter.verify(lookup, tmp_path / "half.xml")
    assert report.passed
    check = next(check for check in report.weights if check.name == "table")
    assert (check.state, check.form) == ("converted", "as f16")
    converter.save_model(model, tmp_path / "int8.xml", compress="int8")
    report = converter.verify(lookup, tmp_path / "int8.xml")
    assert report.passed
    check = next(check for check in report.weights if check.name == "table")
    assert check.state == "compressed"
    table = np.array(onnx.numpy_helper.to_array(onnx.load(lookup).graph.initializer[0]))
    widest = (table.max(1) - table.min(1)).max() / 255
    assert 0 < check.error <= widest * 0.51


@pytest.mark.parametrize("half", [True, False])
def test_a_wrong_code_of_compressed_weights_is_found(lookup: Path, tmp_path: Path, half: bool) -> None:
    model = converter.convert_model(lookup)
    path = tmp_path / "packed.xml"
    if half:
        converter.save_model(model, path, compress_to_fp16=True)
    else:
        converter.save_model(model, path, compress="int8")
    import ir_runtime

    stored = ir_runtime.read_model(path)
    node = next(n for n in stored.nodes() if n.op.data is not None and n.op.data.shape == (1000, 8))
    assert node.op.data is not None
    array = node.op.data.array().copy()
    array[-1, -1] = array[-1, -1] + 1 if half else array[-1, -1] ^ 128
    node.op = Const1(value=Tensor.from_array(array, node.op.data.element_type))
    report = converter.verify(lookup, stored)
    assert not report.passed
    assert [check.name for check in report.weights if not check.passed] == ["table"]


def test_equal_biases_do_not_stand_for_each_other(tmp_path: Path) -> None:
    """One of two biases of zeros is damaged: the constant of the other matches the other alone."""
    nodes = [
        helper.make_node("Conv", ["x", "k1", "b1"], ["c"], name="first"),
        helper.make_node("Conv", ["c", "k2", "b2"], ["y"], name="second"),
    ]
    weights = {
        "k1": real(4, 4, 1, 1),
        "b1": np.linspace(0, 1, 4, dtype=np.float32),
        "k2": real(4, 4, 1, 1),
        "b2": np.linspace(0, 1, 4, dtype=np.float32),
    }
    path = saved(nodes, weights, {"x": (TensorProto.FLOAT, [1, 4, 3, 3])}, tmp_path)
    model = converter.convert_model(path)
    second = next(node for node in model.nodes() if node.op.type == "Add" and "y" in node.outputs[0].names)
    bias = second.inputs[1]
    held = bias.tensor
    assert held is not None
    array = held.array().copy()
    array.reshape(-1)[2] = np.nextafter(array.reshape(-1)[2], np.float32(9))
    made = Const1(value=Tensor.from_array(array, held.element_type))
    node = Node(made, (), made.infer([]), "of its own")
    second.replace_input(1, node.outputs[0])
    report = converter.verify(path, model)
    assert [check.name for check in report.weights if not check.passed] == ["b2"]


@pytest.mark.parametrize("target", ["cpu", "any"])
def test_quantised_weights(tmp_path: Path, target: str) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["w"], axis=1),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = {
        "s": np.float32(0.02),
        "z": np.uint8(128),
        "wq": np.random.default_rng(3).integers(-127, 128, (32, 16)).astype(np.int8),
        "ws": np.linspace(0.01, 0.02, 16, dtype=np.float32),
    }
    path = saved(nodes, weights, {"x": (TensorProto.FLOAT, ["n", 32])}, tmp_path)
    model = converter.convert_model(path, target=target)
    report = converter.verify(path, model)
    assert report.passed
    assert states(report)["wq"] in ("identical", "converted")
    node = next(n for n in model.nodes() if n.op.data is not None and n.op.data.shape == (32, 16))
    assert node.op.data is not None
    array = node.op.data.array().copy()
    array[5, 5] += 1
    node.op = Const1(value=Tensor.from_array(array, node.op.data.element_type))
    assert [check.name for check in converter.verify(path, model).weights if not check.passed] == ["wq"]


def test_weights_that_a_folded_node_changes_are_not_damaged(tmp_path: Path) -> None:
    """Relu changes a quarter of them, and the conversion folds it."""
    weights = np.where(np.arange(64) % 4, 1, -1).astype(np.float32) * np.linspace(0.5, 2, 64, dtype=np.float32)
    nodes = [helper.make_node("Relu", ["w"], ["positive"]), helper.make_node("Add", ["x", "positive"], ["y"])]
    model = saved(nodes, {"w": weights}, {"x": (TensorProto.FLOAT, [2, 64])}, tmp_path)
    report = converter.verify(model, converter.convert_model(model))
    assert report.passed
    assert [(check.name, check.state) for check in report.weights] == [("w", "folded")]


@pytest.mark.parametrize("op_type", ["Sub", "Add", "Mul"])
def test_a_rounded_constant_is_no_zero_point(op_type: str, tmp_path: Path) -> None:
    """A zero point is subtracted from codes that are widened; a mean is subtracted from data."""
    nodes = [helper.make_node(op_type, ["x", "mean"], ["y"], name="centre")]
    path = saved(nodes, {"mean": real(300)}, {"x": (TensorProto.FLOAT, [2, 300])}, tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", compress_to_fp16=True)
    report = converter.verify(path, tmp_path / "m.xml", layers=True)
    assert report.passed, report.to_dict()
