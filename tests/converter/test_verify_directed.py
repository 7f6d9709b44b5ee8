"""verify on ties, equal operands, bounds, signed zeros, NaN and negative indices: edits that normal values never show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import converter
from benchmarks.injected_faults import KINDS
from converter.derivation import without_record
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.shape_inference import make_node
from tests.converter.test_verify_inputs import F32, I64, model, node

FLOATS = {"x": (F32, ["n", 24])}
PAIRS = {"a": (F32, ["n", 24]), "b": (F32, ["n", 24])}
DATA = {"data": (F32, [7, 4]), "indices": (I64, [5])}

MODELS = {
    "round": ([node("Round", "x", "y")], {}, FLOATS),
    "sign": ([node("Sign", "x", "y")], {}, FLOATS),
    "floor": ([node("Floor", "x", "y")], {}, FLOATS),
    "clip": ([node("Clip", "x low high", "y")], {"low": np.float32(-1.5), "high": np.float32(70)}, FLOATS),
    "relu": ([node("Relu", "x", "y")], {}, FLOATS),
    "less": ([node("Less", "a b", "less"), node("Cast", "less", "y", to=F32)], {}, PAIRS),
    "greater": ([node("Greater", "a b", "more"), node("Cast", "more", "y", to=F32)], {}, PAIRS),
    "greater-or-equal": ([node("GreaterOrEqual", "a b", "more"), node("Cast", "more", "y", to=F32)], {}, PAIRS),
    "maximum": ([node("Max", "a b", "y")], {}, PAIRS),
    "largest": ([node("ArgMax", "x", "best", axis=1), node("Cast", "best", "y", to=F32)], {}, FLOATS),
    "last-largest": (
        [node("ArgMax", "x", "best", axis=1, select_last_index=1), node("Cast", "best", "y", to=F32)],
        {},
        FLOATS,
    ),
    "gather": ([node("Gather", "data indices", "y")], {}, DATA),
    "threshold": ([node("ThresholdedRelu", "x", "y", alpha=0.5)], {}, FLOATS),
    "quantize": (
        [node("QuantizeLinear", "x scale zero", "codes"), node("Cast", "codes", "y", to=F32)],
        {"scale": np.float32(0.25), "zero": np.uint8(100)},
        FLOATS,
    ),
    "nan": ([node("IsNaN", "x", "is_nan"), node("Cast", "is_nan", "y", to=F32)], {}, FLOATS),
}


def layer(model: Model, *types: str) -> Node:
    return next(node for node in model.nodes() if node.op.type in types)


def with_attributes(*types: str, **changed: object) -> Callable[[Model], None]:
    def edit(model: Model) -> None:
        node = layer(model, *types)
        node.op = node.op.with_attributes(**changed)

    return edit


def with_operation(type: str, other: str) -> Callable[[Model], None]:
    def edit(model: Model) -> None:
        layer(model, type).op = find_operation(other, 1)()

    return edit


def without_sign(model: Model) -> None:
    """Indices that lie at 0 or above are the same."""
    gather = layer(model, "Gather")
    gather.replace_input(1, make_node(find_operation("Abs", 1)(), [gather.inputs[1]], "without_sign").outputs[0])


def clamped(model: Model) -> None:
    relu = layer(model, "ReLU")
    relu.op = find_operation("Clamp", 1)(min=0.0, max=1000.0)


EDITS = {
    "round": with_attributes("Round", mode="half_away_from_zero"),
    "clip": with_attributes("Clamp", max=71.0),
    "relu": clamped,
    "less": with_operation("Less", "LessEqual"),
    "greater": with_operation("Greater", "GreaterEqual"),
    "greater-or-equal": with_operation("GreaterEqual", "Greater"),
    "gather": without_sign,
    "quantize": with_attributes("Round", mode="half_away_from_zero"),
}


def built(name: str) -> onnx.ModelProto:
    nodes, weights, inputs = MODELS[name]
    made = model(nodes, weights, inputs)
    made.opset_import[0].version = 18
    return made


@pytest.mark.every_row
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{"layers": True}, {"stress": True}], ids=str)
def test_good_irs_pass(name: str, options: dict[str, bool]) -> None:
    for target in ("any", "cpu"):
        report = converter.verify(built(name), converter.convert_model(built(name), target=target), **options)
        assert report.passed, str(report)


@pytest.mark.every_row
@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("options", [{"layers": True}, {"stress": True}], ids=str)
def test_edits_that_normal_values_hide_are_caught(name: str, options: dict[str, bool]) -> None:
    ir = converter.convert_model(built(name), target="any")
    EDITS[name](ir)
    ir = without_record(ir)
    values = {"indices": "0..6"} if name == "gather" else {}
    plain = converter.verify(built(name), ir, seed=1, values=values)
    assert plain.verdict == "equal", "normal values show the edit"
    report = converter.verify(built(name), ir, seed=1, values=values, **options)
    assert report.verdict == "different"
    assert report.first_fault is not None
    assert "layer" in report.reason


@pytest.mark.every_row
@pytest.mark.parametrize("name", EDITS)
def test_edits_that_no_value_shows_are_not_as_derived(name: str) -> None:
    """The record names the layer, whatever the inputs are."""
    ir = converter.convert_model(built(name), target="any")
    before = {(node.name, node.op) for node in ir.nodes()}
    EDITS[name](ir)
    changed = {node.name for node in ir.nodes() if (node.name, node.op) not in before}
    values = {"indices": "0..6"} if name == "gather" else {}
    report = converter.verify(built(name), ir, seed=1, values=values, layers=False)
    assert report.verdict == "unproven"
    assert not report.passed
    assert {change.layer for change in report.derivation.differences} & changed
    assert all(f"layer '{one.layer or one.other}'" in report.reason for one in report.derivation.differences)
    assert converter.verify(built(name), ir, seed=1, values=values).verdict == "different"  # by directed values


def test_the_reason_names_the_values() -> None:
    ir = converter.convert_model(built("round"))
    EDITS["round"](ir)
    report = converter.verify(built("round"), ir, layers=True)
    assert "on ties, bounds and equal operands" in str(report)


def network() -> onnx.ModelProto:
    """A Round, a comparison and a lookup between products."""
    nodes = [
        node("MatMul", "x weight", "product"),
        node("Round", "product", "whole"),
        node("Sub", "product whole", "rest"),
        node("Less", "rest product", "less"),
        node("Cast", "less", "real", to=F32),
        node("Gather", "table indices", "rows"),
        node("MatMul", "real rows", "y"),
    ]
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((24, 24)).astype(np.float32) for name in ("weight", "table")}
    return model(nodes, weights, {"x": (F32, ["n", 24]), "indices": (I64, [24])})


@pytest.mark.every_row
@pytest.mark.parametrize("kind", ["another mode", "equal operands", "negative indices"])
def test_planted_faults_of_values_that_decide(kind: str) -> None:
    assert converter.verify(network(), converter.convert_model(network()), layers=True).passed
    ir = converter.convert_model(network())
    random = np.random.default_rng(0)
    changed = [node.name for node in ir.nodes() if KINDS[kind](ir, node, random)]
    assert len(changed) == 1
    report = converter.verify(network(), ir, layers=True, values={"indices": "0..23"})
    assert report.first_fault is not None
    assert changed[0] in report.first_fault.part


def test_inner_tensors_get_values_like_their_own() -> None:
    """Casts of whole numbers are left out of the IR, and would cut off halves alone."""
    nodes = [
        node("Round", "x", "whole"),
        node("MatMul", "whole weight", "product"),
        node("Cast", "product", "integers", to=TensorProto.INT32),
        node("Cast", "integers", "y", to=F32),
    ]
    proto = model(nodes, {"weight": np.ones((24, 8), np.float32)}, FLOATS)
    ir = converter.convert_model(proto)
    assert [node.op.type for node in ir.nodes()].count("Convert") < 2
    report = converter.verify(proto, ir, layers=True)
    assert report.passed, str(report)


@pytest.mark.parametrize("shape", [[3, 4], ["n", 4]], ids=str)
def test_inner_tensors_of_integers_are_compared(shape: list[object]) -> None:
    nodes = [node("Cast", "x", "whole", to=I64), node("Abs", "whole", "size"), node("Less", "whole size", "y")]
    whole = model(nodes, {}, {"x": (F32, shape)})
    report = converter.verify(whole, converter.convert_model(whole), layers=True)
    assert report.passed
    assert report.layers
