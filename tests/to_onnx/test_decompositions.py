"""Layers that are decomposed into others: these compute what ``evaluate`` of the operation does.

``test_operations.py`` compares the ONNX models that are written of them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from converter.passes.decomposition.order import ORDER
from converter.passes.decomposition.registry import all_decompositions, decompositions, find_decomposition
from ir_runtime import compile_model
from ir_runtime.operations.activation import ReLU1
from ir_runtime.rewriting.trace import Trace
from tests.ir_runtime.calls import CALLS, Call
from tests.to_onnx.single_layers import model_of

DECOMPOSED = [call for call in CALLS if type(call.op) in all_decompositions()]

STAY = {
    r"ROIPooling-2\(.*method=max": "maxima over the elements of a region need a Loop over its bins",
    r"DeformablePSROIPooling-1\(.*normal\[4, 4, 2, 2\]": "the number of channels of the offsets must be known",
}
"""The start of a call's label -> why the layer may stay."""


def check(call: Call, values: list[np.ndarray]) -> None:
    for expected, value in zip(call.outputs, values):
        expected = np.asarray(expected)
        assert value.dtype == expected.dtype
        assert value.shape == expected.shape
        wide = expected.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        largest = float(np.abs(finite).max(initial=0))
        small = expected.dtype.itemsize < 4 and expected.dtype.kind not in "iub"
        np.testing.assert_allclose(value, expected, rtol=1e-2 if small else 1e-4, atol=1e-5 * max(1.0, largest))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_the_layers_compute_what_the_operation_computes(call: Call, dynamic: bool) -> None:
    ir, feeds = model_of(call, dynamic=dynamic)
    trace = Trace()
    while decompositions.run(ir, decompositions.all(), trace=trace):
        pass
    reasons = [reason for one in trace.passes.values() for reason in one.reasons]
    expected = next((reason for start, reason in STAY.items() if re.match(start, call.label)), None)
    if reasons and expected:
        assert reasons == [expected]
        return
    assert not any(find_decomposition(type(node.op)) for node in ir.nodes())
    check(call, list(compile_model(ir)(feeds).values()))


def test_every_operation_in_the_order_has_a_decomposition() -> None:
    names = [name for entry in ORDER for name in entry.operations or ()]
    assert sorted(names) == sorted(operation.__name__ for operation in all_decompositions())
    assert find_decomposition(ReLU1) is None
