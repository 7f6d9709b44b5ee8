"""The order of the rules, and the reason for the place of each; see :mod:`converter.passes.order`."""

from __future__ import annotations

from ir_runtime.rewriting.pipeline import Entry

# fmt: off
ORDER = [
    Entry("bitwise_shifts", ["BitwiseLeftShift15", "BitwiseRightShift15"], ["target"], module="rules",
          reason="free: no other rule emits shifts"),
    Entry("rounded_up_poolings", ["AvgPool14", "MaxPool14"], ["target"], module="rules",
          reason="free: no other rule emits poolings"),
]
# fmt: on
