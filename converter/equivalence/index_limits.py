"""Limits of inputs that are indices: below the dimension of what they index, in the same run.

A table of the file has a fixed number of rows. The nodes of a graph network, or the data of a Scatter, have as many
as another input of the run, so the limits follow from the shapes of all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ir_runtime import Model
from ir_runtime.graph import Node, Output, TensorType, normalize_axis
from ir_runtime.operations.elementwise import Convert1, Select1
from ir_runtime.operations.indexing import Gather1, Gather7, Gather8, GatherElements6, GatherND5, GatherND8
from ir_runtime.operations.movement import Concat1
from ir_runtime.operations.scatter import (
    ScatterElementsUpdate3,
    ScatterElementsUpdate12,
    ScatterNDUpdate4,
    ScatterNDUpdate15,
    ScatterUpdate3,
)
from ir_runtime.records import record

_ALONG_AN_INPUT = (Gather1, Gather7, Gather8)
_SCATTERS = (ScatterUpdate3, ScatterElementsUpdate3, ScatterElementsUpdate12)
_GATHER_ND = (GatherND5, GatherND8)
_SCATTER_ND = (ScatterNDUpdate4, ScatterNDUpdate15)
_AXIS_OF_GATHER, _AXIS_OF_SCATTER = 2, 3


@record
class _Use:
    """The place where an input indexes ``data``: along ``axis``; None for as many axes as the indices have columns."""

    data: Output
    axis: int | None
    indices: Output


class IndexLimits:
    """The places where inputs of ``model`` are indices."""

    def __init__(self, model: Model) -> None:
        self._uses = {
            position: limits_of_uses
            for position, output in enumerate(model.inputs)
            if output.element_type.is_integral and (limits_of_uses := list(_uses_as_indices(output)))
        }

    def __bool__(self) -> bool:
        return bool(self._uses)

    def of(self, types: Mapping[Output, TensorType]) -> dict[int, int]:
        """The number of values that each input may take, from 0 on, by position, where ``types`` are those of a run."""
        limits = {
            position: [limit for use in uses for limit in _limits(use, types)] for position, uses in self._uses.items()
        }
        return {position: min(limits_of_uses) for position, limits_of_uses in limits.items() if limits_of_uses}


def _limits(use: _Use, types: Mapping[Output, TensorType]) -> Iterator[int]:
    shape, indices = types[use.data].shape, types[use.indices].shape
    if not shape.has_rank or not shape.rank:
        return
    if use.axis is not None:
        axes = [normalize_axis(use.axis, shape.rank)]
    elif indices.has_rank and indices.rank and indices[-1].is_static:
        axes = list(range(min(indices[-1].value, shape.rank)))
    else:
        axes = list(range(shape.rank))
    yield from (shape[axis].value for axis in axes if shape[axis].is_static and shape[axis].value > 0)


def _uses_as_indices(start: Output) -> Iterator[_Use]:
    pending, seen = [start], {start}
    while pending:
        value = pending.pop()
        for node in value.uses:
            use = _use(node, value)
            if use is not None:
                yield use
            elif _hands_on(node, value):
                new = [output for output in node.outputs if output not in seen]
                seen.update(new)
                pending.extend(new)


def _use(node: Node, value: Output) -> _Use | None:
    if len(node.inputs) < 2 or node.inputs[1] is not value:
        return None
    data = node.inputs[0]
    if isinstance(node.op, _ALONG_AN_INPUT):
        return _along(node, _AXIS_OF_GATHER)
    if isinstance(node.op, _SCATTERS):
        return _along(node, _AXIS_OF_SCATTER)
    if isinstance(node.op, GatherElements6):
        return _Use(data, node.op.axis, value)
    return _Use(data, None, value) if isinstance(node.op, (*_GATHER_ND, *_SCATTER_ND)) else None


def _along(node: Node, position: int) -> _Use | None:
    axis = node.inputs[position].type.constant
    return None if axis is None else _Use(node.inputs[0], int(axis.reshape(-1)[0]), node.inputs[1])


def _hands_on(node: Node, value: Output) -> bool:
    """True if elements of ``value`` are elements of the layer's outputs."""
    if isinstance(node.op, (Concat1, Select1)):
        return True
    return node.inputs[0] is value and (node.op.movement or isinstance(node.op, Convert1))
