"""onnxruntime's fused operators through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from tests.engines import check_node, core, node_model, opened, run_numpy, run_onnxruntime, run_openvino
from tests.random_data import generator

R = generator(7)


def f(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return R.standard_normal(shape).astype(kind)


def row(
    op_type: str,
    inputs: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    domain: str = "com.microsoft",
    **more: Any,
) -> Any:
    return pytest.param(op_type, inputs, attributes or {}, {"domain": domain, **more}, id=f"{op_type}-{name}")


BLOCK: dict[str, np.ndarray] = {
    "A": f(2, 3, 32),
    "B": R.integers(0, 256, (5, 2, 8)).astype(np.uint8),
    "scales": f(5, 2),
}

ROWS = [
    row("FusedMatMul", {"A": f(2, 3, 4), "B": f(2, 4, 5)}, {"alpha": 0.5}),
    row("FusedMatMul", {"A": f(2, 4, 3), "B": f(5, 4)}, {"transA": 1, "transB": 1}, name="transposed"),
    row("FusedMatMul", {"A": f(3, 2, 4), "B": f(2, 4, 5)}, {"transBatchA": 1}, name="batch-a"),
    row(
        "FusedMatMul",
        {"A": f(4, 2, 6, 3), "B": f(5, 2, 6, 4)},
        {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1},
        name="batches",
    ),
    row(
        "FusedMatMul",
        {"A": f(2, 3, 4), "B": f(2, 4, 5)},
        name="dynamic",
        shapes={"A": ["n", None, 4], "B": ["n", 4, 5]},
    ),
    row("FusedGemm", {"A": f(3, 4), "B": f(4, 5), "C": f(5)}, {"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
    row(
        "FusedGemm",
        {"A": f(4, 3), "B": f(4, 5)},
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transA": 1},
        name="leaky",
    ),
    row("FusedConv", {"X": f(1, 2, 6, 6), "W": f(3, 2, 3, 3), "B": f(3)}, {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    row(
        "FusedConv",
        {"X": f(1, 2, 6, 6), "W": f(3, 2, 3, 3), "B": f(3), "Z": f(1, 3, 4, 4)},
        {"activation": "Relu"},
        name="sum",
    ),
    row(
        "FusedConv",
        {"X": f(1, 2, 6, 6), "W": f(2, 1, 3, 3)},
        {"activation": "LeakyRelu", "activation_params": [0.2], "group": 2},
        name="leaky",
    ),
    row(
        "FusedConv",
        {"X": f(1, 2, 6, 6), "W": f(3, 2, 3, 3)},
        {"activation": "Clip", "activation_params": [-0.5, 0.75]},
        name="clip",
    ),
    row(
        "FusedConv",
        {"X": f(1, 2, 6, 6), "W": f(3, 2, 3, 3)},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
        name="hard",
    ),
    row(
        "FusedConv",
        {"X": f(1, 2, 6), "W": f(3, 2, 3)},
        {"activation": "Tanh", "auto_pad": "SAME_UPPER"},
        name="tanh",
        shapes={"X": ["n", 2, None]},
    ),
    row("Gelu", {"X": f(3, 40) * 3}),
    row("BiasGelu", {"A": f(3, 4, 8), "B": f(8)}),
    row("FastGelu", {"X": f(3, 8)}),
    row("FastGelu", {"X": f(3, 4, 8), "B": f(8)}, name="bias", shapes={"X": [None, "s", 8]}),
    row("QuickGelu", {"X": f(3, 8) * 3}),
    row("QuickGelu", {"X": f(3, 8)}, {"alpha": 1.0}, name="one"),
    row(
        "SimplifiedLayerNormalization",
        {"X": f(2, 3, 8), "scale": f(8)},
        {"epsilon": 1e-3},
        domain="",
        opset=17,
        outputs=2,
    ),
    row(
        "SimplifiedLayerNormalization",
        {"X": f(2, 3, 8), "scale": f(3, 8)},
        {"axis": 1},
        name="axis",
        domain="",
        opset=14,
    ),
    row(
        "SkipLayerNormalization", {"x": f(2, 3, 8), "skip": f(2, 3, 8), "gamma": f(8), "beta": f(8)}, {"epsilon": 1e-5}
    ),
    row(
        "SkipLayerNormalization",
        {"x": f(2, 3, 8), "skip": f(3, 8), "gamma": f(8), "bias": f(8)},
        name="bias",
        order=["x", "skip", "gamma", "", "bias"],
        shapes={"x": ["b", "s", 8], "skip": [None, 8]},
    ),
    row(
        "SkipSimplifiedLayerNormalization",
        {"x": f(2, 3, 8), "skip": f(1, 3, 8), "gamma": f(8), "bias": f(8)},
        {"epsilon": 1e-5},
    ),
    row("SkipSimplifiedLayerNormalization", {"x": f(3, 8), "skip": f(3, 8), "gamma": f(8)}, name="flat"),
    row("MatMulNBits", BLOCK, {"K": 32, "N": 5, "bits": 4, "block_size": 16}, hold=("B", "scales")),
    row(
        "MatMulNBits",
        {**BLOCK, "zero_points": R.integers(0, 256, (5, 1)).astype(np.uint8)},
        {"K": 32, "N": 5, "bits": 4, "block_size": 16},
        name="zero",
        hold=("B", "scales", "zero_points"),
        shapes={"A": ["b", None, 32]},
    ),
    row(
        "MatMulNBits",
        {
            "A": f(3, 40),
            "B": R.integers(0, 256, (4, 3, 8)).astype(np.uint8),
            "scales": f(4, 3),
            "zero_points": R.integers(0, 256, (4, 2)).astype(np.uint8),
            "bias": f(4),
        },
        {"K": 40, "N": 4, "bits": 4, "block_size": 16},
        name="partial",
        hold=("B", "scales", "zero_points", "bias"),
        order=["A", "B", "scales", "zero_points", "", "bias"],
    ),
    row(
        "MatMulNBits",
        {"A": f(2, 32), "B": R.integers(0, 256, (4, 2, 8)).astype(np.uint8), "scales": f(4, 2), "zero": f(4, 2)},
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        name="unpacked",
        hold=("B", "scales", "zero"),
    ),
    row(
        "MatMulNBits",
        {"A": f(2, 32), "B": R.integers(0, 256, (4, 2, 16)).astype(np.uint8), "scales": f(4, 2)},
        {"K": 32, "N": 4, "bits": 8, "block_size": 16},
        name="bytes",
        hold=("B", "scales"),
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), ROWS)
def test_operator_gives_the_numbers_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    options: dict[str, Any] = {"opset": 1, "order": list(inputs)} | dict(more)
    held = options.pop("hold", ())
    feeds = {name: value for name, value in inputs.items() if name not in held}
    constants = {name: inputs[name] for name in held}
    model = node_model(op_type, feeds, attributes=attributes, constants=constants, **options)
    check_node(model, feeds)


HALF = np.float16


@pytest.mark.parametrize(
    ("op_type", "inputs", "domain"),
    [
        ("Gelu", {"x": f(3, 4, kind=HALF)}, "com.microsoft"),
        ("FastGelu", {"x": f(3, 4, kind=HALF), "b": f(4, kind=HALF)}, "com.microsoft"),
        ("QuickGelu", {"x": f(3, 4, kind=HALF)}, "com.microsoft"),
        (
            "SkipLayerNormalization",
            {name: f(3, 4, kind=HALF) for name in "xs"} | {"g": f(4, kind=HALF)},
            "com.microsoft",
        ),
        ("SimplifiedLayerNormalization", {"x": f(3, 4, kind=HALF), "g": f(4, kind=HALF)}, ""),
    ],
)
def test_halves(op_type: str, inputs: Mapping[str, Any], domain: str) -> None:
    check_node(node_model(op_type, inputs, domain=domain, opset=1 if domain else 17), inputs)


def test_weights_of_two_bits() -> None:
    """Four weights in each byte, the first in its lowest bits."""
    packed, scales, a = R.integers(0, 256, (4, 2, 4)).astype(np.uint8), f(4, 2), f(2, 32)
    numbers = np.stack([(packed >> shift) & 3 for shift in (0, 2, 4, 6)], -1).reshape(4, 2, 16).astype(np.float32)
    want = a @ ((numbers - 2) * scales[..., None]).reshape(4, 32).T
    attributes = {"K": 32, "N": 4, "bits": 2, "block_size": 16}
    constants = {"B": packed, "scales": scales}
    model = node_model(
        "MatMulNBits", {"A": a}, constants=constants, attributes=attributes, domain="com.microsoft", opset=1
    )
    check_node(model, {"A": a}, [want])


@pytest.mark.parametrize("position_ids", [False, True])
def test_embeddings_are_added_and_normalised(position_ids: bool) -> None:
    tables = {"w": f(20, 8), "p": f(10, 8), "g": f(4, 8), "gamma": f(8), "beta": f(8)}
    feeds = {
        "ids": R.integers(0, 20, (2, 5)).astype(np.int32),
        "seg": R.integers(0, 4, (2, 5)).astype(np.int32),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    }
    order = ["ids", "seg", "w", "p", "g", "gamma", "beta", "mask"]
    if position_ids:
        feeds["pos"] = R.integers(0, 10, (2, 5)).astype(np.int32)
        order.append("pos")
    model = node_model(
        "EmbedLayerNormalization",
        feeds,
        constants=tables,
        order=order,
        outputs=3,
        opset=1,
        domain="com.microsoft",
        shapes={name: ["b", "s"] for name in feeds},
    )
    check_node(model, feeds)


def test_embeddings_do_without_segments_and_mask() -> None:
    tables = {"w": f(20, 8), "p": f(10, 8), "gamma": f(8), "beta": f(8)}
    feeds = {"ids": R.integers(0, 20, (2, 5)).astype(np.int32)}
    order = ["ids", "", "w", "p", "", "gamma", "beta"]
    model = node_model(
        "EmbedLayerNormalization", feeds, constants=tables, order=order, outputs=2, domain="com.microsoft", opset=1
    )
    check_node(model, feeds)


def test_packed_weights_stay_packed() -> None:
    feeds = {"A": f(2, 1024)}
    weights = R.integers(0, 256, (64, 32, 16)).astype(np.uint8)
    model = node_model(
        "MatMulNBits",
        feeds,
        constants={"B": weights, "scales": f(64, 32)},
        attributes={"K": 1024, "N": 64, "bits": 4, "block_size": 32},
        opset=1,
        domain="com.microsoft",
    )
    ir = ir_runtime.model_to_bytes(converter.convert_model(model))
    written = ir[1]
    assert weights.tobytes() in written
    assert len(written) < weights.size + 4 * 64 * 32 + 1024
    expected = run_onnxruntime(model, feeds)[0]
    np.testing.assert_allclose(run_numpy(ir, feeds)[0], expected, rtol=1e-4, atol=1e-4)
    # The plug-in rounds the data to 8 bits as well, unless a group size of 0 turns that off.
    options = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    exact = core().compile_model(core().read_model(*ir), "CPU", options)
    np.testing.assert_allclose(exact(feeds)[0], expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(run_openvino(ir, feeds)[0], expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        (
            "FusedConv",
            {"X": f(1, 2, 6), "W": f(3, 2, 3)},
            {"activation": "Swoosh"},
            "the activation 'Swoosh' is not known",
        ),
        ("FusedConv", {"X": f(1, 2, 6), "W": f(3, 2, 3)}, {"activation": "Clip"}, "Clip needs two parameters"),
        ("MatMulNBits", BLOCK, {"K": 32, "N": 5, "bits": 4, "block_size": 16}, "B must be known while converting"),
        ("MatMulNBits", BLOCK, {"K": 32, "N": 5, "bits": 3, "block_size": 16}, "may have 2, 4 or 8 bits, but have 3"),
        ("EmbedLayerNormalization", {"ids": np.zeros((1, 2), np.int32)}, {}, "input 'word_embedding' is required"),
    ],
)
def test_contradictions_are_named(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], message: str
) -> None:
    model = node_model(op_type, inputs, attributes=attributes, opset=1, domain="com.microsoft")
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(("k", "n"), [(64, 3), (40, 5), (32, 1)])
def test_products_with_packed_columns_of_4_bits(kind: int, k: int, n: int) -> None:
    blocks, head = -(-k // 32), 5 if kind else 4
    held = R.integers(0, 256, (n, blocks, head + 16)).astype(np.uint8)
    held[:, :, :4] = R.uniform(0.1, 1, (n, blocks)).astype("<f4").view(np.uint8).reshape(n, blocks, 4)
    held[:, :, 4:head] &= 15
    inputs = {"a": R.standard_normal((2, 4, k)).astype(np.float32)}
    constants = {"b": held.reshape(-1), "shape": np.array([k, n])}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "attributes": {"blk_quant_type": kind}}
    check_node(node_model("MatMulFpQ4", inputs, constants=constants, **options), inputs, atol=1e-4)
    constants["b"] = constants["b"][1:]
    with pytest.raises(converter.InvalidModelError, match=rf"B must have {held.size} bytes for weights"):
        converter.convert_model(node_model("MatMulFpQ4", inputs, constants=constants, **options))


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize(("rows", "width", "block"), [(6, 32, 16), (5, 24, 16), (3, 15, 32), (4, 64, 64)])
def test_products_with_numbers_of_4_bits(quant_type: int, rows: int, width: int, block: int) -> None:
    generator = np.random.default_rng(rows)
    count = rows * width
    constants = {
        "b": generator.integers(0, 256, -(-count // 2)).astype(np.uint8),
        "absmax": np.abs(generator.standard_normal(-(-count // block))).astype(np.float32),
    }
    attributes = {"K": width, "N": rows, "block_size": block, "quant_type": quant_type}
    inputs = {"a": generator.standard_normal((2, 3, width)).astype(np.float32)}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "attributes": attributes}
    check_node(node_model("MatMulBnb4", inputs, **options), inputs, atol=1e-4)
    check_node(opened(node_model("MatMulBnb4", inputs, **options)), inputs, atol=1e-4)


def test_numbers_of_nf4_stay_packed() -> None:
    constants = {"b": np.zeros(1 << 15, np.uint8), "absmax": np.ones(1 << 12, np.float32)}
    attributes = {"K": 256, "N": 256, "block_size": 16, "quant_type": 1}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "attributes": attributes}
    model = converter.convert_model(node_model("MatMulBnb4", {"a": np.ones((1, 256), np.float32)}, **options))
    stored = [node.op.data for node in model.nodes() if node.op.data is not None]
    assert [tensor.byte_size for tensor in stored if tensor.element_type.name == "nf4"] == [1 << 15]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [({"quant_type": 2}, r"must be 0 \(FP4\) or 1 \(NF4\), but is 2"), ({"N": 3}, "B must have 24 bytes, but has 16")],
    ids=str,
)
def test_products_with_numbers_of_4_bits_that_are_refused(attributes: dict[str, Any], reason: str) -> None:
    constants = {"b": np.zeros(16, np.uint8), "absmax": np.ones(2, np.float32)}
    given = {"K": 16, "N": 2, "block_size": 16, "quant_type": 1, **attributes}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "attributes": given}
    with pytest.raises(converter.InvalidModelError, match=reason):
        converter.convert_model(node_model("MatMulBnb4", {"a": np.ones((1, 16), np.float32)}, **options))
