"""Loops that the CPU plug-in runs as one layer, and the best of many elements by keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.targets.registry import Target
from tests.converter.targets.models import gated_delta_rule
from tests.converter.to_onnx.graphs import constant
from tests.engines import check_node, node_model

# --- gated delta net loops ---

SLICE = 'axis="2" start="0" end="-1" stride="1"'
BACKWARDS = 'axis="2" start="-1" end="0" stride="-1"'


def rooted(xml: str, weights: bytes) -> int:
    """How many roots of a dimension the target's rules add to an IR."""
    return rooted_in(ir_runtime.read_model(xml.encode(), weights))


def rooted_in(model: ir_runtime.Model) -> int:
    Target.parse("cpu").apply(model)
    return sum(node.op.type == "Power" for node in model.nodes())


@pytest.fixture(scope="module")
def plain() -> tuple[str, bytes]:
    xml, weights = ir_runtime.model_to_bytes(converter.convert_model(gated_delta_rule(), target="any"))
    return xml.decode(), weights


def test_the_rule_itself(plain: tuple[str, bytes]) -> None:
    assert rooted(*plain) == 1


@pytest.mark.parametrize(("steps", "roots"), [(5, 1), (3, 0), (7, 0)])
def test_a_number_of_steps(steps: int, roots: int) -> None:
    """The plug-in takes as many steps as there are queries, here 5."""
    model = converter.convert_model(gated_delta_rule(), target="any")
    model.reshape({node.end_names[0]: [-1, 5, -1] for node in model.parameters if node.end_names[0] != "state"})
    (loop,) = (node for node in model.nodes() if node.op.type == "Loop")
    loop.replace_input(0, constant(np.array(steps), "i64"))
    assert rooted_in(model) == roots


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SLICE, BACKWARDS),
        (SLICE, SLICE.replace('start="0"', 'start="1"')),
        ('port_id="2" internal_layer_id="1"', 'port_id="2" internal_layer_id="2"'),
        ('external_port_id="-1" internal_layer_id="0" purpose="current_iteration"/>', ""),
    ],
    ids=["backwards", "from_the_second_step", "queries_for_keys", "without_the_number_of_the_step"],
)
def test_other_slices(plain: tuple[str, bytes], old: str, new: str) -> None:
    xml, weights = plain
    assert old in xml
    changed = xml.replace(old, new)
    if "layer_id" in new:  # and keys for queries
        changed = changed.replace('port_id="3" internal_layer_id="2"', 'port_id="3" internal_layer_id="1"')
    if not new:
        changed = xml.replace(f"<input {old}", '<input external_port_id="0" internal_layer_id="0"/>')
    assert rooted(changed, weights) == 0


# --- stable top k ---

NUMBERS = np.random.default_rng(0)
FEW = NUMBERS.integers(-20, 20, (2, 3, 300)).astype(np.float32)
"""Of few values, so that each stands at many places, and the last one that is taken at more than are taken."""
SHAPES = [[2, 3, 300], ["a", "b", "c"]]


def top_k(data: Any, count: int, shape: Any = None, **attributes: Any) -> Any:
    inputs, constants = {"x": data}, {"k": np.array([count])}
    if attributes.pop("at", "constant") == "execution":
        inputs, constants = {**inputs, **constants}, {}
    shapes = {"x": shape or list(data.shape)}
    model = node_model("TopK", inputs, opset=11, outputs=2, constants=constants, shapes=shapes, attributes=attributes)
    return model, inputs


def check(model: Any, feeds: Any, count: int, largest: int = 1, runs: int = 1) -> None:
    """Compare with NumPy's stable sort."""
    data = feeds["x"]
    keys = np.negative(data, dtype=np.float64) if largest else data
    indices = np.argsort(keys, axis=-1, kind="stable")[..., :count]
    check_node(model, feeds, [np.take_along_axis(data, indices, -1), indices])
    assert convert(model).rules.get("stable_top_k", 0) == runs


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("at", ["constant", "execution"])
@pytest.mark.parametrize("count", [20, 299, 300])
def test_equal_elements(shape: list[Any], largest: int, at: str, count: int) -> None:
    check(*top_k(FEW, count, shape, largest=largest, at=at), count, largest)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64, np.uint8])
def test_types(dtype: Any) -> None:
    data = (FEW + 20).astype(dtype)
    check(*top_k(data, 30, SHAPES[1]), 30)


def test_integers_that_float32_does_not_tell_apart() -> None:
    data = NUMBERS.integers(0, 9, (1, 500)) + (1 << 30)
    check(*top_k(data, 20), 20)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((2, 300), np.float32),
        np.arange(600, dtype=np.float32).reshape(2, 300),
        np.where(FEW[0] < 0, np.float32(0), np.float32(-0.0)),
        np.where(FEW[0] < 15, -np.inf, FEW[0]),
        np.where(FEW[0] < 0, np.inf, FEW[0]),
    ],
    ids=["equal", "different", "zeros of both signs", "masked", "infinite"],
)
@pytest.mark.parametrize("largest", [0, 1])
def test_values(data: Any, largest: int) -> None:
    check(*top_k(data, 50, largest=largest), 50, largest)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_branch_of_few_elements(count: int) -> None:
    """Counts that come at run time; none at all is refused by the plug-in's own TopK, which another rule replaces."""
    engines = ("numpy", "openvino") if count else ("numpy",)
    model, feeds = top_k(FEW, count, SHAPES[1], at="execution")
    check_node(model, feeds, engines=engines)


def test_branch_of_too_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("converter.targets.openvino_cpu.stable_top_k._MOST", 5000)
    check(*top_k(FEW, 30, SHAPES[1]), 30)
    check(*top_k(FEW, 15, SHAPES[1], at="execution"), 15)


@pytest.mark.parametrize(("count", "attributes"), [(15, {}), (30, {"axis": 1})], ids=["few", "inner axis"])
def test_layers_that_stay(count: int, attributes: dict[str, Any]) -> None:
    model, feeds = top_k(NUMBERS.integers(0, 9, (2, 40, 300)).astype(np.float32), count, [None] * 3, **attributes)
    check_node(model, feeds)
    assert not convert(model).rules.get("stable_top_k")


def test_values_alone_need_no_order() -> None:
    model, feeds = top_k(FEW, 30, SHAPES[1])
    del model.graph.output[1]
    (layer,) = (node for node in converter.convert_model(model).nodes() if node.op.type == "TopK")
    assert not layer.op.stable
    check_node(model, feeds)
