"""Layers that change nothing, or what the next one changes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rows.formula import WIDE, Graph, Idiom, Shape, Value, X, spelled

INT8, INT16, INT32, INT64, FLOAT, FLOAT8 = 3, 5, 6, 7, 1, 17


def neutral(g: Graph, *shape: int, value: float | None = None) -> Value:
    """abs(x) with 0 added or taken away, or times or divided by 1, twice."""
    result = g.Abs(g.x)
    for _ in range(2):
        op_type, wanted = g.chance.choice([("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)])
        other = np.full(shape, float(wanted if value is None else value))
        result = (g.node if op_type in ("Sub", "Div") else g.either)(op_type, result, other)
    return result


def reshapes(g: Graph, *last: int, shared: bool = False) -> Value:
    """Three changes of the shape behind one another."""
    value, last = g.x, last or (-1, 6)
    for _ in range(2):
        if g.chance.random() < 0.5 and last[0] and not shared:
            value = g.Unsqueeze(value, [g.chance.randrange(3)])
        else:
            value = g.Reshape(value, g.chance.choice([[-1, 4, 2], [6, -1], [-1, 3, 2, 4]]))
    result = g.Reshape(value, list(last))
    return g.Add(result, g.Reshape(g.Exp(value), list(last))) if shared else result


def reshaped_and_back(g: Graph, between: list[int], *last: list[int]) -> Value:
    """Rows of 8 in another shape, whose first dimensions the next Reshape takes over."""
    return g.Reshape(g.Reshape(g.x @ (np.eye(8) * 2), between), g.chance.choice(last))


def idle(g: Graph) -> Value:
    """abs(x) through two or three layers that change nothing."""
    some = g.chance.choice
    ways: list[Any] = [
        lambda value: g.Concat(value, axis=some(range(3))),
        lambda value: g.Neg(g.Neg(value)),
        lambda value: g.Slice(value, [0], [2**63 - 1], [some(range(3))], [1]),
        lambda value: g.Reshape(value, some([g.Shape(value), [0, -1, 8]])),
        lambda value: g.Squeeze(g.Unsqueeze(value, [1]), [1]),
        lambda value: g.Squeeze(g.Unsqueeze(value, [0]), [0]),
        lambda value: g.Tile(value, [1, 1, 1]),
        lambda value: g.Expand(value, some([g.Shape(value), [1] * some([1, 2, 3])])),
        lambda value: g.Pow(value, 1),
        lambda value: g.Pad(value, [0] * 6, mode=some(["constant", "reflect", "edge"])),
    ]
    value = g.Abs(g.x)
    for way in g.chance.sample(ways, some([2, 3])):
        value = way(value)
    return value


def expanded(g: Graph, other: Value | None = None) -> Value:
    """z in the shape of abs(x), and then both."""
    value = g.Abs(g.x)
    shape = g.Shape(other or value)
    if other is None:
        shape = g.one_of(lambda: shape, lambda: g.Concat([1], g.Slice(shape, [1], [3]), axis=0))
    return g.Expand(g.z, shape) + value


def converts(g: Graph) -> Value:
    """A comparison as numbers by way of other types."""
    value = g.Less(g.Abs(g.x), 0.5)
    for kind in g.chance.choice([[INT32], [INT64, INT32], [FLOAT, INT32], [INT8, INT64]]):
        value = g.Cast(value, to=kind)
    return g.Cast(value, to=g.kind)


def widened(g: Graph, *types: int) -> Value:
    value = g.n
    for kind in types or g.chance.choice([[INT64], [INT64, INT32], [INT32, INT64]]):
        value = g.Cast(value, to=kind)
    return g.Add(g.x, g.Cast(value, to=g.kind))


def in_a_row(g: Graph, op_type: str, *values: float) -> Value:
    """Constants one after the other, of one number or of one for each column."""
    result = g.x
    for value in values:
        result = g.either(op_type, result, np.full(g.chance.choice([(), (1,), (8,), (1, 8)]), float(value)))
    return result


def put_back(g: Graph, at: Sequence[int] = (1,), to: Sequence[int] = (-1, 1)) -> Value:
    """A maximum that drops dimension 1, which is put back; ``at`` and ``to`` spoil where."""
    dropped = g.ReduceMax(g.x, axes=[g.chance.choice([1, -1])], keepdims=0)
    return g.one_of(lambda: g.Unsqueeze(dropped, list(at)), lambda: g.Reshape(dropped, list(to)))


def reduced_and_widened(g: Graph, other: Value | None = None) -> Value:
    """A maximum that is widened to the shape of x, or to that of another value of that shape."""
    return g.either("Sub", g.x, g.Expand(g.ReduceMax(g.x, axes=[1]), g.Shape(other or g.x)))


def concats(g: Graph, inner: int = 1, shared: bool = False) -> Value:
    """x, its absolute values, and both again, along axis 1; ``inner`` spoils the axis of the first."""
    value, some = g.Abs(g.x), g.chance.choice
    first = g.Concat(g.x, value, axis=some([inner, inner - 3]))
    other = g.Concat(value, value, axis=some([1, -2])) if inner == 1 else first
    last = g.Concat(*g.chance.sample([first, other], 2), axis=some([1, -2]))
    return g.Concat(last, g.Tanh(first), axis=1) if shared else last


def put_in(g: Graph, at: int, target: list[int]) -> Value:
    """A Reshape, and then a dimension of 1 that is put in."""
    return g.Unsqueeze(g.Reshape(g.x, target), [g.chance.choice([at, at - len(target) - 1])])


def taken_out(g: Graph, at: int, target: list[int]) -> Value:
    return g.Squeeze(g.Reshape(g.x, target), [g.chance.choice([at, at - len(target)])])


def unsqueezes(g: Graph) -> Value:
    return g.Unsqueeze(g.Unsqueeze(g.Abs(g.x), [g.chance.randrange(4)]), g.chance.sample(range(6), 2))


def unsqueezes_of_one(g: Graph, other: str = "Unsqueeze") -> Value:
    """Two Unsqueezes read one; with another operator for one of them."""
    first = g.Unsqueeze(g.Abs(g.x), [g.chance.choice([1, -2])])
    return g.Unsqueeze(first, [0]) + (g.Unsqueeze(first, [1]) if other == "Unsqueeze" else g.node(other, first))


def broadcast_number(g: Graph, *others: float) -> Value:
    """A number in a shape that is computed, and another one."""
    wide = g.Expand(1.5, g.Concat(g.Unsqueeze(g.count, [0]), [8], axis=0))
    number = np.array(others, float) if others else np.full(g.chance.choice([(), (1,), (1, 1)]), 0.5)
    number = g[g.name_of(number)]
    value = g.node(g.chance.choice(["Add", "Sub", "Mul", "Div"]), wide, number)
    if g.chance.random() < 0.5 and not others:
        value = g.Cast(g.Cast(g.Greater(value, number), to=INT32), to=g.kind)
    return g.Concat(g.x, value, axis=0)


def condition_in_shape(g: Graph, other: Value | None = None) -> Value:
    """A condition in the shape of what it chooses from."""
    value = g.Abs(g.x)
    return g.Where(g.Expand(g.n, g.Shape(other or value)), *g.chance.sample([value, -2.5], 2))


def neutral_conditions(g: Graph, *shape: int, decides: bool = False) -> Value:
    """x where a condition holds; ``decides`` turns the constants that decide nothing into those that decide all."""
    condition = g.Less(g.x, 0.2)
    for op_type, value in g.chance.sample([("And", True), ("Or", False)], 2):
        condition = g.either(op_type, condition, np.full(shape, value ^ decides))
    return g.Where(condition, g.x, 2)


def negated(g: Graph, shared: bool = False) -> Value:
    """A number where a condition does not hold, and x where it does."""
    above = g.Not(g.Less(g.x, 0.2))
    chosen = g.Where(above, *g.chance.sample([g.x, -3], 2))
    return g.Where(g.Or(above, g.n), chosen, 7) if shared else chosen


def nested_choices(g: Graph, *shape: int, opposite: bool = False) -> Value:
    """A choice within a choice by the same condition; ``opposite`` puts it where the condition does not hold."""
    condition, is_first = g.Less(g.x, 0.2), g.chance.random() < 0.5
    first, never = np.full(g.chance.choice([(), (1,)]), -3.0), np.full(shape, 5.0)
    inner = g.Where(condition, *([g.x, never] if is_first != opposite else [never, g.x]))
    return g.Where(condition, *([inner, first] if is_first else [first, inner]))


def any_ones(build: Any) -> Any:
    """Build with a shape of no more dimensions than x has, all of them 1."""
    return lambda g: build(g, *[1] * g.chance.choice([0, 1, 3]))


def gathered(g: Graph, indices: Sequence[int]) -> Value:
    return g.Gather(g.Abs(g.x), list(indices), axis=2)


COUNTED = {"inputs": {"x": (2, 8), "count": ()}, "dtypes": {"count": np.int64}, "may_be_dynamic": False}
CHOSEN: dict[str, Shape] = {"x": (2, 3, 8), "n": (3, 1)}
PAIR = {"inputs": {"x": (2, 3), "n": (2, 3)}, "dtypes": {"n": np.int32}}
LARGER = {"x": (1, 3, 1), "w": (4, 3, 8)}
ROW: dict[str, Shape] = {"x": (3, 8)}
IDIOMS = {
    "conditions that decide nothing": Idiom(any_ones(neutral_conditions), "Less Select"),
    "a negated condition": Idiom(negated, "Less Select"),
    "choices by one condition": Idiom(any_ones(nested_choices), "Less Select"),
    "concats in a row": Idiom(concats, "Abs Concat"),
    "a one behind a reshape": Idiom(
        lambda g: put_in(g, g.chance.choice([1, 2]), g.chance.choice([[0, -1], [0, 24]])), "Reshape"
    ),
    "a one out of a reshape": Idiom(lambda g: taken_out(g, 1, g.chance.choice([[0, 1, -1], [-1, 1, 8]])), "Reshape"),
    "ones in a row": Idiom(unsqueezes, "Abs Unsqueeze"),
    "ones behind a one": Idiom(unsqueezes_of_one, "Abs Unsqueeze Unsqueeze Add"),
    "a number that is broadcast": Idiom(broadcast_number, "Unsqueeze Concat Broadcast Concat", **COUNTED),
    "a condition in the shape of an operand": Idiom(condition_in_shape, "Abs Select", CHOSEN, {"n": np.bool_}),
    "an operand in the shape of the other": Idiom(expanded, "Abs Add", {"x": (2, 3, 8), "z": (3, 1)}),
    "a gather of everything": Idiom(
        lambda g: g.Gather(g.x @ (np.eye(8, 4) * 2), [0, 1, 2, 3], axis=g.chance.choice([2, -1])), "MatMul"
    ),
    "idle layers": Idiom(idle, "Abs"),
    "conversions of a comparison": Idiom(converts, "Abs Less Convert", types=WIDE),
    "conversions that widen": Idiom(widened, "Convert Add", **PAIR),
    "factors in a row": Idiom(lambda g: in_a_row(g, "Mul", 0.3, 1.5, -1.1), "Multiply"),
    "summands in a row": Idiom(lambda g: in_a_row(g, "Add", 0.3, 1.5, 2.1), "Add"),
    "neutral numbers": Idiom(neutral, "Abs"),
    "neutral constants": Idiom(lambda g: neutral(g, 1), "Abs"),
    "neutral constants of as many dimensions": Idiom(lambda g: neutral(g, 1, 1, 1), "Abs"),
    "reshapes in a row": Idiom(reshapes, "Reshape"),
    "reshapes that take dimensions over, and back": Idiom(
        lambda g: reshaped_and_back(
            g, g.chance.choice([[0, 0, 2, 4], [0, 0, -1, 2], [0, 0, 8, 1]]), [0, 0, 8], [0, 0, -1]
        ),
        "MatMul",
    ),
    "reshapes that take dimensions over": Idiom(
        lambda g: reshaped_and_back(g, [0, 0, 2, 4], [0, 0, 4, 2], [0, -1, 4]), "MatMul Reshape"
    ),
    "a widened operand": Idiom(lambda g: -reduced_and_widened(g), "ReduceMax Subtract Negative"),
    "a dimension that is put back": Idiom(put_back, "ReduceMax", ROW),
}


def miss(build: Any, count: int = 2, inputs: Any = X, **what: Any) -> Idiom:
    return Idiom(build, inputs=inputs, count=count, **what)


HALF = 10
BOOLEAN = {"n": np.bool_}
NEAR_MISSES = {
    "conditions that decide": miss(lambda g: neutral_conditions(g, 3, 8, decides=True), 4),
    "conditions that widen": miss(lambda g: neutral_conditions(g, 4, 1, 3, 8), 3),
    "a negated condition that is read elsewhere": miss(
        lambda g: negated(g, shared=True), 5, {"x": (2, 3, 8), "n": (3, 8)}, dtypes=BOOLEAN
    ),
    "choices of the opposite": miss(lambda g: nested_choices(g, opposite=True), 3),
    "choices that widen": miss(lambda g: nested_choices(g, 4, 1, 3, 8), 3),
    "concats along two axes": miss(lambda g: concats(g, 2), 3),
    "a concat that is read elsewhere": miss(lambda g: concats(g, shared=True), 4),
    "ones behind a one that is read elsewhere": miss(lambda g: unsqueezes_of_one(g, "Exp"), 5),
    "a one in front of a dimension that is taken over": miss(lambda g: put_in(g, 0, [0, -1])),
    "a one that a reshape computes": miss(lambda g: taken_out(g, 1, [6, -1, 8]), may_be_dynamic=False),
    "a one in front of a dimension that would be taken over": miss(lambda g: taken_out(g, 0, [1, 0, -1])),
    "a number that is broadcast beside several": miss(lambda g: broadcast_number(g, *range(1, 9)), 5, **COUNTED),
    "a condition in a larger shape": miss(
        lambda g: condition_in_shape(g, g.w), 4, {**LARGER, "n": (3, 1)}, dtypes=BOOLEAN, may_be_dynamic=False
    ),
    "an operand in a larger shape": miss(
        lambda g: expanded(g, g.w), 4, {**LARGER, "z": (3, 1)}, may_be_dynamic=False
    ),
    "a conversion that rounds": miss(lambda g: g.Cast(g.Cast(g.x, to=HALF), to=FLOAT)),
    "a conversion that cuts off": miss(lambda g: g.Cast(g.Cast(g.x, to=INT32), to=FLOAT)),
    "a conversion that wraps": miss(lambda g: widened(g, INT8), 3, **PAIR),
    "a conversion to few bits": miss(
        lambda g: g.Cast(g.Cast(g.n, to=FLOAT8, saturate=0), to=FLOAT), 3, {"n": (2, 3)}, dtypes={"n": np.int16},
        opset=23,
    ),
    "factors that are too large": miss(lambda g: in_a_row(g, "Mul", 1e30, 1e-30)),
    "summands that cancel out": miss(lambda g: in_a_row(g, "Add", 1e8, -1e8)),
    "a slice that takes less": miss(lambda g: g.Slice(g.Abs(g.x), [1], [2**31 - 1], [2], [1])),
    "a gather in another order": miss(lambda g: gathered(g, [0, 2, 1, 3, 4, 5, 6, 7])),
    "a gather of as many as there are today": miss(lambda g: gathered(g, range(8)), may_be_dynamic=False),
    "a gather of the first": miss(lambda g: gathered(g, range(7))),
    "a tile that repeats": miss(lambda g: g.Tile(g.Abs(g.x), [1, 2, 1])),
    "a shape that widens": miss(lambda g: g.Expand(g.Abs(g.x), [1, 1, 1, 1])),
    "a shape that widens what is transposed": miss(
        lambda g: g.Expand(g.Transpose(g.Abs(g.x), perm=[2, 1, 0]), [1] * g.chance.choice([4, 5])), 3
    ),
    "a shape that is another": miss(lambda g: g.Reshape(g.Abs(g.x), [0, -1, 4])),
    "other numbers": miss(lambda g: neutral(g, value=0.5), 3),
    "constants that widen": miss(lambda g: neutral(g, 4, 1, 3, 8)),
    "constants that would widen a dimension of 1": miss(lambda g: neutral(g, 3, 1)),
    "a dimension that is taken over": miss(lambda g: reshapes(g, 0, -1, 1)),
    "a dimension that is put back elsewhere": miss(lambda g: put_back(g, [0], [1, -1]), 2, ROW),
    "a dimension that is put back twice": miss(lambda g: put_back(g, [1, 2], [-1, 1, 1]), 2, ROW),
    "an operand that is widened to another shape": miss(
        lambda g: reduced_and_widened(g, g.x @ np.ones((8, 8))), 5
    ),
    "a reshape that takes over what the one before it made": miss(
        lambda g: reshaped_and_back(g, [0, 8, 3], [0, 0, 3, 1], [0, 0, -1, 3]), 3
    ),
    "a reshape that takes over a product of dimensions": miss(
        lambda g: reshaped_and_back(g, [-1, 3, 4], [0, 0, 2, 2], [0, 12]), 3
    ),
    "a shape in between that is read": miss(lambda g: reshapes(g, shared=True), 5),
}  # fmt: skip
ROWS = spelled(IDIOMS, NEAR_MISSES)
