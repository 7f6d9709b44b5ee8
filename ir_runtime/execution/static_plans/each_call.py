"""Kernels for any shapes that are made of binders: the node is bound to the arrays of each call, and computed at once.

Making the calls takes 50 to 200 microseconds: layers that take no longer have a kernel of their own instead.
"""

from __future__ import annotations

from typing import Any

from ir_runtime.execution.kernels import Prepared, Site
from ir_runtime.execution.kernels.registry import is_float32, kernel
from ir_runtime.graph import Array, Node, Output, PartialShape, make_node
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14

from .binding import Binding
from .plan import calls_of_node

_MAX_SHAPES = 32


@kernel(Convolution1, GroupConvolution1)
def convolution(node: Node, site: Site) -> Prepared | None:
    """With constant weights."""
    if node.inputs[1] not in site.constants or not is_float32(*node.inputs, *node.outputs):
        return None
    return Prepared(_Bound(node, site), fresh=True, packed=(node.inputs[1],))


@kernel(AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14)
def pooling(node: Node, site: Site) -> Prepared | None:
    """Where nothing reads the indices of maxima."""
    if not is_float32(node.inputs[0]) or any(site.users.get(o) or o in site.results for o in node.outputs[1:]):
        return None
    return Prepared(_Bound(node, site), fresh=True)


class _Bound:
    def __init__(self, node: Node, site: Site) -> None:
        self._node, self._site = node, site
        self._constants: dict[Output, Array] = {}
        """The constants among the inputs, from the first call on."""
        self._packs: dict[Any, tuple[Array, Array]] = {}
        self._nodes: dict[tuple[tuple[int, ...], ...], Node] = {}
        """The node with the types of these shapes."""

    def __call__(self, *inputs: Array) -> Any:
        shapes = tuple([array.shape for array in inputs])
        node = self._nodes.get(shapes) or self._with_types(shapes)
        out = node.outputs[0]
        site = Site([node], self._constants, {out}, self._site.workers, packs=self._packs)
        b = Binding(site, {}, lambda node: node.op.evaluate, lambda node, make_body: None)
        b.arrays = {source: array for source, array in zip(node.inputs, inputs) if source not in self._constants}
        calls = calls_of_node(node, b)
        if calls is None:
            return None
        for call in calls:
            call()
        return (b.arrays[out], *[None] * (len(node.outputs) - 1))

    def _with_types(self, shapes: tuple[tuple[int, ...], ...]) -> Node:
        if len(self._nodes) >= _MAX_SHAPES:
            self._nodes = {}
        held = {source.index: source for source in self._constants}
        sources = []
        for index, (source, shape) in enumerate(zip(self._node.inputs, shapes)):
            typed = held.get(index) or Output(self._node, index, TensorType(source.element_type, PartialShape(shape)))
            if source in self._site.constants:
                self._constants.setdefault(typed, self._site.constants[source])
            sources.append(typed)
        node = self._nodes[shapes] = make_node(self._node.op, sources)
        return node
