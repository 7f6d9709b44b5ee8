"""Layers that are replaced by others: which are found, chains of them, and what goes over to the replacement."""

from __future__ import annotations

import numpy as np
import pytest

import converter
from ir_runtime import InternalError, compile_model
from ir_runtime.graph.model import Model, Node, Origin, Output, Part, RuntimeInfo
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.elementwise import Abs1, Add1, Multiply1, Negative1
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement, replace_layers
from ir_runtime.rewriting.trace import PassTrace
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


def test_an_inner_value_that_is_returned_stays() -> None:
    model = in_a_row(3)
    (last,) = [node for node in model.nodes() if node.name == "t2"]
    between = last.inputs[0]
    model.results = (*model.results, make_node(Result1(), [between], "inner"))
    wanted = compile_model(model)({"x": X})
    expected = {name: wanted[name] for name in ("t1", "t2")}
    replace_layers(model, (Transpose1,), joined)
    found = compile_model(model)({"x": X})
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


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
