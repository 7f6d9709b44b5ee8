"""The IR's activations against OpenVINO, and what is inferred of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import openvino
import pytest
from openvino import opset1, opset2, opset4
from openvino import opset16 as ov

import ir_runtime
from ir_runtime.errors import InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations import activation as ir
from tests.ir_runtime.peers import check_peers

X = np.array([[-90.0, -3.5, -1.0, -0.0], [0.25, 1.0, 3.75, 90.0]], np.float32)


def parameter(array: Any, shape: list[int] | None = None) -> Any:
    return ov.parameter(shape or list(np.shape(array)), openvino.Type(np.asarray(array).dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", ["relu", "sigmoid", "mish", "hswish", "hsigmoid", "softplus", "softsign"])
def test_without_attributes(name: str, dtype: Any) -> None:
    x = X.astype(dtype)
    p = parameter(x, [-1, 4])
    check_peers([getattr(ov, name)(p)], [p], [x])


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_elu(alpha: float) -> None:
    p = parameter(X)
    check_peers([ov.elu(p, alpha)], [p], [X])


def test_gelu() -> None:
    p = parameter(X)
    check_peers([opset2.gelu(p), ov.gelu(p, "erf"), ov.gelu(p, "tanh")], [p], [X])


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.5, 0.5)])
def test_clamp(low: float, high: float) -> None:
    numbers = np.array([-7, -1, 0, 1, 9], np.int32)
    p, q = parameter(X), parameter(numbers)
    check_peers([ov.clamp(p, low, high)], [p], [X])
    if low == 0:
        check_peers([ov.clamp(q, low, high)], [q], [numbers])


@pytest.mark.parametrize("bounds", [(0.5, 2.5), (-1e30, 1e30), (-np.inf, 4.0)])
def test_clamp_of_integers_rounds_inwards(bounds: tuple[float, float]) -> None:
    x = np.array([-7, 0, 1, 2, 3, 9], np.int32)
    made = ir.Clamp1(min=bounds[0], max=bounds[1]).evaluate(x)
    expected = {0.5: [1, 1, 1, 2, 2, 2], -1e30: x.tolist(), -np.inf: [-7, 0, 1, 2, 3, 4]}[bounds[0]]
    assert made.dtype == np.int32
    assert made.tolist() == expected


def test_parameters_as_inputs() -> None:
    p = parameter(X)
    a, b = ov.constant(np.float32(0.3)), ov.constant(np.float32(0.6))
    check_peers([ov.hard_sigmoid(p, a, b), ov.selu(p, a, b), opset4.swish(p, a), opset4.swish(p)], [p], [X])


@pytest.mark.parametrize(
    ("shape", "slope_shape"),
    [
        ((2, 3, 4, 5), (1,)),
        ((2, 3, 4, 5), (3,)),
        ((2, 3, 4, 5), (1, 3, 1, 1)),
        ((2, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((2, 3, 5), (5,)),
        ((2, 3, 4, 5), (5,)),
    ],
)
def test_prelu(shape: tuple[int, ...], slope_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, slope = (rng.standard_normal(s).astype(np.float32) for s in (shape, slope_shape))
    p = parameter(x, [-1, *shape[1:]])
    check_peers([ov.prelu(p, ov.constant(slope))], [p], [x])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_softmax(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32) * 5
    p = parameter(x, [-1, 4, -1])
    check_peers([ov.softmax(p, axis), ov.log_softmax(p, axis)], [p], [x])
    if axis >= 0:
        check_peers([opset1.softmax(p, axis)], [p], [x])


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_small_floats_are_rounded_once(kind: Any) -> None:
    x = np.linspace(-3, 3, 61).astype(kind)
    wide = x.astype(np.float64)
    for op, expected in (
        (ir.Sigmoid1(), 1 / (1 + np.exp(-wide))),
        (ir.Elu1(alpha=0.5), np.where(wide > 0, wide, 0.5 * np.expm1(wide))),
        (ir.SoftMax8(axis=0), np.exp(wide) / np.exp(wide).sum()),
    ):
        made = op.evaluate(x)
        assert made.dtype == x.dtype
        off = np.abs(made.astype(np.float64) - expected)
        assert (off <= np.abs(expected) * float(ml_dtypes.finfo(kind).eps) * 0.51 + 1e-7).all()


def test_no_overflow_in_between() -> None:
    x = np.array([-1e30, -1000.0, 1000.0, 1e30], np.float32)
    with np.errstate(all="raise", under="ignore"):
        assert ir.Sigmoid1().evaluate(x).tolist() == [0, 0, 1, 1]
        assert ir.SoftPlus4().evaluate(x).tolist() == [0, 0, 1000, np.float32(1e30)]
        assert ir.Elu1(alpha=1.0).evaluate(x).tolist() == [-1, -1, 1000, np.float32(1e30)]
        assert ir.SoftMax8(axis=0).evaluate(x).tolist() == [0, 0, 0, 1]


def test_inputs_are_left_alone() -> None:
    x = X.copy()
    x.flags.writeable = False
    for op in (ir.ReLU1(), ir.Gelu7(), ir.Clamp1(min=0, max=1), ir.LogSoftmax5(axis=1), ir.HSwish4()):
        op.evaluate(x)


def tensor_type(kind: str, *dims: int | None) -> TensorType:
    return TensorType(element_types.element_type(kind), PartialShape(dims))


@pytest.mark.parametrize(
    ("op", "inputs", "reason"),
    [
        (ir.Sigmoid1(), [tensor_type("i32", 2)], "floating-point"),
        (ir.Clamp1(min=1, max=0), [tensor_type("f32", 2)], "min must not be above max"),
        (ir.SoftMax8(axis=2), [tensor_type("f32", 2, 2)], "axis 2 lies outside"),
        (ir.PReLU1(), [tensor_type("f32", 2, 3, 4), tensor_type("f32", 5)], "cannot be broadcast"),
        (ir.Selu1(), [tensor_type("f32", 2), tensor_type("f32", 2), tensor_type("f32")], "must be a scalar"),
        (ir.HardSigmoid1(), [tensor_type("f32", 2), tensor_type("f16"), tensor_type("f32")], "one element type"),
    ],
)
def test_contradictions(op: Any, inputs: list[TensorType], reason: str) -> None:
    with pytest.raises(InferenceError, match=reason):
        op.infer(inputs)


def test_unknown_rank_and_type() -> None:
    unknown = TensorType(element_types.dynamic, PartialShape.dynamic())
    for op, count in ((ir.ReLU1(), 1), (ir.SoftMax8(axis=-1), 1), (ir.PReLU1(), 2), (ir.Selu1(), 3), (ir.Clamp1(), 1)):
        assert not op.infer([unknown] * count)[0].shape.has_rank


def test_wrong_attributes() -> None:
    with pytest.raises(ir_runtime.ModelError, match="no negative axis"):
        ir.SoftMax1(axis=-1)
    with pytest.raises(ir_runtime.ModelError, match="approximation_mode"):
        ir.Gelu7(approximation_mode="fast")
