"""Layers that are one node of ONNX: rotated heads, normalizations, local functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
from ir_runtime import Model, compile_model, read_model
from ir_runtime.graph.shape_inference import make_node
from tests.commands import onnx2ir
from tests.converter.optimization.models import fed, floats, parse
from tests.converter.to_onnx.graphs import (
    IR,
    check,
    constant,
    model,
    model_of_branches,
    op,
    operators,
    parameter,
    run,
)
from tests.rows.onnx import attention
from tests.rows.row import Row
from tests.rows.table import layer_table


@dataclass(frozen=True)
class Export:
    """A model, and how many nodes of some operators its export has, or all of its operators."""

    source: str | Model
    nodes: Mapping[str, int] | str
    weights: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    trips: bool = False
    """True if a round trip is checked, too."""


def rotated(
    *, kind: str = "float", dims: str = "b, 3, s, 16", angles: str = "b, s, 8", axis: int = 1, order: str = "minus, first",
    negated: str = "second", doubled: str = "angles", rest: int = 0, outputs: str = "y", second: bool = False,
) -> tuple[str, dict[str, Any]]:  # fmt: skip
    """x cos(a) + [-second half of x, first half of x] sin(a), as transformers computes it."""
    width = int(dims.split()[-1]) - rest
    inputs = f"{kind}[{dims}] x, {kind}[{angles}] angles" + f", {kind}[{angles}] other" * (doubled == "other")
    functions = ("Identity", "Identity") if kind == "double" else ("Cos", "Sin")
    nodes = f"""twice = Concat <axis = -1> (angles, {doubled}) cos = {functions[0]} (twice) sin = {functions[1]} (twice)
        cos_4 = Unsqueeze (cos, axis) sin_4 = Unsqueeze (sin, axis)"""
    halves = f"""rotated = Slice (x, zero, width, last) rest = Slice (x, width, end, last) first = Slice (x, zero, half, last)
        second = Slice (x, half, width, last) minus = Neg ({negated}) swapped = Concat <axis = -1> ({order})
        plain = Mul ({"rotated" if rest else "x"}, cos_4) turned = Mul (swapped, sin_4) y = Add (plain, turned)"""
    if not rest:
        halves = halves[halves.index("first =") :]
    else:
        halves = halves.replace("y = Add (plain, turned)", "w = Add (plain, turned) y = Concat <axis = -1> (w, rest)")
    if second:
        inputs, outputs = f"{inputs}, {kind}[b, 1, s, 16] x2", f"{outputs}, y2"
        more = halves
        for name in ("x", "first", "second", "minus", "swapped", "plain", "turned", "y"):
            more = (
                more.replace(f"{name} =", f"{name}2 =")
                .replace(f"({name},", f"({name}2,")
                .replace(f"({name})", f"({name}2)")
            )
            more = more.replace(f", {name})", f", {name}2)")
        halves = f"{halves} {more}"
    bounds = {"zero": [0], "half": [width // 2], "width": [width], "end": [1 << 60], "last": [-1], "axis": [axis]}
    return f"g ({inputs}) => ({outputs}) {{ {nodes} {halves} }}", bounds


ONE, NONE = {"RotaryEmbedding": 1, "Mul": 0, "Neg": 0}, {"RotaryEmbedding": 0, "Mul": 2}


def normalized(nodes: Any, scale: Any = (4,), bias: Any = (4,), mode: str = "inside_sqrt", axis: int = -1,
               inner: bool = False, **options: Any) -> Export:  # fmt: skip
    b, x = IR(), parameter("x", None, 4)
    n = b.MVN(x, [axis], normalize_variance=True, eps=1e-5, eps_mode=mode)
    y = b.Add(b.Multiply(n, np.full(scale, 0.5)), np.full(bias, 0.25))
    return Export(model([x], {"y": y, **({"inner": n} if inner else {})}), nodes, options=options)


def by_squares(nodes: Any, epsilon: Any = (), last: str = "quotient", axes: Any = (-1,), power: float = 2.0,
               inner: bool = False, **options: Any) -> Export:  # fmt: skip
    b, x, scale = IR(), parameter("x", None, 4), np.arange(1.0, 5)
    mean = b.ReduceMean(b.Power(x, power), list(axes), keep_dims=True)
    root = b.Sqrt(b.Add(mean, np.full(epsilon, 1e-5)))
    y = b.Divide(x, root) if "quotient" in last else b.Multiply(x, b.Divide(1.0, root))
    y = y if "alone" in last else b.Multiply(scale, y) if last == "product" else b.Multiply(y, scale)
    return Export(model([x], {"y": y, **({"inner": root} if inner else {})}), nodes, options=options)


LAYER, RMS = "LayerNormalization", "RMSNormalization"
EXPORTS: dict[str, Export] = {
    **{f"halves, {changes}": Export(*rotated(**changes)[:1], nodes, rotated(**changes)[1], trips=True)
       for changes, nodes in (
        ({}, ONE), ({"kind": "float16"}, ONE), ({"dims": "2, 3, 5, 16", "angles": "2, 5, 8"}, ONE),
        ({"dims": "b, 3, s, 22", "rest": 6}, ONE),
        ({"dims": "b, s, 3, 16", "axis": 2}, ONE),  # without a transpose in front: heads behind positions
        ({"outputs": "y, swapped"}, {"RotaryEmbedding": 1, "Mul": 0}),
        ({"angles": "1, s, 8"}, ONE))},  # one row of angles for the whole batch is repeated
    **{f"no rotation, {changes}": Export(*rotated(**changes)[:1], NONE, rotated(**changes)[1]) for changes in (
        {"order": "first, minus"}, {"negated": "first", "order": "second, minus"}, {"doubled": "other"},
        {"angles": "p, s, 8"}, {"angles": "c, s, 8"}, {"kind": "double"})},
    "halves of an older opset": Export(rotated()[0], {"RotaryEmbedding": 0}, rotated()[1], {"opset": 22}),
    # Queries and keys are rotated by the same angles, which are cut and repeated once.
    "rotations share their angles": Export(
        rotated(angles="1, s, 8", second=True)[0], {"RotaryEmbedding": 2, "Expand": 2, "Slice": 2}, rotated()[1]),
    **{f"layer normalization, {shape} {part}": normalized(LAYER if len(shape) < 3 else {"Add": 1}, **{part: shape})
       for part in ("scale", "bias") for shape in ((4,), (1, 4), (1,), (1, 1, 4))},
    "layer normalization of an older opset": normalized({LAYER: 0}, opset=16),
    "layer normalization along the first axis": normalized({LAYER: 0}, axis=0),
    "layer normalization, epsilon outside": normalized({LAYER: 0}, mode="outside_sqrt"),
    "layer normalization with an inner output": normalized({}, inner=True),
    **{f"RMS normalization, {shape}, {last}": by_squares({RMS: int(len(shape) < 3)}, shape, last)
       for shape in ((), (1, 1), (1, 1, 1)) for last in ("quotient", "quotient alone", "product", "product alone")},
    "RMS normalization of an older opset": by_squares({RMS: 0}, opset=22),
    **{f"no RMS normalization, {changes}": by_squares({RMS: 0}, **changes)
       for changes in ({"axes": [0]}, {"axes": [0, 1]}, {"power": 4.0})},
    "RMS normalization with an inner output": by_squares({RMS: 1}, inner=True),
}  # fmt: skip


@pytest.mark.every_value
@pytest.mark.parametrize("name", EXPORTS)
def test_exported(name: str, tmp_path: Path) -> None:
    row = EXPORTS[name]
    is_ir = isinstance(row.source, Model)
    source = None if is_ir else parse(row.source, 23, **row.weights)
    ir = row.source if is_ir else converter.convert_model(source)
    feeds = {"x": floats(3, 4)} if is_ir else fed(source, {"s": 5, "c": 1})
    # onnxruntime itself fuses such layers to one that drops the dimensions of the epsilon
    is_fused_wrongly = "(1, 1, 1)" in name
    exported = converter.export_model(ir) if is_fused_wrongly else check(ir, feeds, **row.options)
    found = operators(exported)
    if isinstance(row.nodes, str):
        assert found == row.nodes.split()
    else:
        assert {op_type: found.count(op_type) for op_type in row.nodes} == row.nodes
    assert [one.name for one in exported.graph.output] == [one.end_names[0] for one in ir.results]
    if is_ir:
        assert len(exported.graph.output[0].type.tensor_type.shape.dim) == compile_model(ir)(feeds)["y"].ndim
    if row.trips:
        onnx.save(source, tmp_path / "m.onnx")
        assert converter.round_trip(tmp_path / "m.onnx").passed


def with_open_lengths(row: Row) -> Row:
    """The row with an open batch and an open number of positions."""
    shapes = {name: list(value.shape) for name, value in row.feeds.items()}
    for name, shape in shapes.items():
        if len(shape) > 2 or row.feeds[name].dtype.kind == "i":
            shape[0], shape[2 if len(shape) == 4 else 1] = "b", "s"
    return replace(row, dims=shapes)


ROTARY = [row for row in attention.ROWS if row.op_type == "RotaryEmbedding" and not row.refused and row.dims is None]
ROTATIONS = [one for row in ROTARY for one in (row, with_open_lengths(row))]


@pytest.mark.parametrize("row", ROTATIONS, ids=lambda row: f"{row.name}, {row.dims}")
def test_rotary_embedding_comes_back(row: Row, tmp_path: Path) -> None:
    exported = check(converter.convert_model(row.model), row.feeds)
    assert [one for one in operators(exported) if one != "Gather"] == ["RotaryEmbedding"]
    onnx.save(row.model, tmp_path / "m.onnx")
    assert converter.round_trip(tmp_path / "m.onnx").passed


# --- local functions ---

IMAGE = np.linspace(-2, 2, 2 * 4 * 6 * 6, dtype=np.float32).reshape(2, 4, 6, 6)


def reorganized(shuffled: bool = False) -> Model:
    b, x = IR(), parameter("x", 2, 4, 6, 6)
    source = b.ShuffleChannels(x, axis=1, group=2, name="shuffle") if shuffled else x
    return model([x], {"y": b.ReorgYolo(source, stride=[2], name="reorg")})


def test_a_layer_is_one_node_and_layers_of_equal_functions_share_one() -> None:
    b, x = IR(), parameter("x", 2, 4, 6, 6)
    once = b.ShuffleChannels(x, axis=1, group=2, name="shuffle")
    again = b.ShuffleChannels(once, axis=1, group=2, name="shuffle_again")
    other = b.ShuffleChannels(again, axis=1, group=4, name="shuffle_by_4")
    exported = check(model([x], {"y": b.ReorgYolo(other, stride=[2], name="reorg"), "z": again}), {"x": IMAGE})
    assert {node.name: f"{node.domain}.{node.op_type}" for node in exported.graph.node} == {
        "shuffle": "onnx2ir.ShuffleChannels", "shuffle_again": "onnx2ir.ShuffleChannels",
        "shuffle_by_4": "onnx2ir.ShuffleChannels_1", "reorg": "onnx2ir.ReorgYolo",
    }  # fmt: skip
    assert [function.name for function in exported.functions] == ["ShuffleChannels", "ShuffleChannels_1", "ReorgYolo"]
    assert exported.functions[0].doc_string == "ShuffleChannels of OpenVINO's opset1: axis=1, group=2"
    assert list(exported.functions[0].input) == ["x"]
    assert exported.ir_version >= 8


def test_without_functions_their_nodes_stand_in_the_graph_which_openvino_reads(tmp_path: Path) -> None:
    ir = reorganized()
    exported = check(ir, {"x": IMAGE}, inline_functions=True)
    assert not exported.functions
    assert operators(exported) == ["Reshape", "Transpose", "Reshape"]
    assert [one.domain for one in exported.opset_import] == [""]
    found = openvino.compile_model(openvino.Core().read_model(exported.SerializeToString()), "CPU")([IMAGE])["y"]
    np.testing.assert_array_equal(found, compile_model(ir)({"x": IMAGE})["y"])


def test_large_constants_are_inputs_of_the_function() -> None:
    """Data has one place, which other layers read, too."""
    b, x = IR(), parameter("x", 3)
    edges = constant(np.sort(floats(1000)), name="edges")
    total = make_node(op("ReduceSum", 1), [edges, constant([0], "i64")], "sum").outputs[0]
    ir = model([x], {"y": b.Bucketize(x, edges), "z": total})
    exported = check(ir, {"x": np.array([-1, 0, 1], np.float32)})
    assert [list(node.input) for node in exported.graph.node if node.domain] == [["x", "edges"]]
    assert [one.name for one in exported.graph.initializer].count("edges") == 1
    assert max(len(function.SerializeToString()) for function in exported.functions) < 2000


def test_a_layer_in_a_body_calls_a_function_of_the_model() -> None:
    call = next(call for call in layer_table() if call.op.type == "ShuffleChannels")
    ir, feeds = model_of_branches(call)
    exported = check(ir, feeds)
    (chosen,) = exported.graph.node
    branches = [one.g for one in chosen.attribute]
    assert [[node.op_type for node in branch.node if node.domain] for branch in branches] == [["ShuffleChannels"]] * 2
    assert len(exported.functions) == 1


def test_a_large_model_in_a_file_keeps_its_functions(tmp_path: Path) -> None:
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        converter.save_onnx(reorganized(), path, external_data=external)
        assert [function.name for function in onnx.load(path).functions] == ["ReorgYolo"]
        assert run(onnx.load(path), {"x": IMAGE})["y"].shape == (2, 16, 3, 3)


def test_the_way_back_and_the_second_pass(tmp_path: Path) -> None:
    ir = reorganized(shuffled=True)
    converter.save_model(ir, tmp_path / "m.xml")
    trip = converter.round_trip(tmp_path / "m.xml")
    assert trip.passed, trip
    assert trip.settled == 2
    code, out, messages = onnx2ir("export", str(tmp_path / "m.xml"), "--inline-functions", "--verify")
    assert code == 0, out + messages
    assert not onnx.load(tmp_path / "m.onnx").functions
    assert read_model(tmp_path / "m.xml").outputs[0].shape == ir.outputs[0].shape
