"""Layers that are one node of ONNX: rotated heads, normalizations, local functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import helper

import converter
from ir_runtime import compile_model, read_model
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Output
from tests.commands import onnx2ir
from tests.converter.to_onnx.graphs import check, constant, layer, model, op, operators, parameter, run
from tests.converter.to_onnx.single_layers import model_of_branches
from tests.rows.table import layer_table

# --- rotary embedding ---

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 5, 16
FLOAT = onnx.TensorProto.FLOAT


def fed(graph: onnx.GraphProto, sizes: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feeds = {}
    for one in graph.input:
        tensor = one.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        values = rng.integers(0, 9, shape) if kind.kind == "i" else rng.normal(size=shape)
        feeds[one.name] = values.astype(kind)
    return feeds


def angled(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: Sequence[str] = ("y",), **constants: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64 if name == "ids" else kind, shape)
            for name, (kind, shape) in inputs.items()
        ],
        [helper.make_tensor_value_info(name, next(iter(inputs.values()))[0], None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def exported(made: onnx.ModelProto, batch: int = BATCH, **options: Any) -> list[str]:
    """The operators that the model's IR is written as, once its numbers were compared in onnxruntime."""
    feeds = fed(made.graph, {"b": batch, "s": LENGTH, "p": batch, "one": 1})
    return operators(check(converter.convert_model(made), feeds, **options))


@pytest.mark.parametrize(
    ("rank", "interleaved", "has_ids", "rotated"), list(itertools.product([3, 4], [0, 1], [False, True], [0, 8]))
)
def test_the_operator_comes_back(rank: int, interleaved: int, has_ids: bool, rotated: int, tmp_path: Path) -> None:
    attributes: dict[str, int] = {"interleaved": interleaved, "rotary_embedding_dim": rotated}
    if rank == 3:
        attributes["num_heads"] = HEADS
    half = (rotated or WIDTH) // 2
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", *(["ids"] if has_ids else [])], ["y"], **attributes)
    angles = (FLOAT, [9, half] if has_ids else ["b", "s", half])
    shape = ["b", HEADS, "s", WIDTH] if rank == 4 else ["b", "s", HEADS * WIDTH]
    inputs = {"x": (FLOAT, shape), "cos": angles, "sin": angles}
    if has_ids:
        inputs["ids"] = (FLOAT, ["b", "s"])
    made = angled([node], inputs)
    assert [one for one in exported(made) if one != "Gather"] == ["RotaryEmbedding"]
    onnx.save(made, tmp_path / "m.onnx")
    assert converter.round_trip(tmp_path / "m.onnx").passed


def halves(
    *,
    shape: Sequence[Any] = ("b", HEADS, "s", WIDTH),
    angles: Sequence[Any] = ("b", "s", WIDTH // 2),
    kind: int = FLOAT,
    axis: int = 1,
    order: Sequence[str] = ("minus", "first"),
    negated: str = "second",
    doubled: Sequence[str] = ("angles", "angles"),
    rest: int = 0,
    outputs: Sequence[str] = ("y",),
) -> onnx.ModelProto:
    """x cos(a) + [-second half of x, first half of x] sin(a), as transformers computes it."""
    node = helper.make_node
    nodes = [
        node("Concat", doubled, ["twice"], axis=-1),
        *(node(name.capitalize(), ["twice"], [name]) for name in ("cos", "sin")),
        *(node("Unsqueeze", [name, "axis"], [f"{name}_4"]) for name in ("cos", "sin")),
        node("Slice", ["x", "zero", "half", "last"], ["first"]),
        node("Slice", ["x", "half", "width", "last"], ["second"]),
        node("Neg", [negated], ["minus"]),
        node("Concat", order, ["swapped"], axis=-1),
        node("Mul", ["rotated" if rest else "x", "cos_4"], ["plain"]),
        node("Mul", ["swapped", "sin_4"], ["turned"]),
        node("Add", ["plain", "turned"], ["whole" if rest else "y"]),
    ]
    if rest:
        nodes.insert(0, node("Slice", ["x", "zero", "width", "last"], ["rotated"]))
        nodes.insert(0, node("Slice", ["x", "width", "end", "last"], ["rest"]))
        nodes.append(node("Concat", ["whole", "rest"], ["y"], axis=-1))
    width = shape[-1] - rest
    bounds = {"zero": [0], "half": [width // 2], "width": [width], "end": [1 << 60], "last": [-1], "axis": [axis]}
    if kind == onnx.TensorProto.DOUBLE:
        nodes = [one for one in nodes if one.op_type not in ("Cos", "Sin") and one.output[0] != "twice"]
        nodes[:0] = [node("Concat", doubled, [name], axis=-1) for name in ("cos", "sin")]
    inputs = {"x": (kind, shape), "angles": (kind, angles)}
    if "other" in doubled:
        inputs["other"] = inputs["angles"]
    return angled(nodes, inputs, outputs, **bounds)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": onnx.TensorProto.FLOAT16},
        {"shape": (2, HEADS, 5, WIDTH), "angles": (2, 5, WIDTH // 2)},
        {"shape": ("b", HEADS, "s", WIDTH + 6), "rest": 6},
        # Without a transpose in front: heads behind positions.
        {"shape": ("b", "s", HEADS, WIDTH), "axis": 2},
        {"order": ("minus", "first"), "outputs": ("y", "swapped")},
        # One row of angles for the whole batch is repeated.
        {"angles": (1, "s", WIDTH // 2)},
    ],
    ids=str,
)
def test_halves_are_one_operator(options: dict[str, Any], tmp_path: Path) -> None:
    made = halves(**options)
    found = exported(made)
    assert found.count("RotaryEmbedding") == 1
    assert "Mul" not in found
    assert "Neg" not in found or "outputs" in options
    onnx.save(made, tmp_path / "m.onnx")
    assert converter.round_trip(tmp_path / "m.onnx").passed


@pytest.mark.parametrize(
    "options",
    [
        {"order": ("first", "minus")},
        {"negated": "first", "order": ("second", "minus")},
        {"doubled": ("angles", "other")},
        {"angles": ("p", "s", WIDTH // 2)},
        {"angles": ("", "s", WIDTH // 2)},
        {"kind": onnx.TensorProto.DOUBLE},
    ],
    ids=str,
)
def test_what_is_no_rotation_or_of_another_batch_is_spelled_out(options: dict[str, Any]) -> None:
    made = halves(**options)
    if options.get("angles", ("b",))[0] == "":
        made.graph.input[1].type.tensor_type.shape.dim[0].ClearField("dim_param")
        feeds = fed(made.graph, {"b": BATCH, "s": LENGTH})
        feeds["angles"] = np.ones((1, LENGTH, WIDTH // 2), np.float32)
        found = operators(check(converter.convert_model(made), feeds))
    else:
        found = exported(made)
    assert "RotaryEmbedding" not in found
    assert found.count("Mul") == 2


def test_an_older_opset_spells_it_out() -> None:
    assert "RotaryEmbedding" not in exported(halves(), opset=22)


def test_layers_share_their_angles() -> None:
    """Queries and keys are rotated by the same angles, which are cut and repeated once."""
    made = halves(angles=(1, "s", WIDTH // 2))
    shared = ("angles", "twice", "cos", "sin", "cos_4", "sin_4", *(one.name for one in made.graph.initializer))
    for node in list(made.graph.node):
        if node.output[0] not in shared:
            second = made.graph.node.add()
            second.CopyFrom(node)
            for side in (second.input, second.output):
                side[:] = [name if name in shared else f"{name}_2" for name in side]
    made.graph.input.append(helper.make_tensor_value_info("x_2", FLOAT, ["b", 1, "s", WIDTH]))
    made.graph.output.append(helper.make_tensor_value_info("y_2", FLOAT, None))
    found = exported(made)
    assert [found.count(name) for name in ("RotaryEmbedding", "Expand", "Slice")] == [2, 2, 2]


# --- normalization ---

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def check_shape(x: Output, y: Output, name: str, expected: bool) -> None:
    ir = model([x], {"y": y})
    exported = converter.export_model(ir)
    assert (name in operators(exported)) == expected
    result = compile_model(ir)({"x": X})["y"]
    if expected:  # onnxruntime itself fuses the other layers to one that drops the dimensions of the epsilon
        np.testing.assert_allclose(run(exported, {"x": X})["y"], result, rtol=1e-4, atol=1e-5)
    assert len(exported.graph.output[0].type.tensor_type.shape.dim) == result.ndim


@pytest.mark.parametrize("part", ["scale", "bias"])
@pytest.mark.parametrize(("shape", "fused"), [((4,), True), ((1, 4), True), ((1,), True), ((1, 1, 4), False)])
def test_layer_normalization(shape: tuple[int, ...], fused: bool, part: str) -> None:
    x = parameter("x", None, 4)
    mvn = op("MVN", 6, normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt")
    scale = np.full(shape if part == "scale" else (4,), 0.5)
    scaled = layer(op("Multiply", 1), layer(mvn, x, constant([-1], "i64"), name="mvn"), constant(scale), name="scaled")
    bias = np.full(shape if part == "bias" else (4,), 0.25)
    ir = model([x], {"y": layer(op("Add", 1), scaled, constant(bias), name="shifted")})
    exported = converter.export_model(ir)
    assert (len(operators(exported)) == 1) == fused
    found, expected = run(exported, {"x": X})["y"], compile_model(ir)({"x": X})["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("shape", "fused"), [((), True), ((1, 1), True), ((1, 1, 1), False)])
def test_rms_normalization(shape: tuple[int, ...], fused: bool, scaled: bool) -> None:
    x = parameter("x", None, 4)
    squares = layer(op("Power", 1), x, constant(2.0), name="squares")
    mean = layer(op("ReduceMean", 1, keep_dims=True), squares, constant([-1], "i64"), name="mean")
    root = layer(op("Sqrt", 1), layer(op("Add", 1), mean, constant(np.full(shape, 1e-5)), name="sum"), name="root")
    y = layer(op("Divide", 1), x, root, name="normalized")
    if scaled:
        y = layer(op("Multiply", 1), y, constant([1.0, 2, 3, 4]), name="scaled")
    check_shape(x, y, "RMSNormalization", fused)


# --- local functions ---

IMAGE = np.linspace(-2, 2, 2 * 4 * 6 * 6, dtype=np.float32).reshape(2, 4, 6, 6)


def reorg(x: Output, name: str, stride: int = 2) -> Output:
    return layer(op("ReorgYolo", 2, stride=[stride]), x, name=name)


def test_a_layer_is_one_node_and_layers_of_equal_functions_share_one() -> None:
    x = parameter("x", 2, 4, 6, 6)
    shuffled = layer(op("ShuffleChannels", 1, axis=1, group=2), x, name="shuffle")
    again = layer(op("ShuffleChannels", 1, axis=1, group=2), shuffled, name="shuffle_again")
    other = layer(op("ShuffleChannels", 1, axis=1, group=4), again, name="shuffle_by_4")
    exported = check(model([x], {"y": reorg(other, "reorg"), "z": again}), {"x": IMAGE})
    assert [(node.name, node.domain, node.op_type) for node in exported.graph.node] == [
        ("shuffle", "onnx2ir", "ShuffleChannels"),
        ("shuffle_again", "onnx2ir", "ShuffleChannels"),
        ("shuffle_by_4", "onnx2ir", "ShuffleChannels_1"),
        ("reorg", "onnx2ir", "ReorgYolo"),
    ]
    assert [function.name for function in exported.functions] == ["ShuffleChannels", "ShuffleChannels_1", "ReorgYolo"]
    assert exported.functions[0].doc_string == "ShuffleChannels of OpenVINO's opset1: axis=1, group=2"
    assert list(exported.functions[0].input) == ["x"]
    assert exported.ir_version >= 8


def test_without_functions_their_nodes_stand_in_the_graph_which_openvino_reads(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(x, "reorg")})
    exported = check(ir, {"x": IMAGE}, inline_functions=True)
    assert not exported.functions
    assert operators(exported) == ["Reshape", "Transpose", "Reshape"]
    assert [one.domain for one in exported.opset_import] == [""]
    read = openvino.Core().read_model(exported.SerializeToString())
    np.testing.assert_array_equal(
        openvino.compile_model(read, "CPU")([IMAGE])["y"], compile_model(ir)({"x": IMAGE})["y"]
    )


def test_large_constants_are_inputs_of_the_function() -> None:
    """Data has one place, which other layers read, too."""
    x = parameter("x", 3)
    table = np.sort(np.random.default_rng(0).normal(size=1000)).astype(np.float32)
    edges = constant(table, name="edges")
    found = layer(op("Bucketize", 3), x, edges, name="bucketize")
    exported = check(
        model([x], {"y": found, "z": layer(op("ReduceSum", 1), edges, constant([0], "i64"), name="sum")}),
        {"x": np.array([-1, 0, 1], np.float32)},
    )
    assert [list(node.input) for node in exported.graph.node if node.domain] == [["x", "edges"]]
    assert [one.name for one in exported.graph.initializer].count("edges") == 1
    assert max(len(function.SerializeToString()) for function in exported.functions) < 2000


def test_what_a_layer_knows_is_a_constant_and_no_function() -> None:
    sizes = [constant([6, 6], "i64", "layer"), constant([300, 300], "i64", "image")]
    x = parameter("x", 1)
    priors = layer(op("PriorBoxClustered", 1, width=[30.0], height=[20.0], offset=0.5), *sizes, name="priors")
    exported = check(model([x], {"y": priors, "z": layer(op("ReLU"), x, name="relu")}), {"x": IMAGE.reshape(-1)[:1]})
    assert not exported.functions
    assert sorted(operators(exported)) == ["Identity", "Relu"]


def test_a_layer_in_a_body_calls_a_function_of_the_model() -> None:
    call = next(call for call in layer_table() if call.op.type == "ShuffleChannels")
    ir, feeds = model_of_branches(call)
    exported = check(ir, feeds)
    (chosen,) = exported.graph.node
    branches = [one.g for one in chosen.attribute]
    assert [[node.op_type for node in branch.node if node.domain] for branch in branches] == [["ShuffleChannels"]] * 2
    assert len(exported.functions) == 1


def test_a_large_model_in_a_file_keeps_its_functions(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(x, "reorg")})
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        converter.save_onnx(ir, path, external_data=external)
        assert [function.name for function in onnx.load(path).functions] == ["ReorgYolo"]
        assert run(onnx.load(path), {"x": IMAGE})["y"].shape == (2, 16, 3, 3)


def test_the_way_back_and_the_second_pass(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(layer(op("ShuffleChannels", 1, axis=1, group=2), x, name="shuffle"), "reorg")})
    converter.save_model(ir, tmp_path / "m.xml")
    trip = converter.round_trip(tmp_path / "m.xml")
    assert trip.passed, trip
    assert trip.settled == 2
    code, out, messages = onnx2ir("export", str(tmp_path / "m.xml"), "--inline-functions", "--verify")
    assert code == 0, out + messages
    assert not onnx.load(tmp_path / "m.onnx").functions
    assert read_model(tmp_path / "m.xml").outputs[0].shape == ir.outputs[0].shape
