"""verify takes what convert took, and fills inputs with what the graph can take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.equivalence.dimensions import ShapeCandidates
from converter.equivalence.input_values import MASK, parse_values, values_of
from converter.equivalence.onnx_graph import OnnxGraph
from tests.commands import onnx2ir

I64, F32 = TensorProto.INT64, TensorProto.FLOAT


def model(nodes: list, weights: dict[str, np.ndarray], inputs: dict[str, tuple[int, list]]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", F32, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def embedding(rows: int = 40) -> onnx.ModelProto:
    """Tokens, positions with an offset of two reshapes, and a mask that is cast."""
    nodes = [
        node("Gather", "table ids", "words"),
        node("Unsqueeze", "kinds last", "wide"),
        node("Squeeze", "wide last", "narrow"),
        node("Gather", "types narrow", "sorts"),
        node("Add", "words sorts", "sum"),
        node("Cast", "mask", "floats", to=F32),
        node("Unsqueeze", "floats last", "factors"),
        node("Mul", "sum factors", "y"),
    ]
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.standard_normal((rows, 4)).astype(np.float32),
        "types": rng.standard_normal((2, 4)).astype(np.float32),
        "last": np.array([-1]),
    }
    inputs = {name: (I64, ["n", "s"]) for name in ("ids", "kinds", "mask")}
    return model(nodes, weights, inputs)


def test_token_ids_stay_below_the_rows_and_masks_are_ones_and_zeros() -> None:
    values = values_of(OnnxGraph(embedding()))
    generator = np.random.default_rng(0)
    ids, kinds, mask = (values[name].make(generator, (50, 60)) for name in ("ids", "kinds", "mask"))
    assert (ids.min(), ids.max()) == (0, 39)
    assert set(np.unique(kinds)) == {0, 1}
    assert set(np.unique(mask)) == {0, 1}
    assert (np.diff(mask) <= 0).all()
    assert mask[:, 0].all()
    assert converter.verify(embedding(3), converter.convert_model(embedding(3))).passed


@pytest.mark.parametrize(
    ("kind", "shape", "low", "high"),
    [
        (F32, ["n", 3, "h", "w"], 0, 1),
        (F32, ["n", "h", "w", 3], 0, 1),
        (TensorProto.UINT8, [1, "h", "w", 3], 0, 255),
        (F32, ["n", 16, "h", "w"], None, None),
        (F32, ["n", "steps"], None, None),
    ],
)
def test_images(kind: int, shape: list, low: float | None, high: float | None) -> None:
    made = values_of(OnnxGraph(model([node("Cast", "x", "y", to=F32)], {}, {"x": (kind, shape)})))
    if low is None:
        assert made == {}
        return
    drawn = made["x"].make(np.random.default_rng(0), (2, 30, 30, 3))
    assert low <= drawn.min() < low + (high - low) / 10
    assert high - (high - low) / 10 < drawn.max() <= high


@pytest.mark.parametrize(
    "inputs",
    ["Reshape x sizes", "Expand x sizes", "ConstantOfShape sizes", "Tile x sizes", "TopK x sizes", "Resize x   sizes"],
)
def test_sizes_that_are_inputs_are_small(inputs: str) -> None:
    op_type, *names = inputs.split(" ")
    sizes = values_of(
        OnnxGraph(model([helper.make_node(op_type, names, ["y"])], {}, {"x": (F32, ["n"]), "sizes": (I64, [1])}))
    )["sizes"]
    assert set(sizes.make(np.random.default_rng(0), (50,))) == {1, 2}


def opened(proto: onnx.ModelProto, masks: tuple[str, ...] = ()) -> ShapeCandidates:
    from ir_runtime.execution.ports import ports_of

    ports, _ = ports_of(converter.convert_model(proto))
    return ShapeCandidates(ports, OnnxGraph(proto), {port.name: port.name for port in ports}, masks)


def test_dimensions_of_one_name_are_alike_and_sums_are_sums() -> None:
    nodes = [node("Concat", "a b", "ab", axis=1), node("Add", "ab c", "y")]
    inputs = {"a": (F32, ["n", "p"]), "b": (F32, ["n", "q"]), "c": (F32, ["n", "p + q"])}
    found = opened(model(nodes, {}, inputs))
    for shapes in (next(found.usual()), next(found.others({}))):
        assert shapes["a"][0] == shapes["b"][0] == shapes["c"][0]
        assert shapes["c"][1] == shapes["a"][1] + shapes["b"][1]


def test_a_mask_beside_caches_covers_both() -> None:
    nodes = [
        node("Concat", "cache new", "all", axis=2),
        node("ReduceSum", "all axes", "sums", keepdims=0),
        node("Gather", "table ids", "real"),
        node("Cast", "mask", "seen", to=F32),
        node("Mul", "sums seen", "weighed"),
        node("ReduceMax", "real", "most", keepdims=1),
        node("Add", "weighed most", "y"),
    ]
    inputs = {
        "ids": (I64, ["b", "s"]),
        "mask": (I64, ["b", "t"]),
        "cache": (F32, ["b", 2, "p", 4]),
        "new": (F32, ["b", 2, "s", 4]),
    }
    proto = model(nodes, {"axes": np.array([1, 3]), "table": np.arange(9, dtype=np.float32)}, inputs)
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed
    shapes = report.inputs
    assert shapes["mask"][1] == shapes["cache"][2] + shapes["ids"][1]
    assert len({tuple(sample.inputs["mask"]) for sample in report.samples}) == 2


def test_dimensions_are_tried_until_the_model_takes_them() -> None:
    """Windows of 200 do not fit into the first dimensions that are tried."""
    nodes = [node("AveragePool", "x", "y", kernel_shape=[200, 200])]
    proto = model(nodes, {}, {"x": (F32, ["n", 3, "h", "w"])})
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed
    assert min(report.inputs["x"][2:]) >= 200
    assert any("shapes were tried" in note for note in report.notes)


def test_the_message_where_no_dimensions_fit() -> None:
    weights = {"shape": np.array([-1, 777])}
    proto = model([node("Reshape", "x shape", "y")], weights, {"x": (F32, ["n", "k"])})
    with pytest.raises(
        converter.VerificationError, match=r"(?s)no dimensions were found .* give the shapes with --input"
    ):
        converter.verify(proto, converter.convert_model(proto, input={"x": [-1, -1]}, target="any"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A static classifier of 32 x 32 with an inner activation and a rate that is an input."""
    nodes = [
        node("Conv", "x k", "c", name="conv", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "g"),
        node("Flatten", "g", "f"),
        node("Mul", "f rate", "y"),
    ]
    weights = {"k": np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)}
    proto = model(nodes, weights, {"x": (F32, [1, 3, 32, 32]), "rate": (F32, [])})
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"input": "x[1,3,64,48]"},
        {"input": {"x": [2, 3, 20, 20]}},
        {"batch": 5},
        {"freeze": {"rate": 2.5}},
        {"input": "x[2,3,16,16],rate=3"},
        {"output": ["r"]},
        {"output": ["y", "g"], "input": "x[?,3,?,?]"},
        {"input": "x[?,?,16,16]"},  # the number of channels follows from the file
    ],
)
def test_verify_takes_what_convert_took(image: Path, tmp_path: Path, options: dict) -> None:
    converter.save_model(converter.convert_model(image, **options), tmp_path / "m.xml")
    report = converter.verify(image, tmp_path / "m.xml", **options)
    assert report.passed
    assert [output.name for output in report.outputs] == options.get("output", ["y"])


@pytest.mark.parametrize("shape", ["[?,3,?,?]", "[2,3,?,?]", "[2,3,16,20]"])
@pytest.mark.parametrize("shape_of_ir", ["[?,?,?,3]", "[2,16,20,3]", ""])
def test_shapes_of_preprocessed_inputs_are_those_of_either_side(
    image: Path, tmp_path: Path, shape: str, shape_of_ir: str
) -> None:
    steps = {"x": converter.Preprocess(element_type="u8", layout="nhwc", model_layout="nchw", mean=0.5)}
    converter.save_model(converter.convert_model(image, input=f"x{shape}", preprocess=steps), tmp_path / "m.xml")
    assert converter.verify(image, tmp_path / "m.xml", input=f"x{shape_of_ir or shape}").passed


def test_convert_verifies_with_its_own_options(image: Path, tmp_path: Path) -> None:
    given = ["--input", "x[2,3,16,16],rate=3", "--output", "g"]
    code, out, messages = onnx2ir("convert", str(image), "-o", str(tmp_path / "o.xml"), *given, "--verify")
    assert (code, "PASSED" in out) == (0, True), messages
    code, out, messages = onnx2ir("verify", str(image), str(tmp_path / "o.xml"), *given)
    assert (code, "PASSED" in out) == (0, True), messages
    code, _, messages = onnx2ir("verify", str(image), str(tmp_path / "o.xml"), "--output", "y")
    assert code == 1
    assert "the IR has no inputs ['rate'], which the ONNX model needs" in messages
    assert '--input "rate=..."' in messages


def test_inner_tensors_that_the_ir_returns_besides_are_compared(image: Path) -> None:
    made = converter.convert_model(image, output=["y", "r"])
    assert [output.name for output in converter.verify(image, made).outputs] == ["y", "r"]


def test_each_run_opens_up_what_its_own_shapes_need(tmp_path: Path) -> None:
    """The first run takes one of two inputs as the file declares it, the second neither."""
    nodes = [node("ReduceMean", "a axes", "ma", keepdims=0), node("ReduceMean", "b axes", "mb", keepdims=0)]
    graph = model([*nodes, node("Add", "ma mb", "y")], {}, {"a": (F32, [2, 8]), "b": (F32, [9, 9])})
    del graph.opset_import[:]
    graph.opset_import.append(helper.make_opsetid("", 18))
    graph.graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "axes"))
    report = converter.verify(graph, converter.convert_model(graph, input={"a": [-1, -1], "b": [-1, -1]}))
    assert report.passed
    assert report.inputs["a"] == [2, 8] != report.samples[-1].inputs["a"]


def test_the_callers_tolerance_holds_for_single_layers(image: Path) -> None:
    made = converter.convert_model(image)
    pool = next(one for one in made.nodes() if one.name == "conv")
    pool.op = pool.op.with_attributes(pads_begin=[0, 1], pads_end=[2, 1])
    assert not converter.verify(image, made, layers=True).passed
    report = converter.verify(image, made, layers=True, rtol=0.0, atol=100.0)
    assert (report.first_fault, report.verdict) == (None, "unproven")  # it is not what was converted


def test_values_by_name(image: Path) -> None:
    made = converter.convert_model(image)
    report = converter.verify(image, made, values={"x": "5..6", "rate": "ones"}, samples=1)
    assert report.passed
    with pytest.raises(converter.VerificationError, match="values are given for 'z', but the IR's inputs are"):
        converter.verify(image, made, values={"z": "ones"})
    for wrong in ("2..1", "many", "..", "1..x"):
        with pytest.raises(converter.VerificationError, match=r"values must be .* or a range such as 0..1"):
            parse_values(wrong)
    assert parse_values("mask") is MASK


def test_stress_runs_special_values(image: Path) -> None:
    report = converter.verify(image, converter.convert_model(image), stress=True)
    names = [sample.description for sample in report.samples]
    assert [name for name in names if name.startswith("stress")] == [
        f"stress: {what}"
        for what in ("zeros", "large numbers", "small numbers", "denormal numbers", "infinities", "NaN")
    ]
    assert report.passed


def test_the_message_without_onnxruntime_has_what_to_install(tmp_path: Path) -> None:
    """onnx's own evaluator does not know the operators of com.microsoft."""
    graph = helper.make_graph(
        [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")],
        "g",
        [helper.make_tensor_value_info("x", F32, [4])],
        [helper.make_tensor_value_info("y", F32, [4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnxruntime' else real(name, *a)\n"
        "sys.modules['onnxruntime'] = None\n"
        "import converter\n"
        f"m = {str(tmp_path / 'm.onnx')!r}\n"
        "try: converter.verify(m, converter.convert_model(m))\n"
        "except converter.VerificationError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'onnx2ir[verify]'" in out


def test_parts_of_old_models_are_of_an_ir_version_whose_weights_need_not_be_inputs() -> None:
    """Before version 4 of ONNX's IR every initializer had to be listed among the inputs, too."""
    proto = embedding()
    proto.ir_version = 3
    graph = OnnxGraph(proto)
    assert graph.whole({}).ir_version == 4
    proto.ir_version = 9
    assert OnnxGraph(proto).whole({}).ir_version == 9


def test_a_batch_that_the_ir_does_not_take_is_an_error(image: Path) -> None:
    fixed = converter.convert_model(image, batch=1)
    with pytest.raises(converter.VerificationError, match=r"batch is 7, but the input 'x' of the IR has the shape"):
        converter.verify(image, fixed, batch=7)
    assert converter.verify(image, fixed, batch=1).passed
