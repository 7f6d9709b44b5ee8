"""onnxruntime's operators without a CPU kernel in both engines, against NumPy by their descriptions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import ENGINES, assert_close, converted, node_model, run
from tests.random_data import generator

R = generator(53)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def check(op_type: str, feeds: Mapping[str, np.ndarray], *expected: np.ndarray, **attributes: Any) -> None:
    model = node_model(op_type, feeds, opset=1, domain="com.microsoft", outputs=len(expected), attributes=attributes)
    ir = converted(model)
    for engine in ENGINES:
        for found, wanted in zip(run(engine, ir, feeds), expected, strict=True):
            assert found.dtype == wanted.dtype
            assert_close(found, wanted)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def swiglu(gate: np.ndarray, up: np.ndarray, alpha: float, beta: float, limit: float) -> np.ndarray:
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return (gate * sigmoid(alpha * gate) * (up + beta)).astype(np.float32)


@pytest.mark.parametrize("limit", [0.0, 0.7])
@pytest.mark.parametrize("is_one_input", [False, True])
def test_swiglu(limit: float, is_one_input: bool) -> None:
    gate, up = f(2, 3, 8), f(2, 3, 8)
    feeds = {"both": np.concatenate([gate, up], -1)} if is_one_input else {"gate": gate, "up": up}
    expected = swiglu(gate, up, 1.702, 1.0, limit)
    check("SwiGLU", feeds, expected, activation_alpha=1.702, activation_beta=1.0, limit=limit)


def test_router_and_gates() -> None:
    x, w = f(2, 3, 5), f(5, 4 + 2 * 6)
    product = x @ w
    expected = swiglu(product[..., 4:10], product[..., 10:], 1.0, 0.0, 0.0)
    check("RouterGateUpProj", {"x": x, "w": w}, product[..., :4], expected, router_size=4)


def gelu(x: np.ndarray, approximate: bool = False) -> np.ndarray:
    if approximate:
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))).astype(np.float32)


def test_gelus() -> None:
    x, bias = f(2, 3, 8), f(8)
    left, right = np.split(x + bias, 2, -1)
    check("BiasSplitGelu", {"x": x, "bias": bias}, left * gelu(right))
    w = f(8, 4)
    check("GemmFastGelu", {"x": x, "w": w, "bias": bias[:4]}, gelu(x @ w + bias[:4], True).astype(np.float32))


def softmax(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis, keepdims=True))


def test_products_with_activations() -> None:
    a, b = f(2, 4, 3), f(2, 4, 5)
    product = 0.5 * np.swapaxes(a, 1, 2) @ b
    attributes = {"transA": 1, "alpha": 0.5}
    feeds = {"a": a, "b": b}
    check("FusedMatMulActivation", feeds, np.maximum(product, 0), activation="Relu", **attributes)
    leaky = np.where(product < 0, np.float32(0.2) * product, product)
    check("FusedMatMulActivation", feeds, leaky, activation="LeakyRelu", activation_alpha=0.2, **attributes)
    check("FusedMatMulActivation", feeds, softmax(product, 1), activation="Softmax", activation_axis=1, **attributes)


@pytest.mark.parametrize("shape", [(2, 1, 1, 5), (4, 5), (2, 3, 4, 5)])
def test_softmax_of_a_sum(shape: tuple[int, ...]) -> None:
    data, bias = f(2, 3, 4, 5), f(*shape)
    check("BiasSoftmax", {"x": data, "bias": bias}, softmax(data + bias, 3), axis=3, is_inner_broadcast=0)


def test_softmax_of_a_sum_with_dimensions_in_between() -> None:
    data, bias = f(2, 3, 4, 5), f(2, 5)
    expected = softmax(data + bias[:, np.newaxis, np.newaxis], 3)
    check("BiasSoftmax", {"x": data, "bias": bias}, expected, axis=3, is_inner_broadcast=1)
    expected = softmax(data, (2, 3))
    check("BiasSoftmax", {"x": data, "bias": np.zeros((1, 3, 1, 1), "f4")}, expected, axis=2, is_inner_broadcast=0)


def test_rotary_embedding_of_gemma() -> None:
    emb = f(2, 3, 8)
    heads = {name: f(2, 4, 3, 8) for name in ("q", "q_rot", "k", "k_rot")}
    cos, sin = np.cos(emb)[:, np.newaxis], np.sin(emb)[:, np.newaxis]
    expected = [heads[name] * cos + heads[f"{name}_rot"] * sin for name in ("q", "k")]
    check("GemmaRotaryEmbedding", {"emb": emb, **heads}, *expected)


def test_bias_dropout() -> None:
    data, bias, residual = f(2, 3, 4), f(4), f(2, 3, 4)
    check("BiasDropout", {"x": data, "bias": bias, "residual": residual}, data + bias + residual)
    inputs = {"x": data, "bias": bias, "residual": residual}
    constants = {"ratio": np.float32(0.5), "training": np.array(True)}
    model = node_model("BiasDropout", inputs, opset=1, domain="com.microsoft", constants=constants)
    with pytest.raises(converter.UnsupportedModelError, match="for training"):
        converter.convert_model(model)


def test_products_of_complex_numbers() -> None:
    a, b = f(2, 3, 2), f(1, 3, 2)
    first, second = (value[..., 0] + 1j * value[..., 1] for value in (a, b))
    for op_type, product in (("ComplexMul", first * second), ("ComplexMulConj", first * second.conj())):
        check(op_type, {"a": a, "b": b}, np.stack([product.real, product.imag], -1).astype(np.float32))


@pytest.mark.parametrize("signal_ndim", [1, 2])
def test_transforms(signal_ndim: int) -> None:
    x = f(2, 6, 8)
    axes = tuple(range(3 - signal_ndim, 3))
    spectrum = np.fft.rfftn(x, axes=axes)
    pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    check("Rfft", {"x": x}, pairs, signal_ndim=signal_ndim)
    check("Irfft", {"x": pairs}, x, signal_ndim=signal_ndim)
    model = node_model("Rfft", {"x": x}, opset=1, domain="com.microsoft", attributes={"normalized": 1})
    with pytest.raises(converter.InvalidModelError, match="normalized must be 0"):
        converter.convert_model(model)


def test_torch_embedding() -> None:
    table, places = f(9, 4), np.array([[0, 8], [3, 3]])
    check("TorchEmbedding", {"w": table, "i": places}, table[places])


def test_integers() -> None:
    a, b = (R.integers(0, 256, shape).astype(np.uint8) for shape in ((2, 3), (3,)))
    zero_a, zero_b = np.array(7, np.uint8), np.array(200, np.uint8)
    expected = (a.astype(np.int32) - 7) * (b.astype(np.int32) - 200)
    check("MulInteger", {"a": a, "za": zero_a, "b": b, "zb": zero_b}, expected)
    signed = R.integers(-128, 128, (2, 3, 4)).astype(np.int8)
    check("ReduceSumInteger", {"x": signed}, signed.sum((0, 2), np.int32), axes=[0, 2], keepdims=0)
    check("ReduceSumInteger", {"x": a}, a.sum((1,), np.uint32, keepdims=True), axes=[1], keepdims=1)


@pytest.mark.parametrize(
    ("value", "attributes", "expected"),
    [
        (1.0, {}, True),
        (np.inf, {}, False),
        (np.nan, {}, False),
        (np.inf, {"isnan_only": 1}, True),
        (np.nan, {"isinf_only": 1}, True),
        (-np.inf, {"isinf_only": 1}, False),
    ],
)
def test_is_all_finite(value: float, attributes: dict[str, int], expected: bool) -> None:
    x = f(2, 3)
    x[1, 1] = value
    check("IsAllFinite", {"x": x, "y": f(4)}, np.array(expected), **attributes)
