"""How many keys there are, and how many came before: from the attention mask, not from the caches.

    Concat(past, new) -> ShapeOf -> Gather(2)         becomes      attention_mask -> ShapeOf -> Gather(1)
    past -> ShapeOf -> Gather(2)                      becomes      the same, less the number of tokens

The mask ``[batch, keys]`` covers the past and the new tokens. A runtime that makes one step of attention and its cache
cannot take a mask that depends on the shape of that cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ir_runtime.graph.model import Model, Node, Output, uses_in
from ir_runtime.operations.generation import ShapeOf1, ShapeOf3
from ir_runtime.operations.indexing import Gather1, Gather7, Gather8
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.polynomials import Polynomial
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of
from ir_runtime.rewriting.symbolic_shapes import SymbolicShapes
from ir_runtime.rewriting.unique_names import UniqueNames
from ir_runtime.rewriting.uses import replace_all_uses

_MASK = "attention_mask"


def take_lengths_from_mask(
    model: Model, tokens: Output, pasts: Mapping[Output, int], presents: Mapping[Output, int], unique: UniqueNames
) -> None:
    """Compute dimensions of caches from the mask, in place; nothing where there is none.

    ``pasts`` and ``presents`` map values to the dimension that is their number of keys.
    """
    mask = next((node.outputs[0] for node in model.parameters if _MASK in node.end_names), None)
    if mask is None or mask.shape.rank != 2 or tokens.shape.rank < 2:
        return
    shapes, nodes = SymbolicShapes(), model.nodes()
    lengths = {_dimension(shapes, value, axis): True for value, axis in pasts.items()}
    lengths |= {_dimension(shapes, value, axis): False for value, axis in presents.items()}
    readers, builder, replaced = uses_in(nodes), Builder(), dict[Output, Output]()
    for node in nodes:
        if not isinstance(node.op, (ShapeOf1, ShapeOf3)) or node.inputs[0].node.op.role == "parameter":
            continue
        dims = shapes.dims(node.inputs[0]) or []
        axis = next((axis for axis, dim in enumerate(dims) if dim in lengths), None)
        if axis is None:
            continue
        known = len(builder.emitted)
        keys = dim_of(builder, mask, 1)
        length = layers.subtract(builder, keys, dim_of(builder, tokens, 1)) if lengths[dims[axis]] else keys
        replaced |= _replacements(builder, node, node.inputs[0], axis, length, readers)
        for made in builder.emitted[known:]:
            made.name, made.origin = unique(f"{node.name}/{made.op.type}"), node.origin
    replace_all_uses(model, replaced)


def _dimension(shapes: SymbolicShapes, value: Output, axis: int) -> Polynomial | None:
    dims = shapes.dims(value)
    return None if dims is None else dims[axis]


def _replacements(
    builder: Builder,
    shape: Node,
    value: Output,
    axis: int,
    length: Output,
    readers: Mapping[Output, Sequence[Node]],
) -> dict[Output, Output]:
    """What replaces the dimensions that are picked from a shape, or the whole shape where it is read otherwise."""
    whole, kind = shape.outputs[0], shape.outputs[0].element_type
    found: dict[Output, Output] = {}
    is_whole_read = False
    for reader in readers.get(whole, ()):
        index = reader.inputs[1].type.constant if isinstance(reader.op, (Gather1, Gather7, Gather8)) else None
        if index is not None and index.size == 1 and int(index.reshape(-1)[0]) % value.shape.rank == axis:
            picked = in_type(builder, length, kind)
            if index.ndim == 1:
                picked = layers.unsqueeze(builder, picked, 0)
            found[reader.outputs[0]] = picked
        elif index is None or any(int(one) % value.shape.rank == axis for one in index.reshape(-1)):
            is_whole_read = True
    if is_whole_read:
        dims = [length if at == axis else dim_of(builder, value, at) for at in range(value.shape.rank)]
        found[whole] = in_type(builder, concat_lists(builder, dims), kind)
    return found
