"""Who uses a value, invariants with models that break them, shapes, and how layers of two models are paired."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ir_runtime import Dimension, InferenceError, InternalError, Model, Output, PartialShape
from ir_runtime.graph import INFINITY, broadcast, element_types, make_node
from ir_runtime.graph.invariants import INVARIANTS, Promise, check, violations
from ir_runtime.graph.model_difference import compare_models
from ir_runtime.graph.node import Edits
from ir_runtime.graph.shapes import broadcast_to, quotient
from ir_runtime.operations.elementwise import Abs1, Negative1
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.operations.windows import Window
from ir_runtime.rewriting import Builder
from tests.converter.to_onnx import graphs
from tests.ir_runtime.execution.kernel_checks import Layers, op
from tests.ir_runtime.execution.stateful import Made, read, stateful
from tests.ir_runtime.rewriting.models import chain, model_of, parameter


def types(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes()]


def check_uses(model: Model) -> None:
    assert not [problem for problem in violations(model) if problem.startswith("uses")]


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


# --- invariants ---


def a_model() -> Model:
    """x and y of [2,3]; sum and its ReLU are returned, and the sum is kept in a variable."""

    def make(b: Layers, *values: Output) -> Made:
        inner = b.Add(*values)
        inner.add_name("inner")
        added = b.Add(inner, np.ones((2, 3), np.float32))
        return [added, b.ReLU(added)], {"v": read(b, "v", "f32[2,3]", added)}

    return stateful(dict.fromkeys("xy", "f32[2,3]"), make)


def named(model: Model, type: str) -> list:
    return [node for node in model.nodes() if node.op.type == type]


def retype(model: Model, **changes: Any) -> None:
    output = named(model, "ReLU")[0].outputs[0]
    output.type = replace(output.type, **changes)


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


BREAKERS: dict[str, tuple[Callable[[Model], object], str]] = {
    "a cycle": (lambda m: named(m, "Add")[0].replace_input(0, named(m, "ReLU")[0].outputs[0]), "is part of a cycle"),
    "an input less": (lambda m: setattr(m, "parameters", m.parameters[:-1]), "there were 2 inputs, but are 1"),
    "inputs in another order": (lambda m: setattr(m, "parameters", m.parameters[::-1]), r"input 0 must be called \['x'\], but is called \['y'\]"),
    "an output less": (lambda m: setattr(m, "results", m.results[:-1]), "there were 2 outputs, but are 1"),
    "an output renamed": (lambda m: m.results[0].inputs[0].names.clear(), r"output 0 must be called \['y0'\]"),
    "two outputs of one tensor": (lambda m: setattr(m.results[1], "inputs", list(m.results[0].inputs)), r"output 1 must be called \['y1'\]"),
    "two names on one tensor": (
        two_names_on_one_tensor,
        r"each Result has a tensor of its own: \['y0'\] and \['y1'\] are .*promises \['y1'\], which output 0",
    ),
    "a sink less": (lambda m: setattr(m, "sinks", ()), "lost are Assign"),
    "a parameter that is not listed": (lambda m: setattr(m, "parameters", m.parameters[1:]), "layer 'x' .* is listed 0 times"),
    "an input that is not counted": (lambda m: setattr(m.inputs[0], "_uses", None), "uses are the layers that read a value: .* reads output 0 of layer 'x'"),
    "a layer's name twice": (lambda m: setattr(named(m, "ReLU")[0], "name", "x"), "no layer's name is given twice: 'x' 2 times"),
    "a tensor's name twice": (lambda m: named(m, "ReLU")[0].outputs[0].add_name("x"), "no tensor's name is given twice: 'x' 2 times"),
    "a name on a value of another shape": (name_of_another_shape, r"'inner' was called a value of type f32\[2,3\], but .* is f32\[3\]"),
    "a wrong shape": (lambda m: retype(m, shape=PartialShape([-1, 3])), "ReLU.* is declared .*but inference finds"),
    "a wrong element type": (lambda m: retype(m, element_type=element_types.i64), "ReLU.* is declared .*i64.*but inference finds"),
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


# --- shapes, and how layers of two models are paired ---


DIMENSIONS = [Dimension(low, high) for low in range(4) for high in (*range(low, 4), INFINITY)]
MANY = 12
"""Dimensions up to here are tried of a dimension without an upper bound."""


def sizes(dimension: Dimension) -> range:
    return range(dimension.low, min(dimension.high, MANY) + 1)


def smallest(found: Iterable[int], open_end: bool) -> Dimension:
    """The smallest dimension that holds the dimensions, which go on for ever if they are as many as were tried."""
    numbers = sorted(found)
    return Dimension(numbers[0], INFINITY if open_end and numbers[-1] >= MANY else numbers[-1])


@pytest.mark.parametrize("a", DIMENSIONS, ids=str)
@pytest.mark.parametrize("b", DIMENSIONS, ids=str)
def test_dimensions_are_sets_of_dimensions(a: Dimension, b: Dimension) -> None:
    in_both, in_either = set(sizes(a)) & set(sizes(b)), {*sizes(a), *sizes(b)}
    assert a.merge(b) == (smallest(in_both, INFINITY in (a.high, b.high)) if in_both else None)
    assert a.union(b) == smallest(in_either, INFINITY in (a.high, b.high))
    pairs = list(itertools.product(sizes(a), sizes(b)))
    assert a + b == smallest((x + y for x, y in pairs), INFINITY in (a.high, b.high))
    assert a * b == smallest((x * y for x, y in pairs), INFINITY in (a.high, b.high))
    # What is divided by b, what is repeated to b, and both repeated.
    open_end = INFINITY in (a.high, b.high)
    fitting = {n for n in range(MANY + 1) for x in sizes(b) if (x or n == 0) and a.contains(n * x)}
    found = quotient(a, b)
    assert bool(fitting) == (found is not None) or a.low > MANY
    assert all(found is not None and found.contains(n) for n in fitting)
    fitting = {x for x in sizes(a) for y in sizes(b) if y in (x, 1)}
    wanted = PartialShape([4, smallest(fitting, open_end)]) if fitting else None
    assert broadcast_to(PartialShape([4, a]), PartialShape([b])) == wanted
    fitting = {max(x, y) if x and y else 0 for x in sizes(a) for y in sizes(b) if x == y or 1 in (x, y)}
    wanted = PartialShape([smallest(fitting, open_end)]) if fitting else None
    assert _or_none(broadcast, PartialShape([a]), PartialShape([b])) == wanted


SHAPES = [
    *(PartialShape.dynamic(), PartialShape(()), PartialShape([3]), PartialShape([None]), PartialShape([2, None])),
    *(PartialShape([Dimension(0, 2), 3]), PartialShape([Dimension(1, 5), Dimension(3, 4)]), PartialShape([1, 1])),
]
STATIC = [(), *((n,) for n in range(6)), *itertools.product(range(7), repeat=2)]


@pytest.mark.parametrize("a", SHAPES, ids=str)
@pytest.mark.parametrize("b", SHAPES, ids=str)
def test_shapes_are_sets_of_shapes(a: PartialShape, b: PartialShape) -> None:
    merged, joined, wide = a.merge(b), a.union(b), _or_none(broadcast, a, b)
    for shape in STATIC:
        assert (a.accepts(shape) and b.accepts(shape)) == (merged is not None and merged.accepts(shape))
        assert joined.accepts(shape) or not (a.accepts(shape) or b.accepts(shape))
    for x, y in itertools.product(filter(a.accepts, STATIC), filter(b.accepts, STATIC)):
        try:
            together = np.broadcast_shapes(x, y)
        except ValueError:
            continue
        assert wide is not None
        assert wide.accepts(together)


def _or_none(function: Callable[..., PartialShape], *shapes: PartialShape) -> PartialShape | None:
    try:
        return function(*shapes)
    except InferenceError:
        return None


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("auto_pad", ["explicit", "valid", "same_upper", "same_lower"])
def test_positions_of_windows_on_open_dimensions(auto_pad: str, rounding: str) -> None:
    for kernel, stride, dilation, begin, end in itertools.product((1, 3), (1, 2, 5), (1, 2), (0, 2), (0, 1, 4)):
        window = Window(kernel, stride, dilation, begin, end, auto_pad, rounding)
        counts = {size: _count(window, size) for size in range(MANY + 1)}
        for low, high in itertools.combinations((0, 1, 2, 4, 7, MANY), 2):
            fitting = {count for size in range(low, high + 1) if (count := counts[size]) is not None}
            if not fitting:
                with pytest.raises(InferenceError, match="does not fit"):
                    window.count_dimension(Dimension(low, high))
                continue
            found = window.count_dimension(Dimension(low, high))
            assert found == Dimension(min(fitting), max(fitting)), (window, low, high)
            assert window.count_dimension(Dimension(low)) == Dimension(found.low, INFINITY)


def _count(window: Window, size: int) -> int | None:
    try:
        return window.count(size)
    except InferenceError:
        return None


def two_concats(first: str, second: str, axis: int = 1) -> Model:
    """[x, x] along an axis, and [|y|, y]."""
    x, y = graphs.parameter("x", 2, 3), graphs.parameter("y", 4, 5)
    twice = graphs.layer(graphs.op("Concat", axis=axis), x, x, name=first)
    both = graphs.layer(graphs.op("Concat", axis=1), graphs.layer(graphs.op("Abs"), y, name="abs"), y, name=second)
    return graphs.model([x, y], {"a": twice, "b": both})


def test_names_that_moved_to_layers_of_other_types_are_no_difference() -> None:
    found = compare_models(two_concats("Concat_1", "Concat_2"), two_concats("Concat_2", "Concat_1"))
    assert found.same


def test_a_layer_whose_type_changed_is_paired_by_its_name() -> None:
    found = compare_models(two_concats("first", "second"), two_concats("first", "second", axis=0))
    assert not found.only_first
    assert not found.only_second
    assert {change.layer for change in found.changed} >= {"first"}
    assert "second" not in {change.layer for change in found.changed}


def test_a_constant_of_another_shape_is_paired_by_its_name() -> None:
    def shifted(*values: float) -> Model:
        x = graphs.parameter("x", 2, 3)
        return graphs.model(
            [x], {"y": graphs.layer(graphs.op("Add"), x, graphs.constant(values, name="offset"), name="sum")}
        )

    (change,) = compare_models(shifted(1.0, 2.0, 3.0), shifted(1.0)).changed
    assert (change.layer, change.what) == ("offset", ("it holds f32[3] where the other model has f32[1]",))
