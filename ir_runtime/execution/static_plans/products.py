"""Products of float32 matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.matmul import MatMul1

from .binding import Binding, Call, as_matrix, binder, is_float32, is_matrix_for_blas
from .product_calls import Factor, product_calls


@binder(MatMul1)
def product(node: Node, b: Binding) -> list[Call] | None:
    op: Any = node.op
    target = node.outputs[0]
    left, right = b.array(node.inputs[0]), b.as_stored(node.inputs[1])
    is_constant = b.constant(node.inputs[1]) is not None
    if right is not None and not (is_constant and right.ndim == 2):  # which is packed, aligned or not
        right = b.array(node.inputs[1])
    if left is None or right is None or not is_float32(left, right):
        return None
    if left.ndim < 2 or right.ndim < 2 or not left.size or not right.size:
        return None
    if op.transpose_a:
        left = left.swapaxes(-1, -2)
    if op.transpose_b:
        right = right.swapaxes(-1, -2)
    calls: list[Call] = []
    if right.ndim == 2:
        matrix = right
        factor = None
        if is_constant:
            turned = op.transpose_b
            factor = Factor(
                matrix, "product", lambda: matrix, b, node.inputs[1], lambda packed: packed.T if turned else packed
            )
        return _of_rows(left, right, factor, b.new(target), calls, b)
    out = b.new(target, b.order_for_transpose(target))
    left, right = _for_blas(left, calls, b), _for_blas(right, calls, b)
    destination = out if is_matrix_for_blas(out) else b.scratch(out.shape)
    a, c, o = _fewer_axes(left, right, destination)
    calls.append(partial(np.matmul, a, c, out=o))
    if destination is not out:
        calls.append(partial(np.copyto, out, destination))
    return calls


def _fewer_axes(left: Array, right: Array, out: Array) -> tuple[Array, Array, Array]:
    """The arrays without leading axes of one element, which would slow each call."""
    while out.ndim > 2 and left.ndim == right.ndim == out.ndim and out.shape[0] == 1:
        left, right, out = left[0], right[0], out[0]
    return left, right, out


def _for_blas(array: Array, calls: list[Call], b: Binding) -> Array:
    if is_matrix_for_blas(array) and array.flags.aligned:
        return array
    copied = b.scratch(array.shape)
    calls.append(partial(np.copyto, copied, array))
    return copied


def _of_rows(
    left: Array,
    right: Array,
    factor: Factor | None,
    out: Array,
    calls: list[Call],
    b: Binding,
) -> list[Call]:
    """All rows times one matrix."""
    flat = as_matrix(left)
    if flat is None or not is_matrix_for_blas(flat):
        copied = b.scratch(left.shape)
        calls.append(partial(np.copyto, copied, left))
        left = copied
    if factor is None and not is_matrix_for_blas(right):
        other = b.scratch(right.shape)
        calls.append(partial(np.copyto, other, right))
        right = other
    target = as_matrix(out)
    destination = out if target is not None and is_matrix_for_blas(target) else b.scratch(out.shape)
    a, into = as_matrix(left), as_matrix(destination)
    assert a is not None
    assert into is not None
    calls += [partial(np.matmul, a, right, out=into)] if factor is None else product_calls(a, factor, into, b)
    if destination is not out:
        calls.append(partial(np.copyto, out, destination))
    return calls
