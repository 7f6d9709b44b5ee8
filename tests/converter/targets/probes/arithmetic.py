"""Single operators that the plug-in computes wrongly: each needs one rule, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random_data import generator
from tests.rows.row import const

from .rows import Probe, ints, probe, single

LARGE = 1 << 30


def whole(dtype: Any, *shape: int, low: int = -LARGE, high: int = LARGE, seed: int = 5) -> np.ndarray[Any, Any]:
    return generator(seed).integers(low, high, shape).astype(dtype)


def towards_zero(a: np.ndarray[Any, Any], b: Any) -> Any:
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return (quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))).astype(a.dtype)


def row(rule: str, op_type: str, opset: int, layer: str, what: str = "", **arguments: Any) -> Probe:
    return probe(f"{rule}: {op_type}{what}", layer, single(op_type, opset, **arguments))


def reduced(
    op_type: str, opset: int, x: np.ndarray[Any, Any], expect: Any, rule: str = "integer_reductions", **more: Any
) -> Probe:
    return row(
        rule, op_type, opset, op_type, f" of {x.dtype}{list(x.shape)}", x=x, axes=const(ints(1)), expect=expect, **more
    )


def column(*values: int, dtype: Any) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)[:, None]


INTEGERS = "integer_arithmetic"
FIFTY = whole(np.int32, 3, 50)
NEAR = {"a": np.array([1 << 26, 7], np.int32), "b": np.array([(1 << 26) + 1, 7], np.int32)}
FAR = {"a": np.array([3_000_000_000, 5], np.uint32), "b": np.array([7, 4_000_000_000], np.uint32)}
PAIR = {"a": whole(np.int32, 40), "b": whole(np.int32, 40, seed=6)}
ENDLESS = {
    "a": np.array([5, -7, 3, np.inf, -np.inf, np.nan], np.float32),
    "b": np.array([np.inf, -np.inf, 2, np.inf, np.inf, np.inf], np.float32),
}
NAN = {"a": np.array([np.nan, 2], np.float32), "b": np.array([1, 1], np.float32)}
BYTES = {name: whole(np.uint8, 40, low=1, high=256, seed=seed) for seed, name in enumerate("ab")}
SHIFTED = np.array([4_000_000_000, 9], np.uint32)
with np.errstate(all="ignore"):
    ROWS: list[Probe] = [
        reduced("ReduceSum", 13, np.array([[3_000_000_000, 5], [1, 4_000_000_000]], np.uint32),
                column(3_000_000_005, 4_000_000_001, dtype=np.uint32)),
        reduced("ReduceSum", 13, FIFTY >> 6, (FIFTY >> 6).sum(1, dtype=np.int32, keepdims=True)),
        reduced("ReduceL1", 18, FIFTY >> 6, np.abs(FIFTY >> 6).sum(1, dtype=np.int32, keepdims=True)),
        reduced("ReduceMean", 18, np.abs(FIFTY[:, 1:]), (np.abs(FIFTY[:, 1:]).astype(np.int64).sum(1,
                keepdims=True) // 49).astype(np.int32)),
        reduced("ReduceMean", 18, np.array([[250, 251, 255], [1, 3, 5]], np.uint8), column(252, 3, dtype=np.uint8)),
        reduced("ReduceMax", 18, FIFTY, FIFTY.max(1, keepdims=True)),
        row(INTEGERS, "Div", 14, "Divide", a=PAIR["a"], n=const(np.int32(3)),
            expect=towards_zero(PAIR["a"], np.array(3))),
        row(INTEGERS, "Mod", 13, "Mod", " of C", **PAIR, fmod=1, expect=np.fmod(*PAIR.values())),
        row(INTEGERS, "Mod", 13, "FloorMod", **PAIR, expect=np.mod(*PAIR.values())),
        row(INTEGERS, "Pow", 15, "Power", a=PAIR["a"] % 1800 - 900, n=const(np.int32(3)),
            expect=(PAIR["a"] % 1800 - 900) ** 3),
        row(INTEGERS, "Equal", 19, "Equal", **NEAR, expect=np.equal(*NEAR.values())),
        row(INTEGERS, "Less", 13, "Less", **NEAR, expect=np.less(*NEAR.values())),
        row(INTEGERS, "LessOrEqual", 16, "LessEqual", **FAR, expect=np.less_equal(*FAR.values())),
        row(INTEGERS, "Max", 13, "Maximum", **FAR, expect=np.maximum(*FAR.values())),
        row("saturated_8_bit_integers", "Add", 14, "Add", **BYTES, expect=np.add(*BYTES.values())),
        row("saturated_8_bit_integers", "Div", 14, "Divide", **BYTES, dims={"a": "n", "b": "n"},
            expect=towards_zero(*BYTES.values())),
        row("right_shift_of_unsigned", "BitShift", 11, "BitwiseRightShift", a=SHIFTED, n=const([3, 1], np.uint32),
            direction="RIGHT", expect=SHIFTED >> np.array([3, 1], np.uint32)),
        row("mod_by_infinity", "Mod", 13, "Mod", **ENDLESS, fmod=1, expect=np.fmod(*ENDLESS.values())),
        row("comparisons_with_nan", "Greater", 13, "Greater", **NAN, expect=np.greater(*NAN.values())),
        row("comparisons_with_nan", "GreaterOrEqual", 16, "GreaterEqual", **NAN, expect=np.greater_equal(*NAN.values())),
        reduced("ReduceMean", 18, np.zeros((2, 0), np.float32), np.full((2, 1), np.nan, np.float32),
                "dynamic_reductions", dims={"x": (2, "n")}),
    ]  # fmt: skip
TRUTH = np.array([[True, False], [False, False]])
ANY = TRUTH.any(1, keepdims=True)
REFUSED = [row("dynamic_reductions", "ReduceMax", 20, "ReduceLogicalOr", x=TRUTH, axes=ints(1), expect=ANY)]
