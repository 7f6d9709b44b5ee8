"""Attention that reads a variable: the layers between a cache and the attention that looks at it."""

from __future__ import annotations

from ..graph import Node, Output
from ..operations.elementwise import Convert1
from ..operations.indexing import Gather8
from ..operations.inputs_outputs import ReadValue3, ReadValue6
from ..operations.movement import Broadcast3, Concat1, Reshape1, Transpose1, Unsqueeze1

_BETWEEN = (Broadcast3, Concat1, Convert1, Gather8, Reshape1, Transpose1, Unsqueeze1)
"""Not every movement of data: attention to a Slice or a part of a Split does not see the whole cache."""


def variable_behind(value: Output) -> Node | None:
    """The ReadValue whose keys or values ``value`` holds, with new ones behind them; None where there is none."""
    node = value.node
    while isinstance(node.op, _BETWEEN) and node.inputs:
        node = node.inputs[0].node
    return node if isinstance(node.op, (ReadValue3, ReadValue6)) else None
