"""Models that are edited, and the files that the recipes name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import converter
from tests.converter.optimization.models import parse

RNG = np.random.default_rng(7)
W = RNG.normal(size=(32, 10)).astype(np.float32)
KERNEL = RNG.normal(size=(32, 3, 3, 3)).astype(np.float32)
IMAGE = RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def classifier() -> onnx.ModelProto:
    """image -> features -> embedding -> logits, aux; with descriptions, names and properties."""
    graph = """
    net (float[1,3,8,8] image) => (float[1,10] logits, float[1] aux) {
        conv = Conv (image, conv_weight)
        features = Relu (conv)
        embedding = ReduceMean <axes = [2, 3], keepdims = 0> (features)
        aux = ReduceMax <axes = [1], keepdims = 0> (embedding)
        logits = MatMul (embedding, head_weight)
    }"""
    bias = np.arange(10, dtype=np.float32)
    model = parse(graph, conv_weight=KERNEL, head_weight=W, head_bias=bias)
    model.doc_string = model.graph.doc_string = "described"
    for number, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node{number}", "described"
    for key in ("labels", "owner"):
        model.metadata_props.add(key=key, value="cat,dog")
    return model


TEXT = """net (int64[batch,tokens] ids) => (float[batch,8] y) {
    embedded = Gather (table, ids)
    y = ReduceMax <axes = [1], keepdims = 0> (embedded)
}"""
PRE = """net (uint8[1,8,8,3] pixels) => (float[1,3,8,8] ready) {
    features = Cast <to = 1> (pixels)
    ready = Transpose <perm = [0, 3, 1, 2]> (features)
}"""
DETECTOR = """net (float[1,6,5] image) => (float[1,6,4] boxes, float[1,1,6] scores) {
    boxes, last = Split <axis = 2> (image, s)
    scores = Transpose <perm = [0, 2, 1]> (last)
}"""
NMS = """net (float[1,count,4] boxes, float[1,1,count] scores) => (int64[found,3] kept) {
    kept = NonMaxSuppression (boxes, scores, most, overlap)
}"""
BRANCHES = """
net (float[n,4] x, bool flag) => (float[n,4] y) {
    a = Mul (x, w)
    y = If (flag) <
        then_branch = body () => (float[n,4] then_y) { inner = Relu (a) then_y = Add (inner, w) },
        else_branch = body () => (float[n,4] else_y) { a2 = Neg (x) inner = Relu (a2) else_y = Sub (inner, a) }
    >
}"""


def branches() -> onnx.ModelProto:
    return parse(BRANCHES, w=np.array([0.5, -2, 3, 1], np.float32))


def write_files(folder: Path) -> None:
    """Write what the recipes of docs/editing.md name."""
    onnx.save(classifier(), folder / "model.onnx")
    onnx.save(classifier(), folder / "external.onnx", save_as_external_data=True, size_threshold=0, location="e.bin")
    onnx.save(parse(TEXT, table=floats(50, 8)), folder / "text.onnx")
    onnx.save(parse(PRE), folder / "pre.onnx")
    onnx.save(parse(DETECTOR, s=np.array([4, 1])), folder / "detector.onnx")
    onnx.save(parse(NMS, most=np.array([3]), overlap=np.array([0.5], np.float32)), folder / "nms.onnx")
    tensorflow = parse("net (float[2] x) => (float[2] z) { y = Relu (x) z = Neg (y) }")
    for names in (tensorflow.graph.input, tensorflow.graph.output):
        names[0].name += ":0"
    for node in tensorflow.graph.node:
        node.input[0] += ":0"
        node.output[0] += ":0"
    onnx.save(tensorflow, folder / "tensorflow.onnx")
    np.save(folder / "w.npy", W * 2)
    np.save(folder / "w64.npy", W.astype(np.float64) * 2)
    converter.save_model(converter.convert_model(classifier()), folder / "model.xml")


def ends(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    return [value.name for value in model.graph.input], [value.name for value in model.graph.output]


def shape_of(model: onnx.ModelProto, name: str) -> list[Any]:
    value = next(one for one in (*model.graph.input, *model.graph.output) if one.name == name)
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


def weight(model: onnx.ModelProto, name: str) -> Any:
    return next(numpy_helper.to_array(one) for one in model.graph.initializer if one.name == name)
