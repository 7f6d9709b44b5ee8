"""Models with variables for tests, and the steps of one through both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino

import ir_runtime
from ir_runtime.graph import Model, Output, PartialShape, make_node
from ir_runtime.graph.element_types import element_type
from ir_runtime.operations.inputs_outputs import Assign3, Assign6, Parameter1, ReadValue3, ReadValue6, Result1
from tests.engines import assert_close, core, openvino_tensor
from tests.ir_runtime.execution.kernel_checks import Layers
from tests.random_data import generator

Made = tuple[Sequence[Output], Mapping[str, Output]]


def stateful(inputs: Mapping[str, str], make: Callable[..., Made], revision: int = 6) -> Model:
    """The model of what ``make`` returns for a builder and the inputs: its outputs, and what is assigned to variables.

    ``inputs`` maps names to types such as ``f32[?,3]``. Outputs are called ``y0``, ``y1`` ...
    """
    builder = Layers()
    parameters = []
    for name, kind in inputs.items():
        base, _, shape = kind.partition("[")
        made = Parameter1(shape=PartialShape.parse(f"[{shape}"), element_type=element_type(base))
        parameters.append(make_node(made, (), name))
        parameters[-1].outputs[0].add_name(name)
    outputs, assigned = make(builder, *[node.outputs[0] for node in parameters])
    assign = Assign6 if revision == 6 else Assign3
    sinks = [make_node(assign(variable_id=name), [value], f"assign_{name}") for name, value in assigned.items()]
    for index, node in enumerate(builder.emitted):
        node.name = f"{node.op.type}{index}"
    results = []
    for index, value in enumerate(outputs):
        value.add_name(f"y{index}")
        results.append(make_node(Result1(), [value], f"y{index}/result"))
    return Model("m", parameters, results, sinks)


def read(b: Layers, name: str, kind: str, *initial: Output, revision: int = 6) -> Output:
    """The value of a variable of a type such as ``f32[?,3]``."""
    if revision == 3:
        return b.emit(ReadValue3(variable_id=name), *initial)
    base, _, shape = kind.partition("[")
    made = ReadValue6(
        variable_id=name, variable_type=element_type(base), variable_shape=PartialShape.parse(f"[{shape}")
    )
    return b.emit(made, *initial)


def empty_cache(b: Layers, like: Output, heads: int, size: int, kind: str = "f32") -> Output:
    """Zeros of the shape [batch of ``like``, heads, 0, size]."""
    batch = b.Gather(b.ShapeOf(like), [0], 0)
    shape = b.Concat(batch, [heads], [0], [size], axis=0)
    return b.Broadcast(b.constant(0, kind), shape, mode="numpy")


def cache(b: Layers, name: str, new: Output, *beams: Output, axis: int = 2) -> Output:
    """ReadValue -> [Gather of beams] -> Concat with ``new`` [batch, heads, length, size], whose heads and size are
    static."""
    heads, size = new.shape[1].value, new.shape[3].value
    past = read(
        b, name, f"{new.element_type}[?,{heads},?,{size}]", empty_cache(b, new, heads, size, str(new.element_type))
    )
    if beams:
        past = b.Gather(past, beams[0], 0)
    return b.Concat(past, new, axis=axis)


def repeated(b: Layers, heads: Output, times: int, mode: str = "bidirectional") -> Output:
    """Each head of [batch, heads, length, size] ``times`` times: Unsqueeze -> Broadcast -> Reshape."""
    count, size = heads.shape[1].value, heads.shape[3].value
    wide = b.Unsqueeze(heads, 2)
    if mode == "bidirectional":
        shape = b.constant([1, 1, times, 1, 1])
    else:
        own = b.ShapeOf(heads)
        ends = [b.Gather(own, part, 0) for part in ([0, 1], [2, 3])]
        shape = b.Concat(ends[0], [times], ends[1], axis=0)
    wide = b.Broadcast(wide, shape, mode=mode)
    return b.Reshape(wide, [0, count * times, -1, size], special_zero=True)


Step = Any
"""The inputs of a call; ``reset()`` or ``reset("v")``; ``put(v=array)``."""


def reset(*names: str) -> Step:
    return ("reset", names)


def put(**values: np.ndarray) -> Step:
    return ("put", values)


class OpenVinoSession:
    """A request of OpenVINO's CPU plug-in, in float32, that is used as a session."""

    def __init__(self, model: Model) -> None:
        xml, weights = ir_runtime.model_to_bytes(model)
        read_back = core().read_model(xml, weights) if weights else core().read_model(xml)
        exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        compiled = core().compile_model(read_back, "CPU", exact)
        self._request = compiled.create_infer_request()

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        # The request does not keep their memory.
        self._held = {name: openvino_tensor(np.array(value)) for name, value in inputs.items()}
        found = self._request.infer(self._held)
        return [np.array(value) for value in found.values()]

    def reset(self, names: Sequence[str]) -> None:
        for state in self._request.query_state():
            if not names or state.name in names:
                state.reset()

    def put(self, values: Mapping[str, np.ndarray]) -> None:
        for state in self._request.query_state():
            if state.name in values:
                state.state = openvino.Tensor(np.ascontiguousarray(values[state.name]))

    def states(self) -> dict[str, np.ndarray]:
        return {state.name: np.array(state.state.data) for state in self._request.query_state()}


def check_steps(model: Model, steps: Sequence[Step], optimize: bool, threads: int, rtol: float = 1e-4) -> None:
    """The outputs and the states of each step are those of OpenVINO; arrays of earlier steps stay as they were."""
    theirs = OpenVinoSession(model)
    read_back = ir_runtime.read_model(*ir_runtime.model_to_bytes(model))
    compiled = ir_runtime.compile_model(read_back, optimize=optimize, threads=threads)
    ours = compiled.session()
    held: list[tuple[np.ndarray, np.ndarray]] = []
    calls = 0
    for step in steps:
        if isinstance(step, tuple):
            what, values = step
            getattr(theirs, what)(values)
            if what == "put":
                ours.states.update(values)
                held += [(value, value.copy()) for value in values.values()]
            for name in values or [None]:
                if what == "reset":
                    ours.reset(name)
            continue
        given = {name: value.copy() for name, value in step.items()}
        found, expected = ours(given).to_list(), theirs(step)
        calls += 1
        assert len(found) == len(expected)
        for value, want in zip(found, expected):
            assert_close(value, want, rtol=rtol, atol=1e-5)
        states, wanted = dict(ours.states), theirs.states()
        assert set(states) == set(wanted)
        for name, want in wanted.items():
            assert_close(states[name], want, rtol=rtol, atol=1e-5)
        mine = [*given.values(), *found, *states.values()]
        held += [(value, value.copy()) for value in mine]
        for value in mine:
            value[...] = 0  # what a user does with arrays of his own changes no variable
        held[-len(mine) :] = [(value, value.copy()) for value in mine]
    assert calls
    for value, before in held:
        np.testing.assert_array_equal(value, before)
    assert not compiled.fallbacks.keys() & {"Concat", "Gather", "Reshape+Reshape+ScaledDotProductAttention"}


RNG = generator(31)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def counter(revision: int) -> Model:
    def make(b: Layers, x: Output) -> Made:
        start = b.constant(np.full((2, 3), 5), "f32")
        total = b.Add(read(b, "total", "f32[2,3]", start, revision=revision), x)
        return [b.ReLU(total)], {"total": total}

    return stateful({"x": "f32[2,3]"}, make, revision)


def two_states() -> Model:
    def make(b: Layers, x: Output) -> Made:
        a = read(b, "a", "f32[2]", b.Multiply(x, b.constant(10, "f32")))
        c = read(b, "c", "f32[2]", b.Multiply(x, b.constant(100, "f32")))
        both = b.Add(a, c)
        return [both], {"a": b.Add(a, x), "c": b.Add(both, x)}

    return stateful({"x": "f32[2]"}, make)


def growing(axis: int, *, returned: bool = False, unseen: bool = False) -> Model:
    """A Concat along an axis, of a variable of unknown length without an initial value."""

    def make(b: Layers, x: Output) -> Made:
        kind = ["2", "3"]
        kind.insert(axis, "?")
        all_ = b.Concat(read(b, "past", f"f32[{','.join(kind)}]"), x, axis=axis - 3)
        total = b.ReduceSum(all_, [axis], keep_dims=True)
        if unseen:  # what is returned is of the cache before this step, too
            total = b.Subtract(total, x)
        return [total, *([all_] if returned else [])], {"past": all_}

    shape = ["2", "3"]
    shape.insert(axis, "?")
    return stateful({"x": f"f32[{','.join(shape)}]"}, make)


def attention(
    *, groups: int = 1, mode: str = "bidirectional", beams: bool = True, mask: str = "none", kind: str = "f32"
) -> Model:
    """Queries of ``2 * groups`` heads, keys and values of two, in caches."""

    def make(b: Layers, query: Output, key: Output, value: Output, *more: Output) -> Made:
        given = list(more)
        chosen = [given.pop(0)] if beams else []
        keys, values = cache(b, "keys", key, *chosen), cache(b, "values", value, *chosen)
        wide = [repeated(b, one, groups, mode) if groups > 1 else one for one in (keys, values)]
        made = b.ScaledDotProductAttention(query, *wide, *given, causal=False)
        return [b.Transpose(made, [0, 2, 1, 3])], {"keys": keys, "values": values}

    kinds = {"query": f"{kind}[?,{2 * groups},?,4]", "key": f"{kind}[?,2,?,4]", "value": f"{kind}[?,2,?,4]"}
    if beams:
        kinds["beam_idx"] = "i32[?]"
    if mask != "none":
        kinds["mask"] = "boolean[?,1,?,?]" if mask == "boolean" else "f32[?,1,?,?]"
    return stateful(kinds, make)


def attention_steps(groups: int = 1, beams: bool = True, mask: str = "none", kind: str = "f32") -> list[Any]:
    """A prompt of five tokens for a batch of two, single tokens with permuted beams, another sequence."""
    steps: list[Any] = []
    seen = 0
    first = [(5, [0, 1]), (1, [0, 1]), (1, [1, 0]), (1, [0, 1]), (2, [0, 1]), (1, [1, 1])]
    for length, order in [*first, (0, []), (3, [0, 1]), *[(1, [0, 1])] * 20]:
        if not length:
            steps.append(reset())
            seen = 0
            continue
        seen += length
        step = {
            "query": normal(2, 2 * groups, length, 4),
            "key": normal(2, 2, length, 4),
            "value": normal(2, 2, length, 4),
        }
        if beams:
            step["beam_idx"] = np.array(order, np.int32)
        if mask == "boolean":
            step["mask"] = (RNG.random((2, 1, length, seen)) < 0.8) | (np.arange(seen) == 0)
        elif mask == "float":
            step["mask"] = np.where(
                RNG.random((2, 1, length, seen)) < 0.2, np.float32(-1e4), normal(2, 1, length, seen)
            )
        wanted = np.dtype(np.float16 if kind == "f16" else np.float32)
        steps.append({name: value.astype(wanted) if value.dtype.kind == "f" else value for name, value in step.items()})
    return steps


def half() -> Model:
    """A state of float16 that grows, beside sums in float16."""

    def make(b: Layers, x: Output) -> Made:
        all_ = b.Concat(read(b, "past", "f16[2,?]"), x, axis=1)
        total = b.Add(read(b, "total", "f16[2,1]"), b.ReduceSum(all_, [1], keep_dims=True))
        return [b.Sqrt(b.Abs(total))], {"past": all_, "total": total}

    return stateful({"x": "f16[2,1]"}, make)
