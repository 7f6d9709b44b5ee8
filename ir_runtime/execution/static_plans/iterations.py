"""A TensorIterator over known shapes: the calls of its body's plan, in the arrays of one set for all iterations.

Slices of inputs are copied into the body's arrays, and what an iteration computes to its place in the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Model, Node, Output, SubGraph, Tensor
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.control_flow import Slices, TensorIterator1
from ir_runtime.operations.inputs_outputs import Const1

from .binding import Binding, Call, binder

_Copies = Sequence[tuple[Array, Array]]
_Parts = Sequence[tuple[Array, Sequence[Array]]]
"""An array of the body, and what belongs to it in each iteration."""


def body_with_weights(sub: SubGraph, node: Node, constants: Mapping[Output, Array]) -> Model:
    """A copy of the node's body in which constants that every iteration reads are constants, which a plan packs."""
    body = sub.body.clone()
    carried = {parameter for _, parameter in sub.back_edges}
    for entry in sub.inputs:
        value = None if entry.external is None else constants.get(node.inputs[entry.external])
        if value is None or entry.axis is not None or entry.parameter in carried:
            continue
        parameter = body.parameters[entry.parameter].outputs[0]
        weights = make_node(Const1(value=Tensor.from_array(value, parameter.element_type)), [])
        parameter.replace_by(weights.outputs[0])
    return body


@binder(TensorIterator1)
def iterations(node: Node, b: Binding) -> list[Call] | None:
    """Where all parameters of the body are fed and all its values have static shapes."""
    op: Any = node.op
    sub = op.sub
    arrays = b.all_arrays(node.inputs)
    carried = {parameter: result for result, parameter in sub.back_edges}
    sources = {entry.parameter: entry for entry in sub.inputs if entry.external is not None}
    if arrays is None or len(sources) < len(sub.body.parameters) or not all(map(b.is_bindable, node.outputs)):
        return None
    slices = {p: Slices.of(e, arrays[e.external].shape[e.axis]) for p, e in sources.items() if e.axis is not None}
    counts = {cut.count for cut in slices.values()}
    if len(counts) != 1 or 0 in counts or not slices.keys().isdisjoint(carried):
        return None
    (count,) = counts
    values = {
        p: [slices[p].cut(arrays[e.external], e.axis, i) for i in range(count)] if p in slices else [arrays[e.external]]
        for p, e in sources.items()
    }

    def make_body() -> Model:
        body = body_with_weights(sub, node, b.site.constants)
        body.reshape({parameter: list(value[0].shape) for parameter, value in values.items()})
        return body

    instance = b.body(node, make_body)
    if instance is None or instance.cells:
        return None
    targets, results = instance.inputs, instance.outputs
    outer = [output.shape.static() for output in node.outputs]
    for entry in sub.outputs:
        shape = list(results[entry.result].shape)
        if entry.axis is not None:
            if shape[entry.axis] != entry.part_size:
                return None
            shape[entry.axis] *= count
        if tuple(shape) != outer[entry.external] or results[entry.result].dtype != _dtype(node, entry.external):
            return None
    starts, changes, fixed = [], [], []
    for parameter, parts in values.items():
        target = targets[parameter]
        if target is None:
            continue
        if target.dtype != parts[0].dtype or target.shape != parts[0].shape:
            return None
        if parameter in carried:
            result = results[carried[parameter]]
            if result.dtype != target.dtype or result.shape != target.shape:
                return None
            starts.append((target, parts[0]))
            changes.append((target, result))
        else:
            # Later values of the body may lie in the memory of its inputs.
            fixed.append((target, parts if parameter in slices else parts * count))
    apart = [
        (target, np.empty_like(value)) if any(np.may_share_memory(value, other) for other, _ in changes) else None
        for target, value in changes
    ]
    held = [(copy[1], value) for copy, (_, value) in zip(apart, changes) if copy is not None]
    carries = [*held, *(change if copy is None else copy for copy, change in zip(apart, changes))]
    outs = [b.new(output) for output in node.outputs]
    joined, last = [], []
    for entry in sub.outputs:
        out, result = outs[entry.external], results[entry.result]
        if entry.axis is None:
            last.append((out, result))
            continue
        ends = [slice(i * entry.part_size, (i + 1) * entry.part_size) for i in range(count)]
        places = [out[(*[slice(None)] * entry.axis, end)] for end in ends]
        joined.append((result, places[::-1] if entry.stride < 0 else places))
    return [partial(_iterate, count, instance.calls, starts, carries, fixed, joined, last)]


def _dtype(node: Node, output: int) -> Any:
    return node.outputs[output].element_type.dtype


def _iterate(
    count: int, calls: Sequence[Call], starts: _Copies, carries: _Copies, fixed: _Parts, joined: _Parts, last: _Copies
) -> None:
    copy = np.copyto
    for iteration in range(count):
        for target, value in carries if iteration else starts:
            copy(target, value)
        for target, parts in fixed:
            copy(target, parts[iteration])
        for call in calls:
            call()
        for result, places in joined:
            copy(places[iteration], result)
    for target, value in last:
        copy(target, value)
