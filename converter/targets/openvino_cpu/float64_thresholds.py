"""Thresholds of float64, rounded to the side on which comparisons keep their results.

The plug-in computes float64 in float32. A threshold that float32 does not have is rounded to the nearest number, which
may be the very input that it separates from smaller ones: trees have thresholds halfway between two values of the
data. So a threshold is rounded down where equal values are on the lower side, and up where they are on the upper one:

    x <= t, x > t      become      x <= t', x > t'        t' is the greatest float32 that is not above t
    x < t,  x >= t     become      x < t',  x >= t'       t' is the least float32 that is not below t

Every input that float32 has keeps its result. Others are rounded before the plug-in compares them. A short decimal such
as 1.2 stands for the float32 of that decimal, which an equal input becomes: it stays. The threshold may be looked up in
a table, as those of trees are.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.elementwise import Greater1, LessEqual1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.rewriting import Builder, Replacement, fail

_DOWN_ON_THE_RIGHT = (LessEqual1, Greater1)
"""Operations whose second input is rounded down if it is a threshold; a first one is rounded up."""


@openvino_cpu.replaces("float64_thresholds", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def float64_thresholds(builder: Builder, node: Node) -> Replacement:
    """Round constant thresholds up or down to numbers that float32 has."""
    if node.inputs[0].element_type is not element_types.f64:
        return fail("it does not compare float64")
    is_down = isinstance(node.op, _DOWN_ON_THE_RIGHT)
    sides = [
        _round(builder, side, is_down == (place == 1)) if _table(side) is not None else side
        for place, side in enumerate(node.inputs)
    ]
    if sides == list(node.inputs):
        return fail("no input is a constant, or looked up in one, that float32 does not have")
    return builder.emit(node.op, *sides)


def _table(value: Output) -> Output | None:
    """The constant that ``value`` is, or that it is looked up in."""
    if isinstance(value.node.op, Gather8):
        value = value.node.inputs[0]
    return None if value.tensor is None else value


def _round(builder: Builder, value: Output, is_down: bool) -> Output:
    """``value`` from a table of rounded numbers; itself where float32 has all of them."""
    if isinstance(value.node.op, Gather8):
        table, *others = value.node.inputs
        rounded = _round(builder, table, is_down)
        return value if rounded is table else builder.emit(value.node.op, rounded, *others)
    assert value.tensor is not None
    exact = value.tensor.array()
    near = _to_float32(exact, is_down)
    if np.array_equal(near, exact, equal_nan=True):
        return value
    return builder.computed("rounded to float32", near, element_types.f64, [value])


def _to_float32(values: Array, is_down: bool) -> Array:
    """The greatest numbers of float32 that are not above ``values``, or the least that are not below.

    Shortest decimals of float32 stay as they are.
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    is_beyond = near > values if is_down else near < values
    rounded = np.where(is_beyond, np.nextafter(near, np.float32(-np.inf if is_down else np.inf)), near)
    decimals = np.array([float(str(value)) for value in near.reshape(-1)]).reshape(near.shape)
    return np.where(decimals == values, values, rounded.astype(np.float64))
