"""What runs when a kernel does not: ``evaluate`` for what the kernel leaves alone, an error for a kernel that fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir_runtime import ExecutionError, InternalError, compile_model
from ir_runtime.execution.kernels import softmax
from ir_runtime.execution.static_plans import plan
from ir_runtime.operations.activation import SoftMax8
from tests.ir_runtime.execution.kernel_checks import model_of, normal


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
