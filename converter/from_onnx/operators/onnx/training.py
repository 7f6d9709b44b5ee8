"""ONNX's optimisers for training: one step of Adagrad, Adam and Momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.rewriting.expressions import Expression, where

_DOMAIN = "ai.onnx.preview.training"

Step = Callable[..., tuple[Expression, ...]]


def _scalars(ctx: Context, rate: Expression, count: Expression) -> tuple[Expression, Expression]:
    return Expression(ctx, as_scalar(ctx, rate.value, "R")), Expression(ctx, as_scalar(ctx, count.value, "T"))


def _regularized(x: Expression, gradient: Expression, coefficient: float) -> Expression:
    """The gradient with that of half the squared norm of ``x``, times the coefficient."""
    return gradient if coefficient == 0 else x * coefficient + gradient


def _every(ctx: Context, tensors: Sequence[Expression], values_per_tensor: int, step: Step) -> list[Expression]:
    """The step for each tensor; of every kind (values, gradients, states) all tensors come together."""
    if not tensors or len(tensors) % values_per_tensor:
        raise ctx.invalid(f"the tensors must be {values_per_tensor} for each that is optimised, but are {len(tensors)}")
    count = len(tensors) // values_per_tensor
    results = [step(*tensors[i::count]) for i in range(count)]
    return [result[output_index] for output_index in range(values_per_tensor - 1) for result in results]


@onnx_op("Adagrad", versions=(1,), domain=_DOMAIN)
def adagrad(
    ctx: Context,
    rate: Expression,
    count: Expression,
    *tensors: Expression,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Expression]:
    """New values and accumulated squared gradients."""
    rate, count = _scalars(ctx, rate, count)

    def step(x: Expression, gradient: Expression, squares: Expression) -> tuple[Expression, ...]:
        decay = count.as_type(x.element_type) * decay_factor + 1.0
        now = rate.as_type(x.element_type) / decay
        change = _regularized(x, gradient, norm_coefficient)
        total = squares + change * change
        return x - change * now / (total.sqrt() + epsilon), total

    return _every(ctx, tensors, 3, step)


@onnx_op("Adam", versions=(1,), domain=_DOMAIN)
def adam(
    ctx: Context,
    rate: Expression,
    count: Expression,
    *tensors: Expression,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Expression]:
    """New values, averaged gradients and averaged squared gradients."""
    rate, count = _scalars(ctx, rate, count)

    def step(x: Expression, gradient: Expression, mean: Expression, squares: Expression) -> tuple[Expression, ...]:
        change = _regularized(x, gradient, norm_coefficient)
        new_mean = mean * alpha + change * (1 - alpha)
        new_squares = squares * beta + change * change * (1 - beta)
        speed, updates = rate.as_type(x.element_type), count.as_type(x.element_type)
        adjusted = speed * (1 - x.of(beta).power(updates)).sqrt() / (1 - x.of(alpha).power(updates))
        now = where(count.greater(0), adjusted, speed)
        moved = x - new_mean * now / (new_squares.sqrt() + epsilon)
        return moved * (1 - norm_coefficient_post), new_mean, new_squares

    return _every(ctx, tensors, 4, step)


@onnx_op("Momentum", versions=(1,), domain=_DOMAIN)
def momentum(
    ctx: Context,
    rate: Expression,
    count: Expression,
    *tensors: Expression,
    alpha: float,
    beta: float,
    mode: Literal["standard", "nesterov"],
    norm_coefficient: float,
) -> list[Expression]:
    """New values and momenta, of the standard kind or Nesterov's."""
    rate, count = _scalars(ctx, rate, count)

    def step(x: Expression, gradient: Expression, velocity: Expression) -> tuple[Expression, ...]:
        change = _regularized(x, gradient, norm_coefficient)
        moved = velocity * alpha + change * where(count.greater(0), x.of(beta), 1)
        direction = moved if mode == "standard" else change + moved * alpha
        return x - direction * rate.as_type(x.element_type), moved

    return _every(ctx, tensors, 3, step)
