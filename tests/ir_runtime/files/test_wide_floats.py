"""Models of float16 and bfloat16, computed in float32, against their layers one by one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import converter
from ir_runtime import compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Output
from ir_runtime.graph.tensor import Tensor
from tests.converter.optimization.models import parse
from tests.engines import node_model, run_onnxruntime
from tests.ir_runtime.execution.kernel_checks import Array, Layers, model_of, op
from tests.random_data import generator

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


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_only_moved_keeps_its_bits(kind: np.dtype[Any]) -> None:
    x = RNG.integers(0, 2**16, (3, 4)).astype(np.uint16).view(kind)
    model = model_of(lambda b, v: b.Transpose(v, [1, 0]), [x])
    found = compile_model(model)([x])[0]
    np.testing.assert_array_equal(found.view(np.uint16), x.T.view(np.uint16))


def test_comparisons_and_indices_beside_numbers() -> None:
    x = of(KINDS[0], 4, 6)

    def make(b: Layers, v: Output) -> list[Output]:
        doubled = b.Add(v, v)
        top = b.emit_all(op("TopK", 11, axis=1, mode="max", sort="value"), doubled, b.constant(2))
        return [b.Greater(doubled, v), *top]

    model = model_of(make, [x])
    for value, want in zip(
        compile_model(model)([x]).to_list(), compile_model(model, optimize=False)([x]).to_list(), strict=True
    ):
        assert value.dtype == want.dtype
        np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize("op_type", ["Exp", "Add", "MatMul", "Gelu", "ReduceL2", "LayerNormalization"])
@pytest.mark.parametrize("optimize", [True, False])
def test_single_operators_are_those_of_onnxruntime(op_type: str, optimize: bool) -> None:
    """One layer rounds once in either way."""
    feeds = {"x": of(KINDS[0], 3, 8)}
    others = {"Add": ("y", (3, 8)), "MatMul": ("y", (8, 8)), "LayerNormalization": ("scale", (8,))}
    if op_type in others:
        name, shape = others[op_type]
        feeds[name] = of(KINDS[0], *shape)
    model = node_model(op_type, feeds, opset=20)
    (found,) = compile_model(converter.convert_model(model), optimize=optimize)(feeds).to_list()
    (wanted,) = run_onnxruntime(model, feeds)
    assert found.dtype == wanted.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=2**-9, atol=2**-9)


def test_bodies_of_loops() -> None:
    """Three steps of a Scan whose state is of 16 bits between them."""
    body = "body (float16[5] s, float16[5] x) => (float16[5] u, float16[5] y) { t = Add (s, x) u = Tanh (t) y = Mul (u, u) }"
    onnx_model = parse(
        "g (float16[5] s0, float16[3,5] xs) => (float16[5] last, float16[3,5] all)"
        f"{{ last, all = Scan <body = {body}, num_scan_inputs = 1> (s0, xs) }}"
    )
    feeds = {"s0": of(KINDS[0], 5), "xs": of(KINDS[0], 3, 5)}
    model = converter.convert_model(onnx_model)
    expected = run_onnxruntime(onnx_model, feeds)
    for value, want in zip(compile_model(model)(feeds).to_list(), expected, strict=True):
        assert value.dtype == np.float16
        np.testing.assert_allclose(value.astype(np.float64), want.astype(np.float64), rtol=0, atol=3 * 2**-11)
