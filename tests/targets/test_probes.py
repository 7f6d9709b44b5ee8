"""Why the rules for OpenVINO's CPU plug-in are there: the plain IR in the real plug-in, expected to fail.

The day one of these passes, the plug-in has been mended, and the rule can go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from tests.engines import node_model, run_onnxruntime, run_openvino
from tests.random_data import generator

from .test_fusion_guards import reduced_and
from .test_quantized import convolution, qlinear, ran_in_8_bits

Probe = tuple[onnx.ModelProto, Mapping[str, np.ndarray]]


def constants_after_a_reduction() -> Probe:
    model, data = reduced_and("ReduceMean", 2, 1, "Add", [5, 3, 8])
    return model, {"x": data}


def reshape_after_a_reduction() -> Probe:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["r"], axes=[0], keepdims=0),
        helper.make_node("Reshape", ["r", "target"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1, 6]), "target")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": generator(1).random((4, 2, 3), np.float32)}


def product_of_integers() -> Probe:
    r = generator(2)
    feeds = {
        name: r.integers(-(2**14), 2**14, shape).astype(np.int32)
        for name, shape in {"a": (3, 200), "b": (200, 4)}.items()
    }
    return node_model("MatMul", feeds, opset=13), feeds


WRONG: list[tuple[str, Callable[[], Probe]]] = [
    ("fusion_guards: constants", constants_after_a_reduction),
    ("fusion_guards: reshape", reshape_after_a_reduction),
    ("integer_products", product_of_integers),
]


@pytest.mark.parametrize("build", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
@pytest.mark.xfail(strict=True, raises=AssertionError, reason="seen in OpenVINO 2026.4")
def test_the_plug_in_computes_the_plain_layers(build: Callable[[], Probe]) -> None:
    model, feeds = build()
    ir = ir_runtime.model_to_bytes(converter.convert_model(model, target="any"))
    expected = run_onnxruntime(model, feeds)
    actual = run_openvino(ir, feeds)
    for value, want in zip(actual, expected, strict=True):
        np.testing.assert_allclose(value, want, rtol=0 if want.dtype.kind == "i" else 1e-4, atol=0)


@pytest.mark.parametrize(
    "build", [lambda: convolution(np.uint8, 117, True), lambda: qlinear(1)], ids=["qdq", "qoperator"]
)
@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="seen in OpenVINO 2026.4: fake_quantize and quantized_products"
)
def test_the_plug_in_runs_the_plain_layers_in_8_bits(
    build: Callable[[], tuple[onnx.ModelProto, object, float]],
) -> None:
    ir = ir_runtime.model_to_bytes(converter.convert_model(build()[0], target="any"))
    assert ran_in_8_bits(ir)["Convolution"]
