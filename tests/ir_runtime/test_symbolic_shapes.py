"""What is known of dimensions for every shape holds for each shape: equal polynomials, and their bounds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ir_runtime.graph import element_types
from ir_runtime.graph.model import Output
from ir_runtime.graph.operation import Operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import INFINITY, Dimension, PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.elementwise import Add1, Divide1, FloorMod1, Mod1, Multiply1, Subtract1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1, Parameter1
from ir_runtime.rewriting.symbolic_shapes import SymbolicShapes

SIZES = ((1, 1), (2, 3), (7, 8), (9, 4), (16, 1), (5, 30), (0, 6))


def constant(value: int) -> Output:
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
        way = self.chance.randrange(6)
        if way == 0:
            self.values.append((made(FloorMod1(), value, constant(divisor)), [one % divisor for one in numbers]))
        elif way == 1:
            found = made(Divide1(m_pythondiv=True), value, constant(divisor))
            self.values.append((found, [one // divisor for one in numbers]))
        elif way == 2:
            found = made(Divide1(m_pythondiv=False), value, constant(divisor))
            self.values.append((found, [int(one / divisor) for one in numbers]))
        elif way == 3:
            remainders = [int(np.fmod(one, divisor)) for one in numbers]
            self.values.append((made(Mod1(), value, constant(divisor)), remainders))
        else:
            other, others = self.chance.choice([*self.values, (constant(divisor), [divisor] * len(numbers))])
            op, calculate = self.chance.choice(
                [(Add1(), int.__add__), (Subtract1(), int.__sub__), (Multiply1(), int.__mul__)]
            )
            if max(map(abs, [*numbers, *others])) < 1000:
                pairs = zip(numbers, others)
                self.values.append((made(op, value, other), [calculate(one, two) for one, two in pairs]))


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


def test_what_fills_up_is_known() -> None:
    """8 - x % 8 modulo 8 is what x lacks of a multiple of 8: 0 to 7, and the sum is divided by 8."""
    program = Program(0, 1)
    size = program.values[0][0]
    eight = constant(8)
    lacking = made(FloorMod1(), made(Subtract1(), eight, made(FloorMod1(), size, eight)), eight)
    whole = made(Add1(), size, lacking)
    windows = made(Divide1(), whole, eight)
    shapes = SymbolicShapes()
    missing, total, count = (shapes.elements(one).item() for one in (lacking, whole, windows))
    assert total == count * shapes.elements(eight).item()
    assert (shapes.low(missing), shapes.high(missing)) == (0, 7)
    assert shapes.low(count) == 1
    assert shapes.low(total - shapes.elements(size).item()) == 0
