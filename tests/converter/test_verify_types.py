"""verify of inputs and outputs that NumPy has no types for: onnxruntime gives them back as bytes, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
from tests.engines import run_onnxruntime

OF_FLOATS = [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2]
FOUR_BITS = [TensorProto.INT4, TensorProto.UINT4]


def cast(source: int, target: int, extra: bool = False) -> onnx.ModelProto:
    """A Cast between two types; ``extra`` gives the input back as well."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=target), helper.make_node("Identity", ["x"], ["z"])]
    outputs = [helper.make_tensor_value_info("y", target, ["n"]), helper.make_tensor_value_info("z", source, ["n"])]
    graph = helper.make_graph(
        nodes[: 1 + extra], "g", [helper.make_tensor_value_info("x", source, ["n"])], outputs[: 1 + extra]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def saved(tmp_path: Path, model: onnx.ModelProto) -> tuple[Path, Path]:
    onnx.save(model, tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    return tmp_path / "m.onnx", tmp_path / "m.xml"


@pytest.mark.parametrize("kind", [*OF_FLOATS, *FOUR_BITS])
@pytest.mark.parametrize("extra", [False, True])
def test_outputs(tmp_path: Path, kind: int, extra: bool) -> None:
    # Of floats onnxruntime rounds to 4 bits what the specification cuts off.
    source = TensorProto.INT8 if kind in FOUR_BITS else TensorProto.FLOAT
    report = converter.verify(*saved(tmp_path, cast(source, kind, extra)))
    assert report.passed
    assert report.oracle.startswith("onnxruntime")


@pytest.mark.parametrize("kind", OF_FLOATS)
@pytest.mark.parametrize("target", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_inputs(tmp_path: Path, kind: int, target: int) -> None:
    report = converter.verify(*saved(tmp_path, cast(kind, target)))
    assert report.passed
    assert report.oracle.startswith("onnxruntime")


@pytest.mark.parametrize("kind", [*OF_FLOATS, *FOUR_BITS])
def test_wrong_numbers_are_seen(tmp_path: Path, kind: int) -> None:
    path, xml = saved(tmp_path, cast(TensorProto.FLOAT, kind))
    other = cast(TensorProto.FLOAT, kind)
    other.graph.node[0].input[0] = "w"
    other.graph.node.insert(0, helper.make_node("Neg", ["x"], ["w"]))
    converter.save_model(converter.convert_model(other), xml)
    assert not converter.verify(path, xml).passed


@pytest.mark.parametrize(
    ("kind", "values"), [(TensorProto.BFLOAT16, [1.0, 257.0]), (TensorProto.FLOAT8E4M3FN, [1.0625, 400.0])]
)
def test_the_oracle_rounds_as_the_type_does(kind: int, values: list[float]) -> None:
    """bfloat16 has 8 bits of mantissa, of which 257 needs 9; 1.0625 lies between 1 and 1.125, and goes to the even."""
    (found,) = run_onnxruntime(cast(TensorProto.FLOAT, kind), {"x": np.array(values, np.float32)})
    expected = {TensorProto.BFLOAT16: [1.0, 256.0], TensorProto.FLOAT8E4M3FN: [1.0, 384.0]}[kind]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(kind)
    assert found.astype(np.float64).tolist() == expected
