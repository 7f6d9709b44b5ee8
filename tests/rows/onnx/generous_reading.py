"""Models that break a schema, but leave no doubt what they mean: they convert, with one warning a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.row import const, each, graphs, rows


def ints(*values: int, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


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


def reduced(x: np.ndarray, i: np.ndarray, u: np.ndarray, reduction: str) -> np.ndarray:
    x = x.copy()
    places = (i, [0, 1, 2]) if x.ndim == 2 else i.reshape(-1)
    {"max": np.maximum, "min": np.minimum}[reduction].at(x, places, u)  # type: ignore[index]
    return x


ROWS = [
    *rows("ReduceMax", 13, x=X > 3, axes=[1], keepdims=0, expect=(X > 3).any(1),
          warns="but is boolean, which it may be from opset 20 on"),
    *rows("ReduceMin", 18, x=X > 3, axes=const([2]), keepdims=0, expect=(X > 3).all(2), warns="but is boolean"),
    *rows("ReduceMax", 11, x=BYTES, axes=[1], keepdims=0, expect=BYTES.max(1), warns="but is i8"),
    *rows("Sum", 13, a=INTEGERS, b=INTEGERS, expect=2 * INTEGERS, warns="but is i64"),
    *rows("Sum", 6, a=I32, b=I32, expect=2 * I32, warns="but is i32"),
    *rows("Sum", 8, a=ints(100, -100, dtype=np.int8), b=B, expect=ints(-56, -97, dtype=np.int8), warns="but is i8"),
    *rows("Max", 8, a=INTEGERS, b=-INTEGERS, expect=np.abs(INTEGERS), warns="but is i64"),
    *rows("Min", 11, a=INTEGERS, b=-INTEGERS, expect=-np.abs(INTEGERS), warns="but is i64"),
    *rows("Mul", 1, a=INTEGERS, b=INTEGERS, expect=INTEGERS * INTEGERS, warns="but is i64"),
    *rows("Add", 13, a=A, b=B, expect=ints(-56, 10, dtype=np.int8), warns="from opset 14 on"),
    *rows("Less", 7, a=INTEGERS, b=-INTEGERS, expect=INTEGERS < -INTEGERS, warns="but is i64"),
    *rows("Equal", 7, a=X, b=-X, expect=X == -X, warns="but is f32"),
    *rows("Relu", 13, x=I32, expect=np.maximum(I32, 0), warns="but is i32"),
    *rows("Clip", 11, x=I32, low=const(-2, np.int32), expect=np.maximum(I32, -2), warns="but is i32"),
    *rows("Pow", 7, x=X, y=const(3), expect=X**3, warns="but is i64"),
    *rows("Neg", 1, x=INTEGERS, expect=-INTEGERS, warns="but is i64"),
    *rows("Mod", 13, a=X, b=const(-4, np.float32), expect=np.mod(X, np.float32(-4)), warns="fmod=1 before opset 28"),
    *(row for label, s in (("", list32(4, 6)), ("at_execution", ints(4, 6, dtype=np.int32)))
      for row in rows("Reshape", 13, label=label, x=X, s=s, expect=X.reshape(4, 6),
                      warns="'shape' must be one of int64, but is i32")),
    *rows("Expand", 13, x=X, s=list32(2, 1, 1, 1), expect=np.stack([X, X]), warns="but is i32"),
    *rows("Tile", 13, x=X, s=list32(1, 2, 1), expect=np.tile(X, (1, 2, 1)), warns="but is i32"),
    *rows("Unsqueeze", 13, x=X, a=list32(0), expect=X[None], warns="but is i32"),
    *rows("ReduceSum", 13, x=X, a=list32(0), keepdims=0, expect=X.sum(0), warns="but is i32"),
    *rows("Gather", 13, x=X, i=const(1, np.uint8), expect=X[1], warns="must be one of int32, int64, but is u8"),
    *rows("Resize", 13, x=SQUARE, r=const([], np.float32), s=const([1, 1, 2, 2], np.float64),
          expect=SQUARE.repeat(2, 2).repeat(2, 3), warns="must be one of float, but is f64"),
    *(row for dtype in ("int8", "int16", "int32", "int64") for x, y in [(SHIFTED.astype(dtype), BY.astype(dtype))]
      for direction, shift in (("LEFT", np.left_shift), ("RIGHT", np.right_shift))
      for row in rows("BitShift", 17, x=x, y=y, direction=direction, expect=shift(x, y),
                      warns="which it may be from opset 28 on")),
    *rows("Slice", 13, x=X, s=ZERO, e=ONE, a=ONE, expect=X[:, :1], warns=LIST),
    *rows("Slice", 13, x=X, s=np.array(0), e=np.array(3), a=np.array(1), t=np.array(2), expect=X[:, ::2], warns=LIST),
    *rows("Unsqueeze", 13, x=X, a=ONE, expect=X[:, None], warns=LIST),
    *rows("Squeeze", 13, x=X[:1], a=ZERO, expect=X[0], warns=LIST),
    *rows("ReduceSum", 13, x=X, a=ONE, keepdims=0, expect=X.sum(1), warns=LIST),
    *rows("ReduceMax", 18, x=X, a=np.array(1), keepdims=0, expect=X.max(1), warns=LIST),
    *rows("Tile", 13, x=X[0, 0], r=const(2), expect=np.tile(X[0, 0], 2), warns=LIST),
    *rows("Expand", 13, x=X[0, 0, :1], s=const(4), expect=np.repeat(X[0, 0, :1], 4), warns=LIST),
    *rows("Reshape", 13, x=X, s=const(-1), expect=X.reshape(-1), warns=LIST),
    *rows("ConstantOfShape", 13, s=np.array(3), expect=np.zeros(3, np.float32), warns=LIST),
    *rows("ScatterElements", each(16, 17), x=X[0].T.copy(), i=ints(0, 2, 2)[None], u=UPDATES[None],
          reduction=each("max", "min"), expect=reduced, warns="before opset 18"),
    *rows("ScatterND", each(16, 17), x=X.reshape(-1)[:5], i=ints(0, 2, 2)[:, None], u=UPDATES,
          reduction=each("max", "min"), expect=reduced, warns="before opset 18"),
    *graphs("g (float[2, 3, 4] x) => (int64[2, 3, 4] y) { y = Neg (x) }", label="declared_type", x=X, expect=-X,
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
