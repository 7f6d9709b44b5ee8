"""Positions of tokens as an input of the model, where the file computes them.

    length of the past, number of tokens -> Range -> Unsqueeze -> angles or table
    attention_mask -> CumSum -> Subtract(1) -> Slice -> angles or table

becomes

    position_ids [batch, tokens] -> angles or table

Runtimes that serve many prompts at once know the positions, but neither the past's length nor the mask. Masks that
are computed from positions stay. Values are told by running the few layers that compute them with several lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Array, Model, Node, Output, PartialShape, element_types, make_node
from ir_runtime.operations.elementwise import Binary, Comparison, Cos1, Sin1
from ir_runtime.operations.generation import CumSum3, Range4
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.rewriting import Builder, UniqueNames
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.submodel import extract
from ir_runtime.rewriting.type_updates import infer_stale

NAME = "position_ids"
TOKENS = ("input_ids", "inputs_embeds")
"""The input of new tokens, ``[batch, tokens]``, or of their embeddings, ``[batch, tokens, width]``."""
_MASK = "attention_mask"
_ENDS = (MatMul1, Cos1, Sin1, Gather)
"""Uses of positions: angles, or rows of a table."""
_PROBES = ((3, 4), (0, 5), (1 << 20, 2))
"""Numbers of earlier tokens, and of new tokens; the last shows positions that end or start again at a bound."""
_MAX_RANK = 4


def add_position_ids(model: Model, caches: Mapping[Node, tuple[PartialShape, int | None]]) -> int:
    """Replace positions that are computed by an input, in place; how many values were replaced.

    ``caches`` has the inputs that are caches, each with its shape and the dimension that grows.
    """
    names = {name: node for node in model.parameters for name in node.end_names}
    if NAME in names or names.keys().isdisjoint(TOKENS):
        return 0
    matching = list(_computed_integers(model))
    for past, count in _PROBES:
        feeds = _feeds(model, caches, past, count)
        if feeds is None or not matching:
            return 0
        expected = np.arange(past, past + count)
        matching = [
            value
            for value, array in _values(model, matching, feeds).items()
            if array.size == count and (array.ravel() == expected).all()
        ]
    uses = [
        (value, reader)
        for value in matching
        for reader in value.uses
        if set(matching).isdisjoint(reader.outputs) and _leads_to_positions(reader)
    ]
    if not uses:
        return 0
    return _replace(model, uses)


def _computed_integers(model: Model) -> Iterator[Output]:
    """Values that follow from a Range or a running sum by layers over integers."""
    pending = [node.outputs[0] for node in model.nodes() if isinstance(node.op, (Range4, CumSum3))]
    seen = set(pending)
    while pending:
        value = pending.pop(0)
        if value.element_type.is_real or not value.shape.has_rank or value.shape.rank > _MAX_RANK:
            continue
        if value.element_type is not element_types.boolean:
            yield value
        for reader in value.uses:
            if isinstance(reader.op, Gather) and reader.inputs[1] is value:
                continue  # a table, which may have no row for the longest probe
            for output in reader.outputs:
                if output not in seen and reader.op.role == "":
                    seen.add(output)
                    pending.append(output)


def _feeds(
    model: Model, caches: Mapping[Node, tuple[PartialShape, int | None]], past: int, count: int
) -> dict[str, Array] | None:
    """Inputs of a step with ``count`` tokens behind ``past`` keys; None where one is of an unknown kind."""
    feeds: dict[str, Array] = {}
    for node in model.parameters:
        name, input_type = node.end_names[0], node.outputs[0]
        if name in TOKENS:
            widths = list(input_type.shape)[2:] if input_type.shape.has_rank else []
            shape: tuple[int, ...] = (1, count, *(dim.value if dim.is_static else 1 for dim in widths))
        elif name == _MASK:
            shape = (1, past + count)
        elif node in caches:
            cache, growing = caches[node]
            sizes = [dim.value if dim.is_static else 1 for dim in cache]
            shape = tuple(past if axis == growing else size for axis, size in enumerate(sizes))
        else:
            return None
        feeds[name] = np.broadcast_to(np.ones((), input_type.element_type.dtype), shape)  # caches may be long
    return feeds


def _values(model: Model, candidates: Sequence[Output], feeds: Mapping[str, Array]) -> Mapping[Output, Array]:
    part = extract(model, {}, {value: f"value {index}" for index, value in enumerate(candidates)})
    needed = {name for node in part.parameters for name in node.end_names}
    results = compile_model(part, optimize=False)({name: value for name, value in feeds.items() if name in needed})
    return {value: np.asarray(results[f"value {index}"]) for index, value in enumerate(candidates)}


def _leads_to_positions(reader: Node) -> bool:
    """True if a layer leads to angles or to a table, and to no comparison, which would be a mask."""
    pending, seen, leads = [reader], set[Node](), False
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node.op, Comparison):
            return False
        if isinstance(node.op, _ENDS):
            leads = True
        else:
            pending.extend(other for output in node.outputs for other in output.uses)
    return leads


def _replace(model: Model, uses: Sequence[tuple[Output, Node]]) -> int:
    unique = UniqueNames(model)
    builder = Builder(unique)
    builder.begin(NAME)
    parameter = make_node(Parameter1(shape=PartialShape.of_rank(2), element_type=element_types.i64), (), unique(NAME))
    parameter.outputs[0].add_name(NAME)
    count = 0
    for value, reader in uses:
        new = _in_shape_of(builder, parameter.outputs[0], value, reader)
        if new is not None:
            reader.replace_inputs([new if source is value else source for source in reader.inputs])
            count += 1
    if count:
        model.parameters = (*model.parameters, parameter)
        infer_stale(model)
    return count


def _in_shape_of(builder: Builder, positions: Output, value: Output, reader: Node) -> Output | None:
    """The positions ``[batch, tokens]`` with dimensions of 1 where ``value`` has them; None where that is another rank.

    Where a table is read by a row of positions alone, its result gets a batch, which the layers behind it broadcast.
    """
    positions_in_type = in_type(builder, positions, value.element_type)
    rank = value.shape.rank
    if rank == 1:
        behind = reader.outputs[0].uses
        is_table = isinstance(reader.op, Gather) and reader.inputs[1] is value and reader.inputs[0].shape.rank == 2
        broadcast = all(
            isinstance(other.op, Binary)
            and all(
                source.shape.has_rank and source.shape.rank == 3 for source in other.inputs if source.node is not reader
            )
            for other in behind
        )
        return positions_in_type if is_table and behind and broadcast else None
    if rank == 2:
        return positions_in_type
    ones = [axis for axis in range(1, rank) if value.shape[axis].is_static and value.shape[axis].value == 1]
    if len(ones) != rank - 2:
        return None
    return builder.emit(Unsqueeze1(), positions_in_type, builder.constant(ones))
