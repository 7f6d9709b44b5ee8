"""Models and entries of pipelines that tests of graphs and rewriting share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

import ir_runtime
from ir_runtime.graph import Model, Node, Output, PartialShape, make_node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Negative1
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.rewriting import Builder
from ir_runtime.rewriting.contracts import EXACT
from ir_runtime.rewriting.pipeline import Entry
from tests.converter.optimization.models import parse

WEIGHTS = np.arange(4096, dtype=np.float32)


def parameter(name: str, shape: str) -> Node:
    node = make_node(
        Parameter1(shape=PartialShape.parse(shape), element_type=ir_runtime.graph.element_types.f32), (), name
    )
    node.outputs[0].add_name(name)
    return node


def model_of(parameters: list[Node], *outputs: Any) -> Model:
    return Model("m", parameters, [make_node(Result1(), [out], f"r{i}") for i, out in enumerate(outputs)])


def chain() -> tuple[Model, list[Output]]:
    """x -> Abs -> ReLU -> Negative -> result."""
    x = parameter("x", "2,3")
    build, values = Builder(), [x.outputs[0]]
    for operation in (Abs1, ReLU1, Negative1):
        values.append(build.emit(operation(), values[-1]))
        values[-1].node.name = operation.type
    return model_of([x], values[-1]), values


def branches() -> onnx.ModelProto:
    """y = x + weights where c holds, and x * 2 where not."""
    bodies = [f"b () => (float[4096] b) {{ b = {op} (x, {other}) }}" for op, other in (("Add", "w"), ("Mul", "two"))]
    node = f"y = If <then_branch = {bodies[0]}, else_branch = {bodies[1]}> (c)"
    return parse(f"branches (float[n] x, bool c) => (float[a] y) {{ {node} }}", w=WEIGHTS, two=np.float32(2))


def entry(name: str, *operations: str, after: Sequence[str] = (), groups: Any = ("cleanup",)) -> Entry:
    return Entry(name, operations or None, groups, after=after, reason="of the test", contract=EXACT)
