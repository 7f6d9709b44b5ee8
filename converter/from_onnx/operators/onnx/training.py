"""ONNX's optimisers for training: one step of Adagrad, Adam and Momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

_DOMAIN = "ai.onnx.preview.training"

Step = Callable[..., tuple[Output, ...]]


class _Formula:
    """Arithmetic on tensors and numbers, in the type of the tensor."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def times(self, value: Output, factor: Output | float) -> Output:
        return self._binary(elementwise.Multiply1(), value, factor)

    def plus(self, value: Output, other: Output | float) -> Output:
        return self._binary(elementwise.Add1(), value, other)

    def minus(self, value: Output, other: Output) -> Output:
        return self.ctx.emit(elementwise.Subtract1(), value, other)

    def by(self, value: Output, divisor: Output) -> Output:
        return self.ctx.emit(elementwise.Divide1(), value, divisor)

    def root(self, value: Output) -> Output:
        return self.ctx.emit(elementwise.Sqrt1(), value)

    def regularized(self, x: Output, gradient: Output, coefficient: float) -> Output:
        """The gradient with that of half the squared norm of ``x``, times the coefficient."""
        return gradient if coefficient == 0 else self.plus(self.times(x, coefficient), gradient)

    def first(self, count: Output, beginning: Output, later: Output) -> Output:
        """``later``, but ``beginning`` at update 0."""
        ctx = self.ctx
        started = layers.greater(ctx, count, ctx.like(0, count))
        return layers.select(ctx, started, later, beginning)

    def _binary(self, op: elementwise.Binary, value: Output, other: Output | float) -> Output:
        right = other if isinstance(other, Output) else self.ctx.like(other, value)
        return self.ctx.emit(op, value, right)


def _every(ctx: Context, tensors: Sequence[Output], kinds: int, step: Step) -> list[Output]:
    """The step for each tensor; of every kind (values, gradients, states) all tensors come together."""
    if not tensors or len(tensors) % kinds:
        raise ctx.invalid(f"the tensors must be {kinds} for each that is optimised, but are {len(tensors)}")
    count = len(tensors) // kinds
    results = [step(*tensors[i::count]) for i in range(count)]
    return [result[kind] for kind in range(kinds - 1) for result in results]


@onnx_op("Adagrad", versions=(1,), domain=_DOMAIN)
def adagrad(
    ctx: Context,
    rate: Output,
    count: Output,
    *tensors: Output,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Output]:
    """New values and accumulated squared gradients."""
    f = _Formula(ctx)
    rate, count = as_scalar(ctx, rate, "R"), as_scalar(ctx, count, "T")

    def step(x: Output, gradient: Output, squares: Output) -> tuple[Output, ...]:
        decay = f.plus(f.times(in_type(ctx, count, x.element_type), decay_factor), 1.0)
        now = f.by(in_type(ctx, rate, x.element_type), decay)
        change = f.regularized(x, gradient, norm_coefficient)
        total = f.plus(squares, f.times(change, change))
        return f.minus(x, f.by(f.times(change, now), f.plus(f.root(total), epsilon))), total

    return _every(ctx, tensors, 3, step)


@onnx_op("Adam", versions=(1,), domain=_DOMAIN)
def adam(
    ctx: Context,
    rate: Output,
    count: Output,
    *tensors: Output,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Output]:
    """New values, averaged gradients and averaged squared gradients."""
    f = _Formula(ctx)
    rate, count = as_scalar(ctx, rate, "R"), as_scalar(ctx, count, "T")

    def rest(base: float, like: Output) -> Output:
        """1 - base ** count"""
        powers = layers.power(ctx, ctx.like(base, like), in_type(ctx, count, like.element_type))
        return f.minus(ctx.like(1, like), powers)

    def step(x: Output, gradient: Output, mean: Output, squares: Output) -> tuple[Output, ...]:
        change = f.regularized(x, gradient, norm_coefficient)
        new_mean = f.plus(f.times(mean, alpha), f.times(change, 1 - alpha))
        new_squares = f.plus(f.times(squares, beta), f.times(f.times(change, change), 1 - beta))
        speed = in_type(ctx, rate, x.element_type)
        adjusted = f.by(f.times(speed, f.root(rest(beta, x))), rest(alpha, x))
        now = f.first(count, speed, adjusted)
        moved = f.minus(x, f.by(f.times(new_mean, now), f.plus(f.root(new_squares), epsilon)))
        return f.times(moved, 1 - norm_coefficient_post), new_mean, new_squares

    return _every(ctx, tensors, 4, step)


@onnx_op("Momentum", versions=(1,), domain=_DOMAIN)
def momentum(
    ctx: Context,
    rate: Output,
    count: Output,
    *tensors: Output,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> list[Output]:
    """New values and momenta, of the standard kind or Nesterov's."""
    if mode not in ("standard", "nesterov"):
        raise ctx.invalid(f"mode must be standard or nesterov, but is '{mode}'")
    f = _Formula(ctx)
    rate, count = as_scalar(ctx, rate, "R"), as_scalar(ctx, count, "T")

    def step(x: Output, gradient: Output, velocity: Output) -> tuple[Output, ...]:
        change = f.regularized(x, gradient, norm_coefficient)
        share = f.first(count, ctx.like(1, x), ctx.like(beta, x))
        moved = f.plus(f.times(velocity, alpha), f.times(change, share))
        direction = moved if mode == "standard" else f.plus(change, f.times(moved, alpha))
        return f.minus(x, f.times(direction, in_type(ctx, rate, x.element_type))), moved

    return _every(ctx, tensors, 3, step)
