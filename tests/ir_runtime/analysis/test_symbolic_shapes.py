"""What is known of dimensions for every shape, and of numbers that are computed from them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir_runtime import Dimension, ModelError, Operation, Output, PartialShape, Tensor, TensorType, compile_model
from ir_runtime.analysis.polynomials import Polynomial, product
from ir_runtime.analysis.symbolic_shapes import SymbolicShapes
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import INFINITY, Array, element_types, infer_types, make_node
from ir_runtime.graph.operation import find_operation
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1, Parameter1
from ir_runtime.operations.movement import Concat1, Reshape1
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.converter.to_onnx import graphs
from tests.ir_runtime.operations.relaxation import contradiction, relaxed_shape


def value(polynomial: Polynomial, symbols: list[int]) -> int:
    total = 0
    for monomial, factor in polynomial.terms:
        for number in monomial:
            factor *= symbols[number]
        total += factor
    return total


def written(chance: random.Random, depth: int) -> tuple[Polynomial, str]:
    """A random polynomial, and the same as an expression of Python."""
    if depth == 0 or chance.random() < 0.2:
        if chance.random() < 0.5:
            number = chance.randrange(3)
            return Polynomial.symbol(number), f"s[{number}]"
        constant = chance.randrange(-3, 5)
        return Polynomial.constant(constant), f"({constant})"
    (a, first), (b, second) = written(chance, depth - 1), written(chance, depth - 1)
    sign = chance.choice("+-*")
    return {"+": a + b, "-": a - b, "*": a * b}[sign], f"({first} {sign} {second})"


@pytest.mark.parametrize("seed", range(60))
def test_a_polynomial_is_its_expression(seed: int) -> None:
    chance = random.Random(seed)
    polynomial, text = written(chance, 4)
    for _ in range(5):
        symbols = [chance.randrange(6) for _ in range(3)]
        assert value(polynomial, symbols) == eval(text, {"s": symbols})
    if polynomial.value is not None:
        assert not polynomial.symbols


def test_equal_expressions_are_one_polynomial() -> None:
    s, t = Polynomial.symbol(0), Polynomial.symbol(1)
    two = Polynomial.constant(2)
    assert (s + t) * (s + t) == s * s + two * s * t + t * t
    assert hash(s * t) == hash(t * s)
    assert (s - s).value == 0
    assert (s - s + two).value == 2
    assert (s * t).symbols == {0, 1}
    assert s != t
    assert str(two * s * t + two) == "2 + 2*s0*s1"


@pytest.mark.parametrize("seed", range(60))
def test_quotients_are_exact(seed: int) -> None:
    chance = random.Random(seed)
    whole, _ = written(chance, 3)
    symbols = [Polynomial.symbol(chance.randrange(3)) for _ in range(chance.randrange(3))]
    divisor = product([Polynomial.constant(chance.choice([-2, 1, 3])), *symbols])
    assert (whole * divisor).quotient(divisor) == whole


def test_what_no_polynomial_divides() -> None:
    s, t = Polynomial.symbol(0), Polynomial.symbol(1)
    assert (s * t + s).quotient(t) is None
    assert s.quotient(Polynomial.constant(2)) is None
    assert s.quotient(s + t) is None, "only single terms are divided by"
    assert s.quotient(Polynomial.constant(0)) is None


SIZES = ((1, 1), (2, 3), (7, 8), (9, 4), (16, 1), (5, 30), (0, 6))


def constant(value: Any) -> Output:
    return make_node(Const1(value=Tensor.from_array(np.asarray(value, np.int64))), (), "c").outputs[0]


def made(op: Operation, *inputs: Output) -> Output:
    return make_node(op, inputs, "n").outputs[0]


class Program:
    """Numbers that are computed from the two dimensions of a parameter, and the same with numbers for these."""

    def __init__(self, seed: int, low: int) -> None:
        self.chance = random.Random(seed)
        shape = PartialShape([Dimension(low, INFINITY), Dimension(low, INFINITY)])
        data = make_node(Parameter1(element_type=element_types.f32, shape=shape), (), "x").outputs[0]
        listed = made(ShapeOf3(output_type=element_types.i64), data)
        self.sizes = [one for one in SIZES if min(one) >= low]
        self.values = [
            (made(Gather8(), listed, constant(axis), constant(0)), [one[axis] for one in self.sizes]) for axis in (0, 1)
        ]

    def step(self) -> None:
        value, numbers = self.chance.choice(self.values)
        divisor = self.chance.choice([1, 2, 3, 4, 7, 8])
        other, others = self.chance.choice([*self.values, (constant(divisor), [divisor] * len(numbers))])
        op, calculate, by_constant = self.chance.choice([
            (ir.FloorMod1(), int.__mod__, True), (ir.Divide1(m_pythondiv=True), int.__floordiv__, True),
            (ir.Divide1(m_pythondiv=False), lambda one, two: int(one / two), True),
            (ir.Mod1(), lambda one, two: int(np.fmod(one, two)), True), (ir.Add1(), int.__add__, False),
            (ir.Subtract1(), int.__sub__, False), (ir.Multiply1(), int.__mul__, False),
        ])  # fmt: skip
        if by_constant:
            other, others = constant(divisor), [divisor] * len(numbers)
        if max(map(abs, [*numbers, *others])) < 1000:
            self.values.append((made(op, value, other), list(map(calculate, numbers, others))))


@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("seed", range(150))
def test_equal_polynomials_are_equal_numbers_within_their_bounds(seed: int, low: int) -> None:
    program = Program(seed, low)
    for _ in range(12):
        program.step()
    shapes, known = SymbolicShapes(), dict[object, list[int]]()
    for value, numbers in program.values:
        elements = shapes.elements(value)
        assert elements is not None
        polynomial = elements.reshape(-1)[0]
        assert known.setdefault(polynomial, numbers) == numbers, polynomial
        assert shapes.low(polynomial) <= min(numbers), polynomial
        assert shapes.high(polynomial) >= max(numbers), polynomial
        assert not [number for number in set(numbers) if shapes.is_never(polynomial, number)], polynomial


def test_what_fills_up_is_known() -> None:
    """8 - x % 8 modulo 8 is what x lacks of a multiple of 8: 0 to 7, and the sum is divided by 8."""
    program = Program(0, 1)
    size = program.values[0][0]
    eight = constant(8)
    lacking = made(ir.FloorMod1(), made(ir.Subtract1(), eight, made(ir.FloorMod1(), size, eight)), eight)
    whole = made(ir.Add1(), size, lacking)
    windows = made(ir.Divide1(), whole, eight)
    shapes = SymbolicShapes()
    missing, total, count = (shapes.elements(one).item() for one in (lacking, whole, windows))
    assert total == count * shapes.elements(eight).item()
    assert (shapes.low(missing), shapes.high(missing)) == (0, 7)
    assert shapes.low(count) == 1
    assert shapes.low(total - shapes.elements(size).item()) == 0


def test_an_even_number_is_never_odd_and_a_dimension_never_negative() -> None:
    program, shapes = Program(0, 0), SymbolicShapes()
    size = program.values[0][0]
    even = made(ir.Subtract1(), made(ir.Multiply1(), size, constant(2)), constant(2))
    (one,), (two,) = (shapes.elements(value).reshape(-1).tolist() for value in (size, even))  # type: ignore[union-attr]
    assert shapes.is_never(one, -1)
    assert not shapes.is_never(one, 0)
    assert shapes.is_never(two, -1)
    assert not shapes.is_never(two, -2)


def parameter(name: str, *dims: int | None) -> Output:
    op = Parameter1(element_type=element_types.f32, shape=PartialShape(list(dims)))
    return make_node(op, (), name).outputs[0]


def test_an_attention_has_the_rows_of_its_query_whatever_its_mask_has() -> None:
    query, keys, mask = parameter("q", 1, 2, None, 8), parameter("k", 1, 2, None, 8), parameter("m", None, None)
    found = made(ScaledDotProductAttention13(), query, keys, keys, mask)
    shapes = SymbolicShapes()
    assert shapes.dims(found)[2] == shapes.dims(query)[2] != shapes.dims(mask)[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("last", "is_known"),
    [
        ([8], True),  # one more dimension must be 0 for another result
        ([-1], False),  # where the dimension is 0, it stands for the one that the data have there
    ],
)
def test_what_a_reshape_brings_back(last: list[int], is_known: bool) -> None:
    data = parameter("x", None, None, 8)
    flat = made(Reshape1(special_zero=True), data, constant([-1, 8]))
    sizes = made(Gather8(), made(ShapeOf3(), data), constant([0, 1]), constant(0))
    back = made(Reshape1(special_zero=True), flat, made(Concat1(axis=0), sizes, constant(last)))
    shapes = SymbolicShapes()
    before, after = shapes.dims(data), shapes.dims(back)
    assert before is not None
    assert after is not None
    assert after[0] == before[0]
    assert (after[1] == before[1]) == is_known


@pytest.mark.parametrize(
    ("op", "is_greater", "is_equal"),
    [
        (ir.Less1(), False, False), (ir.LessEqual1(), False, True), (ir.Greater1(), True, False),
        (ir.GreaterEqual1(), True, True), (ir.Equal1(), False, True), (ir.NotEqual1(), True, False),
    ],
    ids=str,
)  # fmt: skip
def test_comparisons_that_hold_for_every_shape(op: Operation, is_greater: bool, is_equal: bool) -> None:
    """Of a dimension, plus 1 or as it is, with itself; another dimension decides nothing."""
    shapes, ((size, _), (other, _)) = SymbolicShapes(), Program(0, 1).values
    for left, expected in ((made(ir.Add1(), size, constant(1)), is_greater), (size, is_equal)):
        found = shapes.elements(made(op, left, size))
        assert found is not None
        assert found.item().value == expected
    assert shapes.elements(made(op, size, other)) is None


# --- bounds hold what is computed, however many steps lie between ---


Known = tuple[TensorType, Array]
"""What is known of a value, and the value."""

LARGEST = 1 << 24
"""Where numbers grow beyond it they are left alone: in i32 their products wrap."""


def exact(value: Any, kind: str = "i64") -> Known:
    element_type = element_types.element_type(kind)
    array = np.asarray(value, element_type.dtype)
    return TensorType(element_type, PartialShape(array.shape), Tensor.from_array(array)), array


class Arithmetic:
    """Values that grow out of the dimensions of data; each is held against what is inferred of it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.values: list[Known] = []
        self.bounded = 0

    def any(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def pick(self, like: Known | None = None, *, is_list: bool = False) -> Known:
        """A value, of the type of another one, or a list; where there is none, nothing fits it."""
        fitting = (value for value in self.values if like is None or value[1].dtype == like[1].dtype)
        return self.any(*[value for value in fitting if value[1].ndim == 1 or not is_list] or [exact([[0.5]], "f32")])

    def indices(self) -> Known:
        return exact(self.random.integers(-2, 2, self.any((), 1, 2, 3)))

    def add(self, name: str, opset: int, *inputs: Known, **attributes: Any) -> Known | None:
        op = find_operation(name, opset)(**attributes)
        with np.errstate(all="ignore"):
            try:
                outputs = as_tuple(op.evaluate(*[array for _, array in inputs]))
            except (ValueError, IndexError, ModelError):
                return None  # The step does not fit these values.
        for kind, value in zip(infer_types(op, [kind for kind, _ in inputs]), outputs):
            wrong = contradiction(kind, np.asarray(value))
            assert not wrong, f"{name} {attributes} of {[(shown, shown.known_bounds) for shown, _ in inputs]}: {wrong}"
            self.bounded += kind.known_bounds is not None
            if (
                np.size(value) <= 8
                and value.dtype.kind in "iu"
                and np.abs(value.astype(float)).max(initial=0) < LARGEST
            ):
                self.values.append((kind, np.asarray(value)))
        return kind, np.asarray(value)


def dimensions(numbers: Arithmetic, *_: Known) -> None:
    shape = tuple(numbers.random.integers(1, 9, numbers.any(1, 2, 3, 4)).tolist())
    known = TensorType(element_types.f32, relaxed_shape(shape, numbers.random))
    numbers.add("ShapeOf", 3, (known, np.zeros(shape, np.float32)), output_type=numbers.any("i64", "i32"))


def binary(numbers: Arithmetic, a: Known) -> None:
    b = numbers.any(numbers.pick(a), exact(np.int64(numbers.any(-3, -1, 0, 1, 2, 5)), str(a[0].element_type)))
    name = numbers.any("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")
    if b[1].dtype == a[1].dtype and (name != "Divide" or b[1].all()):
        numbers.add(name, 1, a, b, **({"m_pythondiv": numbers.any(True, False)} if name == "Divide" else {}))


def chosen(numbers: Arithmetic, a: Known) -> None:
    b = numbers.pick(a)
    condition = numbers.add("Greater", 1, a, b)
    if condition is not None:
        numbers.add("Select", 1, condition, a, b)


def shaped(numbers: Arithmetic, target: Known) -> None:
    """Data of a shape that was computed, whose dimensions are the next numbers."""
    if target[1].ndim == 1 and target[1].size <= 4 and (target[1] >= 0).all() and np.prod(target[1]) < 500:
        data = numbers.add("Broadcast", 3, exact(0.5, "f32"), target, mode="numpy")
        assert data is not None
        numbers.add("ShapeOf", 3, data, output_type=str(target[0].element_type))


STEPS: list[Callable[..., Any]] = [
    dimensions, *[binary] * 8, chosen, chosen, shaped, shaped,
    *[lambda n, x: n.add("Gather", 8, x, n.indices(), exact(0))] * 4,
    *[lambda n, x: n.add("Concat", 1, x, *(n.pick(x) for _ in range(n.any(0, 1, 2))), axis=0)] * 2,
    *[lambda n, x: n.add("Convert", 1, x, destination_type=n.any("i64", "i32", "i64", "u32", "i8"))] * 2,
    lambda n, x: n.add("Unsqueeze", 1, x, exact([0])),
    lambda n, x: n.add("Squeeze", 1, x, *n.any([], [exact([0])])),
    lambda n, x: n.add("Reshape", 1, x, exact([-1])),
    lambda n, x: n.add("Broadcast", 3, x, exact([3]), mode="numpy"),
]  # fmt: skip
"""Steps of any value."""
OF_LISTS: list[Callable[..., Any]] = [
    lambda n, x: n.add("Tile", 1, x, exact([2])),
    lambda n, x: n.add("Slice", 8, x, exact([-2]), exact([2**63 - 1]), exact([1]), exact([0])),
    lambda n, x: n.add("StridedSlice", 1, x, exact([-1]), exact([0]), exact([-1]), end_mask=(1,)),
    lambda n, x: n.add("Pad", 12, x, exact([1]), exact([-1])),
    lambda n, x: n.add("Reverse", 1, x, exact([0])),
    lambda n, x: n.add("ScatterUpdate", 3, x, exact([0]), exact([7], str(x[0].element_type)), exact(0)),
    lambda n, x: n.add("Split", 1, x, exact(0), num_splits=2),
]


@pytest.mark.parametrize("block", range(60))
def test_bounds_hold_what_is_computed_from_shapes(block: int) -> None:
    bounded = 0
    for seed in range(block * 20, block * 20 + 20):
        numbers = Arithmetic(seed)
        dimensions(numbers)
        for _ in range(60):
            is_list = numbers.random.random() < 0.15
            numbers.any(*(OF_LISTS if is_list else STEPS))(numbers, numbers.pick(is_list=is_list))
        bounded += numbers.bounded
    # The test proves something only if most of what is computed is followed.
    assert bounded > 300


LOWEST = float(np.finfo(np.float32).min)


def selected(otherwise: float, kind: str = "f32") -> Output:
    seen = graphs.parameter("seen", 2, 3, kind="boolean")
    return graphs.layer(
        graphs.op("Select", 1), seen, graphs.constant(0, kind), graphs.constant(otherwise, kind), name="chosen"
    )


def cast(source: Output, kind: str) -> Output:
    return graphs.layer(graphs.op("Convert", 1, destination_type=kind), source, name="converted")


ROWS: list[tuple[Output, float]] = [
    (graphs.constant([3.0, -2.0, math.nan]), -2),
    (selected(-1e4), -1e4),
    (selected(LOWEST), LOWEST),
    (selected(-math.inf), -math.inf),
    (graphs.layer(graphs.op("Maximum", 1), selected(-math.inf), graphs.constant(-5.0), name="limited"), -5),
    (graphs.layer(graphs.op("Minimum", 1), selected(-3.0), graphs.constant(-5.0), name="limited"), -5),
    (graphs.layer(graphs.op("Concat", 1, axis=0), selected(-3.0), graphs.constant([[1.0, 2, 3]]), name="joined"), -3),
    (graphs.layer(graphs.op("Unsqueeze", 1), selected(-7.0), graphs.constant([0], "i64"), name="lifted"), -7),
    (cast(selected(-1e4), "f16"), -1e4),
    (cast(selected(LOWEST), "f16"), -math.inf),
    (cast(selected(-1e4, "f16"), "f32"), -1e4),
    (cast(graphs.parameter("seen", 2, 3, kind="boolean"), "f32"), 0),
    (cast(graphs.parameter("seen", 2, 3, kind="i8"), "f16"), -128),
    (cast(graphs.parameter("seen", 2, 3, kind="i64"), "f16"), -math.inf),
    (graphs.parameter("seen", 2, 3), -math.inf),
    (graphs.layer(graphs.op("Negative", 1), selected(-1.0), name="negated"), 0),
]


@pytest.mark.parametrize(("output", "expected"), ROWS)
def test_no_element_is_below_the_bound(output: Output, expected: float) -> None:
    assert value_range(output).low == expected
    sources: list[Any] = [output]
    while sources[-1].node.inputs:
        sources.append(sources[-1].node.inputs[0])
    if sources[-1].node.op.role != "parameter":
        return
    values = np.array([[1, 0, -5], [0, 1, 0]]).astype(sources[-1].element_type.dtype)
    computed = compile_model(graphs.model([sources[-1]], {"y": output}))({"seen": values})["y"].astype(np.float64)
    assert not (computed < expected).any()
