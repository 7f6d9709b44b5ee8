"""What a comparison takes grows no faster than the model: calls are counted on 10 and on 40 residual blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import compare_models
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1

FEW, MANY = 10, 40


def residual(count: int, folder: Path) -> Path:
    """``s = s + relu(s @ w)``, again and again: a value is reached over 2 to the power of ``count`` paths."""
    generator = np.random.default_rng(0)
    nodes, weights, last = [], {}, "x"
    for index in range(count):
        weights[f"w{index}"] = (generator.standard_normal((64, 64)) / 16).astype(np.float32)
        nodes += [
            helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], name=f"product{index}"),
            helper.make_node("Relu", [f"p{index}"], [f"r{index}"], name=f"relu{index}"),
            helper.make_node("Add", [last, f"r{index}"], [f"s{index}"], name=f"sum{index}"),
        ]
        last = f"s{index}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / f"{count}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


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
    """How many functions are called, and what comes of it."""
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


@pytest.mark.parametrize("layers", [False, True])
@pytest.mark.parametrize("form", ["plain", "int8", "nameless"])
def test_a_comparison_is_linear_in_the_number_of_blocks(tmp_path: Path, form: str, layers: bool) -> None:
    counts = []
    for size in (2, FEW, MANY):  # the first one imports and caches
        path = residual(size, tmp_path)
        model = converter.convert_model(path)
        made = nameless(model) if form == "nameless" else model
        ir = tmp_path / "m.xml"
        converter.save_model(made, ir, compress="int8" if form == "int8" else None)
        count, report = calls_of(lambda path=path, ir=ir: converter.verify(path, ir, layers=layers))
        assert report.passed
        assert report.weight_states == {"compressed" if form == "int8" else "identical": size}
        counts.append(count)
    assert counts[2] < 1.25 * counts[1] * MANY / FEW


def test_a_difference_of_models_without_common_names_is_linear(tmp_path: Path) -> None:
    counts = []
    for size in (2, FEW, MANY):
        model = converter.convert_model(residual(size, tmp_path))
        other = nameless(model)
        count, found = calls_of(lambda model=model, other=other: compare_models(model, other))
        assert found.same
        assert found.paired == len(model.nodes())
        counts.append(count)
    assert counts[2] < 1.25 * counts[1] * MANY / FEW


def test_values_of_constants_are_known_whatever_else_a_layer_reads(tmp_path: Path) -> None:
    """Codes that scales widen are still found behind 40 blocks; a damaged code still fails."""
    path = residual(MANY, tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", compress="int8")
    model = ir_runtime.read_model(tmp_path / "m.xml")
    codes = [node for node in model.nodes() if node.op.data is not None and node.op.data.shape == (64, 64)]
    assert len(codes) == MANY
    held = codes[-1].op.data
    assert held is not None
    array = held.array().copy()
    array[3, 3] ^= 128
    codes[-1].op = Const1(value=Tensor.from_array(array, held.element_type))
    _, report = calls_of(lambda: converter.verify(path, model))
    assert [check.state for check in report.weights if not check.passed] == ["changed"]
