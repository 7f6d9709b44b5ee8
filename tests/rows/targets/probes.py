"""The probes of the rules for OpenVINO: what the rules make of each computes the same, in every runtime."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tests.converter.targets.probes import ALL
from tests.converter.targets.probes.computation import attention
from tests.converter.targets.probes.rows import ints, numbers
from tests.rows.row import Row, const, rows, several

ROWS = [
    replace(
        probe.row,
        name=probe.name.replace(": ", "-").replace(" ", "_").translate(str.maketrans("", "", "[]")),
        group="probes",
    )
    for probe in ALL
]

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
ROWS += [
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

TILED = [
    ((7, 3, 1, 5, 4), (2, 1, 2, 1, 2)),
    ((2, 3, 1, 5, 4), (2, 3, 2, 1, 2)),
    ((7, 3, 2, 5), (2, 2, 2, 2)),
    ((7, 3, 1, 5), (2, 1, 2, 0)),
    ((7, 3, 4), (2, 1, 3)),
    ((2, 1, 3, 2, 1, 4), (2, 2, 1, 1, 3, 1)),
]
"""The layers that replace Tile after arithmetic have no more dimensions than the plug-in computes correctly."""
DIVIDED = "q = Div (x, n) y = Tile (q, r)"
QUERIES = [(1, 2, 2, 2, 8), (3, 4, 4, 9, 16), (1, 8, 8, 8, 32), (2, 4, 5, 4, 8)]


def weighted() -> Iterator[Row]:
    """Weights and values of other ranks: a vector of weights gives no dimension to the product."""
    for count, values, weights, scores in itertools.product(
        (1, 5), ((), (2,), (1, 2)), ((), (3,), (2, 3)), ("s = Identity (q)", "s = MatMul (q, k)")
    ):
        feeds = {"q": numbers(*weights, count) / 9, "v": numbers(*values, count, 4)}
        if "k" in scores:
            feeds["k"] = numbers(count, count) / 30
        yield from several(f"{scores} w = Softmax (s) y = MatMul (w, v)", label="weights_of_other_ranks", **feeds)


SECOND = {"Conv": ", w", "Add": ", b", "Mul": ", v0", "Abs": ""}


def gated(
    activation: str, *between: str, x: np.ndarray, shape: Sequence[str | int], outputs: str = "y"
) -> Iterator[Row]:
    """Squeeze-and-excitation as in MobileNet: ``activation``, layers with constants, HardSigmoid, and the product."""
    nodes = f"v0 = GlobalAveragePool (x) v1 = {activation} (v0{', low, high' if activation == 'Clip' else ''})"
    for index, op_type in enumerate(between, 1):
        nodes += f" v{index + 1} = {op_type} (v{index}{SECOND[op_type]})"
    nodes += f" s = HardSigmoid <alpha = 0.16666667> (v{len(between) + 1}) y = Mul (x, s)"
    constants = {"w": numbers(8, 8, 1, 1), "b": numbers(8, 1, 1), "low": np.float32(0), "high": np.float32(6)}
    used = {name: const(value) for name, value in constants.items() if f", {name}" in nodes}
    return several(
        nodes, label=f"gated-{activation}-{'-'.join(between)}", dims={"x": shape}, outputs=outputs, x=x, **used
    )


GATES: list[tuple[tuple[str, ...], bool]] = [
    (("Relu", "Conv", "Add"), True),
    (("Clip", "Conv"), True),
    (("Relu",), True),
    (("Tanh", "Conv", "Add"), False),
    (("Relu", "Conv", "Mul"), False),
    (("Relu", "Conv", "Abs"), False),
]
"""Layers in front of HardSigmoid, and whether no NaN comes through them, so that it stays one layer."""
OPEN = ["n", 8, "h", "w"]
NAN = np.array([np.nan, 1, -5, 5, 0.3], np.float32)
ROWS += [
    *(
        row
        for (shape, repeats), at in itertools.product(TILED, (const, np.asarray))
        for row in several(
            DIVIDED, label=f"tiled-{at is const}", x=numbers(*shape), n=np.asarray(np.float32(4)), r=at(ints(*repeats))
        )
    ),
    *(row for is_fused, dims in itertools.product((False, True), QUERIES) for row in attention(is_fused, dims)),
    *(row for is_fused in (False, True) for row in attention(is_fused, transposed=True)),
    *weighted(),
    *(row for layers, _ in GATES for row in gated(*layers, x=numbers(2, 8, 5, 5), shape=OPEN)),
    *several("s = HardSigmoid <alpha = 0.16666667> (x) y = Mul (x, s)", label="gate", x=NAN, layers=["HSwish"]),
]  # fmt: skip
