"""Random graphs, shape programs and near misses in both engines and exported, against onnxruntime."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import converter
import ir_runtime
from converter.passes.registry import passes
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime import Model, compile_model
from ir_runtime.rewriting.pipeline import Pass, Pipeline
from tests.converter.option_models import MODELS, feeds_for
from tests.converter.to_onnx.graphs import second_pass
from tests.engines import (
    by_name_in_numpy,
    by_name_in_openvino,
    converted,
    in_onnxruntime,
    output_names,
    run_onnxruntime,
    run_openvino,
    translated,
)
from tests.fuzz.near_misses import outcome
from tests.fuzz.random_graphs import Sample, ShapeProgram, program_inputs, random_graph
from tests.rows.row import Row
from tests.runtimes.batches import Run, run_together
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
    found = samples(block, 45)
    runs = [Run(converted(sample.model), {"x": sample.x}, output_names(sample.model)) for sample in found]
    for sample, one, outputs in zip(found, runs, run_together(runs)):
        sample.check(by_name_in_numpy(one.ir, one.feeds), "numpy")
        try:
            assert outputs
            sample.check(dict(zip(one.names, outputs)), "openvino")
        except AssertionError:  # alone it may be right
            sample.check(by_name_in_openvino(one.ir, one.feeds), "openvino")


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


def valid_program(seed: int) -> tuple[onnx.ModelProto, list[Answer]]:
    """The first program that onnxruntime takes in at least one shape, and what it computes for each."""
    for attempt in itertools.count():
        model = ShapeProgram(seed + 1000 * attempt).program(3 + seed % 12)
        with contextlib.suppress(*REFUSALS):
            compute = in_onnxruntime(model)
            answers: list[Answer] = [(shape, program_inputs(shape, seed), None) for shape in SHAPES]
            for index, (shape, values, _) in enumerate(answers):
                with contextlib.suppress(*REFUSALS):  # a size of 0 in a Reshape may leave no valid shape
                    answers[index] = shape, values, compute(values)
            if any(wanted is not None for _, _, wanted in answers):
                return model, answers
    raise AssertionError


@pytest.mark.parametrize("block", range(100))
def test_small_shape_arithmetic_is_right(block: int) -> None:
    programs = {seed: valid_program(seed) for seed in range(block * 4, block * 4 + 4)}
    irs = {seed: converted(model) for seed, (model, _) in programs.items()}
    in_openvino = []
    for seed, (model, answers) in programs.items():
        made = ir_runtime.read_model(*irs[seed])
        assert len(made.nodes()) <= len(converter.convert_model(model, fuse=False).nodes())
        compiled = ir_runtime.compile_model(made)
        for index, (shape, values, wanted) in enumerate(answers):
            if wanted is None:
                continue
            reshaped = made.clone()
            reshaped.reshape({name: list(value.shape) for name, value in values.items()})
            for how, engine in (("", compiled), ("reshaped", ir_runtime.compile_model(reshaped))):
                check_equal(engine(values).to_list(), wanted, f"{seed}, {shape}, {how}")
            if index == seed % 4:
                in_openvino.append((Run(irs[seed], values, output_names(model)), wanted, f"{seed}, {shape}, openvino"))
    runs = [one for one, _, _ in in_openvino]
    for (one, wanted, what), outputs in zip(in_openvino, run_together(runs)):
        check_equal(run_openvino(one.ir, one.feeds, one.names) if outputs is None else outputs, wanted, what)


def check_equal(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], what: str) -> None:
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, want, err_msg=what)


# --- graphs that a pattern nearly matches, in both engines against onnxruntime ---

SEED = 9


@pytest.mark.parametrize("block", range(20))
def test_what_is_nearly_an_idiom_computes_the_same(block: int) -> None:
    outcomes = {number: outcome(number, SEED) for number in range(block * 20, block * 20 + 20)}
    models = {number: each for number, each in outcomes.items() if each.verdict != "no model"}
    assert len(models) >= 10
    for each in models.values():
        assert each.verdict in ("same", "not in OpenVINO"), each.description


PIPELINES = [passes, *RULES]


def an_order(pipeline: Pipeline, chance: random.Random) -> list[Pass]:
    """Each pass after those that it must come after, otherwise by chance."""
    left = {one.name: one for one in pipeline.all()}
    found: list[Pass] = []
    while left:
        free = [one for one in left.values() if not any(name in left for name in one.entry.after)]
        found.append(left.pop(chance.choice(free).name))
    return found


def outputs(model: Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    compiled = compile_model(model, optimize=False)
    found = compiled(feeds)
    return {name: found[name] for port in compiled.outputs for name in port.names}


def check_orders(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray], plain: Model, count: int) -> int:
    """Run passes and rules in random orders; the number of changes."""
    expected = outputs(plain, feeds)
    assert {value.name for value in proto.graph.output} <= set(expected)
    changes = 0
    for number in range(count):
        chance = random.Random(number)
        model = plain.clone()
        for pipeline in PIPELINES:
            changes += sum(pipeline.run(model, an_order(pipeline, chance)).values())
        found = outputs(model, feeds)
        for name, wanted in expected.items():
            what = f"order {number}, output '{name}'"
            assert found[name].dtype == wanted.dtype, what
            assert found[name].shape == wanted.shape, what
            scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5 * scale, err_msg=what)
    return changes


@pytest.mark.parametrize("block", range(20))
def test_any_order_keeps_random_graphs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = 0
    for seed in range(7000 + block * 20, 7000 + block * 20 + 20):
        proto, x = random_graph(seed)
        try:
            plain = translated(proto, monkeypatch)
        except converter.InvalidModelError:
            continue  # such as float32 with integers, which onnxruntime refuses, too
        changes += check_orders(proto, {"x": x}, plain, 3)
    assert changes


@pytest.mark.every_row
@pytest.mark.parametrize("name", MODELS)
def test_any_order_keeps_typical_models(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = MODELS[name]()
    plain = translated(proto, monkeypatch)
    if not name.startswith("quantized"):
        check_orders(proto, feeds_for(proto, {"n": 2, "s": 6, "h": 24, "w": 32}), plain, 5)
        return
    # In 8 bits the rules of the plug-in compute otherwise on purpose: other orders of sums go to other steps.
    for number in range(5):
        model, chance = plain.clone(), random.Random(number)
        assert sum(sum(pipeline.run(model, an_order(pipeline, chance)).values()) for pipeline in PIPELINES)


def test_orders_are_different_and_keep_what_must_come_first() -> None:
    orders = [an_order(openvino_cpu, random.Random(seed)) for seed in range(5)]
    assert len({tuple(one.name for one in order) for order in orders}) == 5
    for order in orders:
        place = {one.name: index for index, one in enumerate(order)}
        assert len(place) == len(openvino_cpu.all())
        assert all(place[name] < place[one.name] for one in order for name in one.entry.after)
