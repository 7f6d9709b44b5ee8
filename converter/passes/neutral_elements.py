"""Additions of 0, multiplications by 1, powers of 1, and conditions that decide nothing are left out.

    x -> Add(0)                becomes      x
    x -> Multiply(1)           becomes      x
    x -> LogicalAnd(true)      becomes      x
    x -> LogicalOr(false)      becomes      x

tf2onnx adds biases of zeros to convolutions, and others scale by 1; attention masks begin with true.
A constant that widens ``x`` stays.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1, Divide1, LogicalAnd1, LogicalOr1, Multiply1, Power1, Subtract1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes

_NEUTRAL = {
    Add1: 0,
    Subtract1: 0,
    Multiply1: 1,
    Divide1: 1,
    Power1: 1,
    LogicalAnd1: True,
    LogicalOr1: False,
}
_MAX_BYTES = 1 << 16
"""Larger constants are not read: they are weights."""


@passes.replaces("neutral_elements", *_NEUTRAL)
def neutral_element(builder: Builder, node: Node) -> Replacement:
    """Let what reads the result read the operand."""
    neutral = _NEUTRAL[type(node.op)]
    for x, other in node.orders:
        if _is_everywhere(other, neutral):
            if not keeps_shape(x, other, node.outputs[0]):
                return fail("the constant may change the shape")
            return x
    return fail(f"no operand is {neutral} everywhere")


def _is_everywhere(value: Output, neutral: int) -> bool:
    tensor = value.tensor
    if tensor is None or tensor.byte_size > _MAX_BYTES or value.element_type.dtype.hasobject:
        return False
    values = tensor.array()
    return values.size > 0 and values.reshape(-1)[0] == neutral and bool((values == neutral).all())


def keeps_shape(x: Output, constant: Output, result: Output) -> bool:
    """True if broadcasting with the constant leaves every shape that ``x`` may have as it is."""
    if x.element_type is not result.element_type:
        return False
    if constant.shape.rank == 0:
        return True
    if not x.shape.has_rank or x.shape.rank < constant.shape.rank:
        return False
    behind = x.shape.dims[x.shape.rank - constant.shape.rank :]
    return all(wide.value == 1 or wide == own for wide, own in zip(constant.shape.dims, behind))
