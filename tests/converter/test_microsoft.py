"""Conversions of onnxruntime's operators: how they hold weights, other dimensions, and domains."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.from_onnx.support import needed_operators
from tests.engines import check_node, converted, node_model
from tests.suite.reshape import Reshaping, check_reshaped, in_numpy, in_openvino

microsoft = functools.partial(node_model, opset=1, domain="com.microsoft")
R = np.random.default_rng(11)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def test_packed_weights_stay_packed() -> None:
    weights = np.random.default_rng(7).integers(0, 256, (64, 32, 16)).astype(np.uint8)
    constants = {"b": weights, "scales": np.linspace(1, 2, 64 * 32, dtype=np.float32).reshape(64, 32)}
    attributes = {"K": 1024, "N": 64, "bits": 4, "block_size": 32}
    a = np.zeros((2, 1024), np.float32)
    written = converted(microsoft("MatMulNBits", {"a": a}, constants=constants, attributes=attributes))[1]
    assert weights.tobytes() in written
    assert len(written) < weights.size + 4 * 64 * 32 + 1024


def test_numbers_of_nf4_stay_packed() -> None:
    constants = {"b": np.zeros(1 << 15, np.uint8), "absmax": np.ones(1 << 12, np.float32)}
    attributes = {"K": 256, "N": 256, "block_size": 16, "quant_type": 1}
    a = np.ones((1, 256), np.float32)
    model = converter.convert_model(microsoft("MatMulBnb4", {"a": a}, constants=constants, attributes=attributes))
    stored = [node.op.data for node in model.nodes() if node.op.data is not None]
    assert [tensor.byte_size for tensor in stored if tensor.element_type.name == "nf4"] == [1 << 15]


X, PROJECTED, HEADS = f(2, 3, 8), {"w": f(8, 24), "b": f(24)}, {"q": f(2, 3, 8), "k": f(2, 5, 8), "v": f(2, 5, 8)}
OTHER = {"q": f(3, 2, 8), "k": f(3, 6, 8), "v": f(3, 6, 8)}


@pytest.mark.parametrize(
    ("op_type", "inputs", "constants", "attributes", "other", "layers"),
    [
        ("Attention", {"x": X}, PROJECTED, {"unidirectional": 1}, {"x": f(3, 5, 8)}, 12),
        ("Attention", {"x": X, **PROJECTED, "m": i(2, 3)}, {}, {}, {"x": f(3, 4, 8), "m": i(4, 1, 3)}, 22),
        ("Attention", {"x": X, **PROJECTED, "m": i(3, 2, 1, 0)}, {}, {}, {"x": f(1, 4, 8), "m": i(3, 1)}, 28),
        ("MultiHeadAttention", HEADS, {"b": f(24)}, {}, OTHER, 12),
    ],
    ids=["causal", "lengths", "ends-starts", "bias"],
)
def test_other_dimensions_than_declared(
    op_type: str, inputs: Any, constants: Any, attributes: Any, other: Any, layers: int
) -> None:
    model = microsoft(op_type, inputs, attributes={"num_heads": 2, **attributes}, constants=constants)
    check_reshaped(model, inputs, {**inputs, **other})
    assert len([node for node in converter.convert_model(model).nodes() if not node.op.role]) == layers


def test_a_list_of_lengths_is_not_taken_for_ends_and_starts() -> None:
    """One row's length, declared, and then two numbers: they would be its end and its start."""
    feeds = {"x": f(1, 3, 8), **PROJECTED, "m": i(2)}
    written = converted(microsoft("Attention", feeds, attributes={"num_heads": 2}))
    data = {**feeds, "m": i(3, 1)}
    case = Reshaping("ends and starts", {name: list(value.shape) for name, value in data.items()}, data, [])
    with pytest.raises(ir_runtime.ModelError):
        in_numpy(written, case)
    with pytest.raises(RuntimeError):
        in_openvino(written, case)


@pytest.mark.parametrize("opset", [11, 14, 16])
def test_layer_normalization_below_version_17_has_no_problem(opset: int) -> None:
    """onnxruntime's optimizer leaves it so in files of these opsets."""
    model = node_model("LayerNormalization", {"x": X}, constants={"s": f(8), "b": f(8)}, opset=opset)
    assert [entry.problem for entry in needed_operators(model)] == [""]


def test_a_domain_of_one_version_need_not_be_imported(caplog: pytest.LogCaptureFixture) -> None:
    inputs = {"a": f(3, 4), "b": f(4, 5)}
    model = microsoft("TransposeMatMul", inputs)
    del model.opset_import[1]
    check_node(model, inputs, [inputs["a"] @ inputs["b"]])
    assert "does not import the domain 'com.microsoft'; its only version, 1, is taken" in caplog.text
    assert [(entry.opset, entry.problem) for entry in needed_operators(model)] == [(1, "")]
