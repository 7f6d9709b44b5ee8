"""Elementwise operations and activations; interpolation, patches and colours of images."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.rows.layer import Layer, flags, ints, layers, normal, one, uniform, whole
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

# --- images ---

DATA = normal(2, 3, 4, 6)
IMAGE = normal(1, 2, 6, 7)
BYTES = np.random.default_rng(5).integers(0, 256, (2, 3, 4, 6)).astype(np.uint8)
WHOLE_SCALES = np.array([1, 1, 2, 0.5], np.float32)
PADS: dict[str, Any] = {"pads_begin": (0, 0, 1, 0), "pads_end": (0, 0, 0, 2)}
COORDINATES = each("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
ROUNDINGS = each("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
SIZES = each(ints(3, 4), ints(11, 9), ints(1, 14))
SPATIAL = ints(2, 3)
NEAR = Tolerance(1e-3, 1e-4)
BLOCKS: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}


def with_infinity(*position: int) -> np.ndarray:
    x = np.random.default_rng(9).standard_normal((1, 2, 6, 7)).astype(np.float32)
    x[(0, 1, *position)] = np.inf
    return x


def resized(mode: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> list[Layer]:
    wanted, along = ints(*sizes), ints(*axes)
    scales = np.array([1.5, 0.7][: len(sizes)], np.float32)
    return [
        *layers("Interpolate", 4, DATA, wanted, scales, along, fixed=(2,), mode=mode, **PADS),
        *layers("Interpolate", 4, DATA, wanted, scales, along, fixed=(2,), mode=mode, shape_calculation_mode="scales"),
        *layers("Interpolate", 11, DATA, wanted, along, mode=mode, **PADS),
        *layers("Interpolate", 11, DATA, scales, along, fixed=(1,), mode=mode, shape_calculation_mode="scales", **PADS),
        *layers("Interpolate", 1, DATA, wanted, mode=mode, axes=axes),
    ]


def nv12(image: np.ndarray, bgr: bool, single: bool) -> list[np.ndarray]:
    """Pixel by pixel, from red, green and blue in float64."""
    whole, (batch, height, width, _) = image.dtype == np.uint8, image.shape
    bright, pairs = np.zeros((batch, height, width, 1)), np.zeros((batch, height // 2, width // 2, 2))
    for n, i, j in np.ndindex(batch, height, width):
        r, g, b = image[n, i, j, :: -1 if bgr else 1].astype(np.float64)
        y = 16 + 0.257 * r + 0.504 * g + 0.098 * b
        u = 128 - 0.148 * r - 0.291 * g + 0.439 * b
        v = 128 + 0.439 * r - 0.368 * g - 0.071 * b
        y, u, v = (np.floor(value + 0.5) if whole else value for value in (y, u, v))
        bright[n, i, j] = y
        pairs[n, i // 2, j // 2] += [u / 4, v / 4]
    planes = [bright, np.floor(pairs + 0.5) if whole else pairs]
    made = [np.concatenate([bright, planes[1].reshape(batch, height // 2, width, 1)], 1)] if single else planes
    return [plane.astype(image.dtype) for plane in made]


def colours(name: str, kind: Any) -> list[Layer]:
    near = Tolerance(1e-4, 0.13 if kind is np.float16 else 1e-3)  # sums in another order than the plug-in's
    bright = uniform(0, 255, 2, 4, 6, 1, dtype=kind)
    planes = {"NV12": [uniform(0, 255, 2, 2, 3, 2, dtype=kind)], "I420": [uniform(0, 255, 2, 2, 3, 1, dtype=kind)] * 2}
    pixels = uniform(0, 255, 2, 4, 6, 3, dtype=kind)
    return [
        *(row for source, others in planes.items() for row in [
            *layers(f"{source}to{name}", 8, uniform(0, 255, 2, 6, 6, 1, dtype=kind), tolerance=near),
            *layers(f"{source}to{name}", 8, bright, *others, tolerance=near),
        ]),
        *(row for single in (True, False) for row in layers(
            f"{name}toNV12", 17, pixels, single_plane=single, tolerance=Tolerance(1e-5, 1e-5),
            expect=lambda image, single=single: nv12(image, name == "BGR", single))),
    ]  # fmt: skip


ROWS += [
    *(row for mode, (sizes, axes) in product(("nearest", "linear", "cubic"), [((8, 3), (2, 3)), ((5,), (3,))])
      for row in resized(mode, sizes, axes)),
    *layers("Interpolate", 11, DATA, ints(5, 2), ints(-1, -2)),
    *layers("Interpolate", 4, DATA, ints(5), np.array([0.9], np.float32), ints(-1), fixed=(2,)),
    *layers("Interpolate", 4, DATA, ints(2, 3, 8, 3), WHOLE_SCALES, fixed=(2,), shape_calculation_mode="scales"),
    *layers("Interpolate", 11, DATA, WHOLE_SCALES, fixed=(1,), shape_calculation_mode="scales", mode="linear_onnx"),
    *layers("Interpolate", 11, DATA, ints(2, 3, 8, 3), coordinate_transformation_mode="align_corners"),
    *layers("Interpolate", 11, DATA, ints(8, 3), SPATIAL, mode=each("bilinear_pillow", "bicubic_pillow")),
    *layers("Interpolate", 11, BYTES, ints(8, 3), SPATIAL, mode=each("bilinear_pillow", "bicubic_pillow"),
            cube_coeff=-0.5),
    *layers("Interpolate", 11, IMAGE, SIZES, SPATIAL, mode="nearest", coordinate_transformation_mode=COORDINATES,
            nearest_mode=ROUNDINGS, tolerance=NEAR),
    *layers("Interpolate", 11, IMAGE, SIZES, SPATIAL, mode=each("linear_onnx", "linear", "cubic"),
            coordinate_transformation_mode=COORDINATES, tolerance=NEAR),
    # Other positions have no part of an infinity, not even of weight 0.
    *(row for position in ((0, 0), (3, 2), (5, 6)) for row in layers(
        "Interpolate", 11, with_infinity(*position), ints(11, 15), SPATIAL, mode=each("linear_onnx", "cubic"),
        tolerance=NEAR, note=f" infinity at {position}")),
    *layers("Interpolate", 11, IMAGE,
            each(*(np.array(scales, np.float32) for scales in ((0.6, 1.7), (2, 2), (1, 0.34)))), SPATIAL, fixed=(1,),
            mode=each("nearest", "linear_onnx", "linear", "cubic"), shape_calculation_mode="scales", tolerance=NEAR),
    *layers("Interpolate", 11, IMAGE, each(ints(3, 4), ints(11, 9), ints(6, 14)), SPATIAL,
            mode=each("bilinear_pillow", "bicubic_pillow"), cube_coeff=-0.5, tolerance=NEAR),
    *layers("Interpolate", 11, IMAGE, ints(8, 9), SPATIAL, mode="linear_onnx", pads_begin=(0, 0, 1, 2),
            pads_end=(0, 0, 0, 1), tolerance=NEAR),
    *layers("Interpolate", 4, IMAGE, ints(9, 4), np.array([1.5, 0.6], np.float32), SPATIAL, fixed=(2,),
            mode=each("nearest", "linear_onnx", "cubic"), shape_calculation_mode=each("sizes", "scales"),
            tolerance=NEAR),
    *layers("Interpolate", 1, IMAGE, ints(9, 4), axes=(2, 3), mode=each("nearest", "linear", "cubic"),
            align_corners=each(False, True), pads_begin=(0,), pads_end=(0,), tolerance=NEAR),
    *layers("GridSample", 9, DATA, uniform(-1.2, 1.2, 2, 5, 7, 2), padding_mode="border"),
    *layers("GridSample", 9, DATA, uniform(-1.2, 1.2, 2, 5, 7, 2), align_corners=True, mode="bicubic"),
    *layers("Col2Im", 15, each(normal(2, 12, 12), normal(12, 12)), ints(4, 5), ints(2, 2), **BLOCKS),
    *layers("Col2Im", 15, normal(2, 6, 8), ints(4, 5), ints(2, 3), strides=(2, 1), dilations=(1, 1), pads_begin=(0, 0),
            pads_end=(0, 1)),
    *layers("ExtractImagePatches", 3, normal(2, 3, 6, 7), sizes=(2, 3), strides=(2, 1), rates=(1, 2),
            auto_pad=each("same_lower", "same_upper", "valid")),
    *(row for name, kind in product(("RGB", "BGR"), (np.uint8, np.float16, np.float32)) for row in colours(name, kind)),
]  # fmt: skip
