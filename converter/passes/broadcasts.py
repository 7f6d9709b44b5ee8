"""Leave out Broadcasts, or move them behind other layers."""

from __future__ import annotations

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Broadcast, Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail, layers
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
