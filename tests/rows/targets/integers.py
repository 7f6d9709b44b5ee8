"""Integers that float32 does not have, which OpenVINO's CPU plug-in would select, compare and limit in float32."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tests.rows.row import Row, const, rows, several

LARGE = np.array([(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5, -3, (1 << 24) + 3], np.int64)
NUMBERS = {"f": np.array([1, 60, 2, 70, 3, 80], np.float32), "b": np.array([True, False, True, False, False, True])}
BOUNDS = {"fifty": 50, "low": -(1 << 25) - 1, "high": (1 << 29) + 1, "whole": 1 << 24}
STEPS = {
    "a_comparison_of_floats": "c = Less (f, fifty) y = Where (c, i, high)",
    "a_comparison_of_integers": "c = Less (i, high) y = Where (c, i, j)",
    "a_negation": "c = Not (b) y = Where (c, i, j)",
    "a_conjunction": "d = Equal (i, j) c = And (d, b) y = Where (c, high, i)",
    "what_is_added": "t = Add (i, j) c = Less (f, fifty) y = Where (c, t, low)",
    "a_selection_of_a_selection": "c = Not (b) t = Where (c, i, j) d = Less (f, fifty) y = Where (d, t, low)",
    "limits": "t = Max (i, low) y = Min (t, high)",
    "limits_that_are_computed": "t = Max (i, low) y = Min (t, j)",
    "limits_around_arithmetic": "t = Max (i, low) s = Sub (t, j) r = Min (s, high) y = Max (r, low)",
    "limits_that_float32_holds": "t = Max (i, whole) y = Min (t, high)",
}
SHAPES = [((6,), (6,)), ((2, 3), (3,)), ((3,), (2, 3)), ((1, 2, 3), (3,))]


def every_bit() -> Iterator[Row]:
    """Integers of the first shape, and conditions and other integers of the second one."""
    for (label, nodes), kind, shapes in itertools.product(STEPS.items(), (np.int32, np.int64), SHAPES):
        first, second = (int(np.prod(shape)) for shape in shapes)
        values = {
            "i": LARGE[:first].reshape(shapes[0]).astype(kind),
            "j": LARGE[::-1][:second].reshape(shapes[1]).astype(kind),
        }
        values |= {name: value[:second].reshape(shapes[1]) for name, value in NUMBERS.items()}
        values |= {name: const(value, np.float32 if name == "fifty" else kind) for name, value in BOUNDS.items()}
        words = nodes.replace(",", " ").replace("(", " ").replace(")", " ").split()
        yield from several(nodes, label=label, **{name: value for name, value in values.items() if name in words})


SMALL = np.array([[100, -3, 7], [-100, 50, 2]], np.int8)
TOTAL = SMALL.astype(np.int64).sum(1, keepdims=True)
HELD = {
    "ReduceSum": TOTAL,
    "ReduceMean": np.sign(TOTAL) * (np.abs(TOTAL) // 3),
    "ReduceMax": SMALL.max(1, keepdims=True),
}
ROWS = [
    *every_bit(),
    # Integers that float32 holds stay in one layer.
    *(
        row
        for op_type, expected in HELD.items()
        for row in several(
            f"w = Cast <to = 6> (x) y = {op_type} (w, axes)", label=f"held-{op_type}", opset=18, x=SMALL, axes=const([1]),
            layers=["Convert", op_type], expect=expected.astype(np.int32),
        )
    ),
    # The plug-in compiles comparisons of strings and fails in each run; the plain layers stay for other runtimes.
    *rows(
        "Equal", 19, label="strings", x=np.array(["a", "b"], object), z=np.array(["a", "c"], object),
        refused=r"Equal \(.*node.*\)",
    ),
]  # fmt: skip
