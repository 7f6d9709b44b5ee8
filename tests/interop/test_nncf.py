"""nncf quantises our IR as it does the IR of OpenVINO's own importer: fused layers lose no quantisation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nncf
import numpy as np
import onnx
import openvino
import pytest

import converter
from benchmarks.nncf_parity import Counts, activations, weights
from tests.engines import core, run_onnxruntime
from tests.random_data import generator
from tests.rows.formula import Graph, Idiom, Value, all_idioms

R = generator(7)
WIDTH, HEADS = 64, 4
TOKENS, IMAGE = {"x": (2, 12, WIDTH)}, {"x": (2, 3, 16, 16)}
LAST = {"x": (2, WIDTH, 8, 8)}
TRANSFORMER = nncf.ModelType.TRANSFORMER


def linear(g: Graph, value: Value, inputs: int, outputs: int) -> Value:
    """A product with weights and a bias; as torch writes it, the bias comes first."""
    return g.Add(R.standard_normal(outputs) * 0.1, value @ (R.standard_normal((inputs, outputs)) / inputs**0.5))


def normalized(g: Graph, value: Value) -> Value:
    """A layer normalization, spelled out, with a scale and a shift of its own."""
    centred = value - g.ReduceMean(value, axes=[-1])
    root = g.Sqrt(g.Add(g.ReduceMean(g.Pow(centred, 2), axes=[-1]), 1e-5))
    return g.Add(g.Mul(centred / root, R.uniform(0.5, 2, WIDTH)), R.standard_normal(WIDTH) * 0.1)


def spelled(name: str) -> Callable[[Graph, Value], Value]:
    """An idiom of one input, of any value."""

    def build(g: Graph, value: Value) -> Value:
        g.x = value
        try:
            return all_idioms()[name].build(g)
        finally:
            del g.x

    return build


def dense(g: Graph, value: Value) -> Value:
    """The two products between which a Gelu stands."""
    return linear(g, spelled("gelu")(g, linear(g, value, WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH)


def weighted(g: Graph, scores: Value, values: Value, *masks: Any) -> Value:
    """Softmax of the masked scores times the values, and the heads side by side again."""
    for mask in masks:
        scores = g.Add(scores, mask)
    return g.Transpose(g.Softmax(scores, axis=-1) @ values, perm=[0, 2, 1, 3])


def bert(g: Graph) -> Value:
    """Products of their own for queries, keys and values; normalizations come last."""
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        parts.append(g.Transpose(g.Reshape(linear(g, g.x, WIDTH, WIDTH), [0, 0, HEADS, -1]), perm=order))
    mask = np.where(np.arange(12) < 9, 0, -1e4)[None, None, None]
    joined = g.Reshape(weighted(g, parts[0] @ parts[1] / 4, parts[2], mask), [0, 0, WIDTH])
    value = normalized(g, g.Add(linear(g, joined, WIDTH, WIDTH), g.x))
    return normalized(g, g.Add(dense(g, value), value))


def of_one_product(g: Graph, value: Value, shape: list[int]) -> list[Value]:
    """Queries, keys and values from one product."""
    turned = g.Transpose(g.Reshape(linear(g, value, WIDTH, 3 * WIDTH), shape), perm=[2, 0, 3, 1, 4])
    return [g.Gather(turned, np.int64(index), axis=0) for index in range(3)]


def vit(g: Graph) -> Value:
    """Patches of an image by a convolution; normalizations come first."""
    kernel = R.standard_normal((WIDTH, 3, 4, 4)) / 7
    patches = g.Conv(g.x, kernel, R.standard_normal(WIDTH), strides=[4, 4], kernel_shape=[4, 4])
    flat = g.Transpose(g.Reshape(patches, [0, WIDTH, -1]), perm=[0, 2, 1])
    flat = g.Add(flat, R.standard_normal((1, 16, WIDTH)))
    queries, keys, values = of_one_product(g, normalized(g, flat), [0, 16, 3, HEADS, -1])
    scores = g.Mul(queries, 16**-0.25) @ g.Mul(g.Transpose(keys, perm=[0, 1, 3, 2]), 16**-0.25)
    joined = g.Reshape(weighted(g, scores, values), [0, 16, WIDTH])
    value = g.Add(flat, linear(g, joined, WIDTH, WIDTH))
    value = g.Add(value, dense(g, normalized(g, value)))
    return linear(g, normalized(g, value), WIDTH, 10)


def swin(g: Graph, shifted: bool) -> Value:
    """Windows of 4 x 4, a bias of places, and for windows that are shifted a mask of their own."""
    image = g.Reshape(g.Transpose(g.x, perm=[0, 2, 3, 1]), [-1, 64, WIDTH])
    grid = g.Reshape(normalized(g, image), [-1, 2, 4, 2, 4, WIDTH])
    windows = g.Reshape(g.Transpose(grid, perm=[0, 1, 3, 2, 4, 5]), [-1, 16, WIDTH])
    queries, keys, values = of_one_product(g, windows, [-1, 16, 3, HEADS, WIDTH // HEADS])
    scores = g.Mul(queries, 0.25) @ g.Transpose(keys, perm=[0, 1, 3, 2])
    scores = g.Add(scores, R.standard_normal((1, HEADS, 16, 16)))
    if shifted:
        mask = np.where(R.random((1, 4, 1, 16, 16)) < 0.7, 0.0, -100.0)
        scores = g.Reshape(g.Add(g.Reshape(scores, [-1, 4, HEADS, 16, 16]), mask), [-1, HEADS, 16, 16])
    joined = g.Reshape(weighted(g, scores, values), [-1, 16, WIDTH])
    grid = g.Reshape(linear(g, joined, WIDTH, WIDTH), [-1, 2, 2, 4, 4, WIDTH])
    value = g.Add(image, g.Reshape(g.Transpose(grid, perm=[0, 1, 3, 2, 4, 5]), [-1, 64, WIDTH]))
    return g.Add(value, dense(g, normalized(g, value)))


def convolution(g: Graph, value: Value, channels: int = WIDTH) -> Value:
    weight = R.standard_normal((WIDTH, channels, 3, 3)) / (9 * channels) ** 0.5
    return g.Conv(value, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def channels(low: float = 0.5, high: float = 2) -> Any:
    return R.uniform(low, high, (1, WIDTH, 1, 1))


def group_normalization(g: Graph, value: Value) -> Value:
    split = g.InstanceNormalization(g.Reshape(value, [0, 8, -1]), np.ones(8), np.zeros(8))
    return g.Add(g.Mul(g.Reshape(split, g.Shape(value)), channels()), channels(-0.1, 0.1))


def scaled(g: Graph, value: Value) -> Value:
    """A batch normalization, spelled out: a scale and a shift of each channel."""
    return g.Relu(g.Add(g.Mul(value, channels()), channels(-0.1, 0.1)))


def between_convolutions(activation: Callable[[Graph, Value], Value]) -> Callable[[Graph], Value]:
    """Two convolutions, each with the activation, and a sum; the second does not read what the sum reads."""

    def build(g: Graph) -> Value:
        first = activation(g, convolution(g, g.x))
        return convolution(g, g.Add(first, activation(g, convolution(g, first))))

    return build


BLOCKS: dict[str, tuple[Callable[[Graph], Value], Mapping[str, tuple[int, ...]], Any]] = {
    "bert": (bert, TOKENS, TRANSFORMER),
    "vit": (vit, IMAGE, TRANSFORMER),
    "vit as any model": (vit, IMAGE, None),
    "swin": (lambda graph: swin(graph, shifted=False), LAST, TRANSFORMER),
    "swin with shifted windows": (lambda graph: swin(graph, shifted=True), LAST, TRANSFORMER),
    **{name: (between_convolutions(spelled(name)), LAST, None) for name in ("hard swish", "swish", "prelu", "gelu")},
    "group normalization": (between_convolutions(group_normalization), LAST, None),
    "folded scales": (between_convolutions(scaled), LAST, None),
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    nncf.set_log_level(logging.ERROR)


def both(model: onnx.ModelProto, folder: Path) -> dict[str, openvino.Model]:
    xml = folder / "ours.xml"
    converter.save_model(converter.convert_model(model, target="cpu"), xml)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return {"ours": core().read_model(xml), "theirs": openvino.convert_model(folder / "model.onnx")}


def block(name: str, dynamic: bool) -> tuple[onnx.ModelProto, Mapping[str, tuple[int, ...]], Any]:
    build, shapes, kind = BLOCKS[name]
    return Idiom(build, count=0, inputs=shapes).model(0, dynamic=dynamic), shapes, kind


def products(model: openvino.Model) -> Counts:
    """How many inputs of products and weights are in 8 bits; nncf quantises queries and keys as those of a product."""
    counts = activations(model) + weights(model)
    counts["MatMul"] += counts.pop("ScaledDotProductAttention", 0)
    return Counts({kind: count for kind, count in counts.items() if kind.split()[0] in ("MatMul", "Convolution")})


def outputs(model: openvino.Model, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    compiled = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(next(iter(compiled(dict(feeds)).values())))


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", BLOCKS)
def test_quantize_takes_as_many_inputs(name: str, dynamic: bool, tmp_path: Path) -> None:
    model, shapes, kind = block(name, dynamic)
    samples = [{key: R.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()} for _ in range(3)]
    wanted = run_onnxruntime(model, samples[0])[0]
    counts, totals, errors = {}, {}, {}
    for side, ir in both(model, tmp_path).items():
        made = nncf.quantize(ir, nncf.Dataset(samples), subset_size=len(samples), model_type=kind)
        counts[side], totals[side] = products(made), activations(made).total()
        errors[side] = difference(outputs(made, samples[0]), wanted)
    assert counts["ours"] == counts["theirs"]
    assert counts["ours"].total() >= 6
    assert totals["ours"] <= totals["theirs"], "layers that are not fused are quantised one by one"
    # How large both errors are on random data depends on the processor.
    assert errors["ours"] < 1.25 * errors["theirs"]


@pytest.mark.parametrize("mode", ["INT8_ASYM", "INT4_SYM"])
@pytest.mark.parametrize("name", ["bert", "vit", "swin"])
def test_compress_weights_takes_as_many_weights(name: str, mode: str, tmp_path: Path) -> None:
    model, shapes, _ = block(name, dynamic=True)
    feeds = {key: R.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    wanted = run_onnxruntime(model, feeds)[0]
    options = {"group_size": 64, "all_layers": True} if mode == "INT4_SYM" else {}
    counts, errors = {}, {}
    for side, ir in both(model, tmp_path).items():
        made = nncf.compress_weights(ir, mode=nncf.CompressWeightsMode[mode], **options)
        counts[side] = weights(made)
        errors[side] = difference(outputs(made, feeds), wanted)
    assert counts["ours"] == counts["theirs"]
    assert counts["ours"].total() > 3
    assert errors["ours"] < 1.25 * errors["theirs"]
