"""Group normalisation as torch spells it out: other shapes, older releases, unknown ranks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from tests.converter.idioms import rows
from tests.converter.idioms.graphs import Graph, Idiom
from tests.engines import ENGINES, run, run_onnxruntime

ROW: Idiom = rows("IDIOMS")["group normalization"]


def model_of(shape: Sequence[int | str] | None) -> onnx.ModelProto:
    """Three channels through a convolution and a group normalisation, for an input of the given shape."""
    graph = Graph()
    model = graph.model(ROW, False, ROW.build(graph, random.Random(2)))
    declared = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    model.graph.input[0].CopyFrom(declared)
    return model


def layers(model: ir_runtime.Model) -> list[str]:
    return [node.op.type for node in model.nodes()]


@pytest.mark.parametrize("target", ["any", "cpu", "cpu@2023.3", "cpu@2024.6"])
def test_releases(target: str) -> None:
    """GroupNormalization is of opset 12, which the oldest target has."""
    assert "GroupNormalization" in layers(converter.convert_model(model_of([2, 3, 4, 5]), target=target))


@pytest.mark.parametrize("shape", [(1, 3, 7, 3), (5, 3, 1, 2), (0, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_other_shapes(engine: str, shape: tuple[int, ...]) -> None:
    """Declared as one shape, and given another one: the layer has only the number of channels in it."""
    made = converter.convert_model(model_of([2, 3, 4, 5]))
    assert "GroupNormalization" in layers(made)
    made.reshape({"x": list(shape)})
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    (value,) = run(engine, ir_runtime.model_to_bytes(made), {"x": x})
    (wanted,) = run_onnxruntime(model_of(["n", 3, "h", "w"]), {"x": x}) if x.size else (np.zeros((0, 6, 4, 5)),)
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


def test_unknown_channels() -> None:
    """Without a convolution before it the number of channels may be another one at run time."""
    model = model_of(["n", "c", "h", "w"])
    assert "GroupNormalization" in layers(converter.convert_model(model))
    plain = [node for node in model.graph.node if node.op_type != "Conv"]
    convolution = next(node for node in model.graph.node if node.op_type == "Conv")
    for node in plain:
        node.input[:] = ["x" if name == convolution.output[0] else name for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend(plain)
    assert "GroupNormalization" not in layers(converter.convert_model(model))
