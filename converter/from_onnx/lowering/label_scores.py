"""Features, scores and labels of the models of ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Sequence

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import element_types
from ir_runtime.operations.activation import SoftMax8
from ir_runtime.rewriting.expressions import Expression, where


def real(x: Expression) -> Expression:
    """Features as float32, the type of these operators' results; float64 stays until the result is converted."""
    return x if x.element_type is element_types.f64 else x.as_type("f32")


def transformed(ctx: Context, scores: Expression, transform: str) -> Expression:
    """Scores ``[n, c]`` after a ``post_transform``."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return scores.sigmoid()
    if transform == "SOFTMAX":
        return scores.emit(SoftMax8(axis=1))
    if transform == "SOFTMAX_ZERO":
        # Softmax of those that are not 0; others stay 0.
        powers = (scores - scores.max(1, keep_dims=True)).exp()
        powers = where(abs(scores).greater(1e-7), powers, 0)
        total = powers.sum(1, keep_dims=True)
        return powers / where(total.equal(0), total.of(1), total)
    if transform == "PROBIT":
        return _probit(scores)
    raise ctx.invalid(f"post_transform must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT, but is '{transform}'")


def _probit(shares: Expression) -> Expression:
    """The quantile of the normal distribution, by the formula that onnxruntime has for it.

    It is S. Winitzki's approximation of the inverse of the error function, of three to four digits;
    0 and 1 give infinities, and what lies outside NaN.
    """
    centred = shares + shares - 1
    log = ((1 - centred) * (1 + centred)).log()
    middle = log * 0.5 + 2 / (3.14159 * 0.147)
    root = (middle * middle - log / 0.147).sqrt() - middle
    return centred.sign() * (root + root).sqrt()


def refuse_probit_of_two_labels(ctx: Context, transform: str) -> None:
    """Refuse the transform that leaves one of two labels without a score, where both share one."""
    if transform == "PROBIT":
        raise ctx.unsupported(
            "post_transform 'PROBIT' of the one score of two labels: onnxruntime does not write the second one"
        )


def greatest(scores: Expression, labels: Sequence[int]) -> Expression:
    """For each row of ``[n, c]`` the label of the first greatest score."""
    best = scores.top(1, axis=1)[1].squeeze(1)
    return best if list(labels) == list(range(len(labels))) else best.of(labels).gather(best)


def chosen(condition: Expression, labels: Sequence[int]) -> Expression:
    """For each row of ``[n, 1]`` the second label where the condition holds, else the first."""
    first, second = labels
    return where(condition, condition.of(second, "i64"), first).squeeze(1)


def no_strings(ctx: Context, **values: object) -> None:
    """Refuse attributes that hold strings."""
    for name, value in values.items():
        if value:
            raise ctx.unsupported(f"'{name}' holds strings, with which the IR's layers do not compute")
