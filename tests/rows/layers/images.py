"""Interpolation, patches and colours of images."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.rows.layer import Layer, ints, layers, normal, uniform
from tests.rows.row import Tolerance, each

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


ROWS = [
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
