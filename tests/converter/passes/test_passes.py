"""Passes in their order and without some of them, on bodies, and together with compression and targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter import ConversionOptions
from converter.compression.float16_constants import halve
from converter.conversion import convert
from converter.passes.registry import passes
from ir_runtime import Model
from ir_runtime.graph.element_types import f16, f32, i64
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.trace import Trace
from tests.commands import onnx2ir
from tests.converter.optimization.models import parse
from tests.converter.passes.models import tied
from tests.engines import ENGINES, run, run_numpy, run_onnxruntime, run_openvino
from tests.ir_runtime.rewriting.models import model_of, parameter
from tests.named_runs import run_by_name
from tests.rows.onnx import idle_loops
from tests.rows.onnx.movement import CHAINED as X
from tests.rows.onnx.movement import LEFT, REVERSE, SAME, SWAP, chain
from tests.rows.row import Row, const, several


def test_weights_of_bodies_are_halved_too() -> None:
    generator = np.random.default_rng(5)
    weights, x = (generator.standard_normal((size, 4)).astype(np.float32) for size in (4, 2))
    loop = """y = Loop (trips, , x) <body = b (int64 i, bool go, float[2, 4] state) => (bool go_on, float[2, 4] next)
        { next = MatMul (state, w) go_on = Identity (go) }>"""
    proto = next(several(loop, label="loop", x=x, w=const(weights), trips=const(3))).model
    model = converter.convert_model(proto)
    halved = model.clone()
    assert halve(halved).count

    def types(model: Model) -> list[object]:
        stored = (node.op.data for part in model.all_models() for node in part.nodes())
        return [data.element_type for data in stored if data is not None and data.size == 16]

    assert (types(model), types(halved)) == ([f32], [f16])
    (expected,) = run_onnxruntime(proto, {"x": x})
    for engine in (run_numpy, run_openvino):
        found = engine(ir_runtime.model_to_bytes(halved), {"x": x})[0]
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)


# --- passes that a conversion leaves out ---


def gelu_and_clamp() -> Row:
    """GELU as PyTorch writes it out, and a clamp in two layers."""
    values = {"root": np.sqrt(2), "one": 1, "half": 0.5, "zero": 0, "six": 6}
    nodes = """d = Div (x, root) e = Erf (d) a = Add (e, one) m = Mul (x, a) g = Mul (m, half)
        low = Max (g, zero) y = Min (low, six)"""
    x = np.linspace(-3, 9, 6, dtype=np.float32).reshape(2, 3)
    return next(several(nodes, label="gelu", x=x, **{name: const(value, np.float32) for name, value in values.items()}))


def test_skipped_passes_leave_the_layers_and_the_values() -> None:
    row = gelu_and_clamp()
    complete, without = convert(row.model), convert(row.model, ConversionOptions(skip_passes="gelus"))
    assert {"gelus", "clamps"} <= complete.passes.keys()
    assert "gelus" not in without.passes
    assert without.passes.keys() >= complete.passes.keys() - {"gelus"}
    assert "Gelu" in {node.op.type for node in complete.model.nodes()}
    assert {node.op.type for node in without.model.nodes()} >= {"Erf", "Clamp"}
    expected = run_onnxruntime(row.model, row.feeds)[0]
    for conversion in (complete, without):
        result = ir_runtime.compile_model(conversion.model)(row.feeds)["y"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_any_pass_of_cleanup_and_fusion_can_be_skipped() -> None:
    model = gelu_and_clamp().model
    for name in passes.optional:
        assert name not in convert(model, ConversionOptions(skip_passes=[name])).passes


@pytest.mark.parametrize("value", ["gelu", ["gelus", "shared_weights"], [3]])
def test_only_passes_of_cleanup_and_fusion_can_be_skipped(value: Any) -> None:
    with pytest.raises(converter.ConversionError, match="is no pass of cleanup or fusion; near are"):
        ConversionOptions(skip_passes=value)


def test_passes_are_skipped_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(gelu_and_clamp().model, tmp_path / "m.onnx")
    words = ["convert", str(tmp_path / "m.onnx"), "--json", "--skip-pass", "gelus,clamps", "--skip-pass", "prelus"]
    code, output, _ = onnx2ir(*words)
    assert (code, {"gelus", "clamps", "prelus"} & json.loads(output)["passes"].keys()) == (0, set())


# --- weights that a model holds twice, once transposed ---


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("rows", [1024, 3000])
def test_a_tied_matrix_is_stored_once(rows: int, folded: bool) -> None:
    model = tied(rows, folded)
    ir = ir_runtime.model_to_bytes(converter.convert_model(model))
    assert len(ir[1]) < 1.1 * rows * 32 * 4
    feeds = {"ids": np.array([[0, 3, 1, rows - 1, 7]])}
    expected = run_onnxruntime(model, feeds)[0]
    for engine in ENGINES:
        np.testing.assert_allclose(run(engine, ir, feeds)[0], expected, rtol=1e-4, atol=1e-4, err_msg=engine)


@pytest.mark.parametrize(("rows", "other"), [(1024, 1.0), (256, 0.0)])
def test_weights_that_are_not_shared_are_stored_unchanged(rows: int, other: float) -> None:
    """One number that differs; and a matrix too small for a layer to be worth it."""
    made = converter.convert_model(tied(rows, True, other))
    assert "Transpose" not in [node.op.type for node in made.nodes()]


# --- products of rows that keep their dimensions, together with what comes after the passes ---

WIDTH = 64
TOKENS = np.array([[1, 2, 3], [4, 5, 6]])


def blocks() -> onnx.ModelProto:
    """Layers as GPT-2 has them: tokens, and products of their rows with a bias."""
    rng = np.random.default_rng(0)
    stored = {
        "table": const(rng.normal(size=(9, WIDTH)), np.float32),
        "flat": const([-1, WIDTH]),
        "width": const([WIDTH]),
    }
    nodes = "x0 = Gather (table, tokens) sizes = Shape (tokens) shape = Concat <axis = 0> (sizes, width)"
    for at in range(2):
        stored |= {f"w{at}": const(rng.normal(size=(WIDTH, WIDTH)) / 8, np.float32)}
        stored |= {f"b{at}": const(rng.normal(size=WIDTH), np.float32)}
        nodes += f""" rows{at} = Reshape (x{at}, flat) product{at} = Gemm (rows{at}, w{at}, b{at})
            back{at} = Reshape (product{at}, shape) x{at + 1} = Tanh (back{at})"""
    return next(several(nodes, dims={"tokens": "bs"}, outputs="x2", label="blocks", tokens=TOKENS, **stored)).model


@pytest.mark.parametrize(
    "options", [{}, {"compress": "int8"}, {"compress": "int4"}, {"compress_to_fp16": True}], ids=str
)
@pytest.mark.parametrize("target", ["cpu", "cpu@2023.3", "any"])
def test_together_with_compression_targets_layers_and_the_way_back(
    target: str, options: dict[str, str], tmp_path: Path
) -> None:
    onnx.save(blocks(), tmp_path / "m.onnx")
    model = converter.convert_model(tmp_path / "m.onnx", target=target)
    assert not [node for node in model.nodes() if node.op.type == "Reshape"]
    converter.save_model(model, tmp_path / "m.xml", **options)
    report = converter.verify(tmp_path / "m.onnx", tmp_path / "m.xml", layers=True)
    assert report.passed, report
    assert not report.layers_problem
    assert converter.round_trip(tmp_path / "m.xml").passed


def test_other_dimensions() -> None:
    model = converter.convert_model(blocks())
    expected = ir_runtime.compile_model(model)({"tokens": TOKENS})["x2"]
    model.reshape({"tokens": [2, 3]})
    found = ir_runtime.compile_model(model)({"tokens": TOKENS})["x2"]
    assert found.shape == (2, 3, WIDTH)
    np.testing.assert_array_equal(found, expected)


# --- transposes whose orders do not fit, or are not constant ---


def test_orders_of_no_dimensions() -> None:
    """Nothing tells before the call that they do not fit."""
    model = converter.convert_model(parse(f"g (float[] x) => (y) {{ {chain(REVERSE, [1, 5, 0])} }}"), target="any")
    orders = [node.inputs[1].type.constant for node in model.nodes() if isinstance(node.op, Transpose1)]
    assert [order.tolist() for order in orders] == [[], [1, 5, 0]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", ["2,3,4", "?,3,?"])
@pytest.mark.parametrize(
    ("first", "second", "count", "left"), [(LEFT, None, 0, "t1"), (None, LEFT, 0, "t0"), (None, SAME, 1, "t0")], ids=str
)
def test_orders_that_are_not_constant(
    first: list[int] | None, second: list[int] | None, count: int, left: str, shape: str, engine: str
) -> None:
    """ONNX has no such orders, other files of the IR do."""
    x = parameter("x", shape)
    given = make_node(Parameter1(shape=PartialShape.parse("3"), element_type=i64), (), "order")
    given.outputs[0].add_name("order")
    value = x.outputs[0]
    for number, order in enumerate((first, second)):
        axes = given.outputs[0] if order is None else Builder().constant(order)
        (value,) = make_node(Transpose1(), [value, axes], f"t{number}").outputs
    value.add_name("y")
    model, trace = model_of([x, given], value), Trace()
    assert sum(passes.run(model, trace=trace).values()) == count
    assert left in trace.of("transposes_in_a_row").reasons[f"input 1 of layer '{left}' is not constant"]
    (found,) = run(engine, ir_runtime.model_to_bytes(model), {"x": X, "order": np.array(SWAP)}, ["y"])
    np.testing.assert_array_equal(found, X.transpose(first or SWAP).transpose(second or SWAP))


# --- loops that never run ---


@pytest.mark.parametrize("freeze", [{"m": 0, "c": True}, {"m": 3, "c": False}], ids=str)
@pytest.mark.parametrize("target", ["any", "cpu"])
def test_no_iterations_by_frozen_inputs(target: str, freeze: dict[str, Any]) -> None:
    inputs = {"m": np.array(1), "c": np.array(True), "x": idle_loops.X, "s0": idle_loops.START}
    row = next(several(idle_loops.loop("mc"), outputs=idle_loops.ENDS, label="frozen", **inputs))
    made = converter.convert_model(row.model, target=target, freeze=freeze)
    assert "Loop" not in made.types
    given = {name: inputs[name] for node in made.parameters for name in node.outputs[0].names}
    for outputs in run_by_name(ir_runtime.model_to_bytes(made), given).values():
        for value, expected in zip(outputs.values(), idle_loops.NOTHING, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_no_iterations_can_be_reshaped_without_scan_outputs() -> None:
    nodes = idle_loops.loop("m", "end", "[]")
    row = next(several(nodes, outputs="end", label="", m=const(0), x=idle_loops.X, s0=idle_loops.START))
    made = converter.convert_model(row.model)
    made.reshape({"s0": [4, 5]})
    other = np.ones((4, 5), np.float32)
    feeds = {"s0": other, "x": idle_loops.X}
    given = {name: feeds[name] for node in made.parameters for name in node.outputs[0].names}
    for outputs in run_by_name(ir_runtime.model_to_bytes(made), given).values():
        np.testing.assert_array_equal(outputs["end"], other)
