"""Layers that are replaced by others; Model.reshape in all the forms that OpenVINO's has."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest

import converter
import ir_runtime
from ir_runtime import Dimension, InferenceError, InternalError, Model, ModelError, Node, Output, compile_model
from ir_runtime.graph import InputMap, Origin, OutputMap, Part, PartialShape, RuntimeInfo, SubGraph, make_node
from ir_runtime.operations.control_flow import If8, TensorIterator1
from ir_runtime.operations.elementwise import Abs1, Add1, Equal1, Multiply1, Negative1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.movement import Concat1, Reshape1, Transpose1
from ir_runtime.rewriting import Builder, PassTrace, Replacement, UniqueNames, fail
from ir_runtime.rewriting.replace_layers import replace_layers
from tests.engines import core
from tests.ir_runtime.rewriting.models import branches, model_of, parameter

X = np.arange(48, dtype=np.float32).reshape(2, 3, 1, 4, 1, 2)


def test_layers_of_bodies_behind_parts_without_any() -> None:
    """The branches of an If have one multiplication and one addition, the model around them none."""

    def swapped(builder: Builder, node: Node) -> Output:
        return builder.emit(Add1() if isinstance(node.op, Multiply1) else Multiply1(), *node.inputs)

    for kind in (Add1, Multiply1):
        model = converter.convert_model(branches(), target="any")
        assert replace_layers(model, (kind,), swapped) == 1
        found = [node.op.type for part in model.all_models() for node in part.nodes()]
        other = "Multiply" if kind is Add1 else "Add"
        assert (found.count(kind.__name__[:-1]), found.count(other)) == (0, 2)


def in_a_row(count: int) -> Model:
    """Transposes that rotate the axes, one behind the other."""
    x = parameter("x", "2,3,1,4,1,2")
    build, value = Builder(), x.outputs[0]
    for number in range(count):
        node = make_node(Transpose1(), [value, build.constant([1, 2, 3, 4, 5, 0])], f"t{number}")
        value = node.outputs[0]
        value.names = [f"t{number}"]
    return model_of([x], value)


def joined(builder: Builder, node: Node) -> Replacement:
    """Two Transposes as one; its writer thinks of no third one."""
    before = node.inputs[0].node
    if not isinstance(before.op, Transpose1):
        return fail("no Transpose before it")
    first, second = before.inputs[1].type.constant, node.inputs[1].type.constant
    assert first is not None
    assert second is not None
    return builder.emit(Transpose1(), before.inputs[0], builder.constant(first[second]))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_chains_become_one_layer(count: int) -> None:
    model, trace = in_a_row(count), PassTrace()
    expected = compile_model(in_a_row(count))({"x": X})[f"t{count - 1}"]
    assert replace_layers(model, (Transpose1,), joined, trace) == count - 1
    assert [node.name for node in model.nodes() if isinstance(node.op, Transpose1)] == [f"t{count - 1}"]
    np.testing.assert_array_equal(compile_model(model)({"x": X})[f"t{count - 1}"], expected)
    assert trace.replaced == [f"t{number}" for number in range(1, count)]
    assert dict(trace.reasons) == {"no Transpose before it": ["t0"]}
    assert trace.looked == count


def test_what_goes_over_to_the_replacement() -> None:
    model = in_a_row(2)
    (old,) = [node for node in model.nodes() if node.name == "t1"]
    old.runtime_info = (RuntimeInfo("mark"),)
    old.origin = Origin("n", "Transpose")
    replace_layers(model, (Transpose1,), joined)
    (new,) = [node for node in model.nodes() if isinstance(node.op, Transpose1)]
    assert (new.name, new.runtime_info, new.origin) == ("t1", (RuntimeInfo("mark"),), Origin("n", "Transpose"))
    assert new.outputs[0].names == ["t1"]


def test_layers_that_nothing_reads_any_more_are_left_out() -> None:
    """The rule looks at ReLU behind Abs; Abs is gone with the first ReLU, and is not replaced itself."""
    x = parameter("x", "2,3")
    build = Builder()
    inner = build.emit(Abs1(), x.outputs[0])
    outer = build.emit(Negative1(), inner)
    model, looked = model_of([x], outer), []

    def replaced(builder: Builder, node: Node) -> Replacement:
        looked.append(node.op.type)
        return builder.emit(Negative1(), x.outputs[0]) if node is outer.node else fail("inner")

    # The order is turned round: what comes later is replaced first.
    part = Part(model)
    part.nodes.reverse()
    model.parts = lambda: [part]  # type: ignore[method-assign]
    assert replace_layers(model, (Abs1, Negative1), replaced) == 1
    assert looked == ["Negative"]


def test_a_replacement_may_read_the_layer_that_it_replaces() -> None:
    """The old layer stays, and all that has read it reads the new one; in a row as well."""
    model = in_a_row(2)

    def doubled(builder: Builder, node: Node) -> Replacement:
        return builder.emit(Add1(), node.outputs[0], node.outputs[0])

    expected = 4 * compile_model(in_a_row(2))({"x": X})["t1"]
    assert replace_layers(model, (Transpose1,), doubled) == 2
    types = [node.op.type for node in model.nodes() if node.op.type in ("Transpose", "Add")]
    assert types == ["Transpose", "Add", "Transpose", "Add"]
    np.testing.assert_array_equal(compile_model(model)({"x": X})["t1"], expected)


@pytest.mark.parametrize("count", [0, 2])
def test_each_output_has_one_replacement(count: int) -> None:
    with pytest.raises(InternalError, match=rf"{count} values replace the 1 outputs of layer 't0' \(Transpose\)"):
        replace_layers(in_a_row(1), (Transpose1,), lambda builder, node: [node.inputs[0]] * count)


def test_what_an_attempt_that_failed_has_emitted_is_not_taken_up() -> None:
    """Layers of the first attempt have no names: the second one emits its own."""
    model = in_a_row(2)

    def second(builder: Builder, node: Node) -> Replacement:
        (x,) = model.parameters
        order = builder.constant([2, 3, 4, 5, 0, 1])
        return fail("not this one") if node.name == "t0" else builder.emit(Transpose1(), x.outputs[0], order)

    assert replace_layers(model, (Transpose1,), second) == 1
    assert [node.name for node in model.nodes() if node.op.type == "Const"] == ["t1/Const"]


# --- reshape ---


def two_inputs() -> Model:
    a, b = parameter("a", "2,3"), parameter("b", "2,3")
    build = Builder()
    total = build.emit(Add1(), a.outputs[0], b.outputs[0])
    joined = build.emit(Concat1(axis=0), total, b.outputs[0])
    for node in build.emitted:
        node.name = node.op.type
    return model_of([a, b], joined)


FORMS = [
    ({"a": [5, 7], "b": [5, 7]}, "10,7"), ({0: [5, 7], 1: [5, 7]}, "10,7"), ({"a": "5,7", "b": "[5,7]"}, "10,7"),
    ({"a": PartialShape([5, 7]), "b": (5, 7)}, "10,7"), ({"a": [-1, 7], "b": [None, 7]}, "?,7"),
    ({"a": [(1, 4), 7], "b": ["1..4", 7]}, "2..8,7"), ({"a": [Dimension(2), 7], "b": [(2, -1), 7]}, "4..,7"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "result"), FORMS, ids=[str(form) for form, _ in FORMS])
def test_forms(shapes: Any, result: str) -> None:
    model = two_inputs()
    model.reshape(shapes)
    assert model.outputs[0].shape == PartialShape.parse(result)


def test_ports_and_one_input_alone() -> None:
    model = two_inputs()
    compiled = ir_runtime.compile_model(model)
    model.reshape({port: [1, 1] for port in compiled.inputs})
    assert model.outputs[0].shape == PartialShape([2, 1])
    a = parameter("a", "2,3")
    single = model_of([a], a.outputs[0])
    single.reshape([4, "..9"])
    assert single.outputs[0].shape == PartialShape([4, Dimension(0, 9)])


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ({"c": [1]}, ModelError, r"the model has no input 'c'; its inputs are \['a', 'b'\]"),
        ({2: [1]}, ModelError, "the model has no input 2"),
        ({"a": [1], 0: [1]}, ModelError, "the input 0 is given two shapes"),
        ({"a": ["x"]}, ModelError, r"the shape \['x'\] of the input 'a' cannot be read"),
        ([1, 2], ModelError, "the model has 2 inputs: say which of them gets which shape"),
        ({"a": [5, 7]}, InferenceError, r"layer 'Add' \(Add\): the shapes \[5,7\] and \[2,3\] cannot be broadcast"),
    ],
)
def test_errors_leave_the_model_as_it_was(shapes: Any, error: type[ModelError], message: str) -> None:
    model = two_inputs()
    with pytest.raises(error, match=message):
        model.reshape(shapes)
    assert [output.shape for output in model.inputs] == [PartialShape([2, 3])] * 2
    assert model.outputs[0].shape == PartialShape([4, 3])


def _body() -> Model:
    x = parameter("x", "1,3")
    build = Builder()
    return model_of([x], build.emit(Multiply1(), x.outputs[0], x.outputs[0]))


@pytest.mark.parametrize("rows", ["2,3", "?,3"])
def test_an_iteration_adds_parts_of_the_stated_size(rows: str) -> None:
    """As OpenVINO's CPU plug-in requires it: where the shapes do not tell, running says so."""
    a, x = parameter("a", rows), parameter("x", rows)
    loop = TensorIterator1(
        bodies=(SubGraph(model_of([x], x.outputs[0]), (InputMap(0, 0),), (OutputMap(0, 0, axis=0),)),)
    )
    message = "an iteration adds 2 elements along axis 0, where part_size is 1"
    if rows == "2,3":
        with pytest.raises(InferenceError, match=message):
            make_node(loop, [a.outputs[0]], "loop")
        return
    model = model_of([a], make_node(loop, [a.outputs[0]], "loop").outputs[0])
    with pytest.raises(ir_runtime.ExecutionError, match=message):
        ir_runtime.compile_model(model)(np.zeros((2, 3), np.float32))
    xml, weights = ir_runtime.model_to_bytes(model)
    with pytest.raises(RuntimeError, match="incorrect output shape"):
        core().compile_model(core().read_model(xml, weights))(np.zeros((2, 3), np.float32))


def test_bodies_follow() -> None:
    """A loop over the rows, and a choice whose branches differ: in the file they have the new shapes, too."""
    a = parameter("a", "4,3")
    loop = TensorIterator1(bodies=(SubGraph(_body(), (InputMap(0, 0, axis=0),), (OutputMap(0, 0, axis=0),)),))
    squares = make_node(loop, [a.outputs[0]], "loop")
    model = model_of([a], squares.outputs[0])
    before = model.nodes()[1].op.subgraphs[0].body
    model.reshape([6, 5])
    body = model.nodes()[1].op.subgraphs[0].body
    assert body.parameters[0].outputs[0].shape == PartialShape([1, 5])
    assert body.outputs[0].shape == PartialShape([1, 5])
    assert before.outputs[0].shape == PartialShape([1, 3])  # bodies may be shared, and are never changed
    xml, weights = ir_runtime.model_to_bytes(model)
    assert '<data shape="1,5"' in xml.decode().replace("1, 5", "1,5")
    theirs = core().read_model(xml, weights) if weights else core().read_model(xml)
    theirs.reshape(openvino.PartialShape([7, 2]))
    again = ir_runtime.read_model(xml, weights)
    again.reshape([7, 2])
    assert again.outputs[0].shape == PartialShape(list(theirs.outputs[0].get_shape()))


def test_a_branch_that_is_not_taken_need_not_fit() -> None:
    """If of a condition that follows from the shape: one branch adds, the other asks for exactly 6 elements."""
    x = parameter("x", "?,?")
    build = Builder()
    dimensions = build.emit(ShapeOf3(output_type=ir_runtime.graph.element_types.i64), x.outputs[0])
    rows = build.emit(Gather8(), dimensions, build.constant(0), build.constant(0))
    condition = build.emit(Equal1(), rows, build.constant(2))
    inner = Builder()
    p, q = parameter("p", "?,?"), parameter("q", "?,?")
    six = inner.emit(Reshape1(special_zero=False), p.outputs[0], inner.constant([6]))
    other = inner.emit(Reshape1(special_zero=False), q.outputs[0], inner.constant([-1]))
    branches = [
        SubGraph(model_of([node], out), (InputMap(1, 0),), (OutputMap(0, 0),)) for node, out in ((p, six), (q, other))
    ]
    chosen = make_node(If8(bodies=tuple(branches)), [condition, x.outputs[0]], "if")
    model = model_of([x], chosen.outputs[0])
    model.reshape([2, 3])
    assert model.outputs[0].shape == PartialShape([6])
    model.reshape([5, 4])
    assert model.outputs[0].shape == PartialShape([20])
    x_value = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(ir_runtime.compile_model(model)(x_value)[0], x_value.reshape(-1))


def test_what_dimensions_decide_is_no_step_of_the_plan() -> None:
    x = parameter("x", "?,3")
    build = Builder()
    dimensions = build.emit(ShapeOf3(output_type=ir_runtime.graph.element_types.i64), x.outputs[0])
    model = model_of([x], build.emit(Reshape1(special_zero=False), x.outputs[0], dimensions))
    for shape, steps in (([-1, 3], ["ShapeOf", "Reshape"]), ([4, 3], ["Reshape"])):
        model.reshape(shape)
        plan = ir_runtime.compile_model(model)._calls.plan_for_any_shapes()
        assert [step.type for step in plan.steps] == steps


def test_copies_are_apart_and_names_unique() -> None:
    model = two_inputs()
    copy = model.clone()
    copy.reshape({"a": [1, 1], "b": [1, 1]})
    assert model.outputs[0].shape == PartialShape([4, 3])
    unique = UniqueNames(model)
    assert [unique("Add"), unique("Add"), unique("new"), unique("new")] == ["Add_1", "Add_2", "new", "new_1"]
