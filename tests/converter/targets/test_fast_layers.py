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
from tests.engines import check_node
from tests.rows.onnx.sorting import MANY
from tests.rows.row import const, rows

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


def top_k(count: int, at: str = "constant", data: Any = MANY, **attributes: Any) -> Any:
    stored = const([count]) if at == "constant" else np.array([count])
    (row,) = rows("TopK", 11, x=data, k=stored, outputs=2, dims={"x": [None] * 3}, **attributes)
    return row


@pytest.mark.parametrize(
    ("row", "count"),
    [(top_k(30), 1), (top_k(15, "execution"), 1), (top_k(30, axis=1, data=MANY[:, [0] * 40]), 0), (top_k(15), 0)],
    ids=["constant", "execution", "inner axis", "few"],
)
def test_the_best_are_found_by_keys(row: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tests/rows/onnx/sorting.py`` has the numbers."""
    for most in (1 << 24, 5000):  # and a branch of too many keys
        monkeypatch.setattr("converter.targets.openvino_cpu.stable_top_k._MOST", most)
        assert convert(row.model).rules.get("stable_top_k", 0) == count
        check_node(row.model, row.feeds)


def test_values_alone_need_no_order() -> None:
    model = top_k(30).model
    del model.graph.output[1]
    (layer,) = (node for node in converter.convert_model(model).nodes() if node.op.type == "TopK")
    assert not layer.op.stable
