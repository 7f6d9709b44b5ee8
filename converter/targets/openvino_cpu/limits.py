"""Layers that the CPU plug-in refuses or computes otherwise, which no rule prevents; docs/limits.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ir_runtime.graph import Array, Model, Node
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


def refused_layers(model: Model) -> Iterator[str]:
    """Yield a sentence for each kind of layer of which the plug-in will refuse the model, and what to do."""
    # Layers that follow from the first ones are refused as well.
    open_ranks = [
        node.where
        for part in model.parts()
        for node in part.nodes
        if not all(output.shape.has_rank for output in node.outputs)
        and all(source.shape.has_rank for source in node.inputs)
    ]
    if open_ranks:
        more = f" and {len(open_ranks) - 1} more return" if len(open_ranks) > 1 else " returns"
        yield (
            f"OpenVINO's CPU plug-in takes no tensors of unknown rank, such as {open_ranks[0]}{more}; give the "
            "shapes of inputs (--input), or axes in the model"
        )
