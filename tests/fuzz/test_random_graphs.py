"""Random graphs, shape programs and near misses in both engines and exported, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Union

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import converter
import ir_runtime
from tests.converter.to_onnx.graphs import second_pass
from tests.engines import converted, output_names, run, run_by_name, run_onnxruntime
from tests.fuzz.near_misses import outcome
from tests.fuzz.random_graphs import Sample, ShapeProgram, program_inputs, random_graph
from tests.rows.row import Row
from tests.runtimes.suite import check_types
from tests.runtimes.work import Work

# --- random graphs in both engines, and there and back, against onnxruntime, output by output ---

TARGETS = ("any", "cpu", "cpu@2023.3")


def samples(block: int, size: int) -> list[Sample]:
    found = list(filter(None, map(Sample.of, range(block * size, block * size + size))))
    assert len(found) > size // 2
    return found


@pytest.mark.parametrize("block", range(20))
def test_graphs_of_several_outputs_give_the_numbers_of_onnxruntime_by_name(block: int) -> None:
    for sample in samples(block, 45):
        for engine, found in run_by_name(converted(sample.model), {"x": sample.x}).items():
            sample.check(found, engine)


@pytest.mark.parametrize("block", range(20))
def test_exported_graphs_give_the_numbers_of_the_first_model(block: int) -> None:
    for number, sample in enumerate(samples(block, 15)):
        exported = converter.export_model(converter.convert_model(sample.model, target=TARGETS[number % 3]))
        onnx.checker.check_model(exported, full_check=True)
        found = run_onnxruntime(exported, {"x": sample.x})
        sample.check(dict(zip(output_names(exported), found)), TARGETS[number % 3])


@pytest.mark.parametrize("block", range(10))
def test_the_second_round_changes_nothing(block: int) -> None:
    for sample in samples(block, 10):
        if sample.x.dtype == np.float64:
            continue
        found = second_pass(converter.export_model(converter.convert_model(sample.model, target="any")))
        assert found.same, f"{sample.what}: {found.only_first} {found.only_second} {found.changed}"


def work_of(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Work:
    return Work(Row("", "", 0, feeds, make=lambda: model))


@pytest.mark.parametrize("block", range(20))
def test_values_are_of_the_types_that_were_inferred(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        model, x = random_graph(seed)
        check_types(work_of(model, {model.graph.input[0].name: x}))


# --- shape arithmetic made small computes what it did, for every shape of the inputs ---

Answer = tuple[tuple[int, ...], dict[str, np.ndarray], Union[list[np.ndarray], None]]
"""Sizes, inputs of these sizes, and what onnxruntime computes; None where it refuses them."""

REFUSALS = (Fail, InvalidArgument, RuntimeException)
SHAPES = [(6, 7, 9), (2, 3, 5), (1, 1, 1), (3, 1, 4), (1, 7, 2), (0, 3, 5), (2, 0, 5)]


def computed(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What onnxruntime computes; None where it refuses the shape."""
    try:
        return run_onnxruntime(model, values)
    except REFUSALS:
        return None  # a size of 0 in a Reshape may leave no valid shape


def valid_program(seed: int) -> tuple[onnx.ModelProto, list[Answer]]:
    """The first program that onnxruntime takes in at least one shape, and what it computes for each."""
    for attempt in itertools.count():
        model = ShapeProgram(seed + 1000 * attempt).program(3 + seed % 12)
        answers = [
            (shape, values, computed(model, values)) for shape in SHAPES for values in [program_inputs(shape, seed)]
        ]
        if any(wanted is not None for _, _, wanted in answers):
            return model, answers
    raise AssertionError


@pytest.mark.parametrize("seed", range(400))
def test_small_shape_arithmetic_is_right(seed: int) -> None:
    model, answers = valid_program(seed)
    made = converter.convert_model(model)
    plain = converter.convert_model(model, fuse=False)
    assert len(made.nodes()) <= len(plain.nodes())
    ir = ir_runtime.model_to_bytes(made)
    for index, (shape, values, wanted) in enumerate(answers):
        if wanted is None:
            continue
        engines = ("numpy", "openvino") if index == seed % 4 else ("numpy",)
        for engine in engines:
            for value, want in zip(run(engine, ir, values), wanted, strict=True):
                np.testing.assert_array_equal(value, want, err_msg=f"{engine}, {shape}")
        reshaped = made.clone()
        reshaped.reshape({name: list(value.shape) for name, value in values.items()})
        for value, want in zip(run("numpy", ir_runtime.model_to_bytes(reshaped), values), wanted, strict=True):
            np.testing.assert_array_equal(value, want, err_msg=f"reshaped to {shape}")


# --- graphs that a pattern nearly matches, in both engines against onnxruntime ---

SEED = 9


@pytest.mark.parametrize("block", range(20))
def test_what_is_nearly_an_idiom_computes_the_same(block: int) -> None:
    outcomes = {number: outcome(number, SEED) for number in range(block * 20, block * 20 + 20)}
    models = {number: each for number, each in outcomes.items() if each.verdict != "no model"}
    assert len(models) >= 10
    for each in models.values():
        assert each.verdict in ("same", "not in OpenVINO"), each.description
