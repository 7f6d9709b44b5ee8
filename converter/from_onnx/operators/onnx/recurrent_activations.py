"""The activations that recurrent networks may name, with their parameters.

https://onnx.ai/onnx/operators/onnx__RNN.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Operation, Output
from ir_runtime.operations import activation, elementwise
from ir_runtime.records import record
from ir_runtime.rewriting import layers


@record
class Activation:
    """An activation with its parameters."""

    name: str
    alpha: float
    beta: float

    def apply(self, ctx: Context, x: Output) -> Output:
        return _ACTIVATIONS[self.name].emit(ctx, x, self.alpha, self.beta)


@record
class _ActivationType:
    """An activation: its function, the number of its parameters, and their defaults."""

    emit: Callable[[Context, Output, float, float], Output]
    parameters: int = 0
    alpha: float = 0.0
    beta: float = 0.0


def _single(make: Callable[[], Operation]) -> Callable[[Context, Output, float, float], Output]:
    return lambda ctx, x, a, b: ctx.emit(make(), x)


def _affine(ctx: Context, x: Output, a: float, b: float) -> Output:
    return layers.add(ctx, layers.multiply(ctx, x, ctx.like(a, x)), ctx.like(b, x))


def _hard_sigmoid(ctx: Context, x: Output, a: float, b: float) -> Output:
    return ctx.emit(activation.Clamp1(min=0.0, max=1.0), _affine(ctx, x, a, b))


def _leaky_relu(ctx: Context, x: Output, a: float, b: float) -> Output:
    negative = layers.less(ctx, x, ctx.like(0, x))
    return layers.select(ctx, negative, layers.multiply(ctx, x, ctx.like(a, x)), x)


def _thresholded_relu(ctx: Context, x: Output, a: float, b: float) -> Output:
    above = layers.greater(ctx, x, ctx.like(a, x))
    return layers.select(ctx, above, x, ctx.like(0, x))


def _scaled_tanh(ctx: Context, x: Output, a: float, b: float) -> Output:
    inner = ctx.emit(elementwise.Tanh1(), layers.multiply(ctx, x, ctx.like(b, x)))
    return layers.multiply(ctx, inner, ctx.like(a, x))


_ACTIVATIONS = {
    "sigmoid": _ActivationType(_single(activation.Sigmoid1)),
    "tanh": _ActivationType(_single(elementwise.Tanh1)),
    "relu": _ActivationType(_single(activation.ReLU1)),
    "softplus": _ActivationType(_single(activation.SoftPlus4)),
    "softsign": _ActivationType(_single(activation.SoftSign9)),
    "elu": _ActivationType(lambda ctx, x, a, b: ctx.emit(activation.Elu1(alpha=a), x), 1, 1.0),
    "leakyrelu": _ActivationType(_leaky_relu, 1, 0.01),
    "thresholdedrelu": _ActivationType(_thresholded_relu, 1, 1.0),
    "affine": _ActivationType(_affine, 2, 1.0, 0.0),
    "hardsigmoid": _ActivationType(_hard_sigmoid, 2, 0.2, 0.5),
    "scaledtanh": _ActivationType(_scaled_tanh, 2, 1.0, 1.0),
}


def activations_of(
    ctx: Context,
    names: Sequence[str],
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
) -> list[Activation]:
    """The activations by name; ``alphas`` and ``betas`` go in order to those that have such a parameter."""
    alpha_left, beta_left = list(alphas or ()), list(betas or ())
    activations = []
    for name in names:
        defaults_of = _ACTIVATIONS.get(name.lower())
        if defaults_of is None:
            raise ctx.invalid(f"the activation '{name}' is not one of ONNX's")
        alpha = alpha_left.pop(0) if defaults_of.parameters > 0 and alpha_left else defaults_of.alpha
        beta = beta_left.pop(0) if defaults_of.parameters > 1 and beta_left else defaults_of.beta
        activations.append(Activation(name.lower(), alpha, beta))
    return activations
