"""Loops with sequences as states.

States of the IR's loops are tensors. Where the number of iterations is known, the body is translated once for each.
Where it is not, a body that only appends to an empty sequence gets the appended tensors as a scan output instead. If
ConcatFromSequence joins them along a dynamic dimension, they may differ in size there, which no scan output expresses:
a state then carries the elements of all tensors so far, and a scan output their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.values import JoinedSequence, SequenceValue, StackedSequence, Value, tensor_of
from converter.onnx_file.messages import AttributeProto, GraphProto, NodeProto, ValueInfoProto
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import read_names
from ir_runtime.graph import Output, PartialShape, element_types, normalize_axis
from ir_runtime.operations import movement
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression

_MAX_REPETITIONS = 1000
"""The most iterations for which a body is translated once for each."""


def repeated(ctx: Context, trips: int, start: bool, states: Sequence[Value], body: GraphProto) -> list[Value] | None:
    """The states after all iterations and the joined outputs; None where the condition is computed at run time."""
    carried, goes_on = list(states), start
    joined: list[list[Output]] = [[] for _ in body.output[1 + len(states) :]]
    round_number = 0
    while goes_on and round_number < trips:
        number = [round_number] if is_list(body.input[0]) else round_number
        going = [True] if is_list(body.input[1]) else True
        control = [ctx.constant(number), ctx.constant(going, element_types.boolean)]
        prefix = f"{body.name or 'body'}[{round_number}]/"
        results = ctx.graphs.inline(body, [*control, *carried], prefix=prefix)
        condition = tensor_of(results[0], "the condition").type.constant
        if condition is None:
            return None
        goes_on = bool(condition.all())
        carried = results[1 : 1 + len(states)]
        for column, value in zip(joined, results[1 + len(states) :]):
            item = tensor_of(value, "an output of the body")
            column.append(layers.unsqueeze(ctx, item, 0))
        round_number += 1
    if joined and not round_number:
        raise ctx.unsupported("a loop of no iterations with sequences as states has no tensors for its scan outputs")
    return [*carried, *(ctx.emit(movement.Concat1(axis=0), *column) for column in joined)]


def is_list(declared: ValueInfoProto) -> bool:
    """True if a body declares the iteration's number or the condition as a list of one, and not as a scalar."""
    shape = declared_shape(declared.type)
    return shape.has_rank and shape.rank == 1


def known_trips(trip_count: Output | None, cond: Output | None) -> tuple[int, bool] | None:
    """The greatest number of iterations, and whether there is a first one; None where that is computed at run time."""
    count = None if trip_count is None else trip_count.type.constant
    start = np.array(True) if cond is None else cond.type.constant
    if count is None or start is None or count.size != 1 or int(count.reshape(-1)[0]) > _MAX_REPETITIONS:
        return None
    return max(int(count.reshape(-1)[0]), 0), bool(start.all())


@record
class Join:
    """How the tensors of a sequence are joined: along ``axis``, in which they may differ."""

    axis: int
    shape: PartialShape
    """That of each tensor, as far as it is known."""

    @property
    def order(self) -> list[int]:
        """The dimensions of a tensor, with ``axis`` in front."""
        return [self.axis, *(index for index in range(self.shape.rank) if index != self.axis)]

    def start(self, ctx: Context, state: Value) -> Output:
        """Return the state of no tensors."""
        assert isinstance(state, SequenceValue)
        return ctx.constant(np.zeros((1, 0)), state.element_type)

    def append(self, before: str, tensor: str, after: str) -> list[NodeProto]:
        """Return the nodes that append a tensor to the state, the last of which computes its shape."""
        moved, row = f"{after}/moved", f"{after}/row"
        order = AttributeProto(name="perm", type=AttributeProto.INTS, ints=self.order)
        first, second = (AttributeProto(name="axis", type=AttributeProto.INT, i=axis) for axis in (0, 1))
        return [
            NodeProto(op_type="Transpose", input=[tensor], output=[moved], attribute=[order]),
            NodeProto(op_type="Flatten", input=[moved], output=[row], attribute=[first]),
            NodeProto(op_type="Concat", input=[before, row], output=[after], attribute=[second]),
            NodeProto(op_type="Shape", input=[moved], output=[f"{after}/shape"]),
        ]

    def joined(self, ctx: Context, row: Output, shapes: Output) -> JoinedSequence:
        """Return the sequence whose tensors have all elements of ``row``."""
        rows = Expression(ctx, shapes)
        # All but the first dimension are those of the first tensor; without a tensor they are 0.
        first = rows.cut(0, 0, 1).sum(0)
        dims = [self.shape[index] for index in self.order[1:]]
        sizes = [dim.value if dim.is_static else first.gather(index) for index, dim in enumerate(dims, 1)]
        whole = Expression(ctx, row).reshape(rows.sum(0).gather(0), *sizes)
        return JoinedSequence(whole.transpose(*np.argsort(self.order).tolist()).value, self.axis, shapes)


def joined_axes(ctx: Context, states: Sequence[Value]) -> dict[int, Join]:
    """Return how the stacked sequences are joined that ConcatFromSequence joins along a dynamic dimension."""
    joins = {}
    for index, state in enumerate(states):
        if not isinstance(state, StackedSequence) or not state.stacked.shape.has_rank or not ctx.wants(index):
            continue
        readers = [node for node in ctx.graphs.readers(ctx.output_names[index]) if node.op_type == "ConcatFromSequence"]
        options = [{attribute.name: attribute.i for attribute in node.attribute} for node in readers]
        shape = PartialShape(state.stacked.shape.dims[1:])
        axes = {normalize_axis(option.get("axis", 0), shape.rank) for option in options if not option.get("new_axis")}
        # Tensors that are joined along two axes, or a new one, have the same size.
        if len(axes) == 1 and not any(option.get("new_axis") for option in options):
            (axis,) = axes
            if not ctx.declared(state.stacked).shape[1 + axis].is_static:
                joins[index] = Join(axis, shape)
    return joins


def appending(
    ctx: Context, states: Sequence[Value], body: GraphProto, joins: Mapping[int, Join]
) -> tuple[GraphProto, list[int]]:
    """The body with the appended tensors as further outputs instead of sequences, and the numbers of these states.

    The states in ``joins`` stay states, and the further outputs are the shapes of their tensors. Raises an unsupported
    error where a sequence is used in another way.
    """
    places = [index for index, state in enumerate(states) if not isinstance(state, Output)]
    for place in places:
        state = states[place]
        if not isinstance(state, SequenceValue) or state.items:
            raise ctx.unsupported(
                "a loop whose number of iterations is only known at run time can only append to an empty sequence, "
                f"but state {place} is another"
            )
    nodes = list(body.node)
    appended_body = body.with_fields(node=nodes)
    appended = []
    for place in places:
        tensor = _appended_tensor(ctx, appended_body, nodes, place)
        if place in joins:
            nodes += joins[place].append(body.input[2 + place].name, tensor, body.output[1 + place].name)
            tensor = nodes[-1].output[0]
        appended.append(tensor)
    stacked = {place for place in places if place not in joins}
    inputs = [value for index, value in enumerate(appended_body.input) if index - 2 not in stacked]
    outputs = [value for index, value in enumerate(appended_body.output) if index - 1 not in stacked]
    outputs += [ValueInfoProto(name=name) for name in appended]
    return appended_body.with_fields(input=inputs, output=outputs), places


def _appended_tensor(ctx: Context, body: GraphProto, nodes: list[NodeProto], place: int) -> str:
    """The tensor that is appended to a state; the node that appends it is removed from the body."""
    before, after = body.input[2 + place].name, body.output[1 + place].name
    readers = [node for node in nodes if before in read_names(node)]
    users = [node for node in nodes if after in read_names(node)]
    results = [value.name for value in body.output]
    append = readers[0] if len(readers) == 1 else None
    if (
        append is None
        or append.op_type != "SequenceInsert"
        or len([name for name in append.input if name]) != 2
        or list(append.output) != [after]
        or users
        or before in results
        or results.count(after) != 1
    ):
        raise ctx.unsupported(
            f"the sequence '{before}' is more than appended to in a loop whose number of iterations is only known at "
            "execution"
        )
    nodes.remove(append)
    return append.input[1]
