"""Col2Im: what it refuses."""

from __future__ import annotations

import pytest

from ir_runtime.errors import InferenceError
from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.patches import Col2Im15


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("shape", [[1, 1, 2], [], [3]], ids=str)
def test_dimensions_are_two_numbers(place: int, shape: list[int]) -> None:
    op = Col2Im15(strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0])
    inputs = [TensorType(element_types.f32, PartialShape([None, None, None]))]
    inputs += [TensorType(element_types.i64, PartialShape(shape if index == place else [2])) for index in (1, 2)]
    with pytest.raises(InferenceError, match="must be given by two numbers"):
        op.infer(inputs)
