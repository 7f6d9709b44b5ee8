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
from tests.converter.idioms.graphs import Graph, Row
from tests.engines import core, run_onnxruntime
from tests.random_data import generator

R = generator(7)
WIDTH, HEADS = 64, 4
TOKENS, IMAGE = {"x": (2, 12, WIDTH)}, {"x": (2, 3, 16, 16)}
LAST = {"x": (2, WIDTH, 8, 8)}
TRANSFORMER = nncf.ModelType.TRANSFORMER


def linear(graph: Graph, value: str, inputs: int, outputs: int) -> str:
    """A product with weights and a bias; as torch writes it, the bias comes first."""
    product = graph("MatMul", value, graph.constant(R.standard_normal((inputs, outputs)) / inputs**0.5))
    return graph("Add", graph.constant(R.standard_normal(outputs) * 0.1), product)


def normalized(graph: Graph, value: str) -> str:
    """A layer normalization, spelled out, with a scale and a shift of its own."""
    centred = graph("Sub", value, graph("ReduceMean", value, axes=[-1]))
    variance = graph("ReduceMean", graph("Pow", centred, graph.constant(2)), axes=[-1])
    made = graph("Div", centred, graph("Sqrt", graph("Add", variance, graph.constant(1e-5))))
    made = graph("Mul", made, graph.constant(R.uniform(0.5, 2, WIDTH)))
    return graph("Add", made, graph.constant(R.standard_normal(WIDTH) * 0.1))


def gelu(graph: Graph, value: str) -> str:
    error = graph("Erf", graph("Div", value, graph.constant(2**0.5)))
    return graph("Mul", graph("Mul", value, graph("Add", error, graph.constant(1))), graph.constant(0.5))


def dense(graph: Graph, value: str) -> str:
    """The two products between which a Gelu stands."""
    return linear(graph, gelu(graph, linear(graph, value, WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH)


def weighted(graph: Graph, scores: str, values: str, *masks: Any) -> str:
    """Softmax of the masked scores times the values, and the heads side by side again."""
    for mask in masks:
        scores = graph("Add", scores, graph.constant(mask))
    heads = graph("MatMul", graph("Softmax", scores, axis=-1), values)
    return graph("Transpose", heads, perm=[0, 2, 1, 3])


def bert(graph: Graph) -> str:
    """Products of their own for queries, keys and values; normalizations come last."""
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        split = graph("Reshape", linear(graph, "x", WIDTH, WIDTH), graph.integers([0, 0, HEADS, -1]))
        parts.append(graph("Transpose", split, perm=order))
    scores = graph("Div", graph("MatMul", *parts[:2]), graph.constant(4))
    mask = np.where(np.arange(12) < 9, 0, -1e4)[None, None, None]
    joined = graph("Reshape", weighted(graph, scores, parts[2], mask), graph.integers([0, 0, WIDTH]))
    value = normalized(graph, graph("Add", linear(graph, joined, WIDTH, WIDTH), "x"))
    return normalized(graph, graph("Add", dense(graph, value), value))


def of_one_product(graph: Graph, value: str, shape: list[int]) -> list[str]:
    """Queries, keys and values from one product."""
    split = graph("Reshape", linear(graph, value, WIDTH, 3 * WIDTH), graph.integers(shape))
    turned = graph("Transpose", split, perm=[2, 0, 3, 1, 4])
    return [graph("Gather", turned, graph.integers(index), axis=0) for index in range(3)]


def vit(graph: Graph) -> str:
    """Patches of an image by a convolution; normalizations come first."""
    kernel = graph.constant(R.standard_normal((WIDTH, 3, 4, 4)) / 7)
    patches = graph("Conv", "x", kernel, graph.constant(R.standard_normal(WIDTH)), strides=[4, 4], kernel_shape=[4, 4])
    flat = graph("Transpose", graph("Reshape", patches, graph.integers([0, WIDTH, -1])), perm=[0, 2, 1])
    flat = graph("Add", flat, graph.constant(R.standard_normal((1, 16, WIDTH))))
    queries, keys, values = of_one_product(graph, normalized(graph, flat), [0, 16, 3, HEADS, -1])
    root = graph.constant(16**-0.25)
    keys = graph("Mul", graph("Transpose", keys, perm=[0, 1, 3, 2]), root)
    scores = graph("MatMul", graph("Mul", queries, root), keys)
    joined = graph("Reshape", weighted(graph, scores, values), graph.integers([0, 16, WIDTH]))
    value = graph("Add", flat, linear(graph, joined, WIDTH, WIDTH))
    value = graph("Add", value, dense(graph, normalized(graph, value)))
    return linear(graph, normalized(graph, value), WIDTH, 10)


def swin(graph: Graph, shifted: bool) -> str:
    """Windows of 4 x 4, a bias of places, and for windows that are shifted a mask of their own."""
    image = graph("Reshape", graph("Transpose", "x", perm=[0, 2, 3, 1]), graph.integers([-1, 64, WIDTH]))
    grid = graph("Reshape", normalized(graph, image), graph.integers([-1, 2, 4, 2, 4, WIDTH]))
    rows = graph("Transpose", grid, perm=[0, 1, 3, 2, 4, 5])
    windows = graph("Reshape", rows, graph.integers([-1, 16, WIDTH]))
    queries, keys, values = of_one_product(graph, windows, [-1, 16, 3, HEADS, WIDTH // HEADS])
    queries = graph("Mul", queries, graph.constant(0.25))
    scores = graph("MatMul", queries, graph("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = graph("Add", scores, graph.constant(R.standard_normal((1, HEADS, 16, 16))))
    if shifted:
        each = graph("Reshape", scores, graph.integers([-1, 4, HEADS, 16, 16]))
        mask = np.where(R.random((1, 4, 1, 16, 16)) < 0.7, 0, -100)
        scores = graph("Reshape", graph("Add", each, graph.constant(mask)), graph.integers([-1, HEADS, 16, 16]))
    joined = graph("Reshape", weighted(graph, scores, values), graph.integers([-1, 16, WIDTH]))
    grid = graph("Reshape", linear(graph, joined, WIDTH, WIDTH), graph.integers([-1, 2, 2, 4, 4, WIDTH]))
    rows = graph("Transpose", grid, perm=[0, 1, 3, 2, 4, 5])
    value = graph("Add", image, graph("Reshape", rows, graph.integers([-1, 64, WIDTH])))
    return graph("Add", value, dense(graph, normalized(graph, value)))


def convolution(graph: Graph, value: str, channels: int = WIDTH) -> str:
    weight = R.standard_normal((WIDTH, channels, 3, 3)) / (9 * channels) ** 0.5
    return graph("Conv", value, graph.constant(weight), kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def channels(graph: Graph, low: float = 0.5, high: float = 2) -> str:
    return graph.constant(R.uniform(low, high, (1, WIDTH, 1, 1)))


def hswish(graph: Graph, value: str) -> str:
    total = graph("Clip", graph("Add", value, graph.constant(3)), graph.constant(0), graph.constant(6))
    return graph("Div", graph("Mul", value, total), graph.constant(6))


def swish(graph: Graph, value: str) -> str:
    return graph("Mul", value, graph("Sigmoid", value))


def prelu(graph: Graph, value: str) -> str:
    below = graph("Neg", graph("Relu", graph("Neg", value)))
    return graph("Add", graph("Relu", value), graph("Mul", channels(graph, 0.1, 0.4), below))


def group_normalization(graph: Graph, value: str) -> str:
    ones, zeros = (graph.constant([number] * 8) for number in (1, 0))
    split = graph("InstanceNormalization", graph("Reshape", value, graph.integers([0, 8, -1])), ones, zeros)
    made = graph("Mul", graph("Reshape", split, graph("Shape", value)), channels(graph))
    return graph("Add", made, channels(graph, -0.1, 0.1))


def scaled(graph: Graph, value: str) -> str:
    """A batch normalization, spelled out: a scale and a shift of each channel."""
    return graph("Relu", graph("Add", graph("Mul", value, channels(graph)), channels(graph, -0.1, 0.1)))


def between_convolutions(activation: Callable[[Graph, str], str]) -> Callable[[Graph], str]:
    """Two convolutions, each with the activation, and a sum; the second does not read what the sum reads."""

    def build(graph: Graph) -> str:
        first = activation(graph, convolution(graph, "x"))
        second = activation(graph, convolution(graph, first))
        return convolution(graph, graph("Add", first, second))

    return build


BLOCKS: dict[str, tuple[Callable[[Graph], str], Mapping[str, tuple[int, ...]], Any]] = {
    "bert": (bert, TOKENS, TRANSFORMER),
    "vit": (vit, IMAGE, TRANSFORMER),
    "vit as any model": (vit, IMAGE, None),
    "swin": (lambda graph: swin(graph, shifted=False), LAST, TRANSFORMER),
    "swin with shifted windows": (lambda graph: swin(graph, shifted=True), LAST, TRANSFORMER),
    **{
        name: (between_convolutions(activation), LAST, None)
        for name, activation in {
            "hswish": hswish,
            "swish": swish,
            "prelu": prelu,
            "gelu": gelu,
            "group normalization": group_normalization,
            "folded scales": scaled,
        }.items()
    },
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    nncf.set_log_level(logging.ERROR)


def both(model: onnx.ModelProto, folder: Path) -> dict[str, openvino.Model]:
    """The IR as it is read back from our file, and the importer's."""
    xml = folder / "ours.xml"
    converter.save_model(converter.convert_model(model, target="cpu"), xml)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return {"ours": core().read_model(xml), "theirs": openvino.convert_model(folder / "model.onnx")}


def block(name: str, dynamic: bool) -> tuple[onnx.ModelProto, Mapping[str, tuple[int, ...]], Any]:
    build, shapes, kind = BLOCKS[name]
    graph = Graph()
    output = build(graph)
    return graph.model(Row(build=lambda g, _: build(g), inputs=shapes), dynamic, output), shapes, kind


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
