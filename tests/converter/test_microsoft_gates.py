"""onnxruntime's gates, RMS normalizations and hyper-connections through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, opened
from tests.random_data import generator

BATCH, STEPS, STREAMS, WIDTH = 2, 3, 4, 6
TYPES = (np.float32, np.float16)


def values(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    return generator(seed).standard_normal(shape).astype(dtype)


def check(
    op_type: str,
    inputs: Mapping[str, np.ndarray],
    order: Sequence[str] | None = None,
    outputs: int = 1,
    **attributes: Any,
) -> None:
    """Compare both engines with onnxruntime, with the shapes as they are and with open ones."""
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": order, "outputs": outputs}
    model = node_model(op_type, inputs, attributes=attributes, **options)
    check_node(model, dict(inputs))
    check_node(opened(model), dict(inputs))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)], ids=str)
def test_gated_add(dtype: Any, leading: tuple[int, ...]) -> None:
    x, y, gate = (values(seed, dtype, *leading, width) for seed, width in ((0, 4), (1, 4), (2, 1)))
    check("GatedAdd", {"x": x, "y": y, "gate": gate})


def test_gated_add_of_a_projection_is_refused() -> None:
    inputs = {name: values(0, np.float32, 2, 4) for name in ("x", "y", "gate")}
    model = node_model("GatedAdd", {**inputs, "w": values(1, np.float32, 4, 1)}, opset=1, domain="com.microsoft")
    with pytest.raises(converter.UnsupportedModelError, match="projected by gate_weight"):
        converter.convert_model(model)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [None, np.float32, np.float16])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_scaled_silu(dtype: Any, scale: Any, shape: tuple[int, ...]) -> None:
    inputs = {"x": values(3, dtype, *shape) * dtype(4)}
    if scale is not None:
        inputs["scale"] = np.array(1.7, scale)
    check("ScaledSiLU", inputs, alpha=0.3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid"])
@pytest.mark.parametrize("groups", [1, 3])
def test_gated_rms_norm(dtype: Any, activation: str, groups: int) -> None:
    x, gate = (values(seed, dtype, BATCH, STEPS, groups * WIDTH) for seed in (4, 5))
    scale = values(6, dtype, WIDTH)
    check("GatedRMSNorm", {"x": x, "scale": scale, "gate": gate}, activation=activation, epsilon=1e-3)


def test_gated_rms_norm_of_an_unknown_activation() -> None:
    inputs = {"x": values(0, np.float32, 2, 4), "scale": values(1, np.float32, 4), "gate": values(2, np.float32, 2, 4)}
    model = node_model("GatedRMSNorm", inputs, opset=1, domain="com.microsoft", attributes={"activation": "relu"})
    with pytest.raises(converter.InvalidModelError, match="must be silu, swish or sigmoid, but is 'relu'"):
        converter.convert_model(model)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [None, (WIDTH,), (STREAMS, WIDTH), (STREAMS * WIDTH,)], ids=str)
@pytest.mark.parametrize("is_flat", [False, True])
def test_branchwise_rms_norm(dtype: Any, scale: tuple[int, ...] | None, is_flat: bool) -> None:
    shape = (BATCH, STREAMS * WIDTH) if is_flat else (BATCH, STEPS, STREAMS, WIDTH)
    inputs = {"x": values(7, dtype, *shape)}
    if scale is not None:
        inputs["scale"] = values(8, np.float32, *scale)
    check("BranchwiseRMSNorm", inputs, num_branches=STREAMS if is_flat else 0)


def gates(is_flat: bool) -> list[tuple[int, ...]]:
    return [(STREAMS,), (STREAMS, 1), (STREAMS, WIDTH), *([(STREAMS * WIDTH,)] if is_flat else [])]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("is_flat", "gate"), [(flat, gate) for flat in (False, True) for gate in gates(flat)], ids=str)
def test_hyper_connection_pre_mix(dtype: Any, is_flat: bool, gate: tuple[int, ...]) -> None:
    shape = (BATCH, STEPS, STREAMS * WIDTH) if is_flat else (BATCH, STEPS, STREAMS, WIDTH)
    inputs = {"streams": values(9, dtype, *shape), "gates": values(10, np.float32, BATCH, STEPS, *gate)}
    check("HyperConnectionPreMix", inputs, num_branches=STREAMS if is_flat else 0, reduction_scale=0.7)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize(
    ("is_flat", "gate"), [(flat, gate) for flat in (False, True) for gate in gates(False)], ids=str
)
def test_hyper_connection_post_mix(dtype: Any, is_mixed: bool, is_flat: bool, gate: tuple[int, ...]) -> None:
    shape = (BATCH, STEPS, STREAMS * WIDTH) if is_flat else (BATCH, STEPS, STREAMS, WIDTH)
    inputs = {
        "streams": values(11, dtype, *shape),
        "block": values(12, dtype, BATCH, STEPS, WIDTH),
        "gates": values(13, np.float32, BATCH, STEPS, *gate),
    }
    if is_mixed:
        inputs["mix"] = values(14, np.float32, BATCH, STEPS, STREAMS, STREAMS)
    check("HyperConnectionPostMix", inputs, num_branches=STREAMS if is_flat else 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_normalized", [False, True])
def test_engram_gate(dtype: Any, is_normalized: bool) -> None:
    inputs = {
        "key": values(15, dtype, BATCH, STEPS, STREAMS, WIDTH),
        "query": values(16, dtype, BATCH, STEPS, STREAMS, WIDTH),
        "value": values(17, dtype, BATCH, STEPS, WIDTH),
        "key_scale": values(18, dtype, STREAMS, WIDTH),
        "query_scale": values(19, dtype, STREAMS, WIDTH),
    }
    if is_normalized:
        inputs["scale"] = values(20, dtype, STREAMS, WIDTH)
    check("EngramGate", inputs, outputs=1 + is_normalized, epsilon=1e-4)


def test_engram_gate_without_the_scale_of_its_second_output() -> None:
    inputs = {name: values(0, np.float32, 1, 2, 3, 4) for name in ("key", "query")}
    inputs |= {
        "value": values(1, np.float32, 1, 2, 4),
        "k": values(2, np.float32, 3, 4),
        "q": values(3, np.float32, 3, 4),
    }
    model = node_model("EngramGate", inputs, opset=1, domain="com.microsoft", outputs=2)
    with pytest.raises(converter.InvalidModelError, match="requires the input conv_norm_scale"):
        converter.convert_model(model)
