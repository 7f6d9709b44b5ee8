"""ONNX's activations and Dropout without training, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.rows.row import InOpset, Tolerance, const, each, rows

X = np.array([[-90.0, -3.5, -1.0, -0.0], [0.25, 1.0, 3.75, 90.0]], np.float32)
FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)

TABLE: list[tuple[str, tuple[int, ...], tuple[dict[str, Any], ...]]] = [
    ("Relu", (1, 6, 13, 14), ({},)),
    ("Sigmoid", (1, 6, 13), ({},)),
    ("HardSwish", (14, 22), ({},)),
    ("Softplus", (1, 22), ({},)),
    ("Softsign", (1, 22), ({},)),
    ("Mish", (18, 22), ({},)),
    ("LeakyRelu", (1, 6, 16), ({}, {"alpha": 0.2})),
    ("LeakyRelu", (6,), ({"alpha": -1.5},)),
    ("Elu", (1, 6, 22), ({}, {"alpha": 2.5})),
    ("Celu", (12, 28), ({}, {"alpha": 2.5})),
    ("Celu", (28,), ({"alpha": -40.0},)),
    ("Selu", (1, 6, 22), ({}, {"alpha": 2.0, "gamma": 3.0})),
    ("ThresholdedRelu", (10, 22), ({}, {"alpha": -2.0})),
    ("HardSigmoid", (1, 6, 22), ({}, {"alpha": 0.5, "beta": 0.25})),
    ("Gelu", (20,), ({}, {"approximate": "tanh"})),
    ("Swish", (24,), ({}, {"alpha": 0.7})),
]
IN_PLACE = ["Relu", "Sigmoid", "LeakyRelu", "Elu", "Selu", "HardSigmoid"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def axes(*values: int) -> Any:
    return each({}, *({"axis": value} for value in values))


def passed(kind: Any) -> list[np.ndarray]:
    return [FLOATS, np.ones_like(FLOATS, kind)]


SLOPED = [
    ((2, 3, 4, 5), ()), ((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (1, 3, 1, 1)),
    ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (4, 5)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3), (3,)), ((3,), (3,)),
    ((2, 3, 4, 5), (1, 1, 1, 1)), ((), ()),
]  # fmt: skip
IMAGE, THREE = normal(2, 3, 4, 5), np.random.default_rng(0).standard_normal((3, 4, 5)) * 3
FAMILY = ("Softmax", "LogSoftmax", "Hardmax")
ROWS = [
    *(row for op_type, opsets, attributes in TABLE for opset in opsets
      for row in rows(op_type, opset, also=each(*attributes), x=each(*(
          X.astype(t) for t in schema_types(op_type, opset) if t.kind not in "iu")))),
    *rows(each(*IN_PLACE), 1, x=X, consumed_inputs=[0], expect=InOpset(6)),
    *rows(each(*IN_PLACE, "Softplus", "Softsign", "ThresholdedRelu", "HardSwish", "Celu"), 16, label="scalar",
          x=np.array(-0.5, np.float32)),
    *(row for t in schema_types("Relu", 14) if t.kind == "i" for row in rows(
        "Relu", 14, label="integers", x=each(np.array([-100, 0, 100, min(np.iinfo(t).max, 2**31 - 1)], t)))),
    *(row for t in schema_types("SwiGLU", 28) for row in rows(
        "SwiGLU", 28, a=X.astype(t), b=X[::-1].astype(t), alpha=1.5,
        tolerance=Tolerance(2e-2 if t.itemsize == 2 else 1e-4))),
    *rows("Shrink", 9, also=each(*({"bias": bias, "lambd": lambd} for bias,
          lambd in ((0.0, 0.5), (1.5, 1.5), (-1.0, 2.0)))), x=each(*(np.array([0, 1, 2, 3, 50,
          *([] if t.kind == "u" else [0, -1, -2, -3, -50])]).astype(t) for t in schema_types("Shrink", 9)))),
    *rows("PRelu", each(7, 9, 16), also=each(*({"x": normal(*shape),
          "slope": kind(normal(*slope, seed=1))} for kind in (const, np.asarray) for shape, slope in SLOPED))),
    *(row for opset, old in ((1, {"consumed_inputs": [0, 0]}), (6, {})) for row in (
        *rows("PRelu", opset, label="channels", x=IMAGE, slope=const(each(normal(1), normal(3), normal(3, 1, 1))),
              **old, expect=lambda x, slope: np.where(x < 0, x * slope.reshape(-1, 1, 1), x)),
        *rows("PRelu", opset, x=IMAGE.reshape(-1, 3), slope=const(each(normal(1), normal(3))), **old, expect=InOpset(7)))),
    *rows("PRelu", 16, x=normal(2, 3, 4), slope=const(each(normal(2), IMAGE[:1])), refused="cannot be broadcast to x"),
    *(row for op_type in FAMILY for t in schema_types(op_type, 13) for row in rows(
        op_type, 13, x=THREE.astype(t), also=axes(0, 1, 2, -1, -2),
        tolerance=Tolerance(1e-4, 3e-2 if t.itemsize == 2 else 1e-5))),
    *(row for op_type in FAMILY for opset, also in ((1, axes(0, 1, 2, 3)), (11, axes(0, 1, 2, 3, -1, -3)))
      for row in rows(op_type, opset, x=normal(2, 3, 4, 1), also=also)),
    # The other shapes that the model may be given later have something behind the channels.
    *rows("Softmax", 9, x=np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1)),
    *rows("Hardmax", 13, label="first_of_equals", x=np.array([[3, 1, 3], [2, 2, 2]], np.float32)),
    *rows("Softmax", 13, label="infinities", x=np.array([[-np.inf, 0, 1], [1, 2, -np.inf]], np.float32)),
    *(row for outputs in (1, 2) for opset, kind, attributes in (
        (1, np.float32, {"is_test": 1, "consumed_inputs": [0]}), (6, np.float32, {"is_test": 1, "ratio": 0.3}),
        (6, np.float32, {"ratio": 0.0}), (7, np.float32, {"ratio": 0.3}), (10, np.bool_, {}),
        (12, np.bool_, {"seed": 1}), (13, np.bool_, {}), (22, np.bool_, {}))
      for row in rows("Dropout", opset, x=FLOATS, outputs=outputs, **attributes, expect=passed(kind)[:outputs])),
    *rows("Dropout", 13, label="ratio_at_execution", x=FLOATS, ratio=np.array(0, np.float32), training=np.array(True),
          outputs=2, expect=passed(np.bool_)),
    *rows("Dropout", 13, x=FLOATS, ratio=const(1, np.float32), training=const(True),
          refused=r"\(Dropout.*from 0 to below 1, but is 1"),
    *rows("Dropout", 6, x=FLOATS, refused="asks for training"),
    *rows("SwiGLU", 28, a=X, b=X[:1], refused="must have one shape"),
    *rows("Softmax", 13, x=X, axis=2, refused="axis 2 lies outside"),
    *rows("Softmax", 11, x=X, axis=-3, refused="axis -3 lies outside"),
    *rows("Gelu", 20, x=X, approximate="erf", refused="approximate must be"),
    *rows("Celu", 12, x=X, alpha=0.0, refused="must not be 0"),
    *rows("LeakyRelu", 16, x=X, beta=1.0, refused="no attribute 'beta'"),
]  # fmt: skip
