"""Passes and rules on random graphs, in random orders of those that ``after`` leaves free: invariants hold after each
one (``tests/conftest.py`` has every layer checked), and the numbers stay."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import converter
from converter.passes.registry import passes
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime import Model, compile_model
from ir_runtime.rewriting.pipeline import Pass, Pipeline
from tests.converter.option_models import MODELS, feeds_for
from tests.engines import translated
from tests.fuzz.random_graphs import random_graph

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
