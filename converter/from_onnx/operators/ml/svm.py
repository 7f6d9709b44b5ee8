"""``ai.onnx.ml``: support vector machines, with labels that are numbers.

ONNX does not define which label two scores give, nor how the probabilities of pairs are combined; both are as in
onnxruntime.
https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.label_scores import greatest, no_strings, refuse_probit_of_two_labels, transformed
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import ML
from ir_runtime.graph import Array, InputMap, OutputMap, SubGraph
from ir_runtime.operations import control_flow, elementwise, reduction
from ir_runtime.operations.indexing import Gather8
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat, where
from ir_runtime.rewriting.submodel import body_of, parameter

_LEAST = 1e-7
"""Probabilities of pairs are limited to this distance from 0 and 1."""
_ROUNDS = 100


@record
class _Kernel:
    """The kernel function of an input and a support vector."""

    name: str
    gamma: float
    offset: float
    degree: float


def _kernel(ctx: Context, name: str, numbers: Sequence[float] | None) -> _Kernel:
    if numbers and len(numbers) < 3:
        raise ctx.invalid(f"kernel_params must be gamma, coef0 and degree, but are {list(numbers)}")
    return _Kernel(name, *(numbers[:3] if numbers else (0.0, 0.0, 0.0)))


def _rows(ctx: Context, x: Expression, features: int) -> Expression:
    """Features ``[n, f]`` as float32; a list is one row."""
    rank, shape = ctx.rank(x.value, "the input"), x.value.shape
    if rank not in (1, 2) or not shape[-1].contains(features):
        raise ctx.invalid(f"the input must have {features} features a row, but has the shape {shape}")
    return (x if rank == 2 else x.unsqueeze(0)).as_type("f32")


def _product(a: Expression, matrix: Array) -> Expression:
    """``a @ matrix.T`` for rows ``[n, k]`` and a constant ``[m, k]``."""
    return a.matmul(a.of(matrix), transpose_b=True)


def _similarities(x: Expression, vectors: Array, kernel: _Kernel) -> Expression:
    """The kernel function ``[n, v]`` of rows ``[n, f]`` and vectors ``[v, f]``."""
    if kernel.name == "RBF":
        # By differences, because |a|^2 + |b|^2 - 2 a b loses the digits of small distances.
        squares = x.unsqueeze(1).emit(elementwise.SquaredDifference1(), x.of(vectors))
        return (squares.sum(2) * -kernel.gamma).exp()
    product = _product(x, vectors)
    if kernel.name == "LINEAR":
        return product
    product = product * kernel.gamma + kernel.offset
    return product.emit(elementwise.Tanh1()) if kernel.name == "SIGMOID" else product.power(kernel.degree)


# --- regression ---


@onnx_op("SVMRegressor", domain=ML, versions=(1,))
def svm_regressor(
    ctx: Context,
    x: Expression,
    *,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: Literal["LINEAR", "POLY", "RBF", "SIGMOID"] = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
) -> Expression:
    """A weighted sum of the kernels with the support vectors, ``[n, 1]``; with ``one_class`` its sign, never 0.

    Without support vectors the coefficients are those of a linear function.
    """
    if post_transform != "NONE":
        raise ctx.unsupported(f"post_transform '{post_transform}' of a single score: onnxruntime ignores it")
    if not coefficients or not rho:
        raise ctx.invalid("coefficients and rho are missing")
    kernel = _kernel(ctx, kernel_type, kernel_params)
    if n_supports > 0:
        vectors = _vectors(ctx, support_vectors, n_supports)
        if len(coefficients) != n_supports:
            raise ctx.invalid(f"there are {len(coefficients)} coefficients for {n_supports} support vectors")
        alike = _similarities(_rows(ctx, x, vectors.shape[1]), vectors, kernel)
    else:
        alike = _rows(ctx, x, len(coefficients))
    score = _product(alike, np.array([coefficients])) + float(rho[0])
    return where(score.greater(0.0), score.of(1), -1) if one_class else score


def _vectors(ctx: Context, numbers: Sequence[float] | None, count: int) -> Array:
    vectors = np.array(numbers or (), np.float32)
    if not vectors.size or vectors.size % count:
        raise ctx.invalid(f"{vectors.size} numbers do not make {count} support vectors")
    return vectors.reshape(count, -1)


# --- classification ---


@onnx_op("SVMClassifier", domain=ML, versions=(1,))
def svm_classifier(
    ctx: Context,
    x: Expression,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: Literal["LINEAR", "POLY", "RBF", "SIGMOID"] = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[Expression, Expression]:
    """The label that most pairs of labels vote for, and the pairs' scores or the labels' probabilities.

    Without support vectors there is a linear function for each label.
    """
    no_strings(ctx, classlabels_strings=classlabels_strings)
    labels = list(classlabels_ints or ())
    if not labels or not coefficients or not rho:
        raise ctx.invalid("classlabels_ints, coefficients or rho are missing")
    if len(prob_a or ()) != len(prob_b or ()):
        raise ctx.invalid("prob_a and prob_b must have as many numbers")
    if not sum(vectors_per_class or ()):
        return _linear(ctx, x, labels, np.array(coefficients), rho[0], bool(prob_a), post_transform)

    assert vectors_per_class is not None
    count = len(labels)
    if count < 2 or len(vectors_per_class) != count or min(vectors_per_class) < 0:
        raise ctx.invalid(f"{count} labels need as many vectors_per_class, but they are {list(vectors_per_class)}")
    vectors = _vectors(ctx, support_vectors, sum(vectors_per_class))
    pairs = list(itertools.combinations(range(count), 2))
    if len(coefficients) != (count - 1) * len(vectors):
        raise ctx.invalid(f"there are {len(coefficients)} coefficients for {len(vectors)} vectors of {count} labels")
    if len(rho) < len(pairs) or (prob_a and len(prob_a) < len(pairs)):
        raise ctx.invalid(f"rho, prob_a and prob_b must have a number for each of {len(pairs)} pairs of labels")
    alike = _similarities(_rows(ctx, x, vectors.shape[1]), vectors, _kernel(ctx, kernel_type, kernel_params))
    table = _pair_weights(np.reshape(coefficients, (count - 1, -1)), vectors_per_class, pairs)
    scores = _product(alike, table) + rho[: len(pairs)]
    label = greatest(_votes(scores, pairs, count), labels)
    if prob_a and prob_b:
        first = (-(scores * prob_a[: len(pairs)] + prob_b[: len(pairs)])).sigmoid().clip(_LEAST, 1 - _LEAST)
        return label, transformed(ctx, _couple(ctx, first, pairs, count), post_transform)
    if count > 2:
        return label, transformed(ctx, scores, post_transform)
    return label, _both_scores(ctx, scores, post_transform)


def _linear(
    ctx: Context, x: Expression, labels: Sequence[int], coefficients: Array, rho: float, has_odds: bool, transform: str
) -> tuple[Expression, Expression]:
    """A linear function for each label; of two labels the second is chosen if any score is positive."""
    count = len(labels)
    if coefficients.size % count:
        raise ctx.invalid(f"{coefficients.size} coefficients cannot be shared by {count} labels")
    rows = _rows(ctx, x, coefficients.size // count)
    scores = _product(rows, coefficients.reshape(count, -1)) + float(rho)
    label = greatest(scores, labels)
    if count == 2 and not has_odds:
        highest = scores.max(1)
        second = highest.greater_equal(0.5) if (coefficients >= 0).all() else highest.greater(0.0)
        label = where(second, label.of(labels[1]), label)
    if count == 1 and transform != "PROBIT":
        return label, scores
    return label, transformed(ctx, scores, transform)


def _pair_weights(coefficients: Array, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Array:
    """``[pairs, vectors]``: how much each support vector counts for the first label of each pair.

    Row k of the coefficients is what counts between a vector's own label and the k-th of the others.
    """
    ends = np.cumsum(counts)
    spans = [slice(end - count, end) for end, count in zip(ends, counts)]
    table = np.zeros((len(pairs), coefficients.shape[1]))
    for row, (i, j) in zip(table, pairs):
        row[spans[i]] = coefficients[j - 1, spans[i]]
        row[spans[j]] = coefficients[i, spans[j]]
    return table


def _votes(scores: Expression, pairs: Sequence[tuple[int, int]], count: int) -> Expression:
    """``[n, labels]``: how many pairs are for each label; a positive score is for the pair's first."""
    ours, theirs = np.zeros((2, count, len(pairs)))
    for number, (i, j) in enumerate(pairs):
        ours[i, number] = theirs[j, number] = 1
    return _product(scores.greater(0.0).as_type("f32"), ours - theirs) + theirs.sum(1)


def _both_scores(ctx: Context, score: Expression, transform: str) -> Expression:
    """Two scores ``[n, 2]`` of the one of a pair ``[n, 1]``."""
    refuse_probit_of_two_labels(ctx, transform)
    if transform == "NONE":
        return concat([-score, score], 1)
    if transform == "LOGISTIC":
        score = score.sigmoid()
    return concat([1 - score, score], 1)


# --- probabilities of labels from those of pairs ---


def _couple(ctx: Context, first: Expression, pairs: Sequence[tuple[int, int]], count: int) -> Expression:
    """``[n, labels]`` of the probabilities ``[n, pairs]`` that it is each pair's first label.

    The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by
    pairwise coupling" (2004): p makes p^T q p least. It is found label by label, in as many rounds as
    are needed for a row to be close enough; rows that are stay as they are.
    """
    both = concat([first, 1 - first], 1)
    places = np.zeros((count, count), np.int64)  # of r[i, j], the probability of i rather than j
    for number, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = number, number + len(pairs)
    ours, theirs = (both.gather(chosen, 1) * (1 - np.eye(count)) for chosen in (places, places.T))
    q = (theirs * theirs).sum(2, keep_dims=True) * np.eye(count) - theirs * ours
    start = first.of(1 / count).broadcast(first.size(0), count, mode="numpy")
    op = control_flow.Loop5(bodies=(_round(ctx, start, q, count),))
    return q.of(_ROUNDS, "i64").emit(op, q.of(True, "boolean"), start, q)


def _round(ctx: Context, start: Expression, q: Expression, count: int) -> SubGraph:
    """Compute one round through all labels; return if another is needed."""
    body = Context(ctx.file, ctx.graphs, ctx.opset, ctx.version)
    nodes = [parameter(state.element_type, state.value.shape) for state in (start, q)]
    before, matrix = (Expression(body, node.outputs[0]) for node in nodes)

    def at(values: Expression, place: int | list[int]) -> Expression:
        return values.emit(Gather8(), values.of(place, "i64"), values.of([1], "i64"))

    slopes = matrix.matmul(before.unsqueeze(2)).squeeze(2)
    total = (before * slopes).sum(1, keep_dims=True)
    far = abs(slopes - total).max(1, keep_dims=True).greater_equal(0.005 / count)

    after = before
    for label in range(count):
        row, slope = at(matrix, label), at(slopes, [label])
        own = at(row, [label])
        by = (total - slope) / own
        scale = by + 1.0
        after = (after + by * np.eye(count)[label]) / scale
        total = (total + by * (by * own + slope * 2.0)) / scale / scale
        slopes = (slopes + by * row) / scale
    again = far.emit(reduction.ReduceLogicalOr1(), far.of([0, 1], "i64"))
    ends = again, where(far, after, before)

    model = body_of(nodes, (end.value for end in ends))
    return SubGraph(model, (InputMap(2, 0), InputMap(3, 1)), (OutputMap(None, 0), OutputMap(0, 1)), ((1, 0),))
