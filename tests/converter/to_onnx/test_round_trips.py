"""Exports of the node suite a second time, and decompositions of operations that older releases lack."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from converter.passes.decomposition.registry import DECOMPOSITIONS, decompose_layers
from ir_runtime import compile_model
from ir_runtime.rewriting import PassTrace
from tests.converter.to_onnx.graphs import second_pass
from tests.converter.to_onnx.single_layers import STAY, compare_outputs, model_of
from tests.rows.layer import Layer
from tests.rows.row import Row
from tests.rows.table import layer_table, table
from tests.runtimes.check import fault_of, reason_of
from tests.runtimes.exports import exported
from tests.runtimes.work import Work

# --- second pass ---

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parent / "second_pass.json").read_text())
"""Why cases change in the second pass -> the parts of their names."""


SUITE = [row for row in table() if row.group.endswith("cases")]


@pytest.mark.parametrize("row", SUITE, ids=lambda row: row.name)
def test_the_suite_is_exported_and_nothing_changes_in_the_second_pass(row: Row) -> None:
    work = Work(row)
    reason = next(filter(None, (reason_of(runtime, row.name) for runtime in ("plain", "exported"))), "")
    if reason:
        pytest.skip(reason)
    assert not fault_of(work, exported)
    found = second_pass(work.exported)
    change = next((why for why, parts in KNOWN.items() if any(part in row.name for part in parts)), "")
    if change:
        assert not found.same, f"unchanged, but expected to change: {change}"
        pytest.xfail(change)
    assert found.same, found.to_dict()


# --- decompositions ---

OPERATIONS = tuple(DECOMPOSITIONS.entries())
DECOMPOSED = [call for call in layer_table() if type(call.op) in OPERATIONS]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_the_layers_compute_what_the_operation_computes(call: Layer, dynamic: bool) -> None:
    ir, feeds = model_of(call, dynamic=dynamic)
    trace = PassTrace()
    decompose_layers(ir, OPERATIONS, trace)
    reasons = list(trace.reasons)
    expected = next((reason for start, reason in STAY.items() if re.match(start, call.label)), None)
    if expected in reasons:
        return
    assert not any(type(node.op) is type(call.op) for node in ir.nodes())
    compare_outputs(call, dict(compile_model(ir)(feeds)))


def test_a_local_response_normalization_is_over_each_number_of_axes() -> None:
    """Its window has ``size`` to the power of the number of axes elements."""
    assert {call.arrays[1].size for call in DECOMPOSED if call.op.type == "LRN"} >= {0, 1, 2}
