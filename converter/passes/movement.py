"""Leave out Broadcasts, or move them behind other layers; fuse Reshape, Transpose and Reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Operation, Output
from ir_runtime.operations.blocks import DepthToSpace1, ShuffleChannels1
from ir_runtime.operations.movement import Broadcast, Broadcast3, Reshape1, Transpose1
from ir_runtime.rewriting import Builder, Match, Replacement, anything, constant, fail, layer, layers
from ir_runtime.rewriting.replace_layers import Substitute

from .registry import passes


@passes.replaces("broadcast_numbers")
def broadcast_number(builder: Builder, node: Node) -> Replacement:
    """Compute elementwise layers from a scalar instead of its broadcast.

        0 -> Broadcast(shape) -> Add(8)             becomes      8 -> Broadcast(shape)
        1.0 -> Broadcast(shape) -> NotEqual(0)      becomes      True -> Broadcast(shape)

    Exporters write this for ``torch.full`` and ``torch.ones``. The other operand is one number, too.
    """
    wide = next((source for source in node.inputs if isinstance(source.node.op, Broadcast)), None)
    if wide is None:
        return fail("it reads nothing that is broadcast")
    if wide.only_user is None or not _is_number(wide.node.inputs[0]) or len(wide.node.inputs) != 2:
        return fail("what is broadcast is no number, names axes, or is read elsewhere, too")
    others = [source for source in node.inputs if source is not wide]
    least = wide.shape.rank if wide.shape.has_rank else wide.node.inputs[0].shape.rank
    if any(not _is_number(other) or other.shape.rank > least for other in others):
        return fail("the other operand is no number, or may have more dimensions")
    if getattr(node.op, "auto_broadcast", "numpy") != "numpy":
        return fail("its operands are not broadcast as NumPy does")
    number = wide.node.inputs[0]
    result = builder.emit(node.op, *[number if source is wide else source for source in node.inputs])
    return builder.emit(wide.node.op, result, wide.node.inputs[1])


def _is_number(value: Output) -> bool:
    return value.tensor is not None and value.tensor.size == 1


@passes.replaces("broadcast_operands")
def broadcast_operand(builder: Builder, node: Node) -> Replacement:
    """Leave out Broadcasts that only elementwise layers read, which broadcast themselves.

        x -> Broadcast(shape of y) -> Add(y)                becomes      x -> Add(y)
        x -> Broadcast(shape of y) -> Select(number, y)     becomes      x -> Select(number, y)

    Each number of the target is 1, or the dimension of another operand at its place, for whatever shapes. torch writes
    this for ``x.expand_as(y)``, and so for ``torch.nn.functional.normalize``.
    """
    x, value = node.inputs[0], node.outputs[0]
    target = symbolic_shapes().elements(node.inputs[1])
    if target is None or node.op.mode == "explicit":  # type: ignore[attr-defined]
        return fail("its target is not known, or it names axes")
    if not value.uses:
        return fail("nothing reads it")
    for reader in value.uses:
        if not _broadcasts_itself(reader, value, target.reshape(-1).tolist()):
            return fail(f"'{reader.name}' reads it, and may not broadcast to the same shape")
    return Substitute(x)


def _broadcasts_itself(reader: Node, value: Output, target: list[Polynomial]) -> bool:
    """True if each number of the target is 1, or the dimension of another operand at its place."""
    if getattr(reader.op, "auto_broadcast", "") != "numpy":
        return False
    shapes = [symbolic_shapes().dims(source) for source in reader.inputs if source is not value]
    operands = [dims[::-1] for dims in shapes if dims is not None]
    return all(
        any(place < len(dims) and (size.value == 1 or size == dims[place]) for dims in operands)
        for place, size in enumerate(target[::-1])
    )


@passes.replaces("broadcast_targets")
def broadcast_target(builder: Builder, node: Node) -> Replacement:
    """Write 1 for dimensions of a Broadcast's target that the input has anyway.

        x [b, 2, 1, t, 32], [b, 2, 4, t, 32] -> Broadcast         becomes      x, [1, 1, 4, 1, 1] -> Broadcast

    A dimension of 1 in the target keeps that of ``x``. Exporters write the first form to repeat the heads of attention;
    runtimes recognise the second one. Dimensions are those of ``x`` for whatever shapes.

        x [b, t], [1, 1, 1] -> Broadcast                          becomes      x -> Unsqueeze([0])

    The second form says that nothing is repeated, for whatever shapes.
    """
    x, target = node.inputs[:2]
    if node.op.mode == "explicit":  # type: ignore[attr-defined]
        return fail("axes tell where the dimensions go")
    if target.tensor is not None:
        values = target.tensor.array()
        if not x.shape.has_rank or values.size <= x.shape.rank or (values != 1).any():
            return fail("its target is constant, and does more than adding dimensions of 1")
        return layers.unsqueeze(builder, x, *range(values.size - x.shape.rank))
    dims, target_dims = symbolic_shapes().dims(x), symbolic_shapes().elements(target)
    if dims is None or target_dims is None or target_dims.size > len(dims):
        return fail("rank or target are not known, or it adds dimensions")
    own = dims[len(dims) - target_dims.size :]
    numbers = [1 if size == dim else size.value for size, dim in zip(target_dims.reshape(-1).tolist(), own)]
    if None in numbers:
        return fail("a dimension of the target is computed, and is not that of the input")
    constant = builder.constant(numbers, target.element_type)
    return builder.emit(Broadcast3(mode="bidirectional"), x, constant)


_FIRST = layer(Reshape1, anything("x"), anything("shape"), name="first")
_SHUFFLE = layer(Reshape1, layer(Transpose1, _FIRST, constant("order")), anything("last shape"))

_DEPTH_TO_SPACE: dict[tuple[int, ...], str] = {(0, 3, 4, 1, 5, 2): "blocks_first", (0, 1, 4, 2, 5, 3): "depth_first"}

_Dims = Sequence[Polynomial]


@passes.fuses("channel_shuffles", _SHUFFLE)
def channel_shuffle(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse Reshape, Transpose and Reshape into a shuffle of channels or blocks of space.

        x [n, c, h, w] -> Reshape [n, g, c / g, h, w] -> Transpose(0, 2, 1, 3, 4) -> Reshape [n, c, h, w]
                                                                       becomes      x -> ShuffleChannels(g)
        x -> Reshape [n, r, r, c / r^2, h, w] -> Transpose(0, 3, 4, 1, 5, 2) -> Reshape [n, c / r^2, h * r, w * r]
                                                                       becomes      x -> DepthToSpace(r)

    Target shapes may be constant or computed from the shape of ``x``; the number of channels is static.
    """
    order = tuple(match.array("order").reshape(-1).tolist())
    x, first, last = (symbolic_shapes().dims(value) for value in (match["x"], match["first"], node.outputs[0]))
    if x is None or first is None or last is None or len(x) < 3 or not x[1].value:
        return fail("the number of channels is not known")
    op = _shuffle(order, x, first, last) or _blocks(order, x, first, last)
    if op is None:
        return fail(f"{list(order)} shuffles neither channels nor blocks, or dimensions are not those of the data")
    return builder.emit(op, match["x"])


def _shuffle(order: tuple[int, ...], x: _Dims, first: _Dims, last: _Dims) -> Operation | None:
    """Groups of channels and the channels of a group change places."""
    if order != (0, 2, 1, *range(3, len(x) + 1)) or list(last) != list(x):
        return None
    groups, channels = first[1], first[2]
    if groups.value is None or groups * channels != x[1] or [first[0], *first[3:]] != [x[0], *x[2:]]:
        return None
    return ShuffleChannels1(axis=1, group=groups.value)


def _blocks(order: tuple[int, ...], x: _Dims, first: _Dims, last: _Dims) -> Operation | None:
    """Channels become blocks of r rows and r columns."""
    mode = _DEPTH_TO_SPACE.get(order)
    if mode is None or len(x) != 4 or len(first) != 6:
        return None
    depth = first[3 if mode == "blocks_first" else 1]
    block = math.isqrt((x[1].value or 0) // max(1, depth.value or 0))
    if block < 2:
        return None
    size = Polynomial.constant(block)
    parts = [size, size, depth] if mode == "blocks_first" else [depth, size, size]
    is_split = list(first) == [x[0], *parts, x[2], x[3]] and depth * size * size == x[1]
    if not is_split or list(last) != [x[0], depth, x[2] * size, x[3] * size]:
        return None
    return DepthToSpace1(mode=mode, block_size=block)


_FLAT = layer(Reshape1, anything("x"), anything("flat shape"), name="flat")
_FLATTENED = layer(Reshape1, layer(Transpose1, _FLAT, constant("order")), anything("shape"))


@passes.fuses("flattened_transposes", _FLATTENED)
def flattened_transpose(builder: Builder, node: Node, match: Match) -> Replacement:
    """Transpose matrices without making all dimensions in front of them one.

        x [a, b, s, d] -> Reshape [-1, s, d] -> Transpose(0, 2, 1) -> Reshape [a, b, d, s]

    becomes

        x -> Transpose(0, 1, 3, 2)

    torch writes this since its exporter goes through graphs of its own. Dimensions are those of ``x`` for whatever
    shapes.
    """
    if match.array("order").reshape(-1).tolist() != [0, 2, 1]:
        return fail("it does not swap the last two dimensions")
    shapes = symbolic_shapes()
    x, flat, last = shapes.dims(match["x"]), *(shapes.elements(match[name]) for name in ("flat shape", "shape"))
    if x is None or flat is None or last is None or len(x) < 3:
        return fail("a shape is not known, or its rank is less than 3")
    if not _agree(flat.tolist()[1:], x[-2:]) or not _agree(last.tolist(), [*x[:-2], x[-1], x[-2]]):
        return fail("dimensions are not known to be those of the input")
    # In a Reshape, 0 would take over a dimension of another place; the last two then fail, as there is none.
    if len(x) > 3 and any(shapes.low(dimension) < 1 for dimension in (*x[1:-2], x[-1])):
        return fail("a dimension may be 0")
    axes = [*range(len(x) - 2), len(x) - 1, len(x) - 2]
    return layers.transpose(builder, match["x"], builder.constant(axes))


def _agree(target: Sequence[Polynomial], dims: Sequence[Polynomial]) -> bool:
    """True if the target of a Reshape has these dimensions; one of -1 is what the number of elements leaves."""
    return len(target) == len(dims) and all(size.value == -1 or size == own for size, own in zip(target, dims))
