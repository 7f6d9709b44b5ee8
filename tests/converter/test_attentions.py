"""Attention that exporters spell out, where every dimension is dynamic: reshaped, masked entirely, compressed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime import Model
from tests.converter.idioms.graphs import Graph, Idiom
from tests.engines import ENGINES, opened, run, run_onnxruntime

ROW = Idiom(
    build=lambda graph, chance: bert(graph, 4),
    inputs={"x": (2, 6, 32), "mask": (2, 6)},
    dtypes={"mask": np.int64},
    becomes=["ScaledDotProductAttention"],
)


def bert(graph: Graph, heads: int, hidden: float = -10000) -> str:
    """Self-attention of ``x`` [batch, position, number]; keys whose ``mask`` is 0 are hidden."""
    parts = {}
    for seed, name in enumerate("qkv"):
        weights = np.random.default_rng(seed).normal(size=(32, 32)) / 4
        product = graph("MatMul", "x", graph.constant(weights))
        split = graph("Reshape", product, graph.integers([0, 0, heads, 32 // heads]))
        parts[name] = graph("Transpose", split, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
    seen = graph("Cast", graph("Unsqueeze", "mask", graph.integers([1, 2])), to=onnx.TensorProto.FLOAT)
    mask = graph("Mul", graph("Sub", graph.constant(1), seen), graph.constant(hidden))
    scores = graph("Div", graph("MatMul", parts["q"], parts["k"]), graph.constant(np.sqrt(32 / heads)))
    output = graph("MatMul", graph("Softmax", graph("Add", scores, mask), axis=-1), parts["v"])
    return graph("Reshape", graph("Transpose", output, perm=[0, 2, 1, 3]), graph.integers([0, 0, 32]))


def attention(heads: int = 4, hidden: float = -10000) -> tuple[onnx.ModelProto, Model]:
    graph = Graph()
    last = bert(graph, heads, hidden)
    model = opened(graph.model(ROW, True, last))
    made = converter.convert_model(model)
    assert [node.op.type for node in made.nodes()].count("ScaledDotProductAttention") == 1
    return model, made


def inputs(batch: int, positions: int) -> dict[str, np.ndarray]:
    values = np.random.default_rng(5).normal(size=(batch, positions, 32)).astype(np.float32)
    mask = np.ones((batch, positions), np.int64)
    mask[0, -1:] = 0
    return {"x": values, "mask": mask}


def check(model: onnx.ModelProto, made: Model, given: dict[str, Any], tolerance: float = 2e-5) -> None:
    wanted = run_onnxruntime(model, given)
    for engine in ENGINES:
        (value,) = run(engine, ir_runtime.model_to_bytes(made), given)
        np.testing.assert_allclose(value, wanted[0], rtol=tolerance, atol=tolerance, err_msg=engine)


@pytest.mark.parametrize("is_reshaped", [False, True])
@pytest.mark.parametrize("dims", [(2, 6), (1, 1), (3, 4), (2, 8)])
@pytest.mark.parametrize("heads", [4, 8])
def test_any_dimensions(heads: int, dims: Sequence[int], is_reshaped: bool) -> None:
    """Also as many positions as heads: the plug-in transposes the output in place."""
    model, made = attention(heads)
    given = inputs(dims[0], dims[1])
    if is_reshaped:
        made.reshape({name: list(value.shape) for name, value in given.items()})
    check(model, made, given)


@pytest.mark.parametrize("hidden", [-10000, float(np.finfo(np.float32).min)])
def test_rows_without_any_key(hidden: float) -> None:
    """The mask is finite: all keys count alike, or nearly."""
    model, made = attention(hidden=hidden)
    given = inputs(2, 6)
    given["mask"][1] = 0
    check(model, made, given)


def test_half_weights(tmp_path: Path) -> None:
    model, made = attention()
    converter.save_model(made, tmp_path / "m.xml", compress_to_fp16=True)
    check(model, ir_runtime.read_model(tmp_path / "m.xml"), inputs(2, 6), tolerance=5e-3)


def test_keys_that_are_read_elsewhere_stay() -> None:
    graph = Graph()
    last = bert(graph, 4)
    keys = next(node.output[0] for node in graph.nodes if any(list(a.ints) == [0, 2, 3, 1] for a in node.attribute))
    made = converter.convert_model(graph.model(ROW, True, last, keys))
    assert "ScaledDotProductAttention" not in [node.op.type for node in made.nodes()]


def test_a_mask_of_a_larger_batch() -> None:
    """One batch of queries and two of masks: the output has two, as inference says."""
    graph = Graph()
    scores = graph("Add", graph("MatMul", "x", graph("Transpose", "k", perm=[0, 1, 3, 2])), "m")
    last = graph("MatMul", graph("Softmax", scores, axis=-1), "v")
    row = Idiom(
        build=lambda graph, chance: last,
        inputs={"x": (1, 3, 5, 8), "k": (1, 3, 6, 8), "v": (1, 3, 6, 7), "m": (2, 1, 1, 6)},
        becomes=["ScaledDotProductAttention"],
    )
    spelled = graph.model(row, False, last)
    fused = converter.convert_model(spelled)
    assert str(fused.outputs[0].shape) == "[2,3,5,7]"
    check(spelled, fused, row.values(np.float32))
