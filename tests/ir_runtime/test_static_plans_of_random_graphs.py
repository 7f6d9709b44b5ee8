"""Plans for known shapes of layers drawn at random, also where no shape tells one dimension from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ir_runtime.graph.model import Output
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.kernel_checks import model_of, normal, op
from tests.ir_runtime.test_static_plans import alike, biased, convolve, image


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int) -> None:
    """Images of some dimensions through layers drawn at random, values used several times."""
    chosen = np.random.default_rng(seed)
    x = image(int(chosen.integers(1, 3)), 6, int(chosen.integers(4, 40)), int(chosen.integers(4, 40)))
    layers: list[Callable[[Builder, Output, Output], Output]] = [
        lambda b, v, w: convolve(b, v, int(chosen.integers(1, 20)), 3),
        lambda b, v, w: convolve(b, v, int(chosen.integers(1, 20))),
        lambda b, v, w: biased(b, v),
        lambda b, v, w: b.emit(op("ReLU"), v),
        lambda b, v, w: b.emit(op("Swish"), v),
        lambda b, v, w: b.emit(op("Concat", axis=1), v, w),
        lambda b, v, w: b.emit(op("Add"), v, b.emit(op("ReduceMean", keep_dims=True), w, b.constant([1]))),
        lambda b, v, w: b.emit(op("Multiply"), v, b.emit(op("ReduceMean", keep_dims=True), v, b.constant([2, 3]))),
        lambda b, v, w: b.emit(op("MaxPool", 1, kernel=[3, 3], strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]), v),
        lambda b, v, w: b.emit(op("Slice"), v, *[b.constant([n]) for n in (1, v.shape[2].value, 1, 2)]),
        lambda b, v, w: b.emit(op("Pad", pad_mode="constant"), v, b.constant([0, 0, 1, 0]), b.constant([0] * 4), b.constant(0.5, "f32")),
        lambda b, v, w: b.emit(op("SoftMax", axis=int(chosen.integers(1, 4))), v),
        lambda b, v, w: b.emit(op("MVN", eps=1e-3, eps_mode="INSIDE_SQRT", normalize_variance=True), v, b.constant([2, 3])),
    ]  # fmt: skip

    def make(b: Builder, v: Output) -> list[Output]:
        known = [v]
        while len(known) < 12:
            value = known[-1 - int(chosen.integers(0, min(3, len(known))))]
            alike_ones = [one for one in known if one.shape.dims[2:] == value.shape.dims[2:]]
            other = alike_ones[int(chosen.integers(0, len(alike_ones)))]
            if value.shape[2].value > 3:
                known.append(layers[int(chosen.integers(0, len(layers)))](b, value, other))
            else:
                known.append(b.emit(op("Tanh"), value))
        return [known[-1], known[-3], known[int(chosen.integers(1, len(known)))]]

    alike(model_of(make, [x]), [x], 5e-5, fallbacks=None)


EQUAL_DIMENSIONS = [(8, 8, 8), (8, 8, 5), (8, 5, 8), (5, 8, 8), (1, 1, 1), (1, 8, 8), (8, 1, 8), (8, 8, 1), (4, 32, 8)]


def value_of_rank(b: Builder, value: Output, rank: int, chosen: np.random.Generator) -> Output:
    """Return a view or a reduction of the value that has ``rank`` dimensions."""
    while value.shape.rank > rank:
        axis = int(chosen.integers(0, value.shape.rank))
        mean = op(str(chosen.choice(["ReduceMean", "ReduceSum", "ReduceMax"])), keep_dims=False)
        value = b.emit(mean, value, b.constant([axis]))
    while value.shape.rank < rank:
        value = b.emit(op("Unsqueeze"), value, b.constant([int(chosen.integers(0, value.shape.rank + 1))]))
    return value


def joined(b: Builder, values: Sequence[Output], axis: int) -> Output:
    """Return a Concat of those values that agree with the first in all dimensions but ``axis``."""
    first = values[0]
    agree = [value for value in values if value.shape.rank == first.shape.rank]
    agree = [v for v in agree if all(v.shape[i] == first.shape[i] for i in range(v.shape.rank) if i != axis)]
    return b.emit(op("Concat", axis=axis), *agree)


def layer_over(b: Builder, values: Sequence[Output], chosen: np.random.Generator) -> Output:
    """Return a layer drawn at random over values drawn at random."""
    value, other = (values[int(chosen.integers(0, len(values)))] for _ in range(2))
    rank = value.shape.rank
    axis = int(chosen.integers(0, rank))
    kind = int(chosen.integers(0, 9))
    if kind == 0:
        weights = normal(value.shape[rank - 1].value, int(chosen.choice([1, 5, 8, 32])))
        return b.emit(op("MatMul", transpose_a=False, transpose_b=False), value, b.constant(weights, "f32"))
    if kind == 1:
        return b.emit(op("MatMul", transpose_a=False, transpose_b=True), value, value)
    if kind == 2:
        return b.emit(op("Transpose"), value, b.constant(chosen.permutation(rank)))
    if kind == 3:
        return value_of_rank(b, value, int(chosen.integers(2, 4)), chosen)
    if kind == 4:
        return b.emit(op("SoftMax", axis=axis), value)
    if kind == 5:
        return b.emit(op("MVN", eps=1e-3, eps_mode="INSIDE_SQRT", normalize_variance=True), value, b.constant([axis]))
    if kind == 6:
        count = int(chosen.integers(1, rank + 1))
        axes = np.sort(chosen.permutation(rank)[:count])
        reduced = b.emit(op("ReduceMean", keep_dims=True), value, b.constant(axes))
        return b.emit(op("Add"), value, reduced)
    if kind == 7:
        return b.emit(op("Tanh"), b.emit(op("Add"), value, b.constant(normal(1), "f32")))
    pieces = [value_of_rank(b, piece, 2, chosen) for piece in (value, other, values[-1])]
    return joined(b, pieces, int(chosen.integers(0, 2)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dimensions", EQUAL_DIMENSIONS, ids=str)
def test_dimensions_that_are_equal(dimensions: tuple[int, int, int], seed: int) -> None:
    """Random graphs in which no shape tells one dimension from another."""
    chosen = np.random.default_rng(seed)
    inputs = [normal(*dimensions), normal(*dimensions[1:])]

    def make(b: Builder, *values: Output) -> list[Output]:
        known = list(values)
        while len(known) < 14:
            made = layer_over(b, known, chosen)
            if made.shape.rank >= 2 and made.shape.element_count().value <= 20_000:
                known.append(made)
        return known[-4:]

    alike(model_of(make, inputs), inputs, 5e-5, fallbacks=None)
