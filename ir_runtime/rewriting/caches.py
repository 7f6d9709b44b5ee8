"""Where attention reads a variable: the layers between a cache and the attention that looks at it."""

from __future__ import annotations

from ..graph import Node, Output
from ..operations.elementwise import Convert1
from ..operations.inputs_outputs import ReadValue3, ReadValue6
from ..operations.movement import Concat1


def variable_behind(value: Output) -> Node | None:
    """The ReadValue whose keys or values ``value`` holds, with new ones behind them; None where there is none."""
    node = value.node
    while node.op.movement or isinstance(node.op, (Concat1, Convert1)):
        node = node.inputs[0].node
    return node if isinstance(node.op, (ReadValue3, ReadValue6)) else None
