"""Who reads a value: the answers of :class:`ir_runtime.graph.node.Output`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ir_runtime.graph.model import Node, Output

from .shared_shapes import symbolic_shapes

if TYPE_CHECKING:
    from .symbolic_shapes import SymbolicShapes


class Uses:
    @functools.cached_property
    def shapes(self) -> SymbolicShapes:
        return symbolic_shapes()

    def __getitem__(self, value: Output) -> list[Node]:
        return value.uses

    def __contains__(self, value: Output) -> bool:
        return value.is_used

    def only_reader(self, value: Output) -> Node | None:
        return value.only_user
