"""FakeQuantize and FakeConvert against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset16 as ops
import pytest
from openvino import Type

from ir_runtime.errors import InferenceError
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(29)


@pytest.mark.parametrize("levels", [2, 16, 255, 256])
@pytest.mark.parametrize(
    "limits",
    [
        (-1.0, 1.0, -1.0, 1.0),
        (0.0, 2.55, 0.0, 255.0),
        (-1.0, 1.0, 1.0, -1.0),
        (np.array([-1.0, -2.0, -3.0]).reshape(3, 1, 1), np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1), -1.0, 1.0),
    ],
)
def test_fake_quantize(levels: int, limits: tuple[Any, ...]) -> None:
    x = (1.5 * RNG.standard_normal((2, 3, 4, 5))).astype(np.float32)
    p = ops.parameter(list(x.shape), Type.f32)
    y = ops.fake_quantize(p, *[ops.constant(np.asarray(limit, np.float32)) for limit in limits], levels)
    check_peers([y], [p], [x])


@pytest.mark.parametrize("kind", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("shifted", [False, True])
def test_fake_convert(kind: str, shifted: bool) -> None:
    x = (200 * RNG.standard_normal((2, 3, 4))).astype(np.float32)
    p = ops.parameter(list(x.shape), Type.f32)
    scale = ops.constant(np.array([0.5, 2.0, 7.0], np.float32).reshape(3, 1))
    shift = ops.constant(np.array([3.0, -1.0, 0.5], np.float32).reshape(3, 1)) if shifted else None
    y = ops.fake_convert(p, scale, shift, kind)
    check_peers([y], [p], [x])


def test_errors() -> None:
    types = [TensorType(f32, PartialShape([2]))] * 5
    with pytest.raises(InferenceError, match="two levels"):
        find_operation("FakeQuantize", 1)(levels=1).infer(types)
    with pytest.raises(InferenceError, match="destination_type must be"):
        find_operation("FakeConvert", 13)(destination_type="f16").infer(types[:2])
    larger = TensorType(f32, PartialShape([3, 2]))
    for given in ([types[0], larger], [types[0], types[0], larger]):
        with pytest.raises(InferenceError, match="must not be larger than the data"):
            find_operation("FakeConvert", 13)().infer(given)
