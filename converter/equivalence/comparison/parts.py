"""Layers that are computed together, from the values before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ir_runtime.graph import Array, Node, Output

Run = Callable[[Node, Sequence[Array]], tuple[Array, ...]]
"""Computes one layer."""


class Part(tuple[Node, ...]):
    """Layers, each after those it reads."""

    @cached_property
    def sources(self) -> dict[Output, str]:
        """The values that these layers read from others, with names for the inputs of a model of these layers alone."""
        inside = {value for node in self for value in node.outputs}
        outside = [source for node in self for source in node.inputs if source not in inside]
        return {source: f"input{number}" for number, source in enumerate(dict.fromkeys(outside))}

    def values(self, sources: Mapping[Output, Array], run: Run) -> dict[Output, Array]:
        """Return the values of ``sources`` and of all layers, each computed by ``run``."""
        values = dict(sources)
        for node in self:
            values.update(zip(node.outputs, run(node, [values[source] for source in node.inputs])))
        return values


def between(output: Output, names: Mapping[Output, object]) -> Part:
    """The layers that lie between ``output`` and the nearest named values before it."""
    nodes: list[Node] = []
    done: dict[Node, bool] = {}
    stack = [output.node]
    while stack:
        node = stack[-1]
        if node not in done:
            done[node] = False
            stack += [source.node for source in node.inputs if source not in names and source.node not in done]
            continue
        stack.pop()
        if not done[node]:
            done[node] = True
            nodes.append(node)
    return Part(node for node in nodes if node.inputs or node.op.data is not None or node is output.node)
