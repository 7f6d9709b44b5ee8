"""Concrete calls of every operation: attributes in several modes, and inputs of its own seed for each.

No results are listed here. The calls are for tests that hold what is inferred of an operation against
what it computes, or against what another runtime infers.
"""

from __future__ import annotations

from tests.ir_runtime.calls import detection, elementwise, movement, networks, others
from tests.ir_runtime.calls.base import Call

CALLS: list[Call] = [*elementwise.CALLS, *movement.CALLS, *networks.CALLS, *detection.CALLS, *others.CALLS]

__all__ = ["CALLS", "Call"]
