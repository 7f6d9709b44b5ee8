"""Batch normalization by constants, as one factor and one summand for each channel.

The plug-in rewrites each layer so when it compiles a model, out of the four constants. That takes a third of the time
in which it loads a DenseNet. OpenVINO's converter stores factors and summands, too.

    x -> BatchNormInference(gamma, beta, mean, variance)      becomes      x -> Multiply(f) -> Add(s)

with f = gamma / sqrt(variance + epsilon) and s = beta - mean f, computed in float64 and rounded once. Summands that are
all 0 are left out.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.graph.element_types import f32, f64
from ir_runtime.operations.normalization import BatchNormInference5
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("batch_normalizations", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def batch_normalizations(builder: Builder, node: Node) -> Replacement:
    """Multiply by the factors and add the summands."""
    assert isinstance(node.op, BatchNormInference5)
    data, *constants = node.inputs
    element_type = data.element_type
    if element_type not in (f32, f64):
        return fail("the numbers are neither float32 nor float64, and the factors would be rounded more than these")
    tensors = [value.tensor for value in constants if value.tensor is not None]
    if len(tensors) < len(constants):
        return fail("gamma, beta, mean or variance is not constant")
    # A dynamic number of channels may be 1, which factors of several channels would broadcast.
    if not data.shape.has_rank or not data.shape[1].is_static:
        return fail("the rank or the number of channels is dynamic")
    gamma, beta, mean, variance = (tensor.array().astype(np.float64) for tensor in tensors)
    with np.errstate(all="ignore"):
        factors = gamma / np.sqrt(variance + node.op.epsilon)
        summands = beta - mean * factors
    limit = float(np.finfo(element_type.dtype).max)
    if not all((np.abs(each) <= limit).all() for each in (factors, summands)):
        return fail("a factor or a summand would not be finite")
    shape = (1, -1, *[1] * (data.shape.rank - 2))
    factor, summand = (
        builder.computed(node.op.type, values.reshape(shape), element_type, constants) for values in (factors, summands)
    )
    scaled = layers.multiply(builder, data, factor)
    return layers.add(builder, scaled, summand) if summands.any() else scaled
