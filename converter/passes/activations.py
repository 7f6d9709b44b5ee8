"""Fuse the node sequences that exporters emit for activations into the layers of the IR.

x -> Sigmoid -> Multiply(x)                              becomes      x -> Swish
x -> Multiply(beta) -> Sigmoid -> Multiply(x)            becomes      x -> Swish(beta)
x -> Add(3) -> Clamp(0, 6) -> Divide(6)                  becomes      x -> HSigmoid
x -> HSigmoid, or HardSigmoid(1 / 6, 0.5) -> Multiply(x) becomes      x -> HSwish
x -> Exp -> Add(1) -> Log                                becomes      x -> SoftPlus
x -> SoftPlus -> Tanh -> Multiply(x)                     becomes      x -> Mish
x -> Abs -> Add(1) -> s;  x, s -> Divide                 becomes      x -> SoftSign
"""

from __future__ import annotations

from collections.abc import Callable

from ir_runtime.graph import Node, Operation, Output
from ir_runtime.operations import activation as ir
from ir_runtime.operations.elementwise import Abs1, Divide1, Exp1, Log1, Tanh1
from ir_runtime.rewriting import (
    Builder,
    Match,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
    number,
)

from .idioms import divided_by, has_shape_of, is_real, plus, times
from .registry import passes


def _one_element(value: Output) -> str | None:
    values = value.type.constant
    return None if values is not None and values.size == 1 else "has more than one element"


def _clamps_from_0_to_6(value: Output) -> str | None:
    op = value.node.op
    assert isinstance(op, ir.Clamp1)
    return None if (op.min, op.max) == (0, 6) else f"clamps from {op.min:g} to {op.max:g}"


def _swish(x: Pattern) -> Pattern:
    return times(x, layer(ir.Sigmoid1, either(x, times(x, constant("beta", _one_element)))))


def _hsigmoid(x: Pattern) -> Pattern:
    return divided_by(_clamp(x), 6)


def _clamp(x: Pattern) -> Pattern:
    return layer(ir.Clamp1, plus(x, number(3)), check=_clamps_from_0_to_6)


def _hswish(x: Pattern) -> Pattern:
    hard = either(_hsigmoid(x), layer(ir.HSigmoid5, x), layer(ir.HardSigmoid1, x, number(1 / 6), number(0.5)))
    # The division may come before or after the product with x.
    return either(times(x, hard), divided_by(times(x, _clamp(x)), 6), times(divided_by(x, 6), _clamp(x)))


def _softplus(x: Pattern) -> Pattern:
    return layer(Log1, plus(layer(Exp1, x), number(1)))


def _mish(x: Pattern) -> Pattern:
    return times(x, layer(Tanh1, layer(ir.SoftPlus4, x)))


def _softsign(x: Pattern) -> Pattern:
    return layer(Divide1, x, plus(layer(Abs1, x), number(1)))


def _of(write: Callable[[Pattern], Pattern]) -> Pattern:
    return write(anything("x", is_real))


def _inputs(builder: Builder, match: Match) -> list[Output]:
    x = match["x"]
    return [x, builder.like(match.array("beta").reshape(()), x)] if "beta" in match else [x]


def _register(name: str, pattern: Pattern, op: type[Operation]) -> None:
    """Register the pass that fuses ``pattern`` into one activation."""

    def fuse(builder: Builder, node: Node, match: Match) -> Replacement:
        if not has_shape_of(node.outputs[0], match["x"]):
            return fail("its rank is not that of the input")
        return builder.emit(op(), *_inputs(builder, match))

    fuse.__doc__ = f"Replace the layers that exporters emit for {op.type} by that layer."
    passes.fuses(name, pattern)(fuse)


_register("swishes", _of(_swish), ir.Swish4)
_register("hswishes", _of(_hswish), ir.HSwish4)
_register("hsigmoids", _of(_hsigmoid), ir.HSigmoid5)
_register("softpluses", _of(_softplus), ir.SoftPlus4)
_register("mishes", _of(_mish), ir.Mish4)
_register("softsigns", _of(_softsign), ir.SoftSign9)
