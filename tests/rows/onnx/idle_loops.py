"""Loops whose body never runs, a condition that is false or a trip count of 0, are no Loop of the IR."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.rows.row import Row, const, several

X, START = np.ones((2, 3), np.float32), np.full((2, 3), 3, np.float32)
NOTHING = [START, np.zeros((0, 2, 3), np.float32), np.zeros(0, np.int32)]
LOOP = """{0} = Loop ({1}, {2}, s0) <body = b (int64 i, bool before, float{3} s) =>
    (bool again, float{3} t, float{3} positive, int32 number) {{
        t = Add (s, x) positive = Relu (t) number = Cast <to = 6> (i) again = Identity (before) }}>"""
"""A sum as a loop-carried value, its positive part and the number of the iteration, which are joined."""
CONTROL: dict[str, dict[str, Any]] = {
    "no_trips": {"m": np.int64(0)},
    "no_trips_of_a_list": {"m": np.array([0])},
    "fewer_than_no_trips": {"m": np.int64(-2), "c": np.bool_(True)},
    "false": {"c": np.bool_(False)},
    "false_some_trips": {"m": np.int64(3), "c": np.bool_(False)},
    "both": {"m": np.int64(0), "c": np.bool_(False)},
}
"""Trip counts and conditions, as far as there are some."""
ENDS = "end, positives, numbers"
ELSEWHERE = """other = Neg (s0) others = Unsqueeze (s0, first) five = Constant <value_ints = [5]> ()
    cast = Cast <to = 6> (five)"""


def loop(control: Any, outputs: str = ENDS, dims: str = "[2, 3]") -> str:
    return LOOP.format(outputs, *(name if name in control else "" for name in "mc"), dims)


def idle(label: str, nodes: str, expect: Any = NOTHING, outputs: str = ENDS, **arguments: Any) -> Iterator[Row]:
    constants = {name: const(value) if name in ("m", "c") else value for name, value in arguments.items()}
    for row in several(nodes, label=label, outputs=outputs, x=X, s0=START, expect=expect, **constants):
        yield replace(row, absent="Loop", group="idle")


def inside_an_if() -> Iterator[Row]:
    kinds = ("float[]", "float[]", "int32[]")
    then, otherwise = (", ".join(map(" ".join, zip(kinds, names))) for names in ("abd", ("other", "others", "cast")))
    nodes = "{0} = If (choice) <then_branch = t () => ({1}) {{ {2} }}, else_branch = e () => ({3}) {{ {4} }}>"
    for name, choice in itertools.product(("no_trips", "false", "both"), (True, False)):
        text = nodes.format(ENDS, then, loop(CONTROL[name], "a, b, d"), otherwise, ELSEWHERE)
        yield from idle(
            f"if-{name}", text, None, choice=np.array(choice), first=const([0]), **CONTROL[name]
        )  # fmt: skip


FOLDED = "m = Sub (a, a) c = Less (a, a)"
BY_SHAPE = "shape = Shape (rows) m = Gather (shape, zero) c = Greater (m, zero)"
ROWS = [
    *(
        row
        for (name, control), opset in itertools.product(CONTROL.items(), (8, 11, 13, 21))
        for row in idle(f"{name}-{opset}", loop(control), opset=opset, **control)
    ),
    *inside_an_if(),
    *idle("folded", f"{FOLDED} {loop('mc')}", a=const(np.int64(4))),
    *(
        row
        for control in ("m", "c", "mc")
        for row in idle(f"declared-{control}", f"{BY_SHAPE} {loop(control)}", rows=np.zeros((0, 5), np.float32), zero=const(np.int64(0)))
    ),
    *idle("undeclared", loop("m", dims="[]"), m=np.int64(0)),
]  # fmt: skip
