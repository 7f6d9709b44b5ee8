"""Join slices in a row, and those that are parts of a whole."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ir_runtime.graph import Dimension, Model, Node, Output, Part, Tensor, make_node
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.slicing import Slice8, VariadicSplit1
from ir_runtime.rewriting import Builder, NotMatched, PassTrace, Replacement, UniqueNames, fail

from .registry import passes

_MOST_READERS = 16
"""Each of them checks all others: more would take quadratic time."""


@passes.replaces("slices_in_a_row")
def slice_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Join slices in a row along different axes.

        x -> Slice(0: of axis 1 by 2) -> Slice(1: of axis 2 by 2)    becomes    x -> Slice([0:, 1:] of axes [1, 2] by 2)

    All bounds must be constant. A slice that several slices read is removed where each of them can apply its bounds as
    well, as in Swin Transformer, whose patch merging takes four slices of one.
    """
    first = node.inputs[0].node
    if not isinstance(first.op, Slice8):
        return fail(f"its input is made by {first.op.type}, not by Slice")
    _check_readers(first)
    lists = [builder.constant([*front, *back]) for front, back in zip(_lists(first), _lists(node))]
    return builder.emit(Slice8(), first.inputs[0], *lists)


def _check_readers(first: Node) -> None:
    """Raise the reason why not all that reads a slice can take its bounds over."""
    before = _lists(first)
    readers = first.outputs[0].uses
    if len(readers) > _MOST_READERS:
        raise fail("too many layers read the slice before it")
    for reader in readers:
        if not set(_lists(reader)[3]).isdisjoint(before[3]):
            raise fail(f"'{reader.name}' slices an axis of the slice before it")


def _takes_over(first: Node) -> bool:
    try:
        _check_readers(first)
    except NotMatched:
        return False
    return True


def _lists(node: Node) -> list[list[int]]:
    """Starts, stops, steps and axes, these counted from the front."""
    if not isinstance(node.op, Slice8):
        raise fail(f"'{node.name}' reads the slice before it, too, and is no Slice")
    shape = node.inputs[0].shape
    if not shape.has_rank:
        raise fail("the rank is not known")
    constants = [source.type.constant for source in node.inputs[1:]]
    if any(values is None for values in constants):
        raise fail(f"the bounds or axes of '{node.name}' are not constant")
    lists = [[int(value) for value in values.reshape(-1)] for values in constants if values is not None]
    axes = lists[3] if len(lists) > 3 else list(range(len(lists[0])))
    return [*lists[:3], [axis % shape.rank for axis in axes]]


_END = 2**31 - 1
"""Exporters write this number, or a larger one, for the end."""


class _Bound(NamedTuple):
    """A place in a dimension, counted from its beginning or (0 or less) from its end."""

    from_end: bool
    place: int


class _Bounds(NamedTuple):
    """A slice along one axis."""

    start: _Bound
    stop: _Bound
    node: Node


@passes.register("splits_from_slices")
def splits_from_slices(model: Model, trace: PassTrace) -> int:
    """Replace slices that together are the whole by one VariadicSplit.

        x -> Slice(0:8 of axis 1) -> a                becomes      x -> VariadicSplit(axis 1, lengths 8, -1) -> a, b
        x -> Slice(8: of axis 1) -> b

    Bounds are constant, along one axis, step by step of 1, and leave no gap. The lengths stay those of the slices.
    Where all parts are sliced along other axes, the slices in a row become one each, and no split is left to do.
    """
    return sum(_split_in(part, trace) for part in model.parts())


def _split_in(part: Part, trace: PassTrace) -> int:
    groups: dict[tuple[Output, int], list[_Bounds]] = defaultdict(list)
    for node in part.nodes_of((Slice8,)):
        try:
            axis, bounds = _bounds(node)
        except NotMatched as why:
            trace.not_matched(node, why)
        else:
            groups[node.inputs[0], axis].append(bounds)
    unique, count = UniqueNames(part), 0
    for (_, axis), slices in groups.items():
        data = slices[0].node.inputs[0]  # which an earlier group may have replaced
        size = data.shape[axis]
        lengths = _lengths(slices, size) or _lengths([_from_begin(each, size) for each in slices], size)
        if lengths is None:
            for each in slices:
                trace.not_matched(each.node, fail("no other slices take the rest, and that once"))
            continue
        if all(_takes_over(each.node) for each in slices):
            for each in slices:
                trace.not_matched(each.node, fail("all that reads it slices another axis, and slices here as well"))
            continue
        places = sorted({_from_begin(each, size).start for each in slices})
        layers = _split(data, axis, lengths, slices[0].node, unique)
        for each in slices:
            each.node.outputs[0].replace_by(layers[-1].outputs[places.index(_from_begin(each, size).start)])
            trace.matched(each.node)
        count += len(slices)
    return count


def _lengths(slices: list[_Bounds], size: Dimension) -> list[int] | None:
    """The lengths of slices that follow one another from begin to end, -1 for one that is not known; else None.

    A slice may be there more than once.
    """
    ordered = sorted({each[:2] for each in slices})
    ends = [_Bound(False, 0), *(stop for _, stop in ordered)]
    last = _Bound(False, size.value) if size.is_static else _Bound(True, 0)
    if len(ordered) < 2 or [start for start, _ in ordered] != ends[:-1] or ends[-1] not in (last, _Bound(True, 0)):
        return None
    lengths = [
        stop.place - start.place if start.from_end == stop.from_end else -1 for start, stop in itertools.pairwise(ends)
    ]
    static_lengths = [length for length in lengths if length != -1]
    if lengths.count(-1) > 1:  # of a static dimension, whose slices are then counted from its beginning
        return None
    return lengths if min(static_lengths, default=0) > 0 and sum(static_lengths) <= size.low else None


def _from_begin(each: _Bounds, size: Dimension) -> _Bounds:
    """The slice counted from the beginning, where the dimension is static; the end itself stays the end."""
    if not size.is_static:
        return each
    start, stop = (
        _Bound(False, max(0, bound.place + size.value if bound.from_end else min(bound.place, size.value)))
        for bound in each[:2]
    )
    return _Bounds(start, each.stop if each.stop == _Bound(True, 0) else stop, each.node)


def _split(data: Output, axis: int, lengths: list[int], first: Node, unique: UniqueNames) -> list[Node]:
    """The layers of the split, named after the first slice."""
    constants = [
        make_node(Const1(value=Tensor.from_array(np.array(value))), (), unique(f"{first.name}/{name}"))
        for name, value in (("axis", axis), ("lengths", lengths))
    ]
    split = make_node(VariadicSplit1(), [data, *(node.outputs[0] for node in constants)], unique(f"{first.name}/split"))
    for node in (*constants, split):
        node.origin = first.origin
    return [*constants, split]


def _bounds(node: Node) -> tuple[int, _Bounds]:
    """The axis of a slice, and its bounds."""
    data = node.inputs[0]
    lists = [source.type.constant for source in node.inputs[1:]]
    if any(values is None for values in lists) or not data.shape.has_rank:
        raise fail("bounds or axes are not constant, or the rank is not known")
    numbers = [values.reshape(-1).tolist() for values in lists if values is not None]
    if any(len(values) != 1 for values in numbers):
        raise fail("it is not along one axis")
    if data.shape.rank == 1 and data.element_type.is_integral:
        raise fail("it takes numbers of a list, such as a shape")
    start, stop, step = (values[0] for values in numbers[:3])
    if step != 1:
        raise fail("its step is not 1")
    axis = (numbers[3][0] if len(numbers) > 3 else 0) % data.shape.rank
    begin = _Bound(start < 0, start) if start > -_END else _Bound(False, 0)
    end = _Bound(stop < 0, stop) if stop < _END else _Bound(True, 0)
    return axis, _Bounds(begin, end, node)
