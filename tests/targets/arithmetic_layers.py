"""Operators whose plain layers OpenVINO's CPU plug-in computes wrongly, and the rule that is there for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from tests.engines import node_model
from tests.random_data import generator

Array = np.ndarray[Any, Any]
_LARGE = 1 << 30


@dataclass(frozen=True)
class Plain:
    """An operator, its plain layers in their order of execution, and ONNX's numbers."""

    rule: str
    op_type: str
    opset: int
    layers: str
    inputs: Callable[[], Mapping[str, Array]]
    expected: Callable[..., Any]
    constants: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.rule}-{self.op_type}-{self.opset}"

    def model(self) -> tuple[onnx.ModelProto, Mapping[str, Array], Array]:
        """The model, what it is fed with, and what must come out."""
        feeds = self.inputs()
        model = node_model(
            self.op_type,
            feeds,
            opset=self.opset,
            constants=self.constants,
            attributes=self.attributes,
            shapes=self.shapes,
        )
        with np.errstate(all="ignore"):
            return model, feeds, np.asarray(self.expected(*feeds.values(), *self.constants.values()))


def whole(dtype: Any, *shapes: tuple[int, ...], low: int = -_LARGE, high: int = _LARGE) -> Callable[[], Any]:
    """Random integers, one input for each shape."""

    def make() -> Mapping[str, Array]:
        r = generator(5)
        return {f"x{i}": r.integers(low, high, shape).astype(dtype) for i, shape in enumerate(shapes)}

    return make


def given(**values: Any) -> Callable[[], Any]:
    return lambda: values


def towards_zero(a: Array, b: Array) -> Array:
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return (quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))).astype(a.dtype)


AXES = {"axes": np.array([1], np.int64)}
PAIR = ((40,), (40,))
_NEAR = {"x0": np.array([1 << 26, 7], np.int32), "x1": np.array([(1 << 26) + 1, 7], np.int32)}
_FAR = {"x0": np.array([3_000_000_000, 5], np.uint32), "x1": np.array([7, 4_000_000_000], np.uint32)}
_HALVES = np.array([[1, 3], [2, -5]], np.float16)
_ENDLESS = {
    "x0": np.array([5, -7, 3, np.inf, -np.inf, np.nan], np.float32),
    "x1": np.array([np.inf, -np.inf, 2, np.inf, np.inf, np.inf], np.float32),
}
_NAN = {"x0": np.array([np.nan, 2], np.float32), "x1": np.array([1, 1], np.float32)}

ROWS: list[Plain] = [
    Plain(
        "integer_reductions",
        "ReduceSum",
        13,
        "ReduceSum",
        given(x=np.array([[3_000_000_000, 5], [1, 4_000_000_000]], np.uint32)),
        lambda x, axes: np.array([[3_000_000_005], [4_000_000_001]], np.uint32),
        AXES,
    ),
    Plain(
        "integer_reductions",
        "ReduceSum",
        13,
        "ReduceSum",
        whole(np.int32, (3, 50), high=1 << 24),
        lambda x, axes: x.sum(1, dtype=np.int32, keepdims=True),
        AXES,
    ),
    Plain(
        "integer_reductions",
        "ReduceL1",
        18,
        "ReduceL1",
        whole(np.int32, (3, 50), low=-(1 << 24), high=1 << 24),
        lambda x, axes: np.abs(x).sum(1, dtype=np.int32, keepdims=True),
        AXES,
    ),
    Plain(
        "integer_reductions",
        "ReduceMean",
        18,
        "ReduceMean",
        whole(np.int32, (3, 49), low=0),
        lambda x, axes: (x.astype(np.int64).sum(1, keepdims=True) // 49).astype(np.int32),
        AXES,
    ),
    Plain(
        "integer_reductions",
        "ReduceMean",
        18,
        "ReduceMean",
        given(x=np.array([[250, 251, 255], [1, 3, 5]], np.uint8)),
        lambda x, axes: np.array([[252], [3]], np.uint8),
        AXES,
    ),
    Plain(
        "integer_reductions",
        "ReduceMax",
        18,
        "ReduceMax",
        whole(np.int32, (3, 50)),
        lambda x, axes: x.max(1, keepdims=True),
        AXES,
    ),
    Plain(
        "integer_arithmetic",
        "Div",
        14,
        "Divide",
        whole(np.int32, (40,)),
        towards_zero,
        {"n": np.array(3, np.int32)},
    ),
    Plain("integer_arithmetic", "Mod", 13, "Mod", whole(np.int32, *PAIR), np.fmod, attributes={"fmod": 1}),
    Plain("integer_arithmetic", "Mod", 13, "FloorMod", whole(np.int32, *PAIR), np.mod),
    Plain(
        "integer_arithmetic",
        "Pow",
        15,
        "Power",
        whole(np.int32, (40,), low=-900, high=900),
        lambda x, n: x**3,
        {"n": np.array(3, np.int32)},
    ),
    Plain("integer_arithmetic", "Equal", 19, "Equal", given(**_NEAR), np.equal),
    Plain("integer_arithmetic", "Less", 13, "Less", given(**_NEAR), np.less),
    Plain("integer_arithmetic", "LessOrEqual", 16, "LessEqual", given(**_FAR), np.less_equal),
    Plain("integer_arithmetic", "Max", 13, "Maximum", given(**_FAR), np.maximum),
    Plain("saturated_8_bit_integers", "Add", 14, "Add", whole(np.uint8, *PAIR, low=0, high=256), np.add),
    Plain(
        "saturated_8_bit_integers",
        "Div",
        14,
        "Divide",
        whole(np.uint8, *PAIR, low=1, high=256),
        towards_zero,
        shapes={"x0": ("n",), "x1": ("n",)},
    ),
    Plain(
        "right_shift_of_unsigned",
        "BitShift",
        11,
        "BitwiseRightShift",
        given(x0=np.array([4_000_000_000, 9], np.uint32)),
        lambda x, n: x >> n,
        {"n": np.array([3, 1], np.uint32)},
        {"direction": "RIGHT"},
    ),
    Plain("mod_by_infinity", "Mod", 13, "Mod", given(**_ENDLESS), np.fmod, attributes={"fmod": 1}),
    Plain("comparisons_with_nan", "Greater", 13, "Greater", given(**_NAN), np.greater),
    Plain("comparisons_with_nan", "GreaterOrEqual", 16, "GreaterEqual", given(**_NAN), np.greater_equal),
    Plain(
        "dynamic_reductions",
        "ReduceMean",
        18,
        "ReduceMean",
        given(x=np.zeros((2, 0), np.float32)),
        lambda x, axes: np.full((2, 1), np.nan, np.float32),
        AXES,
        shapes={"x": (2, "n")},
    ),
    Plain(
        "dynamic_reductions",
        "ReduceMax",
        20,
        "ReduceLogicalOr",
        given(x=np.array([[True, False], [False, False]]), axes=np.array([1], np.int64)),
        lambda x, axes: x.any(1, keepdims=True),
    ),
]
