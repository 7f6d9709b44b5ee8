"""A model's functions, nested, with attributes and defaults; and those of ONNX's schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, const, graphs, rows

X = np.array([[-1, 0.5, 2], [3, -4, 0]], np.float32)
HEAD = '<domain: "acme", opset_import: ["" : 18, "acme" : 1]>'
LEAK = HEAD + " Leak <slope> (a) => (b) { [inner] b = LeakyRelu <alpha: float = @slope> (a) }"
TWICE = (
    HEAD
    + """ Twice (a) => (b) {
    [first] t = acme.Leak <slope = 0.5> (a)  [second] b = acme.Leak <slope = 0.1> (t)
}"""
)
LIMITS = (
    HEAD
    + " Limit (a, low, high) => (b) { b = Clip (a, low, high) } "
    + HEAD
    + """ Outer (a, low, high) => (b) {
    l = acme.Limit (a, low, high)  total = ReduceSum <keepdims = 0> (a)  no = Greater (total, total)
    i = If (no) <then_branch = then () => (float[] c) { c = Clip (a, low, high) },
                 else_branch = else () => (float[] d) { d = Clip (a, low, high) }>
    b = Add (l, i)
}"""
)
"""Inputs that are missing in a call are missing in a nested one, and in the bodies of an If."""


def calls(label: str, nodes: str, *functions: str, outputs: str = "float[p, q] y", **more: Any) -> Iterator[Row]:
    """Yield a model that calls functions of the domain ``acme``."""
    text = f"g (float[2, 3] x) => ({outputs}) {{ {nodes} }} {' '.join(functions)}"
    yield from graphs(text, label=label, opset=18, domain="acme", x=X, **more)


ROWS = [
    *calls("nested", "[call] y = acme.Twice (x)", TWICE, LEAK),
    *calls("default", "y = acme.Leak (x)", LEAK.replace("<slope>", "<slope: float = 0.25>")),
    *calls("unused_output", "n, , p = acme.Both (x)", HEAD + " Both (a) => (n, none, p) { n = Neg (a)  p = Abs (a) }",
           outputs="n, p", expect=[-X, np.abs(X)]),
    *(row for inputs in ("x", "x, ,", "x, , ,", "x, low", "x, , high") for row in calls(
        f"left_out_{inputs.replace(' ', '').replace(',', '_')}", f"y = acme.Outer ({inputs})", LIMITS,
        low=const(-0.75, np.float32), high=const(1.5, np.float32))),
    *calls("recursion", "y = acme.Loop (x)", HEAD + " Loop (a) => (b) { b = acme.Loop (a) }", refused="deep"),
    *calls("inputs", "[call] y = acme.Leak (x, x)", LEAK, refused="node 'call'.*takes 1 inputs"),
    *calls("attribute", "[call] y = acme.Leak <alpha = 1.0> (x)", LEAK, refused="node 'call'.*no attribute 'alpha'"),
    *calls("unknown", "y = acme.Bad (x)", HEAD + " Bad (a) => (b) { [inner] b = NoSuchOp (a) }",
           refused=r"node 'inner' \(NoSuchOp"),
    *rows("MeanVarianceNormalization", 13, x=X, axes=[1]),
]  # fmt: skip
