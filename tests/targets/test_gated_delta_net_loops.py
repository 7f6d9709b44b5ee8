"""Loops that differ from the gated delta rule in what the plug-in's pass does not look at: they are left alone."""

from __future__ import annotations

import numpy as np
import pytest

import converter
import ir_runtime
from converter.targets.registry import Target
from tests.targets.speed_probes import gated_delta_rule
from tests.to_onnx.graphs import constant

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
