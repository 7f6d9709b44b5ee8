"""The pipeline: registered passes, in order, each with the count of its changes; bodies take part."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.compression.float16_constants import halve
from ir_runtime import Model
from ir_runtime.graph.element_types import f16, f32
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.trace import PassTrace
from tests.engines import run_numpy, run_onnxruntime, run_openvino
from tests.ir_runtime.test_pipeline import entry


def test_passes_run_in_the_order_of_the_list() -> None:
    passes = Pipeline(None, [entry("z_first"), entry("a_last", after=["z_first"])])
    ran: list[str] = []

    def recorded(name: str, changed: bool) -> None:
        def run(model: Model, trace: PassTrace) -> int:
            ran.append(name)
            return changed

        passes.register(name)(run)

    for name, changed in (("a_last", True), ("z_first", False)):
        recorded(name, changed)
    assert passes.run(Model()) == {"a_last": 1}
    assert ran == ["z_first", "a_last"]
    with pytest.raises(ir_runtime.InternalError, match="'a_last' is registered twice"):
        recorded("a_last", True)


def test_weights_of_bodies_are_halved_too() -> None:
    generator = np.random.default_rng(5)
    weights = generator.standard_normal((4, 4)).astype(np.float32)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, 4]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 4]),
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.array(3), "trips")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = converter.convert_model(proto)
    halved = model.clone()
    assert halve(halved).count

    def types(model: Model) -> list[object]:
        return [
            n.op.data.element_type
            for part in model.all_models()
            for n in part.nodes()
            if n.op.data is not None and n.op.data.size == 16
        ]

    assert types(model) == [f32]
    assert types(halved) == [f16]
    x = generator.standard_normal((2, 4)).astype(np.float32)
    (expected,) = run_onnxruntime(proto, {"x": x})
    for run in (run_numpy, run_openvino):
        np.testing.assert_allclose(run(ir_runtime.model_to_bytes(halved), {"x": x})[0], expected, rtol=2e-2, atol=2e-2)
