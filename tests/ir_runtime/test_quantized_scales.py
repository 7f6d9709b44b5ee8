"""Scales of FakeQuantize that become factors of weights: the same values, and nothing else folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir_runtime import Model, compile_model
from ir_runtime.execution.quantized_scales import fold_scales
from ir_runtime.graph.model import Output
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.kernel_checks import RNG, Array, model_of, normal, op

SCALES = (0.031, 0.17)


def weights(b: Builder, *shape: int, stored: bool = False) -> Output:
    """8-bit weights times a scale for each output, or the same stored as float32."""
    values, scale = RNG.integers(-127, 128, shape), RNG.random((shape[0], *[1] * (len(shape) - 1))) * 0.01 + 0.001
    if stored:
        return b.constant(values * scale, "f32")
    convert = b.emit_unfolded(op("Convert", 1, destination_type="f32"), b.constant(values, "i8"))
    return b.emit_unfolded(op("Multiply"), convert, b.constant(scale, "f32"))


def quantize(b: Builder, x: Output, scale: float, first: int = -128, high: Any = None) -> Output:
    low = np.float32(first * scale)
    high = np.float32((first + 255) * scale) if high is None else high
    limits = [b.constant(limit, "f32") for limit in (low, high, low, high)]
    return b.emit(op("FakeQuantize", levels=256), x, *limits)


def convolve(b: Builder, x: Output, w: Output, *, bias: bool = True) -> Output:
    y = b.emit(op("Convolution", pads_begin=[1, 1], pads_end=[1, 1]), x, w)
    return b.emit(op("Add"), y, b.constant(normal(1, w.shape[0].value, 1, 1), "f32")) if bias else y


def limits_of(model: Model) -> list[list[float]]:
    """The limits of each FakeQuantize in order."""
    nodes = [node for node in model.nodes() if node.op.type == "FakeQuantize"]
    return [[float(limit.node.op.data.array()) for limit in node.inputs[1:]] for node in nodes]


def check(make: Callable[..., Any], *expected: str, data: Array | None = None) -> None:
    """Which scales of each FakeQuantize become 1: none, that of its inputs, of its outputs, or both."""
    inputs = [normal(2, 4, 9, 9) if data is None else data]
    model = model_of(make, inputs)
    wanted = compile_model(model, optimize=False)(inputs)
    before, folded = limits_of(model), model.clone()
    fold_scales(folded)
    ends = []
    for old, new in zip(before, limits_of(folded)):
        changed = (old[:2] != new[:2], old[2:] != new[2:])
        ends.append({(False, False): "none", (True, False): "in", (False, True): "out", (True, True): "both"}[changed])
        for half, is_changed in zip((new[:2], new[2:]), changed):
            if is_changed:
                assert half == [round(half[0]), round(half[0]) + 255]
    assert ends == list(expected)
    compiled = compile_model(model)
    for _ in range(2):
        for result, value in zip(compiled(inputs).to_list(), wanted.to_list()):
            np.testing.assert_allclose(result, value, rtol=0, atol=2e-5 * np.abs(value).max())


@pytest.mark.parametrize("first", [-128, 0, -3])
@pytest.mark.parametrize("bias", [True, False])
def test_a_chain_of_convolutions(first: int, bias: bool) -> None:
    def make(b: Builder, x: Output) -> Output:
        x = quantize(b, x, SCALES[0])
        x = quantize(b, convolve(b, x, weights(b, 6, 4, 3, 3), bias=bias), SCALES[1], first)
        return quantize(b, convolve(b, x, weights(b, 5, 6, 3, 3), bias=bias), SCALES[1])

    check(make, "out", "both", "in")


def test_grouped_convolutions_and_matrices() -> None:
    def make(b: Builder, x: Output) -> Output:
        shaped = b.emit_unfolded(op("Reshape"), weights(b, 4, 1, 3, 3), b.constant([4, 1, 1, 3, 3]))
        y = b.emit(op("GroupConvolution", pads_begin=[1, 1], pads_end=[1, 1]), quantize(b, x, SCALES[0]), shaped)
        return b.emit(op("MatMul", transpose_b=True), quantize(b, y, SCALES[1], 0), weights(b, 7, 9))

    check(make, "out", "both")


def test_values_that_are_read_elsewhere_keep_their_scale() -> None:
    def make(b: Builder, x: Output) -> list[Output]:
        y = convolve(b, x, weights(b, 4, 4, 3, 3))
        first = quantize(b, y, SCALES[0])
        second = quantize(b, convolve(b, first, weights(b, 4, 4, 3, 3)), SCALES[1])
        return [y, b.emit(op("Add"), first, second), convolve(b, second, weights(b, 2, 4, 3, 3))]

    check(make, "none", "in")


def test_stored_weights_stay_as_they_are() -> None:
    def make(b: Builder, x: Output) -> Output:
        y = quantize(b, convolve(b, x, weights(b, 4, 4, 3, 3, stored=True)), SCALES[0])
        return convolve(b, y, weights(b, 2, 4, 3, 3, stored=True))

    check(make, "none")


def test_data_on_the_other_side_of_a_product_stays() -> None:
    def make(b: Builder, x: Output) -> Output:
        return b.emit(op("MatMul"), weights(b, 3, 9), quantize(b, x, SCALES[0]))

    check(make, "none")


def test_a_bias_that_is_computed_stays() -> None:
    def make(b: Builder, x: Output) -> Output:
        y = convolve(b, x, weights(b, 4, 4, 3, 3), bias=False)
        bias = b.emit(op("ReduceMax", 1, keep_dims=True), x, b.constant([2, 3]))
        return quantize(b, b.emit(op("Add"), y, bias), SCALES[0])

    check(make, "none")


@pytest.mark.parametrize("high", [0.0101, [[[[1.0]], [[2.0]], [[1.0]], [[3.0]]]]])
def test_limits_that_are_no_scale_stay(high: Any) -> None:
    def make(b: Builder, x: Output) -> Output:
        return convolve(b, quantize(b, x, 0.0001, -77, high), weights(b, 2, 4, 3, 3))

    if isinstance(high, float):
        check(make, "none")
    else:
        model = model_of(make, [normal(1, 4, 5, 5)])
        fold_scales(model)
        assert sum(node.op.type == "Multiply" for node in model.nodes()) == 1


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_extreme_scales_stay(scale: float) -> None:
    data = normal(1, 4, 5, 5) * np.float32(scale * 100)
    check(lambda b, x: convolve(b, quantize(b, x, scale), weights(b, 2, 4, 3, 3)), "none", data=data)
