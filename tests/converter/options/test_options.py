"""What a user sets while converting: shapes, types, values, outputs, extensions; as OpenVINO takes it, too."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import helper

import converter
import ir_runtime
from converter import ConversionOptions, SavingOptions, VerificationOptions
from converter.options.input_forms import OptionError, parse_inputs
from converter.workflow import single_model as workflow
from converter.workflow.jobs import Job, Settings
from converter.workflow.single_model import Work
from converter.workflow.worker import convert_one
from ir_runtime.graph.shapes import Dimension, PartialShape
from tests.commands import onnx2ir, two_inputs
from tests.converter.optimization.models import parse

F32, I32 = openvino.Type.f32, openvino.Type.i32
ONES = np.ones((2, 4), np.float32)
Inputs = list[tuple[str, str]]


def model() -> onnx.ModelProto:
    """y = (x + s) summed over rows, z = relu(y): with inner tensor 'shifted' and two inputs."""
    return parse("""g (float[n,4] x, float s) => (y, z) { [shift] shifted = Add (x, s)
                 [sum] y = ReduceSum <keepdims = 0> (shifted) [relu] z = Relu (y) }""")  # fmt: skip


def test_batch() -> None:
    assert str(converter.convert_model(model(), batch=7).inputs[0].shape) == "[7,4]"
    proto = model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    with pytest.raises(OptionError, match="input 'x' has 3 as its first dimension"):
        converter.convert_model(proto, batch=7)


def test_frozen_inputs_are_constants() -> None:
    converted = converter.convert_model(model(), freeze={"s": 2})
    assert [out.names for out in converted.inputs] == [["x"]]
    assert ir_runtime.compile_model(converted)({"x": ONES})["y"] == 24
    everything = converter.convert_model(model(), freeze={"s": 2.0, "x": ONES})
    assert [n.op.type for n in everything.nodes()] == ["Const", "Result", "Const", "Result"]


def test_outputs_of_choice() -> None:
    inner = converter.convert_model(model(), output="shifted")
    assert [n.name for n in inner.nodes()] == ["x", "s", "shift", "shifted/result"]
    result = ir_runtime.compile_model(inner)({"x": ONES, "s": np.float32(1)})["shifted"]
    np.testing.assert_array_equal(result, ONES + 1)
    swapped = converter.convert_model(model(), output=["z", "y"])
    assert ir_runtime.compile_model(swapped).output_names == ["z", "y"]


def test_unsupported_nodes_that_no_output_needs_are_left_out() -> None:
    proto = model()
    proto.graph.node.append(helper.make_node("NoSuchOp", ["s"], ["dead"], name="dead"))
    with pytest.raises(converter.ConversionError, match="node 'dead'"):
        converter.convert_model(proto)
    converted = converter.convert_model(proto, output=["y"], freeze={"s": 1})
    assert ir_runtime.compile_model(converted).output_names == ["y"]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"input": {"xx": [1, 4]}}, "the model has no input 'xx'; near are 'x'"),
    ({"input": {"x": [1, 2, 3]}}, r"input 'x' has the shape \[\?,4\], which cannot become \[1,2,3\]"),
    ({"input": {"x": [1, "q"]}}, "'q' in the shape 'q' is not a dimension"),
    ({"input": [("x", [1, 4], "f32", 5)]}, "input must list pairs"),
    ({"input": 5}, "input must list pairs"),
    ({"input": {5: [1, 4]}}, "has the key 5"),
    ({"input": "x[1,4],[2],[3]"}, "2 shapes or types are given without a name, but the model has 1 inputs"),
    ({"extension": 5}, "must be the path of a Python file"),
    ({"target": 5}, "there is no target 5"),
    ({"input": [("x", [1, 4]), ("x", [2, 4])]}, "is given two shapes"),
    ({"input": "x[1,4],x[2,4]"}, "input 'x' is given two"),
    ({"freeze": {"t": 1}}, "the model has no input 't'"),
    ({"freeze": {"s": 1e300}}, "does not fit into f32"),
    ({"freeze": {"s": "abc"}}, "the value of 's' must be f32, but is text: 'abc'"),
    ({"freeze": {"x": np.zeros((2, 5), np.float32)}}, r"has the shape \[2, 5\], but the input \[\?,4\]"),
    ({"freeze": {"s": 1}, "input": {"s": []}}, "is given a shape and a value"),
    ({"output": "shiftet"}, "the model has no tensor 'shiftet'; near are 'shifted'"),
    ({"output": []}, "output must name at least one tensor"),
    ({"output": ["y", "y"]}, "output names a tensor twice"),
    ({"batch": 0}, "the batch must be a positive number"),
    ({"options": ConversionOptions(), "fuse": False}, "'fuse' cannot be set beside options"),
])  # fmt: skip
def test_options_that_do_not_fit(arguments: dict, message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model(), **arguments)


@pytest.mark.parametrize(("text", "expected"), [
    ("a[1,3,224,224], b[?,16]", "a[1,3,224,224] b[?,16]"),
    ("c[1..8],d[]", "c[1..8] d[]"),
    ("a[1 3 4]", "a[1,3,4]"),
    ("a[ 1, 3 ]", "a[1,3]"),
    ("[1,3],[2]", "[1,3] [2]"),
    ("a,b", "a b"),
    ("a[1,3]{f16},b{i32}", "a[1,3]{f16} b{i32}"),
    ("{u8}", "{u8}"),
    ("sr=16000,axes=[1,2]", "sr=16000 axes=[1, 2]"),
    ("sr->16000,axes->[1 2]", "sr=16000 axes=[1, 2]"),
    ("flag=true,x=-1.5", "flag=True x=-1.5"),
    ("/a.b:0[1]", "/a.b:0[1]"),
    ("a[1", "!cannot be read at 'a\\[1'"),
    ("a]", "!cannot be read"),
    ("a=b", "!must be a number"),
    ("a=none.npy", "!cannot be read as .npy"),
    ("=3", "!without a name"),
    ("[2]=3", "!without a name"),
    ("a=", "!is missing|must be a number"),
    ("a[1]=3", "!the value is enough"),
    ("a{f33}", "!'f33' is not an element type"),
    ("a[1,q]", "!'q' in the shape"),
    (",", "!cannot be read"),
])  # fmt: skip
def test_command_line_notation(text: str, expected: str) -> None:
    """Name, shape, type and value of each input, or the message."""
    if expected.startswith("!"):
        with pytest.raises(OptionError, match=expected[1:]):
            parse_inputs(text)
        return
    found = []
    for spec in parse_inputs(text):
        kind = f"{{{spec.element_type.name}}}" if spec.element_type else ""
        value = "" if spec.value is None else f"={spec.value.tolist()}"
        found.append(f"{spec.name or ''}{'' if spec.shape is None else spec.shape}{kind}{value}")
    assert " ".join(found) == expected


def test_an_extension_that_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('no luck')")
    with pytest.raises(converter.ConversionError, match="fails: RuntimeError: no luck"):
        converter.convert_model(model(), extensions=[tmp_path / "bad.py"])


def test_a_map_at_the_end_can_be_cut_off() -> None:
    """How scikit-learn's converter ends its classifiers."""
    ends_in_map = parse("""g (float[2,3] x) => (maps) { p = ai.onnx.ml.Normalizer <norm = "L1"> (x)
                        [zip] maps = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (p) }""",
                        header=', "ai.onnx.ml" : 3')  # fmt: skip
    with pytest.raises(converter.ConversionError, match=r"'zip' \(ai.onnx.ml.ZipMap.*the option 'output' can ask"):
        converter.convert_model(ends_in_map)
    compiled = ir_runtime.compile_model(converter.convert_model(ends_in_map, output=["p"]))
    x = np.array([[1, 2, 5], [3, 0, 1]], np.float32)
    np.testing.assert_allclose(compiled({"x": x})[0], x / x.sum(axis=1, keepdims=True))


# --- the forms of OpenVINO's convert_model ---


def inputs_of(converted: ir_runtime.Model) -> Inputs:
    return [(str(port.shape), port.element_type.name) for port in converted.inputs]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forms") / "m.onnx"
    onnx.save(two_inputs(), made)
    return made


@pytest.mark.parametrize(
    "given",
    [
        None, [], "x", ["x", "y"], [1, 3], (1, 3), [-1, 3], ("x", [1, 3]), ("x", (1, 3)), ("x",), ("x", [1, 3], F32),
        [("x", [1, 3]), ("y", [2, 3])],
        (("x", [1, 3]), ("y", [2, 3])),
        {"x": [1, 3]},
        {"y": [1, 3], "x": [2, 3]},
        {"x": ([1, 3], F32), "y": F32},
        {"x": ([1, 3], I32), "y": I32},
        [[1, 3], [2, 3]],
        [([1, 3], F32), F32],
        [([1, 3], np.int32), np.int32],
        np.float32,
        F32,
        [("x", [1, 3], I32), ("y", np.int32)],
        openvino.PartialShape([1, 3]),
        openvino.PartialShape([-1, openvino.Dimension(3)]),
        openvino.PartialShape("[1..4,3]"),
        openvino.PartialShape.dynamic(),
        openvino.Shape([1, 3]),
        [openvino.PartialShape([1, 3]), openvino.Shape([2, 3])],
        [openvino.Dimension(1, 4), 3],
        (openvino.Dimension(1, 4), 3),
        {"x": openvino.PartialShape([1, 3]), "y": openvino.Shape([1, 3])},
        {"x": (openvino.PartialShape([2, -1]), I32), "y": I32},
        [("x", openvino.PartialShape([openvino.Dimension(2, -1), 3]))],
    ],
    ids=str,
)  # fmt: skip
def test_what_openvino_takes_means_the_same(path: Path, given: Any) -> None:
    theirs = openvino.convert_model(path, input=given).inputs
    expected = [(str(port.partial_shape), port.element_type.get_type_name()) for port in theirs]
    assert inputs_of(converter.convert_model(path, input=given)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x[1,3],y[2,3]", "[1,3] [2,3]"),
        ("[1,3],[2,3]", "[1,3] [2,3]"),
        ("y[1 3]", "[?,3] [1,3]"),
        ("y,x", "[?,3] [?,3]"),  # Not as ovc, which forgets the first.
        ("y[2,3],[1,3]", "[1,3] [2,3]"),
        ("", "[?,3] [?,3]"),
        (["x[1,3]", "y[2,3]"], "[1,3] [2,3]"),
        ([("x", "1,3")], "[1,3] [?,3]"),
        (("x", "?,3"), "[?,3] [?,3]"),
        ({"x": "[1,3]"}, "[1,3] [?,3]"),
        ({"x": ["..5", 3]}, "[..5,3] [?,3]"),
        (np.array([1, 3]), "[1,3] [?,3]"),
        ([None, "1..3"], "[?,1..3] [?,3]"),
        ([Dimension(2, 5), 3], "[2..5,3] [?,3]"),
        (PartialShape([7, 3]), "[7,3] [?,3]"),
        ([("y", [1, 3]), [2, 3]], "[2,3] [1,3]"),
        ({"x": ([1, 3], "f32"), "y": "f32"}, "[1,3] [?,3]"),
        ({"x": np.dtype(np.float32)}, "[?,3] [?,3]"),
        *((wrong, "") for wrong in ({"x": {}}, {"x": (1, 3, "f32", 2.5)}, [3.5], [("x", [1, 3], [1, 3])], (2, (3, 4)),
            b"x")),
        *(({"x": wrong}, "") for wrong in (np.complex64, ir_runtime.graph.element_types.dynamic, [2**70, 3], [-2, 3])),
    ],
    ids=str,
)  # fmt: skip
def test_what_openvino_refuses_although_there_is_no_doubt(path: Path, given: Any, expected: str) -> None:
    if not expected:
        with pytest.raises(OptionError):
            converter.convert_model(path, input=given)
        return
    assert " ".join(shape for shape, _ in inputs_of(converter.convert_model(path, input=given))) == expected


def test_types_take_the_place_of_the_declared_ones(path: Path) -> None:
    compiled = ir_runtime.compile_model(converter.convert_model(path, input={"x": "i64", "y": "i64"}))
    result = compiled({"x": np.array([[1, -5, 2**40]]), "y": np.array([[1, 2, 3]])})
    assert result["w"].dtype == np.int64
    assert result["w"].tolist() == [[2, 0, 2**40 + 3]]


def test_positions_and_names_are_openvinos(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    converted = converter.convert_model(path, [("x", [1, 3])], "z")
    assert inputs_of(converted)[0] == ("[1,3]", "f32")
    assert [node.output_names for node in converted.results] == [["z"]]
    assert inputs_of(converter.convert_model(input_model=path, input=[1, 3]))[0] == ("[1,3]", "f32")
    assert inputs_of(converter.convert_model([path])) == inputs_of(converter.convert_model(path))
    converter.convert_model(path, example_input=np.zeros((1, 3)), share_weights=True, verbose=False, dynamo=False)
    for given, named in (((), {}), (("a",), {"input_model": "b"})):
        with pytest.raises(OptionError, match="needs one model"):
            converter.convert_model(*given, **named)
    with caplog.at_level(logging.INFO, "converter"):
        converter.convert_model(path, verbose=True)
    assert "converted 'g' to 6 layers" in caplog.text


def test_weights_that_are_not_shared_outlive_the_file(tmp_path: Path) -> None:
    values = np.arange(4096, dtype=np.float32)
    text = "g (float[4096] x) => (float[4096] y) { t = Add (x, inside) y = Add (t, outside) }"
    proto, path = parse(text, inside=values, outside=values * 2), tmp_path / "m.onnx"
    onnx.external_data_helper.set_external_data(proto.graph.initializer[1], "w.data")
    onnx.save(proto, path)
    converted = converter.convert_model(path, share_weights=False)
    for file in (path, tmp_path / "w.data"):
        file.write_bytes(b"")
    converter.save_model(converted, tmp_path / "m.xml")
    compiled = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "m.xml"))
    np.testing.assert_array_equal(compiled([np.zeros(4096, np.float32)])[0], values * 3)


# --- one list of stages ---


def test_all_stages_or_those_that_are_named(path: Path, tmp_path: Path) -> None:
    xml = tmp_path / "ir" / "m.xml"
    work = Work(path, xml, ConversionOptions(), checking=VerificationOptions(seed=3)).run("convert", "write")
    assert xml.is_file()
    assert work.report is None
    report = work.run("verify").report
    assert report is not None
    assert (report.passed, report.seed) == (True, 3)
    assert Work(path, xml, ConversionOptions()).run().report is None


def test_command_and_batch_run_the_same_stages(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def recording(name: str, stage: Callable[[Work], None]) -> Callable[[Work], None]:
        return lambda work: (ran.append(name), stage(work))[1]

    stages = {name: recording(name, stage) for name, stage in workflow.STAGES.items()}
    monkeypatch.setattr(workflow, "STAGES", stages)
    assert onnx2ir("convert", str(path), "-o", str(tmp_path / "m.xml"), "--verify")[0] == 0
    assert ran == ["convert", "write", "verify"]
    settings = Settings(ConversionOptions(), SavingOptions(), verify=True)
    assert convert_one(Job(str(path), "m", str(tmp_path / "other.xml"), settings)).verdict == "verified"
    assert ran == ["convert", "write", "verify"] * 2


@pytest.mark.parametrize("static", [False, True])
def test_another_batch_contradicts_every_declaration_in_one_line(
    static: bool, caplog: pytest.LogCaptureFixture
) -> None:
    chain = " ".join(f"h{at + 1} = {'Relu' if at % 2 else 'Abs'} (h{at})" for at in range(100))
    declared = ", ".join(f"float[1,4] h{at}" for at in range(1, 100))
    many = parse(f"g (float[1,4] h0) => (float[1,4] h100) <{declared}> {{ {chain} }}")
    one = parse("g (float[1,4] h0) => (float[1,4] h1) { h1 = Abs (h0) }")
    with caplog.at_level(logging.WARNING, "converter"):
        for proto in (many, one):
            converter.convert_model(proto, input={"h0": [8, 4]}, static=static)
    text = "g: the model declares 'h1' as [1,4], but its shape is [8,4]"
    assert caplog.messages == [f"{text}; 99 more tensors have other shapes than declared", text]
