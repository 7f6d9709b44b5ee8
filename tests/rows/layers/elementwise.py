"""What works element by element: arithmetic, comparisons, functions and activations."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from tests.rows.layer import flags, ints, layers, normal, one, uniform, whole
from tests.rows.row import Tolerance, each

I32, U32, I64, U64 = (np.iinfo(kind) for kind in ("int32", "uint32", "int64", "uint64"))
SHAPES = [((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 3), (1, 3)), ((1,), (0,)), ((5, 1), ())]
ARITHMETIC = (
    *("Add", "Subtract", "Multiply", "Maximum", "Minimum", "Divide", "Mod", "FloorMod", "SquaredDifference", "Power"),
)
COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
NUMBERS = each(*ARITHMETIC, *COMPARISONS)
NOT_DIVIDE = each(*(name for name in (*ARITHMETIC, *COMPARISONS) if name != "Divide"))
BITS, SHIFTS = each("BitwiseAnd", "BitwiseOr", "BitwiseXor"), each("BitwiseLeftShift", "BitwiseRightShift")
# Whole numbers near the ends of their types.
WRAPS = [
    (ints(I32.max, I32.min, -7, dtype=np.int32), ints(2, 3, 5, dtype=np.int32)),
    (ints(U32.max, 3, dtype=np.uint32), ints(9, 9, dtype=np.uint32)),
    (ints(U64.max, 2**63, 4, dtype=np.uint64), ints(3, 2, 5, dtype=np.uint64)),
    (ints(I64.max, I64.min, 2**41), ints(3, 2, 2**40)),
    (ints(I64.max, I64.max - 1), ints(1, 1)),
    (ints(I64.min, -(2**45)), ints(-1, -1)),
    (ints(200, 100, dtype=np.uint8), ints(100, 3, dtype=np.uint8)),
]
SMALL = [(ints(1, 5, 9, dtype=np.uint32), ints(2, 3, 4, dtype=np.uint32)), (ints(0, 3, 12), one(4))]
SIGNED = (ints(-7, 7, -8, 8, -1), ints(2, -2, -2, 2, 3))
UNARY = {
    1: ("Abs", "Negative", "Sign", "Ceiling", "Floor", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos",
        "Atan",
        "Sinh", "Cosh", "Tanh", "Erf", "Sigmoid", "ReLU"),
    2: ("Gelu",),
    4: ("Asinh", "Acosh", "Atanh", "SoftPlus", "Mish", "HSwish"),
    5: ("Round", "HSigmoid"),
    7: ("Gelu",),
    9: ("SoftSign",),
    10: ("IsNaN", "IsFinite", "IsInf"),
    17: ("ErfInv",),
}  # fmt: skip
BOUNDED = frozenset({"Erf", "HSigmoid", "HSwish", "Mish", "Sigmoid", "SoftPlus", "SoftSign", "Swish", "Tanh"})
"""Operations whose results end, or become straight lines, beyond values of about 3."""
A = np.array([[-2.5, -1.0, 0.0], [0.25, 1.0, 3.75]], np.float32)
POSITIVE = np.array([[0.5, 1.0, 2.5], [0.25, 1.0, 3.75]], np.float32)
FAR = np.array([[-90.0, -3.5, -1.0, -0.0], [0.25, 1.0, 3.75, 90.0]], np.float32)
HALVES = np.array([-2.5, -1.5, -0.5, 0.4, 0.5, 1.5, 2.5, 2.7], np.float32)
SPECIAL = np.array([1, np.nan, np.inf, -np.inf], np.float32)
# Without the ends, of which the plug-in makes the greatest float32 or infinity, by the tensor's size.
PARTS = np.array([[-0.99999, -0.9, -0.3, -1e-6, 0], [1e-30, 0.5, 0.85, 0.86, 1.5]], np.float32)
ERF = np.concatenate([np.linspace(-5, 5, 401), [0.0, 1e-30, 30.0]]).astype(np.float32)
VALUES = (ints(-5, 3, 90), ints(0, 250, dtype=np.uint8), whole(-9, 9, 0))

ROWS = [
    *(row for a, b in SHAPES for row in layers(NUMBERS, 1, uniform(0.5, 4, *a), uniform(0.5, 4, *b))),
    *(row for a, b in SHAPES for row in layers(NOT_DIVIDE, 1, whole(-9, 9, *a), whole(1, 5, *b))),
    *(row for a, b in SHAPES for row in layers("Divide", 1, whole(0, 9, *a), whole(1, 5, *b))),
    *layers(NUMBERS, 1, normal(2, 3, 4), uniform(0.5, 3, 3, 4), auto_broadcast="numpy"),
    *layers(NUMBERS, 1, normal(2, 3, 4), uniform(0.5, 3, 2, 3), auto_broadcast="pdpd"),
    *layers(NUMBERS, 1, normal(2, 3), uniform(0.5, 3, 2, 3), auto_broadcast="none"),
    *(row for a, b in SMALL for row in layers(NUMBERS, 1, a, b)),
    *(row for a, b in SMALL for row in layers("Divide", 1, a, b, m_pythondiv=False)),
    *(row for a, b in WRAPS for row in layers(NUMBERS, 1, a, b, note=" wraps")),
    *(row for a, b in WRAPS for row in layers("Divide", 1, a, b, m_pythondiv=False, note=" wraps")),
    *layers(NOT_DIVIDE, 1, *SIGNED),
    *layers("Divide", 1, *SIGNED, note=" rounds down", expect=ints(-4, -4, 4, 4, -1)),
    *layers("Divide", 1, *SIGNED, m_pythondiv=False, expect=ints(-3, -3, 4, 4, 0)),
    *layers("Divide", 1, ints(9, -8, -7), one(2), m_pythondiv=False, expect=ints(4, -4, -3)),
    *(row for shape in ((), (2,), (2, 1), (2, 2)) for row in layers(
        "Add", 1, normal(2, 2, 3), normal(*shape), auto_broadcast="pdpd",
        expect=lambda a, b: a + b.reshape(b.shape + (1,) * (3 - b.ndim)))),
    *layers("Mod", 1, A, np.array([1.5, -2.0, 0.5], np.float32)),
    *layers("FloorMod", 1, A, np.array([1.5, -2.0, 0.5], np.float32)),
    *layers("Mod", 1, ints(-7, 0, 5, dtype=np.int32), ints(2, 3, 4, dtype=np.int32)),
    *(row for (name, opset), (a, b) in product(
        [("LogicalAnd", 1), ("LogicalOr", 1), ("LogicalXor", 2), ("Xor", 1)], SHAPES)
      for row in layers(name, opset, flags(*a), flags(*b))),
    *(row for names, opset in ((BITS, 13), (SHIFTS, 15)) for a, b in SHAPES
      for row in layers(names, opset, whole(0, 99, *a, dtype=np.int32), whole(0, 5, *b, dtype=np.int32))),
    *layers(BITS, 13, ints(-7, 0, 5, dtype=np.int32), ints(2, 3, 4, dtype=np.int32)),
    *layers(BITS, 13, flags(3), flags(2, 1)),
    *layers(SHIFTS, 15, ints(-7, 9, 2**40), ints(1, 3, 2), note=" wraps"),
    *layers(SHIFTS, 15, ints(I64.min, I64.max), ints(1, 0), note=" wraps"),
    *layers(SHIFTS, 15, ints(7, 9, dtype=np.uint64), ints(2, 1, dtype=np.uint64)),
    # Functions of one value.
    *(row for opset, names in UNARY.items() for shape in ((), (2, 3), (0, 1, 4))
      for row in layers(each(*names), opset, uniform(-1, 1, *shape))),
    *(row for opset, names in UNARY.items() for name in filter(BOUNDED.__contains__, names)
      for row in layers(name, opset, np.linspace(-8, 8, 17, dtype=np.float32))),
    *layers(each("Abs", "Negative", "Sign", "ReLU"), 1, ints(-3, 4, 0)),
    *layers("Sqrt", 1, ints(-3, 4, 0)),
    *layers(each("Abs", "Negative"), 1, ints(-7, 0, 5, dtype=np.int32)),
    *layers(each("Abs", "Negative", "Sign", "Ceiling", "Floor", "Exp", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Tanh"),
            1, A),
    *layers(each("Sqrt", "Log"), 1, POSITIVE),
    *layers("Asinh", 4, A),
    *layers("Acosh", 4, POSITIVE + np.float32(1)),
    *layers("Erf", 1, ERF, expect=np.array([math.erf(x) for x in ERF], np.float32), tolerance=Tolerance(1e-6, 1e-6)),
    *(row for opset, names in {1: ("ReLU", "Sigmoid"), 4: ("Mish", "HSwish", "SoftPlus"), 5: ("HSigmoid",),
                               9: ("SoftSign",)}.items()
      for row in layers(each(*names), opset, each(FAR, FAR.astype(np.float16)), note=" far")),
    *layers("ErfInv", 17, each(*(PARTS.astype(kind) for kind in ("float32", "float16", "float64"))),
            tolerance=Tolerance(1e-3, 1e-8)),  # the plug-in has an approximation of three to four digits
    *layers("LogicalNot", 1, each(flags(2, 3), flags())),
    *layers("BitwiseNot", 13, each(ints(1, -2), flags(4))),
    *layers("Round", 5, each(HALVES, normal(5)), mode=each("half_to_even", "half_away_from_zero")),
    *layers("Round", 5, ints(3, -4)),
    *layers("Gelu", 7, each(normal(5), FAR), approximation_mode=each("TANH", "ERF")),
    *layers("Gelu", 2, FAR),
    *layers(each("IsNaN", "IsFinite"), 10, SPECIAL),
    *layers("IsInf", 10, SPECIAL, detect_negative=each(True, False), detect_positive=each(True, False)),
    *layers("Elu", 1, each(normal(2, 3), normal(), FAR), alpha=each(0.7, 1.0)),
    *(row for low, high in ((-1.5, 4.5), (0.0, math.inf), (-math.inf, 7.0), (0.0, 6.0))
      for row in layers("Clamp", 1, each(normal(2, 3), FAR, *VALUES), min=low, max=high)),
    *layers("Clamp", 1, ints(I64.min, I64.max), min=each(-1.5, -math.inf), max=each(4.5, math.inf), note=" wraps"),
    # Activations with parameters.
    *(row for shape in ((), (1,)) for row in layers("Selu", 1, normal(2, 3), uniform(1, 2, *shape), uniform(1, 2,
        *shape))),
    *(row for shape in ((), (1,)) for row in layers(
        "HardSigmoid", 1, normal(2, 3), uniform(0, 1, *shape), uniform(0, 1, *shape))),
    *layers(each("HardSigmoid", "Selu"), 1, FAR, one(0.3, np.float32), one(0.6, np.float32), fixed=(1, 2)),
    *layers("Swish", 4, normal(2, 3), each(uniform(0, 1), uniform(0, 1, 1))),
    *layers("Swish", 4, FAR, one(0.3, np.float32)),
    *layers("Swish", 4, each(normal(2, 3), FAR)),
    *(row for shape, slope in (
        ((2, 3, 4), (3,)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((5,), (5,)), ((2, 4, 4), (4,)), ((2,), ()),
        ((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (3,)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((2, 3), (3,)), ((2, 3, 3), (3,)),
        ((2, 3, 5), (5,)), ((2, 3, 4, 5), (5,)),
    ) for row in layers("PReLU", 1, normal(*shape), normal(*slope), dims={0: (None, *shape[1:])})),
    *layers("SoftMax", 1, normal(2, 3, 4), axis=each(0, 1, 2)),
    *layers("SoftMax", 1, normal(2, 3)),
    *(row for name, opset in (("SoftMax", 8), ("LogSoftmax", 5))
      for data in (normal(2, 3, 4), normal(0, 2), uniform(-15, 15, 3, 4, 5))
      for row in layers(name, opset, data, axis=each(-1, 0, 1))),
]  # fmt: skip
