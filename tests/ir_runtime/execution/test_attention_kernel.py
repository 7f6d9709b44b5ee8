"""The kernel of attention; what runs when a kernel does not; models of 16 bits, which kernels compute in float32."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir_runtime import ExecutionError, InternalError, Output, Tensor, compile_model
from ir_runtime.execution.kernels import attention, softmax
from ir_runtime.execution.static_plans import plan
from ir_runtime.graph import element_types
from ir_runtime.operations.activation import SoftMax8
from tests.ir_runtime.execution.kernel_checks import Array, Layers, model_of, normal, same
from tests.ir_runtime.execution.stateful import repeated
from tests.random_data import generator

RNG = generator(17)


def mask_of(form: str, heads: int, rows: int, seen: int, batch: int = 2) -> list[np.ndarray]:
    boolean = (RNG.random((batch, 1, rows, seen)) < 0.7) | (np.arange(seen) == 0)
    return {
        "none": [],
        "scalar": [np.zeros((), np.float32)],
        "boolean": [boolean],
        "boolean of heads": [(RNG.random((heads, rows, seen)) < 0.7) | (np.arange(seen) == 0)],
        "one row": [RNG.random((1, seen)) < 0.9],
        "list": [normal(seen)],
        "scores": [np.where(boolean, normal(batch, 1, rows, seen), np.float32(-np.inf))],
        "scores of heads": [normal(1, heads, rows, seen)],
        "all": [normal(batch, heads, rows, seen)],
        "nothing seen": [np.arange(rows)[:, None] != rows - 1],
    }[form]


MASKS = ["none", "scalar", "boolean", "boolean of heads", "one row", "list", "scores", "scores of heads", "all"]
MASKS += ["nothing seen"]  # such a row is NaN, or zero where there is a sink


def check(groups: int, mask: str, rows: int = 3, seen: int = 7, mode: str = "numpy", **more: bool) -> None:
    """Queries of ``2 * groups`` heads, with keys and values of two, which are repeated in the model."""
    heads, is_causal = 2 * groups, more.get("causal", False)
    given = mask_of(mask, heads, rows, seen)
    if more.get("sink"):
        given = [*(given or [np.zeros((), np.float32)]), np.array([0.3], np.float32), normal(1, heads, 1, 1)]
    # Values around 1: in a mean of thousands around 0, rounding would be large beside what is left.
    inputs = [normal(2, heads, rows, 8), normal(2, 2, seen, 8), normal(2, 2, seen, 5), *given]

    def make(b: Layers, query: Output, key: Output, value: Output, *more: Output) -> Output:
        wide = [repeated(b, one, groups, mode) if groups > 1 else one for one in (key, value)]
        return b.ScaledDotProductAttention(query, *wide, *more, causal=is_causal)

    same(model_of(make, inputs), inputs)


CASES: list[dict[str, Any]] = [
    *({"mask": mask, "sink": sink} for mask in MASKS for sink in (False, True)),
    *({"mask": "boolean", "causal": True, "mode": mode, "rows": rows, "seen": seen}
      for mode in ("numpy", "bidirectional") for rows, seen in ((1, 9), (5, 5), (6, 4))),
    *({"mask": mask, "rows": rows, "seen": seen, "sink": rows == 70}
      for mask in ("none", "boolean", "scores of heads", "all")
      for rows, seen in ((70, 900), (1, 2000), (3, 1500), (300, 300))),
]  # fmt: skip


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_attention(groups: int, case: dict[str, Any]) -> None:
    check(groups, **case)


@pytest.mark.parametrize("block", [1, 5, 8, 21, 40, 60])
@pytest.mark.parametrize(("groups", "mask"), list(itertools.product([1, 2, 3], ["boolean of heads", "all"])))
@pytest.mark.parametrize("heads_at_once", [0, 45, 130])
def test_any_cut(block: int, heads_at_once: int, groups: int, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_BLOCK_ELEMENTS", block)
    monkeypatch.setattr(attention, "_ALL_HEADS_ELEMENTS", heads_at_once)
    check(groups, mask, sink=True)
    check(groups, mask, causal=True)


def test_infinite_scores() -> None:
    """Infinity meets minus infinity of an added mask, a hidden one, and values that are not finite."""
    query, key, value = normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 4)
    key[0, 0, 1] = np.inf
    value[0, 1, 2] = np.nan
    for mask in (np.array([0, -np.inf, 0, 0, -np.inf], np.float32), np.array([True, False, True, True, False])):
        inputs = [query, key, value, mask]
        same(model_of(lambda b, *v: b.ScaledDotProductAttention(*v, causal=False), inputs), inputs)


def merged(b: Layers, target: Any, *, zero: bool = False, read: bool = False) -> Any:
    def make(query: Output, key: Output, value: Output) -> list[Output]:
        wide = []
        for one in (key, value):
            five = b.Broadcast(b.Unsqueeze(one, 2), [1, 1, 3, 1, 1], mode="bidirectional")
            wide.append(b.Reshape(five, target, special_zero=zero))
        made = b.ScaledDotProductAttention(query, *wide, causal=False)
        return [made, *(wide[:1] if read else [])]

    return make


@pytest.mark.parametrize(
    ("target", "zero", "batch"),
    [([2, 6, 7, 4], False, 2), ([-1, 6, 7, 4], True, 2), ([0, -1, 7, 4], True, 2), ([1, 12, 7, 4], False, 1), ([6, 2, 7, 4], False, 6)],
)  # fmt: skip
@pytest.mark.parametrize("read", [False, True])
def test_targets_of_the_reshape(target: list[int], zero: bool, batch: int, read: bool) -> None:
    """Those that merge the repeated heads, others that mix them with the batch, and heads that something else reads."""
    heads = 12 // batch
    inputs = [normal(batch, heads, 3, 4), normal(2, 2, 7, 4), normal(2, 2, 7, 4)]
    same(model_of(lambda b, *v: merged(b, target, zero=zero, read=read)(*v), inputs), inputs, kernels=1)


def test_keys_are_not_repeated_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    attend = attention._Attention.__call__

    def watched(self: Any, query: Any, key: Any, value: Any, *more: Any, groups: int = 1) -> Any:
        seen.append((*key.shape, groups))
        return attend(self, query, key, value, *more, groups=groups)

    monkeypatch.setattr(attention._Attention, "__call__", watched)
    inputs = [normal(2, 6, 3, 4), normal(2, 2, 7, 4), normal(2, 2, 7, 4)]
    model = model_of(lambda b, *v: merged(b, [0, 6, -1, 4], zero=True)(*v), inputs, open_=True)
    compile_model(model)(inputs)
    assert seen == [(2, 2, 7, 4, 3)]


# --- what runs when a kernel does not ---


def raises(*_: Any) -> Any:
    raise TypeError("a mistake in a kernel")


def softmax_model(axis: int = -1, *, open_: bool = False) -> tuple[Any, np.ndarray]:
    x = normal(3, 7)
    return model_of(lambda b, v: b.SoftMax(v, axis=axis), [x], open_), x


def test_a_kernel_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model(open_=True)
    model.results[0].inputs[0].node.name = "soft"
    monkeypatch.setattr(softmax, "softmax_rows", raises)
    compiled = compile_model(model)
    with pytest.raises(InternalError, match=r"layer 'soft' \(SoftMax\): its kernel failed.*a mistake in a kernel"):
        compiled([x])
    # Without kernels the model still runs.
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    expected = shifted / shifted.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(compile_model(model, optimize=False)([x])[0], expected, rtol=1e-6)


def test_an_operation_that_fails_is_not_the_inputs_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model()
    monkeypatch.setattr(SoftMax8, "evaluate", raises)
    with pytest.raises(
        InternalError, match=r"layer .*\(SoftMax, opset8\) failed by a fault of this package \(TypeError: a mistake"
    ):
        compile_model(model, optimize=False)([x])


def test_a_plan_for_known_shapes_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = softmax_model()
    compiled = compile_model(model)
    assert compiled._calls.static_plans is not None
    monkeypatch.setattr(plan.StaticPlan, "run", raises)
    with pytest.raises(InternalError, match=r"the plan for inputs of the shapes \[\[3, 7\]\] failed.*a mistake"):
        compiled([x])
    monkeypatch.setattr(plan.StaticPlan, "__init__", raises)
    with pytest.raises(InternalError, match=r"making a plan failed by a fault of this package.*a mistake"):
        compile_model(model)


def test_inputs_that_do_not_fit_are_told_by_evaluate() -> None:
    inputs = [normal(2, 3), normal(2, 3)]
    model = model_of(lambda b, x, y: b.Add(x, y), inputs, open_=True)
    compiled = compile_model(model)
    for _ in range(3):
        with pytest.raises(ExecutionError, match=r"\(Add, opset1\)") as caught:
            compiled([normal(2, 3), normal(2, 4)])
        assert not isinstance(caught.value, InternalError)


def test_calls_that_kernels_leave_alone_are_counted() -> None:
    for axis, count in [(-1, 0), (0, 3)]:
        model, x = softmax_model(axis, open_=True)
        compiled = compile_model(model)
        profile = compiled.profile([x], repeat=2)
        assert compiled.fallbacks == ({"SoftMax": count} if count else {})
        assert [row.kernel for row in profile.layers if row.type == "SoftMax"] == [axis == -1]


# --- 16 bits: idioms of float16 are rows, which compare with the layers one by one ---


KINDS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def held(b: Layers, array: Array) -> Output:
    return b.tensor(Tensor.from_array(array, element_types.from_dtype(array.dtype)))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_between_layers_nothing_is_rounded(kind: np.dtype[Any]) -> None:
    """(1 + small) - 1, where one plus small is one in 16 bits: by hand."""
    small = np.array([2**-13], kind)

    def make(b: Layers, v: Output) -> Output:
        one = held(b, np.array([1], kind))
        return b.Subtract(b.Add(v, one), one)

    model = model_of(make, [small])
    assert compile_model(model)([small])[0].astype(np.float64).tolist() == [2**-13]
    assert compile_model(model, optimize=False)([small])[0].astype(np.float64).tolist() == [0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_a_model_converts_is_rounded(kind: np.dtype[Any]) -> None:
    x = np.array([1 + 2**-13, 70000.0, -3.3], np.float32)

    def make(b: Layers, v: Output) -> Output:
        narrow = b.Convert(v, destination_type=element_types.from_dtype(kind))
        twice = b.Add(narrow, narrow)
        return b.Convert(twice, destination_type=element_types.f32)

    with np.errstate(over="ignore"):
        expected = 2 * x.astype(kind).astype(np.float32)
    np.testing.assert_array_equal(compile_model(model_of(make, [x]))([x])[0], expected)
