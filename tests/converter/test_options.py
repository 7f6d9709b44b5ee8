"""What a user sets while converting: shapes, frozen inputs, outputs, batch, extensions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from converter.from_onnx.input_forms import OptionError, parse_inputs
from ir_runtime.graph.shapes import PartialShape
from tests.engines import core, run_onnxruntime

EXTENSION = '''
import numpy as np
import converter, ir_runtime
from ir_runtime.operations.elementwise import Abs1, Unary


@ir_runtime.operation("Cube", opset=1)
class Cube1(Unary):
    """x to the third power."""

    def evaluate(self, *inputs):
        return inputs[0] ** 3


@converter.onnx_op("MyCube", domain="acme", versions=(1,))
def my_cube(ctx, x, *, scale: float = 1.0):
    return ctx.emit(Cube1(), ctx.emit(Abs1(), x))
'''


def model() -> onnx.ModelProto:
    """y = (x + s) summed over rows, z = relu(y): with inner tensor 'shifted' and two inputs."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "s"], ["shifted"], name="shift"),
            helper.make_node("ReduceSum", ["shifted"], ["y"], name="sum", keepdims=0),
            helper.make_node("Relu", ["y"], ["z"], name="relu"),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, []),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "z")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def shape(converted: ir_runtime.Model, name: str = "x") -> str:
    return next(str(out.shape) for out in converted.inputs if name in out.names)


@pytest.mark.parametrize("given", [{"x": [3, 4]}, [("x", [3, 4])], {"x": "3,4"}, {"x": PartialShape([3, 4])}])
def test_input_shapes_in_every_notation(given: object) -> None:
    assert shape(converter.convert_model(model(), input=given)) == "[3,4]"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"), [([-1, 4], "[?,4]"), ([None, "1..8"], "[?,1..8]"), (["..5", 4], "[..5,4]")]
)
def test_dynamic_dimensions(given: list, expected: str) -> None:
    assert shape(converter.convert_model(model(), input={"x": given})) == expected


def test_batch() -> None:
    assert shape(converter.convert_model(model(), batch=7)) == "[7,4]"
    proto = model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    with pytest.raises(OptionError, match="input 'x' has 3 as its first dimension"):
        converter.convert_model(proto, batch=7)


def test_frozen_inputs_are_constants() -> None:
    converted = converter.convert_model(model(), freeze={"s": 2})
    assert [out.names for out in converted.inputs] == [["x"]]
    x = np.ones((2, 4), np.float32)
    assert ir_runtime.compile_model(converted)({"x": x})["y"] == 24
    everything = converter.convert_model(model(), freeze={"s": 2.0, "x": x})
    assert [n.op.type for n in everything.nodes()] == ["Const", "Result", "Const", "Result"]


def test_outputs_of_choice() -> None:
    x = np.ones((2, 4), np.float32)
    inner = converter.convert_model(model(), output="shifted")
    assert [n.name for n in inner.nodes()] == ["x", "s", "shift", "shifted/result"]
    np.testing.assert_array_equal(ir_runtime.compile_model(inner)({"x": x, "s": np.float32(1)})["shifted"], x + 1)
    swapped = converter.convert_model(model(), output=["z", "y"])
    assert ir_runtime.compile_model(swapped).output_names == ["z", "y"]


def test_unsupported_nodes_that_no_output_needs_are_left_out() -> None:
    proto = model()
    proto.graph.node.append(helper.make_node("NoSuchOp", ["s"], ["dead"], name="dead"))
    with pytest.raises(converter.ConversionError, match="node 'dead'"):
        converter.convert_model(proto)
    converted = converter.convert_model(proto, output=["y"], freeze={"s": 1})
    assert ir_runtime.compile_model(converted).output_names == ["y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input": {"xx": [1, 4]}}, "the model has no input 'xx'; near are 'x'"),
        ({"input": {"x": [1, 2, 3]}}, r"input 'x' has the shape \[\?,4\], which cannot become \[1,2,3\]"),
        ({"input": {"x": [1, "q"]}}, "'q' in the shape 'q' is not a dimension"),
        ({"input": [("x", [1, 4], "f32", 5)]}, "input must list pairs"),
        ({"input": 5}, "input must list pairs"),
        ({"input": {5: [1, 4]}}, "has the key 5"),
        ({"input": "x[1,4],[2],[3]"}, "2 shapes or types are given without a name, but the model has 1 inputs"),
        ({"extension": "ops.so"}, "ops.so is a library for OpenVINO"),
        ({"extension": 5}, "must be the path of a Python file"),
        ({"dynamo": True}, "export yours with torch.onnx.export"),
        ({"target": 5}, "there is no target 5"),
        ({"input": [("x", [1, 4]), ("x", [2, 4])]}, "is given two shapes"),
        ({"freeze": {"t": 1}}, "the model has no input 't'"),
        ({"freeze": {"s": 1e300}}, "does not fit into f32"),
        ({"freeze": {"s": "abc"}}, "the value of 's' must be f32, but is text: 'abc'"),
        ({"freeze": {"x": np.zeros((2, 5), np.float32)}}, r"has the shape \[2, 5\], but the input \[\?,4\]"),
        ({"freeze": {"s": 1}, "input": {"s": []}}, "is given a shape and a value"),
        ({"output": "shiftet"}, "the model has no tensor 'shiftet'; near are 'shifted'"),
        ({"output": []}, "output must name at least one tensor"),
        ({"output": ["y", "y"]}, "output names a tensor twice"),
        ({"batch": 0}, "the batch must be a positive number"),
        ({"extensions": ["none.py"]}, "the extension none.py is not a Python file"),
    ],
)
def test_options_that_do_not_fit(arguments: dict, message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model(), **arguments)


def parsed(text: str) -> list[tuple[str | None, str | None, str | None, object]]:
    """Name, shape, type and value of each input, as plain values."""
    return [
        (
            spec.name,
            None if spec.shape is None else str(spec.shape),
            None if spec.element_type is None else spec.element_type.name,
            None if spec.value is None else spec.value.tolist(),
        )
        for spec in parse_inputs(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[1,3,224,224], b[?,16]", [("a", "[1,3,224,224]", None, None), ("b", "[?,16]", None, None)]),
        ("c[1..8],d[]", [("c", "[1..8]", None, None), ("d", "[]", None, None)]),
        ("a[1 3 4]", [("a", "[1,3,4]", None, None)]),
        ("a[ 1, 3 ]", [("a", "[1,3]", None, None)]),
        ("[1,3],[2]", [(None, "[1,3]", None, None), (None, "[2]", None, None)]),
        ("a,b", [("a", None, None, None), ("b", None, None, None)]),
        ("a[1,3]{f16},b{i32}", [("a", "[1,3]", "f16", None), ("b", None, "i32", None)]),
        ("{u8}", [(None, None, "u8", None)]),
        ("sr=16000,axes=[1,2]", [("sr", None, None, 16000), ("axes", None, None, [1, 2])]),
        ("sr->16000,axes->[1 2]", [("sr", None, None, 16000), ("axes", None, None, [1, 2])]),
        ("flag=true,x=-1.5", [("flag", None, None, True), ("x", None, None, -1.5)]),
        ("/a.b:0[1]", [("/a.b:0", "[1]", None, None)]),
    ],
)
def test_command_line_notation(text: str, expected: object) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a[1", "cannot be read at 'a\\[1'"),
        ("a]", "cannot be read"),
        ("a=b", "must be a number"),
        ("a=none.npy", "cannot be read as .npy"),
        ("=3", "without a name"),
        ("[2]=3", "without a name"),
        ("a=", "is missing|must be a number"),
        ("a[1]=3", "the value is enough"),
        ("a{f33}", "'f33' is not an element type"),
        ("a[1,q]", "'q' in the shape"),
        (",", "cannot be read"),
    ],
)
def test_command_line_mistakes(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_inputs(text)


def test_an_input_is_named_once() -> None:
    with pytest.raises(OptionError, match="input 'x' is given two"):
        converter.convert_model(model(), input="x[1,4],x[2,4]")


def onnx2ir(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "converter", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_on_the_command_line_with_verification(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    np.save(tmp_path / "s.npy", np.float32(3))
    repeated, listed = ("--output", "z", "--output", "shifted"), ("--output", "z, shifted")
    for freeze, names in (("s=3", repeated), (f"s={tmp_path / 's.npy'}", listed)):
        shapes = ("--input", f"x[2,4],{freeze}")
        done = onnx2ir("convert", tmp_path / "m.onnx", *shapes, *names, "--verify", "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert [port["name"] for port in result["outputs"]] == ["z", "shifted"]
        assert result["inputs"] == [{"name": "x", "type": "f32", "shape": [2, 4]}]
        assert result["verification"]["passed"] is True
    assert core().read_model(tmp_path / "m.xml").inputs[0].shape == openvino_shape(2, 4)


def openvino_shape(*dimensions: int) -> object:
    import openvino

    return openvino.Shape(dimensions)


def test_extension_in_the_api_and_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_ops.py").write_text(EXTENSION)
    graph = helper.make_graph(
        [helper.make_node("MyCube", ["x"], ["y"], domain="acme", name="cube")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)], ir_version=9
    )
    onnx.save(proto, tmp_path / "m.onnx")
    done = onnx2ir("convert", tmp_path / "m.onnx")
    assert done.returncode == 1
    assert "node 'cube' (acme.MyCube, opset 1): the operator is not supported" in done.stderr
    done = onnx2ir("convert", tmp_path / "m.onnx", "--extension", tmp_path / "my_ops.py", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["layers"]["Cube-1"] == 1
    code = (
        "import converter, ir_runtime, numpy as np\n"
        f"m = converter.convert_model({str(tmp_path / 'm.onnx')!r}, extensions=[{str(tmp_path / 'my_ops.py')!r}])\n"
        "print(ir_runtime.compile_model(m)([np.array([-2, 0, 3], np.float32)])['y'].tolist())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[8.0, 0.0, 27.0]"


def test_an_extension_that_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('no luck')")
    with pytest.raises(converter.ConversionError, match="fails: RuntimeError: no luck"):
        converter.convert_model(model(), extensions=[tmp_path / "bad.py"])


def test_the_oracle_agrees_with_the_test_model() -> None:
    x = np.ones((2, 4), np.float32)
    assert run_onnxruntime(model(), {"x": x, "s": np.float32(1)})[0] == 16


def test_a_map_at_the_end_can_be_cut_off() -> None:
    """How scikit-learn's converter ends its classifiers."""
    ends_in_map = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[2,3] x) => (maps) {
            p = ai.onnx.ml.Normalizer <norm="L1"> (x)
            [zip] maps = ai.onnx.ml.ZipMap <classlabels_int64s=[0, 1, 2]> (p)
        }"""
    )
    with pytest.raises(converter.ConversionError, match=r"'zip' \(ai.onnx.ml.ZipMap.*the option 'output' can ask"):
        converter.convert_model(ends_in_map)
    compiled = ir_runtime.compile_model(converter.convert_model(ends_in_map, output=["p"]))
    x = np.array([[1, 2, 5], [3, 0, 1]], np.float32)
    np.testing.assert_allclose(compiled({"x": x})[0], x / x.sum(axis=1, keepdims=True))
