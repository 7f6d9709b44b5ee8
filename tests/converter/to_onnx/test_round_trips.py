"""Exports of the node suite a second time, and decompositions of operations that older releases lack."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
from converter.passes.decomposition.registry import DECOMPOSITIONS, decompose_layers
from ir_runtime import compile_model
from ir_runtime.rewriting import PassTrace
from tests.converter.to_onnx.graphs import second_pass
from tests.converter.to_onnx.single_layers import STAY, model_of
from tests.engines import output_names, run_onnxruntime
from tests.rows.layer import Layer
from tests.rows.table import layer_table
from tests.suite.known import known_failures
from tests.suite.node_suite import Case, as_array, difference, node_cases

# --- second pass ---

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parent / "second_pass.json").read_text())
"""Why cases change in the second pass -> the parts of their names."""


REFUSED = {"onnxruntime has no kernel of Cast for float4": ["float4e2m1", "FLOAT4E2M1"]}
"""Why cases are not exported -> the parts of their names."""


def _reason(case: Case, table: Mapping[str, Sequence[str]]) -> str | None:
    return next((reason for reason, parts in table.items() if any(part in case.name for part in parts)), None)


def exported(case: Case) -> onnx.ModelProto:
    """The case as an IR and back; skips one that is listed as refused, and fails where another one is."""
    reason = known_failures().get((case.name, "numpy")) or _reason(case, REFUSED)
    try:
        model = converter.convert_model(case.model, target="any")
    except converter.ConversionError:
        assert reason, "the case is not converted any more"
        pytest.skip(reason)
    reason = _reason(case, REFUSED)
    if reason is None:
        return converter.export_model(model)
    with pytest.raises(converter.ConversionError, match="has no kernel"):
        converter.export_model(model)
    pytest.skip(reason)


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_onnxruntime_computes_the_stored_outputs(case: Case) -> None:
    """Among them cases that it computes otherwise itself: MaxUnpool with output_shape, scores of Attention."""
    inputs, outputs = case.data_sets[0]
    feeds = {value.name: as_array(array) for value, array in zip(case.model.graph.input, inputs)}
    model = exported(case)
    try:
        results = dict(zip(output_names(model), run_onnxruntime(model, feeds)))
    except Exception as error:  # onnxruntime's errors share no base class of their own
        with pytest.raises(type(error)):
            run_onnxruntime(case.model, feeds)
        pytest.skip(f"onnxruntime does not run the case: {error}")
    stored = {value.name: as_array(array) for value, array in zip(case.model.graph.output, outputs)}
    if any(difference(results[name], array) for name, array in stored.items()):
        # onnxruntime may differ from what is stored; then the export gives what the case itself gives.
        try:
            expected = dict(zip(output_names(case.model), run_onnxruntime(case.model, feeds)))
        except Exception as error:
            pytest.skip(f"the case is random or of bfloat16, and onnxruntime does not run it: {error}")
        differences = {name: difference(results[name], expected[name]) for name in stored}
        if case.name.startswith("test_dft_irfft"):
            pytest.xfail("onnxruntime's DFT differs from the definition by 4e-5, as with the case itself")
        assert not any(differences.values()), differences


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_nothing_changes_in_the_second_pass(case: Case) -> None:
    found = second_pass(exported(case))
    reason = _reason(case, KNOWN)
    if reason:
        assert not found.same, f"unchanged, but expected to change: {reason}"
        pytest.xfail(reason)
    assert found.same, found.to_dict()


# --- decompositions ---

OPERATIONS = tuple(DECOMPOSITIONS.entries())
DECOMPOSED = [call for call in layer_table() if type(call.op) in OPERATIONS]


def check(call: Layer, values: list[np.ndarray]) -> None:
    for expected, value in zip(call.outputs, values):
        expected = np.asarray(expected)
        assert value.dtype == expected.dtype
        assert value.shape == expected.shape
        wide = expected.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        largest = float(np.abs(finite).max(initial=0))
        small = expected.dtype.itemsize < 4 and expected.dtype.kind not in "iub"
        np.testing.assert_allclose(value, expected, rtol=1e-2 if small else 1e-4, atol=1e-5 * max(1.0, largest))


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
    check(call, list(compile_model(ir)(feeds).values()))


def test_a_local_response_normalization_over_each_set_of_axes() -> None:
    """Its window has ``size`` to the power of the number of axes elements."""
    calls = [call for call in DECOMPOSED if call.op.type == "LRN"]
    assert {call.arrays[1].size for call in calls} >= {0, 1, 2}
    for call in calls:
        test_the_layers_compute_what_the_operation_computes(call, False)
