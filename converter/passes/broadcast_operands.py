"""Broadcasts that only elementwise layers read, which broadcast themselves, are left out.

    x -> Broadcast(shape of y) -> Add(y)                becomes      x -> Add(y)
    x -> Broadcast(shape of y) -> Select(number, y)     becomes      x -> Select(number, y)

Each number of the target is 1, or the dimension of another operand at its place, for whatever shapes. torch writes
this for ``x.expand_as(y)``, and so for ``torch.nn.functional.normalize``.
"""

from __future__ import annotations

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.replace_layers import Substitute

from .registry import passes


@passes.replaces("broadcast_operands")
def broadcast_operand(builder: Builder, node: Node) -> Replacement:
    """Let the elementwise layers read what is broadcast."""
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
