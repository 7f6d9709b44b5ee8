"""Rotations of parts of unequal width, which OpenVINO takes for rotary embeddings of two halves.

    x -> Slices of 3 and 5 -> a, b;  Negative(b), a -> Concat -> r;  r -> Multiply(sin)

becomes

    ... -> Concat -> Maximum(r, r) -> Multiply(sin)

Maximum changes nothing, and prevents the fusion.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import INFINITY, Node, Output
from ir_runtime.operations.elementwise import Multiply1, Negative1
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import Builder, Replacement, fail

from .opaque_identity import opaque_identity


@openvino_cpu.replaces("uneven_rotations", seen_in=("2024.6", "2025.4", "2026.4"))
def uneven_rotation(builder: Builder, node: Node) -> Replacement:
    """Keep the Concat apart from the product behind it."""
    if len(node.inputs) != 2 or not any(_is_scaled(value) for value in node.inputs):
        return fail("it does not put a negative part in front of or behind another one")
    assert isinstance(node.op, Concat1)
    # The dimensions of the data are not known here. Slices of constant places have bounds; halves that are cut at a
    # computed place or up to the end have none, or equal ones, and are to be fused.
    shapes = [value.shape for value in node.inputs]
    widths = {shape[node.op.axis].high if shape.has_rank else INFINITY for shape in shapes}
    if len(widths) < 2 or INFINITY in widths:
        return fail("the parts are not known to be of unequal width")
    if not any(isinstance(reader.op, Multiply1) for reader in node.outputs[0].uses):
        return fail("nothing multiplies the result")
    joined = builder.emit(node.op, *node.inputs)
    return builder.emit(opaque_identity(joined.element_type), joined, joined)


def _is_scaled(value: Output) -> bool:
    """True for the negative part, also where it is a product with -1."""
    node = value.node
    if isinstance(node.op, Negative1):
        return True
    if not isinstance(node.op, Multiply1):
        return False
    factors = [source.type.constant for source in node.inputs]
    return any(factor is not None and factor.size == 1 and factor.reshape(-1)[0] == -1 for factor in factors)
