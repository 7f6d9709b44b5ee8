"""Plans for known shapes of bodies, and of layers drawn at random, also where dimensions are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import Model, Output, compile_model
from ir_runtime.execution.static_plans import plan
from ir_runtime.graph import InputMap, OutputMap, SubGraph
from ir_runtime.operations.control_flow import If8, TensorIterator1
from tests.ir_runtime.execution.kernel_checks import (
    Array,
    Layers,
    biased,
    called_at_once,
    convolve,
    model_of,
    normal,
    op,
    same,
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


@pytest.mark.parametrize(("steps", "grows"), [(1, False), (2, False), (40, False), (40, True)])
def test_iterations_are_calls_of_one_plan(steps: int, grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body whose state grows has no plan."""
    inputs = [normal(steps, 5), normal(1, 5)]
    model = model_of(iterated(normal(5, 5), grows=grows), inputs)
    same(model, inputs, kernels=None)
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

    same(model_of(make, inputs), inputs, kernels=None)


def test_calls_at_the_same_time_have_arrays_of_their_own() -> None:
    inputs, state = [normal(30, 5) for _ in range(3)], normal(1, 5)
    iterate = iterated(normal(5, 5))
    model = model_of(lambda b, x: iterate(b, x, b.constant(state, "f32")), inputs[:1])
    called_at_once(compile_model(model), inputs, 20)


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


# --- layers drawn at random, whose values are used several times; in many no shape tells one dimension from another ---

EQUAL_DIMENSIONS = [(8, 8, 8), (8, 8, 5), (8, 5, 8), (5, 8, 8), (1, 1, 1), (1, 8, 8), (8, 1, 8), (8, 8, 1), (4, 32, 8)]
IMAGES = [(1, 6, 4, 4), (2, 6, 39, 5), (1, 6, 17, 32), (2, 1, 9, 9), (2, 24, 9, 11), (1, 3, 61, 40), (5, 48, 7, 9)]
CHAINS = [(1, 64, 1100), (70, 3, 500)]
UNARY, BINARY = ("Tanh", "Sigmoid", "Abs", "Erf", "HSwish", "ReLU", "Swish"), ("Add", "Multiply", "Maximum", "Subtract")


class Drawn:
    """A graph that grows by layers over values that are drawn."""

    def __init__(self, b: Layers, values: Sequence[Output], chosen: np.random.Generator) -> None:
        self.b, self.values, self.chosen = b, list(values), chosen

    def below(self, limit: int) -> int:
        return int(self.chosen.integers(0, limit))

    def any_of(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]

    def of_rank(self, value: Output, rank: int) -> Output:
        """A view or a reduction of the value that has ``rank`` dimensions."""
        while value.shape.rank > rank:
            name = self.any_of(["ReduceMean", "ReduceSum", "ReduceMax"])
            value = self.b.emit(op(name, keep_dims=False), value, self.b.constant([self.below(value.shape.rank)]))
        while value.shape.rank < rank:
            value = self.b.Unsqueeze(value, [self.below(value.shape.rank + 1)])
        return value

    def joined(self, values: Sequence[Output], axis: int) -> Output:
        """A Concat of those values that agree with the first in all dimensions but ``axis``."""
        dims = [list(value.shape.static()) for value in values]
        wanted = dims[0][:axis], dims[0][axis + 1 :]
        return self.b.Concat(*(v for v, d in zip(values, dims) if (d[:axis], d[axis + 1 :]) == wanted), axis=axis)

    def elementwise(self, value: Output) -> Output:
        other = self.any_of(self.values)
        if not _fits(other, value):
            other = normal(*(n if self.below(2) else 1 for n in value.shape.static()))
        return self.b.emit(op(self.any_of(BINARY)), value, self.b._constant(other))

    def shuffled(self, value: Output, count: int) -> Output:
        """The channels of groups in turn, or those of one group."""
        b, dims = self.b, value.shape.static()
        parts = b.Reshape(value, [dims[0], count, dims[1] // count, *dims[2:]])
        turned = b.Reshape(b.Transpose(parts, [0, 2, 1, 3, 4]), dims)
        return self.any_of([turned, *b.emit_all(op("Split", num_splits=count), value, b.constant(1))])

    def layer(self) -> Output:
        b, value = self.b, self.any_of(self.values[-3:])
        dims = value.shape.static()
        rank, axis = len(dims), self.below(len(dims))
        axes = np.sort(self.chosen.permutation(rank)[: 1 + self.below(rank)])
        ways: list[Callable[[], Output]] = [
            lambda: b.MatMul(value, normal(dims[-1], self.any_of([1, 5, 8, 32]))),
            lambda: b.MatMul(value, b.Tanh(value), transpose_b=True),
            lambda: b.Transpose(value, self.chosen.permutation(rank)),
            lambda: self.of_rank(value, 2 + self.below(2)),
            lambda: b.SoftMax(value, axis=axis),
            # Of two numbers that are nearly equal, rounding decides the sign.
            lambda: b.MVN(value, [axis if dims[axis] > 2 else -1], eps=1e-3, eps_mode="INSIDE_SQRT",
                          normalize_variance=True),
            lambda: b.Add(value, b.ReduceMean(value, axes, keep_dims=True)),
            lambda: b.emit(op(self.any_of(UNARY)), value),
            lambda: self.elementwise(value),
            lambda: self.elementwise(value),
            lambda: self.joined([self.of_rank(v, 2) for v in (value, self.any_of(self.values), value)], self.below(2)),
        ]  # fmt: skip
        if rank == 4 and dims[2] > 3:
            ways += [
                lambda: convolve(b, value, 1 + self.below(19), 3),
                lambda: convolve(b, value, 1 + self.below(19)),
                lambda: biased(b, value),
                lambda: self.joined([value, *(v for v in self.values if v.shape.rank == 4)], 1),
                lambda: b.Multiply(value, b.Sigmoid(b.ReduceMean(value, [2, 3], keep_dims=True))),
                lambda: b.MaxPool(value, opset=1, kernel=[3, 3], strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]),
                lambda: b.Slice(value, [1], [dims[2]], [1], [2]),
                lambda: b.Pad(value, [0, 0, 1, 0], [0] * 4, 0.5, pad_mode="constant"),
                lambda: b.MVN(value, [2, 3], eps=1e-3, eps_mode="INSIDE_SQRT", normalize_variance=True),
                lambda: b.Gather(value, self.any_of([[[0, -1], [0, 0]], [0, 0, 0, -1], [-1]]), axis),
                lambda: b.Reshape(value, dims),
                lambda: b.Reshape(value, [dims[0], -1]),
                lambda: self.shuffled(value, self.any_of([n for n in (1, 2, 3) if dims[1] % n == 0])),
            ] * 2
        return self.any_of(ways)()


def _fits(other: Output, value: Output) -> bool:
    """Whether the other value is repeated along dimensions of this one."""
    pairs = zip(other.shape.static()[::-1], value.shape.static()[::-1])
    return other.shape.rank <= value.shape.rank and all(a in (1, b) for a, b in pairs)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dimensions", [*EQUAL_DIMENSIONS, *IMAGES, *CHAINS], ids=str)
def test_random_graphs(dimensions: tuple[int, ...], seed: int) -> None:
    inputs = [normal(*dimensions), normal(*dimensions[1:])]

    def make(b: Layers, *values: Output) -> list[Output]:
        drawn = Drawn(b, values, np.random.default_rng([seed, 1]))
        while len(drawn.values) < 14:
            made = drawn.layer()
            if made.shape.rank >= 2 and made.shape.element_count().value <= 200_000:
                drawn.values.append(made)
        return drawn.values[-4:]

    same(model_of(make, inputs), inputs, 5e-5, None, fallbacks=None)
