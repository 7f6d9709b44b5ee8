"""The kernel of attention against ``evaluate``: masks, sinks, blocks of rows, heads that are repeated or broadcast."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ir_runtime import Output, compile_model
from ir_runtime.execution.kernels import attention
from tests.ir_runtime.execution.kernel_checks import Layers, model_of, normal, same
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


def check(
    groups: int,
    mask: str,
    *,
    rows: int = 3,
    seen: int = 7,
    causal: bool = False,
    sink: bool = False,
    mode: str = "numpy",
) -> None:
    """Queries of ``2 * groups`` heads, with keys and values of two, which are repeated in the model."""
    heads = 2 * groups
    more = mask_of(mask, heads, rows, seen)
    if sink:
        more = [*(more or [np.zeros((), np.float32)]), np.array([0.3], np.float32), normal(1, heads, 1, 1)]
    # Values around 1: in a mean of thousands around 0, rounding would be large beside what is left.
    inputs = [normal(2, heads, rows, 8), normal(2, 2, seen, 8), normal(2, 2, seen, 5), *more]

    def make(b: Layers, query: Output, key: Output, value: Output, *more: Output) -> Output:
        wide = [repeated(b, one, groups, mode) if groups > 1 else one for one in (key, value)]
        return b.ScaledDotProductAttention(query, *wide, *more, causal=causal)

    same(model_of(make, inputs), inputs, kernels=1)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("groups", [1, 4])
def test_masks_and_sinks(groups: int, mask: str, sink: bool) -> None:
    check(groups, mask, sink=sink)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("mode", ["numpy", "bidirectional"])
@pytest.mark.parametrize("shape", [(1, 9), (5, 5), (6, 4)], ids=str)
def test_causal(groups: int, mode: str, shape: tuple[int, int]) -> None:
    check(groups, "boolean", rows=shape[0], seen=shape[1], causal=True, mode=mode)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("mask", ["none", "boolean", "scores of heads", "all"])
@pytest.mark.parametrize("shape", [(70, 900), (1, 2000), (3, 1500), (300, 300)], ids=str)
def test_blocks(groups: int, mask: str, shape: tuple[int, int]) -> None:
    check(groups, mask, rows=shape[0], seen=shape[1], sink=shape[0] == 70)


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
