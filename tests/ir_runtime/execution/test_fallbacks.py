"""What runs when a kernel does not; models of float16 and bfloat16, which kernels compute in float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir_runtime import ExecutionError, InternalError, Output, Tensor, compile_model
from ir_runtime.execution.kernels import softmax
from ir_runtime.execution.static_plans import plan
from ir_runtime.graph import element_types
from ir_runtime.operations.activation import SoftMax8
from tests.ir_runtime.execution.kernel_checks import Array, Layers, model_of, normal
from tests.random_data import generator


def raises(*_: Any) -> Any:
    raise TypeError("a mistake in a kernel")


def softmax_model(axis: int = -1, *, open_: bool = False) -> tuple[Any, np.ndarray]:
    x = normal(3, 7)
    return model_of(lambda b, v: b.SoftMax(v, axis=axis), [x], open_), x


def test_a_kernel_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model(open_=True)
    model.results[0].inputs[0].node.name = "soft"
    monkeypatch.setattr(softmax, "softmax_rows", raises)
    compiled = compile_model(model)
    with pytest.raises(InternalError, match=r"layer 'soft' \(SoftMax\): its kernel failed.*a mistake in a kernel"):
        compiled([x])
    # Without kernels the model still runs.
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    expected = shifted / shifted.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(compile_model(model, optimize=False)([x])[0], expected, rtol=1e-6)


def test_an_operation_that_fails_is_not_the_inputs_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model()
    monkeypatch.setattr(SoftMax8, "evaluate", raises)
    with pytest.raises(
        InternalError, match=r"layer .*\(SoftMax, opset8\) failed by a fault of this package \(TypeError: a mistake"
    ):
        compile_model(model, optimize=False)([x])


def test_a_plan_for_known_shapes_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model()
    compiled = compile_model(model)
    assert compiled._calls.static_plans is not None
    monkeypatch.setattr(plan.StaticPlan, "run", raises)
    with pytest.raises(InternalError, match=r"the plan for inputs of the shapes \[\[3, 7\]\] failed.*a mistake"):
        compiled([x])
    monkeypatch.setattr(plan.StaticPlan, "__init__", raises)
    with pytest.raises(InternalError, match=r"making a plan failed by a fault of this package.*a mistake"):
        compile_model(model)


def test_inputs_that_do_not_fit_are_told_by_evaluate() -> None:
    inputs = [normal(2, 3), normal(2, 3)]
    model = model_of(lambda b, x, y: b.Add(x, y), inputs, open_=True)
    compiled = compile_model(model)
    for _ in range(3):
        with pytest.raises(ExecutionError, match=r"\(Add, opset1\)") as caught:
            compiled([normal(2, 3), normal(2, 4)])
        assert not isinstance(caught.value, InternalError)


def test_calls_that_kernels_leave_alone_are_counted() -> None:
    for axis, count in [(-1, 0), (0, 3)]:
        model, x = softmax_model(axis, open_=True)
        compiled = compile_model(model)
        profile = compiled.profile([x], repeat=2)
        assert compiled.fallbacks == ({"SoftMax": count} if count else {})
        assert [row.kernel for row in profile.layers if row.type == "SoftMax"] == [axis == -1]


# --- 16 bits, against layers one by one ---


RNG = generator(8)
KINDS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}


def of(kind: np.dtype[Any], *shape: int) -> Array:
    return RNG.standard_normal(shape).astype(kind)


def held(b: Layers, array: Array) -> Output:
    return b.tensor(Tensor.from_array(array, element_types.from_dtype(array.dtype)))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("open_", [False, True])
def test_a_block_of_layers(kind: np.dtype[Any], open_: bool) -> None:
    x = of(kind, 2, 5, 9, 8)

    def make(b: Layers, v: Output) -> list[Output]:
        made = b.Convolution(v, held(b, of(kind, 6, 5, 3, 3)), pads_begin=[1, 1], pads_end=[1, 1])
        made = b.Sigmoid(b.Add(made, held(b, of(kind, 1, 6, 1, 1))))
        pooled = b.ReduceMean(made, [2, 3], keep_dims=False)
        turned = b.Transpose(made, [0, 2, 3, 1])
        return [b.MatMul(pooled, held(b, of(kind, 6, 4))), turned, b.SoftMax(turned, axis=1)]

    model = model_of(make, [x], open_=open_)
    slow, fast = compile_model(model, optimize=False), compile_model(model)
    for shape in [(2, 5, 9, 8), (2, 5, 9, 8), (1, 5, 3, 4), (1, 5, 3, 4)] if open_ else [(2, 5, 9, 8)] * 2:
        x = of(kind, *shape)
        for value, want in zip(fast([x]).to_list(), slow([x]).to_list(), strict=True):
            assert value.dtype == want.dtype == kind
            # Four layers follow one another, each of which rounds.
            scale = float(np.abs(want.astype(np.float64)).max())
            wide = value.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=0, atol=6 * ROUNDING[kind.name] * scale)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_between_layers_nothing_is_rounded(kind: np.dtype[Any]) -> None:
    """(1 + small) - 1, where one plus small is one in 16 bits: by hand."""
    small = np.array([2**-13], kind)

    def make(b: Layers, v: Output) -> Output:
        one = held(b, np.array([1], kind))
        return b.Subtract(b.Add(v, one), one)

    model = model_of(make, [small])
    assert compile_model(model)([small])[0].astype(np.float64).tolist() == [2**-13]
    assert compile_model(model, optimize=False)([small])[0].astype(np.float64).tolist() == [0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_a_model_converts_is_rounded(kind: np.dtype[Any]) -> None:
    x = np.array([1 + 2**-13, 70000.0, -3.3], np.float32)

    def make(b: Layers, v: Output) -> Output:
        narrow = b.Convert(v, destination_type=element_types.from_dtype(kind))
        twice = b.Add(narrow, narrow)
        return b.Convert(twice, destination_type=element_types.f32)

    with np.errstate(over="ignore"):
        expected = 2 * x.astype(kind).astype(np.float32)
    np.testing.assert_array_equal(compile_model(model_of(make, [x]))([x])[0], expected)
