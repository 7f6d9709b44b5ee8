"""The differences of two IRs; what they and comparisons take grows no faster than the model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import compare_models
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import array_of, attributes, bit, damaged, layer, overwrite
from tests.converter.equivalence.models import real, saved
from tests.converter.optimization.models import parse
from tests.engines import node_model
from tests.rows.onnx.control_flow import UNCHANGED

FEW, MANY = 10, 40


def image() -> Model:
    return converter.convert_model(models.image())


def changes_of(first: Model, second: Model) -> dict[str, tuple[str, ...]]:
    return {change.layer: change.what for change in compare_models(first, second).changed}


def test_equal_models_whatever_ids_and_order() -> None:
    first, second = image(), image()
    second.parameters = second.parameters[::-1]
    for index, node in enumerate(second.nodes()):
        if node.op.type not in ("Parameter", "Result"):
            node.name = f"renamed{index}"
    found = compare_models(first, second)
    assert (found.same, found.paired) == (True, len(first.nodes()))


def test_what_changed_is_listed() -> None:
    first, second, third = image(), image(), image()
    attributes("conv", pads_begin=[0, 1], pads_end=[2, 1])(second)
    product = layer(second, "Multiply")
    before = [source.node.name for source in product.inputs]
    product.inputs = product.inputs[::-1]
    assert changes_of(first, second) == {
        "conv": (
            "pads_begin is 1, 1 where the other model has 0, 1",
            "pads_end is 1, 1 where the other model has 2, 1",
        ),
        product.name: tuple(
            f"input {at} is output 0 of '{before[at]}' where the other model has output 0 of '{before[1 - at]}'"
            for at in (0, 1)
        ),
    }
    damaged()(third)
    assert changes_of(first, third) == {"k": ("4 of 216 values differ, by 1 at most",)}


@pytest.mark.parametrize("shape", [(1000, 1500), (1500, 700), (7, 3)], ids=str)
def test_weights_that_are_stored_in_other_ways(shape: tuple[int, int], tmp_path: Path) -> None:
    """Of the file, which has gaps as it is transposed, and of the IR; and of weights in memory."""
    values = real(*shape)
    converted = converter.convert_model(node_model("MatMul", {"x": values.T[:2]}, constants={"w": values}, opset=13))
    converter.save_model(converted, tmp_path / "m.xml")
    for second in (ir_runtime.read_model(tmp_path / "m.xml"), converted.clone()):
        assert compare_models(converted, second).same
        other = array_of(second, [2])
        other[-1, -1] += 2.0
        overwrite(second, [2], lambda _, other=other: other)
        (what,) = changes_of(converted, second).values()
        assert what == (f"1 of {values.size} values differ, by 2 at most",)


def test_bodies() -> None:
    first, second = (converter.convert_model(UNCHANGED[0].model) for _ in range(2))
    assert compare_models(first, second).same
    loop = next(node for node in second.nodes() if node.op.subgraphs)
    inner = layer(loop.op.subgraphs[0].body, "Add")
    inner.inputs = (*inner.inputs, inner.inputs[0])
    assert changes_of(first, second) == {f"{loop.name}/{inner.name}": ("it has 2 inputs where the other model has 3",)}


def residual(count: int) -> onnx.ModelProto:
    """``s = s + relu(s @ w)``, again and again: a value is reached over 2 to the power of ``count`` paths."""
    random = np.random.default_rng(0)
    weights = {f"w{at}": (random.standard_normal((64, 64)) / 16).astype(np.float32) for at in range(count)}
    nodes = "[product{n}] p{n} = MatMul ({x}, w{n}) [relu{n}] r{n} = Relu (p{n}) [sum{n}] s{n} = Add ({x}, r{n})"
    return parse(f"g (float[n,64] x) => (s{count - 1}) {{ {models.in_a_row(count, nodes, 's')} }}", **weights)


def nameless(model: Model) -> Model:
    """A copy whose inner layers and tensors have other names than the ONNX model has for them, or none."""
    made = model.clone()
    for node in made.nodes():
        if node.op.type not in ("Parameter", "Result") and node not in [end.inputs[0].node for end in made.results]:
            node.name = f"other/{node.name}"
            for output in node.outputs:
                output.names = []
    return made


class TooManyCallsError(Exception):
    """What takes 2 to the power of 40 calls is not waited for."""


def calls_of(work: Callable[[], Any], most: int = 20_000_000) -> tuple[int, Any]:
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > most:
            raise TooManyCallsError

    sys.setprofile(counted)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return count, found


def assert_linear(work: Callable[[int], int]) -> None:
    counts = [work(size) for size in (2, FEW, MANY)]  # the first one imports and caches
    assert counts[2] < 1.25 * counts[1] * MANY / FEW


@pytest.mark.parametrize("layers", [False, True])
@pytest.mark.parametrize("form", ["plain", "int8", "nameless", "damaged"])
def test_a_comparison_is_linear_in_the_number_of_blocks(tmp_path: Path, form: str, layers: bool) -> None:
    """Also with codes that scales widen, of which the last one is damaged, and beside a model without common names."""
    is_int8, is_wrong = form in ("int8", "damaged"), form == "damaged"

    def work(size: int) -> int:
        path, ir = saved(residual(size), tmp_path), tmp_path / "m.xml"
        model = converter.convert_model(path)
        written = nameless(model) if form == "nameless" else model
        converter.save_model(written, ir, compress="int8" if is_int8 else None)
        read = ir_runtime.read_model(ir)
        if is_wrong:
            bit((64, 64), -1, 7)(read)
        count, report = calls_of(lambda: converter.verify(path, read, layers=layers))
        assert report.passed is not is_wrong
        right = {"compressed" if is_int8 else "identical": size - is_wrong}
        assert report.weight_states == {**right, **({"changed": 1} if is_wrong else {})}
        return count

    assert_linear(work)


def test_a_difference_of_models_without_common_names_is_linear() -> None:
    def work(size: int) -> int:
        model = converter.convert_model(residual(size))
        count, found = calls_of(lambda: compare_models(model, nameless(model)))
        assert (found.same, found.paired) == (True, len(model.nodes()))
        return count

    assert_linear(work)
