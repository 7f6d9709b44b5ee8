"""Calls of what works element by element, and of conversions between types."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ir_runtime.calls.base import Call, calls, flags, ints, normal, one, uniform, whole

I32, U32, U64 = np.iinfo(np.int32), np.iinfo(np.uint32), np.iinfo(np.uint64)
I64 = np.iinfo(np.int64)
SHAPES = [((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 3), (1, 3)), ((1,), (0,)), ((5, 1), ())]

ARITHMETIC = [
    *(("Add", 1), ("Subtract", 1), ("Multiply", 1), ("Maximum", 1), ("Minimum", 1), ("Divide", 1)),
    *(("Mod", 1), ("FloorMod", 1), ("SquaredDifference", 1), ("Power", 1)),
]
COMPARISONS = [(name, 1) for name in ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")]
LOGICAL = [("LogicalAnd", 1), ("LogicalOr", 1), ("LogicalXor", 2), ("Xor", 1)]
BITS = [("BitwiseAnd", 13), ("BitwiseOr", 13), ("BitwiseXor", 13)]
SHIFTS = [("BitwiseLeftShift", 15), ("BitwiseRightShift", 15)]
# Whole numbers near the ends of their types, where sums and products wrap.
EXTREME = [
    (ints(I32.max, I32.min, -7, dtype=np.int32), ints(2, 3, 5, dtype=np.int32)),
    (ints(1, 5, 9, dtype=np.uint32), ints(2, 3, 4, dtype=np.uint32)),
    (ints(U32.max, 3, dtype=np.uint32), ints(9, 9, dtype=np.uint32)),
    (ints(U64.max, 2**63, 4, dtype=np.uint64), ints(3, 2, 5, dtype=np.uint64)),
    (ints(I64.max, I64.min, 2**41), ints(3, 2, 2**40)),
    (ints(I64.max, I64.max - 1), ints(1, 1)),
    (ints(I64.min, -(2**45)), ints(-1, -1)),
    (ints(200, 100, dtype=np.uint8), ints(100, 3, dtype=np.uint8)),
    (ints(-7, 7, -8, 8, -1), ints(2, -2, -2, 2, 3)),
    (ints(0, 3, 12), one(4)),
]


def _binary() -> list[Call]:
    found = []
    for (name, opset), (a, b) in itertools.product([*ARITHMETIC, *COMPARISONS], SHAPES):
        found += calls(name, opset, uniform(0.5, 4, *a), uniform(0.5, 4, *b))
        found += calls(name, opset, whole(-9, 9, *a), whole(1, 5, *b))
    for name, opset in [*ARITHMETIC, *COMPARISONS]:
        found += calls(name, opset, normal(2, 3, 4), uniform(0.5, 3, 3, 4), auto_broadcast="numpy")
        found += calls(name, opset, normal(2, 3, 4), uniform(0.5, 3, 2, 3), auto_broadcast="pdpd")
        found += calls(name, opset, normal(2, 3), uniform(0.5, 3, 2, 3), auto_broadcast="none")
        for a, b in EXTREME:
            found += calls(name, opset, a, b)
    for a, b in (*EXTREME, (ints(-9, -8, -7), ints(4, 4, 4)), (ints(9, 8, -7), one(2))):
        found += calls("Divide", 1, a, b, m_pythondiv=False)
    for (name, opset), (a, b) in itertools.product(LOGICAL, SHAPES):
        found += calls(name, opset, flags(*a), flags(*b))
    for (name, opset), (a, b) in itertools.product([*BITS, *SHIFTS], SHAPES):
        found += calls(name, opset, whole(0, 99, *a, dtype=np.int32), whole(0, 5, *b, dtype=np.int32))
    for name, opset in BITS:
        found += calls(name, opset, flags(3), flags(2, 1))
    for name, opset in SHIFTS:
        found += calls(name, opset, ints(-7, 9, 2**40), ints(1, 3, 2))
        found += calls(name, opset, ints(I64.min, I64.max), ints(1, 0))
        found += calls(name, opset, ints(7, 9, dtype=np.uint64), ints(2, 1, dtype=np.uint64))
    return found


UNARY = {
    1: [
        "Abs",
        "Negative",
        "Sign",
        "Ceiling",
        "Floor",
        "Sqrt",
        "Exp",
        "Log",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Tanh",
        "Erf",
        "Sigmoid",
        "ReLU",
    ],
    2: ["Gelu"],
    4: ["Asinh", "Acosh", "Atanh", "SoftPlus", "Mish", "HSwish"],
    5: ["Round", "HSigmoid"],
    7: ["Gelu"],
    9: ["SoftSign"],
    10: ["IsNaN", "IsFinite", "IsInf"],
    17: ["ErfInv"],
}


BOUNDED = frozenset({"Erf", "HSigmoid", "HSwish", "Mish", "Sigmoid", "SoftPlus", "SoftSign", "Swish", "Tanh"})
"""Operations whose results end, or become straight lines, beyond values of about 3."""


def _unary() -> list[Call]:
    found = []
    for opset, names in UNARY.items():
        for name, shape in itertools.product(names, [(), (2, 3), (0, 1, 4)]):
            found += calls(name, opset, uniform(-1, 1, *shape))
        for name in filter(BOUNDED.__contains__, names):
            found += calls(name, opset, np.linspace(-8, 8, 17, dtype=np.float32))
    for name in ("Abs", "Negative", "Sign", "ReLU", "Sqrt"):
        found += calls(name, 1, ints(-3, 4, 0))
    found += calls("LogicalNot", 1, flags(2, 3)) + calls("LogicalNot", 1, flags())
    found += calls("BitwiseNot", 13, ints(1, -2)) + calls("BitwiseNot", 13, flags(4))
    found += calls("Round", 5, normal(5), mode="half_away_from_zero") + calls("Round", 5, ints(3, -4))
    found += calls("Gelu", 7, normal(5), approximation_mode="TANH")
    found += calls("IsInf", 10, np.array([np.inf, -np.inf, 1], np.float32), detect_negative=False)
    found += calls("IsInf", 10, np.array([np.inf, -np.inf, 1], np.float32), detect_positive=False)
    found += calls("Elu", 1, normal(2, 3), alpha=0.7) + calls("Elu", 1, normal(), alpha=0.7)
    for values in (
        normal(2, 3),
        ints(-5, 3, 90),
        ints(0, 250, dtype=np.uint8),
        ints(I64.min, I64.max),
        whole(-9, 9, 0),
    ):
        found += calls("Clamp", 1, values, min=-1.5, max=4.5)
        found += calls("Clamp", 1, values, min=0.0, max=float("inf"))
        found += calls("Clamp", 1, values, min=float("-inf"), max=7.0)
    return found


def _activations() -> list[Call]:
    found = []
    for parameter in ((), (1,)):
        found += calls("Selu", 1, normal(2, 3), uniform(1, 2, *parameter), uniform(1, 2, *parameter))
        found += calls("HardSigmoid", 1, normal(2, 3), uniform(0, 1, *parameter), uniform(0, 1, *parameter))
        found += calls("Swish", 4, normal(2, 3), uniform(0, 1, *parameter))
    found += calls("Swish", 4, normal(2, 3))
    for x, slope in [
        ((2, 3, 4), (3,)),
        ((2, 3, 4), (4,)),
        ((2, 3, 4), (3, 1)),
        ((5,), (5,)),
        ((2, 4, 4), (4,)),
        ((2,), ()),
    ]:
        found += calls("PReLU", 1, normal(*x), normal(*slope))
    found += calls("SoftMax", 1, normal(2, 3, 4), axis=1) + calls("SoftMax", 1, normal(2, 3))
    for name, opset, axis in itertools.product(("SoftMax", "LogSoftmax"), (8, 5), (-1, 0, 1)):
        if (name, opset) in (("SoftMax", 8), ("LogSoftmax", 5)):
            found += calls(name, opset, normal(2, 3, 4), axis=axis) + calls(name, opset, normal(0, 2), axis=axis)
    return found


def _types() -> list[Call]:
    found = []
    values = [
        *(ints(3, -4), ints(2**33, 5), ints(I64.max, I64.min), ints(-1, 2, dtype=np.int32), normal(2, 3), flags(3)),
        *(ints(U64.max, 1, dtype=np.uint64), ints(7, 250, dtype=np.uint8), ints(2**40, 2**31), ints(2**32, 9), one(-3)),
    ]
    for value, kind in itertools.product(
        values, ("i64", "i32", "u32", "u64", "i8", "u8", "f32", "f16", "boolean", "i4")
    ):
        found += calls("Convert", 1, value, destination_type=kind)
    for value in values:
        found += calls("ConvertLike", 1, value, normal(2)) + calls("ConvertLike", 1, value, ints(1, dtype=np.int32))
    promote = [
        *((normal(2), normal(3, dtype=np.float16)), (ints(1, 2), ints(3, dtype=np.int32)), (flags(2), ints(4))),
        *((normal(2), one(3, np.int8)), (ints(2, dtype=np.uint8), ints(3, dtype=np.int8))),
    ]
    for a, b in promote:
        found += calls("ConvertPromoteTypes", 14, a, b, promote_unsafe=True)
        found += calls("ConvertPromoteTypes", 14, a, b, promote_unsafe=True, pytorch_scalar_promotion=True)
    found += calls("ConvertPromoteTypes", 14, ints(2, dtype=np.uint64), ints(3), promote_unsafe=True)
    for condition, a, b in [((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (2,), (2,)), ((2, 1), (4,), (1,))]:
        found += calls("Select", 1, flags(*condition), whole(-9, 9, *a), whole(0, 9, *b))
        found += calls("Select", 1, flags(*condition), normal(*a), normal(*b))
    found += calls("Select", 1, flags(2, 3), ints(3, 5).reshape(2, 1), ints(3), auto_broadcast="numpy")
    found += calls("Select", 1, flags(3), ints(3, 5, 6), ints(3, 9, 6), auto_broadcast="none")
    found += calls("Select", 1, flags(2), whole(0, 9, 2, 3), whole(0, 9, 2), auto_broadcast="pdpd")
    limits = [uniform(-2, -1), uniform(1, 2), uniform(-2, -1), uniform(1, 2)]
    wide = [uniform(-2, -1, 3, 1), uniform(1, 2, 3, 1), uniform(-2, -1), uniform(1, 2, 1)]
    found += calls("FakeQuantize", 1, normal(2, 3, 4), *limits, levels=256)
    found += calls("FakeQuantize", 1, normal(2, 3, 4), *wide, levels=255)
    found += calls("FakeQuantize", 1, normal(2, 3), *[normal(2, 3)] * 4, levels=16, auto_broadcast="none")
    found += calls("FakeQuantize", 1, normal(2, 3), *[normal(2)] * 4, levels=16, auto_broadcast="pdpd")
    # Zero is a level of each channel, so that a scale and a zero point express the limits.
    for shape in ((3, 1, 1), (3, 1), (3,)):
        step, zero = np.array([0.01, 0.02, 0.05]).reshape(shape), np.array([3, 100, 128]).reshape(shape)
        grid = [(-zero * step).astype(np.float32), ((255 - zero) * step).astype(np.float32)] * 2
        found += calls("FakeQuantize", 1, normal(3, 3, 3), *grid, fixed=(1, 2, 3, 4), levels=256)
    for kind in ("f8e4m3", "f8e5m2"):
        found += calls("FakeConvert", 13, normal(2, 3), uniform(0.5, 2, 3), destination_type=kind)
        found += calls("FakeConvert", 13, normal(2, 3), uniform(0.5, 2), normal(2, 1), destination_type=kind)
    return found


CALLS = [*_binary(), *_unary(), *_activations(), *_types()]
