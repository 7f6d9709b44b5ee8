"""Lower bounds of computed values, such as masks that are added to scores."""

from __future__ import annotations

import math

import numpy as np

from ir_runtime.graph import ElementType, Output
from ir_runtime.operations.elementwise import Convert1, Maximum1, Minimum1, Select1
from ir_runtime.operations.movement import Concat1


def lower_bound(value: Output) -> float:
    """Return a number that no element is less than, as far as the layers that compute the value tell.

    The result is minus infinity where nothing is known. NaN is not less than any number.
    """
    return _lower_bound(value, {})


def _lower_bound(value: Output, bounds: dict[Output, float]) -> float:
    if value not in bounds:
        bounds[value] = _computed(value, bounds)
    return bounds[value]


def _computed(value: Output, bounds: dict[Output, float]) -> float:
    constant = value.type.constant
    if constant is not None:
        numbers = np.asarray(constant, np.float64)
        return float(np.fmin.reduce(numbers.reshape(-1), initial=math.inf))
    op, inputs = value.node.op, value.node.inputs
    if isinstance(op, Maximum1):
        return max(_lower_bound(source, bounds) for source in inputs)
    if isinstance(op, Convert1):
        return _converted(_lower_bound(inputs[0], bounds), inputs[0].element_type, value.element_type)
    if isinstance(op, Select1):
        sources = inputs[1:]
    elif isinstance(op, (Concat1, Minimum1)):
        sources = inputs
    elif op.movement and inputs:
        sources = inputs[:1]
    else:
        sources = ()
    return min((_lower_bound(source, bounds) for source in sources), default=-math.inf)


def _converted(bound: float, source: ElementType, target: ElementType) -> float:
    """The bound of values of the type ``source`` in the type ``target``, where small numbers may become infinite."""
    if not target.is_real:
        return -math.inf
    if not source.is_real:
        bound = max(bound, float(source.limits[0]))
    with np.errstate(over="ignore"):
        return float(np.asarray(bound, np.float64).astype(target.dtype).astype(np.float64))
