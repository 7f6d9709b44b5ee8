"""Linear models and support vector machines of ai.onnx.ml."""

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

R = np.random.default_rng(41)  # the values of these rows are spread enough that scores do not cancel
SAMPLES = R.standard_normal((6, 3)).astype(np.float32)
KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 1.0, 3.0], "RBF": [0.7, 0.0, 0.0], "SIGMOID": [0.4, -0.3, 0.0]}
classifier_svm = functools.partial(rows, "SVMClassifier", 1, domain="ai.onnx.ml", outputs=2)
regressor_svm = functools.partial(rows, "SVMRegressor", 1, domain="ai.onnx.ml")


def numbers(*shape: int, scale: float = 1.0) -> list[float]:
    return (scale * R.standard_normal(shape)).astype(np.float32).reshape(-1).tolist()


def machine(classes: int, kernel: str = "RBF", **more: Any) -> dict[str, Any]:
    counts = [2 + i % 3 for i in range(classes)]
    return {
        "kernel_type": kernel, "kernel_params": KERNELS[kernel], "vectors_per_class": counts,
        "support_vectors": numbers(sum(counts), 3), "coefficients": numbers(classes - 1, sum(counts)),
        "rho": numbers(classes * (classes - 1) // 2, scale=0.3),
        "classlabels_ints": [7 * i - 3 for i in range(classes)],
        **more,
    }  # fmt: skip


def odds(classes: int) -> Any:
    pairs = classes * (classes - 1) // 2
    return {"prob_a": numbers(pairs), "prob_b": numbers(pairs)}


def regression(kernel: str = "RBF", **more: Any) -> dict[str, Any]:
    made = {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "n_supports": 5, "support_vectors": numbers(5, 3)}
    return {**made, "coefficients": numbers(5), "rho": [0.2], **more}


def linear(x: np.ndarray, support_vectors: Any, coefficients: Any) -> np.ndarray:
    vectors = np.reshape(support_vectors, (5, 3))
    return (x.astype(np.float64) @ vectors.T @ np.reshape(coefficients, (5, 1)) + 0.2).astype(np.float32)


def points(count: int) -> np.ndarray:
    return R.standard_normal((count, 3)).astype(np.float32)


TRANSFORMS = each("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
TYPES = [(3 * SAMPLES).astype(kind) for kind in (np.float64, np.int64, np.int32)]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kernel_type": "X"}, "kernel_type must be"),
    ({"kernel_params": [1.0]}, "gamma, coef0 and degree"),
    ({"classlabels_ints": None, "classlabels_strings": ["a", "b", "c"]}, "holds strings"),
    ({"classlabels_ints": None}, "missing"),
    ({"classlabels_ints": [1, 2]}, "2 labels need as many"),
    ({"rho": [0.5]}, "each of 3 pairs"),
    ({"prob_a": [0.5]}, "as many numbers"),
    ({"prob_a": [0.5], "prob_b": [0.5]}, "each of 3 pairs"),
    ({"support_vectors": [1.0] * 26}, "do not make 9"),
    ({"coefficients": [1.0] * 9}, "9 coefficients"),
    ({"support_vectors": [1.0] * 36}, "4 features"),
]
WRONG_REGRESSIONS: list[tuple[dict[str, Any], str]] = [
    ({"coefficients": [1.0] * 4}, "4 coefficients"),
    ({"rho": None}, "missing"),
    ({"post_transform": "LOGISTIC"}, "ignores it"),
    ({"n_supports": 4}, "do not make 4"),
]


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


ROWS += [
    *(row for kernel in KERNELS for classes in (2, 3, 4)
      for row in classifier_svm(x=SAMPLES, **machine(classes, kernel), also=each({}, odds(classes)))),
    *(row for classes in (2, 3) for row in classifier_svm(
        label="transform", x=SAMPLES, **machine(classes), post_transform=TRANSFORMS, also=each({}, odds(classes)))),
    *classifier_svm(label="probit", x=SAMPLES, **machine(2), **odds(2), post_transform="PROBIT"),
    *classifier_svm(label="probit", x=SAMPLES, **machine(3), post_transform="PROBIT", also=each({}, odds(3))),
    *classifier_svm(x=SAMPLES, **machine(2), post_transform="PROBIT", refused="does not write the second one"),
    *(row for degree in (0.0, 1.0, 2.0, 4.0)
      for row in classifier_svm(label="degree", x=SAMPLES, **machine(3, "POLY", kernel_params=[0.5, 0.25, degree]))),
    *(row for classes in (1, 2, 3) for coefficients in [numbers(classes, 3)] for row in classifier_svm(
        label="linear", x=SAMPLES, coefficients=each(coefficients, np.abs(coefficients).tolist()), rho=[0.25],
        classlabels_ints=list(range(classes)), kernel_params=KERNELS["LINEAR"],
        post_transform=each("NONE", "LOGISTIC", "SOFTMAX"), also=each({}, odds(max(2, classes))))),
    *classifier_svm(label="types", x=each(*TYPES), **machine(3)),
    *(row for count in (1, 40) for classes in (2, 5) for row in classifier_svm(
        label="count", x=points(count), **machine(classes), also=each({}, odds(classes)), dims={"x": ["n", 3]})),
    *classifier_svm(label="one_row", x=SAMPLES[0].copy(), **machine(3)),
    *(row for changes, refused in WRONG for row in classifier_svm(x=SAMPLES, **changed(machine(3), changes), refused=refused)),
    *(row for kernel in KERNELS for row in regressor_svm(
        x=each(SAMPLES, SAMPLES[0].copy()), **regression(kernel), one_class=each(0, 1))),
    *(row for kernel in KERNELS for row in regressor_svm(
        label="count", x=SAMPLES, **regression(kernel), one_class=each(0, 1), dims={"x": ["n", 3]})),
    *regressor_svm(label="linear", x=SAMPLES, coefficients=numbers(3), rho=[0.2], kernel_params=KERNELS["LINEAR"],
               one_class=each(0, 1)),
    # onnxruntime has float32 alone.
    *regressor_svm(label="types", x=each(*TYPES), **regression("LINEAR"), expect=linear),
    *(row for changes, refused in WRONG_REGRESSIONS for row in regressor_svm(x=SAMPLES, **changed(regression(), changes),
    refused=refused)),
]  # fmt: skip
