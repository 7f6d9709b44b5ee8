"""Whole models as ONNX: names, opsets, files, bodies, weights, states, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import openvino
import pytest

import converter
from converter import ConversionError, UnsupportedModelError
from ir_runtime import Model, model_to_bytes, read_model
from ir_runtime.graph import element_types
from ir_runtime.graph.shape_inference import make_node
from tests.commands import onnx2ir
from tests.converter.optimization.models import floats, parse
from tests.converter.to_onnx.graphs import IR, check, constant, layer, model, network, op, operators, parameter, run

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def ir_of(nodes: str, outputs: str = "y", inputs: str = "float[3,4] x", opset: int = 20, **weights: Any) -> Model:
    return converter.convert_model(parse(f"g ({inputs}) => ({outputs}) {{ {nodes} }}", opset, **weights), target="any")


def test_names_of_inputs_outputs_tensors_and_layers() -> None:
    exported = check(ir_of("[relu] features = Relu (x) [tanh] y = Tanh (features)", inputs="float[n,4] x"), {"x": X})
    assert [one.name for one in (*exported.graph.input, *exported.graph.output)] == ["x", "y"]
    nodes = [(node.name, list(node.input), list(node.output)) for node in exported.graph.node]
    assert nodes == [("relu", ["x"], ["features"]), ("tanh", ["features"], ["y"])]


@pytest.mark.parametrize("aliases", [["a", "x"], ["x", "z"], ["b", "x", "z"]], ids=str)
@pytest.mark.parametrize("port", ["", "/sink_port_0", "/sink_port_1"])
def test_inputs_outputs_with_aliases_are_named_like_their_layers(aliases: list[str], port: str) -> None:
    ir = ir_of("y = Relu (x)")
    ir.parameters[0].outputs[0].names = [*aliases]
    names = ["y" if name == "x" else name * 2 for name in aliases]
    ir.results[0].name, ir.results[0].output_names, ir.results[0].inputs[0].names = f"y{port}", names, [*names]
    exported = converter.export_model(read_model(*model_to_bytes(ir)))
    assert [exported.graph.input[0].name, exported.graph.output[0].name] == ["x", "y"]


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("a = Relu (x) b = Identity (a) same = Identity (x) fixed = Constant <value_floats = [1.0, 2.0]> ()",
         "a, b, same, fixed"),
        ("a = Relu (x)", "a"),
    ],
)  # fmt: skip
def test_ends_that_share_a_tensor_or_that_nothing_reads_stay(nodes: str, outputs: str) -> None:
    exported = check(ir_of(nodes, outputs, "float[3,4] x, float[2] unread"), {"x": X, "unread": X[0, :2]})
    assert [one.name for one in exported.graph.input] == ["x", "unread"]
    assert [one.name for one in exported.graph.output] == outputs.split(", ")


@pytest.mark.parametrize("opset", [13, 17, 18, None])
@pytest.mark.parametrize("sizes", [None, [2, 2, 2], [1, 4, 1], [3, -1, 2]], ids=str)
@pytest.mark.parametrize("read", [(0, 1), (0,), (1,), (2,)], ids=str)
def test_parts_of_a_split_that_nothing_reads_stay(
    sizes: list[int] | None, read: tuple[int, ...], opset: int | None
) -> None:
    """Without sizes Split divides by the number of its outputs; sizes must be as many."""
    x = parameter("x", None, 6)
    how = op("Split", num_splits=3) if sizes is None else op("VariadicSplit")
    numbers = [constant(1, "i64"), *([] if sizes is None else [constant(sizes, "i64")])]
    parts = make_node(how, [x, *numbers], "split").outputs
    ir = model([x], {f"y{place}": IR().ReLU(parts[place]) for place in read})
    (node, *_) = check(ir, {"x": np.arange(-6, 6, dtype=np.float32).reshape(2, 6)}, opset=opset).graph.node
    assert (node.op_type, len(node.output)) == ("Split", 3)


def test_an_optional_output_that_nothing_reads_is_left_out() -> None:
    feeds = {"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)}
    ir = ir_of("y = MaxPool <kernel_shape = [2, 2]> (x)", inputs="float[1,2,4,4] x")
    (node,) = check(ir, feeds).graph.node
    assert (node.op_type, len(node.output)) == ("MaxPool", 1)


@pytest.mark.parametrize(
    ("op_type", "opset", "expected"),
    [
        ("Gelu", None, (20, "Gelu")), ("Gelu", 17, (17, "Add Erf Mul Mul Mul")), ("HSwish", None, (14, "HardSwish")),
        ("HSwish", 13, (13, "HardSigmoid Mul")), ("Mish", 17, (17, "Mul Softplus Tanh")), ("ReLU", None, (13, "Relu")),
        ("ReLU", 25, (25, "Relu")),
    ],
)  # fmt: skip
def test_the_opset_is_the_lowest_that_is_compact_or_the_callers(
    op_type: str, opset: int | None, expected: tuple[int, str]
) -> None:
    x = parameter("x", 3, 4)
    exported = check(model([x], {"y": getattr(IR(), op_type)(x)}), {"x": X}, opset=opset)
    assert (exported.opset_import[0].version, " ".join(sorted(operators(exported)))) == expected


@pytest.mark.parametrize("opset", [6, 29, True, "17", 17.0])
def test_opsets_that_cannot_be_written(opset: Any) -> None:
    with pytest.raises(ConversionError, match="from 7 to 28"):
        converter.export_model(ir_of("y = Relu (x)"), opset=opset)


def test_everything_that_an_opset_does_not_express_is_listed_at_once() -> None:
    b, x, how = IR(), parameter("x", 3), {"destination_type": "f8e4m3"}
    ir = model([x], {"y": b.FakeConvert(b.FakeConvert(x, 1.0, **how, name="first"), 2.0, **how, name="second")})
    with pytest.raises(UnsupportedModelError) as caught:
        converter.export_model(ir, opset=17)
    assert [problem.node for problem in caught.value.problems] == ["first", "second"]
    assert "needs opset 19, but opset 17 is asked for" in str(caught.value)


@pytest.mark.parametrize("kind", ["f32", "f16", "i64"])
def test_a_conversion_without_a_kernel_is_refused_with_that_reason(kind: str) -> None:
    b, x = IR(), parameter("x", 3, kind=kind)
    y = b.Convert(b.Convert(x, destination_type="f4e2m1", name="narrow"), destination_type="f32")
    with pytest.raises(UnsupportedModelError, match=r"'narrow'.* onnxruntime has no kernel of Cast .*f4e2m1"):
        converter.export_model(model([x], {"y": y}), opset=23)


def test_an_input_of_a_type_that_onnx_does_not_have() -> None:
    x = parameter("x", 3, kind="u1")
    ir = model([x], {"y": IR().Convert(x, destination_type="f32")})
    with pytest.raises(UnsupportedModelError, match="'x' has the element type u1"):
        converter.export_model(ir)


def _dense(rows: int = 64, columns: int = 48) -> Model:
    b, x, weights = IR(), parameter("x", None, columns), floats(rows, columns)
    hidden, last = b.MatMul(x, weights, transpose_b=True), weights[:, :32].T.repeat(2, 1)[:, :rows]
    return model([x], {"y": b.MatMul(hidden, last, transpose_b=True)})


@pytest.mark.parametrize("external", [False, True, None])
def test_files_hold_what_the_message_holds(tmp_path: Path, external: bool | None) -> None:
    ir = _dense()
    path = tmp_path / "m.onnx"
    converter.save_onnx(ir, path, external_data=external)
    assert (tmp_path / "m.onnx.data").exists() is bool(external)
    stored, expected = onnx.load(path), converter.export_model(ir)
    for tensor in (*stored.graph.initializer, *expected.graph.initializer):
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    assert {one.name: one for one in stored.graph.initializer} == {one.name: one for one in expected.graph.initializer}
    assert (list(stored.graph.node), stored.opset_import) == (list(expected.graph.node), expected.opset_import)
    before = path.read_bytes()
    converter.save_onnx(ir, path, external_data=external)
    assert path.read_bytes() == before


def test_an_ir_from_a_file_and_a_path_that_is_no_onnx(tmp_path: Path) -> None:
    ir = _dense()
    converter.save_model(ir, tmp_path / "m.xml")
    assert converter.export_model(tmp_path / "m.xml") == converter.export_model(ir)
    with pytest.raises(ConversionError, match=r"must end in \.onnx"):
        converter.save_onnx(ir, tmp_path / "m.xml")
    assert read_model(tmp_path / "m.xml").types == ir.types


def test_the_model_stays_as_it_is(tmp_path: Path) -> None:
    ir = _dense()
    converter.save_model(ir, tmp_path / "before.xml")
    converter.export_model(ir)
    converter.save_model(ir, tmp_path / "after.xml")
    assert (tmp_path / "before.xml").read_bytes() == (tmp_path / "after.xml").read_bytes()


@pytest.mark.parametrize(
    ("compress", "contrib", "wanted"),
    [
        ("int8", False, ["DequantizeLinear", "Transpose", "MatMul"] * 2),
        ("int4", False, ["DequantizeLinear", "MatMul", "DequantizeLinear", "Transpose", "MatMul"]),
        ("int4", True, ["MatMulNBits", "DequantizeLinear", "Transpose", "MatMul"]),
    ],
)
def test_compressed_weights(compress: str, contrib: bool, wanted: list[str], tmp_path: Path) -> None:
    packing = converter.WeightCompression(4, group_size=16) if compress == "int4" else compress
    converter.save_model(_dense(), tmp_path / "m.xml", compress=packing)
    ir = read_model(tmp_path / "m.xml")
    x = np.random.default_rng(1).standard_normal((5, 48)).astype(np.float32)
    exported = check(ir, {"x": x}, contrib=contrib)
    assert [name for name in operators(exported) if name != "Cast"] == wanted
    size = sum(len(tensor.raw_data) for tensor in exported.graph.initializer)
    assert size <= 1.1 * (tmp_path / "m.bin").stat().st_size


@pytest.mark.parametrize("points", ["", ", xz", ", , wz", ", xz, wz"])
@pytest.mark.parametrize(("groups", "filters"), [(1, "wide"), (2, "narrow")])
def test_integer_products_are_one_node_and_exact(groups: int, filters: str, points: str) -> None:
    """Sums beyond 2^24, which float32 rounds."""
    rng = np.random.default_rng(3)
    shapes = {"wide": (4, 128, 3, 3), "narrow": (4, 64, 3, 3), "b": (1200, 2)}
    source = parse(f"""g (uint8[2, 128, 4, 5] x, uint8[3, 1200] a) => (int32[2, 4, 4, 5] y, int32[3, 2] z)
        <uint8 xz = {{3}}, uint8 wz = {{5}}> {{ z = MatMulInteger (a, b {points})
        y = ConvInteger <pads = [1, 1, 1, 1], group = {groups}> (x, {filters} {points}) }}""",
        **{name: rng.integers(100, 255, shape, np.uint8) for name, shape in shapes.items()})  # fmt: skip
    exported = converter.export_model(converter.convert_model(source, target="any"))
    assert sorted(operators(exported)) == ["ConvInteger", "MatMulInteger"]
    feeds = {"x": rng.integers(200, 255, (2, 128, 4, 5), np.uint8), "a": rng.integers(200, 255, (3, 1200), np.uint8)}
    expected = dict(zip(["y", "z"], onnx.reference.ReferenceEvaluator(source).run(None, feeds)))
    for name, value in run(exported, feeds).items():
        assert np.abs(value).max() > 2**24
        np.testing.assert_array_equal(value, expected[name])


def test_floats_of_4_bits_are_kept_as_codes() -> None:
    x = parameter("x", 2, 16)
    table = element_types.unpack(np.arange(256, dtype=np.uint8), element_types.nf4, (32, 16))
    weights = layer(op("Convert", destination_type="f32"), constant(table, "nf4", "w"), name="convert")
    exported = check(model([x], {"y": IR().MatMul(x, weights, transpose_b=True)}), {"x": floats(2, 16)})
    codes = next(tensor for tensor in exported.graph.initializer if tensor.name == "w")
    assert (codes.data_type, len(codes.raw_data)) == (onnx.TensorProto.UINT4, 256)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("n.xml -o nowhere/m.onnx", 1, "no folder"), ("n.xml -o m.xml", 1, "must end in .onnx"),
        ("n.xml --opset 6", 1, "from 7 to 28"), ("n.xml --report page.html", 2, "--report needs --verify"),
        ("n.onnx -o m.onnx", 1, "n.onnx"),
    ],
)  # fmt: skip
def test_mistakes(words: str, code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), tmp_path / "n.onnx")
    converter.save_model(converter.convert_model(network()), tmp_path / "n.xml")
    before = sorted(path.name for path in tmp_path.iterdir())
    found, _, messages = onnx2ir("export", *words.split())
    assert (found, message in messages) == (code, True), messages
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_round_trip_comes_to_rest(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "n.onnx")
    trip = converter.round_trip(tmp_path / "n.onnx")
    assert trip.passed
    assert trip.settled is not None
    assert trip.settled <= 2
    assert all(report.passed for report in trip.reports.values())


def test_what_the_first_file_declared_comes_back(tmp_path: Path) -> None:
    before = network()
    before.producer_name, before.producer_version, before.doc_string = "maker", "1.2", 'for <"you">\n& me'
    before.model_version, before.domain = 7, "org.example"
    before.metadata_props.add(key="author name", value='<"me">')
    converter.save_model(converter.convert_model(before), tmp_path / "m.xml")
    after = converter.export_model(tmp_path / "m.xml")
    for field in ("producer_name", "producer_version", "doc_string", "model_version", "domain"):
        assert getattr(after, field) == getattr(before, field), field
    assert list(after.metadata_props) == list(before.metadata_props)
    assert after.opset_import[0].version == before.opset_import[0].version
    names = [dimension.dim_param for dimension in after.graph.input[0].type.tensor_type.shape.dim]
    assert names == ["batch", "", "height", "width"]
    openvino.save_model(openvino.Core().read_model(tmp_path / "m.xml"), tmp_path / "again.xml")
    again = converter.export_model(tmp_path / "again.xml")
    assert (again.producer_name, again.opset_import[0].version) == ("maker", 17)
    assert again.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
