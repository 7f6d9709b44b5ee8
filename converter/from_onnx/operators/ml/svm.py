"""``ai.onnx.ml``: support vector machines, with labels that are numbers.

ONNX does not define which label two scores give, nor how the probabilities of pairs are combined; both are as in
onnxruntime.
https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from converter.from_onnx.lowering.label_scores import greatest, no_strings, of_two_shares, transformed
from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from converter.onnx_file.domains import ML
from ir_runtime.graph import Array, InputMap, Model, Output, OutputMap, SubGraph, element_types, make_node
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import (
    activation,
    control_flow,
    elementwise,
    indexing,
    inputs_outputs,
    matmul,
    movement,
    reduction,
)
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of

_F32 = element_types.f32
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_LEAST = 1e-7
"""Probabilities of pairs are limited to this distance from 0 and 1."""
_ROUNDS = 100


@record
class _Kernel:
    """The kernel function of an input and a support vector."""

    kind: str
    gamma: float
    offset: float
    degree: float


def _kernel(ctx: Context, kind: str, numbers: Sequence[float] | None) -> _Kernel:
    if kind not in _KERNELS:
        raise ctx.invalid(f"kernel_type must be one of {', '.join(_KERNELS)}, but is '{kind}'")
    if numbers and len(numbers) < 3:
        raise ctx.invalid(f"kernel_params must be gamma, coef0 and degree, but are {list(numbers)}")
    return _Kernel(kind, *(numbers[:3] if numbers else (0.0, 0.0, 0.0)))


def _rows(ctx: Context, x: Output, features: int) -> Output:
    """Features ``[n, f]`` as float32; a list is one row."""
    rank = ctx.rank(x, "the input")
    if rank not in (1, 2) or not x.shape[-1].contains(features):
        raise ctx.invalid(f"the input must have {features} features a row, but has the shape {x.shape}")
    return in_type(ctx, x if rank == 2 else layers.unsqueeze(ctx, x, 0), _F32)


def _binary(ctx: Context, op: Operation, a: Output, b: Output | float) -> Output:
    return ctx.emit(op, a, b if isinstance(b, Output) else ctx.constant(b, _F32))


def _add(ctx: Context, a: Output, b: Output | float) -> Output:
    return _binary(ctx, elementwise.Add1(), a, b)


def _times(ctx: Context, a: Output, b: Output | float) -> Output:
    return _binary(ctx, elementwise.Multiply1(), a, b)


def _over(ctx: Context, a: Output, b: Output) -> Output:
    return _binary(ctx, elementwise.Divide1(), a, b)


def _product(ctx: Context, a: Output, matrix: Array) -> Output:
    """``a @ matrix.T`` for rows ``[n, k]`` and a constant ``[m, k]``."""
    return ctx.emit(matmul.MatMul1(transpose_b=True), a, ctx.constant(matrix, _F32))


def _similarities(ctx: Context, x: Output, vectors: Array, kernel: _Kernel) -> Output:
    """The kernel function ``[n, v]`` of rows ``[n, f]`` and vectors ``[v, f]``."""
    if kernel.kind == "RBF":
        # By differences, because |a|^2 + |b|^2 - 2 a b loses the digits of small distances.
        column = layers.unsqueeze(ctx, x, 1)
        squares = _binary(ctx, elementwise.SquaredDifference1(), column, ctx.constant(vectors, _F32))
        distance = ctx.emit(reduction.ReduceSum1(), squares, ctx.constant([2]))
        return layers.exponential(ctx, _times(ctx, distance, -kernel.gamma))
    product = _product(ctx, x, vectors)
    if kernel.kind == "LINEAR":
        return product
    product = _add(ctx, _times(ctx, product, kernel.gamma), kernel.offset)
    if kernel.kind == "SIGMOID":
        return ctx.emit(elementwise.Tanh1(), product)
    return _binary(ctx, elementwise.Power1(), product, kernel.degree)


# --- regression ---


@onnx_op("SVMRegressor", domain=ML, versions=(1,))
def svm_regressor(
    ctx: Context,
    x: Output,
    *,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
) -> Output:
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
        alike = _similarities(ctx, _rows(ctx, x, vectors.shape[1]), vectors, kernel)
    else:
        alike = _rows(ctx, x, len(coefficients))
    score = _add(ctx, _product(ctx, alike, np.array([coefficients])), float(rho[0]))
    if not one_class:
        return score
    above = _binary(ctx, elementwise.Greater1(), score, 0.0)
    return layers.select(ctx, above, ctx.constant(1, _F32), ctx.constant(-1, _F32))


def _vectors(ctx: Context, numbers: Sequence[float] | None, count: int) -> Array:
    listed = np.array(numbers or (), np.float32)
    if not listed.size or listed.size % count:
        raise ctx.invalid(f"{listed.size} numbers do not make {count} support vectors")
    return listed.reshape(count, -1)


# --- classification ---


@onnx_op("SVMClassifier", domain=ML, versions=(1,))
def svm_classifier(
    ctx: Context,
    x: Output,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[Output, Output]:
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
    alike = _similarities(ctx, _rows(ctx, x, vectors.shape[1]), vectors, _kernel(ctx, kernel_type, kernel_params))
    table = _pair_weights(np.reshape(coefficients, (count - 1, -1)), vectors_per_class, pairs)
    scores = _add(ctx, _product(ctx, alike, table), ctx.constant(rho[: len(pairs)], _F32))
    label = greatest(ctx, _votes(ctx, scores, pairs, count), labels)
    if prob_a and prob_b:
        steps = [ctx.constant(numbers[: len(pairs)], _F32) for numbers in (prob_a, prob_b)]
        slope = layers.negative(ctx, _add(ctx, _times(ctx, scores, steps[0]), steps[1]))
        first = ctx.emit(activation.Sigmoid1(), slope)
        first = ctx.emit(activation.Clamp1(min=_LEAST, max=1 - _LEAST), first)
        return label, transformed(ctx, _coupled(ctx, first, pairs, count), post_transform)
    if count > 2:
        return label, transformed(ctx, scores, post_transform)
    return label, _both_scores(ctx, scores, post_transform)


def _linear(
    ctx: Context, x: Output, labels: Sequence[int], coefficients: Array, rho: float, has_odds: bool, transform: str
) -> tuple[Output, Output]:
    """A linear function for each label; of two labels the second is chosen if any score is positive."""
    count = len(labels)
    if coefficients.size % count:
        raise ctx.invalid(f"{coefficients.size} coefficients cannot be shared by {count} labels")
    rows = _rows(ctx, x, coefficients.size // count)
    scores = _add(ctx, _product(ctx, rows, coefficients.reshape(count, -1)), float(rho))
    label = greatest(ctx, scores, labels)
    if count == 2 and not has_odds:
        highest = ctx.emit(reduction.ReduceMax1(), scores, ctx.constant([1]))
        if (coefficients >= 0).all():
            second = _binary(ctx, elementwise.GreaterEqual1(), highest, 0.5)
        else:
            second = _binary(ctx, elementwise.Greater1(), highest, 0.0)
        label = layers.select(ctx, second, ctx.constant(labels[1]), label)
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


def _votes(ctx: Context, scores: Output, pairs: Sequence[tuple[int, int]], count: int) -> Output:
    """``[n, labels]``: how many pairs are for each label; a positive score is for the pair's first."""
    ours, theirs = np.zeros((2, count, len(pairs)))
    for number, (i, j) in enumerate(pairs):
        ours[i, number] = theirs[j, number] = 1
    first = in_type(ctx, _binary(ctx, elementwise.Greater1(), scores, 0.0), _F32)
    return _add(ctx, _product(ctx, first, ours - theirs), ctx.constant(theirs.sum(1), _F32))


def _both_scores(ctx: Context, score: Output, transform: str) -> Output:
    """Two scores ``[n, 2]`` of the one of a pair ``[n, 1]``."""
    of_two_shares(ctx, transform)
    if transform == "NONE":
        return ctx.emit(movement.Concat1(axis=1), layers.negative(ctx, score), score)
    if transform == "LOGISTIC":
        score = ctx.emit(activation.Sigmoid1(), score)
    other = layers.subtract(ctx, ctx.constant(1, _F32), score)
    return ctx.emit(movement.Concat1(axis=1), other, score)


# --- probabilities of labels from those of pairs ---


def _coupled(ctx: Context, first: Output, pairs: Sequence[tuple[int, int]], count: int) -> Output:
    """``[n, labels]`` of the probabilities ``[n, pairs]`` that it is each pair's first label.

    The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by
    pairwise coupling" (2004): p makes p^T q p least. It is found label by label, in as many rounds as
    are needed for a row to be close enough; rows that are stay as they are.
    """
    second = layers.subtract(ctx, ctx.constant(1, _F32), first)
    both = ctx.emit(movement.Concat1(axis=1), first, second)
    places = np.zeros((count, count), np.int64)  # of r[i, j], the probability of i rather than j
    for number, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = number, number + len(pairs)
    apart = 1 - np.eye(count)

    def spread(chosen: Array) -> Output:
        found = layers.gather(ctx, both, ctx.constant(chosen), ctx.constant(1))
        return _times(ctx, found, ctx.constant(apart, _F32))

    ours, theirs = spread(places), spread(places.T)
    squares = ctx.emit(reduction.ReduceSum1(keep_dims=True), _times(ctx, theirs, theirs), ctx.constant([2]))
    within = _times(ctx, squares, ctx.constant(np.eye(count), _F32))
    q = layers.subtract(ctx, within, _times(ctx, theirs, ours))

    shape = concat_lists(ctx, [dim_of(ctx, first, 0), ctx.constant(count)])
    start = ctx.emit(movement.Broadcast3(), ctx.constant(1 / count, _F32), shape)
    op = control_flow.Loop5(bodies=(_round(ctx, start, q, count),))
    return ctx.emit(op, ctx.constant(_ROUNDS), ctx.constant(True, "boolean"), start, q)


def _round(ctx: Context, start: Output, q: Output, count: int) -> SubGraph:
    """One round through all labels, and whether another is needed."""
    body = Context(ctx.file, ctx.graphs, ctx.opset, ctx.version)
    nodes = [
        make_node(inputs_outputs.Parameter1(shape=value.shape, element_type=value.element_type), ())
        for value in (start, q)
    ]
    before, matrix = (node.outputs[0] for node in nodes)
    axes = body.constant([1])

    def at(values: Output, place: int | list[int]) -> Output:
        return body.emit(indexing.Gather8(), values, body.constant(place), axes)

    column = body.emit(movement.Unsqueeze1(), before, body.constant([2]))
    slopes = body.emit(movement.Squeeze1(), body.emit(matmul.MatMul1(), matrix, column), body.constant([2]))
    total = body.emit(reduction.ReduceSum1(keep_dims=True), _times(body, before, slopes), axes)
    error = body.emit(elementwise.Abs1(), body.emit(elementwise.Subtract1(), slopes, total))
    error = body.emit(reduction.ReduceMax1(keep_dims=True), error, axes)
    far = body.emit(elementwise.GreaterEqual1(), error, body.constant(0.005 / count, _F32))

    after = before
    for label in range(count):
        row, slope = at(matrix, label), at(slopes, [label])
        own = at(row, [label])
        by = _over(body, body.emit(elementwise.Subtract1(), total, slope), own)
        scale = _add(body, by, 1.0)
        here = body.constant(np.eye(count)[label], _F32)
        after = _over(body, _add(body, after, _times(body, by, here)), scale)
        gain = _times(body, by, _add(body, _times(body, by, own), _times(body, slope, 2.0)))
        total = _over(body, _over(body, _add(body, total, gain), scale), scale)
        slopes = _over(body, _add(body, slopes, _times(body, by, row)), scale)
    after = body.emit(elementwise.Select1(), far, after, before)
    again = body.emit(reduction.ReduceLogicalOr1(), far, body.constant([0, 1]))

    results = [make_node(inputs_outputs.Result1(), [value]) for value in (again, after)]
    model = Model("body", nodes, results)
    for number, node in enumerate(model.nodes()):
        node.name = f"{node.op.type}_{number}"
    return SubGraph(model, (InputMap(2, 0), InputMap(3, 1)), (OutputMap(None, 0), OutputMap(0, 1)), ((1, 0),))
