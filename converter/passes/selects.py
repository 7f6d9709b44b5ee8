"""Simplify choices by conditions."""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import LogicalNot1, Select1
from ir_runtime.rewriting import Builder, Match, Replacement, anything, fail, layer

from .registry import passes


def _broadcasts_as_numpy(value: Output) -> str | None:
    return None if value.node.op.auto_broadcast == "numpy" else "broadcasts otherwise"  # type: ignore[attr-defined]


_NEGATED = layer(
    Select1,
    layer(LogicalNot1, anything("condition")),
    anything("a"),
    anything("b"),
    check=_broadcasts_as_numpy,
)


@passes.fuses("negated_conditions", _NEGATED)
def negated_condition(builder: Builder, node: Node, match: Match) -> Replacement:
    """Choose the other way round by a condition that is negated.

        c -> LogicalNot -> Select(a, b)      becomes      c -> Select(b, a)

    So torch's ``masked_fill`` keeps what a mask lets through.
    """
    return builder.emit(Select1(), match["condition"], match["b"], match["a"])


@passes.replaces("selects_in_a_row")
def selects_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Join two choices by one condition.

        Select(c, a, Select(c, b, d))      becomes      Select(c, a, d)
        Select(c, Select(c, a, b), d)      becomes      Select(c, a, d)

    What is never chosen has one element, so that the shape of the result stays.
    """
    condition, *choices = node.inputs
    for place, inner in enumerate(choices):
        chooses = inner.node
        if not isinstance(chooses.op, Select1) or chooses.inputs[0] is not condition:
            continue
        if not _broadcast(node) == _broadcast(chooses) == "numpy":
            return fail("broadcasts otherwise")
        chosen, other = chooses.inputs[1 + place], chooses.inputs[2 - place]
        if not _has_one_element(other) or not _has_rank_of(other, chosen):
            return fail("what is never chosen may decide about the shape")
        choices[place] = chosen
        return builder.emit(Select1(), condition, *choices)
    return fail("neither choice is a choice by the same condition")


def _broadcast(node: Node) -> str:
    return node.op.auto_broadcast  # type: ignore[attr-defined]


def _has_one_element(value: Output) -> bool:
    return value.shape.is_static and all(size == 1 for size in value.shape.static())


def _has_rank_of(value: Output, other: Output) -> bool:
    return other.shape.has_rank and value.shape.rank <= other.shape.rank
