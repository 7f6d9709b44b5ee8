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
from tests.ir_runtime.kernel_checks import Array, called_at_once, model_of, normal, op
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
def test_iterations_are_calls_of_one_plan(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [normal(steps, 5), normal(1, 5)]
    model = model_of(iterated(normal(5, 5)), inputs)
    alike(model, inputs)
    runs = count_runs(monkeypatch)
    compile_model(model)(inputs)
    assert len(runs) == 1


Body = Callable[..., Sequence[Output]]


def two_states(b: Builder, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    """States that change places; the sum of all; one that stays as it is."""
    total = b.emit(op("Add"), b.emit(op("Add"), part, first), b.emit(op("Multiply"), second, other))
    return [second, b.emit(op("Tanh"), total), total, other]


def unchanged(b: Builder, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    return [first, second, b.emit(op("Subtract"), part, other), b.constant(np.ones((2, 1, 3), np.float32), "f32")]


def overwritten(b: Builder, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    """Inputs that are read only at the start, so that their memory is free for what follows."""
    start = b.emit(op("Add"), b.emit(op("Add"), part, first), b.emit(op("Subtract"), second, other))
    steps = [start]
    for name in ("Exp", "Tanh", "Sin", "Cos"):
        steps.append(b.emit(op(name), steps[-1]))
    return [steps[4], steps[3], b.emit(op("Abs"), steps[4]), steps[2]]


@pytest.mark.parametrize("body", [two_states, unchanged, overwritten])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("open_", [False, True])
def test_states_slices_and_joined_values(body: Body, backwards: bool, open_: bool) -> None:
    inputs = [normal(2, 7, 3), normal(2, 1, 3), normal(2, 1, 3), normal(2, 1, 3)]
    ends = {"start": -1, "end": 0, "stride": -1} if backwards else {"start": 0, "end": -1, "stride": 1}
    other = {"start": 0, "end": -1, "stride": 1} if backwards else {"start": -1, "end": 0, "stride": -1}

    def make(b: Builder, *values: Output) -> list[Output]:
        inner = model_of(body, [normal(2, 1, 3)] * 4, open_=open_)
        maps = (InputMap(0, 0, axis=1, **ends), InputMap(1, 1), InputMap(2, 2), InputMap(3, 3))
        outputs = (
            OutputMap(0, 0), OutputMap(1, 1), OutputMap(2, 2, axis=1, **ends), OutputMap(3, 3, axis=1, **other),
            OutputMap(4, 2),
        )  # fmt: skip
        sub = SubGraph(inner, maps, outputs, ((0, 1), (1, 2)))
        return list(b.emit_all(TensorIterator1(bodies=(sub,)), *values))

    alike(model_of(make, inputs), inputs)


def test_calls_at_the_same_time_have_arrays_of_their_own() -> None:
    inputs, state = [normal(30, 5) for _ in range(3)], normal(1, 5)
    iterate = iterated(normal(5, 5))
    model = model_of(lambda b, x: iterate(b, x, b.constant(state, "f32")), inputs[:1])
    called_at_once(compile_model(model), inputs, 20)


def test_an_iterator_that_nothing_is_sliced_for_runs_once() -> None:
    inputs = [normal(2, 3), normal(2, 3)]

    def make(b: Builder, *values: Output) -> Output:
        inner = model_of(lambda b, x, y: b.emit(op("Add"), x, y), inputs)
        sub = SubGraph(inner, (InputMap(0, 0), InputMap(1, 1)), (OutputMap(0, 0),), ((0, 0),))
        return b.emit(TensorIterator1(bodies=(sub,)), *values)

    alike(model_of(make, inputs), inputs)


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
