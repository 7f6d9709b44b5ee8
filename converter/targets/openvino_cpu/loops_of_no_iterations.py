"""Loops that may have no iterations, of which the plug-in returns the slices of an earlier run.

Where a Loop has no iterations, its joined outputs keep what they were in the last inference of the same request, or in
the last iteration of a loop around it.

    Loop(count, ...) -> y      becomes      Loop(count, ...) -> Slice(y, [0], [count]) -> y

The Slice takes all of the slices there are, or none. Where the condition of the first iteration is not known, the end
is Select(condition, count, 0); a count without a limit is that of all.
"""

from __future__ import annotations

from collections.abc import Mapping

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, OutputMap, element_types
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, NotMatched, UniqueNames, fail, layers

from .intervals import interval_of

_ALL = (1 << 31) - 1
_LAYERS = 6
"""The number of layers, at most, that compute the end of a Slice."""


@openvino_cpu.edits("loops_of_no_iterations", seen_in=("2026.4",))
def loops_of_no_iterations(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Let layers read slices of the outputs; names and values stay."""
    joined = {} if _always_runs(node) else _joined_outputs(node)
    builder = Builder(unique)
    builder.begin(node)
    for output, entry in joined.items():
        _slice(builder, node, output, entry)
    return len(joined) or fail("it always has an iteration, or nothing reads a joined output")


def _always_runs(node: Node) -> bool:
    trips, condition = node.inputs[:2]
    low, high = interval_of(trips)
    return (low > 0 or high < 0) and condition.type.constant is not None and bool(condition.type.constant.all())


def _joined_outputs(node: Node) -> Mapping[Output, OutputMap]:
    """The outputs of slices that are joined, but for those that a Slice up to the count reads."""
    (sub,) = node.op.subgraphs
    outputs = {node.outputs[entry.external]: entry for entry in sub.outputs if entry.external is not None}
    return {
        output: entry
        for output, entry in outputs.items()
        if entry.axis is not None and output.is_used and not _is_sliced(output, node.inputs[0])
    }


def _is_sliced(output: Output, trips: Output) -> bool:
    reader = output.only_user
    if reader is None or not isinstance(reader.op, Slice8):
        return False
    computed_from = {reader.inputs[2]}
    for _ in range(_LAYERS):
        computed_from |= {source for value in computed_from for source in value.node.inputs}
    return trips in computed_from


def _slice(builder: Builder, node: Node, output: Output, entry: OutputMap) -> None:
    condition = node.inputs[1].type.constant
    count = layers.in_type(builder, node.inputs[0], element_types.i64)
    if interval_of(count)[0] < 0:
        is_endless = layers.less(builder, count, builder.constant(0))
        count = layers.select(builder, is_endless, builder.constant(_ALL // entry.part_size), count)
    if condition is None or not condition.all():
        count = layers.select(builder, node.inputs[1], count, builder.constant(0))
    if entry.part_size != 1:
        count = layers.multiply(builder, count, builder.constant(entry.part_size))
    bounds = [builder.constant([0]), layers.reshape(builder, count, [1]), builder.constant([1])]
    copy = builder.emit(Slice8(), output, *bounds, builder.constant([entry.axis]))
    output.replace_by(copy, keep=[copy.node])
