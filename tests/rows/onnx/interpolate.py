"""Resize and Upsample, against onnxruntime or onnx's evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.rows.row import COARSE, REFERENCE, Tolerance, const, each, graphs, rows

RNG = np.random.default_rng(13)
WEIGHTED = Tolerance(1e-3, 1e-5)


def image(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (10 * RNG.standard_normal(shape)).astype(dtype)


def integers(low: int, high: int, *shape: int, dtype: Any) -> np.ndarray:
    """Numbers without values at a rounding tie, where each engine's sum of the weights decides."""
    return np.random.default_rng(10).integers(low, high, shape).astype(dtype)


def to(scales: Any = None, sizes: Any = None, roi: Any = None, opset: int = 13, **attributes: Any) -> dict[str, Any]:
    """Return the initializers, of which opset 11 needs the first two, and attributes."""
    values = {"roi": roi, "scales": scales, "sizes": sizes}
    if opset == 11:
        values |= {"roi": roi or [], "scales": scales or []}
    found: dict[str, Any] = {"roi": None, "scales": None} if sizes else {"roi": None}
    for name, value in values.items():
        if value is not None:
            found[name] = const(value, np.int64 if name == "sizes" else np.float32)
    return {**found, **attributes}


def doubled(x: np.ndarray) -> np.ndarray:
    return x.repeat(2, 2).repeat(3, 3)


X = image(1, 2, 6, 7)
SMALL = np.abs(image(1, 2, 3, 4))
TYPES = {"types": ("f2", ml_dtypes.bfloat16, "f8", "i1", "u1", "i2", "u2", "i4", "?"), "wide": ("u4", "i8", "u8")}
COORDINATES = each("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
MODES = each("nearest", "linear", "cubic")
SCALES = ([1, 1, 2, 3], [1, 1, 0.6, 1.7])
CROP = "tf_crop_and_resize"
REGION = [0, 0, 0.4, -0.2, 1, 1, 0.9, 0.7]
FLOOR = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
BEYOND_INTERPOLATE = (
    to([1, 1, 0.7, 1.3], coordinate_transformation_mode="half_pixel_symmetric"),
    to(sizes=[9, 8], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    to(sizes=[4, 9], axes=[3, 2], keep_aspect_ratio_policy="not_smaller"),
    to(sizes=[1, 2, 4, 5], roi=REGION, coordinate_transformation_mode=CROP, extrapolation_value=9.0),
    to(sizes=[1, 2, 3, 9]),
    to([1, 1, 1.5, 0.6]),
    to([1, 1, 0.6, 1.7], antialias=1),
    to(sizes=[1, 2, 3, 9], antialias=1),
    to(sizes=[1, 2, 3, 9], antialias=1, exclude_outside=1),
    to([1, 1, 1.5, 0.6], exclude_outside=1),
)
"""The last four mean nothing for the nearest element."""
PYTORCH = """g (float[n,c,h,w] x, int64[2] target) => (float[p,q,r,s] y) {
    shape = Shape (x)  front = Slice (shape, zero, two, zero)  sizes = Concat <axis = 0> (front, target)
    y = Resize <mode = "cubic"> (x, , , sizes)
}"""
ROWS = [
    *rows("Resize", 13, x=X, mode="nearest", coordinate_transformation_mode=COORDINATES, also=each(*map(to, SCALES)),
          nearest_mode=each("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    *rows("Resize", 13, x=image(2, 3, 6, 7), mode=each("linear", "cubic"), coordinate_transformation_mode=COORDINATES,
          also=each(*map(to, SCALES), to(sizes=[2, 3, 5, 9])), tolerance=COARSE),
    *(row for opset in (11, 13, 18, 19) for row in rows(
        "Resize", opset, x=X, mode="linear", tolerance=WEIGHTED,
        also=each(to([1, 1, 2, 0.5], opset=opset), to(sizes=[1, 2, 9, 4], opset=opset)))),
    *rows("Resize", 11, x=X, coordinate_transformation_mode="tf_half_pixel_for_nn",
          also=each(to([1, 1, 0.5, 2], opset=11))),
    *rows("Resize", 10, x=X, scales=const(each([1, 1, 2, 2], [1, 1, 0.5, 0.6], [1, 1, 1, 1]), np.float32),
          mode=each("nearest", "linear"), tolerance=WEIGHTED),
    *rows("Upsample", 7, x=SMALL, mode=each("nearest", "linear"), scales=[1.0, 1.0, 2.0, 1.5], tolerance=WEIGHTED),
    *rows("Upsample", 9, x=SMALL, mode=each("nearest", "linear"), scales=const([1, 1, 2, 1.5], np.float32),
          tolerance=WEIGHTED),
    *rows("Upsample", 1, x=SMALL, height_scale=2.0, width_scale=3.0, mode="nearest", expect=doubled),
    *rows("Resize", 13, label="by_inputs", mode=MODES, tolerance=COARSE, also=each(
        {"x": X, "roi": None, "scales": np.array([1, 1, 1.5, 0.6], np.float32)},
        {"x": X, "roi": None, "scales": None, "sizes": np.array([1, 2, 9, 4])})),
    *graphs(PYTORCH, label="sizes_of_the_input", opset=13, x=image(2, 3, 6, 7), target=np.array([9, 4]),
            zero=const([0]), two=const([2]), tolerance=COARSE,
            layers=["ShapeOf-3", "Gather-8", "Concat-1", "Gather-8", "Interpolate-11"]),
    *(row for rank, scales in ((1, [2]), (2, [1.5, 2]), (3, [1, 1, 2]), (5, [1, 1, 1, 1.5, 2])) for row in rows(
        "Resize", 19, label="ranks", x=image(*[1, 2, 4, 5, 3][-rank:]), mode=MODES, also=each(to(scales)),
        expect=REFERENCE, tolerance=COARSE)),
    *(row for label, dtypes in TYPES.items() for row in rows(
        "Resize", 13, label=label, x=each(*map(SMALL.astype, dtypes)), **to(SCALES[0]), **FLOOR, expect=doubled)),
    *rows("Resize", 13, label="strings", x=np.array([["a", "b"], ["c", "d"]], object), **to([1, 2]), **FLOOR,
          expect=lambda x: x.repeat(2, 1)),
    # Dyadic weights: no engine's sum of them may fall just below a whole number, which loses its fraction.
    *rows("Resize", 13, label="integers", x=each(*map(SMALL.astype, ("i1", "u1", "i4"))), **to([1, 1, 2, 4]),
          mode="linear", coordinate_transformation_mode="asymmetric"),
    *(row for mode, scales in (("cubic", [1, 1, 0.63, 1.7]), ("cubic", [1, 1, 0.6, 0.37]), ("linear", [1, 1, 1, 0.37]),
                               ("linear", [0.37, 0.71]))
      for row in rows("Resize", 18, label="antialiased_integers", x=each(
          *(integers(*limits, *(1, 2, 11, 9)[-len(scales):], dtype=dtype)
            for dtype, *limits in (("u1", 0, 256), ("i4", -1000, 1000)))), mode=mode, antialias=1, **to(scales))),
    # onnxruntime has no kernel for them, or limits int8 to 0 and more: onnx's evaluator rounds and saturates.
    *(row for dtype, low, high, options in (
        ("i1", -128, 128, {"mode": "linear", "antialias": 1}), ("i1", -128, 128, {"mode": "cubic", "antialias": 1}),
        ("i2", -1000, 1001, {"mode": "linear"}), ("i8", -1000, 1001, {"mode": "linear", "antialias": 1}),
        ("u2", 0, 1001, {"mode": "cubic"}), ("u1", 0, 256, {"mode": "cubic"}),
        ("i1", -128, 128, {"mode": "cubic", "exclude_outside": 1}), ("i4", -1000, 1001, {"mode": "cubic"}))
      for row in rows("Resize", 18, label="rounded", x=integers(low, high, 1, 2, 11, 9, dtype=dtype),
                      **to([1, 1, 0.63, 1.7]), **options, expect=REFERENCE)),
    *rows("Resize", 18, label="antialias", x=X, mode=each("linear", "cubic"), antialias=1, exclude_outside=each(0, 1),
          also=each(to([1, 1, 0.6, 0.4]), to(sizes=[1, 2, 3, 9]), to(sizes=[1, 2, 2, 5])), expect=REFERENCE,
          tolerance=COARSE),
    *rows("Resize", 13, label="exclude_outside", x=X, mode="cubic", exclude_outside=1, cubic_coeff_a=each(-0.75, -0.5),
          also=each(to([1, 1, 0.6, 0.4]), to([1, 1, 2, 1.7])), tolerance=COARSE),
    *rows("Resize", 13, label="crop", x=X, mode=MODES, coordinate_transformation_mode=CROP, extrapolation_value=9.0,
          also=each(*(to(roi=roi, **target) for target in ({"sizes": [1, 2, 4, 5]}, {"scales": [1, 1, 0.8, 1.3]})
                      for roi in ([0, 0, 0.4, 0.2, 1, 1, 0.9, 0.7], [0, 0, -0.2, 0.3, 1, 1, 0.7, 1.4]))),
          tolerance=COARSE),
    # One element lies in the middle of the region.
    *rows("Resize", 13, label="beyond_one_element", x=X, mode=each("nearest", "linear"), tolerance=COARSE,
          coordinate_transformation_mode=CROP, **to(sizes=[1, 2, 1, 5], roi=[0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7])),
    *rows("Resize", 18, label="aspect_ratio", x=X, keep_aspect_ratio_policy=each("not_larger", "not_smaller"),
          axes=[2, 3], mode=each("nearest", "linear"), also=each(*(to(sizes=s) for s in ([9, 8], [4, 9], [3, 2]))),
          expect=REFERENCE, tolerance=COARSE),
    *(row for axes in ([2, 3], [3, 2], [-1], [-2, -1], [1, 3]) for row in rows(
        "Resize", 18, label="axes", x=X, axes=axes, mode="nearest", **to([1.5, 2.0][:len(axes)]))),
    # Where scales leave no fraction of an element it is half_pixel, which Interpolate has.
    *(row for scales, layers in ((SCALES[0], ["Interpolate-11"]), (SCALES[1], None), ([1.5, 1.5, 0.6, 1.7], None))
      for row in rows("Resize", 19, label="symmetric", x=X, mode="linear", **to(scales), layers=layers,
                      expect=REFERENCE, coordinate_transformation_mode="half_pixel_symmetric", tolerance=COARSE)),
    *(row for mode in MODES.values for options in BEYOND_INTERPOLATE[:6 if mode == "nearest" else None]
      for row in rows("Resize", 19, label="beyond", x=X, mode=mode, **options, expect=REFERENCE,
                      tolerance=COARSE)),
    *rows("Resize", 13, x=X, refused="either scales or sizes"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2], [1, 2, 3, 4]), refused="either scales or sizes"),
    *rows("Resize", 13, x=X, **to([2, 2]), refused="were given for 4 dimensions"),
    *rows("Resize", 13, x=X, **to([1, 1, -2, 2]), refused="must be positive"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2]), mode="area", refused="mode must be one of"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2]), coordinate_transformation_mode=CROP, refused="needs a region"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2], roi=[0, 0, 1, 1]), coordinate_transformation_mode=CROP,
          refused="4 numbers for 4 dimensions"),
]  # fmt: skip
