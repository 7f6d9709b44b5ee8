"""The convolutions of the IR against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset16 as ops
import pytest
from openvino import Type

from ir_runtime.errors import InferenceError
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("static", [True, False])
def test_convolution(auto_pad: str, static: bool) -> None:
    x, w = normal(2, 3, 8, 9), normal(4, 3, 3, 4)
    p = ops.parameter(list(x.shape) if static else [-1, 3, -1, -1], Type.f32)
    y = ops.convolution(p, ops.constant(w), [2, 1], [1, 2], [0, 1], [1, 2], auto_pad=auto_pad)
    check_peers([y], [p], [x])


@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("output_shape", [None, [7, 8], [8, 9], [10, 12]])
@pytest.mark.parametrize("output_padding", [[0, 0], [1, 0]])
def test_backprop(auto_pad: str, output_shape: list[int] | None, output_padding: list[int]) -> None:
    x, w = normal(1, 3, 4, 5), normal(3, 2, 3, 2)
    p = ops.parameter(list(x.shape), Type.f32)
    y = ops.convolution_backprop_data(
        p,
        ops.constant(w),
        strides=[2, 2],
        output_shape=None if output_shape is None else ops.constant(np.array(output_shape)),
        pads_begin=[1, 0],
        pads_end=[0, 1],
        dilations=[1, 1],
        auto_pad=auto_pad,
        output_padding=output_padding,
    )
    check_peers([y], [p], [x])


def test_group_backprop() -> None:
    x, w = normal(1, 4, 4, 5), normal(2, 2, 3, 3, 2)
    p = ops.parameter(list(x.shape), Type.f32)
    y = ops.group_convolution_backprop_data(p, ops.constant(w), strides=[2, 1], dilations=[1, 2])
    check_peers([y], [p], [x])


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("fading", [False, True])
def test_deformable(mask: bool, fading: bool) -> None:
    x, w, offsets = normal(1, 4, 6, 7), normal(4, 2, 3, 2), 2 * normal(1, 2 * 12, 4, 6)
    masks = normal(1, 12, 4, 6)
    given = [x, offsets, masks] if mask else [x, offsets]
    p = [ops.parameter(list(value.shape), Type.f32) for value in given]
    options: dict[str, Any] = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    y = ops.deformable_convolution(
        p[0],
        p[1],
        ops.constant(w),
        **options,
        mask=p[2] if mask else None,
        auto_pad="explicit",
        group=2,
        deformable_group=2,
        bilinear_interpolation_pad=fading,
    )
    check_peers([y], p, given)


def test_channels_of_a_binary_convolution() -> None:
    from ir_runtime.graph.element_types import f32, u1

    op = find_operation("BinaryConvolution", 1)(strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1])
    data, weights = TensorType(f32, PartialShape([3, 2, 5, 5])), TensorType(u1, PartialShape([4, 3, 3, 3]))
    with pytest.raises(InferenceError, match="have 2"):
        op.infer([data, weights])


def test_shapes_of_dynamic_dimensions() -> None:
    from ir_runtime.graph.element_types import f32

    op = find_operation("Convolution", 1)(strides=[2, 1], pads_begin=[1, 1], pads_end=[1, 1])
    data = TensorType(f32, PartialShape.parse("?,3,10..20,?"))
    weights = TensorType(f32, PartialShape.parse("8,3,3,3"))
    assert op.infer([data, weights])[0].shape == PartialShape.parse("?,8,5..10,1..")
    assert op.infer([TensorType(f32, PartialShape.dynamic()), weights])[0].shape == PartialShape.parse("?,8,1..,1..")
    with pytest.raises(InferenceError, match="have 4"):
        op.infer([TensorType(f32, PartialShape.parse("1,4,9,9")), weights])
