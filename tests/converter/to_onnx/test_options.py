"""Exports in float16, in older opsets, and of random numbers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import converter
from converter import ConversionError, export_model
from ir_runtime import Model, compile_model, read_model
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import InputMap, OutputMap, SubGraph
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.inputs_outputs import Result1
from tests.commands import onnx2ir
from tests.converter.optimization.models import floats, parse
from tests.converter.to_onnx.graphs import IR, check, model, model_of, network, operators, parameter, run, run_exported
from tests.rows.layer import Layer, ints, layers, one

# --- float16 ---

IMAGE = np.random.default_rng(1).standard_normal((2, 3, 8, 6)).astype(np.float32)
FLOATS = {TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16"}


def weights(exported: onnx.ModelProto) -> set[str]:
    stored = [one.data_type for one in exported.graph.initializer if len(one.dims) > 1]
    return {FLOATS[kind] for kind in stored if kind in FLOATS}


def largest_error(exported: onnx.ModelProto, ir: Model, feeds: dict[str, Any]) -> float:
    found, expected = run(exported, feeds), compile_model(ir)(feeds)
    assert all(found[name].dtype == expected[name].dtype for name in found)
    return max(float(np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max()) for name in found)


# how weights are compressed, what becomes of float16 -> the types of weights, how many nodes are Casts
CASTS = {("fp16", "keep"): ({"f16"}, 3), ("fp16", "unfold"): ({"f32"}, 0), ("", "unfold"): ({"f32"}, 0)}
# One at the input, and one at each of the three outputs.
CASTS |= {("fp16", "model"): ({"f16"}, 4), ("", "model"): ({"f16"}, 4), ("", "keep"): ({"f32"}, 0)}


@pytest.mark.parametrize("fp16", ["keep", "model", "unfold"])
@pytest.mark.parametrize("compress", ["", "fp16", "int8", "int4"])
@pytest.mark.parametrize("target", ["cpu", "any", "cpu@2023.3"])
def test_with_every_compression(target: str, compress: str, fp16: Any, tmp_path: Path) -> None:
    how: dict[str, Any] = {"compress_to_fp16": True} if compress == "fp16" else {"compress": compress or None}
    converter.save_model(converter.convert_model(network(), target=target), tmp_path / "m.xml", **how)
    ir = read_model(tmp_path / "m.xml")
    exported = converter.export_model(ir, fp16=fp16)
    assert largest_error(exported, ir, {"image": IMAGE}) < (5e-3 if fp16 == "model" else 1e-5)
    assert [one.type.tensor_type.elem_type for one in exported.graph.input] == [TensorProto.FLOAT]
    if (compress, fp16) in CASTS:
        assert (weights(exported), operators(exported).count("Cast")) == CASTS[compress, fp16]
    if (compress, fp16) == ("fp16", "model"):
        inferred = onnx.shape_inference.infer_shapes(exported, strict_mode=True)
        assert {one.type.tensor_type.elem_type for one in inferred.graph.value_info} == {TensorProto.FLOAT16}
    if not compress and fp16 == "unfold":
        assert exported == converter.export_model(ir)


def test_an_output_in_the_middle_keeps_its_name_and_type() -> None:
    """``tests/converter/optimization/test_float16.py`` has what stays in float32."""
    text = "g (float[n,4] x) => (features, y, same) { features = Relu (x) y = Tanh (features) same = Identity (x) }"
    ir = converter.convert_model(parse(text), target="any")
    exported = converter.export_model(ir, fp16="model")
    assert largest_error(exported, ir, {"x": floats(3, 4)}) < 2e-3
    assert [one.name for one in exported.graph.output] == ["features", "y", "same"]


def test_the_command_and_a_wrong_value(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "n.onnx")
    assert onnx2ir("convert", str(tmp_path / "n.onnx"), "--compress-to-fp16")[0] == 0
    code, out, messages = onnx2ir("export", str(tmp_path / "n.xml"), "-o", str(tmp_path / "b.onnx"), "--fp16", "unfold")
    assert code == 0, out + messages
    assert weights(onnx.load(tmp_path / "b.onnx")) == {"f32"}
    with pytest.raises(ConversionError, match="fp16 must be one of keep, model, unfold, but is 'half'"):
        converter.export_model(tmp_path / "n.xml", fp16="half")  # type: ignore[arg-type]


# --- older opsets ---


def test_a_shape_whose_zeros_are_those_of_the_data_is_plain() -> None:
    b, x = IR(), parameter("x", None, None, 6)
    target = b.Concat(b.Gather(b.ShapeOf(x, output_type="i64"), [0, 1], 0), [2, 3], axis=0)
    ir = model([x], {"y": b.Reshape(x, target, special_zero=False)})
    for lengths in ((2, 3), (0, 3), (2, 0)):
        exported = check(ir, {"x": np.arange(np.prod(lengths) * 6, dtype=np.float32).reshape(*lengths, 6)}, opset=13)
        assert operators(exported).count("Reshape") == 1


def branch(flat: bool) -> SubGraph:
    b, inside = IR(), parameter("inside", None, None)
    result = b.Reshape(inside, [-1], special_zero=False) if flat else b.ReLU(inside)
    body = Model("branch", [inside.node], [make_node(Result1(), [result])])
    return SubGraph(body, (InputMap(1, 0),), (OutputMap(0, 0),))


@pytest.mark.parametrize("opset", [13, None])
def test_branches_of_two_ranks(opset: int | None) -> None:
    x, condition = parameter("x", None, None), parameter("condition", kind="boolean")
    chosen = make_node(If8(bodies=(branch(False), branch(True))), [condition, x], "chosen").outputs[0]
    assert not chosen.shape.has_rank
    outputs = {"y": IR().Reshape(chosen, [2, -1], special_zero=False), "shape": IR().ShapeOf(chosen, output_type="i64")}
    ir = model([x, condition], outputs)
    for holds in (True, False):
        check(ir, {"x": np.ones((4, 3), np.float32), "condition": np.array(holds)}, opset=opset)


# --- randomness ---

_MANY = 4000
_WEIGHTS = np.array([[1, 2, 3, 2], [0, 0, 1, 3]], np.float32)
_SHARES = _WEIGHTS / _WEIGHTS.sum(1, keepdims=True)
_TOLERANCE = 0.05
"""Six standard deviations of a share of that many numbers, and more."""


def _drawn(call: Layer, computed: Collection[int] = (), runs: int = 1) -> list[Array]:
    model, feeds = model_of(call, computed=computed)
    exported = export_model(model)
    onnx.checker.check_model(exported, full_check=True)
    return [run_exported(exported, feeds)["y0"] for _ in range(runs)]


def _fifty(op_seed: int = 0, global_seed: int = 0) -> Layer:
    bounds, seeds = (one(0, np.float32), one(1, np.float32)), {"op_seed": op_seed, "global_seed": global_seed}
    return next(layers("RandomUniform", 8, ints(50), *bounds, output_type="f32", **seeds))


@pytest.mark.parametrize("is_known", [True, False], ids=["known bounds", "computed bounds"])
@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "int32", "int64"])
def test_uniform_numbers(kind: str, is_known: bool) -> None:
    shape, bounds = np.array([_MANY]), [np.array(bound, kind) for bound in (-3, 5)]
    fixed = (0, 1, 2) if is_known else (0,)
    (call,) = layers("RandomUniform", 8, shape, *bounds, fixed=fixed, output_type=kind[0] + kind[-2:])
    (numbers,) = _drawn(call, () if is_known else (1, 2))
    assert numbers.dtype == kind
    counts, _ = np.histogram(numbers, 8, (-3, 5))
    assert counts.sum() == _MANY
    assert np.abs(counts / _MANY - 1 / 8).max() < _TOLERANCE
    if np.dtype(kind).kind == "i":
        assert set(numbers.tolist()) == set(range(-3, 5))


@pytest.mark.parametrize("log_probs", [False, True])
@pytest.mark.parametrize("computed", [(), (1,)], ids=["known count", "computed count"])
def test_samples_with_replacement(computed: Collection[int], log_probs: bool) -> None:
    weights = np.log(np.maximum(_WEIGHTS, 1e-30)) if log_probs else _WEIGHTS
    (call,) = layers(
        "Multinomial", 13, weights, np.array(_MANY), convert_type="i32", with_replacement=True, log_probs=log_probs
    )
    (numbers,) = _drawn(call, computed)
    assert numbers.dtype == np.int32
    assert numbers.shape == (2, _MANY)
    found = np.stack([np.bincount(row, minlength=4) / _MANY for row in numbers])
    assert np.abs(found - _SHARES).max() < _TOLERANCE


@pytest.mark.parametrize("computed", [(), (1,)], ids=["known count", "computed count"])
def test_samples_without_replacement(computed: Collection[int]) -> None:
    """The first sample follows the weights; no row has a class twice."""
    weights = np.tile(_WEIGHTS[:1], (_MANY, 1))
    (call,) = layers("Multinomial", 13, weights, np.array(3), convert_type="i64")
    (numbers,) = _drawn(call, computed)
    assert numbers.shape == (_MANY, 3)
    assert (np.diff(np.sort(numbers, axis=1), axis=1) > 0).all()
    assert np.abs(np.bincount(numbers[:, 0], minlength=4) / _MANY - _SHARES[0]).max() < _TOLERANCE


def test_with_a_seed_every_session_draws_the_same() -> None:
    first, second = _drawn(_fifty(op_seed=7), runs=2)
    assert (first == second).all()


def test_without_a_seed_every_run_draws_other_numbers() -> None:
    model, feeds = model_of(_fifty())
    exported = export_model(model)
    assert not any(attribute.name == "seed" for node in exported.graph.node for attribute in node.attribute)
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    first, second = (session.run(None, feeds)[0] for _ in range(2))
    assert (first != second).any()


def test_layers_of_other_seeds_draw_other_numbers() -> None:
    drawn = [_drawn(_fifty(*seeds))[0] for seeds in ((1, 0), (2, 0), (0, 1))]
    assert len({numbers.tobytes() for numbers in drawn}) == len(drawn)


@pytest.mark.parametrize("seed", [0.0, 1.0, 123.5, -7.0])
def test_a_seed_of_onnx_comes_back(seed: float) -> None:
    bits = int(np.float32(seed).view(np.uint32))
    call = _fifty(op_seed=bits + 1)
    (node,) = [node for node in export_model(model_of(call)[0]).graph.node if node.op_type == "RandomUniformLike"]
    assert [one.f for one in node.attribute if one.name == "seed"] == [seed]
