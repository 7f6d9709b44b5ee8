"""Fast kernels and fused steps of a plan.

Each checks the operations, types and neighbours that it is made for; ``evaluate`` computes everything else. Every
kernel is tested against ``evaluate``. Importing the package registers the kernels.
"""

from __future__ import annotations

from ir_runtime.graph.operation import Operation
from ir_runtime.lazy import import_modules_of

from .formulas import has_formula
from .registry import Kernel, Prepared, Site, Step, has_kernel, prepare

import_modules_of(__name__)


def is_arithmetic(op: Operation) -> bool:
    """True if there may be a kernel or a formula for the operation: it then computes in float32."""
    return has_kernel(op) or has_formula(type(op))


__all__ = ["Kernel", "Prepared", "Site", "Step", "has_kernel", "is_arithmetic", "prepare"]
