"""Transposes in a row become one, and one that moves no axis disappears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rows.row import const, graphs

LEFT, RIGHT, SAME, SWAP, REVERSE = [1, 2, 0], [2, 0, 1], [0, 1, 2], [0, 2, 1], None
SHAPES = ("[2, 3, 4]", "[n, 3, 4]", "[a, b, c]")


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def transpose(result: str, data: str, order: Sequence[int] | None) -> str:
    return f"{result} = Transpose {'' if order is None else f'<perm = {order}>'} ({data})  "


def chain(*orders: Sequence[int] | None, data: str = "x", result: str = "y") -> str:
    """Transposes whose results are t1, t2 ..., and y for the last."""
    names = [data, *(f"t{number}" for number in range(1, len(orders))), result]
    return "".join(transpose(names[i + 1], names[i], order) for i, order in enumerate(orders))


def left(
    label: str, layers: str, nodes: str, x: np.ndarray, dims: Any = SHAPES, outputs: str = "y", **more: Any
) -> Any:
    """Yield a row for each of the declared shapes; "T" stands for a Transpose, "C" for what hands an input on."""
    names = [{"T": "Transpose-1", "C": "Convert-1"}.get(layer, layer) for layer in layers.split()]
    inputs = more.pop("inputs", "")
    for shape in dims:
        text = f"g (float{shape} x{inputs}) => ({outputs}) {{ {nodes} }}"
        yield from graphs(text, label=label, x=x, layers=names, **more)


X = numbers(2, 3, 4)
CHAINS: list[tuple[list[Any], str]] = [
    ([LEFT], "T"), ([SAME], "C"), ([LEFT, SWAP], "T"), ([SWAP, LEFT], "T"), ([LEFT, RIGHT], "C"),
    ([REVERSE, REVERSE], "C"), ([REVERSE, LEFT], "T"), ([LEFT, SAME], "T"), ([SAME, LEFT], "T"), ([SAME, SAME], "C"),
    ([LEFT, LEFT, LEFT], "C"), ([LEFT, LEFT, SWAP], "T"), ([LEFT, RIGHT, SWAP], "T"), ([LEFT] * 5, "T"),
]  # fmt: skip
IF = "y = If (go) <then_branch = a () => (a) {{ {} }}, else_branch = b () => (b) {{ {} }}>"
LOOP = """y = Loop (trips, , x) <body = body (int64 i, bool go, float{0} s) => (bool go_on, float{0} next) {{
    {1} next = Add (c, c)  go_on = Identity (go)
}}>"""
READ = "r = Relu (t1)  z = Neg (r)"
RESHAPED = "r = Reshape (x, target)  y = Transpose <perm = [1, 0, 2]> (r)"
ROWS = [
    *(row for orders, layers in CHAINS for row in left("chain", layers, chain(*orders), X)),
    *left("ranks", "C", chain(REVERSE), numbers(), [""]),
    *left("ranks", "C", chain(REVERSE), numbers(5), ["[5]"]),
    *left("ranks", "T", chain([4, 0, 1, 2, 3], [0, 2, 1, 4, 3]), numbers(2, 1, 3, 1, 2), ["[2, 1, 3, 1, 2]"]),
    *left("ranks", "C", chain([1, 0], [1, 0]), numbers(0, 3), ["[0, 3]"]),
    # Without the first nothing tells the rank.
    *(row for orders, layers in (([SAME], "T"), ([LEFT, RIGHT], "T"), ([LEFT, LEFT, SWAP], "T"), ([REVERSE], "T"),
                                 ([REVERSE, REVERSE], "C"), ([REVERSE, LEFT], "T"), ([LEFT, REVERSE], "T"))
      for row in left("unknown_rank", layers, chain(*orders), X, ["[]"])),
    *(row for orders, layers in (([LEFT, SWAP], "T T"), ([LEFT, RIGHT], "C T"), ([SAME, SAME], "C C"))
      for row in left("inner_value_returned", layers, chain(*orders), X, outputs="y, t1")),
    *left("inner_value_read", "T T ReLU-1 Negative-1", chain(LEFT, SWAP) + READ, X - 9, outputs="y, z"),
    *left("inner_value_read", "C T ReLU-1 Negative-1", chain(LEFT, RIGHT) + READ, X - 9, outputs="y, z"),
    *left("two_readers", "T T ShapeOf-3 Reshape-1 Add-1", chain(LEFT, SWAP, result="a") + transpose("b", "t1", LEFT)
          + "s = Shape (b)  c = Reshape (a, s)  y = Add (b, c)", X, ["[n, 3, 4]"]),
    *(row for go in (True, False) for row in left(
        "branches", "If-8 T", IF.format(chain(LEFT, SWAP, result="a"), chain(LEFT, RIGHT, result="b")), X,
        inputs=", bool go", go=np.array(go))),
    *(row for dims in ("[3, 3, 3]", "[n, n, n]", "[a, b, c]") for row in left(
        "loop", "Loop-5 T Add-1", LOOP.format(dims, chain(LEFT, SWAP, SAME, data="s", result="c")), numbers(3, 3, 3),
        [dims], trips=const(3))),
    # A 0 in a shape means the dimension at its own place.
    *(row for dims, shape in (("5, 1, 2, 3", (5, 1, 2, 3)), ("1, 5, 2, 3", (1, 5, 2, 3)), ("n, 1, 2, 3", (5, 1, 2, 3)),
                              ("1, n, 2, 3", (1, 5, 2, 3)), ("n, 1, m, 3", (5, 1, 2, 3)))
      for row in graphs(f"g (float[{dims}] x) => (y) {{ {RESHAPED} }}", label="reshape", x=numbers(*shape),
                        target=const([0, 0, -1]), expect=numbers(*shape).reshape(*shape[:2], 6).transpose(1, 0, 2))),
]  # fmt: skip
