"""Quantised models run in 8 bits in the CPU plug-in, and agree with onnxruntime within a quantisation step."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from ir_runtime.operations.elementwise import Convert1
from tests.converter.optimization.models import parse
from tests.converter.targets.models import Built, Quantized, convolution, qlinear, ran_in_8_bits
from tests.engines import ENGINES, output_names, run, run_onnxruntime
from tests.graphs import Value
from tests.random_data import generator


def layers(model: ir_runtime.Model) -> Counter[str]:
    return Counter(node.op.type for node in model.nodes() if node.op.role not in ("constant", "parameter", "result"))


def depthwise() -> Built:
    g = Quantized(4)
    y = g.steps(g.x, 0.02, 120).Conv(g.weights(8, 1, 3, 3, by=g.scales(8)), group=8)
    return g.built(g.steps(y, 0.02, 128), 0.02, 1, 8, 9, 9)


def padded_pointwise(rank: int) -> Built:
    g = Quantized(14)
    x = g.steps(g.steps(g.x, 0.02, 120).Relu(), 0.01, 0)
    weights, bias = g.weights(8, 4, *[1] * rank, by=g.scales(8)), g.number(g.r.normal(size=8))
    y = x.Conv(weights, bias, pads=[1] * 2 * rank, strides=[2] * rank)
    return g.built(g.steps(y, 0.02, 128), 0.02, 1, 4, *[7] * rank)


def product(per_column: bool) -> Built:
    g = Quantized(5)
    weights = g.weights(32, 24, by=g.scales(24) if per_column else 0.005, axis=1)
    y = g.steps(g.x, 0.02, 3, np.int8) @ weights + g.number(g.r.normal(size=24))
    return g.built(g.steps(y, 0.05, 1, np.int8), 0.05, 3, 32)


def moved(rows: int, move: Callable[[Value], Value], *shape: int) -> Built:
    g = Quantized(6)
    how = (g.number(0.02), g.number(101, np.uint8))
    y = move(g.x.QuantizeLinear(*how)).DequantizeLinear(*how) @ g.weights(rows, 10)
    return g.built(g.steps(y, 0.05, 128), 0.05, *shape)


def pooled(q: Value) -> Value:
    return q.MaxPool(kernel_shape=[2, 2], strides=[2, 2]).Transpose(perm=[0, 2, 3, 1]).Flatten()


def repeated_and_cut(q: Value) -> Value:
    return q.Tile([1, 2]).Slice([0], [40], [1]).ReverseSequence([40, 7, 1], batch_axis=0, time_axis=1)


def of_channels() -> Built:
    """Data with a scale for each channel, which stay floats."""
    g = Quantized(7)
    return g.built(g.steps(g.x, g.r.uniform(0.01, 0.03, 4), g.r.integers(90, 160, 4)), 0.03, 2, 4, 5)


OTHERS = 0.02
"""The greatest share of numbers that may be a step away."""
STATIC: list[tuple[str, Callable[[], Built], dict[str, int]]] = [
    ("conv-u8", lambda: convolution(np.uint8, 117, False), {"Convolution": 1}),
    ("conv-u8-channels", lambda: convolution(np.uint8, 0, True), {"Convolution": 1}),
    ("conv-i8-channels", lambda: convolution(np.int8, -5, True), {"Convolution": 1}),
    ("depthwise", depthwise, {"Convolution": 1}),
    *((f"padded-{rank}d", functools.partial(padded_pointwise, rank), {"Convolution": 1}) for rank in (1, 2, 3)),
    ("product", lambda: product(False), {"FullyConnected": 1}),
    ("product-columns", lambda: product(True), {"FullyConnected": 1}),
    ("pooled-and-moved", lambda: moved(64, pooled, 1, 4, 8, 8), {"FullyConnected": 1, "Pooling": 1}),
    ("repeated-and-cut", lambda: moved(40, repeated_and_cut, 3, 32), {"FullyConnected": 1}),
    ("of-channels", of_channels, {}),
    ("qoperator", lambda: qlinear(1), {"Convolution": 1, "FullyConnected": 1}),
    ("qoperator-groups", lambda: qlinear(4), {"FullyConnected": 1}),
    ("qoperator-residual", lambda: qlinear(1, residual=True), {"Convolution": 1, "FullyConnected": 1}),
    ("qoperator-depthwise", lambda: qlinear(8), {"Convolution": 1, "FullyConnected": 1}),
]


@pytest.mark.parametrize(("build", "in_8_bits"), [row[1:] for row in STATIC], ids=[row[0] for row in STATIC])
def test_it_runs_in_8_bits_and_a_step_at_most_from_onnxruntime(
    build: Callable[[], Built], in_8_bits: dict[str, int]
) -> None:
    model, feeds, step = build()
    made, plain = (converter.convert_model(model, target=target) for target in ("cpu", "any"))
    counted = layers(made)
    assert counted["Round"] == counted["Clamp"] == layers(plain)["FakeQuantize"] == 0, counted
    assert counted["FakeQuantize"]
    assert len({node.name for node in made.nodes()}) == len(made.nodes())
    ir, plain_ir = map(ir_runtime.model_to_bytes, (made, plain))
    found = ran_in_8_bits(ir)
    assert {kind: found[kind] for kind in in_8_bits} == in_8_bits, found
    expected = run_onnxruntime(model, feeds)[0]
    has_sums = "QLinearAdd" in {node.op_type for node in model.graph.node}  # which onnxruntime rounds otherwise
    for engine, written in (("numpy", ir), ("openvino", ir), ("numpy", plain_ir)):
        difference = np.abs(run(engine, written, feeds)[0] - expected)
        # The plug-in rounds two sums in a row in ways of its own, so that a code may be two steps away.
        steps = 2 if has_sums and engine == "openvino" else 1
        assert difference.max() <= 1.01 * steps * step, engine
        if not has_sums:
            assert (difference > 0.5 * step).mean() <= OTHERS, engine


def test_whole_numbers_that_a_model_returns_stay_exact() -> None:
    nodes = "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"
    model = parse(f"g (float[64] x) => (q, y) {{ {nodes} }}", s=np.float32(0.5), z=np.uint8(3))
    made = converter.convert_model(model)
    assert layers(made)["FakeQuantize"] == 0
    feeds = {"x": (generator(9).integers(-10, 200, 64) / 4).astype(np.float32)}  # half of them between two steps
    for engine in ENGINES:
        actual = run(engine, ir_runtime.model_to_bytes(made), feeds, output_names(model))
        for value, expected in zip(actual, run_onnxruntime(model, feeds), strict=True):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("factor", [np.finfo(np.float32).min, np.finfo(np.float32).max, 3e36, -1e4])
@pytest.mark.parametrize(
    ("scale", "zero", "dtype"), [(1, 0, np.int8), (1 / 255, 0, np.uint8), (1 / 127, -128, np.int8)]
)
def test_a_mask_times_the_lowest_float_stays_finite(factor: float, scale: float, zero: int, dtype: Any) -> None:
    """Exporters of BERT multiply 1 - mask by it; integers that never occur would stand for infinite numbers."""
    ends = [(float(limit) - zero) * scale * float(factor) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
    widest = max(abs(ends[0]), abs(ends[1]), abs(ends[1] - ends[0]))
    is_finite = widest <= float(np.finfo(np.float32).max)
    g = Quantized(0)
    model, *_ = g.built(g.steps(g.x, scale, zero, dtype) * g.number(factor) * 0.25, 0, 4)
    made = converter.convert_model(model)
    if scale == 1:  # else the scale of the dequantisation stands between
        assert layers(made)["FakeQuantize"] == is_finite
    feeds = {"x": np.array([0, 1, 1, 0], np.float32)}
    (expected,) = run_onnxruntime(model, feeds)
    assert np.isfinite(expected).all()
    for engine in ENGINES:
        (value,) = run(engine, ir_runtime.model_to_bytes(made), feeds)
        # FakeQuantize computes with float32 between its ends.
        rounding = 2.0**-23 * widest / 4 if is_finite else 0
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=rounding, err_msg=engine)


@pytest.mark.parametrize("op_type", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("depth", [16, 4096])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_dynamically_quantised_products_are_float_products(op_type: str, depth: int, biased: bool) -> None:
    g, is_matrix = Quantized(10), op_type == "MatMulInteger"
    x_shape, w_shape = ((3, depth), (depth, 8)) if is_matrix else ((1, depth, 3, 3), (8, depth, 1, 1))
    q, s, z = g("DynamicQuantizeLinear", g.x, count=3)
    total, scale = g(op_type, q, g.codes(*w_shape), z, g.number(3, np.int8)), s * 0.01
    if biased:
        total = total + (g.number(g.r.normal(size=(8,) if is_matrix else (8, 1, 1))) / scale).Floor().Cast(to=6)
    model, feeds, _ = g.built(total.Cast(to=1) * scale, 0, *x_shape)
    made = converter.convert_model(model)
    counted = layers(made)
    assert counted["MatMul"] + counted["Convolution"] == 1
    assert counted["BitwiseAnd"] == counted["BitwiseLeftShift"] == 0
    # Between quantisation and scale everything but the bias stays a float: conversions are slow in the plug-in.
    converted_to = [node.op.destination_type.name for node in made.nodes() if isinstance(node.op, Convert1)]
    assert [name for name in converted_to if name != "f32"] == (["i32"] if biased else [])
    expected = run_onnxruntime(model, feeds)[0]
    for engine in ENGINES:
        value = run(engine, ir_runtime.model_to_bytes(made), feeds)[0]
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max(), err_msg=engine)
