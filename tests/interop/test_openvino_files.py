"""Files that OpenVINO itself writes, its importer, and nncf, which quantises our IR as it does that of the importer."""

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
from openvino import opset16 as ops

import converter
import ir_runtime
from benchmarks.nncf_parity import Counts, activations
from benchmarks.nncf_parity import weights as rounded_weights
from tests.engines import core, run_onnxruntime, run_openvino
from tests.random_data import generator
from tests.rows.formula import Graph, Idiom, Value, all_idioms

# --- files that OpenVINO itself writes, and its importer: read here, with OpenVINO's numbers ---

RNG = generator(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def classifier() -> openvino.Model:
    x = ops.parameter([-1, 3, 16, 16], openvino.Type.f32, name="image")
    x.output(0).set_names({"image", "with,comma"})
    y = ops.convolution(x, ops.constant(weights(8, 3, 3, 3)), [1, 1], [1, 1], [1, 1], [1, 1])
    y = ops.relu(ops.add(y, ops.constant(weights(1, 8, 1, 1))))
    y = ops.avg_pool(y, [2, 2], [0, 0], [0, 0], [2, 2], True, "floor", "explicit", [1, 1])
    y = ops.reduce_mean(y, ops.constant(np.array([2, 3])), keep_dims=False)
    y = ops.matmul(y, ops.constant(weights(8, 5)), False, False)
    y = ops.softmax(y, 1)
    y.output(0).set_names({"probabilities"})
    return openvino.Model([y], [x], "classifier")


def test_a_compressed_model_keeps_numbers_names_and_marks(tmp_path: Path) -> None:
    """Without compression files of layers and of the importer are read by rows."""
    path, feeds = tmp_path / "m.xml", {"image": weights(2, 3, 16, 16)}
    openvino.save_model(classifier(), path, compress_to_fp16=True)
    model = ir_runtime.read_model(path)
    assert set(model.inputs[0].names) == {"image", "with,comma"}
    compiled = ir_runtime.compile_model(model)
    assert compiled.output_names == ["probabilities"]
    xml, weights_ = ir_runtime.model_to_bytes(model)
    marks = path.read_text().count('<attribute name="decompression"')
    assert xml.decode().count('<attribute name="decompression"') == marks > 0
    theirs = core().read_model(xml, weights_)
    assert [op.get_friendly_name() for op in theirs.get_parameters()] == [node.name for node in model.parameters]
    (expected,) = core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(feeds).to_tuple()
    for value in (compiled(feeds)[0], *run_openvino((xml, weights_), feeds)):
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


# --- operations outside all opsets that OpenVINO's importer writes into IRs ---

TEXT = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[b,s,64] q, float[b,s,32] k, float[b,s,32] v,
    float[b,2,p,16] pk, float[b,2,p,16] pv, int32[b] last, int32[1] total, float[64,8] cosines, float[64,8] sines,
    float[b,4,s,t] bias) => (float[b,s,64] y, float[b,2,t,16] keys, float[b,2,t,16] values) {
    y, keys, values = com.microsoft.GroupQueryAttention <num_heads=4, kv_num_heads=2, %s> (q, k, v, pk, pv, last, total, %s)
}"""
FORMS = {
    "plain": ("scale=0.3", "'', '', '', ''"),
    "smooth": ("smooth_softmax=1", "'', '', '', ''"),
    "rotary": ("do_rotary=1", "cosines, sines, '', ''"),
    "interleaved_window": ("do_rotary=1, rotary_interleaved=1, local_window_size=3", "cosines, sines, '', ''"),
    "bias": ("do_rotary=0", "'', '', '', bias"),
}
SIZES = [(1, 1, 3), (2, 1, 5), (1, 4, 0), (2, 3, 0), (1, 3, 4)]
"""Rows, new positions and past ones."""


def _model(form: str) -> onnx.ModelProto:
    attributes, inputs = FORMS[form]
    model = onnx.parser.parse_model(TEXT % (attributes, inputs.replace("''", "")))
    unread = {entry.name for entry in model.graph.input} - set(model.graph.node[0].input)
    for entry in [entry for entry in model.graph.input if entry.name in unread]:
        model.graph.input.remove(entry)
    return model


@pytest.mark.parametrize("form", FORMS)
def test_group_query_attention_of_the_importer_computes_what_onnxruntime_does(form: str, tmp_path: Path) -> None:
    model, path = _model(form), tmp_path / "m.xml"
    onnx.save(model, tmp_path / "m.onnx")
    openvino.save_model(openvino.convert_model(tmp_path / "m.onnx"), path, compress_to_fp16=False)
    assert 'version="extension"' in path.read_text()
    assert 'element_type="dynamic"' in path.read_text()
    read = ir_runtime.read_model(path)
    converter.save_model(read, tmp_path / "again.xml")
    compiled = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "again.xml"))
    exported = converter.export_model(path, contrib=True)
    rng = np.random.default_rng(0)
    for rows, steps, past in SIZES:
        shapes = {"q": (rows, steps, 64), "bias": (rows, 4, steps, past + steps), "cosines": (64, 8), "sines": (64, 8)}
        shapes |= {"k": (rows, steps, 32), "v": (rows, steps, 32), "pk": (rows, 2, past, 16), "pv": (rows, 2, past, 16)}
        feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        feeds["last"], feeds["total"] = np.full(rows, past + steps - 1, np.int32), np.array([past + steps], np.int32)
        feeds = {entry.name: feeds[entry.name] for entry in model.graph.input}
        expected = run_onnxruntime(model, feeds)
        outputs = compiled(feeds)
        for name, wanted, again in zip(("y", "keys", "values"), expected, run_onnxruntime(exported, feeds)):
            np.testing.assert_allclose(outputs[name], wanted, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(again, wanted, rtol=1e-4, atol=1e-5)


def test_export_without_contrib_operators_names_the_layer(tmp_path: Path) -> None:
    onnx.save(_model("plain"), tmp_path / "m.onnx")
    openvino.save_model(openvino.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    with pytest.raises(converter.ConversionError, match=r"GroupQueryAttention-0.*--contrib"):
        converter.export_model(tmp_path / "m.xml")


# --- nncf quantises our IR as it does the IR of OpenVINO's own importer: fused layers lose no quantisation ---

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
    counts = activations(model) + rounded_weights(model)
    counts["MatMul"] += counts.pop("ScaledDotProductAttention", 0)
    return Counts({kind: count for kind, count in counts.items() if kind.split()[0] in ("MatMul", "Convolution")})


def outputs(model: openvino.Model, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    compiled = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(next(iter(compiled(dict(feeds)).values())))


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
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
        errors[side] = distance(outputs(made, samples[0]), wanted)
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
        counts[side] = rounded_weights(made)
        errors[side] = distance(outputs(made, feeds), wanted)
    assert counts["ours"] == counts["theirs"]
    assert counts["ours"].total() > 3
    assert errors["ours"] < 1.25 * errors["theirs"]
