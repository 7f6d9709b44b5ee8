"""How conversions hold weights of onnxruntime's operators."""

from __future__ import annotations

import functools

import numpy as np

import converter
from tests.engines import converted, node_model

microsoft = functools.partial(node_model, opset=1, domain="com.microsoft")


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
