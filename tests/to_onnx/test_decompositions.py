"""Layers that are decomposed into others: these compute what ``evaluate`` of the operation does.

``test_operations.py`` compares the ONNX models that are written of them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from converter.passes.decomposition.registry import DECOMPOSITIONS, decompose_layers
from ir_runtime import compile_model
from ir_runtime.rewriting import PassTrace
from tests.rows.layer import Layer
from tests.rows.table import layer_table
from tests.to_onnx.single_layers import model_of

OPERATIONS = tuple(DECOMPOSITIONS.entries())
DECOMPOSED = [call for call in layer_table() if type(call.op) in OPERATIONS]

STAY = {
    r"Squeeze-15\(.*allow_axis_skip=True": "whether a dimension is 1 is only known at run time",
    r"Pad-\d+\(.*pad_mode=constant": "only the mode symmetric is decomposed, but it is constant",
    r"Pad-\d+\(.*pad_mode=edge": "only the mode symmetric is decomposed, but it is edge",
    r"Pad-\d+\(.*pad_mode=reflect": "only the mode symmetric is decomposed, but it is reflect",
    r"ROIPooling-2\(.*method=max": "maxima over the elements of a region need a Loop over its bins",
    r"DeformablePSROIPooling-1\(.*(normal\[4, 4|float32\[7, [24]), 2, 2\]": "the number of channels of the offsets must be known",
}
"""The start of a call's label -> why the layer may stay."""


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
