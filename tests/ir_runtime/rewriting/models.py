"""Models and entries of pipelines that tests of graphs and rewriting share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ir_runtime
from ir_runtime import PartialShape
from ir_runtime.graph.model import (
    Model,
    Node,
    Output,
)
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Negative1
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.contracts import EXACT
from ir_runtime.rewriting.pipeline import Entry

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
    made = []
    for op, other in (("Add", "w"), ("Mul", "two")):
        value = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4096])
        made.append(helper.make_graph([helper.make_node(op, ["x", other], ["b"])], op, [], [value]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=made[0], else_branch=made[1])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    constants = [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.float32(2), "two")]
    graph = helper.make_graph([node], "branches", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def entry(name: str, *operations: str, after: Sequence[str] = (), groups: Any = ("cleanup",)) -> Entry:
    return Entry(name, operations or None, groups, after=after, reason="of the test", contract=EXACT)
