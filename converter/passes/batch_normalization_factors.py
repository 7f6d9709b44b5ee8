"""Constant factors and summands behind a batch normalization become part of it.

    x -> BatchNormInference(gamma, beta) -> Multiply(s)      becomes      x -> BatchNormInference(gamma * s, beta * s)
    x -> BatchNormInference(gamma, beta) -> Add(t)           becomes      x -> BatchNormInference(gamma, beta + t)

``s`` and ``t`` are one number, or one for each channel. Caffe has a layer Scale behind each BatchNorm; where no
convolution stands in front, as in DenseNet, nothing else takes it over. All is computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.elementwise import Add1, Multiply1, Subtract1
from ir_runtime.operations.normalization import BatchNormInference5
from ir_runtime.rewriting import Builder, Replacement, fail

from .idioms import of_channels
from .registry import passes


@passes.replaces("batch_normalization_factors")
def batch_normalization_factor(builder: Builder, node: Node) -> Replacement:
    """Replace both layers by one normalization of other constants."""
    value, other = node.inputs
    if not isinstance(value.node.op, BatchNormInference5) and isinstance(node.op, (Multiply1, Add1)):
        value, other = other, value
    normalization = value.node
    if not isinstance(normalization.op, BatchNormInference5):
        return fail("no batch normalization is before it")
    if value.only_user is not node:
        return fail("something else reads the normalized values")
    number = _of_channels(other, value)
    data, *tensors = normalization.inputs
    if number is None or any(source.tensor is None for source in tensors):
        return fail("a number is not constant, or not one for each channel")
    gamma, beta = (source.tensor.array().astype(np.float64) for source in tensors[:2] if source.tensor is not None)
    with np.errstate(all="ignore"):
        if isinstance(node.op, (Add1, Subtract1)):
            beta = beta + (number if isinstance(node.op, Add1) else -number)
        else:
            factor = number if isinstance(node.op, Multiply1) else 1 / number
            gamma, beta = gamma * factor, beta * factor
    info = finfo(value.element_type)
    if not all((np.abs(each) <= float(info.max)).all() for each in (gamma, beta)):
        return fail("a constant would not be finite in its type")
    parameters = [builder.constant(each, source.element_type) for each, source in zip((gamma, beta), tensors)]
    return builder.emit(normalization.op, data, *parameters, *tensors[2:])


def _of_channels(value: Output, x: Output) -> Array | None:
    """One number, or one for each channel, in float64."""
    if value.tensor is None or not x.shape.has_rank or len(value.tensor.shape) > x.shape.rank:
        return None
    values = value.tensor.array().reshape(-1) if value.tensor.size == 1 else of_channels(value, x)
    return None if values is None else values.astype(np.float64)
