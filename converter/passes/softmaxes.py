"""Fuse the node sequences that exporters emit for softmax and its logarithm.

    x -> ReduceMax -> m;  x, m -> Subtract -> Exp -> e
    e -> ReduceSum -> s;  e, s -> Divide                        becomes      x -> SoftMax

    x -> ReduceMax -> m;  x, m -> Subtract -> c
    c -> Exp -> ReduceSum -> Log -> l;  c, l -> Subtract        becomes      x -> LogSoftmax

The quotient may be a product with the reciprocal, and the logarithm may be added to the maximum first. tf2onnx and JAX
write these.

Without the maximum (Exp(x) divided by its sum) the layers stay, as they overflow where SoftMax does not. The logarithm
of a SoftMax stays, as it is minus infinity where LogSoftmax is less than -104. So does x less its ReduceLogSumExp: for
an infinite x that leaves minus infinity, and LogSoftmax NaN.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output, normalize_axis
from ir_runtime.operations.activation import LogSoftmax5, SoftMax8
from ir_runtime.operations.elementwise import Add1, Divide1, Exp1, Log1, Multiply1, Power1, Subtract1
from ir_runtime.operations.reduction import ReduceMax1, ReduceSum1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, constant, either, fail, layer, number

from .idioms import has_shape_of, is_real, keeps_dims, times
from .registry import passes


def _powers(shifted: Pattern) -> tuple[Pattern, Pattern]:
    """e to the shifted values, and their sum."""
    powers = layer(Exp1, shifted)
    return powers, layer(ReduceSum1, powers, constant("axis of the sum"), check=keeps_dims)


def _greatest(x: Pattern) -> Pattern:
    return layer(ReduceMax1, x, constant("axis"), check=keeps_dims)


def _softmax() -> Pattern:
    x = anything("x", is_real)
    powers, total = _powers(layer(Subtract1, x, _greatest(x)))
    reciprocal = either(layer(Divide1, number(1), total), layer(Power1, total, number(-1)))
    return either(layer(Divide1, powers, total), times(powers, reciprocal))


def _log_softmax() -> Pattern:
    x = anything("x", is_real)
    greatest = _greatest(x)
    shifted = layer(Subtract1, x, greatest)
    logarithm = layer(Log1, _powers(shifted)[1])
    return either(
        layer(Subtract1, shifted, logarithm),
        layer(Subtract1, x, layer(Add1, greatest, logarithm)),
    )


_SOFTMAX, _LOG_SOFTMAX = _softmax(), _log_softmax()


@passes.fuses("softmaxes", either(_SOFTMAX, _LOG_SOFTMAX))
def softmax(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the quotient or difference by SoftMax or LogSoftmax."""
    is_logarithm = isinstance(node.op, Subtract1)
    x = match["x"]
    if isinstance(node.op, Multiply1) and not has_shape_of(node.outputs[0], x):
        return fail("its rank is not that of the input")
    first, second = (match.array(name).reshape(-1).tolist() for name in ("axis", "axis of the sum"))
    if len(first) != 1 or len(second) != 1:
        return fail("it goes along more than one dimension")
    if _axis(x, first[0]) != _axis(x, second[0]):
        return fail("the maximum and the sum are of different dimensions")
    axis = _axis(x, first[0])
    op = LogSoftmax5(axis=axis) if is_logarithm else SoftMax8(axis=axis)
    return builder.emit(op, x)


def _axis(x: Output, axis: int) -> int:
    return normalize_axis(axis, x.shape.rank) if x.shape.has_rank else axis
