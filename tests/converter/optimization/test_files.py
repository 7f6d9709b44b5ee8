"""Optimized files: names, metadata and weights that are kept, and the command."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from converter import ConversionError, InvalidModelError
from ir_runtime.errors import FileError
from tests.commands import onnx2ir
from tests.converter.optimization.models import assert_equal, check, floats, operators, opset_of, parse, run

# --- what is kept ---

X = floats(2, 3)


def layer_norm() -> onnx.ModelProto:
    """A linear layer and a LayerNormalization in nine nodes."""
    text = """g (float[batch, 3] x) => (float[batch, 4] y) { [linear] h = MatMul(x, w)  mean = ReduceMean<axes = [-1]>(h)
        d = Sub(h, mean)  square = Pow(d, two)  variance = ReduceMean<axes = [-1]>(square)
        shifted = Add(variance, epsilon)  root = Sqrt(shifted)  quotient = Div(d, root)  scaled = Mul(quotient, scale)
        y = Add(scaled, bias) }"""
    weights = {"w": floats(3, 4), "scale": floats(4, seed=1), "bias": floats(4, seed=2)}
    return parse(text, **weights, two=np.float32(2), epsilon=np.float32(1e-5))


def dims_of(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_nodes_become_fewer_and_names_stay() -> None:
    result = check(layer_norm(), {"x": X})
    assert operators(result.graph) == ["MatMul", "LayerNormalization"]
    assert result.graph.node[0].name == "linear"
    assert list(result.graph.node[0].output) == ["h"]
    assert {tensor.name for tensor in result.graph.initializer} == {"w", "scale", "bias"}
    assert (dims_of(result.graph.input[0]), dims_of(result.graph.output[0])) == (["batch", 3], ["batch", 4])


def test_what_the_model_says_of_itself_stays() -> None:
    model = layer_norm()
    model.producer_name, model.producer_version, model.domain = "trainer", "1.2", "example.org"
    model.model_version, model.doc_string = 7, "a model"
    model.graph.name, model.graph.doc_string = "net", "a graph"
    model.graph.input[0].doc_string = "an input"
    helper.set_model_props(model, {"labels": "a,b,c,d"})
    result = check(model, {"x": X})
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string", "ir_version"):
        assert getattr(result, field) == getattr(model, field)
    assert {one.key: one.value for one in result.metadata_props} == {"labels": "a,b,c,d"}
    assert (result.graph.name, result.graph.doc_string) == ("net", "a graph")
    assert list(result.graph.input) == list(model.graph.input)
    assert list(result.graph.output) == list(model.graph.output)


def test_quantization_annotations_stay_with_their_tensors() -> None:
    model = layer_norm()
    for name in ("h", "quotient"):
        model.graph.quantization_annotation.add(tensor_name=name)
    result = check(model, {"x": X})
    assert [one.tensor_name for one in result.graph.quantization_annotation] == ["h"]


def test_the_result_is_the_same_every_time_and_the_model_stays() -> None:
    model = layer_norm()
    before = model.SerializeToString(deterministic=True)
    first, second = (converter.optimize(model).to_onnx().SerializeToString(deterministic=True) for _ in range(2))
    assert first == second
    assert model.SerializeToString(deterministic=True) == before


def test_it_tells_what_was_done() -> None:
    result = converter.optimize(layer_norm())
    assert (result.nodes_before, result.nodes, result.opset, dict(result.kept)) == (10, 2, 17, {})
    assert result.passes["layer_normalizations"] == 1
    assert result.to_dict().keys() == {"opset", "nodes_before", "nodes", "kept", "passes", "float32"}


def test_passes_can_be_left_out() -> None:
    assert converter.optimize(layer_norm(), fuse=False).nodes > 2
    assert converter.optimize(layer_norm(), skip_passes="layer_normalizations").nodes > 2


def test_inputs_get_shapes_and_values() -> None:
    model = parse("""g (float[n, c] x, int64[1] k) => (float[a, b] y) { s = Shape(x)  m = Gather(s, k)
        t = Concat<axis = 0>(m, rest)  y = Reshape(x, t) }""", rest=np.array([-1]))  # fmt: skip
    result = converter.optimize(model, input="x[4,6],k=[1]").to_onnx()
    onnx.checker.check_model(result, full_check=True)
    assert operators(result.graph) == ["Reshape"]
    assert [(value.name, dims_of(value)) for value in result.graph.input] == [("x", [4, 6])]
    assert dims_of(result.graph.output[0]) == [6, 4]
    for options, dims in (({}, ["n", "c"]), ({"batch": 4}, [4, "c"])):
        (x,) = converter.optimize(model, freeze={"k": [1]}, **options).to_onnx().graph.input
        assert (x.name, dims_of(x)) == ("x", dims)


@pytest.mark.parametrize(
    ("dims", "declared", "expected"),
    [
        ("1,1,6,8", "1,1,3,3", [1, 1, 2, 2]), ("n,1,6,8", "n,1,3,2", ["n", 1, 2, 2]),
        ("n,1,h,w", "n,7,h2,w2", ["n", 1, "h2", "w2"]), ("1,1,6,8", "m", [1, 1, 2, 2]),
        ("n,1,6,8", "n,1,2,2", ["n", 1, 2, 2]), ("n,1,6,8", "n,c,2,2", ["n", "c", 2, 2]),
    ],
)  # fmt: skip
def test_an_output_that_cannot_have_its_declared_shape(dims: str, declared: str, expected: list[int | str]) -> None:
    """It gets the shape that follows from the inputs, with the names of dimensions that may be right."""
    model = parse(f"""g (float[{dims}] x) => (float[{declared}] y) {{
        p = MaxPool <ceil_mode = 1, kernel_shape = [1, 1], strides = [4, 4]> (x)  y = Relu (p) }}""")
    result = converter.optimize(model).to_onnx()
    assert dims_of(result.graph.output[0]) == expected
    onnx.checker.check_model(result, full_check=True)


# --- files ---

X_FILES = floats(2, 64)


def model(size: int = 64) -> onnx.ModelProto:
    text = """g (float[2,64] x, string[n] s) => (float[2,64] y, string[n] t) { a = MatMul(x, w)  b = Identity(a)
        y = MatMul(b, v)  t = Identity(s) }"""
    return parse(text, w=floats(64, size), v=floats(size, 64, seed=1))


def feeds() -> dict[str, np.ndarray]:
    return {"x": X_FILES, "s": np.array(["a"], object)}


@pytest.mark.parametrize("external", [True, False, None])
def test_weights_beside_the_model(external: bool | None, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = converter.optimize(tmp_path / "m.onnx")
    files = result.save(tmp_path / "out.onnx", external_data=external)
    assert [path.name for path in files] == (["out.onnx", "out.onnx.data"] if external else ["out.onnx"])
    expected = run(str(tmp_path / "m.onnx"), feeds())
    for name, value in run(str(tmp_path / "out.onnx"), feeds()).items():
        assert_equal(value, expected[name])
    again = converter.optimize(tmp_path / "out.onnx")
    again.save(tmp_path / "again.onnx", external_data=external)
    assert (tmp_path / "again.onnx").stat().st_size == pytest.approx((tmp_path / "out.onnx").stat().st_size, abs=9)
    for name in ("", ".data") if external else ("",):
        if name:
            assert (tmp_path / f"again.onnx{name}").read_bytes() == (tmp_path / f"out.onnx{name}").read_bytes()


def test_weights_go_from_file_to_file(tmp_path: Path) -> None:
    """32 MB of weights take a fraction of that in memory."""
    onnx.save(model(65536), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    converter.optimize(model()).save(tmp_path / "warm.onnx", external_data=True)
    tracemalloc.start()
    try:
        converter.optimize(tmp_path / "m.onnx").save(tmp_path / "out.onnx", external_data=True)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "out.onnx.data").stat().st_size >= 1 << 25
    assert most < 1 << 23


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    result = converter.optimize(model())
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileError, match=r"folder\.onnx' exists and is not a regular file"):
        result.save(tmp_path / "folder.onnx")
    with pytest.raises(ConversionError, match=r"\.onnx"):
        result.save(tmp_path / "out.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"input": "nothing[1]"}, "nothing"), ({"input": "x[a,b,c]"}, "is not a dimension"),
        ({"target": "cpu"}, "target must be one of plain, onnxruntime"), ({"skip_passes": "nothing"}, "nothing"),
        ({"batch": 0}, "batch"), ({"compress": "int8"}, "compress"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_options_that_nothing_can_use(options: dict[str, object], reason: str) -> None:
    with pytest.raises((ConversionError, TypeError), match=reason):
        converter.optimize(model(), **options)


def test_a_model_that_contradicts_itself_is_named() -> None:
    for nodes in ("[n] y = Relu(nowhere)", "[n] nowhere = Relu(x)"):
        with pytest.raises(InvalidModelError, match=r"'nowhere'|'y'"):
            converter.optimize(parse(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} }}"))


def test_sparse_weights() -> None:
    values = onnx.numpy_helper.from_array(np.float32([1, 2]), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 5]), "places")
    sparse = onnx.helper.make_sparse_tensor(values, places, [64])
    plain = parse("g (float[2,64] x) => (float[2,64] y) { i = Identity(x)  y = Add(i, w) }")
    plain.graph.sparse_initializer.append(sparse)
    result = converter.optimize(plain).to_onnx()
    assert operators(result.graph) == ["Add"]
    assert_equal(run(result, {"x": X_FILES})["y"], X_FILES + np.float32([1, *[0] * 4, 2, *[0] * 58]))


# --- command ---


JSON = "m.onnx -o small.onnx --verify --json --opset 13"
COMMANDS: dict[str, tuple[int, str, str]] = {
    # the words behind optimize: the code, parts of what is printed, the files that are written
    "m.onnx": (0, "10 nodes became 2, of opset 17", "m.optimized.onnx"),
    JSON: (0, '"opset": 13|"nodes_before": 10|"verdict": "equal"|"onnx": "small.onnx"', "small.onnx"),
    "m.onnx --verify --inputs inputs.npz --input x[3,3]": (0, "equal", "m.optimized.onnx"),
    "m.onnx -o small.onnx --external-data": (0, "", "small.onnx"),
    "m.onnx --inputs inputs.npz": (2, "needs --verify", ""),
    "m.onnx -o m.onnx": (1, "is the model that is read", ""),
    "m.onnx -o small.xml": (1, ".onnx", ""),
    "m.onnx -o missing/small.onnx": (1, "no folder", ""),
    **{f"m.onnx --opset {opset}": (1, "from 7 to 28", "") for opset in (5, 99)},
    "m.onnx --target cpu": (2, "plain", ""),
    "missing.onnx": (2, "missing.onnx", ""),
    "m.onnx --input nothing[1]": (1, "nothing", ""),
}


@pytest.mark.parametrize("words", COMMANDS)
def test_the_command(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(layer_norm(), tmp_path / "m.onnx")
    np.savez(tmp_path / "inputs.npz", x=np.ones((3, 3), np.float32))
    code, parts, files = COMMANDS[words]
    result = onnx2ir("optimize", *words.split())
    assert result[0] == code, result
    assert all(part in result[1] + result[2] for part in parts.split("|")), result
    written = {path.name for path in tmp_path.iterdir()} - {"m.onnx", "inputs.npz", "small.onnx.data"}
    assert written == {*files.split()}
    assert onnx.load(tmp_path / "m.onnx") == layer_norm()
    for name in written:
        made = onnx.load(tmp_path / name)
        assert (operators(made.graph) == ["MatMul", "LayerNormalization"]) == (words != JSON)
        assert opset_of(made) == (13 if words == JSON else 17)
    if words == JSON:
        assert json.loads(result[1])["files"] == {"small.onnx": (tmp_path / "small.onnx").stat().st_size}
