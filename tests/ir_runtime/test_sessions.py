"""Sessions: what variables hold from step to step is what OpenVINO's requests hold."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from ir_runtime import Model, Output
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.kernel_checks import op
from tests.ir_runtime.stateful import Made, cache, check_steps, put, read, repeated, reset, stateful
from tests.random_data import generator

RNG = generator(31)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


class Row(NamedTuple):
    model: Callable[[], Model]
    steps: Callable[[], Sequence[Any]]
    rtol: float = 1e-4


def counter(revision: int) -> Model:
    def make(b: Builder, x: Output) -> Made:
        start = b.constant(np.full((2, 3), 5), "f32")
        total = b.emit(op("Add"), read(b, "total", "f32[2,3]", start, revision=revision), x)
        return [b.emit(op("ReLU"), total)], {"total": total}

    return stateful({"x": "f32[2,3]"}, make, revision)


def from_zeros(kind: str) -> Model:
    def make(b: Builder, x: Output) -> Made:
        total = b.emit(op("Add"), read(b, "total", kind), x)
        return [b.emit(op("Negative"), total)], {"total": total}

    return stateful({"x": kind}, make)


def cell(batch: str = "2") -> Model:
    """A recurrent cell; the first state is computed from the inputs. Two outputs."""

    def make(b: Builder, x: Output, start: Output) -> Made:
        first = b.emit(op("MatMul"), start, b.constant(normal(3, 4), "f32"))
        before = read(b, "h", f"f32[{batch},4]", first)
        gate = b.emit(op("Sigmoid"), b.emit(op("MatMul"), x, b.constant(normal(3, 4), "f32")))
        new = b.emit(op("Tanh"), b.emit(op("MatMul"), before, b.constant(normal(4, 4), "f32")))
        kept = b.emit(op("Multiply"), gate, before)
        h = b.emit(op("Add"), kept, b.emit(op("Multiply"), b.emit(op("Subtract"), b.constant(1, "f32"), gate), new))
        return [h, b.emit(op("MatMul"), h, b.constant(normal(4, 5), "f32"))], {"h": h}

    return stateful({"x": f"f32[{batch},3]", "start": f"f32[{batch},3]"}, make)


def reshaped_cell() -> Model:
    model = cell("?")
    model.reshape({"x": [2, 3], "start": [2, 3]})
    return model


def two_states() -> Model:
    def make(b: Builder, x: Output) -> Made:
        a = read(b, "a", "f32[2]", b.emit(op("Multiply"), x, b.constant(10, "f32")))
        c = read(b, "c", "f32[2]", b.emit(op("Multiply"), x, b.constant(100, "f32")))
        both = b.emit(op("Add"), a, c)
        return [both], {"a": b.emit(op("Add"), a, x), "c": b.emit(op("Add"), both, x)}

    return stateful({"x": "f32[2]"}, make)


def growing(axis: int, *, returned: bool = False, unseen: bool = False) -> Model:
    """A Concat along an axis, of a variable of unknown length without an initial value."""

    def make(b: Builder, x: Output) -> Made:
        kind = ["2", "3"]
        kind.insert(axis, "?")
        all_ = b.emit(op("Concat", axis=axis - 3), read(b, "past", f"f32[{','.join(kind)}]"), x)
        total = b.emit(op("ReduceSum", keep_dims=True), all_, b.constant([axis]))
        if unseen:  # what is returned is of the cache before this step, too
            total = b.emit(op("Subtract"), total, x)
        return [total, *([all_] if returned else [])], {"past": all_}

    shape = ["2", "3"]
    shape.insert(axis, "?")
    return stateful({"x": f"f32[{','.join(shape)}]"}, make)


def attention(
    *, groups: int = 1, mode: str = "bidirectional", beams: bool = True, mask: str = "none", kind: str = "f32"
) -> Model:
    """Queries of ``2 * groups`` heads, keys and values of two, in caches."""

    def make(b: Builder, query: Output, key: Output, value: Output, *more: Output) -> Made:
        given = list(more)
        chosen = [given.pop(0)] if beams else []
        keys, values = cache(b, "keys", key, *chosen), cache(b, "values", value, *chosen)
        wide = [repeated(b, one, groups, mode) if groups > 1 else one for one in (keys, values)]
        made = b.emit(op("ScaledDotProductAttention", causal=False), query, *wide, *given)
        return [b.emit(op("Transpose"), made, b.constant([0, 2, 1, 3]))], {"keys": keys, "values": values}

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


def window() -> Model:
    """The last four of a growing variable are kept."""

    def make(b: Builder, x: Output) -> Made:
        all_ = b.emit(op("Concat", axis=1), read(b, "past", "f32[2,?,3]"), x)
        kept = b.emit(op("Slice"), all_, b.constant([-4]), b.constant([2**31 - 1]), b.constant([1]), b.constant([1]))
        return [b.emit(op("ReduceSum", keep_dims=True), all_, b.constant([1]))], {"past": kept}

    return stateful({"x": "f32[2,?,3]"}, make)


def numbers() -> Model:
    """Integers: a position, and lengths that are set from outside."""

    def make(b: Builder, x: Output) -> Made:
        position = read(b, "position", "i32[1]", b.constant([3], "i32"))
        lengths = read(b, "lengths", "i32[?]", x)
        after = {"position": b.emit(op("Add"), position, b.constant([2], "i32"))}
        return [b.emit(op("Add"), lengths, position)], {**after, "lengths": b.emit(op("Negative"), lengths)}

    return stateful({"x": "i32[?]"}, make)


def half() -> Model:
    """A state of float16 that grows, beside sums in float16."""

    def make(b: Builder, x: Output) -> Made:
        all_ = b.emit(op("Concat", axis=1), read(b, "past", "f16[2,?]"), x)
        total = b.emit(
            op("Add"), read(b, "total", "f16[2,1]"), b.emit(op("ReduceSum", keep_dims=True), all_, b.constant([1]))
        )
        return [b.emit(op("Sqrt"), b.emit(op("Abs"), total))], {"past": all_, "total": total}

    return stateful({"x": "f16[2,1]"}, make)


def same(count: int, *shape: int) -> list[Any]:
    return [{"x": normal(*shape)} for _ in range(count)]


def integers(count: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(4, 4 + count, dtype=np.int32)}


def cell_steps() -> list[Any]:
    steps: list[Any] = [{"x": normal(2, 3), "start": normal(2, 3)} for _ in range(5)]
    return [*steps[:3], put(h=normal(2, 4)), *steps[:2], reset(), *steps[2:]]


ROWS: dict[str, Row] = {
    "counter": Row(lambda: counter(6), lambda: [*same(3, 2, 3), reset(), *same(2, 2, 3)]),
    "counter-3": Row(lambda: counter(3), lambda: [*same(3, 2, 3), reset("total"), *same(2, 2, 3)]),
    "zeros": Row(lambda: from_zeros("f32[2,3]"), lambda: [*same(3, 2, 3), put(total=normal(2, 3)), *same(2, 2, 3)]),
    "cell": Row(cell, cell_steps),
    "reshaped cell": Row(reshaped_cell, cell_steps),
    # Without a reset: after one, the plug-in (2026.4.1) computes other numbers than in a new request.
    "cell of any batch": Row(lambda: cell("?"), lambda: cell_steps()[:6]),
    "two states": Row(two_states, lambda: [*same(3, 2), reset("a"), *same(2, 2), put(c=normal(2)), *same(2, 2)]),
    **{
        f"growing along {axis}": Row(
            lambda axis=axis: growing(axis),
            lambda axis=axis: [
                *(step for n in (3, 1, 1, 0, 40, 1) for step in same(1, *np.insert([2, 3], axis, n))),
                reset(), *same(2, *np.insert([2, 3], axis, 2)),
                put(past=normal(*np.insert([2, 3], axis, 7))), *same(2, *np.insert([2, 3], axis, 1)),
            ],
        )
        for axis in range(3)
    },
    "growing and returned": Row(lambda: growing(1, returned=True), lambda: [*same(25, 2, 1, 3), reset(), *same(2, 2, 3, 3)]),
    "growing, less": Row(lambda: growing(1, unseen=True), lambda: same(5, 2, 1, 3)),
    "window": Row(window, lambda: [*same(4, 2, 2, 3), reset(), *same(3, 2, 3, 3)]),
    "numbers": Row(numbers, lambda: [*[integers(3)] * 3, put(lengths=integers(2)["x"]), integers(4)]),
    "half": Row(half, lambda: [{"x": normal(2, 1).astype(np.float16)} for _ in range(5)], 2e-3),
    "attention of float16": Row(
        lambda: attention(groups=3, kind="f16"), lambda: attention_steps(3, kind="f16"), 4e-3
    ),
    **{
        f"attention, {groups} groups, {mode}, {mask}": Row(
            lambda groups=groups, mode=mode, mask=mask: attention(groups=groups, mode=mode, mask=mask),
            lambda groups=groups, mask=mask: attention_steps(groups, mask=mask),
        )
        for groups in (1, 3)
        for mode in ("bidirectional", "numpy")
        for mask in ("none", "boolean", "float")
        if groups > 1 or mode == "numpy"
    },
}  # fmt: skip


@pytest.mark.parametrize("form", [(True, 1), (True, 2), (False, 1)], ids=["kernels", "threads", "layers"])
@pytest.mark.parametrize("name", ROWS)
def test_steps_are_those_of_openvino(name: str, form: tuple[bool, int]) -> None:
    row = ROWS[name]
    model = pickle.loads(pickle.dumps(row.model()))
    check_steps(model, row.steps(), optimize=form[0], threads=form[1], rtol=row.rtol)
