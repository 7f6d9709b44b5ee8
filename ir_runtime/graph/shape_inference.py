"""Types, shapes and bounds of values of one operation, which answers for itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from . import element_types
from .node import Node, Output
from .operation import BOUNDS_LIMIT, Operation, TensorType
from .shapes import INFINITY, PartialShape
from .value_ranges import Bounds, bounds_of, range_of

_MAX_DIMENSIONS = 32
"""Some of NumPy's functions take no more."""


def infer_types(op: Operation, inputs: Sequence[TensorType]) -> list[TensorType]:
    """The types of ``op``'s outputs, with bounds of small integer values where they follow.

    Raises :class:`ir_runtime.errors.InferenceError` where the inputs contradict the operation.
    """
    op.check_input_count(len(inputs))
    outputs = list(op.infer(inputs))
    if outputs and outputs[0].bounds is None and _may_have_bounds(outputs[0]):
        bounds = _bounds(op, inputs, outputs[0])
        if bounds is not None and outputs[0].shape.accepts(bounds.lower.shape):
            shape = PartialShape(bounds.lower.shape)
            outputs[0] = TensorType(outputs[0].element_type, shape, outputs[0].tensor, bounds)
    return outputs


def _may_have_bounds(output: TensorType) -> bool:
    element_type = output.element_type
    if output.tensor is not None or not (element_type.is_integral or element_type is element_types.boolean):
        return False
    if output.shape.has_rank and output.shape.rank > _MAX_DIMENSIONS:
        return False
    return output.shape.least_count <= BOUNDS_LIMIT


def _bounds(op: Operation, inputs: Sequence[TensorType], output: TensorType) -> Bounds | None:
    try:
        with np.errstate(all="ignore"):
            bounds = op.infer_bounds(inputs) or _move_bounds(op, inputs) or _elementwise(op, inputs, output)
            bounds = bounds or _exact(op, inputs)
    except (ArithmeticError, IndexError, ValueError, ModelError):  # an operand out of range: execution raises the error
        return None
    return bounds if bounds is not None and bounds.lower.size <= BOUNDS_LIMIT else None


def _move_bounds(op: Operation, inputs: Sequence[TensorType]) -> Bounds | None:
    """The bounds of elements that the operation moves, in their new places."""
    moved = op.moved_inputs(len(inputs))
    if all(inputs[place].known_bounds is None for place in moved):
        return None
    lower, upper = [], []
    for place, value in enumerate(inputs):
        if place in moved:
            bounds = value.known_bounds or _unknown(value)
            ends = None if bounds is None else (bounds.lower, bounds.upper)
        else:
            constant = value.constant
            ends = None if constant is None else (constant, constant)
        if ends is None:
            return None
        lower.append(ends[0])
        upper.append(ends[1])
    low, high = op.evaluate(*lower), op.evaluate(*upper)
    return None if isinstance(low, tuple) or isinstance(high, tuple) else Bounds(low, high)


def _elementwise(op: Operation, inputs: Sequence[TensorType], output: TensorType) -> Bounds | None:
    if not op.elementwise or getattr(op, "auto_broadcast", "numpy") == "pdpd":
        return None
    ranges = []
    for value in inputs:
        bounds = value.known_bounds or (_unknown(value) if value.element_type is element_types.boolean else None)
        if bounds is None:
            return None
        ranges.append(range_of(bounds))
    values = op.value_range(ranges)
    return None if values is None else bounds_of(values, output.element_type)


def _unknown(value: TensorType) -> Bounds | None:
    """Bounds without information, such as those of a part of a list that is computed."""
    if not value.shape.is_static or value.shape.element_count().value > BOUNDS_LIMIT:
        return None
    is_boolean = value.element_type is element_types.boolean
    low, high = (0, 1) if is_boolean else (-INFINITY - 1, INFINITY)
    shape = value.shape.static()
    return Bounds(np.full(shape, low, np.int64), np.full(shape, high, np.int64))


def _exact(op: Operation, inputs: Sequence[TensorType]) -> Bounds | None:
    """The value of the first output where all inputs are known exactly, such as a condition on dimensions."""
    if not inputs or not op.is_pure:
        return None
    if not all(
        tensor_type.shape.is_static and tensor_type.shape.element_count().value <= BOUNDS_LIMIT
        for tensor_type in inputs
    ):
        return None
    values = [tensor_type.constant for tensor_type in inputs]
    if any(value is None for value in values):
        return None
    result = op.evaluate(*values)  # type: ignore[arg-type]
    first = np.asarray(result[0] if isinstance(result, tuple) else result)
    if first.dtype == np.uint64 and first.size and first.max() > INFINITY:
        return None
    exact = first.astype(np.int64)
    return Bounds(exact, exact)


def make_node(op: Operation, inputs: Sequence[Output], name: str = "") -> Node:
    """A node whose output types are inferred; raises :class:`InferenceError` as ``op.infer`` does."""
    return Node(op, inputs, infer_types(op, [source.type for source in inputs]), name)
