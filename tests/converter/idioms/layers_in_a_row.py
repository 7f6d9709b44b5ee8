"""Layers that change nothing, or what the next one changes again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from .graphs import Graph, Idiom, NearMiss


def neutral(graph: Graph, chance: random.Random, *, shape: tuple[int, ...] = (), value: float | None = None) -> str:
    """abs(x) with 0 added or taken away, or times or divided by 1, twice."""
    result = graph("Abs", "x")
    for _ in range(2):
        op_type, wanted = chance.choice([("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)])
        other = graph.constant(np.full(shape, wanted if value is None else value))
        ordered = op_type in ("Sub", "Div")
        result = graph(op_type, result, other) if ordered else graph.either_way(op_type, result, other, chance)
    return result


def reshapes(graph: Graph, chance: random.Random, *, last: Sequence[int] = (-1, 6), shared: bool = False) -> str:
    """Three changes of the shape behind one another."""
    value = "x"
    for _ in range(2):
        if chance.random() < 0.5 and last[0] and not shared:
            value = graph("Unsqueeze", value, graph.constant([chance.randrange(3)], np.int64))
        else:
            value = graph(
                "Reshape", value, graph.constant(chance.choice([[-1, 4, 2], [6, -1], [-1, 3, 2, 4]]), np.int64)
            )
    result = graph("Reshape", value, graph.constant(last, np.int64))
    return (
        graph("Add", result, graph("Reshape", graph("Exp", value), graph.constant(last, np.int64)))
        if shared
        else result
    )


def reshaped_and_back(graph: Graph, chance: random.Random, *, between: Sequence[int], last: Sequence[int]) -> str:
    """Rows of 8 in another shape, whose first dimensions the next Reshape takes over."""
    value = graph("Reshape", graph("MatMul", "x", graph.constant(np.eye(8) * 2)), graph.integers(between))
    return graph("Reshape", value, graph.integers(last))


def idle(graph: Graph, chance: random.Random) -> str:
    """abs(x) through two or three layers that change nothing."""
    value = graph("Abs", "x")
    for way in chance.sample(range(9), chance.randint(2, 3)):
        if way == 0:
            value = graph("Concat", value, axis=chance.randrange(3))
        elif way == 1:
            value = graph("Neg", graph("Neg", value))
        elif way == 2:
            lists = [[0], [2**63 - 1], [chance.randrange(3)], [1]]
            value = graph("Slice", value, *map(graph.integers, lists))
        elif way == 3:
            value = graph("Reshape", value, chance.choice([graph("Shape", value), graph.integers([0, -1, 8])]))
        elif way == 4:
            axes = graph.integers([chance.randrange(3)])
            value = graph("Squeeze", graph("Unsqueeze", value, axes), axes)
        elif way == 5:
            value = graph("Tile", value, graph.integers([1, 1, 1]))
        elif way == 6:
            value = graph(
                "Expand", value, chance.choice([graph("Shape", value), graph.integers([1] * chance.randint(1, 3))])
            )
        elif way == 7:
            value = graph("Pow", value, graph.constant(1))
        else:
            value = graph("Pad", value, graph.integers([0] * 6), mode=chance.choice(["constant", "reflect", "edge"]))
    return value


def expanded(graph: Graph, chance: random.Random, *, other: str = "", ones: bool = True) -> str:
    """z in the shape of abs(x), and then both."""
    value = graph("Abs", "x")
    shape = graph("Shape", other or value)
    if ones and chance.random() < 0.5:
        shape = graph(
            "Concat", graph.integers([1]), graph("Slice", shape, graph.integers([1]), graph.integers([3])), axis=0
        )
    return graph.either_way("Add", graph("Expand", "z", shape), value, chance)


def converts(graph: Graph, chance: random.Random, types: Sequence[int]) -> str:
    """A comparison as numbers by way of ``types``."""
    value = graph("Less", graph("Abs", "x"), graph.constant(0.5))
    for kind in types:
        value = graph("Cast", value, to=kind)
    return graph("Cast", value, to=int(graph._type(graph.dtype)))


def widened(graph: Graph, chance: random.Random, types: Sequence[int], source: str = "n") -> str:
    value = source
    for kind in types:
        value = graph("Cast", value, to=kind)
    return graph("Add", "x", graph("Cast", value, to=int(graph._type(graph.dtype))))


def factors(graph: Graph, chance: random.Random, op_type: str, *values: float, shape: tuple[int, ...] = (8,)) -> str:
    """Constants one after the other, of one number or of one for each column."""
    result = "x"
    for value in values:
        other = graph.constant(np.full(chance.choice([(), (1,), shape, (1, *shape)]), value))
        result = graph.either_way(op_type, result, other, chance)
    return result


INT32, INT64, FLOAT, INT8, INT16, FLOAT8 = 6, 7, 1, 3, 5, 17


def put_back(graph: Graph, chance: random.Random, *, at: Sequence[int] = (1,), to: Sequence[int] = (-1, 1)) -> str:
    """A maximum that drops dimension 1, which is put back; ``at`` and ``to`` spoil where."""
    dropped = graph("ReduceMax", "x", axes=[chance.choice([1, -1])], keepdims=0)
    if chance.random() < 0.5:
        return graph("Unsqueeze", dropped, graph.integers(at))
    return graph("Reshape", dropped, graph.integers(to))


def reduced_and_widened(graph: Graph, chance: random.Random, *, other: str = "x") -> str:
    """A maximum that is widened to the shape of x, or to that of another value of that shape."""
    wide = graph("Expand", graph("ReduceMax", "x", axes=[1]), graph("Shape", other))
    return graph("Sub", *chance.sample(["x", wide], 2))


def concats(graph: Graph, chance: random.Random, *, inner: int = 1, shared: bool = False) -> str:
    """x, its absolute values, and both again, along axis 1; ``inner`` spoils the axis of the first."""
    value = graph("Abs", "x")
    first = graph("Concat", "x", value, axis=chance.choice([inner, inner - 3]))
    other = graph("Concat", value, value, axis=chance.choice([1, -2])) if inner == 1 else first
    last = graph("Concat", *chance.sample([first, other], 2), axis=chance.choice([1, -2]))
    return graph("Concat", last, graph("Tanh", first), axis=1) if shared else last


def ones_in_reshape(graph: Graph, chance: random.Random, *, take: bool, at: int, target: Sequence[int]) -> str:
    """A Reshape, and then a dimension of 1 that is put in or taken out."""
    value = graph("Reshape", "x", graph.integers(target))
    rank = len(target) + (0 if take else 1)
    return graph("Squeeze" if take else "Unsqueeze", value, graph.integers([chance.choice([at, at - rank])]))


def unsqueezes(graph: Graph, chance: random.Random) -> str:
    first = graph("Unsqueeze", graph("Abs", "x"), graph.integers([chance.randrange(4)]))
    return graph("Unsqueeze", first, graph.integers(chance.sample(range(6), 2)))


def unsqueezes_of_one(graph: Graph, chance: random.Random, *, other: str = "Unsqueeze") -> str:
    """Two Unsqueezes read one; with another operator for one of them."""
    first = graph("Unsqueeze", graph("Abs", "x"), graph.integers([chance.choice([1, -2])]))
    second = graph("Unsqueeze", first, graph.integers([0]))
    third = graph("Unsqueeze", first, graph.integers([1])) if other == "Unsqueeze" else graph(other, first)
    return graph("Add", second, third)


def broadcast_number(graph: Graph, chance: random.Random, *, other: Sequence[float] = (0.5,)) -> str:
    """A number in a shape that is computed, and another one."""
    rows = graph("Unsqueeze", "count", graph.integers([0]))
    wide = graph("Expand", graph.constant(1.5), graph("Concat", rows, graph.integers([8]), axis=0))
    number = graph.constant(np.reshape(other, chance.choice([(), (1,), (1, 1)]) if len(other) == 1 else -1))
    value = graph(chance.choice(["Add", "Sub", "Mul", "Div"]), wide, number)
    if chance.random() < 0.5 and len(other) == 1:
        value = graph("Cast", graph("Cast", graph("Greater", value, number), to=6), to=graph._type(graph.dtype))
    return graph("Concat", "x", value, axis=0)


def condition_in_shape(graph: Graph, chance: random.Random, *, other: str = "") -> str:
    """A condition in the shape of what it chooses from."""
    value = graph("Abs", "x")
    wide = graph("Expand", "n", graph("Shape", other or value))
    return graph("Where", wide, *chance.sample([value, graph.constant(-2.5)], 2))


def neutral_conditions(graph: Graph, chance: random.Random, *, shape: Sequence[int] = (), value: bool = False) -> str:
    """x where a condition holds; ``value`` turns the constants that decide nothing into those that decide all."""
    condition = graph("Less", "x", graph.constant(0.2))
    for op_type, neutral_value in chance.sample([("And", True), ("Or", False)], 2):
        other = graph.constant(np.full(shape, neutral_value ^ value), np.bool_)
        condition = graph.either_way(op_type, condition, other, chance)
    return graph("Where", condition, "x", graph.constant(2))


def negated(graph: Graph, chance: random.Random, *, shared: bool = False) -> str:
    """A number where a condition does not hold, and x where it does."""
    below = graph("Less", "x", graph.constant(0.2))
    above = graph("Not", below)
    chosen = graph("Where", above, *chance.sample(["x", graph.constant(-3)], 2))
    return graph("Where", graph("Or", above, "n"), chosen, graph.constant(7)) if shared else chosen


def nested_choices(graph: Graph, chance: random.Random, *, opposite: bool = False, shape: Sequence[int] = ()) -> str:
    """A choice within a choice by the same condition; ``opposite`` puts it where the condition does not hold."""
    condition = graph("Less", "x", graph.constant(0.2))
    first, never = graph.constant(np.full(chance.choice([(), (1,)]), -3)), graph.constant(np.full(shape, 5))
    is_first = chance.random() < 0.5
    inner = graph("Where", condition, *(["x", never] if is_first != opposite else [never, "x"]))
    return graph("Where", condition, *([inner, first] if is_first else [first, inner]))


IDIOMS = {
    "conditions that decide nothing": Idiom(
        build=lambda g, c: neutral_conditions(g, c, shape=c.choice([(), (1,), (1, 1, 1)])), becomes=["Less", "Select"]
    ),
    "a negated condition": Idiom(build=negated, becomes=["Less", "Select"]),
    "choices by one condition": Idiom(
        build=lambda g, c: nested_choices(g, c, shape=c.choice([(), (1,), (1, 1)])), becomes=["Less", "Select"]
    ),
    "concats in a row": Idiom(build=concats, becomes=["Abs", "Concat"]),
    "a one behind a reshape": Idiom(
        build=lambda g, c: ones_in_reshape(g, c, take=False, at=c.choice([1, 2]), target=c.choice([[0, -1], [0, 24]])),
        becomes=["Reshape"],
    ),
    "a one out of a reshape": Idiom(
        build=lambda g, c: ones_in_reshape(g, c, take=True, at=1, target=c.choice([[0, 1, -1], [-1, 1, 8]])),
        becomes=["Reshape"],
    ),
    "ones in a row": Idiom(build=unsqueezes, becomes=["Abs", "Unsqueeze"]),
    "ones behind a one": Idiom(build=unsqueezes_of_one, becomes=["Abs", "Unsqueeze", "Unsqueeze", "Add"]),
    "a number that is broadcast": Idiom(
        build=broadcast_number,
        inputs={"x": (2, 8), "count": ()},
        dtypes={"count": np.int64},
        may_be_dynamic=False,
        becomes=["Unsqueeze", "Concat", "Broadcast", "Concat"],
    ),
    "a condition in the shape of an operand": Idiom(
        build=condition_in_shape,
        inputs={"x": (2, 3, 8), "n": (3, 1)},
        dtypes={"n": np.bool_},
        becomes=["Abs", "Select"],
    ),
    "an operand in the shape of the other": Idiom(
        build=lambda g, c: expanded(g, c), inputs={"x": (2, 3, 8), "z": (3, 1)}, becomes=["Abs", "Add"]
    ),
    "a gather of everything": Idiom(
        build=lambda g, c: g(
            "Gather", g("MatMul", "x", g.constant(np.eye(8, 4) * 2)), g.integers(range(4)), axis=c.choice([2, -1])
        ),
        becomes=["MatMul"],
    ),
    "idle layers": Idiom(build=idle, becomes=["Abs"]),
    "conversions of a comparison": Idiom(
        build=lambda g, c: converts(g, c, c.choice([[INT32], [INT64, INT32], [FLOAT, INT32], [INT8, INT64]])),
        becomes=["Abs", "Less", "Convert"],
        dtypes_of_model=[np.float32, np.float64],
    ),
    "conversions that widen": Idiom(
        build=lambda g, c: widened(g, c, c.choice([[INT64], [INT64, INT32], [INT32, INT64]])),
        inputs={"x": (2, 3), "n": (2, 3)},
        dtypes={"n": np.int32},
        becomes=["Convert", "Add"],
    ),
    "factors in a row": Idiom(build=lambda g, c: factors(g, c, "Mul", 0.3, 1.5, -1.1), becomes=["Multiply"]),
    "summands in a row": Idiom(build=lambda g, c: factors(g, c, "Add", 0.3, 1.5, 2.1), becomes=["Add"]),
    "neutral numbers": Idiom(build=neutral, becomes=["Abs"]),
    "neutral constants": Idiom(build=lambda g, c: neutral(g, c, shape=(1,)), becomes=["Abs"]),
    "neutral constants of as many dimensions": Idiom(
        build=lambda g, c: neutral(g, c, shape=(1, 1, 1)), becomes=["Abs"]
    ),
    "reshapes in a row": Idiom(build=reshapes, becomes=["Reshape"]),
    "reshapes that take dimensions over, and back": Idiom(
        build=lambda g, c: reshaped_and_back(
            g, c, between=c.choice([(0, 0, 2, 4), (0, 0, -1, 2), (0, 0, 8, 1)]), last=c.choice([(0, 0, 8), (0, 0, -1)])
        ),
        becomes=["MatMul"],
    ),
    "reshapes that take dimensions over": Idiom(
        build=lambda g, c: reshaped_and_back(g, c, between=(0, 0, 2, 4), last=c.choice([(0, 0, 4, 2), (0, -1, 4)])),
        becomes=["MatMul", "Reshape"],
    ),
    "a widened operand": Idiom(
        build=lambda g, c: g("Neg", reduced_and_widened(g, c)), becomes=["ReduceMax", "Subtract", "Negative"]
    ),
    "a dimension that is put back": Idiom(build=put_back, becomes=["ReduceMax"], inputs={"x": (3, 8)}),
}

NEAR_MISSES = {
    "conditions that decide": NearMiss(build=lambda g, c: neutral_conditions(g, c, shape=(3, 8), value=True), count=4),
    "conditions that widen": NearMiss(build=lambda g, c: neutral_conditions(g, c, shape=(4, 1, 3, 8)), count=3),
    "a negated condition that is read elsewhere": NearMiss(
        build=lambda g, c: negated(g, c, shared=True),
        inputs={"x": (2, 3, 8), "n": (3, 8)},
        dtypes={"n": np.bool_},
        count=5,
    ),
    "choices of the opposite": NearMiss(build=lambda g, c: nested_choices(g, c, opposite=True), count=3),
    "choices that widen": NearMiss(build=lambda g, c: nested_choices(g, c, shape=(4, 1, 3, 8)), count=3),
    "concats along two axes": NearMiss(build=lambda g, c: concats(g, c, inner=2), count=3),
    "a concat that is read elsewhere": NearMiss(build=lambda g, c: concats(g, c, shared=True), count=4),
    "ones behind a one that is read elsewhere": NearMiss(
        build=lambda g, c: unsqueezes_of_one(g, c, other="Exp"), count=5
    ),
    "a one in front of a dimension that is taken over": NearMiss(
        build=lambda g, c: ones_in_reshape(g, c, take=False, at=0, target=[0, -1]), count=2
    ),
    "a one that a reshape computes": NearMiss(
        build=lambda g, c: ones_in_reshape(g, c, take=True, at=1, target=[6, -1, 8]),
        count=2,
        may_be_dynamic=False,
    ),
    "a one in front of a dimension that would be taken over": NearMiss(
        build=lambda g, c: ones_in_reshape(g, c, take=True, at=0, target=[1, 0, -1]),
        inputs={"x": (2, 3, 8)},
        count=2,
    ),
    "a number that is broadcast beside several": NearMiss(
        build=lambda g, c: broadcast_number(g, c, other=range(1, 9)),
        inputs={"x": (2, 8), "count": ()},
        dtypes={"count": np.int64},
        may_be_dynamic=False,
        count=5,
    ),
    "a condition in a larger shape": NearMiss(
        build=lambda g, c: condition_in_shape(g, c, other="w"),
        inputs={"x": (1, 3, 1), "n": (3, 1), "w": (4, 3, 8)},
        dtypes={"n": np.bool_},
        may_be_dynamic=False,
        count=4,
    ),
    "an operand in a larger shape": NearMiss(
        build=lambda g, c: expanded(g, c, other="w", ones=False),
        inputs={"x": (1, 3, 1), "z": (3, 1), "w": (4, 3, 8)},
        may_be_dynamic=False,
        count=4,
    ),
    "a conversion that rounds": NearMiss(
        build=lambda g, c: g("Cast", g("Cast", "x", to=c.choice([10, INT32])), to=FLOAT), count=2, engines=["numpy"]
    ),
    "a conversion that wraps": NearMiss(
        build=lambda g, c: widened(g, c, [INT8]),
        inputs={"x": (2, 3), "n": (2, 3)},
        dtypes={"n": np.int32},
        count=3,
    ),
    "a conversion to few bits": NearMiss(
        build=lambda g, c: g("Cast", g("Cast", "n", to=FLOAT8, saturate=0), to=FLOAT),
        inputs={"n": (2, 3)},
        dtypes={"n": np.int16},
        opset=23,
        count=3,
        engines=["numpy"],
    ),
    "factors that are too large": NearMiss(build=lambda g, c: factors(g, c, "Mul", 1e30, 1e-30), count=2),
    "summands that cancel out": NearMiss(
        build=lambda g, c: factors(g, c, "Add", 1e8, -1e8), count=2, engines=["numpy"]
    ),
    "a slice that takes less": NearMiss(
        build=lambda g, c: g("Slice", g("Abs", "x"), *map(g.integers, ([1], [2**31 - 1], [2], [1]))), count=2
    ),
    "a gather in another order": NearMiss(
        build=lambda g, c: g("Gather", g("Abs", "x"), g.integers([0, 2, 1, 3, 4, 5, 6, 7]), axis=2), count=2
    ),
    "a gather of as many as there are today": NearMiss(
        build=lambda g, c: g("Gather", g("Abs", "x"), g.integers(range(8)), axis=2), count=2, may_be_dynamic=False
    ),
    "a gather of the first": NearMiss(
        build=lambda g, c: g("Gather", g("Abs", "x"), g.integers(range(7)), axis=2), count=2
    ),
    "a tile that repeats": NearMiss(build=lambda g, c: g("Tile", g("Abs", "x"), g.integers([1, 2, 1])), count=2),
    "a shape that widens": NearMiss(build=lambda g, c: g("Expand", g("Abs", "x"), g.integers([1, 1, 1, 1])), count=2),
    "a shape that widens what is transposed": NearMiss(
        build=lambda g, c: g(
            "Expand", g("Transpose", g("Abs", "x"), perm=[2, 1, 0]), g.integers([1] * c.choice([4, 5]))
        ),
        count=3,
    ),
    "a shape that is another": NearMiss(
        build=lambda g, c: g("Reshape", g("Abs", "x"), g.integers([0, -1, 4])), count=2
    ),
    "other numbers": NearMiss(build=lambda g, c: neutral(g, c, value=0.5), count=3),
    "constants that widen": NearMiss(build=lambda g, c: neutral(g, c, shape=(4, 1, 3, 8)), count=2),
    "constants that would widen a dimension of 1": NearMiss(build=lambda g, c: neutral(g, c, shape=(3, 1)), count=2),
    "a dimension that is taken over": NearMiss(build=lambda g, c: reshapes(g, c, last=(0, -1, 1)), count=2),
    "a dimension that is put back elsewhere": NearMiss(
        build=lambda g, c: put_back(g, c, at=[0], to=[1, -1]), count=2, inputs={"x": (3, 8)}
    ),
    "a dimension that is put back twice": NearMiss(
        build=lambda g, c: put_back(g, c, at=[1, 2], to=[-1, 1, 1]), count=2, inputs={"x": (3, 8)}
    ),
    "an operand that is widened to another shape": NearMiss(
        build=lambda g, c: reduced_and_widened(g, c, other=g("MatMul", "x", g.constant([[1] * 8] * 8))), count=5
    ),
    "a reshape that takes over what the one before it made": NearMiss(
        build=lambda g, c: reshaped_and_back(g, c, between=(0, 8, 3), last=c.choice([(0, 0, 3, 1), (0, 0, -1, 3)])),
        count=3,
    ),
    "a reshape that takes over a product of dimensions": NearMiss(
        build=lambda g, c: reshaped_and_back(g, c, between=(-1, 3, 4), last=c.choice([(0, 0, 2, 2), (0, 12)])), count=3
    ),
    "a shape in between that is read": NearMiss(build=lambda g, c: reshapes(g, c, shared=True), count=5),
}
