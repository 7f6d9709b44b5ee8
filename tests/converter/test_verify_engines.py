"""verify in the real runtime, against other IRs, and onnx2ir diff."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.equivalence.engines import engine_for
from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import compare_models
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1
from tests import engines
from tests.commands import onnx2ir
from tests.converter.test_verify_inputs import image
from tests.engines import ENGINES, node_model
from tests.rows.onnx.loop_states import UNCHANGED

__all__ = ["image"]  # a fixture


@pytest.fixture
def ours(image: Path, tmp_path: Path) -> Path:
    converter.save_model(converter.convert_model(image), tmp_path / "ours.xml")
    return tmp_path / "ours.xml"


def damaged(path: Path, name: str = "k") -> Model:
    model = ir_runtime.read_model(path)
    node = next(node for node in model.nodes() if node.op.data is not None and name in node.outputs[0].names)
    assert node.op.data is not None
    array = node.op.data.array().copy()
    array.reshape(-1)[:4] += 1
    node.op = Const1(value=Tensor.from_array(array, node.op.data.element_type))
    return model


@pytest.mark.parametrize("engine", ["openvino", "openvino-default"])
def test_the_real_runtime(image: Path, ours: Path, engine: str) -> None:
    report = converter.verify(image, ours, engine=engine)
    assert report.passed
    assert report.engine.startswith("OpenVINO 20")
    wrong = converter.verify(image, damaged(ours), engine=engine, weights=False)
    assert not wrong.passed
    assert wrong.first_fault is not None
    assert wrong.first_fault.layer == "conv"
    with pytest.raises(converter.VerificationError, match="the engine must be numpy, openvino, openvino-default"):
        converter.verify(image, ours, engine="cuda")


def test_two_irs(image: Path, ours: Path, tmp_path: Path) -> None:
    import openvino

    theirs = tmp_path / "theirs.xml"
    openvino.save_model(openvino.convert_model(image), theirs, compress_to_fp16=False)
    assert converter.verify(image, ours, against=theirs).passed
    assert converter.verify(theirs, ours).passed
    report = converter.verify(image, ours, against=damaged(ours))
    assert all(output.passed for output in report.outputs)
    assert not report.passed
    assert [one.name for one in report.against if not one.passed] == ["y"]
    converter.save_model(damaged(ours), tmp_path / "damaged.xml")
    code, out, _ = onnx2ir("verify", str(theirs), str(tmp_path / "damaged.xml"))
    assert (code, "FAILED" in out) == (1, True)


def test_diff_of_equal_models_finds_nothing_whatever_ids_and_order(ours: Path) -> None:
    first, second = ir_runtime.read_model(ours), ir_runtime.read_model(ours)
    second.parameters = second.parameters[::-1]
    for index, node in enumerate(second.nodes()):
        if node.op.type not in ("Parameter", "Result"):
            node.name = f"renamed{index}"
    found = compare_models(first, second)
    assert found.same
    assert found.paired == len(first.nodes())


def test_diff_lists_what_changed(ours: Path) -> None:
    first = ir_runtime.read_model(ours)
    second = first.clone()
    conv = next(node for node in second.nodes() if node.name == "conv")
    conv.op = conv.op.with_attributes(pads_begin=[0, 1], pads_end=[2, 1])
    product = next(node for node in second.nodes() if node.op.type == "Multiply")
    product.inputs = product.inputs[::-1]
    found = compare_models(first, second)
    changes = {change.layer: change.what for change in found.changed}
    assert changes["conv"] == (
        "pads_begin is 1, 1 where the other model has 0, 1",
        "pads_end is 1, 1 where the other model has 2, 1",
    )
    before = [source.node.name for source in product.inputs]
    assert changes[product.name] == tuple(
        f"input {index} is output 0 of '{before[1 - index]}' where the other model has output 0 of '{before[index]}'"
        for index in (0, 1)
    )
    assert set(changes) == {"conv", product.name}
    weights = compare_models(first, damaged(ours))
    assert [(change.layer, change.what) for change in weights.changed] == [
        ("k", ("4 of 216 values differ, by 1 at most",))
    ]


@pytest.mark.parametrize("shape", [(1000, 1500), (1500, 700), (7, 3)], ids=str)
def test_diff_of_weights_that_are_stored_in_other_ways(shape: tuple[int, int], tmp_path: Path) -> None:
    """Of the file, which has gaps as it is transposed, and of the IR; and of weights in memory."""
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    proto = engines.node_model("MatMul", {"x": values.T[:2]}, constants={"w": values}, opset=13)
    converted = converter.convert_model(proto)
    converter.save_model(converted, tmp_path / "m.xml")
    for first, second in ((converted, ir_runtime.read_model(tmp_path / "m.xml")), (converted, converted.clone())):
        assert compare_models(first, second).same
        node = next(node for node in second.nodes() if node.op.data is not None and node.op.data.size > 1)
        assert node.op.data is not None
        other = node.op.data.array().copy()
        other[-1, -1] += 2.0
        node.op = Const1(value=Tensor.from_array(other))
        (change,) = compare_models(first, second).changed
        assert change.what == (f"1 of {values.size} values differ, by 2 at most",)


def test_diff_of_bodies(tmp_path: Path) -> None:
    first, second = (converter.convert_model(UNCHANGED[0].model) for _ in range(2))
    assert compare_models(first, second).same
    loop = next(node for node in second.nodes() if node.op.subgraphs)
    inner = next(n for n in loop.op.subgraphs[0].body.nodes() if n.op.type == "Add")
    inner.inputs = (*inner.inputs, inner.inputs[0])
    (change,) = compare_models(first, second).changed
    assert change.layer == f"{loop.name}/{inner.name}"
    assert change.what == ("it has 2 inputs where the other model has 3",)


def test_diff_on_the_command_line(ours: Path, tmp_path: Path) -> None:
    converter.save_model(damaged(ours), tmp_path / "b.xml")
    code, out, _ = onnx2ir("diff", str(ours), str(ours))
    assert (code, out.startswith("the same: ")) == (0, True)
    code, out, _ = onnx2ir("diff", str(ours), str(tmp_path / "b.xml"), "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["same"], [change["layer"] for change in found["changed"]]) == (False, ["k"])
    assert np.isfinite(found["paired"])


def two_results(tmp_path: Path) -> tuple[Path, Model]:
    """``y = x + 1`` and ``z = x + 1 + 1`` and their IR."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("Add", ["y", "one"], ["z"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("y", "z")],
        [numpy_helper.from_array(np.ones(4, np.float32), "one")],
    )
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path, converter.convert_model(path)


@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_outputs_that_changed_places_keep_their_names(tmp_path: Path, engine: str) -> None:
    path, model = two_results(tmp_path)
    model.results = model.results[::-1]
    assert converter.verify(path, model, engine=engine).passed
    for node in model.results:  # now each has the name of the other one
        node.output_names = ["z" if "y" in node.output_names else "y"]
        node.inputs[0].names = list(node.output_names)
    report = converter.verify(path, model, engine=engine)
    assert [one.name for one in report.outputs if not one.passed] == ["y", "z"]


@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_outputs_of_different_names_on_one_tensor_are_refused(tmp_path: Path, engine: str) -> None:
    """OpenVINO then has the name of one of them alone; both have the right values."""
    path, model = two_results(tmp_path)
    same = onnx.load(path)
    same.graph.node[1].CopyFrom(helper.make_node("Identity", ["y"], ["z"]))
    onnx.save(same, path)
    model.results[1].replace_input(0, model.results[0].inputs[0])
    with pytest.raises(converter.VerificationError, match=r"\['y'\] and \['z'\] of the IR share one tensor"):
        converter.verify(path, model, engine=engine)


@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_two_outputs_of_one_name_are_refused(tmp_path: Path, engine: str) -> None:
    path, model = two_results(tmp_path)
    model.results[1].output_names = ["y"]
    with pytest.raises(converter.VerificationError, match="two outputs of the IR are called 'y'"):
        converter.verify(path, model, engine=engine)


def test_a_name_that_the_compiled_model_lacks_is_in_the_message(tmp_path: Path) -> None:
    """The file, which OpenVINO reads, has other names than the model that was read of it before."""
    _, model = two_results(tmp_path)
    converter.save_model(model, tmp_path / "two.xml")
    read = ir_runtime.read_model(tmp_path / "two.xml")
    text = (tmp_path / "two.xml").read_text()
    (tmp_path / "two.xml").write_text(text.replace('names="z"', 'names="other"'))
    with pytest.raises(converter.VerificationError, match=r"no output 'z'; its outputs are \[\['y'\], \['other'\]\]"):
        engine_for("openvino", read, tmp_path / "two.xml")


def test_rows_of_tests_compare_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An IR whose outputs have each other's names is wrong although every place has the right values."""
    path, model = two_results(tmp_path)
    for node in model.results:
        node.output_names = ["z" if "y" in node.output_names else "y"]
        node.inputs[0].names = list(node.output_names)
    monkeypatch.setattr(engines, "converted", lambda *_: ir_runtime.model_to_bytes(model))
    for engine in ENGINES:
        with pytest.raises(AssertionError, match=f"{engine}, output 'y'"):
            engines.check_node(onnx.load(path), {"x": np.zeros((2, 4), np.float32)}, engines=[engine])


def test_the_ir_is_compiled_anew_once_inputs_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Mamba model the plug-in's next results were read from memory that nobody wrote."""
    x = np.ones((2, 3), np.float32)
    model = node_model("Add", {"x": x, "y": x}, opset=18, shapes={"x": ["n", 3], "y": ["m", 3]})
    compiled: list[str] = []
    compile_model = openvino.Core.compile_model

    def counted(core: openvino.Core, *arguments: object) -> openvino.CompiledModel:
        compiled.append("once more")
        return compile_model(core, *arguments)

    monkeypatch.setattr(openvino.Core, "compile_model", counted)
    engine = engine_for("openvino", converter.convert_model(model))
    with pytest.raises(converter.VerificationError, match="cannot run the IR on these inputs"):
        engine.run({"x": x, "y": np.ones((3, 3), np.float32)})
    np.testing.assert_array_equal(engine.run({"x": x, "y": x})[0], x + x)
    np.testing.assert_array_equal(engine.run({"x": x, "y": -x})[0], x - x)
    assert len(compiled) == 2


@pytest.mark.parametrize("shape", [[2, 8], ["n", 8]], ids=str)
def test_the_tolerance_of_float64_is_that_of_the_type_in_which_the_engine_computes(shape: list) -> None:
    """The plug-in computes float64 in float32: Exp of 40 is 1e-6 of its size away."""
    x = np.zeros((2, 8), np.float64)
    proto = node_model("Exp", {"x": x}, opset=13, shapes={"x": shape})
    model = converter.convert_model(proto)
    report = converter.verify(proto, model, engine="openvino", values={"x": "30..45"})
    assert report.passed, report.reason
    assert any("computes in f32, whose tolerance holds for outputs of float64" in note for note in report.notes)
    assert converter.verify(proto, model, values={"x": "30..45"}).outputs[0].tolerance.relative == 1e-6
