"""Normalizations by means, sums of squares and sums of windows."""

from __future__ import annotations

import functools

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.normalization import GRN1, LRN1, MVN2, MVN6, NormalizeL21
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.rewriting.expressions import Expression, NotExpressible


@decomposes(GRN1)
def grn(op: GRN1, x: Expression) -> Expression:
    """NormalizeL2 over the channels"""
    return x.emit(NormalizeL21(eps=op.bias, eps_mode="add"), x.of([1], "i64"))


@decomposes(NormalizeL21)
def normalize_l2(op: NormalizeL21, x: Expression, axes: Expression) -> Expression:
    """x by the root of its sum of squares, with ``eps`` added or as the least value"""
    squares = (x * x).emit(ReduceSum1(keep_dims=True), axes)
    return x / (squares + op.eps if op.eps_mode == "add" else squares.maximum(op.eps)).sqrt()


def _axes(axes: Expression, rank: int) -> list[int]:
    elements = axes.elements()
    if elements is None:
        raise NotExpressible("the axes must be known")
    return [axis % rank for axis in elements]


@decomposes(MVN2)
def mvn_2(op: MVN2, x: Expression) -> Expression:
    """MVN-6 over all dimensions but the batch, and the channels without ``across_channels``"""
    modern = MVN6(normalize_variance=op.normalize_variance, eps=op.eps, eps_mode="INSIDE_SQRT")
    return x.emit(modern, x.of(range(1 if op.across_channels else 2, x.rank), "i64"))


@decomposes(MVN6)
def mvn(op: MVN6, x: Expression, axes: Expression) -> Expression:
    """Differences from the mean, by the root of the mean of their squares"""
    over = _axes(axes, x.rank)
    if not over:
        return x - x
    centred = x - x.mean(*over, keep_dims=True)
    if not op.normalize_variance:
        return centred
    squares = (centred * centred).mean(*over, keep_dims=True)
    return centred / (squares.sqrt() + op.eps if op.eps_mode == "OUTSIDE_SQRT" else (squares + op.eps).sqrt())


@decomposes(LRN1)
def lrn(op: LRN1, x: Expression, axes: Expression) -> Expression:
    """Sums of the squares in windows, slice by slice"""
    over, reach = _axes(axes, x.rank), (op.size - 1) // 2
    wide = x.at_least_float32()
    squares = wide * wide
    for axis in over:
        pads = [reach if place == axis else 0 for place in range(x.rank)]
        padded, size = squares.pad(pads, pads), x.size(axis)
        parts = (padded.cut(axis, at, size + at) for at in range(2 * reach + 1))
        squares = functools.reduce(Expression.__add__, parts)
    base = squares * (op.alpha / op.size ** len(over)) + op.bias
    return (wide / base.power(op.beta)).as_type(x.element_type)
