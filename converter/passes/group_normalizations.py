"""Fuse the node sequence that exporters emit for group normalization.

    x -> Reshape [0, groups, -1] -> MVN [2] -> Reshape (the shape of x) -> n
    n -> Multiply(scale) -> Add(bias)                becomes      x -> GroupNormalization(scale, bias)

torch writes it below opset 21, as an InstanceNormalization of groups. Scale and bias have a value for each channel, and
may be missing. The number of channels must be static: it follows from weights then, and no other shape changes it.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Dimension, Node, Output, normalize_axes
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.normalization import MVN6, GroupNormalization12
from ir_runtime.rewriting import (
    Builder,
    Match,
    NotMatched,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
)

from .idioms import is_real, is_stored, of_channels
from .registry import passes


def _normalizes_variance(value: Output) -> str | None:
    op = value.node.op
    assert isinstance(op, MVN6)
    return None if op.normalize_variance and op.eps_mode == "INSIDE_SQRT" else "is another normalisation"


def _groups() -> Pattern:
    groups = layer(Reshape1, anything("x", is_real), constant("shape of groups"), name="groups")
    normalized = layer(MVN6, groups, constant("axes"), check=_normalizes_variance, name="normalized")
    return layer(Reshape1, normalized, anything("shape"), name="result")


_GROUPS = _groups()
_MADE = layer(
    GroupNormalization12, anything("x"), anything("scale", is_stored), anything("bias", is_stored), name="made"
)
_FOLLOWED = layer((Add1, Multiply1), _MADE, anything("values", is_stored))


@passes.fuses("group_normalizations", either(_GROUPS, _FOLLOWED))
def group_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the last Reshape by GroupNormalization, which includes the product and the sum behind it."""
    return _normalize(builder, match) if isinstance(node.op, Reshape1) else _followed(builder, node, match)


def _normalize(builder: Builder, match: Match) -> Replacement:
    x = match["x"]
    if not x.shape.has_rank or x.shape.rank < 3 or not x.shape[1].is_static:
        return fail("the number of channels is not known")
    number = _group_count(match)
    if isinstance(number, NotMatched):
        return number
    mvn, channels = match.node("normalized").op, x.shape[1].value
    assert isinstance(mvn, MVN6)
    scale, bias = (builder.constant(values, x.element_type) for values in (np.ones(channels), np.zeros(channels)))
    return builder.emit(GroupNormalization12(num_groups=number, epsilon=mvn.eps), x, scale, bias)


def _followed(builder: Builder, node: Node, match: Match) -> Replacement:
    x, scale, bias = match["x"], match["scale"], match["bias"]
    assert scale.tensor is not None
    assert bias.tensor is not None
    values = of_channels(match["values"], x)
    if values is None:
        return fail("there is not one value for each channel")
    if bias.tensor.array().any():
        return fail("the GroupNormalization has a bias already")
    if isinstance(node.op, Multiply1) and not (scale.tensor.array() == 1).all():
        return fail("the GroupNormalization has a scale already")
    scale_constant = builder.constant(values, x.element_type)
    inputs = (scale_constant, bias) if isinstance(node.op, Multiply1) else (scale, scale_constant)
    return builder.emit(match.node("made").op, x, *inputs)


def _group_count(match: Match) -> int | NotMatched:
    """Return the number of groups, where the layers normalize groups of channels."""
    x, groups = match["x"], match["groups"]
    group_shape, axes = match.array("shape of groups").reshape(-1).tolist(), match.array("axes").reshape(-1).tolist()
    if len(group_shape) < 3 or sorted(normalize_axes(axes, len(group_shape))) != list(range(2, len(group_shape))):
        return fail("MVN is not over all but the first two dimensions")
    number, op = group_shape[1], groups.node.op
    assert isinstance(op, Reshape1)
    keeps_batch = (group_shape[0] == 0 and op.special_zero) or (
        group_shape[0] > 0 and x.shape[0] == Dimension(group_shape[0], group_shape[0])
    )
    if not keeps_batch or number < 1 or x.shape[1].value % number:
        return fail("the first Reshape does not make groups of the channels")
    if symbolic_shapes().dims(match["result"]) != symbolic_shapes().dims(x):
        return fail("the last Reshape does not return to the shape of the data")
    return int(number)
