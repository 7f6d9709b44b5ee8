"""Passes in their order and without some of them, idioms, and passes together with compression and targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter import ConversionOptions
from converter.conversion.convert import compressed, convert
from converter.passes.derivation import without_record
from converter.passes.registry import passes
from ir_runtime.graph.element_types import i64
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations import indexing, movement, normalization, reduction, slicing
from ir_runtime.operations.inputs_outputs import Const1, Parameter1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.fused_names import fused_names
from ir_runtime.rewriting.trace import Trace
from tests.converter.optimization.models import parse
from tests.engines import ENGINES, core, opened, run, run_by_name, run_onnxruntime
from tests.ir_runtime.rewriting.models import model_of, parameter
from tests.rows.formula import all_idioms
from tests.rows.onnx import control_flow
from tests.rows.onnx.matmul import tied
from tests.rows.onnx.movement import CHAINED as X
from tests.rows.onnx.movement import LEFT, REVERSE, SAME, SWAP, chain
from tests.rows.row import Row, const, several

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
        "table": const(rng.normal(size=(9, WIDTH)), np.float32), "flat": const([-1, WIDTH]), "width": const([WIDTH]),
    }  # fmt: skip
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
    inputs = {"m": np.array(1), "c": np.array(True), "x": control_flow.ONES, "s0": control_flow.START}
    row = next(several(control_flow.loop("mc"), outputs=control_flow.ENDS, label="frozen", **inputs))
    made = converter.convert_model(row.model, target=target, freeze=freeze)
    assert "Loop" not in made.types
    given = {name: inputs[name] for node in made.parameters for name in node.outputs[0].names}
    for outputs in run_by_name(ir_runtime.model_to_bytes(made), given).values():
        for value, expected in zip(outputs.values(), control_flow.NOTHING, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_no_iterations_can_be_reshaped_without_scan_outputs() -> None:
    nodes = control_flow.loop("m", "end", "[]")
    row = next(several(nodes, outputs="end", label="", m=const(0), x=control_flow.ONES, s0=control_flow.START))
    made = converter.convert_model(row.model)
    made.reshape({"s0": [4, 5]})
    other = np.ones((4, 5), np.float32)
    feeds = {"s0": other, "x": control_flow.ONES}
    given = {name: feeds[name] for node in made.parameters for name in node.outputs[0].names}
    for outputs in run_by_name(ir_runtime.model_to_bytes(made), given).values():
        np.testing.assert_array_equal(outputs["end"], other)


# --- idioms (``tests/test_rows.py`` runs each, and each near miss) ---

IDIOMS = all_idioms()


def layers(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes() if not node.op.role]


@pytest.mark.parametrize("name", ["gelu", "layer normalization", "mish", "softsign"])
def test_a_fused_layer_has_the_names_of_those_in_whose_place_it_is(name: str) -> None:
    row = IDIOMS[name]
    plain = converter.convert_model(row.model(5), fuse=False, target="any")
    made = converter.convert_model(row.model(5))
    (fused,) = [node for node in made.nodes() if node.op.type == row.layers[0]]
    wanted = [node.name for node in plain.nodes() if node.inputs and node.op.role != "result"]
    assert sorted(fused_names(fused)) == sorted(wanted)
    assert fused.name == wanted[-1]
    again = core().read_model(*ir_runtime.model_to_bytes(made))
    assert any("fused_names_0" in node.get_rt_info() for node in again.get_ops())


@pytest.mark.parametrize("name", IDIOMS)
def test_without_fusion_each_node_keeps_its_layers(name: str) -> None:
    row = IDIOMS[name]
    graph, last = row.written(4)
    model = graph.model(row, True, last)
    made = converter.convert_model(model, fuse=False, target="any")
    assert len(layers(made)) >= graph.distinct > len(row.layers)
    assert [node.origin.node for node in made.nodes() if node.origin][-1] == graph.nodes[-1].name
    assert layers(converter.convert_model(model, target="any")) == row.layers


@pytest.mark.parametrize(("compress", "half"), [(None, True), ("int8", False), ("int4", True)])
@pytest.mark.parametrize("name", IDIOMS)
def test_compressed_weights_of_an_idiom_are_accounted_for(name: str, compress: str | None, half: bool) -> None:
    model = IDIOMS[name].model(3, dynamic=False)
    way = None if compress is None else converter.WeightCompression.named(compress)
    made = without_record(compressed(converter.convert_model(model), way, half).model)
    report = converter.verify(model.SerializeToString(), made)
    assert report.verdict == "equal", report.to_text()


AXES_AS_INPUTS: tuple[tuple[tuple[type, ...], int], ...] = (
    ((reduction.Reduction, movement.Squeeze1, movement.Squeeze15, movement.Unsqueeze1, normalization.MVN6), 1),
    ((slicing.Split1, slicing.VariadicSplit1), 1), ((indexing.Gather1, indexing.Gather7), 2), ((slicing.Slice8,), 4),
)  # fmt: skip
"""Operations, and the input that has their axes."""
AXES_AS_ATTRIBUTES = ("Concat", "GatherElements", "LogSoftmax", "SoftMax", "TopK")


def count_from_end(model: Model) -> int:
    """Make the axes of all layers negative, as another converter may write them; returns how many layers change."""
    count = 0
    for node in model.nodes():
        sources = node.outputs if isinstance(node.op, movement.Unsqueeze1) else node.inputs
        rank = sources[0].shape.rank if sources and sources[0].shape.has_rank else None
        if rank is None:
            continue
        axis = node.op.attributes().get("axis")
        if node.op.type in AXES_AS_ATTRIBUTES and isinstance(axis, int) and axis >= 0:
            node.op = type(node.op)(**{**node.op.attributes(), "axis": axis - rank})
            count += 1
        for operations, place in AXES_AS_INPUTS:
            if isinstance(node.op, operations) and len(node.inputs) > place:
                count += negate_input(node, place, rank)
    return count


def negate_input(node: Node, place: int, rank: int) -> bool:
    tensor = node.inputs[place].tensor
    if tensor is None or not (tensor.array() >= 0).any():
        return False
    axes = tensor.array()
    negative = Tensor.from_array(np.where(axes >= 0, axes - rank, axes).astype(axes.dtype), tensor.element_type)
    constant = make_node(Const1(value=negative), (), f"{node.name}/axes")
    node.inputs = [*node.inputs[:place], constant.outputs[0], *node.inputs[place + 1 :]]
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", IDIOMS)
def test_passes_take_negative_axes(name: str, seed: int) -> None:
    row = IDIOMS[name]
    plain, negative = (converter.convert_model(row.model(seed), fuse=False, target="any") for _ in range(2))
    values = row.values(np.float32)
    (expected,) = run("numpy", ir_runtime.model_to_bytes(plain), values)
    count = count_from_end(negative)
    assert count or name not in ("layer normalization", "softmax")
    for ir in (plain, negative):
        passes.run(ir)
    assert layers(negative) == layers(plain)
    for engine in ENGINES:
        (actual,) = run(engine, ir_runtime.model_to_bytes(negative), values)
        np.testing.assert_allclose(actual, expected, rtol=row.tolerance, atol=row.tolerance, err_msg=engine)


def group_normalization(*shape: int | str) -> onnx.ModelProto:
    model = IDIOMS["group normalization"].model(2)
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape))
    return model


@pytest.mark.parametrize("target", ["any", "cpu@2023.3", "cpu@2024.6"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), ("n", "c", "h", "w")], ids=["static", "dynamic"])
def test_releases_have_group_normalization(target: str, shape: Sequence[int | str]) -> None:
    """It is of opset 12, which the oldest target has."""
    assert "GroupNormalization" in layers(converter.convert_model(group_normalization(*shape), target=target))


@pytest.mark.parametrize("shape", [(1, 3, 7, 3), (5, 3, 1, 2), (0, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_group_normalization_of_other_shapes(engine: str, shape: tuple[int, ...]) -> None:
    """Declared as one shape, and given another one: the layer has only the number of channels in it."""
    proto = group_normalization(2, 3, 4, 5)
    made = converter.convert_model(proto)
    made.reshape({"x": list(shape)})
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    (wanted,) = run_onnxruntime(opened(proto), {"x": x}) if x.size else (np.zeros((0, 6, 4, 5)),)
    (value,) = run(engine, ir_runtime.model_to_bytes(made), {"x": x})
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)
