"""Each invariant finds the model that breaks it, and names the place; a model that keeps them all breaks none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ir_runtime import InternalError, Model
from ir_runtime.graph.invariants import INVARIANTS, Promise, check, violations
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.inputs_outputs import Assign6, Parameter1, ReadValue6, Result1
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.execution.kernel_checks import op


def a_model() -> Model:
    """x and y of [2,3]; sum and its ReLU are returned, and the sum is kept in a variable."""
    builder = Builder()
    inputs = [make_node(Parameter1(shape=PartialShape([2, 3]), element_type="f32"), (), name) for name in "xy"]
    for node in inputs:
        node.outputs[0].add_name(node.name)
    inner = builder.emit(op("Add"), *[node.outputs[0] for node in inputs])
    inner.add_name("inner")
    added = builder.emit(op("Add"), inner, builder.constant(np.ones((2, 3), np.float32), "f32"))
    relu = builder.emit(op("ReLU"), added)
    read = builder.emit(ReadValue6(variable_id="v", variable_type="f32", variable_shape=PartialShape([2, 3])), added)
    kept = make_node(Assign6(variable_id="v"), [read], "keep")
    for index, node in enumerate(builder.emitted):
        node.name = f"{node.op.type}{index}"
    results = []
    for name, value in (("sum", added), ("positive", relu)):
        value.add_name(name)
        results.append(make_node(Result1(), [value], f"{name}/result"))
    return Model("m", inputs, results, [kept])


def named(model: Model, type: str) -> list:
    return [node for node in model.nodes() if node.op.type == type]


def wrong_type(model: Model) -> None:
    output = named(model, "ReLU")[0].outputs[0]
    output.type = TensorType(output.element_type, PartialShape([-1, 3]))


def wrong_element_type(model: Model) -> None:
    output = named(model, "ReLU")[0].outputs[0]
    output.type = replace(output.type, element_type=find_operation("ShapeOf", 3)(output_type="i64").output_type)


def large_constant(model: Model) -> None:
    builder = Builder()
    large = builder.constant(np.ones((200, 200, 2, 3), np.float32), "f32")
    node = named(model, "ReLU")[0]
    spread = builder.emit(op("Add"), node.inputs[0], large)
    node.inputs = [builder.emit(op("ReduceMax"), spread, builder.constant([0, 1]))]
    for index, made in enumerate(builder.emitted):
        made.name = f"new{index}"


def two_names_on_one_tensor(model: Model) -> None:
    for node in model.results:
        node.output_names = list(node.inputs[0].names)
    model.results[1].inputs = list(model.results[0].inputs)


def name_of_another_shape(model: Model) -> None:
    first, second = named(model, "Add")
    builder = Builder()
    reduced = builder.emit(op("ReduceMax"), first.outputs[0], builder.constant([0]))
    for index, made in enumerate(builder.emitted):
        made.name = f"new{index}"
    second.inputs = [reduced, second.inputs[1]]
    reduced.names, first.outputs[0].names = first.outputs[0].names, []


def cycle(model: Model) -> None:
    named(model, "Add")[0].replace_input(0, named(model, "ReLU")[0].outputs[0])


BREAKERS: dict[str, tuple[Callable[[Model], object], str]] = {
    "a cycle": (cycle, "is part of a cycle"),
    "an input less": (lambda m: setattr(m, "parameters", m.parameters[:-1]), "there were 2 inputs, but are 1"),
    "inputs in another order": (lambda m: setattr(m, "parameters", m.parameters[::-1]), r"input 0 must be called \['x'\], but is called \['y'\]"),
    "an output less": (lambda m: setattr(m, "results", m.results[:-1]), "there were 2 outputs, but are 1"),
    "an output renamed": (lambda m: m.results[0].inputs[0].names.clear(), r"output 0 must be called \['sum'\]"),
    "two outputs of one tensor": (lambda m: setattr(m.results[1], "inputs", list(m.results[0].inputs)), r"output 1 must be called \['positive'\]"),
    "two names on one tensor": (
        two_names_on_one_tensor,
        r"each Result has a tensor of its own: \['sum'\] and \['positive'\] are .*promises \['positive'\], which output 0",
    ),
    "a sink less": (lambda m: setattr(m, "sinks", ()), "lost are Assign"),
    "a parameter that is not listed": (lambda m: setattr(m, "parameters", m.parameters[1:]), "layer 'x' .* is listed 0 times"),
    "an input that is not counted": (lambda m: setattr(m.inputs[0], "_uses", None), "uses are the layers that read a value: .* reads output 0 of layer 'x'"),
    "a layer's name twice": (lambda m: setattr(named(m, "ReLU")[0], "name", "x"), "no layer's name is given twice: 'x' 2 times"),
    "a tensor's name twice": (lambda m: named(m, "ReLU")[0].outputs[0].add_name("x"), "no tensor's name is given twice: 'x' 2 times"),
    "a name on a value of another shape": (name_of_another_shape, r"'inner' was called a value of type f32\[2,3\], but .* is f32\[3\]"),
    "a wrong shape": (wrong_type, "ReLU.* is declared .*but inference finds"),
    "a wrong element type": (wrong_element_type, "ReLU.* is declared .*i64.*but inference finds"),
    "an unfolded constant": (large_constant, "there were 24 bytes of constants, but are"),
}  # fmt: skip


def test_a_model_that_is_right() -> None:
    assert violations(a_model()) == []


@pytest.mark.every_row
@pytest.mark.parametrize("name", BREAKERS)
def test_what_breaks_an_invariant_is_found(name: str) -> None:
    model = a_model()
    promise = Promise.of(model)
    change, message = BREAKERS[name]
    change(model)
    with pytest.raises(InternalError, match=rf"^the pass 'p' left an invalid model, .*{message}"):
        check(model, promise, "the pass 'p'", thorough=True)


def test_every_invariant_has_a_model_that_breaks_it() -> None:
    found = set()
    for change, _ in BREAKERS.values():
        model = a_model()
        promise = Promise.of(model)
        change(model)
        found |= {one.partition(":")[0] for one in violations(model, promise)}
    assert {one.name for one in INVARIANTS} <= found


def test_names_that_were_given_twice_before_are_no_fault_of_a_pass() -> None:
    model = a_model()
    first, second = named(model, "Add")
    first.name = second.name = ""
    promise = Promise.of(model)
    assert violations(model, promise) == []
    assert violations(model) == ["no layer's name is given twice: '' 2 times"]
    named(model, "ReLU")[0].name = ""
    assert violations(model, promise) == ["no layer's name is given twice: '' 3 times"]
