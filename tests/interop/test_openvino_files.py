"""Files that OpenVINO itself writes, and its importer: read here, with OpenVINO's numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from openvino import opset16 as ops

import converter
import ir_runtime
from tests.engines import core, run_onnxruntime, run_openvino
from tests.random_data import generator

# --- files that OpenVINO itself writes: read here, run in NumPy, with OpenVINO's numbers ---

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


def shapes() -> openvino.Model:
    x = ops.parameter([-1, -1, 4], openvino.Type.f32, name="x")
    dimensions = ops.shape_of(x, "i64")
    rows = ops.gather(dimensions, ops.constant(np.array([0])), ops.constant(0))
    y = ops.reshape(x, ops.concat([rows, ops.constant(np.array([-1]))], 0), False)
    top = ops.topk(y, ops.constant(2), 1, "max", "value")
    return openvino.Model([top.output(0), top.output(1), y.output(0)], [x], "shapes")


FEEDS = {classifier: {"image": weights(2, 3, 16, 16)}, shapes: {"x": weights(3, 2, 4)}}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("build", FEEDS, ids=lambda build: build.__name__)
def test_saved_model(build: Callable[[], openvino.Model], compressed: bool, tmp_path: Path) -> None:
    model, feeds = build(), FEEDS[build]
    for port, name in zip(model.inputs, feeds):
        port.add_names({name})
    path = tmp_path / "m.xml"
    openvino.save_model(model, path, compress_to_fp16=compressed)
    expected = core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(list(feeds.values())).to_tuple()
    ours = ir_runtime.read_model(path)
    result = ir_runtime.compile_model(ours)(list(feeds.values()))
    assert len(result) == len(expected)
    for value, want in zip(result.to_list(), expected):
        assert value.dtype == want.dtype
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
    # What was read can be written again, and OpenVINO still computes the same.
    for value, want in zip(run_openvino(ir_runtime.model_to_bytes(ours), feeds), expected):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


def test_names_and_compression_marks_are_kept(tmp_path: Path) -> None:
    openvino.save_model(classifier(), tmp_path / "m.xml", compress_to_fp16=True)
    model = ir_runtime.read_model(tmp_path / "m.xml")
    assert set(model.inputs[0].names) == {"image", "with,comma"}
    assert ir_runtime.compile_model(model).output_names == ["probabilities"]
    xml, weights_ = ir_runtime.model_to_bytes(model)
    marks = (tmp_path / "m.xml").read_text().count('<attribute name="decompression"')
    assert xml.decode().count('<attribute name="decompression"') == marks > 0
    theirs = core().read_model(xml, weights_)
    assert [op.get_friendly_name() for op in theirs.get_parameters()] == [node.name for node in model.parameters]


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
