"""Single operators that the plug-in computes wrongly: each needs one rule, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random_data import generator
from tests.rows.row import REFERENCE, const

from .rows import Probe, ints, probe, single

LARGE = 1 << 30


def whole(dtype: Any, *shape: int, low: int = -LARGE, high: int = LARGE, seed: int = 5) -> np.ndarray[Any, Any]:
    return generator(seed).integers(low, high, shape).astype(dtype)


def row(rule: str, op_type: str, opset: int, layer: str, what: str = "", **arguments: Any) -> Probe:
    return probe(f"{rule}: {op_type}{what}", layer, single(op_type, opset, **arguments))


def reduced(op_type: str, opset: int, x: Any, rule: str = "integer_reductions", **more: Any) -> Probe:
    return row(rule, op_type, opset, op_type, f" of {x.dtype}{list(x.shape)}", x=x, axes=const(ints(1)), **more)


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
TRUTH = np.array([[True, False], [False, False]])
ROWS: list[Probe] = [
    reduced("ReduceSum", 13, np.array([[3_000_000_000, 5], [1, 4_000_000_000]], np.uint32), expect=REFERENCE),
    reduced("ReduceSum", 13, FIFTY >> 6),
    reduced("ReduceL1", 18, FIFTY >> 6),
    reduced("ReduceMean", 18, np.abs(FIFTY[:, 1:])),
    reduced("ReduceMean", 18, np.array([[250, 251, 255], [1, 3, 5]], np.uint8), expect=np.uint8([[252], [3]])),
    reduced("ReduceMax", 18, FIFTY),
    row(INTEGERS, "Div", 14, "Divide", a=PAIR["a"], n=const(np.int32(3))),
    row(INTEGERS, "Mod", 13, "Mod", " of C", **PAIR, fmod=1),
    row(INTEGERS, "Mod", 13, "FloorMod", **PAIR),
    row(INTEGERS, "Pow", 15, "Power", a=PAIR["a"] % 1800 - 900, n=const(np.int32(3))),
    row(INTEGERS, "Equal", 19, "Equal", **NEAR),
    row(INTEGERS, "Less", 13, "Less", **NEAR),
    row(INTEGERS, "LessOrEqual", 16, "LessEqual", **FAR),
    row(INTEGERS, "Max", 13, "Maximum", **FAR),
    row("saturated_8_bit_integers", "Add", 14, "Add", **BYTES),
    row("saturated_8_bit_integers", "Div", 14, "Divide", **BYTES, dims={"a": "n", "b": "n"}),
    row("right_shift_of_unsigned", "BitShift", 11, "BitwiseRightShift", a=np.uint32([4_000_000_000, 9]),
        n=const([3, 1], np.uint32), direction="RIGHT"),
    row("mod_by_infinity", "Mod", 13, "Mod", **ENDLESS, fmod=1),
    row("comparisons_with_nan", "Greater", 13, "Greater", **NAN),
    row("comparisons_with_nan", "GreaterOrEqual", 16, "GreaterEqual", **NAN),
    # onnxruntime's mean of nothing is 0.
    reduced("ReduceMean", 18, np.zeros((2, 0), np.float32), "dynamic_reductions", dims={"x": (2, "n")},
            expect=np.float32([[np.nan], [np.nan]])),
]  # fmt: skip
REFUSED = [row("dynamic_reductions", "ReduceMax", 20, "ReduceLogicalOr", x=TRUTH, axes=ints(1))]
