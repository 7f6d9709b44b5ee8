"""Shapes, and how layers of two models are paired."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from ir_runtime import Dimension, InferenceError, Model, PartialShape
from ir_runtime.graph import INFINITY, broadcast
from ir_runtime.graph.model_difference import compare_models
from ir_runtime.graph.shapes import broadcast_to, quotient
from ir_runtime.operations.windows import Window
from tests.converter.to_onnx.graphs import constant, layer, model, op, parameter

DIMENSIONS = [Dimension(low, high) for low in range(4) for high in (*range(low, 4), INFINITY)]
MANY = 12
"""Dimensions up to here are tried of a dimension without an upper bound."""


def sizes(dimension: Dimension) -> range:
    return range(dimension.low, min(dimension.high, MANY) + 1)


def smallest(found: Iterable[int], open_end: bool) -> Dimension:
    """The smallest dimension that holds the dimensions, which go on for ever if they are as many as were tried."""
    numbers = sorted(found)
    return Dimension(numbers[0], INFINITY if open_end and numbers[-1] >= MANY else numbers[-1])


@pytest.mark.parametrize("a", DIMENSIONS, ids=str)
@pytest.mark.parametrize("b", DIMENSIONS, ids=str)
def test_dimensions_are_sets_of_dimensions(a: Dimension, b: Dimension) -> None:
    in_both, in_either = set(sizes(a)) & set(sizes(b)), {*sizes(a), *sizes(b)}
    assert a.merge(b) == (smallest(in_both, INFINITY in (a.high, b.high)) if in_both else None)
    assert a.union(b) == smallest(in_either, INFINITY in (a.high, b.high))
    pairs = list(itertools.product(sizes(a), sizes(b)))
    assert a + b == smallest((x + y for x, y in pairs), INFINITY in (a.high, b.high))
    assert a * b == smallest((x * y for x, y in pairs), INFINITY in (a.high, b.high))


@pytest.mark.parametrize("product", DIMENSIONS, ids=str)
@pytest.mark.parametrize("factor", DIMENSIONS, ids=str)
def test_quotients_hold_what_is_multiplied(product: Dimension, factor: Dimension) -> None:
    found = quotient(product, factor)
    fitting = {n for n in range(MANY + 1) for x in sizes(factor) if (x or n == 0) and product.contains(n * x)}
    assert bool(fitting) == (found is not None) or product.low > MANY
    assert all(found is not None and found.contains(n) for n in fitting)


@pytest.mark.parametrize("a", DIMENSIONS, ids=str)
@pytest.mark.parametrize("b", DIMENSIONS, ids=str)
def test_data_to_which_others_are_repeated(a: Dimension, b: Dimension) -> None:
    fitting = {x for x in sizes(a) for y in sizes(b) if y in (x, 1)}
    found = broadcast_to(PartialShape([4, a]), PartialShape([b]))
    wanted = None if not fitting else PartialShape([4, smallest(fitting, INFINITY in (a.high, b.high))])
    assert found == wanted


@pytest.mark.parametrize("a", DIMENSIONS, ids=str)
@pytest.mark.parametrize("b", DIMENSIONS, ids=str)
def test_broadcast_dimensions(a: Dimension, b: Dimension) -> None:
    fitting = {max(x, y) if x and y else 0 for x in sizes(a) for y in sizes(b) if x == y or 1 in (x, y)}
    if not fitting:
        with pytest.raises(InferenceError, match="cannot be broadcast"):
            broadcast(PartialShape([a]), PartialShape([b]))
        return
    assert broadcast(PartialShape([a]), PartialShape([b]))[0] == smallest(fitting, INFINITY in (a.high, b.high))


SHAPES = [
    *(PartialShape.dynamic(), PartialShape(()), PartialShape([3]), PartialShape([None]), PartialShape([2, None])),
    *(PartialShape([Dimension(0, 2), 3]), PartialShape([Dimension(1, 5), Dimension(3, 4)]), PartialShape([1, 1])),
]
STATIC = [(), *((n,) for n in range(6)), *itertools.product(range(7), repeat=2)]


@pytest.mark.parametrize("a", SHAPES, ids=str)
@pytest.mark.parametrize("b", SHAPES, ids=str)
def test_shapes_are_sets_of_shapes(a: PartialShape, b: PartialShape) -> None:
    merged, joined, wide = a.merge(b), a.union(b), _or_none(broadcast, a, b)
    for shape in STATIC:
        assert (a.accepts(shape) and b.accepts(shape)) == (merged is not None and merged.accepts(shape))
        assert joined.accepts(shape) or not (a.accepts(shape) or b.accepts(shape))
    for x, y in itertools.product(filter(a.accepts, STATIC), filter(b.accepts, STATIC)):
        try:
            together = np.broadcast_shapes(x, y)
        except ValueError:
            continue
        assert wide is not None
        assert wide.accepts(together)


def _or_none(function: Callable[..., PartialShape], *shapes: PartialShape) -> PartialShape | None:
    try:
        return function(*shapes)
    except InferenceError:
        return None


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("auto_pad", ["explicit", "valid", "same_upper", "same_lower"])
def test_positions_of_windows_on_open_dimensions(auto_pad: str, rounding: str) -> None:
    for kernel, stride, dilation, begin, end in itertools.product((1, 3), (1, 2, 5), (1, 2), (0, 2), (0, 1, 4)):
        window = Window(kernel, stride, dilation, begin, end, auto_pad, rounding)
        counts = {size: _count(window, size) for size in range(MANY + 1)}
        for low, high in itertools.combinations((0, 1, 2, 4, 7, MANY), 2):
            fitting = {count for size in range(low, high + 1) if (count := counts[size]) is not None}
            if not fitting:
                with pytest.raises(InferenceError, match="does not fit"):
                    window.count_dimension(Dimension(low, high))
                continue
            found = window.count_dimension(Dimension(low, high))
            assert found == Dimension(min(fitting), max(fitting)), (window, low, high)
            assert window.count_dimension(Dimension(low)) == Dimension(found.low, INFINITY)


def _count(window: Window, size: int) -> int | None:
    try:
        return window.count(size)
    except InferenceError:
        return None


def two_concats(first: str, second: str, axis: int = 1) -> Model:
    """[x, x] along an axis, and [|y|, y]."""
    x, y = parameter("x", 2, 3), parameter("y", 4, 5)
    twice = layer(op("Concat", axis=axis), x, x, name=first)
    both = layer(op("Concat", axis=1), layer(op("Abs"), y, name="abs"), y, name=second)
    return model([x, y], {"a": twice, "b": both})


def test_names_that_moved_to_layers_of_other_types_are_no_difference() -> None:
    found = compare_models(two_concats("Concat_1", "Concat_2"), two_concats("Concat_2", "Concat_1"))
    assert found.same


def test_a_layer_whose_type_changed_is_paired_by_its_name() -> None:
    found = compare_models(two_concats("first", "second"), two_concats("first", "second", axis=0))
    assert not found.only_first
    assert not found.only_second
    assert {change.layer for change in found.changed} >= {"first"}
    assert "second" not in {change.layer for change in found.changed}


def test_a_constant_of_another_shape_is_paired_by_its_name() -> None:
    def shifted(*values: float) -> Model:
        x = parameter("x", 2, 3)
        return model([x], {"y": layer(op("Add"), x, constant(values, name="offset"), name="sum")})

    (change,) = compare_models(shifted(1.0, 2.0, 3.0), shifted(1.0)).changed
    assert (change.layer, change.what) == ("offset", ("it holds f32[3] where the other model has f32[1]",))
