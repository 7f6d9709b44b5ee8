"""What a session lets a user do with states, to whom arrays belong, and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir_runtime import (
    CompiledModel,
    ExecutionError,
    Model,
    ModelError,
    Output,
    Session,
    UnsupportedError,
    compile_model,
)
from ir_runtime.execution.kernels import caches
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.model import InputMap, OutputMap, SubGraph
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.inputs_outputs import Assign6, Parameter1, Result1
from tests.ir_runtime.execution.kernel_checks import Layers, model_of
from tests.ir_runtime.execution.stateful import (
    Made,
    attention,
    attention_steps,
    cache,
    counter,
    empty_cache,
    growing,
    half,
    normal,
    read,
    stateful,
    two_states,
)

FORMS = pytest.mark.parametrize("optimize", [True, False], ids=["kernels", "layers"])
X = np.array([1, 2], np.float32)


def session_of(model: Model, optimize: bool = True) -> Session:
    return compile_model(model, optimize=optimize).session()


# --- what OpenVINO's plug-in refuses, by the meaning of the operations ---


@FORMS
def test_a_variable_that_nobody_assigns_takes_its_initial_value_each_time(optimize: bool) -> None:
    def make(b: Layers, x: Output) -> Made:
        return [b.Add(read(b, "v", "f32[2]", b.Add(x, x)), x)], {}

    session = session_of(stateful({"x": "f32[2]"}, make), optimize)
    for factor in (1, 2):
        assert session([factor * X])[0].tolist() == [3 * factor, 6 * factor]
    assert len(session.states) == 0
    session.states["v"] = [10, 20]
    for _ in range(2):
        assert session([X])[0].tolist() == [11, 22]
    session.reset()
    assert session([X])[0].tolist() == [3, 6]


@FORMS
def test_each_read_has_its_own_initial_value(optimize: bool) -> None:
    def make(b: Layers, x: Output) -> Made:
        first = read(b, "v", "f32[2]", b.Negative(x))
        second = read(b, "v", "f32[2]", b.constant([5, 5], "f32"))
        return [b.Abs(first), second], {"v": b.Add(first, x)}

    session = session_of(stateful({"x": "f32[2]"}, make), optimize)
    for wanted in ([[1, 2], [5, 5]], [[0, 0], [0, 0]], [[1, 2], [1, 2]]):
        assert [value.tolist() for value in session([X]).to_list()] == wanted


@FORMS
def test_a_variable_that_nobody_reads_is_kept(optimize: bool) -> None:
    session = session_of(stateful({"x": "f32[2]"}, lambda b, x: ([b.Abs(x)], {"v": x})), optimize)
    given = X.copy()
    session([given])
    given[:] = 0
    assert session.states["v"].tolist() == [1, 2]


@FORMS
def test_an_initial_value_that_reads_another_variable(optimize: bool) -> None:
    def make(b: Layers, x: Output) -> Made:
        first = read(b, "a", "f32[2]", b.Add(x, x))
        second = read(b, "b", "f32[2]", b.Negative(first))
        return [first, b.Exp(second)], {"a": b.Add(first, x), "b": b.Add(second, x)}

    session = session_of(stateful({"x": "f32[2]"}, make), optimize)
    a, b = 2 * X, -2 * X
    for name in (None, None, "b", "a"):
        if name == "b":
            b = -a
        if name == "a":
            a = 2 * X
        if name is not None:
            session.reset(name)
        found = session([X]).to_list()
        np.testing.assert_array_equal(found[0], a)
        np.testing.assert_allclose(found[1], np.exp(b), rtol=1e-6)
        a, b = a + X, b + X


@FORMS
def test_reads_come_before_assignments(optimize: bool) -> None:
    """Two variables that swap their values, one of which reads what the other one assigns."""

    def make(b: Layers, x: Output) -> Made:
        left, right = read(b, "left", "f32[2]", x), read(b, "right", "f32[2]", b.Negative(x))
        return [left, right], {"left": right, "right": left}

    session = session_of(stateful({"x": "f32[2]"}, make), optimize)
    for sign in (1, -1, 1):
        assert [value.tolist() for value in session([X]).to_list()] == [[sign, 2 * sign], [-sign, -2 * sign]]


@FORMS
def test_a_call_of_the_compiled_model_starts_anew(optimize: bool) -> None:
    compiled = compile_model(counter(6), optimize=optimize)
    session = compiled.session()
    x = np.ones((2, 3), np.float32)
    for step in range(3):
        assert session([x])[0].tolist() == [[6 + step] * 3] * 2
        assert compiled([x])[0].tolist() == [[6] * 3] * 2


def test_float16_is_rounded_where_it_is_kept() -> None:
    """Between layers nothing is rounded, in variables everything is: 2048 + 1 is 2048 in float16."""
    session = session_of(half())
    session.states["total"] = np.full((2, 1), 2048, np.float16)
    session.states["past"] = np.zeros((2, 0), np.float16)
    session([np.ones((2, 1), np.float16)])
    assert session.states["total"].dtype == np.float16
    assert session.states["total"].tolist() == [[2048], [2048]]
    assert session.states["past"].tolist() == [[1], [1]]


def test_after_a_reshape() -> None:
    model = growing(1)
    model.reshape({"x": [2, 1, 3]})
    session = session_of(model)
    for count in (1, 2, 3):
        assert session([np.ones((2, 1, 3), np.float32)])[0].tolist() == [[[count] * 3]] * 2


# --- caches that grow without copies ---


def memory(session: Session, name: str) -> tuple[int, int]:
    """The address of a variable's memory and the elements that fit."""
    room = session._values[name].room
    assert room is not None
    return room.memory.__array_interface__["data"][0], room.memory.size


@pytest.mark.parametrize(("beams", "kind"), [(True, "f32"), (False, "f32"), (True, "f16")])
def test_a_cache_stays_where_it_is_while_there_is_room(beams: bool, kind: str) -> None:
    session = session_of(attention(groups=3, beams=beams, kind=kind))
    moves, before, kept = 0, None, None
    for length in (100, *[1] * 120):
        step = {"query": normal(2, 6, length, 4), "key": normal(2, 2, length, 4), "value": normal(2, 2, length, 4)}
        step = {name: value.astype(element_type(kind).dtype) for name, value in step.items()}
        session({**step, "beam_idx": np.array([0, 1], np.int32)} if beams else step)
        array = session._values["keys"].array
        assert array.__array_interface__["data"][0] == memory(session, "keys")[0]
        if kept is not None:
            # What was there is not written again.
            np.testing.assert_array_equal(array[:, :, : kept.shape[2]], kept)
        kept = array.copy()
        moves += memory(session, "keys") != before
        before = memory(session, "keys")
    assert kept is not None
    assert kept.shape == (2, 2, 220, 4)
    assert moves == 2  # the first, and at 200


def test_beams_that_are_permuted_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[caches.Room] = []
    make = caches.Room.__init__

    def counted(room: caches.Room, *arguments: Any) -> None:
        made.append(room)
        make(room, *arguments)

    monkeypatch.setattr(caches.Room, "__init__", counted)
    session = session_of(attention())
    steps = [step for step in attention_steps() if isinstance(step, dict)]
    session(steps[0])
    before = session.states["keys"]
    address = memory(session, "keys")[0]
    session({**steps[1], "beam_idx": np.array([1, 0], np.int32)})
    assert memory(session, "keys")[0] != address
    assert len(made) == 4  # at each of the two steps, one for keys and one for values
    np.testing.assert_array_equal(session.states["keys"][:, :, :-1], before[::-1])
    address = memory(session, "keys")[0]
    session({**steps[1], "beam_idx": np.array([0, 1], np.int32)})
    assert memory(session, "keys")[0] == address


def test_two_concats_of_one_variable() -> None:
    """Both are right, although only one of them can write behind the variable."""

    def make(b: Layers, x: Output, y: Output) -> Made:
        past = read(b, "v", "f32[?]")
        first, second = b.Concat(past, x, axis=0), b.Concat(past, y, axis=0)
        return [second, first], {"v": first}

    session = session_of(stateful({"x": "f32[?]", "y": "f32[?]"}, make))
    for step in range(1, 6):
        found = session([np.array([step], np.float32), np.array([-step], np.float32)]).to_list()
        assert found[0].tolist() == [*range(1, step), -step]
        assert found[1].tolist() == list(range(1, step + 1))


def test_two_variables_of_one_cache() -> None:
    """Both are assigned the same Concat, and then differ: neither writes into the other."""

    def make(b: Layers, x: Output) -> Made:
        first = b.Concat(read(b, "a", "f32[?]"), x, axis=0)
        other = read(b, "b", "f32[?]")
        second = b.Concat(other, b.Negative(x), axis=0)
        return [first, second], {"a": first, "b": second}

    session = session_of(stateful({"x": "f32[?]"}, make))
    session([X])
    a = session._values["a"]
    session._values["b"] = a  # as by a model that assigns one value to both
    for _ in range(3):
        session([X])
    assert session.states["a"].tolist() == [1, 2] * 4
    assert session.states["b"].tolist() == [1, 2] + [-1, -2] * 3


def test_one_concat_for_two_variables() -> None:
    def make(b: Layers, x: Output) -> Made:
        first = b.Concat(read(b, "a", "f32[?]"), x, axis=0)
        second = b.Concat(read(b, "b", "f32[?]"), b.Negative(x), axis=0)
        return [second], {"a": first, "b": first}

    session = session_of(stateful({"x": "f32[?]"}, make))
    for step in range(1, 5):
        assert session([X])[0].tolist() == [1, 2] * (step - 1) + [-1, -2]
    assert session.states["a"].tolist() == session.states["b"].tolist() == [1, 2] * 4


@pytest.mark.parametrize("longer_first", [True, False])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_cache_that_is_assigned_as_it_was(names: str, longer_first: bool) -> None:
    """One variable gets the longer cache and another one the cache of before, which is a part of the same memory."""

    def make(b: Layers, x: Output) -> Made:
        past = {name: read(b, name, "f32[?]") for name in names}
        longer = b.Concat(past["a"], x, axis=0)
        other = b.Concat(past["b"], b.Negative(x), axis=0)
        after = {"a": longer, "b": past["a"]}
        return [longer, other] if longer_first else [other, longer], {name: after[name] for name in names}

    session = session_of(stateful({"x": "f32[?]"}, make))
    for step in range(1, 6):
        found = session([X]).to_list()
        longer, other = found if longer_first else found[::-1]
        assert longer.tolist() == [1, 2] * step
        assert other.tolist() == [1, 2] * max(step - 2, 0) + [-1, -2]


def test_a_plan_for_static_shapes_is_never_made_of_a_cache() -> None:
    """Sessions that are equally long come with the same shapes in a row."""
    compiled = compile_model(attention())
    sessions = [compiled.session() for _ in range(2)]
    for step in [step for step in attention_steps() if isinstance(step, dict)][:6]:
        first, second = (session(step)[0] for session in sessions)
        np.testing.assert_array_equal(first, second)
    assert compiled._calls.static_plans is not None
    assert not compiled._calls.static_plans._plans
    own = [memory(session, name)[0] for session in sessions for name in ("keys", "values")]
    assert len(set(own)) == 4


def test_no_static_plans_once_a_variable_has_grown() -> None:
    """What is new stands in front of the rest, so that no kernel knows the variable as a cache."""

    def make(b: Layers, x: Output) -> Made:
        all_ = b.Concat(x, read(b, "v", "f32[?]"), axis=0)
        return [b.Abs(all_)], {"v": all_}

    compiled = compile_model(stateful({"x": "f32[?]"}, make))
    sessions = [compiled.session() for _ in range(3)]
    plans = compiled._calls.static_plans
    assert plans is not None
    for step in range(1, 5):
        for session in sessions:
            assert session([-X])[0].tolist() == [1, 2] * step
        assert len(plans._plans) == (step == 1)


def test_states_of_static_shapes_have_a_static_plan() -> None:
    compiled = compile_model(counter(6))
    assert compiled._calls.static_plans is not None
    assert compiled._calls.static_plans.is_certain


# --- to whom arrays belong ---


@FORMS
def test_states_are_copies(optimize: bool) -> None:
    session = session_of(growing(1, returned=True), optimize)
    given = normal(2, 30, 3)
    session([given])
    before, returned = session.states["past"], session([normal(2, 1, 3)])["y1"]
    seen = before.copy()
    before[:] = 0
    returned[:] = 0
    np.testing.assert_array_equal(session.states["past"][:, :30], seen)
    mine = normal(2, 5, 3)
    session.states["past"] = mine
    kept = mine.copy()
    mine[:] = 0
    session([normal(2, 1, 3)])
    np.testing.assert_array_equal(session.states["past"][:, :5], kept)
    np.testing.assert_array_equal(mine, 0)


@FORMS
def test_a_call_that_fails_leaves_the_states(optimize: bool) -> None:
    def make(b: Layers, x: Output, y: Output) -> Made:
        all_ = b.Concat(read(b, "past", "f32[?]"), x, axis=0)
        count = read(b, "count", "f32[1]")
        return [b.Add(all_, y)], {"past": all_, "count": b.Add(count, b.constant([1], "f32"))}

    session = session_of(stateful({"x": "f32[?]", "y": "f32[?]"}, make), optimize)
    for _ in range(3):
        session([X, X[:1]])
    for _ in range(2):
        with pytest.raises(ExecutionError, match="Add"):
            session([-X, np.zeros(5, np.float32)])
        assert session.states["past"].tolist() == [1, 2] * 3
        assert session.states["count"].tolist() == [3]
    assert session([X, X[:1]])[0].tolist() == [2, 3] * 4


def test_snapshots_of_all_states() -> None:
    steps = [step for step in attention_steps() if isinstance(step, dict)]
    session = session_of(attention())
    for step in steps[:3]:
        session(step)
    saved = dict(session.states)
    expected = session(steps[3])[0]
    session(steps[4])
    session.states.update(saved)
    np.testing.assert_allclose(session(steps[3])[0], expected, rtol=1e-6)
    again = pickle.loads(pickle.dumps(saved))
    other = session_of(attention())
    other.states.update(again)
    np.testing.assert_allclose(other(steps[3])[0], expected, rtol=1e-6)


# --- the mapping ---


def test_the_mapping_of_states() -> None:
    session = session_of(two_states())
    assert (len(session.states), list(session.states), "a" in session.states) == (0, [], False)
    assert session.states.get("a") is None
    assert repr(session) == "<Session with the variables a: f32[2] (initial), c: f32[2] (initial)>"
    session([X])
    assert list(session.states) == ["a", "c"]
    assert repr(session.states) == "<States a: f32[2], c: f32[2]>"
    del session.states["a"]
    assert list(session.states) == ["c"]
    assert repr(session) == "<Session with the variables a: f32[2] (initial), c: f32[2]>"
    session.reset("c")
    assert not session.states
    session.states["a"] = (1.5, 2)
    assert session.states.pop("a").tolist() == [1.5, 2]
    session.states["a"] = X
    session.states.clear()
    assert not session.states
    assert {name: str(port) for name, port in session.states.variables.items()} == {"a": "a: f32[2]", "c": "c: f32[2]"}
    assert [port.name for port in compile_model(two_states()).variables] == ["a", "c"]


def put(name: str, value: Any) -> Callable[[Session], Any]:
    return lambda session: session.states.__setitem__(name, value)


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (put("a", np.zeros(2)), r"state 'a' must have dtype float32 \(f32\), but has float64"),
        (put("a", np.zeros(3, np.float32)), r"state 'a' must have the shape \[2\], but has \[3\]"),
        (put("a", "text"), "the state 'a' cannot be used: ValueError: could not convert string to float"),
        (put("ab", X), "no variable 'ab'; did you mean 'a'?"),
        (put("other", X), "no variable 'other'; its variables are 'a', 'c'"),
        (lambda session: session.states["b"], "no variable 'b'"),
        (lambda session: session.states["a"], "'a' has no value yet: the next call starts with its initial value"),
        (lambda session: session.states.__delitem__("a"), "'a' has no value yet"),
        (lambda session: session.reset("x"), "no variable 'x'"),
        (lambda session: session([X, X]), "no input 1"),
        (lambda session: session.profile([[X], [X, X]]), "no input 1"),
        (pickle.dumps, "a session cannot be pickled or copied"),
        (copy.deepcopy, "a session cannot be pickled or copied"),
    ],
)
def test_errors(action: Callable[[Session], Any], wanted: str) -> None:
    with pytest.raises(ModelError, match=wanted):
        action(session_of(two_states()))


@FORMS
def test_a_value_that_the_variable_cannot_hold(optimize: bool) -> None:
    def make(b: Layers, x: Output) -> Made:
        return [x], {"v": b.Add(read(b, "v", "f32[..3]", x), b.Abs(x))}

    session = session_of(stateful({"x": "f32[?]"}, make), optimize)
    session([X])
    with pytest.raises(ExecutionError, match=r"ReadValue.*initial value of the variable 'v' must be f32\[..3\], but"):
        session_of(stateful({"x": "f32[?]"}, make), optimize)([np.ones(4, np.float32)])

    def widened(b: Layers, x: Output) -> Made:
        return [x], {"v": b.Concat(read(b, "v", "f32[..3]"), x, axis=0)}

    session = session_of(stateful({"x": "f32[?]"}, widened), optimize)
    session([X])
    with pytest.raises(
        ExecutionError, match=r"layer 'assign_v' .*'v' must have the shape \[..3\], but is assigned .* \[4\]"
    ):
        session([X])
    assert session.states["v"].tolist() == [1, 2]


def test_a_model_without_variables_has_sessions_without_states() -> None:
    session = session_of(model_of(lambda b, x: b.Abs(x), [X]))
    for _ in range(2):
        assert session([-X])[0].tolist() == [1, 2]
    assert dict(session.states) == {}
    assert repr(session) == "<Session with the variables none>"
    session.reset()
    with pytest.raises(ExecutionError, match="the model has no variable 'v', and no others"):
        session.states["v"] = X


def assigned_twice() -> Model:
    model = counter(6)
    (sink,) = model.sinks
    model.sinks = (*model.sinks, make_node(Assign6(variable_id="total"), sink.inputs, "again"))
    return model


def two_types() -> Model:
    def make(b: Layers, x: Output) -> Made:
        read(b, "v", "f32[2]", x)
        return [read(b, "v", "f32[2]", x)], {"v": b.Convert(x, destination_type="i32")}

    return stateful({"x": "f32[2]"}, make)


def in_a_body() -> Model:
    """An If whose first body adds up in a variable, and whose second body returns its input."""

    def body(counts: bool) -> SubGraph:
        b = Layers()
        x = make_node(Parameter1(shape=PartialShape([2]), element_type="f32"), (), "inner")
        value, sinks = x.outputs[0], []
        if counts:
            value = b.Add(read(b, "v", "f32[2]", value), value)
            sinks = [make_node(Assign6(variable_id="v"), [value], "inner_assign")]
        return SubGraph(
            Model("body", [x], [make_node(Result1(), [value])], sinks), (InputMap(1, 0),), (OutputMap(0, 0),)
        )

    def make(b: Layers, condition: Output, x: Output) -> Made:
        return [b.emit(If8(bodies=(body(True), body(False))), condition, x)], {}

    return stateful({"condition": "boolean[]", "x": "f32[2]"}, make)


def test_a_variable_in_a_body_has_its_initial_value() -> None:
    compiled = compile_model(in_a_body())
    for _ in range(2):
        assert compiled([True, X])[0].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (in_a_body, r"layer 'If.*' \(If.* has the variable 'v' in its body \(layer .*ReadValue"),
        (assigned_twice, "variable 'total' is assigned twice: by layer 'assign_total'.* and by layer 'again'"),
        (two_types, r"variable 'v' has two types: f32\[2\] in layer 'ReadValue.*i32\[2\] in layer 'assign_v'"),
    ],
)
def test_models_that_no_session_can_run(model: Callable[[], Model], wanted: str) -> None:
    compiled = compile_model(model())
    with pytest.raises(UnsupportedError, match=wanted):
        compiled.session()


# --- threads ---


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_in_threads(threads: int) -> None:
    compiled = compile_model(attention(groups=3), threads=threads)
    steps = [step for step in attention_steps(3) if isinstance(step, dict)]
    wanted = [run_all(compiled, steps[first:]) for first in range(4)]
    found: list[Any] = [None] * 4

    def work(first: int) -> None:
        found[first] = run_all(compiled, steps[first:])

    running = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for some, others in zip(found, wanted, strict=True):
        for value, want in zip(some, others, strict=True):
            np.testing.assert_array_equal(value, want)


def run_all(compiled: CompiledModel, steps: list[Any]) -> list[np.ndarray]:
    session = compiled.session()
    return [session(step)[0] for step in steps]


def test_one_session_in_two_threads_is_an_error() -> None:
    session = session_of(two_states())
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            entered.set()
            assert leave.wait(60)
            return X

    first = threading.Thread(target=lambda: session([Slow()]))
    first.start()
    assert entered.wait(60)
    try:
        for action in (lambda: session([X]), session.reset, lambda: session.states["a"], lambda: put("a", X)(session)):
            with pytest.raises(ExecutionError, match="this session is in a call now: make a session for each thread"):
                action()
    finally:
        leave.set()
        first.join()
    assert session.states["a"].tolist() == [11, 22]


def test_profile_of_steps() -> None:
    session = session_of(attention())
    step = next(step for step in attention_steps() if isinstance(step, dict))
    profile = session.profile([step] * 3)
    assert profile.calls == 3
    assert {row.type for row in profile.layers if row.kernel} >= {"Concat", "Gather", "ScaledDotProductAttention"}
    assert session.states["keys"].shape == (2, 2, 15, 4)


def test_caches_of_another_builder() -> None:
    """A cache along the axis behind the batch, with the heads behind it."""

    def make(b: Layers, key: Output) -> Made:
        past = read(b, "keys", "f32[?,2,?,4]", empty_cache(b, key, 2, 4))
        assert past is not None
        all_ = cache(b, "more", key)
        return [all_, b.Concat(past, key, axis=-2)], {"more": all_}

    session = session_of(stateful({"key": "f32[?,2,?,4]"}, make))
    keys = [normal(1, 2, length, 4) for length in (3, 1, 2)]
    for count in range(1, 4):
        found = session([keys[count - 1]]).to_list()
        np.testing.assert_array_equal(found[0], np.concatenate(keys[:count], 2))
        np.testing.assert_array_equal(found[1], keys[count - 1])
