"""Results of single layers in which the CPU plug-in differs, and which no rule prevents; docs/limits.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.records import record

_LEAST_INT32 = -(2**31)


@record
class Limit:
    """Elements of results that the plug-in computes otherwise.

    ``is_reached`` returns a mask of them, from the inputs of the layer, its expected and its actual result.
    """

    operations: frozenset[str]
    text: str
    is_reached: Callable[[Sequence[Array], Array, Array], Array]


def _is_lost_nan(inputs: Sequence[Array], expected: Array, actual: Array) -> Array:
    return np.asarray(expected != expected)


def _is_beyond_int32(inputs: Sequence[Array], expected: Array, actual: Array) -> Array:
    if inputs[0].dtype.kind != "f" or expected.dtype != np.int64:
        return np.zeros(expected.shape, np.bool_)
    return np.asarray((actual == _LEAST_INT32) & ~(np.abs(inputs[0]) < -_LEAST_INT32))


LIMITS = [
    Limit(frozenset({"ReLU", "Clamp", "Maximum", "Minimum"}), "loses NaN", _is_lost_nan),
    Limit(frozenset({"Convert"}), "turns floats beyond int32 into -2^31", _is_beyond_int32),
]


def limit_reached(node: Node, inputs: Sequence[Array], expected: Array, actual: Array) -> tuple[str, Array | None]:
    """Return the limit that results of ``node`` reach, and the mask of the elements; without any "" and None."""
    for limit in LIMITS if expected.shape == actual.shape else ():
        if node.op.type in limit.operations:
            mask = limit.is_reached(inputs, expected, actual)
            if mask.any():
                return limit.text, mask
    return "", None
