"""Resize, Upsample, grids and boxes, against onnxruntime or onnx's evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.engines import schema_types
from tests.rows.row import COARSE, REFERENCE, InOpset, Tolerance, const, each, graphs, rows

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
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2]), mode="area", refused="mode must be nearest"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2]), coordinate_transformation_mode=CROP, refused="needs a region"),
    *rows("Resize", 13, x=X, **to([1, 1, 2, 2], roi=[0, 0, 1, 1]), coordinate_transformation_mode=CROP,
          refused="4 numbers for 4 dimensions"),
]  # fmt: skip

# --- geometry ---

PLACED = np.random.default_rng(2)
FLAT = PLACED.standard_normal((2, 3, 5, 6)).astype(np.float32)
GRID = PLACED.uniform(-1.7, 1.7, (2, 7, 4, 2)).astype(np.float32)
GRID[0, 0] = [[-1, -1], [1, 1], [0, 0], [-1, 1]]
VOLUME = PLACED.standard_normal((2, 3, 4, 5, 6)).astype(np.float32)
PLACES = PLACED.uniform(-1.7, 1.7, (2, 3, 2, 4, 3)).astype(np.float32)

METHODS, PADDINGS, ALIGNED = each("linear", "nearest", "cubic"), each("zeros", "border", "reflection"), each(0, 1)
BOTH = ((FLAT, GRID), (VOLUME, PLACES))
OPEN_VOLUME = {"x": ["n", 3, "d", "h", "w"], "grid": ["n", "a", "b", "c", 3]}
THETA, THETA_5 = (PLACED.standard_normal(shape).astype(np.float32) for shape in ((2, 2, 3), (2, 3, 4)))
SINGULAR = np.array([[[1, 2, 3], [2, 4, 6], [1, 1, 1]], [[0, 1, 0], [0, 0, 3], [2, 0, 0]]], np.float32)
ROWS += [
    *rows("GridSample", 16, x=FLAT, grid=GRID, mode=each("bilinear", "nearest", "bicubic"), padding_mode=PADDINGS,
          align_corners=ALIGNED),
    *rows("GridSample", each(20, 22), x=FLAT, grid=GRID, mode=METHODS, padding_mode=PADDINGS, align_corners=ALIGNED),
    *rows("GridSample", each(16, 20), x=FLAT, grid=GRID, dims={"x": ["n", "c", "h", "w"], "grid": ["n", "a", "b", 2]}),
    # onnx's evaluator computes cubic samples of the border of volumes otherwise.
    *(row for paddings, modes in ((("zeros", "reflection"), ("linear", "nearest", "cubic")), (("border",), ("linear",
        "nearest"))) for row in rows("GridSample", 22, x=VOLUME, grid=PLACES, mode=each(*modes),
        padding_mode=each(*paddings), align_corners=ALIGNED, dims=each(None, OPEN_VOLUME))),
    *rows("GridSample", 20, x=FLAT[:, :, 0], grid=GRID[..., 0, :1], mode=METHODS, padding_mode=PADDINGS),
    *rows("GridSample", 22, x=VOLUME[:, :, :1, :, :1], grid=PLACES, padding_mode=PADDINGS, align_corners=ALIGNED),
    *(row for dtype in schema_types("GridSample", 22, "T1") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="data", x=each(np.abs(x * 50).astype(dtype)), grid=grid, mode="nearest",
        padding_mode="border")),
    *(row for dtype in schema_types("GridSample", 22, "T2") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="types", x=each(x.astype(dtype)), grid=grid.astype(dtype))),
    *(row for theta, size in ((THETA, [2, 3, 5, 6]), (THETA_5, [2, 3, 4, 5, 6]))
      for label, s in (("", const(size)), ("at_execution", np.array(size)))
      for row in rows("AffineGrid", 20, label=label, theta=theta, size=s, align_corners=ALIGNED)),
    *rows("Det", each(11, 22), also=each(*({"x": PLACED.standard_normal(shape).astype(np.float32),
          "dims": dims} for shape in ((0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4),
          (0, 3, 3)) for dims in (None, {"x": [*[None] * (len(shape) - 1), shape[-1]]})))),
    *rows("Det", 11, label="pivots_of_zero", x=SINGULAR),
    *rows("GridSample", 16, x=FLAT, grid=GRID, mode="linear", refused="mode must be bilinear"),
    *rows("GridSample", 20, x=FLAT, grid=GRID, mode="bilinear", refused="mode must be linear"),
    *rows("GridSample", 20, x=FLAT, grid=GRID, padding_mode="wrap", refused="padding_mode must be"),
    *rows("GridSample", 16, x=VOLUME, grid=PLACES, refused="four dimensions in opset 16"),
    *rows("GridSample", 20, x=FLAT, grid=GRID[..., :1], refused="two coordinates"),
    *rows("GridSample", 20, x=FLAT, grid=GRID[:1], refused="different batches"),
    *rows("GridSample", 20, x=FLAT.astype(np.int32), grid=GRID, refused="not defined"),
    *rows("AffineGrid", 20, theta=THETA, size=const([2, 3, 5]), refused="4 or 5 dimensions"),
    *rows("AffineGrid", 20, theta=THETA, size=const([2, 3, 4, 5, 6]), refused="theta must be"),
    *rows("Det", 11, x=each(SINGULAR[0, 0], SINGULAR[:, :2]), refused="must be square"),
    *rows("Det", 11, x=SINGULAR, dims={"x": [None] * 3}, refused="must be known while converting"),
]  # fmt: skip


def random_boxes(centered: int) -> np.ndarray:
    first, sides = PLACED.uniform(0, 10, (2, 30, 2)), PLACED.uniform(1, 6, (2, 30, 2))
    return np.concatenate([first, sides if centered else first + sides], -1).astype(np.float32)


BOXES = random_boxes(0)
SCORES = PLACED.uniform(-1, 1, (2, 3, 30)).astype(np.float32)
LIMIT, OVERLAP, LEAST = np.array([5]), np.array([0.4], np.float32), np.array([0.1], np.float32)
# A box whose overlap equals the threshold stays; corners come in any order.
CORNERS = np.array([[[0, 0, 2, 2], [2, 2, 0, 0], [0, 1, 2, 3], [0, 0, 2, 1], [2, 0, 0, 0.5], [0, 0, 2, 1.5],
                     [7, 7, 7, 7]]], np.float32)  # fmt: skip
FALLING = np.linspace(0.9, 0.1, 7)[None, None].astype(np.float32)
IMAGE = PLACED.standard_normal((2, 3, 9, 11)).astype(np.float32)
ROIS = np.array([[0, 0, 10, 8], [2, 1, 6, 7], [1.3, 2.2, 1.4, 2.3], [-3, -2, 4, 5], [5, 5, 20, 20], [8, 6, 3, 2],
                 [3, 3, 3, 3]], np.float32)  # fmt: skip
BATCHES = np.array([0, 1, 0, 1, 0, 1, 0])
NUMBERED = np.concatenate([BATCHES[:, None], ROIS], 1)
REGIONS: dict[str, Any] = {"x": IMAGE, "rois": ROIS, "batches": BATCHES}
OPEN: Any = {"x": ["n", None, "h", "w"], "rois": ["r", 4], "batches": ["r"]}
BINS = {"output_height": 3, "output_width": 4}
SELECTED: dict[str, Any] = {"boxes": BOXES, "scores": SCORES}
ROWS += [
    *(row for centered in (0, 1) for row in rows(
        "NonMaxSuppression", each(10, 11), label="selection", boxes=random_boxes(centered), scores=SCORES,
        center_point_box=centered, dims=each(None, {"boxes": ["n", "k", 4], "scores": ["n", "c", "k"]}), also=each(
            {"limit": LIMIT, "overlap": OVERLAP, "least": LEAST},
            {"limit": const(LIMIT), "overlap": const(OVERLAP), "least": const(LEAST)}))),
    *rows("NonMaxSuppression", 11, **SELECTED, limit=const(each(*map(np.atleast_1d, (
        0, 1, 30, 2**31 - 1, 2**31, 2**63 - 1)))), overlap=const(OVERLAP), least=const(LEAST)),
    *rows("NonMaxSuppression", 11, **SELECTED, also=each(
        {}, {"limit": const(LIMIT)}, {"limit": const(LIMIT), "overlap": const(OVERLAP)},
        {"limit": const(LIMIT), "overlap": None, "least": const(LEAST)},
        {"limit": None, "overlap": const(OVERLAP), "least": const(LEAST)})),
    *(row for wrap in (np.asarray, const) for row in rows(
        "NonMaxSuppression", 11, label="equal_overlap", boxes=CORNERS, scores=FALLING, limit=wrap(np.array([9])),
        overlap=each(*(wrap(np.array([v], np.float32)) for v in (0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0))))),
    *rows("NonMaxSuppression", 11, label="of_nothing", boxes=np.empty((1, 0, 4), np.float32),
          scores=np.empty((1, 2, 0), np.float32), limit=const(LIMIT)),
    *rows("NonMaxSuppression", 11, label="none", **SELECTED, limit=const(LIMIT), overlap=const(OVERLAP),
          least=const([2], np.float32)),
    *rows("NonMaxSuppression", 11, boxes=BOXES, scores=SCORES[:1], l=LIMIT, refused="number of batches"),
    *rows("NonMaxSuppression", 11, boxes=BOXES, scores=SCORES[..., :7], l=LIMIT, refused="number of boxes"),
    *rows("NonMaxSuppression", 11, boxes=BOXES[..., :3], scores=SCORES, l=LIMIT, refused="coordinates"),
    *rows("NonMaxSuppression", 11, boxes=BOXES[0], scores=SCORES, l=LIMIT, refused="must have 3 dimensions"),
    *rows("NonMaxSuppression", 11, **SELECTED, limit=np.array([1, 2]),
          refused="max_output_boxes_per_class must be a single number"),
    *rows("NonMaxSuppression", 11, **SELECTED, center_point_box=2, refused="center_point_box must be 0 or 1"),
    *rows("RoiAlign", each(10, 16), **REGIONS, **BINS, sampling_ratio=each(0, 1, 2), spatial_scale=each(1.0, 0.4),
          dims=each(None, OPEN)),
    *rows("RoiAlign", 16, **REGIONS, mode=each("avg", "max"), **BINS, sampling_ratio=each(1, 3),
          coordinate_transformation_mode=each("half_pixel", "output_half_pixel"), spatial_scale=each(1.0, 0.4)),
    *(row for dtype in schema_types("RoiAlign", 22, "T1") for opset in (10, 16, 22)
      if opset == 22 or dtype.name != "bfloat16" for row in rows(
          "RoiAlign", opset, label="types", x=IMAGE.astype(dtype), rois=ROIS[:5].round().astype(dtype),
          batches=BATCHES[:5], output_height=2, output_width=2, sampling_ratio=2, expect=InOpset(min(opset, 16)))),
    *rows("RoiAlign", 16, label="one_bin", **REGIONS),
    *(row for dtype in ("float32", "float64", "float16") for row in rows(
        "MaxRoiPool", each(1, 22), label="types", x=IMAGE.astype(dtype), rois=NUMBERED.astype(dtype), pooled_shape=[3, 4],
        dims=each(None, {"x": ["n", None, "h", "w"], "rois": ["r", 5]}), spatial_scale=each(1.0, 0.4),
        expect=InOpset(1))),
    *rows("RoiAlign", 16, **REGIONS, mode="min", refused="mode must be avg or max"),
    *rows("RoiAlign", 16, **REGIONS, mode="max", refused="maxima over a number of points"),
    *rows("RoiAlign", 16, **REGIONS, coordinate_transformation_mode="pixel",
          refused="coordinate_transformation_mode must be"),
    *rows("RoiAlign", 16, **REGIONS, output_height=0, refused="must be positive"),
    *rows("RoiAlign", 16, x=IMAGE, rois=ROIS[:, :3], batches=BATCHES, refused="coordinates"),
    *rows("RoiAlign", 16, x=IMAGE, rois=ROIS, batches=BATCHES[:3], refused="number of regions"),
    *rows("RoiAlign", 16, x=IMAGE[0], rois=ROIS, batches=BATCHES, refused="must have 4 dimensions"),
]  # fmt: skip
