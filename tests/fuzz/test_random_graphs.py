"""Random graphs, shape programs and near misses in both engines and exported, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Union

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import converter
import ir_runtime
from tests.converter.to_onnx.graphs import second_pass
from tests.engines import ENGINES, converted, run, run_onnxruntime
from tests.fuzz.near_misses import outcome
from tests.fuzz.random_graphs import Sample, random_chain, random_graph
from tests.fuzz.shape_programs import ShapeProgram, inputs
from tests.named_runs import run_by_name

# --- random chains of operators in both engines, against onnxruntime ---


@pytest.mark.parametrize("block", range(20))
def test_chains_give_the_numbers_of_onnxruntime(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        model, x = random_chain(seed)
        (wanted,) = run_onnxruntime(model, {"x": x})
        ir = converted(model)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        for engine in ENGINES:
            (found,) = run(engine, ir, {"x": x})
            what = f"{engine}, seed {seed}: {' > '.join(node.op_type for node in model.graph.node)} of {x.shape}"
            assert found.shape == wanted.shape, what
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * scale, err_msg=what)


@pytest.mark.parametrize("block", range(20))
def test_graphs_of_several_outputs_give_the_numbers_of_onnxruntime_by_name(block: int) -> None:
    compared = 0
    for seed in range(block * 20, block * 20 + 20):
        sample = Sample.of(seed)
        if sample is not None:
            compared += 1
            for engine, found in run_by_name(converted(sample.model), {"x": sample.x}).items():
                sample.check(found, engine)
    assert compared > 10


# --- random graphs there and back: what is exported computes the numbers of the first model, output by output ---

TARGETS = ("any", "cpu", "cpu@2023.3")


@pytest.mark.parametrize("block", range(20))
def test_exported_graphs_give_the_numbers_of_the_first_model(block: int) -> None:
    compared = 0
    for seed in range(block * 15, block * 15 + 15):
        sample = Sample.of(seed)
        if sample is None:
            continue
        compared += 1
        exported = converter.export_model(converter.convert_model(sample.model, target=TARGETS[seed % 3]))
        onnx.checker.check_model(exported, full_check=True)
        session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": sample.x})
        sample.check(dict(zip([one.name for one in session.get_outputs()], found)), TARGETS[seed % 3])
    assert compared > 5


@pytest.mark.parametrize("block", range(10))
def test_the_second_round_changes_nothing(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        model, x = random_graph(seed)
        if x.dtype == np.float64:
            continue
        ir = converter.convert_model(model, target="any")
        found = second_pass(converter.export_model(ir))
        what = f"seed {seed}: {' > '.join(node.op_type for node in model.graph.node)}"
        assert found.same, f"{what}: {found.only_first} {found.only_second} {found.changed}"


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
        model = ShapeProgram(seed + 1000 * attempt).model(3 + seed % 12)
        answers = [(shape, values, computed(model, values)) for shape in SHAPES for values in [inputs(shape, seed)]]
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

SEED = 2


@pytest.mark.parametrize("block", range(20))
def test_what_is_nearly_an_idiom_computes_the_same(block: int) -> None:
    outcomes = {number: outcome(number, SEED) for number in range(block * 20, block * 20 + 20)}
    models = {number: each for number, each in outcomes.items() if each.verdict != "no model"}
    assert len(models) >= 10
    for each in models.values():
        assert each.verdict == "same", each.description
