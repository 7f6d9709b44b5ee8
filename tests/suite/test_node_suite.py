"""ONNX's node suite: other shapes, and the types of all values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import converter
from ir_runtime.errors import ModelError
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Model, Output
from ir_runtime.graph.operation import Runner
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.engines import ENGINES
from tests.fuzz.random_graphs import random_graph
from tests.ir_runtime.operations.relaxation import contradiction
from tests.suite.known import known_failures, known_reshape_failures
from tests.suite.node_suite import Case, as_array, node_cases
from tests.suite.reshape import confirmed, outcomes

# --- static models of ONNX's node suite, converted as they are and then given other dimensions, in both engines ---


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    found: dict[str, list[str]] = {engine: [] for engine in ENGINES}
    for one, verdicts in outcomes(case):
        for engine in ENGINES:
            is_wrong = verdicts[engine].startswith("wrong")
            if is_wrong or (verdicts[engine] != "right" and confirmed(case.model, one)):
                found[engine].append(f"{one.label}: {verdicts[engine]}")
    for engine in ENGINES:
        if (case.name, engine) in known_failures():
            continue  # not right as it stands, either
        reason = known_reshape_failures().get((case.name, engine))
        if reason is None:
            assert not found[engine], f"{engine}: {found[engine]}"
        else:
            assert found[engine], f"{engine} is right, but is listed as failing: {reason}"


# --- every value inside models, bodies too, is of the type that was inferred for it ---


def contradictions(model: Model, arguments: Sequence[Array]) -> Iterator[str]:
    """What is not of its inferred type when the model runs; ends where execution fails."""
    found: list[str] = []

    def run(graph: Model, arrays: Sequence[Array]) -> list[Array]:
        values: dict[Output, Array] = dict(zip(graph.inputs, arrays))
        for node in graph.nodes():
            if node.outputs and node.outputs[0] not in values:
                runners: list[Runner] = [lambda given, body=sub.body: run(body, given) for sub in node.op.subgraphs]
                inputs = [values[source] for source in node.inputs]
                results = as_tuple(node.op.execute(runners, inputs))
                values.update(zip(node.outputs, results))
            for output in node.outputs:
                wrong = contradiction(output.type, values[output], values=node.op.deterministic)
                if wrong:
                    found.append(f"{node.name} ({node.op.type}-{node.op.opset}) {output.type}: {wrong}")
        return [values[output] for output in graph.outputs]

    with np.errstate(all="ignore"):
        run(model, arguments)
    return iter(found)


def _names(model: onnx.ModelProto) -> list[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in stored]


def _conversions(proto: onnx.ModelProto, arrays: Sequence[Any]) -> Iterator[tuple[str, Model]]:
    """The model as the file declares it, with dynamic dimensions from the start, and opened afterwards."""
    opened = {name: [-1] * np.ndim(array) for name, array in zip(_names(proto), arrays) if np.ndim(array)}
    try:
        yield "as given", converter.convert_model(proto)
    except converter.ConversionError:
        return  # What does not convert is held by the suite's own list.
    if not opened:
        return
    # Some operators have layers only for static dimensions.
    with contextlib.suppress(converter.ConversionError):
        yield "open", converter.convert_model(proto, input=opened)
    with contextlib.suppress(ModelError):
        model = converter.convert_model(proto)
        model.reshape(opened)
        yield "opened", model


def _ordered(model: Model, named: dict[str, Any]) -> list[Array]:
    """The arrays in the order of the model's parameters."""
    return [np.asarray(named[node.outputs[0].names[0]]) for node in model.parameters]


def check(proto: onnx.ModelProto, arrays: Sequence[Any]) -> None:
    for how, model in _conversions(proto, arrays):
        named = {
            name: array.astype(np.object_) if array.dtype.kind == "U" else array
            for name, array in zip(_names(proto), map(np.asarray, arrays))
        }
        wrong = list(contradictions(model, _ordered(model, named)))
        assert not wrong, f"{how}: {wrong[:5]}"


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_values_of_the_node_suite(case: Case) -> None:
    for inputs, _ in case.data_sets:
        given = [as_array(value) for value in inputs if value is not None]
        if all(isinstance(array, (np.ndarray, np.generic)) for array in given):
            check(case.model, given)


@pytest.mark.parametrize("block", range(20))
def test_values_of_random_chains(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        proto, x = random_graph(seed)
        check(proto, [x])
