"""Layers that an exporter spelled out become the one layer of the IR: random instances of each, and near misses.

The rows stand in ``tests/converter/idioms``, one family a module.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import converter
import ir_runtime
from converter.conversion import compressed
from converter.derivation import without_record
from ir_runtime.rewriting.fused_names import fused_names
from tests.converter.idioms import rows
from tests.converter.idioms.graphs import Graph, Idiom, NearMiss, Row
from tests.engines import ENGINES, core, output_names, run, run_onnxruntime
from tests.routes import check_routes

IDIOMS: dict[str, Idiom] = rows("IDIOMS")
NEAR_MISSES: dict[str, NearMiss] = rows("NEAR_MISSES")
DTYPES = (np.float32, np.float16, np.float64)


def layers(model: ir_runtime.Model) -> list[str]:
    plain = ("Const", "Parameter", "Result")
    return [node.op.type for node in model.nodes() if node.op.type not in plain]


def check(
    model: onnx.ModelProto,
    made: ir_runtime.Model,
    row: Row,
    dtype: Any = np.float32,
    engines: Sequence[str] = ENGINES,
    tolerance: float = 2e-5,
) -> None:
    values = row.values(dtype)
    ir = ir_runtime.model_to_bytes(made)
    if np.dtype(dtype).itemsize == 2:
        tolerance = 4e-3
    wanted = expected(model, values, dtype)

    def compare(engine: str, actual: Sequence[np.ndarray]) -> None:
        for value, want in zip(actual, wanted, strict=True):
            assert value.dtype == want.dtype
            assert value.shape == want.shape
            np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance, err_msg=engine)

    for engine in engines:
        compare(engine, run(engine, ir, values))
    check_routes(model, values, output_names(model), compare)


def expected(model: onnx.ModelProto, values: dict[str, np.ndarray], dtype: Any) -> list[np.ndarray]:
    """What onnxruntime computes; onnx's evaluator for doubles, which onnxruntime has few kernels for."""
    if np.dtype(dtype) != np.float64:
        return run_onnxruntime(model, values)
    return list(ReferenceEvaluator(model).run(None, values))


@pytest.mark.every_value
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_becomes_its_layer(name: str, seed: int, dtype: Any) -> None:
    row = IDIOMS[name]
    if dtype not in row.dtypes_of_model:
        pytest.skip("the row leaves this type out")
    graph, chance = Graph(dtype), random.Random(seed)
    last = row.build(graph, chance)
    model = graph.model(row, bool(seed % 2), last)
    made = converter.convert_model(model)
    assert layers(made) == list(row.becomes)
    check(model, made, row, dtype, tolerance=row.tolerance)


@pytest.mark.every_value
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_stays(name: str, seed: int) -> None:
    row = NEAR_MISSES[name]
    graph = Graph(row.dtype)
    last = row.build(graph, random.Random(seed))
    model = graph.model(row, True, last)
    plain = layers(converter.convert_model(model, target="any"))
    assert row.absent not in plain
    assert row.count in (None, len(plain)), plain
    check(model, converter.convert_model(model), row, row.dtype, engines=row.engines)


@pytest.mark.parametrize("name", IDIOMS)
def test_what_is_returned_or_read_elsewhere_stays(name: str) -> None:
    """Each inner value once as a second output: it keeps its name and its numbers."""
    row = IDIOMS[name]
    graph = Graph()
    last = row.build(graph, random.Random(1))
    inner = [output for node in graph.nodes for output in node.output if output != last]
    assert inner
    for value in inner:
        model = graph.model(row, False, last, value)
        made = converter.convert_model(model)
        assert [output.names[0] for output in made.outputs] == [last, value]
        check(model, made, row, tolerance=row.tolerance)


@pytest.mark.parametrize("name", ["gelu", "layer normalization", "mish", "softsign"])
def test_a_fused_layer_has_the_names_of_those_in_whose_place_it_is(name: str) -> None:
    row = IDIOMS[name]
    graph = Graph()
    last = row.build(graph, random.Random(5))
    model = graph.model(row, True, last)
    plain = converter.convert_model(model, fuse=False, target="any")
    (fused,) = [node for node in converter.convert_model(model).nodes() if node.op.type == row.becomes[0]]
    wanted = [node.name for node in plain.nodes() if node.inputs and node.op.role != "result"]
    assert sorted(fused_names(fused)) == sorted(wanted)
    assert fused.name == wanted[-1]


def test_openvino_reads_the_names_of_fused_layers() -> None:
    row = IDIOMS["gelu"]
    graph = Graph()
    last = row.build(graph, random.Random(5))
    made = converter.convert_model(graph.model(row, True, last))
    again = core().read_model(*ir_runtime.model_to_bytes(made))
    (fused,) = [node for node in again.get_ops() if node.get_type_name() == "Gelu"]
    assert "fused_names_0" in fused.get_rt_info()


@pytest.mark.parametrize("name", IDIOMS)
def test_without_fusion_each_node_keeps_its_layers(name: str) -> None:
    row = IDIOMS[name]
    graph = Graph()
    last = row.build(graph, random.Random(4))
    model = graph.model(row, True, last)
    made = converter.convert_model(model, fuse=False, target="any")
    assert len(layers(made)) >= graph.distinct > len(row.becomes)
    assert [node.origin.node for node in made.nodes() if node.origin][-1] == graph.nodes[-1].name
    check(model, converter.convert_model(model, fuse=False), row, tolerance=row.tolerance)
    assert layers(converter.convert_model(model, target="any")) == list(row.becomes)


@pytest.mark.parametrize(("compress", "half"), [(None, True), ("int8", False), ("int4", True)])
@pytest.mark.parametrize("name", IDIOMS)
def test_compressed_weights_of_an_idiom_are_accounted_for(name: str, compress: str | None, half: bool) -> None:
    row, graph = IDIOMS[name], Graph()
    model = graph.model(row, False, row.build(graph, random.Random(3)))
    way = None if compress is None else converter.WeightCompression.named(compress)
    made = without_record(compressed(converter.convert_model(model), way, half).model)
    report = converter.verify(model.SerializeToString(), made)
    assert report.verdict == "equal", report.to_text()
