"""Models that break a schema, but leave no doubt what they mean: they convert, with one warning a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.layer import ints
from tests.rows.row import InOpset, by_onnxruntime, const, each, graphs, rows


def list32(*values: int) -> Any:
    return const(values, np.int32)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 3
SQUARE = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2) - 3
INTEGERS, BYTES = (X * 5).astype(np.int64), X.astype(np.int8)
I32, ZERO, ONE = INTEGERS.astype(np.int32), const(0), const(1)
SHIFTED, BY = ints(-9, -1, -8, 7, -100, 127, 0, 5), ints(1, 2, 0, 1, 3, 4, 5, 7)
A, B = ints(100, 7, dtype=np.int8), ints(100, 3, dtype=np.int8)
UPDATES = np.array([9, 50, -50], np.float32)
LIST = "must be a list, but is a scalar"


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


EARLY: list[tuple[str, int, int, dict[str, Any]]] = [
    # the operator, the opset, that from which on it exists, arguments
    ("Sign", 8, 9, {"x": X}),
    ("Mish", 1, 18, {"x": X}),
    ("Expand", 1, 8, {"x": X[:, :1], "s": const([2, 5, 4])}),
    ("GatherND", 7, 11, {"x": X, "i": const([[1], [0]])}),
    ("ScatterND", 7, 11, {"x": X, "i": const([[1]]), "u": const(X[:1])}),
    ("BitwiseNot", 16, 18, {"x": I32}),
    ("DequantizeLinear", 4, 10, {"x": np.arange(5, dtype=np.uint8), "s": const(0.5, np.float32), "z": const(2,
        np.uint8)}),
    ("DFT", 13, 17, {"x": X[..., None], "axis": 1}),
    ("Gelu", 17, 20, {"x": X}),
    # A function of a schema.
    ("AffineGrid", 19, 20, {"theta": floats(1, 2, 3), "size": const([1, 1, 2, 2])}),
]  # fmt: skip
IMAGES = floats(1, 2, 4, 4)
GREATEST = IMAGES.max((2, 3), keepdims=True)
FORMS: list[tuple[str, int, dict[str, Any], Any, int]] = [
    # the operator, the opset, arguments, what is expected, the opset that the node is read as in
    ("ReduceSum", 13, {"x": X, "axes": [1], "keepdims": 0}, X.sum(1), 11),
    ("ReduceMax", 18, {"x": X, "axes": [-1]}, X.max(-1, keepdims=True), 13),
    ("ReduceMax", 13, {"x": X, "a": const([0]), "keepdims": 0}, X.max(0), 18),
    ("Unsqueeze", 13, {"x": X, "axes": [0]}, X[None], 11),
    ("Unsqueeze", 11, {"x": X, "a": const([0])}, X[None], 13),
    ("Reshape", 1, {"x": X, "s": const([4, 6])}, X.reshape(4, 6), 5),
    ("Clip", 11, {"x": X, "min": -1.0, "max": 2.0}, X.clip(-1, 2), 6),
    ("Clip", 6, {"x": X, "low": const(-1, np.float32)}, X.clip(-1, None), 11),
    ("Pad", 11, {"x": X[0], "pads": [0, 1, 0, 0]}, np.pad(X[0], ((0, 0), (1, 0))), 2),
    ("Slice", 11, {"x": X, "starts": [1], "ends": [3], "axes": [1]}, X[:, 1:3], 1),
    ("Split", 13, {"x": X[0], "split": [3], "axis": 0}, X[0], 11),
    ("Concat", 13, {"x": X, "z": X}, np.concatenate([X, X], 1), 1),
]  # fmt: skip
NORMALIZATION = {name: const(value, np.float32) for name, value in (
    ("scale", [0.5, 2]), ("bias", [1, 4]), ("mean", [1.5, 6]), ("variance", [4, 9]))}  # fmt: skip

REPEATED: list[tuple[str, int, dict[str, Any]]] = [
    # ONNX forbids them for Unsqueeze alone, and onnxruntime counts each once.
    ("Squeeze", 1, {"x": X[:1, :, :1], "axes": [2, 0, 2]}),
    ("Squeeze", 11, {"x": X[:1, :, :1], "axes": [0, 2, -1]}),
    ("Squeeze", 13, {"x": X[:1, :, :1], "a": const([2, 0, -3, 2])}),
    ("ReduceSum", 11, {"x": X, "axes": [1, 1], "keepdims": 0}),
    ("ReduceSum", 13, {"x": X, "a": const([1, 0, -2]), "keepdims": 0}),
    ("ReduceMean", 18, {"x": X, "a": const([2, 2])}),
    ("ReduceL2", 13, {"x": X, "axes": [-1, 2, 0]}),
]
BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
SUPPRESSED = {"boxes": BOXES, "scores": np.array([[[0.9, 0.8, 0.7]]], np.float32), "most": const([3])}
NUMBERS = np.array([[0, -1.5, np.inf], [-np.inf, np.nan, 3e38]], np.float32)
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
TURNED = np.fft.rfft(X, axis=1)
BRANCHES = ", ".join(f"{name}_branch = {name} (float[3] x) => (float[3] {name}) {{ {name} = {op} (x) }}"
                     for name, op in (("then", "Neg"), ("else", "Abs")))  # fmt: skip
BYTES_3 = np.array([[1, 2, 6], [250, 251, 255]], np.uint8)
OF_READING = [
    *(row for op_type, opset, right, arguments in EARLY for row in rows(
        op_type, opset, **arguments, expect=InOpset(right), warns=f"exists from opset {right} on")),
    *rows("BiasGelu", 17, x=X, b=const(X[0, 0]), expect=by_onnxruntime("BiasGelu", domain="com.microsoft", x=X, b=X[0, 0]),
          warns="read as that of the domain 'com.microsoft'"),
    *(row for op_type, opset, arguments, expect, version in FORMS for row in rows(
        op_type, opset, **arguments, expect=expect, warns=f"it is read as in opset {version}")),
    # Attributes outside the schema.
    *rows("LeakyRelu", 16, x=X, alpha=2, warns="'alpha' must be of type FLOAT, but is INT"),
    *rows("GlobalLpPool", 1, x=IMAGES, p=1, expect=np.abs(IMAGES).sum((2, 3), keepdims=True),
        warns="must be of type FLOAT"),
    *rows("Upsample", 7, x=IMAGES, scales=[1, 1, 2, 2], expect=IMAGES.repeat(2, 2).repeat(2, 3),
        warns="FLOATS, but is INTS"),
    *rows("ReduceMax", 13, label="one_axis", x=X, axes=1, keepdims=0, expect=X.max(1),
          warns="'axes' must be of type INTS, but is INT"),
    *rows("GlobalMaxPool", 7, x=IMAGES, strides=[2, 2], expect=GREATEST, warns="'strides', which means nothing"),
    *rows("Reshape", 13, label="zero", x=X, s=const([0, -1]), special_zero=1, expect=X.reshape(2, 12),
          warns="'special_zero', which means nothing"),
    *rows("Reshape", 13, label="zero", x=X, s=const([0, -1]), special_zero=0,
        refused="has no attribute 'special_zero'"),
    *rows("Concat", 13, x=X, axis=1.0, refused="attribute 'axis' must be of type INT, but is FLOAT"),
    *rows("LeakyRelu", 13, x=X, alpha="1", refused="attribute 'alpha' must be of type FLOAT, but is STRING"),
    *rows("MaxPool", 13, x=IMAGES, kernel_shape=2, refused="kernel_shape"),
    *rows("GlobalAveragePool", 13, x=IMAGES, kernel_shape=[2], refused="has no attribute 'kernel_shape'"),
    # A later form that nothing fits names the first reason.
    *rows("ReduceSum", 13, x=X, axis=[1], refused="has no attribute 'axis'"),
    # Integers outside the schema.
    *rows("MaxPool", 13, x=IMAGES.astype(np.int32), kernel_shape=[2, 2], strides=[2, 2], warns="but is i",
          expect=IMAGES.reshape(1, 2, 2, 2, 2, 2).max((3, 5)).astype(np.int32)),
    *rows("MaxPool", 8, x=IMAGES.astype(np.int64), kernel_shape=[4, 4], expect=GREATEST.astype(np.int64),
        warns="but is i"),
    *rows("GlobalMaxPool", 1, x=IMAGES.astype(np.int64), expect=GREATEST.astype(np.int64), warns="but is i"),
    *rows("ReduceMean", 18, x=BYTES_3, a=const([1]), keepdims=0, expect=ints(3, 252, dtype=np.uint8), warns="but is u"),
    *rows("ReduceProd", 13, x=BYTES_3[:1], axes=[1], keepdims=0, expect=ints(12, dtype=np.uint8), warns="but is u"),
    *rows("ReduceSum", 11, x=np.array([[-1, 2], [50, 5]], np.int16), axes=[1], keepdims=0,
          expect=ints(1, 55, dtype=np.int16), warns="but is i"),
    *rows("Conv", 7, x=np.arange(4).reshape(1, 1, 2, 2), w=const(np.full((1, 1, 2, 2), 3)), warns="but is i"),
    *rows("AveragePool", 13, x=IMAGES.astype(np.int32), kernel_shape=[2, 2], refused="but is i32"),
    *rows("BatchNormalization", 1, x=IMAGES, **NORMALIZATION, also=each({}, {"is_test": 0}, {"is_test": 1}),
          expect=InOpset(7), warns="'consumed_inputs' is required, but missing"),
    *rows("BatchNormalization", 6, x=IMAGES, **NORMALIZATION, also=each({}, {"is_test": 0}, {"is_test": 1}),
          expect=InOpset(7)),
    *rows("Resize", 11, x=IMAGES, roi=const([], np.float32), scales=const([1], np.float32), sizes=const([1, 2, 8, 8]),
          **NEAREST, warns="only the sizes have a number for each"),
    *rows("Resize", 11, x=IMAGES, roi=const([], np.float32), scales=const([1, 1, 2, 2], np.float32),
          sizes=const([1, 2, 8, 8]), **NEAREST, refused="either scales or sizes"),
    *rows("Add", 6, a=X[0], b=X[0, :, :1].copy(), warns="without 'broadcast'"),
    *rows("Add", 6, a=X[0], b=X[0, 0], refused="without 'broadcast'"),
    *rows("DFT", 17, x=X, axis=1, onesided=1, expect=np.stack([TURNED.real, TURNED.imag], -1).astype(np.float32),
          warns="real data need a last dimension of 1"),
    *rows("Softmax", 7, x=np.array(3.5, np.float32), warns="is a scalar"),
    *rows("LogSoftmax", 7, x=np.array(3.5, np.float32), expect=np.float32(0), warns="is a scalar"),
    *(row for op_type, opset, arguments in REPEATED for row in rows(op_type, opset, **arguments,
        warns="name a dimension twice")),
    *rows("Unsqueeze", 11, x=X, axes=[1, 1], refused="twice"),
    # The specification's own example, of a list, which has one axis only.
    *(row for more, expect in (({}, [1, 3, 6]), ({"exclusive": 1}, [0, 1, 3]), ({"reverse": 1}, [6, 5, 3]),
                               ({"exclusive": 1, "reverse": 1}, [5, 3, 0]))
      for row in rows("CumSum", 14, x=np.array([1, 2, 3], np.float32), **more, expect=np.array(expect, np.float32),
                      warns="takes 2 inputs, but got 1")),
    *rows("CumSum", 11, x=X, refused="takes 2 inputs, but got 1: the axis is missing"),
    # The empty name means that there is no input.
    *rows("Relu", 11, x=X, none=None, expect=np.maximum(X, 0), warns="the last of them empty"),
    *(row for count in (4, 5) for row in rows(
        "NonMaxSuppression", 11, label=f"{count}", **SUPPRESSED, **dict.fromkeys([f"none{at}" for at in range(count)]),
        expect=np.array([[0, 0, 0], [0, 0, 2]]), warns="the last of them empty")),
    # ONNX has IsInf and IsNaN alone.
    *rows("IsFinite", 16, x=NUMBERS, expect=np.isfinite(NUMBERS), warns="neither infinite nor NaN"),
    *rows("IsFinite", 16, x=ints(1), refused="floating-point data, but got i64"),
    # Read or ignored, it means the same; another order leaves doubt.
    *rows("Transpose", each(1, 13, 21), x=X, order=list32(2, 1, 0), expect=X.transpose(2, 1, 0),
        warns="takes 1 inputs, but got 2"),
    *rows("Transpose", 13, x=X, order=const([0, 2, 1]), refused="takes 1 inputs, but got 2"),
    *rows("Transpose", 13, x=X, order=ints(2, 1, 0), refused="takes 1 inputs, but got 2"),
    *rows("Transpose", 13, x=X, order=const([2, 1, 0]), perm=[2, 1, 0], refused="takes 1 inputs, but got 2"),
    *graphs(f"test (float[3] x) => (y) <bool c = {{1}}> {{ y = If (c) <{BRANCHES}> }}", label="seen", x=X[0, 0, :3], warns="test: the graph 'then' declares as inputs what it sees around it: x"),
]  # fmt: skip
ROWS = [
    *OF_READING,
    *rows("ReduceMax", 13, x=X > 3, axes=[1], keepdims=0, expect=(X > 3).any(1),
          warns="but is boolean, which it may be from opset 20 on"),
    *rows("ReduceMax", 11, x=BYTES, axes=[1], keepdims=0, expect=BYTES.max(1), warns="but is i8"),
    *rows("Sum", 13, a=INTEGERS, b=INTEGERS, warns="but is i64"),
    *rows("Sum", 8, a=ints(100, -100, dtype=np.int8), b=B, expect=ints(-56, -97, dtype=np.int8), warns="but is i8"),
    *rows("Mul", 1, a=INTEGERS, b=INTEGERS, warns="but is i64"),
    *rows("Add", 13, a=A, b=B, expect=ints(-56, 10, dtype=np.int8), warns="from opset 14 on"),
    *rows("Less", 7, a=INTEGERS, b=-INTEGERS, warns="but is i64"),
    *rows("Relu", 13, x=I32, expect=np.maximum(I32, 0), warns="but is i32"),
    *rows("Clip", 11, x=I32, low=const(-2, np.int32), expect=np.maximum(I32, -2), warns="but is i32"),
    *rows("Pow", 7, x=X, y=const(3), warns="but is i64"),
    *rows("Neg", 1, x=INTEGERS, warns="but is i64"),
    *rows("Mod", 13, a=X, b=const(-4, np.float32), warns="fmod=1 before opset 28"),
    *(row for label, s in (("", list32(4, 6)), ("at_execution", ints(4, 6, dtype=np.int32)))
      for row in rows("Reshape", 13, label=label, x=X, s=s, expect=X.reshape(4, 6),
                      warns="'shape' must be one of int64, but is i32")),
    *rows("Expand", 13, x=X, s=list32(2, 1, 1, 1), warns="but is i32"),
    *rows("Gather", 13, x=X, i=const(1, np.uint8), warns="must be one of int32, int64, but is u8"),
    *rows("Resize", 13, x=SQUARE, r=const([], np.float32), s=const([1, 1, 2, 2], np.float64), warns="must be one of float, but is f64"),
    *(row for dtype in ("int8", "int16", "int32", "int64") for x, y in [(SHIFTED.astype(dtype), BY.astype(dtype))]
      for direction, shift in (("LEFT", np.left_shift), ("RIGHT", np.right_shift))
      for row in rows("BitShift", 17, x=x, y=y, direction=direction, expect=shift(x, y),
                      warns="which it may be from opset 28 on")),
    *rows("Slice", 13, x=X, s=ZERO, e=ONE, a=ONE, expect=X[:, :1], warns=LIST),
    *rows("Tile", 13, x=X[0, 0], r=const(2), warns=LIST),
    *rows("Expand", 13, x=X[0, 0, :1], s=const(4), warns=LIST),
    *rows("Reshape", 13, x=X, s=const(-1), expect=X.reshape(-1), warns=LIST),
    *rows("ScatterElements", each(16, 17), x=X[0].T.copy(), i=ints(0, 2, 2)[None], u=UPDATES[None],
          reduction=each("max", "min"), warns="before opset 18"),
    *rows("ScatterND", each(16, 17), x=X.reshape(-1)[:5], i=ints(0, 2, 2)[:, None], u=UPDATES,
          reduction=each("max", "min"), warns="before opset 18"),
    *graphs("g (float[2, 3, 4] x) => (int64[2, 3, 4] y) { y = Neg (x) }", label="declared_type", x=X,
            warns="declares 'y' as i64, but it is f32"),
    *rows("Sqrt", 13, x=INTEGERS, refused="but is i64"),
    *rows("Mean", 13, a=INTEGERS, b=INTEGERS, refused="but is i64"),
    *rows("Add", 13, a=X, b=X.astype(np.float64), refused="same type"),
    *rows("Sum", 13, a=INTEGERS, b=X, refused="but is i64"),
    *rows("Reshape", 13, x=X, s=np.array([24], np.float32), refused="but is f32"),
    *rows("Gather", 13, x=X, i=X > 0, refused="but is boolean"),
    *rows("And", 7, a=INTEGERS, b=INTEGERS, refused="but is i64"),
    *rows("Where", 16, c=X, a=X, b=X, refused="but is f32"),
]  # fmt: skip
