"""Operators that ONNX took back, against onnxruntime, which still runs most of them below opset 10."""

from __future__ import annotations

import numpy as np

from tests.rows.row import each, rows

X = np.random.default_rng(5).standard_normal((2, 3, 5, 6)).astype(np.float32)
FREE = each(None, {"x": ["n", 3, None, None]})
PARTS = {"starts": np.array([0, -3]), "ends": np.array([2, 2**31 - 1])}


ROWS = [
    *rows("Affine", 8, x=X, also=each({}, {"alpha": 2.5, "beta": -1.0})),
    *rows("ThresholdedRelu", 8, x=X, also=each({}, {"alpha": 0.5})),
    *rows("Scale", 8, x=X, scale=0.5),
    *rows(each("ScaledTanh", "ParametricSoftplus"), 8, x=X, alpha=1.5, beta=0.25),
    *rows("ImageScaler", 8, x=X, scale=2.0, bias=[1.0, -2.0, 3.0], dims=FREE),
    *rows("Crop", 8, x=X, border=each([1, 0, 2, 3], [0] * 4)),
    *rows("Crop", 8, x=X, border=[2, 1, 0, 0], scale=[3, 2]),
    *rows("MeanVarianceNormalization", 8, x=X, across_channels=each(0, 1), normalize_variance=each(0, 1), dims=FREE),
    *rows("MeanVarianceNormalization", 8, x=X, across_channels=each(0, 1), normalize_variance=each(0, 1)),
    *rows("DynamicSlice", 9, x=X, **PARTS),
    *rows("DynamicSlice", 9, x=X, **PARTS, axes=np.array([1, -1])),
    *rows("ConstantFill", 7, shape=[2, 3], value=1.5, expect=np.full((2, 3), 1.5, np.float32)),
    *rows("ConstantFill", 7, value=3.0, dtype=7, expect=np.array(3, np.int64)),
    *rows("ConstantFill", 7, x=X, expect=np.zeros_like(X)),
    *rows("ConstantFill", 7, x=X[0, 0], extra_shape=[2], value=1.0, dtype=9, expect=np.ones((5, 6, 2), bool)),
    *rows("ConstantFill", 7, label="by_shape", input_as_shape=1, x=np.array([2, 3]), value=7.0, dtype=6,
          expect=np.full((2, 3), 7, np.int32)),
    *rows("ConstantFill", 7, label="by_shape", input_as_shape=1, x=np.array([2], np.int32), extra_shape=[4],
          expect=np.zeros((2, 4), np.float32)),
    *rows("Crop", 7, x=X, border=[1, 1], refused="border must be four numbers"),
    *rows("Crop", 7, x=X, border=[3, 0, 3, 0], refused="nothing is left of dimension 3"),
    *rows("Crop", 7, x=X, border=[1] * 4, scale=[5, 2], refused="6 elements of dimension 2 are needed"),
    *rows("ImageScaler", 7, x=X, bias=[1.0], refused="1 biases for the channels"),
    *rows("ScaledTanh", 7, x=X, alpha=1.0, refused="no defaults"),
    *rows("ParametricSoftplus", 7, x=X, beta=1.0, refused="no defaults"),
    *rows("ConstantFill", 7, x=X, shape=[2], refused="the shape comes from the input"),
]  # fmt: skip
