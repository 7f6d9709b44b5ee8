"""A condition that is negated chooses the other way round.

    c -> LogicalNot -> Select(a, b)      becomes      c -> Select(b, a)

So torch's ``masked_fill`` keeps what a mask lets through.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import LogicalNot1, Select1
from ir_runtime.rewriting import Builder, Match, Replacement, anything, layer

from .registry import passes


def _broadcasts_as_numpy(value: Output) -> str | None:
    return None if value.node.op.auto_broadcast == "numpy" else "broadcasts otherwise"  # type: ignore[attr-defined]


_PATTERN = layer(
    Select1,
    layer(LogicalNot1, anything("condition")),
    anything("a"),
    anything("b"),
    check=_broadcasts_as_numpy,
)


@passes.fuses("negated_conditions", _PATTERN)
def negated_condition(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace a Select by a negated condition by one by the condition itself."""
    return builder.emit(Select1(), match["condition"], match["b"], match["a"])
