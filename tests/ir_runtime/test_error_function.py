"""The IR's inverse of the error function, against OpenVINO and the error function itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from openvino import opset16, opset17

import ir_runtime
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.error_function import ErfInv17
from tests.ir_runtime.peers import check_peers

# Without the ends, of which OpenVINO's plug-in makes the greatest float32 or infinity, by the tensor's size.
X = np.array([[-0.99999, -0.9, -0.3, -1e-6, 0], [1e-30, 0.5, 0.85, 0.86, 1.5]], np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_erf_inverse(kind: Any) -> None:
    x = opset16.parameter([-1, 5], kind)
    # The plug-in has an approximation of three to four digits.
    check_peers([opset17.erfinv(x)], [x], [X.astype(kind)], rtol=1e-3, atol=1e-8)


def test_against_the_error_function() -> None:
    x = np.concatenate([np.linspace(-0.999, 0.999, 1000), [1e-300, -1e-20, 0.0]])
    found = ErfInv17().evaluate(x)
    np.testing.assert_allclose([math.erf(value) for value in found], x, rtol=1e-14)
    near_one = 1 - np.logspace(-3, -15.9, 200)
    rest = [math.erfc(value) for value in ErfInv17().evaluate(near_one)]
    np.testing.assert_allclose(rest, 1 - near_one, rtol=1e-12)


def test_ends() -> None:
    found = ErfInv17().evaluate(np.array([-1, 1, 1.0001, np.nan]))
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, np.nan])


def test_integers_are_refused() -> None:
    with pytest.raises(ir_runtime.ModelError, match="floating-point"):
        ErfInv17().infer([TensorType(element_types.i32, PartialShape([2]))])
