"""Every case of ONNX's node suite as an IR and back: onnxruntime computes it, and the second pass changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import pytest

import converter
from tests.engines import output_names, run_onnxruntime
from tests.suite.known import known_failures
from tests.suite.node_suite import Case, as_array, difference, node_cases
from tests.to_onnx.graphs import second_pass

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
