"""The IR's normalisations against OpenVINO, and what is inferred of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset2
from openvino import opset16 as ov

from ir_runtime.errors import InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations import normalization as ir
from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(3)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 3 + 1).astype(np.float32)


def parameter(array: Any, shape: list[int] | None = None) -> Any:
    return ov.parameter(shape or list(np.shape(array)), openvino.Type(np.asarray(array).dtype))


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 5), (2, 4, 5, 6)])
def test_batch_normalization(shape: tuple[int, ...]) -> None:
    x, parameters = normal(*shape), [normal(4), normal(4), normal(4), np.abs(normal(4))]
    p = parameter(x, [-1, 4, *[-1] * (len(shape) - 2)])
    constants = [ov.constant(value) for value in parameters]
    y = ov.batch_norm_inference(p, *constants, 1e-3)
    first = opset1.batch_norm_inference(p, *constants, 1e-3)
    check_peers([y, first], [p], [x])


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("variance", [True, False])
def test_mvn_of_images(across: bool, variance: bool) -> None:
    x = normal(2, 3, 4, 5)
    p = parameter(x)
    check_peers([opset2.mvn(p, across, variance, 1e-3)], [p], [x])


@pytest.mark.parametrize("axes", [[2, 3], [1, 2, 3], [0, 2, 3], [-1], [1]])
@pytest.mark.parametrize("mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("variance", [True, False])
def test_mvn(axes: list[int], mode: str, variance: bool) -> None:
    x = normal(2, 3, 4, 5)
    p = parameter(x, [-1, 3, -1, -1])
    check_peers([ov.mvn(p, ov.constant(np.array(axes)), variance, 0.1, mode)], [p], [x])


@pytest.mark.parametrize("axes", [[1], [1, 2, 3], [2, 3], [-1]])
@pytest.mark.parametrize("mode", ["add", "max"])
def test_normalize_l2(axes: list[int], mode: str) -> None:
    x = normal(2, 3, 4, 5)
    x[0, :, 0] = 0
    p = parameter(x)
    check_peers([ov.normalize_l2(p, ov.constant(np.array(axes)), 0.1, mode)], [p], [x])


@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("axes", [[1], [2, 3]])
def test_lrn(size: int, axes: list[int]) -> None:
    """With a whole bias: OpenVINO's CPU plug-in drops the fraction."""
    x = normal(2, 7, 5, 6)
    p = parameter(x)
    check_peers([ov.lrn(p, ov.constant(np.array(axes)), alpha=0.3, beta=0.75, bias=2.0, size=size)], [p], [x])


def test_lrn_of_a_fractional_bias() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32).reshape(1, 4)
    made = ir.LRN1(alpha=0.6, beta=0.5, bias=0.5, size=3).evaluate(x, np.array([1]))
    sums = np.array([5.0, 14.0, 29.0, 25.0])
    np.testing.assert_allclose(made[0], x[0] / np.sqrt(0.5 + 0.2 * sums), rtol=1e-6)


@pytest.mark.parametrize("bias", [1.0, 0.01])
def test_grn(bias: float) -> None:
    x = normal(2, 3, 4, 5)
    p = parameter(x)
    check_peers([ov.grn(p, bias)], [p], [x])


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 5)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(shape: tuple[int, ...], groups: int) -> None:
    x, scale, bias = normal(*shape), normal(6), normal(6)
    p = parameter(x, [-1, 6, *[-1] * (len(shape) - 2)])
    y = ov.group_normalization(p, ov.constant(scale), ov.constant(bias), groups, 1e-3)
    check_peers([y], [p], [x], rtol=1e-3, atol=1e-4)


def tensor_type(kind: str, *dims: int | None) -> TensorType:
    return TensorType(element_types.element_type(kind), PartialShape(dims))


def axes_type(*axes: int) -> TensorType:
    values = Tensor.from_array(np.array(axes, np.int64))
    return TensorType(element_types.i64, PartialShape([len(axes)]), tensor=values)


DATA, LIST = tensor_type("f32", None, 4, None), tensor_type("f32", 4)


@pytest.mark.parametrize(
    ("op", "inputs", "reason"),
    [
        (ir.BatchNormInference5(), [DATA, LIST, LIST, LIST, tensor_type("f32", 3)], "3 values, but the data has 4"),
        (ir.BatchNormInference5(), [DATA, LIST, LIST, LIST, tensor_type("f32", 4, 1)], "must be a list"),
        (ir.BatchNormInference5(), [LIST, LIST, LIST, LIST, LIST], "a batch and a channel"),
        (ir.BatchNormInference1(), [LIST, LIST, tensor_type("f16", 1, 4), LIST, LIST], "one element type"),
        (ir.MVN6(), [DATA, axes_type(3)], "axis 3 lies outside"),
        (ir.MVN6(), [DATA, axes_type(1, -2)], "name a dimension twice"),
        (ir.MVN2(), [tensor_type("i32", 1, 2)], "floating-point"),
        (ir.LRN1(), [DATA, axes_type(1)], "size must be positive"),
        (ir.GroupNormalization12(num_groups=3), [DATA, LIST, LIST], "cannot be split into 3 groups"),
        (ir.GroupNormalization12(num_groups=0), [DATA, LIST, LIST], "must be positive"),
    ],
)
def test_contradictions(op: Any, inputs: list[TensorType], reason: str) -> None:
    with pytest.raises(InferenceError, match=reason):
        op.infer(inputs)


def test_channels_follow_from_the_parameters() -> None:
    found = ir.BatchNormInference5().infer([tensor_type("f32", None, None, 7), LIST, LIST, LIST, LIST])
    assert str(found[0].shape) == "[?,4,7]"


def test_unknown_rank_and_type() -> None:
    unknown = TensorType(element_types.dynamic, PartialShape.dynamic())
    for op, count in (
        (ir.BatchNormInference5(), 5), (ir.BatchNormInference1(), 5), (ir.MVN2(), 1), (ir.MVN6(), 2),
        (ir.NormalizeL21(), 2), (ir.LRN1(size=3), 2), (ir.GRN1(), 1), (ir.GroupNormalization12(num_groups=2), 3),
    ):  # fmt: skip
        assert not op.infer([unknown] * count)[0].shape.has_rank


def test_small_floats_are_rounded_once() -> None:
    x = normal(2, 4, 50).astype(np.float16)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-3)
    made = ir.MVN6(eps=1e-3, normalize_variance=True).evaluate(x, np.array([2]))
    assert made.dtype == np.float16
    np.testing.assert_allclose(made.astype(np.float64), expected, rtol=6e-4, atol=1e-6)


def test_nothing_to_normalize() -> None:
    empty = np.zeros((0, 4, 3), np.float32)
    ones = np.ones(4, np.float32)
    assert ir.GroupNormalization12(num_groups=2).evaluate(empty, ones, ones).shape == (0, 4, 3)
    assert ir.BatchNormInference5().evaluate(empty, ones, ones, ones, ones).shape == (0, 4, 3)
