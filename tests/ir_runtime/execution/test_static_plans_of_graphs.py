"""Plans for known shapes of bodies, and of layers drawn at random, also where dimensions are equal."""

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
from tests.ir_runtime.execution.kernel_checks import (
    Array,
    Layers,
    alike,
    biased,
    called_at_once,
    convolve,
    image,
    model_of,
    normal,
    op,
)


def iterated(weights: Array, *, grows: bool = False) -> Callable[..., Output]:
    """A state, to which each row of x times the weights is added; with ``grows`` rows of the state are appended."""

    def make(b: Layers, x: Output, state: Output) -> list[Output]:
        def body(b: Layers, row: Output, state: Output, weights: Output) -> list[Output]:
            made = b.Tanh(b.Add(state, b.MatMul(row, weights)))
            return [b.Concat(made, row, axis=0) if grows else made]

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


def two_states(b: Layers, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    """States that change places; the sum of all; one that stays as it is."""
    total = b.Add(b.Add(part, first), b.Multiply(second, other))
    return [second, b.Tanh(total), total, other]


def unchanged(b: Layers, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    return [first, second, b.Subtract(part, other), b.constant(np.ones((2, 1, 3), np.float32), "f32")]


def overwritten(b: Layers, part: Output, first: Output, second: Output, other: Output) -> list[Output]:
    """Inputs that are read only at the start, so that their memory is free for what follows."""
    start = b.Add(b.Add(part, first), b.Subtract(second, other))
    steps = [start]
    for name in ("Exp", "Tanh", "Sin", "Cos"):
        steps.append(b.emit(op(name), steps[-1]))
    return [steps[4], steps[3], b.Abs(steps[4]), steps[2]]


@pytest.mark.parametrize("body", [two_states, unchanged, overwritten])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("open_", [False, True])
def test_states_slices_and_joined_values(body: Body, backwards: bool, open_: bool) -> None:
    inputs = [normal(2, 7, 3), normal(2, 1, 3), normal(2, 1, 3), normal(2, 1, 3)]
    ends = {"start": -1, "end": 0, "stride": -1} if backwards else {"start": 0, "end": -1, "stride": 1}
    other = {"start": 0, "end": -1, "stride": 1} if backwards else {"start": -1, "end": 0, "stride": -1}

    def make(b: Layers, *values: Output) -> list[Output]:
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

    def make(b: Layers, *values: Output) -> Output:
        inner = model_of(lambda b, x, y: b.Add(x, y), inputs)
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


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int) -> None:
    """Images of some dimensions through layers drawn at random, values used several times."""
    chosen = np.random.default_rng(seed)
    x = image(int(chosen.integers(1, 3)), 6, int(chosen.integers(4, 40)), int(chosen.integers(4, 40)))
    layers: list[Callable[[Builder, Output, Output], Output]] = [
        lambda b, v, w: convolve(b, v, int(chosen.integers(1, 20)), 3),
        lambda b, v, w: convolve(b, v, int(chosen.integers(1, 20))),
        lambda b, v, w: biased(b, v),
        lambda b, v, w: b.ReLU(v),
        lambda b, v, w: b.Swish(v),
        lambda b, v, w: b.Concat(v, w, axis=1),
        lambda b, v, w: b.Add(v, b.ReduceMean(w, [1], keep_dims=True)),
        lambda b, v, w: b.Multiply(v, b.ReduceMean(v, [2, 3], keep_dims=True)),
        lambda b, v, w: b.MaxPool(v, opset=1, kernel=[3, 3], strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]),
        lambda b, v, w: b.Slice(v, *[b.constant([n]) for n in (1, v.shape[2].value, 1, 2)]),
        lambda b, v, w: b.Pad(v, [0, 0, 1, 0], [0] * 4, 0.5, pad_mode="constant"),
        lambda b, v, w: b.SoftMax(v, axis=int(chosen.integers(1, 4))),
        lambda b, v, w: b.MVN(v, [2, 3], eps=1e-3, eps_mode="INSIDE_SQRT", normalize_variance=True),
    ]  # fmt: skip

    def make(b: Layers, v: Output) -> list[Output]:
        known = [v]
        while len(known) < 12:
            value = known[-1 - int(chosen.integers(0, min(3, len(known))))]
            alike_ones = [one for one in known if one.shape.dims[2:] == value.shape.dims[2:]]
            other = alike_ones[int(chosen.integers(0, len(alike_ones)))]
            if value.shape[2].value > 3:
                known.append(layers[int(chosen.integers(0, len(layers)))](b, value, other))
            else:
                known.append(b.Tanh(value))
        return [known[-1], known[-3], known[int(chosen.integers(1, len(known)))]]

    alike(model_of(make, [x]), [x], 5e-5, fallbacks=None)


EQUAL_DIMENSIONS = [(8, 8, 8), (8, 8, 5), (8, 5, 8), (5, 8, 8), (1, 1, 1), (1, 8, 8), (8, 1, 8), (8, 8, 1), (4, 32, 8)]


def value_of_rank(b: Layers, value: Output, rank: int, chosen: np.random.Generator) -> Output:
    """Return a view or a reduction of the value that has ``rank`` dimensions."""
    while value.shape.rank > rank:
        axis = int(chosen.integers(0, value.shape.rank))
        mean = op(str(chosen.choice(["ReduceMean", "ReduceSum", "ReduceMax"])), keep_dims=False)
        value = b.emit(mean, value, b.constant([axis]))
    while value.shape.rank < rank:
        value = b.Unsqueeze(value, [int(chosen.integers(0, value.shape.rank + 1))])
    return value


def joined(b: Layers, values: Sequence[Output], axis: int) -> Output:
    """Return a Concat of those values that agree with the first in all dimensions but ``axis``."""
    first = values[0]
    agree = [value for value in values if value.shape.rank == first.shape.rank]
    agree = [v for v in agree if all(v.shape[i] == first.shape[i] for i in range(v.shape.rank) if i != axis)]
    return b.Concat(*agree, axis=axis)


def layer_over(b: Layers, values: Sequence[Output], chosen: np.random.Generator) -> Output:
    """Return a layer drawn at random over values drawn at random."""
    value, other = (values[int(chosen.integers(0, len(values)))] for _ in range(2))
    rank = value.shape.rank
    axis = int(chosen.integers(0, rank))
    kind = int(chosen.integers(0, 9))
    if kind == 0:
        weights = normal(value.shape[rank - 1].value, int(chosen.choice([1, 5, 8, 32])))
        return b.MatMul(value, weights, transpose_a=False, transpose_b=False)
    if kind == 1:
        return b.MatMul(value, value, transpose_a=False, transpose_b=True)
    if kind == 2:
        return b.Transpose(value, chosen.permutation(rank))
    if kind == 3:
        return value_of_rank(b, value, int(chosen.integers(2, 4)), chosen)
    if kind == 4:
        return b.SoftMax(value, axis=axis)
    if kind == 5:
        return b.MVN(value, [axis], eps=1e-3, eps_mode="INSIDE_SQRT", normalize_variance=True)
    if kind == 6:
        count = int(chosen.integers(1, rank + 1))
        axes = np.sort(chosen.permutation(rank)[:count])
        reduced = b.ReduceMean(value, axes, keep_dims=True)
        return b.Add(value, reduced)
    if kind == 7:
        return b.Tanh(b.Add(value, normal(1)))
    pieces = [value_of_rank(b, piece, 2, chosen) for piece in (value, other, values[-1])]
    return joined(b, pieces, int(chosen.integers(0, 2)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dimensions", EQUAL_DIMENSIONS, ids=str)
def test_dimensions_that_are_equal(dimensions: tuple[int, int, int], seed: int) -> None:
    """Random graphs in which no shape tells one dimension from another."""
    chosen = np.random.default_rng(seed)
    inputs = [normal(*dimensions), normal(*dimensions[1:])]

    def make(b: Layers, *values: Output) -> list[Output]:
        known = list(values)
        while len(known) < 14:
            made = layer_over(b, known, chosen)
            if made.shape.rank >= 2 and made.shape.element_count().value <= 20_000:
                known.append(made)
        return known[-4:]

    alike(model_of(make, inputs), inputs, 5e-5, fallbacks=None)
