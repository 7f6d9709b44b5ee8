"""Weights that a model holds twice, once transposed, are stored once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from tests.engines import ENGINES, run, run_onnxruntime
from tests.random_data import generator


def tied(rows: int, folded: bool, other: float = 0.0) -> onnx.ModelProto:
    """An embedding whose matrix scores the result, transposed by a node or in the file."""
    matrix = generator(1).standard_normal((rows, 32)).astype(np.float32)
    turned = matrix.T.copy()
    turned[-1, -1] += other
    nodes = [helper.make_node("Gather", ["matrix", "ids"], ["x"])]
    if not folded:
        nodes.append(helper.make_node("Transpose", ["matrix"], ["turned"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", "turned"], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 5])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5, rows])],
        [numpy_helper.from_array(matrix, "matrix")] + ([numpy_helper.from_array(turned, "turned")] if folded else []),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("rows", [1024, 3000])
def test_a_tied_matrix_is_stored_once(rows: int, folded: bool) -> None:
    model = tied(rows, folded)
    ir = ir_runtime.model_to_bytes(converter.convert_model(model))
    assert len(ir[1]) < 1.1 * rows * 32 * 4
    feeds = {"ids": np.array([[0, 3, 1, rows - 1, 7]])}
    expected = run_onnxruntime(model, feeds)[0]
    for engine in ENGINES:
        np.testing.assert_allclose(run(engine, ir, feeds)[0], expected, rtol=1e-4, atol=1e-4, err_msg=engine)


@pytest.mark.parametrize(("rows", "other"), [(1024, 1.0), (256, 0.0)])
def test_weights_that_are_not_shared_are_stored_unchanged(rows: int, other: float) -> None:
    """One number that differs; and a matrix too small for a layer to be worth it."""
    made = converter.convert_model(tied(rows, True, other))
    assert "Transpose" not in [node.op.type for node in made.nodes()]
