"""Kernels for any shapes that are made of binders: the calls are made for the arrays of each call, and run at once.

Making them takes 50 to 200 microseconds: what takes no longer has a kernel of its own instead, as products and small
elementwise layers have.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.execution.kernels import Prepared, Site, Step
from ir_runtime.execution.kernels.elementwise_chains import BLOCK, Layer, chains_of, read_by
from ir_runtime.execution.kernels.registry import fusion, is_float32, kernel
from ir_runtime.execution.kernels.threads import scratch
from ir_runtime.graph import Array, Node, Output, PartialShape, element_types, infer_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14

from .binding import BINDERS, Binding
from .elementwise import bind_chain

_MAX_SHAPES = 32
_Shape = tuple[int, ...]


@kernel(Convolution1, GroupConvolution1)
def convolution(node: Node, site: Site) -> Prepared | None:
    """With constant weights."""
    if node.inputs[1] not in site.constants or not is_float32(*node.inputs, *node.outputs):
        return None
    return Prepared(_Bound(node, site), packed=(node.inputs[1],))


@kernel(AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14)
def pooling(node: Node, site: Site) -> Prepared | None:
    """Where nothing reads the indices of maxima."""
    if not is_float32(node.inputs[0]) or any(site.users.get(o) or o in site.results for o in node.outputs[1:]):
        return None
    return Prepared(_Bound(node, site))


@fusion
def elementwise_chains(site: Site) -> list[Step]:
    steps = []
    for members, layers in chains_of(site):
        reads = read_by(layers)
        steps.append(Step(members, reads, list(members[-1].outputs), Prepared(_Chain(layers, reads, site))))
    return steps


class _OfOneCall(Binding):
    """Arrays of a call; scratch memory is that of the thread: new memory would take longer than many layers."""

    def __init__(self, site: Site, sources: Sequence[Output], inputs: Sequence[Array]) -> None:
        super().__init__(site, {}, lambda node: node.op.evaluate, lambda node, make_body: None)
        self.arrays.update(zip(sources, inputs))
        self._count = 0

    def scratch(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        self._count += 1
        return scratch(f"bound {self._count}", *shape)

    def reused(self, purpose: str, *shape: int) -> Array:
        return scratch(purpose, *shape)


class _Bound:
    """One node, which is bound with the types that follow from the arrays."""

    def __init__(self, node: Node, site: Site) -> None:
        self._site = site
        self._typed = functools.lru_cache(_MAX_SHAPES)(functools.partial(_with_types, node))

    def __call__(self, *inputs: Array) -> Any:
        node = self._typed(*[array.shape for array in inputs])
        b = _OfOneCall(self._site, node.inputs, inputs)
        calls = BINDERS[type(node.op)](node, b)
        if calls is None:
            return None
        for call in calls:
            call()
        return (b.arrays[node.outputs[0]], *[None] * (len(node.outputs) - 1))


def _with_types(node: Node, *shapes: _Shape) -> Node:
    types = [TensorType(source.element_type, PartialShape(shape)) for source, shape in zip(node.inputs, shapes)]
    return Node(node.op, node.inputs, infer_types(node.op, types))


class _Chain:
    """Elementwise layers, each in memory of its own where they are small, else block by block."""

    def __init__(self, layers: list[Layer], reads: list[Output], site: Site) -> None:
        self._layers, self._reads, self._site = layers, reads, site
        self._shapes = functools.lru_cache(_MAX_SHAPES)(functools.partial(_shapes_of, layers, reads))

    def __call__(self, *inputs: Array) -> Array:
        shapes = self._shapes(*[array.shape for array in inputs])
        if math.prod(shapes[-1]) > BLOCK:
            return self._by_blocks(inputs, shapes[-1])
        values = dict(zip(self._reads, inputs))
        for layer, shape in zip(self._layers, shapes):
            out = values[layer.output] = np.empty(shape, np.float32)
            spare = scratch("spare", 2, *shape)
            # With the ellipsis an array of no dimensions stays one.
            layer.formula(*[values[source] for source in layer.inputs], out, (spare[0, ...], spare[1, ...]))
        return out

    def _by_blocks(self, inputs: Sequence[Array], shape: _Shape) -> Array:
        root = Output(self._layers[-1].output.node, 0, TensorType(element_types.f32, PartialShape(shape)))
        b = _OfOneCall(self._site, self._reads, inputs)
        for call in bind_chain(root, self._layers, b, ()) or ():
            call()
        return b.arrays[root]


def _shapes_of(layers: Sequence[Layer], reads: Sequence[Output], *shapes: _Shape) -> list[_Shape]:
    known = dict(zip(reads, shapes))
    for layer in layers:
        known[layer.output] = np.broadcast_shapes(*[known[source] for source in layer.inputs])
    return [known[layer.output] for layer in layers]
