"""Fast kernels and fused steps of the executor's plan.

Each says for which operations, types and neighbours it holds; anything else is left to ``evaluate``, which is the
truth that every kernel is tested against. Importing the package registers them.
"""

from __future__ import annotations

from . import (
    convolution,
    elementwise_chains,
    normalization,
    pooling,
    products,
    recurrent,
    reduction,
    softmax,
)
from .registry import Kernel, Prepared, Site, Step, prepare

assert convolution
assert elementwise_chains
assert normalization
assert pooling
assert products
assert reduction
assert recurrent
assert softmax

__all__ = ["Kernel", "Prepared", "Site", "Step", "prepare"]
