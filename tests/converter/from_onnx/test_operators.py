"""What rows do not show of operators: bits, how weights are held, other dimensions, what signatures say."""

from __future__ import annotations

import functools
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.from_onnx.support import needed_operators
from converter.from_onnx.translation.registry import REQUIRED, Translator, find_translator, onnx_op
from ir_runtime.rewriting.expressions import Expression
from tests.engines import ENGINES, check_node, converted, core, node_model, run, run_openvino
from tests.rows.onnx.attention import PLACES, QKV, SHARED, Q, f, mask
from tests.rows.onnx.constants import EVERY, WORDS, number
from tests.rows.onnx.control_flow import UNCHANGED
from tests.rows.onnx.recurrent import DIRECTIONS, GATES, network
from tests.rows.row import Row
from tests.rows.table import table
from tests.runtimes.work import Work
from tests.suite.reshape import Reshaping, check_reshaped, in_numpy, in_openvino

# --- bits ---

SMALL, SINGLE = EVERY, np.concatenate([WORDS, WORDS | np.uint32(1 << 31)])


@pytest.mark.parametrize(("bits", "to"), [(SMALL, np.float16), (SMALL, ml_dtypes.bfloat16), (SINGLE, np.float32)])
@pytest.mark.parametrize("signed", [True, False])
def test_floats_of_their_bits(bits: np.ndarray, to: Any, signed: bool) -> None:
    x = bits.view(f"i{bits.itemsize}") if signed else bits
    wanted = bits.view(to)
    ir = converted(node_model("BitCast", {"x": x}, attributes={"to": number(to)}, opset=26))
    for engine in ENGINES:
        (found,) = run(engine, ir, {"x": x})
        with np.errstate(invalid="ignore"):
            is_number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.isnan(found), ~is_number)
        if engine == "openvino" and to is ml_dtypes.bfloat16:
            # Without AVX-512 the plug-in converts by float32, where small ones are denormal: they become 0, as does -0.
            is_number &= np.abs(wanted.astype(np.float32)) >= np.finfo(np.float32).tiny
        # Zeros differ in their bits alone.
        np.testing.assert_array_equal(found.view(bits.dtype)[is_number], bits[is_number])


# --- control flow ---


@pytest.mark.parametrize("row", [row for row in table() if "/contradictory" in row.group], ids=lambda row: row.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_at_odds_with_the_shapes_fails_when_it_is_taken(engine: str, row: Row) -> None:
    with pytest.raises(Exception, match="contradicts the shapes around it"):
        run(engine, converted(row.model), {**row.feeds, "c": np.logical_not(row.feeds["c"])})


def test_unchanged_states_are_no_loop_states() -> None:
    (subgraph,) = [
        layer.op.bodies[0] for layer in converter.convert_model(UNCHANGED[0].model).nodes() if layer.op.subgraphs
    ]
    assert len(subgraph.back_edges) == 2  # the condition and s
    assert len(subgraph.body.parameters) == 4  # the iteration, the condition, s and w; the weights are a constant


# --- static models ---

BEYOND = [row for row in table() if row.name.startswith("onnx/interpolate/Resize-") and "-beyond" in row.name]
NETWORKS = [next(network(op_type, direction=way, lengths=[0, 2, 5])) for op_type in GATES for way in DIRECTIONS]


@pytest.mark.parametrize("row", [*BEYOND, *NETWORKS], ids=lambda row: row.name)
def test_static_models_in_openvino(row: Row) -> None:
    """Dimensions are resized one at a time; last states are those of empty sequences, too."""
    made = converter.convert_model(row.model, static=True)
    types = {layer.op.type for layer in made.nodes()}
    assert ("ShapeOf" not in types) if row in BEYOND else f"{row.op_type}Sequence" in types
    work = Work(row)
    work.compare(dict(zip(work.names, run_openvino(ir_runtime.model_to_bytes(made), row.feeds))))


# --- openvino domain ---


DETECTRON = "ExperimentalDetectron"


@pytest.mark.parametrize(
    ("op_type", "defaults"),
    [
        ("PriorBoxClustered", {"clip": 0, "variance": (0.1,), "step": 0.0}),
        (f"{DETECTRON}TopKROIs", {"max_rois": 1000}), (f"{DETECTRON}PriorGridGenerator", {"flatten": 1, "h": 0}),
        (f"{DETECTRON}ROIFeatureExtractor", {"sampling_ratio": 2, "pyramid_scales": (4, 8, 16, 32, 64)}),
        (f"{DETECTRON}GenerateProposalsSingleImage", {"pre_nms_count": 1000, "post_nms_count": 1000}),
        (f"{DETECTRON}DetectionOutput", {"num_classes": 81, "max_detections_per_image": 100}),
        ("DetectionOutput", {"nms_threshold": REQUIRED, "keep_top_k": 1, "top_k": -1}),
    ],
)  # fmt: skip
def test_defaults_of_openvinos_frontend(op_type: str, defaults: dict[str, Any]) -> None:
    """The defaults of OpenVINO's frontend hold where the IR operation has none or others."""
    translator, _ = cast(tuple[Translator, int], find_translator(op_type, "org.openvinotoolkit", 1))
    assert {name: translator.attributes[name] for name in defaults} == defaults


# --- translator signatures ---


@pytest.mark.parametrize("alpha", [2, 0.5, "half", [0.5, 1.0]], ids=str)
def test_an_attribute_of_another_type_is_the_models_fault(alpha: Any) -> None:
    """Whole numbers stand for floats."""

    @onnx_op("Scaled", versions=(1,), domain="test.signatures", replace=True)
    def scaled(ctx: converter.Context, x: Expression, *, alpha: float = 1.0) -> Expression:
        return x * alpha

    feeds, attributes = {"x": np.ones(2, np.float32)}, {"alpha": alpha}
    model = node_model("Scaled", feeds, opset=1, domain="test.signatures", attributes=attributes)
    if isinstance(alpha, (int, float)):
        assert "Multiply" in converter.convert_model(model).types
        return
    with pytest.raises(converter.InvalidModelError, match=r"node 'node'.*the attribute alpha must be of type float"):
        converter.convert_model(model)


@pytest.mark.parametrize("annotation", [Expression, "Expression", Expression | None, "Expression | None"], ids=str)
def test_expressions_are_known_by_class_and_by_name(annotation: Any) -> None:
    def translate(ctx: Any, x: Any) -> Any:
        return x

    translate.__annotations__["x"] = annotation
    assert Translator("Scaled", "test.signatures", (1,), translate).takes_expressions


# --- attention ---

FLAT = {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 12)}
ONE = {"q": Q, "k": f(2, 1, 5, 8), "v": f(2, 1, 5, 6)}


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [({**QKV, "m": mask(3, 5)}, {"is_causal": 1}), (FLAT, {"q_num_heads": 4, "kv_num_heads": 2})],
)
def test_attention_is_one_layer_among_others(inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    model = converter.convert_model(node_model("Attention", inputs, opset=24, attributes=attributes))
    types = [node.op.type for node in model.nodes()]
    assert types.count("ScaledDotProductAttention") == 1
    assert not {"MatMul", "SoftMax"} & set(types)


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


# --- microsoft ---

microsoft = functools.partial(node_model, opset=1, domain="com.microsoft")


def test_packed_weights_stay_packed() -> None:
    weights = np.random.default_rng(7).integers(0, 256, (64, 32, 16)).astype(np.uint8)
    constants = {"b": weights, "scales": np.linspace(1, 2, 64 * 32, dtype=np.float32).reshape(64, 32)}
    attributes = {"K": 1024, "N": 64, "bits": 4, "block_size": 32}
    written = converted(microsoft("MatMulNBits", {"a": f(2, 1024)}, constants=constants, attributes=attributes))[1]
    assert weights.tobytes() in written
    assert len(written) < weights.size + 4 * 64 * 32 + 1024
    constants = {"b": np.zeros(1 << 15, np.uint8), "absmax": np.ones(1 << 12, np.float32)}
    attributes = {"K": 256, "N": 256, "block_size": 16, "quant_type": 1}
    model = microsoft("MatMulBnb4", {"a": f(1, 256)}, constants=constants, attributes=attributes)
    stored = [node.op.data for node in converter.convert_model(model).nodes() if node.op.data is not None]
    assert [tensor.byte_size for tensor in stored if tensor.element_type.name == "nf4"] == [1 << 15]


X, PROJECTED, HEADS = f(2, 3, 8), {"w": f(8, 24), "b": f(24)}, {"q": f(2, 3, 8), "k": f(2, 5, 8), "v": f(2, 5, 8)}
OTHER = {"q": f(3, 2, 8), "k": f(3, 6, 8), "v": f(3, 6, 8)}


def heads(batch: int, n: int, m: int, queries: int, keys: int) -> dict[str, np.ndarray]:
    return {"q": f(batch, n, queries, 8), "k": f(batch, m, keys, 8), "v": f(batch, m, keys, 6)}


def attended(inputs: Any, stored: Any = None, op_type: str = "Attention", **attributes: Any) -> onnx.ModelProto:
    """A model of com.microsoft where there are projections or lengths, of ONNX otherwise."""
    if "q" in inputs and not stored:
        return node_model(op_type, inputs, opset=23, attributes=attributes)
    return microsoft(op_type, inputs, attributes={"num_heads": 2, **attributes}, constants=stored)


LENGTHS = {name: {"x": X, **PROJECTED, "m": np.int32(m)} for name, m in (("lengths", [2, 3]), ("ends", [3, 2, 1, 0]))}
RESHAPED: dict[str, tuple[onnx.ModelProto, dict[str, Any], dict[str, Any], int]] = {
    # the model, its inputs, those of other dimensions, the number of layers
    "plain": (attended(QKV), QKV, heads(3, 2, 2, 6, 7), 1),
    "causal": (attended(QKV, is_causal=1, scale=0.3), QKV, heads(1, 4, 4, 9, 9), 1),
    "one for more": (attended(ONE), ONE, heads(1, 6, 1, 4, 7), 1),
    "one each": (attended(ONE), ONE, heads(1, 6, 6, 4, 7), 1),
    "pairs": (attended(SHARED), SHARED, heads(3, 8, 4, 2, 4), 8),
    "one pair": (attended(SHARED, is_causal=1), SHARED, heads(2, 2, 1, 2, 4), 8),
    "projected": (attended({"x": X}, PROJECTED, unidirectional=1), {"x": X}, {"x": f(3, 5, 8)}, 12),
    "lengths": (attended(LENGTHS["lengths"]), LENGTHS["lengths"], {"x": f(3, 4, 8), "m": np.int32([4, 1, 3])}, 22),
    "ends": (attended(LENGTHS["ends"]), LENGTHS["ends"], {"x": f(1, 4, 8), "m": np.int32([3, 1])}, 28),
    "bias": (attended(HEADS, {"b": f(24)}, "MultiHeadAttention"), HEADS, OTHER, 12),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_attention_of_other_dimensions_than_declared(name: str) -> None:
    model, inputs, other, layers = RESHAPED[name]
    check_reshaped(model, inputs, {**inputs, **other})
    assert len([node for node in converter.convert_model(model).nodes() if not node.op.role]) == layers


ONE_ROW = {"x": f(1, 3, 8), **PROJECTED, "m": np.int32([2])}


@pytest.mark.parametrize(
    ("inputs", "other"),
    [(QKV, heads(2, 4, 2, 3, 5)), (QKV, heads(2, 6, 4, 3, 5)), (ONE_ROW, {**ONE_ROW, "m": np.int32([3, 1])})],
)
def test_attention_of_dimensions_that_do_not_fit_is_refused(inputs: Any, other: Any) -> None:
    """One row's length, declared, and then two numbers: they would be its end and its start."""
    ir, shapes = converted(attended(inputs)), {name: list(value.shape) for name, value in other.items()}
    with pytest.raises(ir_runtime.ModelError):
        in_numpy(ir, Reshaping("others", shapes, other, []))
    with pytest.raises(RuntimeError):
        in_openvino(ir, Reshaping("others", shapes, other, []))


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
