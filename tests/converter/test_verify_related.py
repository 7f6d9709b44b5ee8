"""verify invents inputs that fit each other: indices below the dimensions of the same run, grids that count rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import converter
from converter.equivalence.required_values import RequiredValues
from ir_runtime.graph.operation import Required
from tests.converter.test_verify_inputs import F32, I64, model, node
from tests.optimization.models import parse

ROWS = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)

INDEXED = {
    # operator, shapes of data, of indices and of updates, attributes, the number of values that indices may have
    "scatter-elements": ("ScatterElements", ["n", 3], [2, 3], [2, 3], {"axis": -2}, None),
    "scatter-elements-last": ("ScatterElements", ["n", 3], ["n", 2], ["n", 2], {"axis": -1}, 3),
    "scatter-nd": ("ScatterND", [2, 5], [4, 2], [4], {}, 2),
    "gather-elements": ("GatherElements", ["n", 3], ["n", 2], None, {"axis": -1}, 3),
    "gather-nd": ("GatherND", [3, 2], [4, 2], None, {}, 2),
    "gather": ("Gather", ["n", 3], ["m"], None, {"axis": -2}, None),
}


@pytest.mark.every_row
@pytest.mark.parametrize("name", INDEXED)
def test_indices_lie_inside_what_they_index(name: str) -> None:
    operator, data, indices, updates, attributes, most = INDEXED[name]
    inputs = {"data": (F32, data), "indices": (I64, indices)}
    if updates is not None:
        inputs["updates"] = (F32, updates)
    nodes = [
        node("Identity", "indices", "same"),
        node(operator, " ".join(["data", "same", *list(inputs)[2:]]), "y", **attributes),
    ]
    proto = model(nodes, {}, inputs)
    report = converter.verify(proto, converter.convert_model(proto), samples=3)
    assert report.passed, str(report)
    assert not [note for note in report.notes if "does not take" in note]
    if most is not None:
        ir = converter.convert_model(proto)
        types = {output: output.type for layer in ir.nodes() for output in layer.outputs}
        assert RequiredValues(ir).of(types) == {1: Required(0, most - 1)}


REQUIRED = {
    # the node, with its inputs: type and shape
    "axes that differ": (node("ReduceMean", "x axes", "y"), {"x": (F32, ["n", 3, "m"]), "axes": (I64, [2])}),
    "axes of four": (node("ReduceMax", "x axes", "y", keepdims=0), {"x": (F32, ["n", 3, 4, 5]), "axes": (I64, [3])}),
    "lengths of parts": (node("Split", "x lengths", "y a b", axis=1), {"x": (F32, ["n", 7]), "lengths": (I64, [3])}),
    "batches of regions": (
        node("RoiAlign", "x regions batches", "y", output_height=2, output_width=2),
        {"x": (F32, ["n", 2, "h", "w"]), "regions": (F32, ["r", 4]), "batches": (I64, ["r"])},
    ),
    "factors of sides": (
        node("Resize", "x  factors", "y", mode="linear"),
        {"x": (F32, ["n", 1, "h", "w"]), "factors": (F32, [4])},
    ),
}


@pytest.mark.parametrize("name", REQUIRED)
def test_values_are_those_that_operations_require(name: str) -> None:
    operator, inputs = REQUIRED[name]
    if operator.op_type == "Resize":
        operator.input[:] = ["x", "", "factors"]
    proto = model([operator], {}, inputs)
    proto.opset_import[0].version = 18
    report = converter.verify(proto, converter.convert_model(proto), samples=4)
    assert report.passed, report.reason
    assert not [note for note in report.notes if "does not take" in note]


SCALAR: list[int] = []
RATES = {"rate": np.int64(16000), "pitches": np.linspace(40, 2000, 95, dtype=np.float32)}


def dropout() -> onnx.ModelProto:
    return model([node("Dropout", "x ratio", "y")], {}, {"x": (F32, ["n", 3]), "ratio": (F32, SCALAR)})


@pytest.mark.parametrize("seed", range(4))
def test_the_ratio_of_a_dropout_is_below_1(seed: int) -> None:
    proto = dropout()
    assert converter.verify(proto, converter.convert_model(proto), seed=seed).passed


@pytest.mark.parametrize("cast", [False, True])
def test_a_switch_has_the_value_that_the_graph_compares_it_with(cast: bool) -> None:
    """As silero's sampling rate: with another one all elements of the output would be the same."""
    nodes = [
        node("Cast" if cast else "Identity", "sr", "switch", **({"to": I64} if cast else {})),
        node("Equal", "switch rate", "is_rate"),
        node("Where", "is_rate x nothing", "y"),
    ]
    inputs = {"x": (F32, ["n", 3]), "sr": (onnx.TensorProto.INT32 if cast else I64, SCALAR)}
    proto = model(nodes, {**RATES, "nothing": np.float32(0)}, inputs)
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed, report.reason
    assert not report.shown_by_layers


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_leave_elements_of_the_table_between_them(is_swapped: bool, seed: int) -> None:
    """As the pitches of a network, the mean of which is NaN where none lies between the bounds."""
    above = node("LessOrEqual", "low pitches", "above") if is_swapped else node("Greater", "pitches low", "above")
    below = node("Greater", "high pitches", "below") if is_swapped else node("LessOrEqual", "pitches high", "below")
    nodes = [
        above,
        below,
        node("And", "above below", "between"),
        node("Cast", "between", "weights", to=F32),
        node("Mul", "x weights", "weighted"),
        node("ReduceSum", "weighted", "sum"),
        node("ReduceSum", "weights", "count"),
        node("Div", "sum count", "y"),
    ]
    inputs = {"x": (F32, ["n", 95]), "low": (F32, SCALAR), "high": (F32, SCALAR)}
    proto = model(nodes, RATES, inputs)
    report = converter.verify(proto, converter.convert_model(proto), seed=seed)
    assert report.passed, report.reason
    assert not report.shown_by_layers


@pytest.mark.parametrize("heads", [3, 5, 6, 7])
def test_a_width_that_heads_divide(heads: int) -> None:
    proto = model(
        [node("Reshape", "x shape", "y")], {"shape": np.array([0, 0, heads, -1])}, {"x": (F32, ["n", "s", "d"])}
    )
    assert converter.verify(proto, converter.convert_model(proto)).passed


def test_a_graph_network_gets_edges_between_its_nodes() -> None:
    """As torch_geometric exports: rows of sources and targets, gathered, and added up with ScatterElements."""
    nodes = [
        node("Gather", "edges zero", "sources", axis=0),
        node("Gather", "edges one", "targets", axis=0),
        node("Gather", "features sources", "sent", axis=0),
        node("Shape", "sent", "shape"),
        node("Unsqueeze", "targets last", "column"),
        node("Expand", "column shape", "places"),
        node("Mul", "features nothing", "empty"),
        node("ScatterElements", "empty places sent", "sums", axis=-2, reduction="add"),
        node("MatMul", "sums weight", "y"),
    ]
    weights = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "last": np.array([-1]),
        "nothing": np.float32(0),
        "weight": ROWS[:4],
    }
    proto = model(nodes, weights, {"features": (F32, ["nodes", 4]), "edges": (I64, [2, "edges"])})
    report = converter.verify(proto, converter.convert_model(proto), samples=2)
    assert report.passed, str(report)
    assert [note for note in report.notes if "OpenVINO itself was not asked" not in note] == []
    assert len(report.samples) == 3


def vision_encoder(total: str = "patches") -> onnx.ModelProto:
    """Patches are averaged by squares of two for each image, as the columns of its grid tell."""
    nodes = [
        node("Split", "grid", "frames heights widths", axis=1, num_outputs=3),
        node("Mul", "frames heights", "rows"),
        node("Mul", "rows widths", "counts"),
        node("ReduceSum", "counts", "total", keepdims=0),
        node("Unsqueeze", "total first", "many"),
        node("Concat", "many width", "shape", axis=0),
        node("Reshape", "pixels shape", "patches"),
        node("Div", "total four", "quarter"),
        node("Unsqueeze", "quarter first", "fewer"),
        node("Concat", "fewer groups", "merged", axis=0),
        node("Reshape", "patches merged", "squares"),
        node("ReduceMean", "squares middle", "means", keepdims=0),
        node("MatMul", "means weight", "y"),
    ]
    weights = {
        "first": np.array([0]),
        "width": np.array([4]),
        "four": np.int64(4),
        "groups": np.array([4, 4]),
        "middle": np.array([1]),
        "weight": ROWS[:4],
    }
    proto = model(nodes, weights, {"pixels": (F32, [total, 4]), "grid": (I64, ["images", 3])})
    proto.opset_import[0].version = 18
    return proto


def test_a_grid_counts_the_patches_of_a_vision_encoder() -> None:
    proto = vision_encoder()
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed, str(report)
    assert any(note.startswith("input 'grid' has rows [1, 4, 4]") for note in report.notes)
    assert [sample.inputs["pixels"][0] for sample in report.samples] == [
        16 * sample.inputs["grid"][0] for sample in report.samples
    ]
    assert len({sample.inputs["pixels"][0] for sample in report.samples}) > 1


def test_a_length_that_a_table_of_positions_fixes() -> None:
    """As Whisper's encoder: a convolution halves the length, which must then be that of a table that does not broadcast."""
    nodes = [
        node("Conv", "sound filters", "half", kernel_shape=[3], strides=[2], pads=[1, 1]),
        node("Transpose", "half", "steps", perm=[0, 2, 1]),
        node("Concat", "steps positions", "y", axis=2),
    ]
    weights = {
        "filters": np.ones((4, 6, 3), np.float32),
        "positions": np.random.default_rng(1).standard_normal((1, 300, 4)).astype(np.float32),
    }
    proto = model(nodes, weights, {"sound": (F32, ["n", 6, "steps"])})
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed
    assert report.inputs["sound"][2] in (599, 600)


def test_a_square_image_whose_patches_a_table_counts() -> None:
    nodes = [
        node("Conv", "image filters", "map", kernel_shape=[14, 14], strides=[14, 14]),
        node("Reshape", "map flat", "columns"),
        node("Transpose", "columns", "tokens", perm=[0, 2, 1]),
        node("Add", "tokens positions", "y"),
    ]
    weights = {
        "filters": np.ones((4, 3, 14, 14), np.float32),
        "flat": np.array([0, 4, -1]),
        "positions": np.random.default_rng(1).standard_normal((1, 25, 4)).astype(np.float32),
    }
    proto = model(nodes, weights, {"image": (F32, ["n", 3, "h", "w"])})
    report = converter.verify(proto, converter.convert_model(proto))
    assert report.passed
    assert report.inputs == {"image": [1, 3, 70, 70]}


def test_the_error_tells_which_arrays_to_pass() -> None:
    """The second input must be the sum of the first, which no trial finds."""
    nodes = [
        node("ReduceSum", "counts", "total", keepdims=0),
        node("Unsqueeze", "total first", "length"),
        node("Mul", "length prime", "shape"),
        node("Reshape", "data shape", "y"),
    ]
    inputs = {"counts": (I64, ["n"]), "data": (F32, ["m"])}
    proto = model(nodes, {"first": np.array([0]), "prime": np.array([10007])}, inputs)
    message = r"no dimensions were found.*--inputs with an .npz that holds counts \(i64\[\?\]\), data \(f32\[\?\]\)"
    with pytest.raises(converter.VerificationError, match=message):
        converter.verify(proto, converter.convert_model(proto))


def test_the_caller_decides_what_indices_are() -> None:
    proto = model([node("Gather", "data indices", "y")], {}, {"data": (F32, [5]), "indices": (I64, [3])})
    report = converter.verify(proto, converter.convert_model(proto), values={"indices": "zeros"})
    assert report.passed
    with pytest.raises(converter.VerificationError, match=r"indices|outside|bounds"):
        converter.verify(proto, converter.convert_model(proto), values={"indices": "90..99"})


def layers_in_a_row(seed: int, count: int, operator: str, dims: str) -> onnx.ModelProto:
    """Products with random weights, each before an activation."""
    names = [f"{operator}{number}" for number in range(count)]
    nodes = [
        f"p{name} = MatMul ({before}, w{name})  {name} = {operator} (p{name})"
        for before, name in zip(["x", *names], names)
    ]
    text = f"g (float[{dims}] x) => (float[{dims}] y) {{ {' '.join(nodes)} y = Identity ({names[-1]}) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    rng = np.random.default_rng(seed)
    weights = [(f"w{name}", rng.standard_normal((8, 8)).astype(np.float32)) for name in names]
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights)
    return model


@pytest.mark.parametrize("dims", ["n,8", "2,8"])
def test_an_ir_of_another_model_gets_one_sentence(dims: str) -> None:
    model, other = layers_in_a_row(1, 12, "Relu", dims), layers_in_a_row(2, 9, "Tanh", dims)
    text = converter.verify(model, converter.convert_model(other)).to_text()
    assert "different: the IR is of another model" in text
    assert "folded" not in text
    assert "first layer" not in text
    # One weight in common is something in common.
    other.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(numpy_helper.to_array(model.graph.initializer[0]), "wTanh0")
    )
    related = converter.verify(model, converter.convert_model(other))
    assert related.verdict == "different"
    assert not related.is_of_another_model


GQA = """g (float[{b},{s},64] q, float[{b},{s},32] k, float[{b},{s},32] v, float[{b},2,{p},16] pk, float[{b},2,{p},16] pv,
    int32[{b}] lengths, int32 total, float[16,8] cos, float[16,8] sin)
    => (float[a1,a2,a3] y, float[b1,b2,b3,b4] ok, float[c1,c2,c3,c4] ov) {{
    i = Mul (k, k)
    y, ok, ov = com.microsoft.GroupQueryAttention <kv_num_heads = 2, num_heads = 4, do_rotary = {rotary}>
        (q, i, v, pk, pv, lengths, total{tables}) }}"""


@pytest.mark.parametrize(("b", "s", "p"), [("b", "s", "p"), (1, 3, 4), (2, 1, "p"), ("b", 1, 5)])
@pytest.mark.parametrize("rotary", [0, 1])
def test_lengths_of_a_cache_are_sums_of_dimensions(b: object, s: object, p: object, rotary: int) -> None:
    """onnxruntime refuses several sequences of several tokens beside a cache, which is no difference."""
    tables = ", cos, sin" if rotary else ""
    proto = parse(GQA.format(b=b, s=s, p=p, rotary=rotary, tables=tables), header=', "com.microsoft" : 1')
    if not rotary:
        del proto.graph.input[7:]
    report = converter.verify(proto, converter.convert_model(proto), samples=3)
    assert report.verdict == "derived", report.reason
    assert report.inputs["pk"][2] > 0
