"""Who reads a value, while values are replaced."""

from __future__ import annotations

import pytest

from ir_runtime import InternalError
from ir_runtime.graph.model import Model, Output
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Add1, Negative1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.uses import replace_all_uses, uses_of
from tests.ir_runtime.test_rewrite import model_of, parameter


def chain() -> tuple[Model, list[Output]]:
    """x -> Abs -> ReLU -> Negative -> result."""
    x = parameter("x", "2,3")
    build, values = Builder(), [x.outputs[0]]
    for operation in (Abs1, ReLU1, Negative1):
        values.append(build.emit(operation(), values[-1]))
        values[-1].node.name = operation.type
    return model_of([x], values[-1]), values


def types(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes()]


def test_uses_are_looked_up_and_not_walked() -> None:
    model, (x, *_, last) = chain()
    uses = uses_of(model)
    unread = Builder().emit(Abs1(), x)
    assert x in uses
    assert last in uses, "the result reads it"
    assert unread not in uses
    assert 0 not in uses
    with pytest.raises(TypeError, match="not iterable"):
        iter(uses)  # type: ignore[call-overload]


def test_readers_follow_a_replacement() -> None:
    model, (x, absolute, relu, negative) = chain()
    relu.names = ["r"]
    uses, build = uses_of(model), Builder()
    new = build.emit(Abs1(), x)
    assert new is not absolute
    uses.add(build.emitted)
    uses.replace(relu, new)
    assert types(model) == ["Parameter", "Abs", "Negative", "Result"]
    assert uses[new] == [negative.node]
    assert new.names == ["r"]
    assert uses.is_unused(relu.node)
    assert uses.is_unused(absolute.node), "only the unused ReLU has read it"
    assert uses.only_reader(x) is new.node
    assert not uses.is_unused(x.node), "a model keeps its parameters"


def test_what_is_read_again_counts_again() -> None:
    """Behind an unused Abs a later replacement reads its input once more, through the same layer."""
    model, (x, absolute, relu, negative) = chain()
    uses = uses_of(model)
    uses.replace(relu, x)
    assert uses.is_unused(absolute.node)
    build = Builder()
    new = build.emit(ReLU1(), absolute)
    uses.add(build.emitted)
    uses.replace(negative, new)
    assert not uses.is_unused(absolute.node)
    assert set(uses[x]) == {absolute.node}
    assert types(model) == ["Parameter", "Abs", "ReLU", "Result"]


def test_a_layer_behind_a_value_goes_on_reading_it() -> None:
    model, (_, absolute, relu, _) = chain()
    uses, build = uses_of(model), Builder()
    absolute.names = ["a"]
    new = build.emit(Negative1(), absolute)
    uses.add([new.node])
    assert uses.replace(absolute, new, [new.node]) == []
    assert types(model) == ["Parameter", "Abs", "Negative", "ReLU", "Negative", "Result"]
    assert uses[absolute] == [new.node]
    assert uses[new] == [relu.node]
    assert (absolute.names, new.names) == ([], ["a"])


def test_replacements_follow_one_another() -> None:
    """Each is made from the value before; the layers that were replaced are all gone."""
    model, (x, absolute, relu, negative) = chain()
    build = Builder()
    first = build.emit(ReLU1(), x)
    second = build.emit(Abs1(), absolute)  # reads what the first one replaces
    third = build.emit(Add1(), relu, relu)
    replace_all_uses(model, {absolute: first, relu: second, negative: third})
    assert types(model) == ["Parameter", "ReLU", "Abs", "Add", "Result"]
    assert third.node.inputs == [second, second]


def test_a_replacement_of_two_layers_keeps_reading_the_old_value() -> None:
    model, (_, absolute, _, _) = chain()
    build = Builder()
    between = build.emit(Negative1(), absolute)
    replace_all_uses(model, {absolute: build.emit(Negative1(), between)})
    assert types(model) == ["Parameter", "Abs", "Negative", "Negative", "ReLU", "Negative", "Result"]


def test_values_that_replace_each_other() -> None:
    model, (_, absolute, relu, _) = chain()
    with pytest.raises(InternalError, match="is replaced by itself"):
        replace_all_uses(model, {absolute: relu, relu: absolute})
