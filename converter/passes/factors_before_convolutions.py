"""A number that data are multiplied by becomes part of the weights of the convolution behind.

    x -> Multiply(c) -> Convolution(weights)      becomes      x -> Convolution(c * weights)

Networks without normalisation scale what each block reads (NFNet). The pads stay zeros. Weights are computed in float64
and rounded once; those that anything else reads stay.
"""

from __future__ import annotations

import numpy as np

from converter.passes.channel_factors import scaled
from ir_runtime.graph import Node
from ir_runtime.operations.elementwise import Divide1, Multiply1
from ir_runtime.rewriting import Builder, Replacement, fail

from .idioms import has_shape_of
from .registry import passes


@passes.replaces("factors_before_convolutions")
def factor_before_convolution(builder: Builder, node: Node) -> Replacement:
    """Scale the weights, and read what is not scaled."""
    data, weights, *others = node.inputs
    scale = data.node
    if not isinstance(scale.op, (Multiply1, Divide1)) or data.only_user is not node:
        return fail("no product that nothing else reads is before it")
    if weights.tensor is None or weights.only_user is not node:
        return fail("the weights are not constant, or something else reads them, too")
    x, number = scale.inputs
    if isinstance(scale.op, Multiply1) and x.tensor is not None:
        x, number = number, x
    if number.tensor is None or number.tensor.size != 1:
        return fail("what it is multiplied by is not one constant number")
    if not has_shape_of(data, x):
        return fail("the number adds dimensions")
    with np.errstate(all="ignore"):
        factor = number.tensor.array().astype(np.float64).reshape(-1)
        tensor = scaled(weights.tensor, (), factor if isinstance(scale.op, Multiply1) else 1 / factor, number.tensor)
    return fail(tensor) if isinstance(tensor, str) else builder.emit(node.op, x, builder.tensor(tensor), *others)
