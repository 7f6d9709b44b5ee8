"""Who uses a value: kept current by every edit of a graph."""

from __future__ import annotations

import pytest

from ir_runtime.graph.invariants import violations
from ir_runtime.graph.model import Model
from ir_runtime.graph.node import Edits
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Add1, Negative1
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.rewriting.models import chain, model_of, parameter


def types(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes()]


def check_uses(model: Model) -> None:
    assert not [problem for problem in violations(model) if problem.startswith("uses")]


def test_only_layers_of_the_graph_use_a_value() -> None:
    model, (x, absolute, *_, last) = chain()
    unread = Builder().emit(Abs1(), x)
    assert x.uses == [absolute.node]
    assert x.only_user is absolute.node
    assert last.only_user is model.results[0]
    assert not unread.is_used
    assert not unread.node.is_in_graph
    assert absolute.node.is_in_graph


def test_uses_follow_a_replacement() -> None:
    model, (x, absolute, relu, negative) = chain()
    relu.names = ["r"]
    new = Builder().emit(Abs1(), x)
    assert new is not absolute
    assert relu.replace_by(new) == [absolute.node, relu.node], "only the unused ReLU has read the Abs"
    assert types(model) == ["Parameter", "Abs", "Negative", "Result"]
    assert new.uses == [negative.node]
    assert (relu.names, new.names) == ([], ["r"])
    assert not relu.node.is_in_graph
    assert not absolute.node.is_in_graph
    assert x.uses == [new.node]
    assert x.node.is_in_graph, "a model keeps its parameters"
    check_uses(model)


def test_a_layer_that_is_used_again_enters_the_graph_again() -> None:
    model, (x, absolute, relu, negative) = chain()
    relu.replace_by(x)
    assert not absolute.node.is_in_graph
    negative.replace_by(Builder().emit(ReLU1(), absolute))
    assert absolute.node.is_in_graph
    assert x.uses == [absolute.node]
    assert types(model) == ["Parameter", "Abs", "ReLU", "Result"]
    check_uses(model)


def test_layers_between_a_value_and_its_replacement_continue_to_read_it() -> None:
    model, (_, absolute, relu, _) = chain()
    build = Builder()
    absolute.names = ["a"]
    between = build.emit(Negative1(), absolute)
    new = build.emit(Negative1(), between)
    assert absolute.replace_by(new) == []
    assert types(model) == ["Parameter", "Abs", "Negative", "Negative", "ReLU", "Negative", "Result"]
    assert absolute.uses == [between.node]
    assert new.uses == [relu.node]
    assert (absolute.names, new.names) == ([], ["a"])
    check_uses(model)


def test_a_layer_that_is_excluded_continues_to_read_the_value() -> None:
    model, (x, absolute, relu, _) = chain()
    new = Builder().emit(Negative1(), x)
    absolute.replace_by(new, keep=[relu.node], move_names=False)
    assert absolute.uses == [relu.node]
    assert not new.is_used
    assert types(model) == ["Parameter", "Abs", "ReLU", "Negative", "Result"]
    check_uses(model)


def test_a_value_that_a_layer_reads_twice() -> None:
    x, y = parameter("x", "2,3"), parameter("y", "2,3")
    twice = Builder().emit(Add1(), x.outputs[0], x.outputs[0])
    model = model_of([x, y], twice)
    twice.node.replace_input(0, y.outputs[0])
    assert x.outputs[0].uses == y.outputs[0].uses == [twice.node]
    twice.node.replace_input(1, y.outputs[0])
    assert not x.outputs[0].is_used
    check_uses(model)


def test_ends_of_a_model() -> None:
    model, (x, absolute, relu, _) = chain()
    inner = make_node(Result1(), [absolute], "inner")
    assert absolute.uses == [relu.node], "the result belongs to no model yet"
    model.results = (*model.results, inner)
    assert absolute.uses == [relu.node, inner]
    model.results = [inner]
    assert not relu.node.is_in_graph
    assert absolute.uses == [inner]
    model.results = []
    assert not x.is_used
    assert x.node.is_in_graph
    check_uses(model)


def test_what_a_model_remembers_follows_every_edit() -> None:
    model, (x, absolute, relu, negative) = chain()
    for edit in (
        lambda: relu.replace_by(absolute),
        lambda: negative.node.replace_input(0, x),
        lambda: setattr(model, "results", []),
    ):
        before = types(model)
        edit()
        assert len(types(model)) < len(before)


def test_inputs_cannot_be_changed_behind_the_back_of_the_graph() -> None:
    _, (x, absolute, *_) = chain()
    with pytest.raises(TypeError):
        absolute.node.inputs[0] = x  # type: ignore[index]


def test_a_long_chain_enters_and_leaves_without_recursion() -> None:
    x = parameter("x", "2,3")
    value = x.outputs[0]
    for _ in range(20_000):
        value = make_node(Abs1(), [value]).outputs[0]
    model = model_of([x], value)
    assert len(value.replace_by(x.outputs[0])) == 20_000
    assert types(model) == ["Parameter", "Result"]


def test_an_edit_that_another_thread_notes_late_hides_none() -> None:
    """A thread may be stopped between drawing the number of its edit and noting it."""
    model, (_, absolute, relu, _) = chain()
    drawn = next(Edits._numbers)
    before = types(model)
    relu.replace_by(absolute)
    Edits.last = drawn
    assert types(model) == [type for type in before if type != "ReLU"]
