"""Counts of keys, all and earlier ones, from inputs instead of caches that contain the new keys.

    Concat(past, new) -> ShapeOf -> Gather(2)         becomes      attention_mask -> ShapeOf -> Gather(1)
    past -> ShapeOf -> Gather(2)                      becomes      the same, less the number of tokens

The mask ``[batch, keys]`` covers the past and the new tokens. A runtime that makes one step of attention and its cache
cannot take a mask that depends on the shape of that cache. In decoders without ``attention_mask``, as those behind an
encoder,

    Concat(past, new) -> ShapeOf -> Gather(2)         becomes      past -> ShapeOf -> Gather(2), plus that of new
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.symbolic_shapes import SymbolicShapes
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import Builder, UniqueNames, layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of

_MASK = "attention_mask"
_Length = Callable[[Builder], Output]
_Find = Callable[[Output], tuple[int, _Length] | None]
"""Finds the dimension of a value that is a number of keys, and the layers that compute it."""


def take_lengths(
    model: Model, tokens: Output, pasts: Mapping[Output, int], presents: Mapping[Output, int], unique: UniqueNames
) -> None:
    """Compute dimensions of caches from the mask, or from the caches' two parts where there is none, in place.

    ``pasts`` and ``presents`` map values to the dimension that is their number of keys.
    """
    mask = next((node.outputs[0] for node in model.parameters if _MASK in node.end_names), None)
    if mask is None or mask.shape.rank != 2 or tokens.shape.rank < 2:
        find = _from_parts(presents)
    else:
        find = _from_mask(mask, tokens, pasts, presents)
    builder, replaced = Builder(unique), dict[Output, Output]()
    for node in model.nodes():
        if not isinstance(node.op, ShapeOf) or node.inputs[0].node.op.role == "parameter":
            continue
        axis_and_length = find(node.inputs[0])
        if axis_and_length is None:
            continue
        axis, length = axis_and_length
        builder.begin(node)
        replaced |= _replacements(builder, node, node.inputs[0], axis, length(builder))
    for old, new in replaced.items():
        old.replace_by(new, move_names=False)


def _from_mask(mask: Output, tokens: Output, pasts: Mapping[Output, int], presents: Mapping[Output, int]) -> _Find:
    """Of any value with a dimension that is equal to one of a cache."""
    shapes = SymbolicShapes()

    def keys(builder: Builder) -> Output:
        return dim_of(builder, mask, 1)

    def before(builder: Builder) -> Output:
        return layers.subtract(builder, keys(builder), dim_of(builder, tokens, 1))

    lengths: dict[Polynomial, _Length] = dict.fromkeys(_dimensions(shapes, pasts), before)
    lengths |= dict.fromkeys(_dimensions(shapes, presents), keys)

    def find(value: Output) -> tuple[int, _Length] | None:
        dims = shapes.dims(value) or []
        return next(((axis, lengths[dim]) for axis, dim in enumerate(dims) if dim in lengths), None)

    return find


def _from_parts(presents: Mapping[Output, int]) -> _Find:
    """Of the caches themselves: the parts of another one may depend on the length that is replaced."""

    def find(value: Output) -> tuple[int, _Length] | None:
        axis, parts = presents.get(value), value.node.inputs
        if axis is None or not isinstance(value.node.op, Concat1) or len(parts) != 2:
            return None
        return axis, lambda builder: layers.add(builder, *(dim_of(builder, part, axis) for part in parts))

    return find


def _dimensions(shapes: SymbolicShapes, values: Mapping[Output, int]) -> Iterator[Polynomial]:
    for value, axis in values.items():
        dims = shapes.dims(value)
        if dims is not None:
            yield dims[axis]


def _replacements(
    builder: Builder,
    shape: Node,
    value: Output,
    axis: int,
    length: Output,
) -> dict[Output, Output]:
    """Return replacements for the dimensions picked from a shape, or for the whole shape."""
    whole, element_type = shape.outputs[0], shape.outputs[0].element_type
    replacements: dict[Output, Output] = {}
    is_whole_read = False
    for reader in whole.uses:
        index = reader.inputs[1].type.constant if isinstance(reader.op, Gather) else None
        if index is not None and index.size == 1 and int(index.reshape(-1)[0]) % value.shape.rank == axis:
            picked = in_type(builder, length, element_type)
            if index.ndim == 1:
                picked = layers.unsqueeze(builder, picked, 0)
            replacements[reader.outputs[0]] = picked
        elif index is None or any(int(position) % value.shape.rank == axis for position in index.reshape(-1)):
            is_whole_read = True
    if is_whole_read:
        part = value.node.inputs[-1] if isinstance(value.node.op, Concat1) and value.node.op.axis == axis else value
        dims = [length if at == axis else dim_of(builder, part, at) for at in range(value.shape.rank)]
        replacements[whole] = in_type(builder, concat_lists(builder, dims), element_type)
    return replacements
