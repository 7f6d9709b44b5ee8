"""TensorIterator over slices that its body does not read, as Loop.

The plug-in drops the sliced input, and runs the body once. A Loop has the number of iterations as an input.

    x, state -> TensorIterator over the rows of x      becomes      x -> ShapeOf -> Gather ----> Loop
                                                                    state --------------------> Loop
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import InputMap, Node, OutputMap, SubGraph, make_node
from ir_runtime.operations.control_flow import Loop5
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.rewriting import Builder, Replacement, UniqueNames, fail
from ir_runtime.rewriting.shape_layers import dim_of


@openvino_cpu.replaces("iterator_over_unread_slices", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def iterator_over_unread_slices(builder: Builder, node: Node) -> Replacement:
    """Count the iterations by the dimension that is sliced."""
    (sub,) = node.op.subgraphs
    sliced = [entry for entry in sub.inputs if entry.axis is not None]
    if not sliced or any(sub.body.parameters[entry.parameter].outputs[0].is_used for entry in sliced):
        return fail("the body reads a slice, or nothing is sliced")
    first = sliced[0]
    if first.axis is None or first.external is None or not _covers_all(first):
        return fail("the slices are not the single elements from the first to the last or backwards")
    count = dim_of(builder, node.inputs[first.external], first.axis)
    op, external = _loop(sub, [entry for entry in sub.inputs if entry.axis is None])
    states = [node.inputs[index] for index in external]
    return builder.emit_all(op, count, builder.constant(True, "boolean"), *states)


def _covers_all(entry: InputMap) -> bool:
    return entry.part_size == 1 and (entry.start, entry.end, entry.stride) in ((0, -1, 1), (-1, 0, -1))


def _loop(sub: SubGraph, kept_inputs: list[InputMap]) -> tuple[Loop5, list[int]]:
    """The Loop over the same body without the slices, and the inputs that follow its count and condition."""
    body = sub.body.clone()
    places = {entry.parameter: index for index, entry in enumerate(kept_inputs)}
    body.parameters = [body.parameters[entry.parameter] for entry in kept_inputs]
    going = Builder().constant(True, "boolean").node
    unique = UniqueNames(body)
    going.name = unique("condition")
    body.results = [*body.results, make_node(Result1(), going.outputs, unique("condition/result"))]
    inputs = tuple(InputMap(2 + index, index) for index in range(len(kept_inputs)))
    outputs = (*sub.outputs, OutputMap(None, len(body.results) - 1))
    back_edges = tuple((result, places[parameter]) for result, parameter in sub.back_edges if parameter in places)
    loop = Loop5(bodies=(SubGraph(body, inputs, outputs, back_edges),))
    return loop, [entry.external for entry in kept_inputs if entry.external is not None]
