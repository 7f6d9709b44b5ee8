"""``ai.onnx.ml``'s support vector machines, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import each, rows

R = np.random.default_rng(41)
X = R.standard_normal((6, 3)).astype(np.float32)
KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 1.0, 3.0], "RBF": [0.7, 0.0, 0.0], "SIGMOID": [0.4, -0.3, 0.0]}
classifier = functools.partial(rows, "SVMClassifier", 1, domain="ai.onnx.ml", outputs=2)
regressor = functools.partial(rows, "SVMRegressor", 1, domain="ai.onnx.ml")


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
TYPES = [(3 * X).astype(kind) for kind in (np.float64, np.int64, np.int32)]
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


ROWS = [
    *(row for kernel in KERNELS for classes in (2, 3, 4)
      for row in classifier(x=X, **machine(classes, kernel), also=each({}, odds(classes)))),
    *(row for classes in (2, 3) for row in classifier(
        label="transform", x=X, **machine(classes), post_transform=TRANSFORMS, also=each({}, odds(classes)))),
    *classifier(label="probit", x=X, **machine(2), **odds(2), post_transform="PROBIT"),
    *classifier(label="probit", x=X, **machine(3), post_transform="PROBIT", also=each({}, odds(3))),
    *classifier(x=X, **machine(2), post_transform="PROBIT", refused="does not write the second one"),
    *(row for degree in (0.0, 1.0, 2.0, 4.0)
      for row in classifier(label="degree", x=X, **machine(3, "POLY", kernel_params=[0.5, 0.25, degree]))),
    *(row for classes in (1, 2, 3) for coefficients in [numbers(classes, 3)] for row in classifier(
        label="linear", x=X, coefficients=each(coefficients, np.abs(coefficients).tolist()), rho=[0.25],
        classlabels_ints=list(range(classes)), kernel_params=KERNELS["LINEAR"],
        post_transform=each("NONE", "LOGISTIC", "SOFTMAX"), also=each({}, odds(max(2, classes))))),
    *classifier(label="types", x=each(*TYPES), **machine(3)),
    *(row for count in (1, 40) for classes in (2, 5) for row in classifier(
        label="count", x=points(count), **machine(classes), also=each({}, odds(classes)), dims={"x": ["n", 3]})),
    *classifier(label="one_row", x=X[0].copy(), **machine(3)),
    *(row for changes, refused in WRONG for row in classifier(x=X, **changed(machine(3), changes), refused=refused)),
    *(row for kernel in KERNELS for row in regressor(
        x=each(X, X[0].copy()), **regression(kernel), one_class=each(0, 1))),
    *(row for kernel in KERNELS for row in regressor(
        label="count", x=X, **regression(kernel), one_class=each(0, 1), dims={"x": ["n", 3]})),
    *regressor(label="linear", x=X, coefficients=numbers(3), rho=[0.2], kernel_params=KERNELS["LINEAR"],
               one_class=each(0, 1)),
    # onnxruntime has float32 alone.
    *regressor(label="types", x=each(*TYPES), **regression("LINEAR"), expect=linear),
    *(row for changes, refused in WRONG_REGRESSIONS for row in regressor(x=X, **changed(regression(), changes),
    refused=refused)),
]  # fmt: skip
