"""Constants that are added to integers, or taken from them, one after the other become one.

    x -> Add(441) -> Subtract(1)      becomes      x -> Add(440)
    x -> Add(1) -> Subtract(1)        becomes      x

Integers wrap, in the constants as in ``x``: the result is the same for every ``x``. Exporters write quotients that are
rounded up this way.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.elementwise import Add1, Subtract1
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail

from .neutral_elements import keeps_shape
from .registry import passes

_MAX_BYTES = 1 << 10


@passes.replaces("integer_sums_in_a_row")
def integer_sum_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Replace two sums by one."""
    if not node.outputs[0].element_type.is_integral:
        return fail("it does not add integers")
    last = _summand(node)
    if isinstance(last, NotMatched):
        return last
    first = _summand(last[0].node)
    if isinstance(first, NotMatched):
        return first
    if last[0].only_user is None:
        return fail("something else reads the sum before it")
    x, element_type = first[0], node.outputs[0].element_type
    with np.errstate(over="ignore"):
        total = np.asarray(first[1] + last[1], element_type.dtype)
    if total.size > max(first[1].size, last[1].size):
        return fail("the constants would become larger")
    constant = builder.constant(total, element_type)
    if not total.any() and keeps_shape(x, constant, node.outputs[0]):
        return x
    return builder.emit(Add1(), x, constant)


def _summand(node: Node) -> tuple[Output, Array] | NotMatched:
    """Return the other summand and the constant, which is negative where it is subtracted."""
    if not isinstance(node.op, (Add1, Subtract1)) or node.op.auto_broadcast != "numpy":
        return fail(f"layer '{node.name}' is no sum")
    for x, other in node.orders:
        if other.tensor is not None and other.tensor.byte_size <= _MAX_BYTES and x.element_type.bits >= 8:
            with np.errstate(over="ignore"):
                values = other.tensor.array()
                return x, values if isinstance(node.op, Add1) else np.asarray(0 - values, values.dtype)
    return fail(f"layer '{node.name}' adds no constant")
