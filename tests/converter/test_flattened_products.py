"""Products of rows that keep their dimensions, together with what comes after the passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime

WIDTH = 64


def blocks(count: int = 2) -> onnx.ModelProto:
    """Layers as GPT-2 has them: tokens, and products of their rows with a bias."""
    rng = np.random.default_rng(0)
    stored = {"table": rng.normal(size=(9, WIDTH)), "flat": np.array([-1, WIDTH]), "width": np.array([WIDTH])}
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["x0"]), helper.make_node("Shape", ["tokens"], ["sizes"])]
    nodes.append(helper.make_node("Concat", ["sizes", "width"], ["shape"], axis=0))
    for at in range(count):
        stored |= {f"w{at}": rng.normal(size=(WIDTH, WIDTH)) / 8, f"b{at}": rng.normal(size=WIDTH)}
        nodes += [
            helper.make_node("Reshape", [f"x{at}", "flat"], [f"rows{at}"]),
            helper.make_node("Gemm", [f"rows{at}", f"w{at}", f"b{at}"], [f"product{at}"]),
            helper.make_node("Reshape", [f"product{at}", "shape"], [f"back{at}"]),
            helper.make_node("Tanh", [f"back{at}"], [f"x{at + 1}"]),
        ]
    tensors = [
        numpy_helper.from_array(value.astype(np.float32 if value.dtype.kind == "f" else np.int64), name)
        for name, value in stored.items()
    ]
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, None)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    "options", [{}, {"compress": "int8"}, {"compress": "int4"}, {"compress_to_fp16": True}], ids=str
)
@pytest.mark.parametrize("target", ["cpu", "cpu@2023.3", "any"])
def test_together_with_compression_targets_layers_and_the_way_back(
    target: str, options: dict[str, str], tmp_path: Path
) -> None:
    onnx.save(blocks(), tmp_path / "m.onnx")
    model = converter.convert_model(tmp_path / "m.onnx", target=target)
    assert not [node for node in model.nodes() if node.op.type == "Reshape"]
    converter.save_model(model, tmp_path / "m.xml", **options)
    report = converter.verify(tmp_path / "m.onnx", tmp_path / "m.xml", layers=True)
    assert report.passed, report
    assert not report.layers_problem
    assert converter.round_trip(tmp_path / "m.xml").passed


def test_other_dimensions() -> None:
    model = converter.convert_model(blocks())
    expected = ir_runtime.compile_model(model)({"tokens": np.array([[1, 2, 3], [4, 5, 6]])})["x2"]
    model.reshape({"tokens": [2, 3]})
    found = ir_runtime.compile_model(model)({"tokens": np.array([[1, 2, 3], [4, 5, 6]])})["x2"]
    assert found.shape == (2, 3, WIDTH)
    np.testing.assert_array_equal(found, expected)
