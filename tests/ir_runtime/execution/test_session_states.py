"""What a session lets a user do with states, to whom arrays belong, and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ir_runtime import CompiledModel, ExecutionError, Model, ModelError, Session, UnsupportedError, compile_model
from ir_runtime.execution.kernels import caches
from ir_runtime.graph import InputMap, Output, OutputMap, SubGraph, make_node
from ir_runtime.graph.element_types import element_type
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.inputs_outputs import Assign6
from tests.ir_runtime.execution.kernel_checks import Layers
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


def play(model: Model, steps: Sequence[Any], optimize: bool = True) -> Session:
    """Steps are inputs with what comes out, states by their names, ``reset a``, or functions of the session."""
    session = session_of(model, optimize)
    for step in steps:
        if isinstance(step, str):
            session.reset(*step.split()[1:])
        elif callable(step):
            step(session)
        elif isinstance(step, dict):
            assert {name: session.states[name].tolist() for name in step} == step
        else:
            for value, wanted in zip(session(step[0]).to_list(), step[1], strict=True):
                np.testing.assert_allclose(value, wanted, rtol=1e-6)
    return session


def put(name: str, value: Any) -> Callable[[Session], Any]:
    return lambda session: session.states.__setitem__(name, value)


# --- what OpenVINO's plug-in refuses, by the meaning of the operations ---

VECTOR, LIST = {"x": "f32[2]"}, {"x": "f32[?]"}


def longer(b: Layers, name: str, *new: Output) -> Output:
    """A variable, and something behind it."""
    return b.Concat(read(b, name, "f32[?]"), *new, axis=0)


def two_that_add_up(b: Layers, x: Output) -> Made:
    """The initial value of the second variable reads the first one."""
    first = read(b, "a", "f32[2]", b.Add(x, x))
    second = read(b, "b", "f32[2]", b.Negative(first))
    return [first, b.Exp(second)], {"a": b.Add(first, x), "b": b.Add(second, x)}


def swapped(b: Layers, x: Output) -> Made:
    """Each of two variables reads what the other one assigns."""
    left, right = read(b, "left", "f32[2]", x), read(b, "right", "f32[2]", b.Negative(x))
    return [left, right], {"left": right, "right": left}


def two_initial_values(b: Layers, x: Output) -> Made:
    first, second = read(b, "v", "f32[2]", b.Negative(x)), read(b, "v", "f32[2]", b.constant([5, 5], "f32"))
    return [b.Abs(first), second], {"v": b.Add(first, x)}


def one_for_two(b: Layers, x: Output) -> Made:
    first, second = longer(b, "a", x), longer(b, "b", b.Negative(x))
    return [second], {"a": first, "b": first}


def two_concats(b: Layers, x: Output, y: Output) -> Made:
    """Both are right, although only one of them can write behind the variable."""
    past = read(b, "v", "f32[?]")
    first, second = b.Concat(past, x, axis=0), b.Concat(past, y, axis=0)
    return [second, first], {"v": first}


def as_it_was(longer_first: bool, names: str) -> Callable[..., Made]:
    """One variable gets the longer cache and another one the cache of before, which is a part of the same memory."""

    def make(b: Layers, x: Output) -> Made:
        past = {name: read(b, name, "f32[?]") for name in names}
        made = [b.Concat(past["a"], x, axis=0), b.Concat(past["b"], b.Negative(x), axis=0)]
        after = {"a": made[0], "b": past["a"]}
        return made if longer_first else made[::-1], {name: after[name] for name in names}

    return make


def of_another_builder(b: Layers, key: Output) -> Made:
    """A cache along the axis behind the batch, with the heads behind it."""
    past = read(b, "keys", "f32[?,2,?,4]", empty_cache(b, key, 2, 4))
    all_ = cache(b, "more", key)
    return [all_, b.Concat(past, key, axis=-2)], {"more": all_}


def reshaped(model: Model, shapes: dict[str, Any]) -> Model:
    model.reshape(shapes)
    return model


def returned_as_it_was(*steps: int, longer_first: bool) -> list[Any]:
    wanted = [([1, 2] * step, [*[1, 2] * max(step - 2, 0), -1, -2]) for step in steps]
    return [([X], pair if longer_first else pair[::-1]) for pair in wanted]


KEYS = [normal(1, 2, length, 4) for length in (3, 1, 2)]
ONES, COUNT = np.ones((2, 3), np.float32), np.arange(1, 6, dtype=np.float32)
PLAYS: dict[str, tuple[Model, list[Any]]] = {
    "nobody assigns": (
        stateful(VECTOR, lambda b, x: ([b.Add(read(b, "v", "f32[2]", b.Add(x, x)), x)], {})),
        [([X], [3 * X]), ([2 * X], [6 * X]), put("v", [10, 20]), *[([X], [[11, 22]])] * 2, "reset", ([X], [3 * X])]),
    "two initial values": (stateful(VECTOR, two_initial_values),
        [([X], wanted) for wanted in ([X, [5, 5]], [0 * X, 0 * X], [X, X])]),
    "nobody reads": (stateful(VECTOR, lambda b, x: ([b.Abs(x)], {"v": x})), [([-X], [X]), {"v": [-1, -2]}]),
    "an initial value of another variable": (stateful(VECTOR, two_that_add_up), [
        ([X], [2 * X, np.exp(-2 * X)]), ([X], [3 * X, np.exp(-X)]), "reset b", ([X], [4 * X, np.exp(-4 * X)]),
        "reset a", ([X], [2 * X, np.exp(-3 * X)])]),
    "swapped": (stateful(VECTOR, swapped), [([X], [sign * X, -sign * X]) for sign in (1, -1, 1)]),
    "two concats": (stateful({"x": "f32[?]", "y": "f32[?]"}, two_concats),
        [([COUNT[at - 1 : at], -COUNT[at - 1 : at]], [[*COUNT[: at - 1], -at], COUNT[:at]]) for at in range(1, 6)]),
    "one concat for two variables": (stateful(LIST, one_for_two), [
        *(([X], [[*[1, 2] * step, -1, -2]]) for step in range(4)), {"a": [1, 2] * 4, "b": [1, 2] * 4}]),
    **{f"{names} as they were, {first}": (stateful(LIST, as_it_was(first, names)),
        returned_as_it_was(1, 2, 3, 4, 5, longer_first=first)) for names in ("ab", "ba") for first in (True, False)},
    "another builder": (stateful({"key": "f32[?,2,?,4]"}, of_another_builder),
        [([KEYS[at]], [np.concatenate(KEYS[: at + 1], 2), KEYS[at]]) for at in range(3)]),
    # Between layers nothing is rounded, in variables everything is: 2048 + 1 is 2048 in float16.
    "half": (half(), [put("total", np.full((2, 1), 2048, np.float16)), put("past", np.zeros((2, 0), np.float16)),
        lambda session: session([np.ones((2, 1), np.float16)]), {"total": [[2048]] * 2, "past": [[1]] * 2}]),
    "reshaped": (reshaped(growing(1), {"x": [2, 1, 3]}),
        [([np.ones((2, 1, 3), np.float32)], [np.full((2, 1, 3), count)]) for count in (1, 2, 3)]),
    "no variables": (stateful(VECTOR, lambda b, x: ([b.Abs(x)], {})), [([-X], [X]), ([X], [X]), {}, "reset"]),
}  # fmt: skip


@FORMS
@pytest.mark.parametrize("name", PLAYS)
def test_states_by_the_meaning_of_the_operations(name: str, optimize: bool) -> None:
    model, steps = PLAYS[name]
    play(model, steps, optimize)


@FORMS
def test_a_call_of_the_compiled_model_starts_anew(optimize: bool) -> None:
    compiled = compile_model(counter(6), optimize=optimize)
    session = compiled.session()
    for step in range(3):
        assert session([ONES])[0].tolist() == [[6 + step] * 3] * 2
        assert compiled([ONES])[0].tolist() == [[6] * 3] * 2


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
    model = stateful(LIST, lambda b, x: ([x], {"v": b.Add(read(b, "v", "f32[..3]", x), b.Abs(x))}))
    session_of(model, optimize)([X])
    with pytest.raises(ExecutionError, match=r"ReadValue.*initial value of the variable 'v' must be f32\[..3\], but"):
        session_of(model, optimize)([np.ones(4, np.float32)])
    widened = stateful(LIST, lambda b, x: ([x], {"v": b.Concat(read(b, "v", "f32[..3]"), x, axis=0)}))
    session = session_of(widened, optimize)
    session([X])
    with pytest.raises(
        ExecutionError, match=r"layer 'assign_v' .*'v' must have the shape \[..3\], but is assigned .* \[4\]"
    ):
        session([X])
    assert session.states["v"].tolist() == [1, 2]


def test_a_model_without_variables_has_sessions_without_states() -> None:
    session = session_of(PLAYS["no variables"][0])
    assert dict(session.states) == {}
    assert repr(session) == "<Session with the variables none>"
    with pytest.raises(ExecutionError, match="the model has no variable 'v', and no others"):
        session.states["v"] = X


def assigned_twice() -> Model:
    model = counter(6)
    (sink,) = model.sinks
    model.sinks = (*model.sinks, make_node(Assign6(variable_id="total"), sink.inputs, "again"))
    return model


def two_types() -> Model:
    return stateful(VECTOR, lambda b, x: ([read(b, "v", "f32[2]", x)], {"v": b.Convert(x, destination_type="i32")}))


def in_a_body() -> Model:
    """An If whose first body adds up in a variable, and whose second body returns its input."""
    inner = {"inner": "f32[2]"}
    counts = stateful(inner, lambda b, x: ([total := b.Add(read(b, "v", "f32[2]", x), x)], {"v": total}))
    bodies = [
        SubGraph(body, (InputMap(1, 0),), (OutputMap(0, 0),))
        for body in (counts, stateful(inner, lambda b, x: ([x], {})))
    ]
    inputs = {"condition": "boolean[]", "x": "f32[2]"}
    return stateful(inputs, lambda b, *values: ([b.emit(If8(bodies=tuple(bodies)), *values)], {}))


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
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda first: run_all(compiled, steps[first:]), range(4)))
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
