"""``ai.onnx.ml``'s features and linear models, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.rows.row import each, rows

R = np.random.default_rng(31)
ml = functools.partial(rows, opset=1, domain="ai.onnx.ml")


def tensor(values: Any, kind: Any) -> Any:
    return numpy_helper.from_array(np.array(values, kind))


X, WHOLE = R.standard_normal((4, 3)).astype(np.float32), R.integers(-5, 6, (4, 3))
HOLES = np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)
SHARES = np.array([[0.0, 1.0, 0.25], [0.9, 0.01, 0.7], [1.5, 0.9999, -1.0]], np.float32)
THREE: dict[str, Any] = {"coefficients": R.standard_normal(9).tolist(), "intercepts": [0.1, -0.2, 0.3]}
ONE: dict[str, Any] = {"coefficients": [0.5, -1.25, 0.75], "intercepts": [0.1]}
PROBIT: dict[str, Any] = {"coefficients": np.eye(3).reshape(-1).tolist(), "post_transform": "PROBIT"}
label = functools.partial(ml, "LabelEncoder", opset=2)
label_4 = functools.partial(ml, "LabelEncoder", opset=4)
one_hot = functools.partial(ml, "OneHotEncoder")
regressor = functools.partial(ml, "LinearRegressor")
classifier = functools.partial(ml, "LinearClassifier", outputs=2)
ROWS = [
    *ml("Scaler", x=each(X, X.astype(np.float64), WHOLE, WHOLE.astype(np.int32)), offset=[0.5, 1.0, -1.5],
        scale=[2.0, 0.5, 3.0]),
    *ml("Scaler", x=X, offset=[0.5], scale=[2.0], dims=each(None, {"x": ["n", 3]})),
    *ml("Scaler", x=X, offset=[1.0, 2.0], refused="offset must have one number, or one for each of 3 features"),
    *ml("Binarizer", x=X, threshold=0.25),
    *ml("Normalizer", x=each(X, WHOLE), norm=each("MAX", "L1", "L2")),
    *ml("Normalizer", x=np.zeros((2, 3), np.float32), norm="L2"),
    *ml("Normalizer", x=X, norm="L3", refused="norm must be MAX, L1 or L2"),
    *ml("Imputer", x=HOLES, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan")),
    *ml("Imputer", x=X, imputed_value_floats=[7.0], replaced_value_float=float(X[1, 1])),
    *ml("Imputer", x=WHOLE, imputed_value_int64s=[100, 200, 300], replaced_value_int64=int(WHOLE[0, 0])),
    *ml("FeatureVectorizer", a=X, b=X[:, :2].copy(), inputdimensions=[3, 2]),
    *ml("ArrayFeatureExtractor", x=X, y=np.array([2, 0])),
    *ml("ArrayFeatureExtractor", x=WHOLE, y=np.array([1]), dims=each(None, {"x": ["n", 3]})),
    *one_hot(x=each(WHOLE, WHOLE[0].copy()), cats_int64s=[-2, 0, 3, 5]),
    *one_hot(x=WHOLE, cats_strings=["a"], refused="'cats_strings' holds strings"),
    *label(x=WHOLE, keys_int64s=[-2, 0, 3], values_int64s=[7, 8, 9]),
    *label(x=WHOLE, keys_int64s=[-2, 0, 3], values_floats=[0.7, 0.8, 0.9], default_float=0.5),
    *label(x=HOLES, keys_floats=[1.0, 5.0], values_int64s=[7, 8], default_int64=4),
    *label_4(x=HOLES, keys_floats=[1.0, float("nan")], values_floats=[7.0, 8.0]),
    *label_4(x=HOLES.astype(np.float64), keys_tensor=tensor([1, 6], "f8"), values_tensor=tensor([0.25, 0.5], "f8"),
             default_tensor=tensor([2.5], "f8")),
    # onnxruntime has no kernel for such keys.
    *label_4(x=np.array([[5, -300], [7, 5]], np.int16), keys_tensor=tensor([5, -300], "i2"),
             default_tensor=tensor([9], "f4"),
             values_tensor=tensor([0.5, 2.5], "f4"), expect=np.array([[0.5, 2.5], [9, 0.5]], np.float32)),
    *regressor(x=X, **ONE),
    *regressor(x=X, **THREE, targets=3, dims=each(None, {"x": ["n", 3]})),
    *regressor(x=X, coefficients=[0.5, -1.25, 0.75]),
    *regressor(x=SHARES, **PROBIT, targets=3),
    *classifier(x=each(X, WHOLE), **THREE, classlabels_ints=[0, 1, 2],
                post_transform=each("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")),
    *classifier(x=X, **THREE, classlabels_ints=[5, -1, 9], multi_class=1),
    *classifier(x=X, **ONE, classlabels_ints=[0, 1], post_transform=each("NONE", "SOFTMAX")),
    *classifier(x=X, **ONE, classlabels_ints=[3, 8], post_transform="LOGISTIC"),
    *classifier(x=SHARES, **PROBIT, classlabels_ints=[5, 6, 7], intercepts=[0.0, 0.0, 0.0]),
    *classifier(x=X, **THREE, classlabels_strings=["a", "b", "c"], refused="holds strings"),
    *classifier(x=X, **ONE, classlabels_ints=[3, 4], post_transform="PROBIT", refused="does not write the second one"),
]  # fmt: skip
