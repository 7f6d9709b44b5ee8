"""Sessions: what variables hold from step to step is what OpenVINO's requests hold."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ir_runtime import Model, Output
from tests.ir_runtime.execution.kernel_checks import Layers, normal
from tests.ir_runtime.execution.stateful import (
    Made,
    attention,
    attention_steps,
    check_steps,
    counter,
    growing,
    half,
    put,
    read,
    reset,
    stateful,
    two_states,
)


def from_zeros(kind: str) -> Model:
    def make(b: Layers, x: Output) -> Made:
        total = b.Add(read(b, "total", kind), x)
        return [b.Negative(total)], {"total": total}

    return stateful({"x": kind}, make)


def cell(batch: str = "2") -> Model:
    """A recurrent cell; the first state is computed from the inputs. Two outputs."""

    def make(b: Layers, x: Output, start: Output) -> Made:
        first = b.MatMul(start, normal(3, 4))
        before = read(b, "h", f"f32[{batch},4]", first)
        gate = b.Sigmoid(b.MatMul(x, normal(3, 4)))
        new = b.Tanh(b.MatMul(before, normal(4, 4)))
        kept = b.Multiply(gate, before)
        h = b.Add(kept, b.Multiply(b.Subtract(b.constant(1, "f32"), gate), new))
        return [h, b.MatMul(h, normal(4, 5))], {"h": h}

    return stateful({"x": f"f32[{batch},3]", "start": f"f32[{batch},3]"}, make)


def reshaped_cell() -> Model:
    model = cell("?")
    model.reshape({"x": [2, 3], "start": [2, 3]})
    return model


def window() -> Model:
    """The last four of a growing variable are kept."""

    def make(b: Layers, x: Output) -> Made:
        all_ = b.Concat(read(b, "past", "f32[2,?,3]"), x, axis=1)
        kept = b.Slice(all_, [-4], [2**31 - 1], [1], [1])
        return [b.ReduceSum(all_, [1], keep_dims=True)], {"past": kept}

    return stateful({"x": "f32[2,?,3]"}, make)


def numbers() -> Model:
    """Integers: a position, and lengths that are set from outside."""

    def make(b: Layers, x: Output) -> Made:
        position = read(b, "position", "i32[1]", b.constant([3], "i32"))
        lengths = read(b, "lengths", "i32[?]", x)
        after = {"position": b.Add(position, b.constant([2], "i32"))}
        return [b.Add(lengths, position)], {**after, "lengths": b.Negative(lengths)}

    return stateful({"x": "i32[?]"}, make)


def same(count: int, *shape: int) -> list[Any]:
    return [{"x": normal(*shape)} for _ in range(count)]


def integers(count: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(4, 4 + count, dtype=np.int32)}


def cell_steps() -> list[Any]:
    steps: list[Any] = [{"x": normal(2, 3), "start": normal(2, 3)} for _ in range(5)]
    return [*steps[:3], put(h=normal(2, 4)), *steps[:2], reset(), *steps[2:]]


def growths(axis: int) -> list[Any]:
    """Steps of so many elements along an axis, the last of them behind a reset and behind a state that is set."""
    shapes = [np.insert([2, 3], axis, count) for count in (3, 1, 1, 0, 40, 1, 2, 2, 7, 1, 1)]
    steps = [{"x": normal(*shape)} for shape in shapes]
    return [*steps[:6], reset(), *steps[6:8], put(past=steps[8]["x"]), *steps[9:]]


ROWS: dict[str, tuple[Any, ...]] = {
    # a model, steps, and a tolerance that is not that of float32
    "counter": (counter(6), [*same(3, 2, 3), reset(), *same(2, 2, 3)]),
    "counter-3": (counter(3), [*same(3, 2, 3), reset("total"), *same(2, 2, 3)]),
    "zeros": (from_zeros("f32[2,3]"), [*same(3, 2, 3), put(total=normal(2, 3)), *same(2, 2, 3)]),
    "cell": (cell(), cell_steps()),
    "reshaped cell": (reshaped_cell(), cell_steps()),
    # Without a reset: after one, the plug-in (2026.4.1) computes other numbers than in a new request.
    "cell of any batch": (cell("?"), cell_steps()[:6]),
    "two states": (two_states(), [*same(3, 2), reset("a"), *same(2, 2), put(c=normal(2)), *same(2, 2)]),
    **{f"growing along {axis}": (growing(axis), growths(axis)) for axis in range(3)},
    "growing and returned": (growing(1, returned=True), [*same(25, 2, 1, 3), reset(), *same(2, 2, 3, 3)]),
    "growing, less": (growing(1, unseen=True), same(5, 2, 1, 3)),
    "window": (window(), [*same(4, 2, 2, 3), reset(), *same(3, 2, 3, 3)]),
    "numbers": (numbers(), [*[integers(3)] * 3, put(lengths=integers(2)["x"]), integers(4)]),
    "half": (half(), [{"x": normal(2, 1).astype(np.float16)} for _ in range(5)], 2e-3),
    "attention of float16": (attention(groups=3, kind="f16"), attention_steps(3, kind="f16"), 4e-3),
    **{f"attention, {groups} groups, {mode}, {mask}":
           (attention(groups=groups, mode=mode, mask=mask), attention_steps(groups, mask=mask))
       for groups in (1, 3) for mode in ("bidirectional", "numpy") for mask in ("none", "boolean", "float")
       if groups > 1 or mode == "numpy"},
}  # fmt: skip


@pytest.mark.parametrize("form", [(True, 1), (True, 2), (False, 1)], ids=["kernels", "threads", "layers"])
@pytest.mark.parametrize("name", ROWS)
def test_steps_are_those_of_openvino(name: str, form: tuple[bool, int]) -> None:
    model, steps, *rtol = ROWS[name]
    check_steps(pickle.loads(pickle.dumps(model)), steps, form[0], form[1], *rtol)
