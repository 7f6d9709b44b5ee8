"""The four verdicts of verify, and where the values of the IR's constants come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.derivation import Derivation, without_record
from converter.equivalence.report import DerivationCheck, WeightAccount
from ir_runtime.graph import Model, Node, Tensor
from ir_runtime.graph.model_difference import LayerChange
from ir_runtime.operations.inputs_outputs import Const1

F32 = np.float32


def small_network(gain: float) -> onnx.ModelProto:
    """Convolutions with normalizations, whose values shrink by ``gain`` from one to the next; then a table's rows."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], {}, "x"
    for index in range(5):
        w, c, n, a = (f"{letter}{index}" for letter in "wcna")
        weights[w] = (random.standard_normal((8, 8 if index else 3, 3, 3)) * gain / 8).astype(F32)
        values = {"s": random.random(8) + 0.5, "b": np.zeros(8), "m": np.zeros(8), "v": random.random(8) + 0.5}
        weights.update({f"{name}{n}": value.astype(F32) for name, value in values.items()})
        nodes.append(helper.make_node("Conv", [last, w], [c], c, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [c, *(f"{name}{n}" for name in "sbmv")], [n], n))
        nodes.append(helper.make_node("Relu", [n], [a], a))
        last = a
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"], "pool"))
    nodes.append(helper.make_node("LayerNormalization", ["pooled", "g"], ["y"], "norm", axis=1, epsilon=1e-6))
    weights["g"] = random.standard_normal((8, 1, 1)).astype(F32)
    if gain < 1:  # the output is as small as the values before it
        nodes[-2:] = [helper.make_node("GlobalAveragePool", [last], ["y"], "pool")]
        del weights["g"]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(params=[1.0, 0.03], ids=["usual", "tiny"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    onnx.save(small_network(request.param), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    onnx.save(small_network(1.0), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def stored(path: Path, options: dict[str, Any] | None = None, **saving: Any) -> Model:
    """The IR as it is read from its file."""
    converter.save_model(converter.convert_model(path, **(options or {})), path.with_suffix(".xml"), **saving)
    return ir_runtime.read_model(path.with_suffix(".xml"))


def constant(model: Model, rank: int) -> Node:
    """The last constant of this rank."""
    return [node for node in model.nodes() if node.op.data is not None and node.op.data.array().ndim == rank][-1]


def overwrite(node: Node, change: Callable[[np.ndarray], None]) -> None:
    assert node.op.data is not None
    array = node.op.data.array().copy()
    change(array)
    node.op = Const1(value=Tensor.from_array(array, node.op.data.element_type))


def exchange_halves(array: np.ndarray) -> None:
    array[:] = np.concatenate([array[4:], array[:4]])


@pytest.mark.parametrize("saving", [{}, {"compress_to_fp16": True}, {"compress": "int8"}, {"record": False}], ids=str)
def test_a_right_ir(saving: dict[str, Any], network: Path) -> None:
    """Also where the output is 1e-10, of which any other value of that size would do."""
    report = converter.verify(network, stored(network, **saving))
    assert report.verdict == ("equal" if saving.get("record") is False else "derived"), report
    assert (report.passed, report.account and report.account.missing) == (True, ())
    is_tiny = report.outputs[0].max_absolute < 1e-8 and bool(report.shown_by_layers)
    assert report.shown_by_layers == (("y",) if is_tiny else ())
    assert report.unproven == ()


@pytest.mark.parametrize("recorded", [True, False])
def test_halves_of_a_folded_weight_exchanged(recorded: bool, network: Path) -> None:
    model = stored(network, record=recorded)
    weight = constant(model, 4)
    overwrite(weight, exchange_halves)
    report = converter.verify(network, model)
    assert report.verdict == "different"
    assert not report.passed
    fault = report.first_fault
    assert fault is not None
    assert weight.outputs[0].uses[0].name in fault.part
    if recorded:
        assert f"layer '{weight.name}': 576 of 576 values differ" in report.reason
        assert report.account is not None
        assert report.account.missing == (weight.name,)


def test_an_edit_below_every_tolerance_is_unproven(usual: Path) -> None:
    model = stored(usual)
    norm = next(node for node in model.nodes() if node.op.type == "MVN")
    norm.op = norm.op.with_attributes(eps=norm.op.eps * 1.01)
    report = converter.verify(usual, model, layers=False)
    assert (report.verdict, report.passed, report.headline) == ("unproven", False, "UNPROVEN")
    assert f"layer '{norm.name}': eps is " in report.reason
    assert "convert the model again" in report.reason
    accepted = converter.verify(usual, model, layers=False, accept_unproven=True)
    assert (accepted.verdict, accepted.passed, accepted.headline) == ("unproven", True, "PASSED")
    assert converter.verify(usual, without_record(model), layers=False).verdict == "equal"  # nothing shows it


def test_other_shapes_and_names_are_equal(usual: Path, tmp_path: Path) -> None:
    model = stored(usual)
    model.reshape({"x": [2, 3, 16, 16]})
    report = converter.verify(usual, model, input="x[2,3,16,16]")
    assert (report.verdict, report.derivation.state) == ("equal", "equivalent")
    assert "only the shapes of inputs differ" in report.reason
    again = openvino.Core().read_model(str(usual.with_suffix(".xml")))
    openvino.save_model(again, str(tmp_path / "again.xml"), compress_to_fp16=False)
    report = converter.verify(usual, tmp_path / "again.xml")
    assert (report.verdict, report.derivation.state) == ("equal", "equivalent")
    assert "only names and rt_info differ" in report.reason
    model = stored(usual)
    model.reshape({"x": [2, 3, 16, 16]})
    overwrite(constant(model, 4), exchange_halves)
    report = converter.verify(usual, model, input="x[2,3,16,16]")
    assert (report.verdict, len(report.derivation.differences)) == ("different", 1)


def test_another_version_or_source_gives_no_derivation(usual: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = stored(usual)
    proto = onnx.load(usual)
    proto.graph.node[-1].attribute[1].f *= 1.01
    onnx.save(proto, usual)
    report = converter.verify(usual, model)
    assert (report.verdict, report.derivation.state) == ("equal", "inapplicable")
    assert "was derived from another source, whose digest differs" in report.reason
    onnx.save(small_network(1.0), usual)
    model = stored(usual)
    constant(model, 4).name = "renamed"
    monkeypatch.setattr("converter.equivalence.rederivation._CURRENT_VERSION", "0.3.0")
    report = converter.verify(usual, model)
    assert (report.verdict, report.derivation.state) == ("equal", "equivalent")
    model = stored(usual)
    norm = next(node for node in model.nodes() if node.op.type == "MVN")
    norm.op = norm.op.with_attributes(eps=norm.op.eps * 1.01)
    report = converter.verify(usual, model)
    assert (report.verdict, report.derivation.state) == ("equal", "inapplicable")
    assert f"onnx2ir {converter.__version__} derived the IR, and 0.3.0 gives another one" in report.reason


def test_values_that_the_record_leaves_out_are_those_of_the_caller(usual: Path) -> None:
    values = {"x": np.ones((1, 3, 12, 12), F32)}
    model = stored(usual, {"freeze": values})
    assert converter.verify(usual, model, freeze=values).verdict == "derived"
    model = stored(usual, {"input": "x[?,3,?,?]"})
    # The shapes of the runs are no option of the conversion.
    assert converter.verify(usual, model, input="x[2,3,20,20]").verdict == "derived"


def test_a_row_that_no_input_reaches_is_not_accounted_for(tmp_path: Path) -> None:
    """The layer is right from right inputs, but a lookup does not show every value."""
    nodes = [
        helper.make_node("Mul", ["table", "two"], ["doubled"], "double"),
        helper.make_node("Gather", ["doubled", "ids"], ["rows"], "look"),
        helper.make_node("MatMul", ["rows", "w"], ["y"], "product"),
    ]
    random = np.random.default_rng(0)
    weights = {"table": random.standard_normal((50, 8)), "two": np.array(1.5), "w": random.standard_normal((8, 4))}
    values = [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])]
    tensors = [numpy_helper.from_array(value.astype(F32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    model = stored(path)
    report = converter.verify(path, model)
    assert report.verdict == "derived"
    assert report.account is not None
    assert (report.account.values["derived"], report.account.share) == (400, 1.0)
    table = next(node for node in model.nodes() if node.op.data is not None and node.op.data.size == 400)
    report = converter.verify(path, without_record(model), inputs={"ids": np.array([0, 1, 2])})
    assert (report.verdict, report.account and report.account.missing) == ("unproven", (table.name,))
    assert f"the values of '{table.name}' are not accounted for" in report.reason


def test_a_constant_that_is_returned_is_accounted_for(tmp_path: Path) -> None:
    """The comparison of the output shows every value."""
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(F32)
    nodes = [helper.make_node("Abs", ["c"], ["a"]), helper.make_node("Gather", ["a", "places"], ["y"])]
    tensors = [numpy_helper.from_array(values, "c"), numpy_helper.from_array(np.array([3, 1]), "places")]
    graph = helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    report = converter.verify(path, without_record(stored(path)))
    assert (report.verdict, report.account and report.account.missing) == ("equal", ())


def test_variables_are_compared_as_inputs_and_outputs(tmp_path: Path) -> None:
    """A call begins with the state of the ONNX model, and returns the next one."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "h"], ["sum"], "sum"),
        helper.make_node("Tanh", ["sum"], ["next"], "tanh"),
        helper.make_node("Neg", ["next"], ["y"], "negative"),
    ]
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype(F32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 64]) for name in ("x", "h", "y", "next")]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    for saving in ({}, {"compress_to_fp16": True}):
        model = stored(path, {"stateful": {"h": "next"}}, **saving)
        report = converter.verify(path, model)
        assert (report.verdict, {one.name for one in report.outputs}) == ("derived", {"y", "next"}), report
        assert set(report.inputs) == {"x", "h"}
        assert "variables were compared as inputs and outputs: hnext" in report.notes
    (assign,) = model.sinks
    (read,) = (node for node in model.nodes() if node.op.type == "ReadValue")
    assign.replace_input(0, read.outputs[0])
    report = converter.verify(path, model)
    assert report.verdict == "different"
    assert [one.name for one in report.outputs if not one.passed] == ["next"]
    assert f"layer '{assign.name}': input 0 is output 0 of '{read.name}'" in report.reason


def test_the_account_never_rounds_up() -> None:
    account = WeightAccount({"file": 10_000_000, "missing": 1}, ("w",))
    assert account.to_text().startswith("99.9 % of 10,000,001 values of the IR are accounted for")
    assert WeightAccount({"file": 3, "conversion": 1}).to_text() == (
        "100 % of 4 values of the IR are accounted for (3 file, 1 conversion)"
    )
    assert WeightAccount({}).to_text() == "100 % of 0 values of the IR are accounted for (none)"


def test_sentences_name_a_few_of_many() -> None:
    changes = tuple(LayerChange(f"l{index}", f"l{index}", "Add", ("it is Add",)) for index in range(5))
    check = DerivationCheck("different", "the IR is not what its recorded steps give", changes)
    report = converter.Report("onnxruntime", 0, {}, (), derivation=check)
    assert report.reason.count("it is Add") == 3
    assert "and 2 more" in report.reason
    assert [one.layer for one in check.of_part(["l3", "other"])] == ["l3"]
    assert check.of_part(["other"]) == changes
    assert Derivation().steps == ()
