"""Attention and RotaryEmbedding: their layers, and other heads than the declared ones."""

from __future__ import annotations

from typing import Any

import pytest

import converter
import ir_runtime
from tests.engines import check_node, converted, core, node_model
from tests.rows.onnx.attention import PLACES, QKV, SHARED, Q, f, mask
from tests.suite.reshape import Reshaping, check_reshaped, in_numpy, in_openvino

FLAT = {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 12)}
ONE = {"q": Q, "k": f(2, 1, 5, 8), "v": f(2, 1, 5, 6)}


def types_of(inputs: dict[str, Any], opset: int, attributes: dict[str, Any]) -> list[str]:
    model = converter.convert_model(node_model("Attention", inputs, opset=opset, attributes=attributes))
    return [node.op.type for node in model.nodes() if not node.op.role]


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [({**QKV, "m": mask(3, 5)}, {"is_causal": 1}), (FLAT, {"q_num_heads": 4, "kv_num_heads": 2})],
    ids=["mask_causal", "rows"],
)
def test_attention_is_one_layer_among_others(inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    types = types_of(inputs, 24, attributes)
    assert types.count("ScaledDotProductAttention") == 1
    assert not {"MatMul", "SoftMax"} & set(types)


@pytest.mark.parametrize(
    ("inputs", "other", "attributes", "layers"),
    [
        (QKV, (3, 2, 2, 6, 7), {}, 1),
        (QKV, (1, 4, 4, 9, 9), {"is_causal": 1, "scale": 0.3}, 1),
        (ONE, (1, 6, 1, 4, 7), {}, 1),
        (ONE, (1, 6, 6, 4, 7), {}, 1),
        (SHARED, (3, 8, 4, 2, 4), {}, 8),
        (SHARED, (2, 2, 1, 2, 4), {"is_causal": 1}, 8),
    ],
    ids=["plain", "causal", "one-for-more", "one-each", "pairs", "one-pair"],
)
def test_declared_heads_can_be_reshaped(
    inputs: dict[str, Any], other: tuple[int, ...], attributes: dict[str, Any], layers: int
) -> None:
    batch, n, m, queries, keys = other
    data = {"q": f(batch, n, queries, 8), "k": f(batch, m, keys, 8), "v": f(batch, m, keys, 6)}
    check_reshaped(node_model("Attention", inputs, opset=23, attributes=attributes), inputs, data)
    assert len(types_of(inputs, 23, attributes)) == layers


@pytest.mark.parametrize(("n", "m"), [(4, 2), (6, 4)])
def test_heads_that_do_not_fit_what_was_declared_are_refused(n: int, m: int) -> None:
    data = {"q": f(2, n, 3, 8), "k": f(2, m, 5, 8), "v": f(2, m, 5, 6)}
    ir = converted(node_model("Attention", QKV, opset=23))
    case = Reshaping("heads", {name: list(value.shape) for name, value in data.items()}, data, [])
    with pytest.raises(ir_runtime.ModelError):
        in_numpy(ir, case)
    with pytest.raises(RuntimeError):
        in_openvino(ir, case)


@pytest.mark.parametrize(("rotated", "width"), [(0, 64), (64, 96)], ids=["whole", "part"])
@pytest.mark.parametrize("rank", [3, 4])
def test_the_plug_in_executes_a_rotation_as_one_layer(rank: int, rotated: int, width: int) -> None:
    half = (rotated or width) // 2
    feeds = {"x": f(2, 4, 3, width) if rank == 4 else f(2, 3, 4 * width), "c": f(6, half), "s": f(6, half), "p": PLACES}
    shapes = {"x": ["b", 4, "s", width] if rank == 4 else ["b", "s", 4 * width], "p": ["b", "s"]}
    attributes = {"num_heads": 4, "rotary_embedding_dim": rotated}
    model = node_model("RotaryEmbedding", feeds, opset=23, attributes=attributes, shapes=shapes)
    check_node(model, feeds)
    compiled = core().compile_model(core().read_model(*converted(model)), "CPU")
    executed = [layer.get_rt_info()["layerType"].astype(str) for layer in compiled.get_runtime_model().get_ops()]
    assert executed.count("RoPE") == 1
    assert "Eltwise" not in executed
