"""Plans for known shapes of bodies: of loops, whose states may grow, and of branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import Model, compile_model
from ir_runtime.execution.static_plans import plan
from ir_runtime.graph import InputMap, OutputMap, SubGraph
from ir_runtime.graph.model import Output
from ir_runtime.operations.control_flow import If8, TensorIterator1
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.kernel_checks import Array, model_of, normal, op
from tests.ir_runtime.test_static_plans import alike


def iterated(weights: Array, *, grows: bool = False) -> Callable[..., Output]:
    """A state, to which each row of x times the weights is added; with ``grows`` rows of the state are appended."""

    def make(b: Builder, x: Output, state: Output) -> list[Output]:
        def body(b: Builder, row: Output, state: Output, weights: Output) -> list[Output]:
            made = b.emit(op("Tanh"), b.emit(op("Add"), state, b.emit(op("MatMul"), row, weights)))
            return [b.emit(op("Concat", axis=0), made, row) if grows else made]

        inner = [np.zeros((1, x.shape[1].value), np.float32), np.zeros(state.shape.static(), np.float32), weights]
        model = model_of(body, inner, open_=grows)
        inputs = (InputMap(0, 0, axis=0, stride=1), InputMap(1, 1), InputMap(2, 2))
        sub = SubGraph(model, inputs, (OutputMap(0, 0),), ((0, 1),))
        return [b.emit(TensorIterator1(bodies=(sub,)), x, state, b.constant(weights, "f32"))]

    return make


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, ...], ...]]:
    """The shapes of the arguments of each run of a static plan, from now on."""
    runs: list[tuple[tuple[int, ...], ...]] = []
    run = plan.StaticPlan.run

    def counted(self: Any, arguments: Sequence[Array], clock: Any = None) -> list[Array]:
        runs.append(tuple(array.shape for array in arguments))
        return run(self, arguments, clock)

    monkeypatch.setattr(plan.StaticPlan, "run", counted)
    return runs


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_a_body_has_a_static_plan(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [normal(steps, 5), normal(1, 5)]
    model = model_of(iterated(normal(5, 5)), inputs)
    alike(model, inputs)
    runs = count_runs(monkeypatch)
    compile_model(model)(inputs)
    assert len(runs) == 1 + steps


def test_a_body_whose_state_grows_has_no_static_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [normal(40, 5), normal(1, 5)]
    model = model_of(iterated(normal(5, 5), grows=True), inputs)
    alike(model, inputs)
    runs = count_runs(monkeypatch)
    compile_model(model)(inputs)
    assert len(runs) == 1


def test_branches_are_planned_when_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [np.array(True), normal(3, 4)]
    bodies = [
        SubGraph(model_of(lambda b, x, n=name: b.emit(op(n), x), inputs[1:]), (InputMap(1, 0),), (OutputMap(0, 0),))
        for name in ("Exp", "Abs")
    ]
    model = model_of(lambda b, c, x: b.emit(If8(bodies=tuple(bodies)), c, x), inputs)
    made: list[str] = []
    initialize = plan.StaticPlan.__init__

    def noted(self: Any, part: Model, *rest: Any) -> None:
        made.extend(node.op.type for node in part.nodes() if not node.op.role)
        initialize(self, part, *rest)

    monkeypatch.setattr(plan.StaticPlan, "__init__", noted)
    compiled = compile_model(model)
    assert made == ["If"]
    for _ in range(2):
        np.testing.assert_allclose(compiled(inputs)[0], np.exp(inputs[1]), rtol=1e-6)
    assert made == ["If", "Exp"]
    np.testing.assert_array_equal(compiled([np.array(False), inputs[1]])[0], np.abs(inputs[1]))
    assert made == ["If", "Exp", "Abs"]
