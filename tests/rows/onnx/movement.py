"""Operators that move elements, and Transposes that meet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rows.layer import ints
from tests.rows.row import InOpset, const, each, graphs, known_or_not, rows

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ONES = X[:1, :, :1]
SIX = np.arange(12, dtype=np.float32).reshape(2, 6)
OPEN = {"x": ["a", None, "c"]}


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def each_axes(kind: Any, *axes: list[int]) -> Any:
    return each(*({"axes": kind(item)} for item in axes))


def split(opset: int, lengths: list[int] | None, count: int) -> dict[str, Any]:
    """The arguments by which an opset states how to split."""
    if lengths is None:
        return {"num_outputs": count} if opset >= 18 else {}
    return {"split": lengths if opset < 13 else const(lengths)}


TILE = "g (float[b, {}] x) => ({}) {{ {} }}"
POOL = "{} = MaxPool <kernel_shape = {}> ({})  "
ROWS = [
    *rows("Reshape", each(5, 13, 14, 19, 21, 23), x=X, s=const(each([4, 6], [-1], [0, -1], [0, 0, 2, 2], [2, 0, 4]))),
    *rows("Reshape", each(5, 13, 14, 19, 21, 23), x=X[:1, :1, :1], s=const([], np.int64)),
    *rows("Reshape", each(5, 13, 14, 19, 21, 23), x=X[:0], s=const([0, 12])),
    *rows("Reshape", 1, x=X, shape=[0, -1, 2]),
    *rows("Reshape", 14, label="allowzero", x=numbers(0, 3, 4), s=const([3, 0, 5]), allowzero=1),
    *rows("Reshape", 14, label="at_execution", x=X, s=ints(0, -1, 2), dims=each(None, OPEN)),
    *rows("Flatten", each(1, 9, 11, 13, 21, 25), x=X, axis=each(0, 1, 2, 3),
          dims=each(None, {"x": ["a", 3, 4]}, {"x": [2, 3, "c"]})),
    *rows("Flatten", 13, label="of_nothing", x=each(*(numbers(*shape) for shape in (
        (0, 3), (2, 0, 3), (3, 0), (2, 3, 0, 4), (0, 3, 2, 4), (2, 0, 3, 4), (0, 3, 0, 4))))),
    *rows("Flatten", 13, label="unknown_rank", x=X, axis=2, dims={"x": None}),
    *rows("Transpose", each(1, 13, 21, 24), x=X, also=each({}, {"perm": [2, 0, 1]}, {"perm": [0, 1, 2]})),
    *rows("Squeeze", each(1, 11), x=ONES, also=each_axes(list, [0], [-1], [0, 2], [2, -3])),
    *rows("Squeeze", each(13, 21, 25), x=ONES, also=each_axes(const, [0], [-1], [0, 2], [2, -3])),
    *rows("Squeeze", each(1, 11, 13, 21, 25), label="everything", x=ONES),
    # An empty list is none to onnxruntime, as an attribute without entries is.
    *graphs("g (float[1, 3, 1] x) => (y) { y = Squeeze <axes: ints = []> (x) }", x=ONES, opset=each(10, 11),
            label="Squeeze_everything_by_empty_axes"),
    *rows("Squeeze", each(13, 21), label="everything_by_empty_axes", x=ONES, axes=const([], np.int64)),
    *rows("Squeeze", each(13, 21), label="everything_by_empty_axes_at_execution", x=ONES, axes=ints()),
    *rows("Squeeze", 13, label="at_execution", x=ONES, axes=ints(-1, 0), dims=each(None, OPEN)),
    # The declared rank of an output tells what is squeezed.
    *(row for label, inputs, outputs, nodes, feeds in (
        ("own_output", "float[n, 1, 4] x", "float[a, 4] y", "y = Squeeze (x)", {"x": numbers(3, 1, 4)}),
        ("what_follows", "float[n, 1, 4] x", "float[a, 4] y", "t = Squeeze (x) y = Relu (t)", {"x": numbers(3, 1, 4)}),
        ("product", "float[n, 4, 1, 1] x, float[4, 3] w", "float[n, 3] y", "t = Squeeze (x) y = MatMul (t, w)",
         {"x": numbers(2, 4, 1, 1), "w": numbers(4, 3)}),
        ("ones", "float[n, 1, 4] x", "float[a] y", "t = Squeeze (x) y = Relu (t)", {"x": numbers(1, 1, 4)}),
        ("second_reader", "float[n, 1, 4] x", "float[n, 4] y, z", "t = Squeeze (x) y = Relu (t) z = Neg (t)",
         {"x": numbers(3, 1, 4)}),
        ("two", "float[n, 1, 4] x", "float[a, 4] y, float[b, 4] z",
         "t = Squeeze (x) y = Relu (t) s = Squeeze (x) z = Neg (s)", {"x": numbers(3, 1, 4)}),
    ) for row in graphs(f"g ({inputs}) => ({outputs}) {{ {nodes} }}", label=f"Squeeze_declared_rank_{label}", opset=13,
                        **feeds)),
    *rows("Unsqueeze", each(1, 11), x=X, also=each_axes(list, [0], [-1], [1, 3], [0, -1, 2])),
    *rows("Unsqueeze", each(13, 21, 25), x=X, also=each_axes(const, [0], [-1], [1, 3], [0, -1, 2])),
    # PyTorch's GroupNorm of data without dimensions in space; OpenVINO's reader refuses such a layer.
    *rows("Unsqueeze", each(13, 25), label="no_axes", x=X, axes=const([], np.int64)),
    *rows("Unsqueeze", 13, label="at_execution", x=each(X, np.array(5, "f4")), axes=ints(1, 0)),
    *rows("Concat", each(1, 4, 11, 13), a=X, b=X[:, :1] + 100, c=X[:, :0], axis=1),
    *rows("Concat", 1, a=X, b=X, expect=np.concatenate([X, X], 1)),
    *rows("Concat", 13, a=X, b=X, axis=each(0, -1), dims={"a": ["n", None, 4], "b": ["n", 3, "k"]}),
    *(row for lengths, axis, count in ((None, 1, 3), ([1, 3, 2], 1, 3), ([0, 6], -1, 2), ([2], 0, 1), (None, 0, 2))
      for opset in (1, 2, 11, 13, 18)
      for row in rows("Split", opset, x=SIX, axis=axis, outputs=count, **split(opset, lengths, count),
                      expect=InOpset(max(2, opset)))),
    *(row for count in (1, 3, 1 << 40, -(1 << 40))
      for row in rows("Split", 18, x=SIX, axis=1, num_outputs=count, outputs=2,
                      refused=f"num_outputs is {count}, but the node has 2 outputs")),
    *rows("Split", 13, label="lengths_at_execution", x=SIX, s=ints(1, 4, 1), axis=1, outputs=3,
          dims=each(None, {"x": ["n", "m"]})),
    *(row for shape, target in (((3, 1), [2, 3, 4]), ((3, 4), [1]), ((3, 4), [3, 1]), ((3, 1), [0]), ((), [2, 2]),
                                ((1, 3), [0, 3]), ((1, 4), [2, 0, 1]), ((0, 1), [1, 0]))
      for label, s, dims in (("of_nothing" if 0 in shape else "", const(target), None),
                             ("at_execution", ints(*target), {"x": [None] * len(shape)}))
      for row in rows("Expand", each(8, 13), label=label, x=numbers(*shape), s=s, dims=dims)),
    *rows("Tile", 13, label="partly_known", also=each(*({"x": numbers(*shape), "r": const(repeats),
          "dims": {"x": [None if unknown >> i & 1 else n for i, n in enumerate(shape)]}} for shape in ((2, 1, 4, 3),
          (3, 1, 1, 2, 2), (1, 2, 3)) for unknown in (0b1, 0b100, 0b1001,
          0b11111) for repeats in itertools.product((1, 2), repeat=len(shape))))),
    # A layer before it decides in which layout the plug-in stores the data.
    *(row for rank in (4, 5) for channels in ("1", "c")
      for dims, kernel in [(", ".join([channels, "d", "e", "f"][: rank - 1]), [1] * (rank - 2))]
      for label, text in (
          ("Expand", TILE.format(dims, "y", "s = Shape (x)  same = Expand (x, s)  y = Tile (same, r)")),
          ("MaxPool", TILE.format(dims, "z", POOL.format("same", kernel, "x") + "y = Tile (same, r)  "
                                  + POOL.format("z", kernel, "y"))))
      for row in graphs(text, label=f"one_channel_behind_{label}", x=numbers(2, 1, *(3, 4, 2)[: rank - 2]),
                        r=const(each(*(ints(*(times if i == axis else 1 for i in range(rank)))
                                       for axis in range(rank) for times in (2, 3)))))),
    *rows("Tile", each(6, 13), x=X, r=known_or_not([1, 1, 1], [2, 1, 3], [1, 0, 2])),
    *rows("Tile", 1, x=X, tiles=each(const(np.float32(3)), np.array(3, np.float32)), axis=const(np.float32(1)),
          expect=np.tile(X, (1, 3, 1))),
    *rows("Shape", each(1, 13, 15, 21, 25), x=X),
    *rows("Size", each(1, 13, 15, 21, 25), x=X),
    *rows("Reshape", 13, x=X, s=const([5, 5]), refused="do not fit"),
    *rows("Reshape", 13, x=X, s=const([-1, -1]), refused="at most one dimension may be -1"),
    *rows("Reshape", 14, x=X, s=const([0, -1]), allowzero=1, refused="both 0 and -1"),
    *rows("Reshape", 1, x=X, refused="'shape' is missing"),
    *rows("Flatten", 13, x=X, axis=4, refused="axis 4 lies outside"),
    *rows("Transpose", 13, x=X, perm=[0, 0, 1], refused="is not an order"),
    *rows("Squeeze", 11, x=X, axes=[1], refused="is not 1"),
    *rows("Unsqueeze", 11, x=X, axes=[0, 0], refused="twice"),
    *rows("Split", 13, x=X, s=const([1, 2]), axis=1, refused="2 lengths are given for 1"),
    *rows("Split", 13, x=X, s=const([2]), axis=1, refused="do not add up"),
    *rows("Tile", 13, x=X, r=const([2]), refused="repeats are given for"),
    *rows("Concat", 13, a=numbers(2, 3), b=numbers(4, 3), axis=1, refused=r"node 'node' \(Concat, opset 13\)"),
    *rows("DepthToSpace", 13, x=X, blocksize=2, refused="must have 4 dimensions"),
]  # fmt: skip

LEFT, RIGHT, SAME, SWAP, REVERSE = [1, 2, 0], [2, 0, 1], [0, 1, 2], [0, 2, 1], None
SHAPES = ("[2, 3, 4]", "[n, 3, 4]", "[a, b, c]")


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


CHAINED = numbers(2, 3, 4)
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
ROWS += [
    *(row for orders, layers in CHAINS for row in left("chain", layers, chain(*orders), CHAINED)),
    *left("ranks", "C", chain(REVERSE), numbers(), [""]),
    *left("ranks", "C", chain(REVERSE), numbers(5), ["[5]"]),
    *left("ranks", "T", chain([4, 0, 1, 2, 3], [0, 2, 1, 4, 3]), numbers(2, 1, 3, 1, 2), ["[2, 1, 3, 1, 2]"]),
    *left("ranks", "C", chain([1, 0], [1, 0]), numbers(0, 3), ["[0, 3]"]),
    # Without the first nothing tells the rank.
    *(row for orders, layers in (([SAME], "T"), ([LEFT, RIGHT], "T"), ([LEFT, LEFT, SWAP], "T"), ([REVERSE], "T"),
                                 ([REVERSE, REVERSE], "C"), ([REVERSE, LEFT], "T"), ([LEFT, REVERSE], "T"))
      for row in left("unknown_rank", layers, chain(*orders), CHAINED, ["[]"])),
    *(row for orders, layers in (([LEFT, SWAP], "T T"), ([LEFT, RIGHT], "C T"), ([SAME, SAME], "C C"))
      for row in left("inner_value_returned", layers, chain(*orders), CHAINED, outputs="y, t1")),
    *left("inner_value_read", "T T ReLU-1 Negative-1", chain(LEFT, SWAP) + READ, CHAINED - 9, outputs="y, z"),
    *left("inner_value_read", "C T ReLU-1 Negative-1", chain(LEFT, RIGHT) + READ, CHAINED - 9, outputs="y, z"),
    *left("two_readers", "T T ShapeOf-3 Reshape-1 Add-1", chain(LEFT, SWAP, result="a") + transpose("b", "t1", LEFT)
          + "s = Shape (b)  c = Reshape (a, s)  y = Add (b, c)", CHAINED, ["[n, 3, 4]"]),
    *(row for go in (True, False) for row in left(
        "branches", "If-8 T", IF.format(chain(LEFT, SWAP, result="a"), chain(LEFT, RIGHT, result="b")), CHAINED,
        inputs=", bool go", go=np.array(go))),
    *(row for dims in ("[3, 3, 3]", "[n, n, n]", "[a, b, c]") for row in left(
        "loop", "Loop-5 T Add-1", LOOP.format(dims, chain(LEFT, SWAP, SAME, data="s", result="c")), numbers(3, 3, 3),
        [dims], trips=const(3))),
    # A 0 in a shape means the dimension at its own place.
    *(row for dims, shape in (("5, 1, 2, 3", (5, 1, 2, 3)), ("1, 5, 2, 3", (1, 5, 2, 3)), ("n, 1, 2, 3", (5, 1, 2, 3)),
                              ("1, n, 2, 3", (1, 5, 2, 3)), ("n, 1, m, 3", (5, 1, 2, 3)))
      for row in graphs(f"g (float[{dims}] x) => (y) {{ {RESHAPED} }}", label="reshape", x=numbers(*shape),
                        target=const([0, 0, -1]))),
]  # fmt: skip
