"""Numbers that are computed from shapes and constants: their bounds hold them, however many steps lie between."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from ir_runtime import compile_model
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.errors import ModelError
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Output
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shape_inference import infer_types
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.converter.to_onnx.graphs import constant, layer, model, op, parameter
from tests.ir_runtime.operations.relaxation import contradiction, relaxed_shape

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

    def pick(self) -> Known:
        return self.values[int(self.random.integers(len(self.values)))]

    def add(self, name: str, opset: int, *inputs: Known, **attributes: Any) -> None:
        op = find_operation(name, opset)(**attributes)
        with np.errstate(all="ignore"):
            try:
                outputs = as_tuple(op.evaluate(*[array for _, array in inputs]))
            except (ValueError, IndexError, ModelError):
                return  # The step does not fit these values.
        types = infer_types(op, [kind for kind, _ in inputs])
        for kind, value in zip(types, outputs):
            wrong = contradiction(kind, np.asarray(value))
            given = "; ".join(
                f"{shown} {bounds and (bounds.lower.tolist(), bounds.upper.tolist())}"
                for shown, _ in inputs
                for bounds in [shown.known_bounds]
            )
            assert not wrong, f"{name} {attributes} of {given}: {wrong}"
            self.bounded += kind.known_bounds is not None
            if np.size(value) <= 8 and np.abs(np.asarray(value, np.float64)).max(initial=0) < LARGEST:
                self.values.append((kind, np.asarray(value)))


def dimensions(numbers: Arithmetic) -> None:
    shape = tuple(numbers.random.integers(1, 9, int(numbers.random.integers(1, 5))).tolist())
    data = np.zeros(shape, np.float32)
    kind = str(numbers.random.choice(("i64", "i32")))
    numbers.add(
        "ShapeOf", 3, (TensorType(element_types.f32, relaxed_shape(shape, numbers.random)), data), output_type=kind
    )


def binary(numbers: Arithmetic) -> None:
    a, b = numbers.pick(), numbers.pick()
    if numbers.random.random() < 0.5:
        b = exact(numbers.random.choice((-3, -1, 0, 1, 2, 5)), str(a[0].element_type))
    if a[1].dtype != b[1].dtype:
        return
    name = str(numbers.random.choice(("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")))
    if name == "Divide" and not b[1].all():
        return
    towards_zero = {"m_pythondiv": False} if name == "Divide" and numbers.random.random() < 0.5 else {}
    numbers.add(name, 1, a, b, **towards_zero)


def gathered(numbers: Arithmetic) -> None:
    data = numbers.pick()
    if data[1].ndim:
        count = data[1].shape[0]
        some = (
            [numbers.random.integers(-count, count) for _ in range(int(numbers.random.integers(1, 4)))] if count else []
        )
        numbers.add("Gather", 8, data, exact(some if numbers.random.random() < 0.7 or not some else some[0]), exact(0))


def joined(numbers: Arithmetic) -> None:
    values = [numbers.pick() for _ in range(int(numbers.random.integers(1, 4)))]
    values = [value for value in values if value[1].ndim == 1 and value[1].dtype == values[0][1].dtype]
    if values:
        numbers.add("Concat", 1, *values, axis=0)


def rearranged(numbers: Arithmetic) -> None:
    data = numbers.pick()
    of_any_rank: list[Callable[[], None]] = [
        lambda: numbers.add("Unsqueeze", 1, data, exact([0])),
        lambda: numbers.add("Squeeze", 1, data, exact([0])),
        lambda: numbers.add("Squeeze", 1, data),
        lambda: numbers.add("Reshape", 1, data, exact([-1])),
        lambda: numbers.add("Broadcast", 3, data, exact([3]), mode="numpy"),
    ]
    of_lists: list[Callable[[], None]] = [
        lambda: numbers.add("Tile", 1, data, exact([2])),
        lambda: numbers.add("Slice", 8, data, exact([-2]), exact([2**63 - 1]), exact([1]), exact([0])),
        lambda: numbers.add("StridedSlice", 1, data, exact([-1]), exact([0]), exact([-1]), end_mask=(1,)),
        lambda: numbers.add("Pad", 12, data, exact([1]), exact([-1])),
        lambda: numbers.add("Reverse", 1, data, exact([0])),
        lambda: numbers.add("ScatterUpdate", 3, data, exact([0]), exact([7], str(data[0].element_type)), exact(0)),
        lambda: numbers.add("Split", 1, data, exact(0), num_splits=2),
    ]
    steps = [*of_any_rank, *(of_lists if data[1].ndim == 1 else [])]
    steps[int(numbers.random.integers(len(steps)))]()


def converted(numbers: Arithmetic) -> None:
    kind = str(numbers.random.choice(("i64", "i32", "i64", "u32", "i8")))
    numbers.add("Convert", 1, numbers.pick(), destination_type=kind)


def chosen(numbers: Arithmetic) -> None:
    a, b = numbers.pick(), numbers.pick()
    if a[1].dtype != b[1].dtype:
        return
    numbers.add("Greater", 1, a, b)
    condition = numbers.values[-1]
    if condition[1].dtype == np.bool_:
        numbers.values.pop()
        numbers.add("Select", 1, condition, a, b)


def shaped(numbers: Arithmetic) -> None:
    """Data of a shape that was computed, whose dimensions are the next numbers."""
    target = numbers.pick()
    small = target[1].ndim == 1 and target[1].size <= 4 and (target[1] >= 0).all() and np.prod(target[1]) < 500
    if small:
        op = find_operation("Broadcast", 3)(mode="numpy")
        kinds = [exact(0.5, "f32"), target]
        data = op.evaluate(*[array for _, array in kinds])
        (kind,) = infer_types(op, [known for known, _ in kinds])
        assert not contradiction(kind, data)
        numbers.add("ShapeOf", 3, (kind, data), output_type=str(target[0].element_type))


STEPS = (
    dimensions,
    binary,
    binary,
    binary,
    gathered,
    gathered,
    joined,
    rearranged,
    rearranged,
    converted,
    chosen,
    shaped,
)


@pytest.mark.parametrize("block", range(60))
def test_bounds_hold_what_is_computed_from_shapes(block: int) -> None:
    bounded = 0
    for seed in range(block * 20, block * 20 + 20):
        numbers = Arithmetic(seed)
        while not numbers.values:
            dimensions(numbers)
        random: Generator = numbers.random
        for _ in range(60):
            STEPS[int(random.integers(len(STEPS)))](numbers)
        bounded += numbers.bounded
    # The test proves something only if most of what is computed is followed.
    assert bounded > 300


LOWEST = float(np.finfo(np.float32).min)


def selected(otherwise: float, kind: str = "f32") -> Output:
    seen = parameter("seen", 2, 3, kind="boolean")
    return layer(op("Select", 1), seen, constant(0, kind), constant(otherwise, kind), name="chosen")


def cast(source: Output, kind: str) -> Output:
    return layer(op("Convert", 1, destination_type=kind), source, name="converted")


ROWS: list[tuple[Output, float]] = [
    (constant([3.0, -2.0, math.nan]), -2),
    (selected(-1e4), -1e4),
    (selected(LOWEST), LOWEST),
    (selected(-math.inf), -math.inf),
    (layer(op("Maximum", 1), selected(-math.inf), constant(-5.0), name="limited"), -5),
    (layer(op("Minimum", 1), selected(-3.0), constant(-5.0), name="limited"), -5),
    (layer(op("Concat", 1, axis=0), selected(-3.0), constant([[1.0, 2, 3]]), name="joined"), -3),
    (layer(op("Unsqueeze", 1), selected(-7.0), constant([0], "i64"), name="lifted"), -7),
    (cast(selected(-1e4), "f16"), -1e4),
    (cast(selected(LOWEST), "f16"), -math.inf),
    (cast(selected(-1e4, "f16"), "f32"), -1e4),
    (cast(parameter("seen", 2, 3, kind="boolean"), "f32"), 0),
    (cast(parameter("seen", 2, 3, kind="i8"), "f16"), -128),
    (cast(parameter("seen", 2, 3, kind="i64"), "f16"), -math.inf),
    (parameter("seen", 2, 3), -math.inf),
    (layer(op("Negative", 1), selected(-1.0), name="negated"), 0),
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
    computed = compile_model(model([sources[-1]], {"y": output}))({"seen": values})["y"].astype(np.float64)
    assert not (computed < expected).any()
