"""Chains: neighbouring elementwise layers computed as one step, block by block, on several threads.

A block goes through all layers while it is in the cache. A chain has one output; every other layer in it is only read
by layers of the chain. Layers whose output is smaller than the chain's, such as the gate of a squeeze-and-excitation,
are computed first, as a whole.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.records import record

from .formulas import Formula, formula_of, gated, is_product, is_sigmoid, stand_ins
from .registry import Prepared, Site, Step, fusion, is_float32
from .threads import scratch

BLOCK = 1 << 15
"""Elements of a block: a chain's buffers of this size fit the second-level cache."""
_MAX_LAYOUTS = 32
_MIN_SCRATCH_ELEMENTS = 8 * BLOCK
"""The least size of a thread's buffer, so that one buffer serves nearly all chains."""


@dataclass(frozen=True, eq=False)
class Layer:
    """An elementwise layer of a chain: its formula and its inputs."""

    formula: Formula
    inputs: list[Output]
    output: Output


_NOTHING = Layer(gated, [], None)  # type: ignore[arg-type]


@fusion
def elementwise_chains(site: Site) -> list[Step]:
    return [_step(members, layers, site) for members, layers in chains_of(site)]


def chains_of(site: Site, without: Collection[Node] = ()) -> list[tuple[list[Node], list[Layer]]]:
    """The longest chains, found from their last layer backwards: for each its nodes and its layers."""
    formulas = {node: formula for node in site.nodes if (formula := _formula(node, site)) is not None}
    taken = set(without)
    chains = []
    position = {node: index for index, node in enumerate(site.nodes)}
    for root in reversed(site.nodes):
        if root not in formulas or root in taken:
            continue
        members = {root}
        pending = [root]
        while pending:
            for source in pending.pop().inputs:
                node = source.node
                if node in members or node in taken or node not in formulas or source in site.results:
                    continue
                if set(site.users[source]) <= members:
                    members.add(node)
                    pending.append(node)
        taken |= members
        ordered = sorted(members, key=position.__getitem__)
        chains.append((ordered, _layers(ordered, formulas, site)))
    return chains


def _formula(node: Node, site: Site) -> Formula | None:
    if not is_float32(*node.inputs, *node.outputs) or not node.outputs[0].shape.has_rank:
        return None
    return formula_of(node, [site.constants.get(source) for source in node.inputs])


def read_by(layers: Sequence[Layer]) -> list[Output]:
    """The outputs that a chain reads, in order."""
    inside = {layer.output for layer in layers}
    return list(dict.fromkeys(source for layer in layers for source in layer.inputs if source not in inside))


def _step(members: list[Node], layers: list[Layer], site: Site) -> Step:
    reads = read_by(layers)
    step = Step(members, reads, list(members[-1].outputs))
    step.prepared = Prepared(_Chain(members, layers, reads, site), fresh=True)
    return step


def _layers(members: list[Node], formulas: dict[Node, Formula], site: Site) -> list[Layer]:
    layers = [Layer(formulas[node], _inputs(node, site), node.outputs[0]) for node in members]
    gates = {node.outputs[0]: node.inputs[0] for node in members if is_sigmoid(node)}
    for index, node in enumerate(members):
        gate = next((source for source in node.inputs if source in gates), None)
        # A sigmoid that only a multiplication of the same shape reads becomes a part of it.
        if is_product(node) and gate is not None and site.only_user(gate) is node and node.inputs.count(gate) == 1:
            x = node.inputs[1 - node.inputs.index(gate)]
            if gate.shape.is_static and gate.shape == node.outputs[0].shape:
                layers[index] = Layer(gated, [x, gates[gate]], node.outputs[0])
                layers[members.index(gate.node)] = _NOTHING
    return [layer for layer in layers if layer is not _NOTHING]


def _inputs(node: Node, site: Site) -> list[Output]:
    instead = stand_ins(node, site.constants)
    if instead is None:
        return list(node.inputs)
    return [operand if isinstance(operand, Output) else site.add_constant(node, operand) for operand in instead]


@record
class _Instruction:
    formula: Formula
    reads: tuple[int, ...]
    writes: int


@dataclass(frozen=True, eq=False)
class _Layout:
    """A chain prepared for inputs of certain shapes."""

    shape: tuple[int, ...]
    before: list[tuple[Formula, tuple[int, ...], tuple[int, ...]]]
    """Layers smaller than the output: the registers that each reads, and its shape. Each fills the next register."""
    flat: list[tuple[int, ...]]
    """The shapes, with dimensions joined, of the inputs and then of the smaller layers."""
    out_flat: tuple[int, ...]
    blocks: list[tuple[tuple[int, int], tuple[Any, ...], list[tuple[Any, ...] | None]]]
    """For each block its dimensions, its index in the output, and its index in each input (None: all of it)."""
    instructions: list[_Instruction]
    temporaries: int
    in_place: int | None
    """The input whose memory the output may reuse."""
    held: threading.local = field(default_factory=threading.local)

    def buffers(self, shape: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
        """This thread's temporaries and spare buffers for blocks of this shape."""
        views_by_shape: dict[Any, tuple[list[Array], list[Array]]] = self.held.__dict__
        buffers = views_by_shape.get(shape)
        if buffers is None:
            size, count = math.prod(shape), self.temporaries + 2
            views = list(
                scratch("chain", max(count * size, _MIN_SCRATCH_ELEMENTS))[: count * size].reshape(count, *shape)
            )
            buffers = views_by_shape[shape] = views[:-2], views[-2:]
        return buffers


class _Chain:
    """The chain's kernel."""

    def __init__(self, members: list[Node], layers: list[Layer], reads: list[Output], site: Site) -> None:
        self._members = members
        self._layers = layers
        self._reads = reads
        self._site = site
        self._workers = site.workers
        self._layouts: dict[tuple[tuple[int, ...], ...], _Layout] = {}
        self._private: list[int] | None = None

    def __call__(self, *inputs: Array) -> Array:
        key = tuple([array.shape for array in inputs])
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts = {}
            layout = self._layouts[key] = self._laid_out(key)
        arrays = list(inputs)
        for formula, reads, shape in layout.before:
            # Three arrays: rows of a single one would be plain numbers where there are no dimensions.
            target, *spare = (np.empty(shape, np.float32) for _ in range(3))
            formula(*[arrays[index] for index in reads], target, spare)
            arrays.append(target)
        seen = [array.reshape(shape) for array, shape in zip(arrays, layout.flat)]
        place = layout.in_place
        if place is not None and inputs[place].flags.c_contiguous and inputs[place].flags.writeable:
            out = inputs[place]
        else:
            out = np.empty(layout.shape, np.float32)
        flat = out.reshape(layout.out_flat)

        if len(layout.blocks) == 1:
            _run(layout, layout.blocks, seen, flat)
            return out

        def work(blocks: Sequence[Any]) -> None:
            _run(layout, blocks, seen, flat)

        self._workers.each(work, layout.blocks, out.size * len(layout.instructions))
        return out

    def _laid_out(self, shapes: Sequence[tuple[int, ...]]) -> _Layout:
        if self._private is None:
            site = self._site
            self._private = [i for i, r in enumerate(self._reads) if site.is_private(r, self._members)]
        shape_of = dict(zip(self._reads, shapes))
        for layer in self._layers:
            shape_of[layer.output] = np.broadcast_shapes(*[shape_of[source] for source in layer.inputs])
        shape = shape_of[self._layers[-1].output]
        register = {output: index for index, output in enumerate(self._reads)}
        before, rest = [], []
        for layer in self._layers:
            if shape_of[layer.output] == shape:
                rest.append(layer)
                continue
            reads = tuple(register[source] for source in layer.inputs)
            before.append((layer.formula, reads, shape_of[layer.output]))
            register[layer.output] = len(register)
        flat, out_flat = collapse_axes(shape, [shape_of[output] for output in register])
        registers, temporaries = allocated(rest, register)
        instructions = [_Instruction(layer.formula, reads, target) for layer, reads, target in registers]
        place = next((i for i in self._private if shapes[i] == shape), None)
        return _Layout(shape, before, flat, out_flat, blocks_of(out_flat, flat), instructions, temporaries, place)


def allocated(
    layers: Sequence[Layer],
    register: Mapping[Output, int],
    spare: Sequence[int] = (),
    given_up: Mapping[Output, int] | None = None,
) -> tuple[list[tuple[Layer, tuple[int, ...], int]], int]:
    """Allocate registers for each layer to read and write: inputs, the given number of temporaries, the output (-1).

    ``spare`` registers are free from the start, those of ``given_up`` inputs after their last use.
    """
    last = {source: position for position, layer in enumerate(layers) for source in layer.inputs}
    leaving = given_up or {}
    place = dict(register)
    free = list(spare)
    count = 0
    placed = []
    for position, layer in enumerate(layers):
        reads = tuple([place[source] for source in layer.inputs])
        for source in dict.fromkeys(layer.inputs):
            if last[source] == position and (source in leaving or source not in register):
                free.append(leaving.get(source, place[source]))
        if position == len(layers) - 1:
            target = -1
        elif free:
            target = free.pop()
        else:
            target = len(register) + count
            count += 1
        place[layer.output] = target
        placed.append((layer, reads, target))
    return placed, count


def collapse_axes(
    shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """The shapes with neighbouring dimensions joined wherever every input has both of them or neither."""
    rank = len(shape)
    padded = [(1,) * (rank - len(input_shape)) + tuple(input_shape) for input_shape in inputs]
    groups: list[tuple[bool, ...]] = []
    out: list[int] = []
    for axis, dimension in enumerate(shape):
        if dimension == 1:
            continue
        pattern = tuple(padded_shape[axis] for padded_shape in padded)
        here = tuple(n == dimension for n in pattern)
        if out and groups[-1] == here:
            out[-1] *= dimension
        else:
            groups.append(here)
            out.append(dimension)
    if not out:
        out, groups = [1], [tuple(True for _ in inputs)]
    flat = [tuple(n if group[i] else 1 for n, group in zip(out, groups)) for i in range(len(inputs))]
    # NumPy is faster with scalars without dimensions.
    flat = [() if math.prod(dimensions) == 1 else dimensions for dimensions in flat]
    return flat, tuple(out)


def blocks_of(shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]]) -> list[Any]:
    """Blocks of about BLOCK elements; behind the first dimension that needs cutting, dimensions stay whole."""
    if math.prod(shape) <= BLOCK:
        return [(shape, (), [None] * len(inputs))]
    rest = math.prod(shape)
    cuts: list[list[slice]] = []
    for dimension in shape:
        rest //= dimension
        if rest >= BLOCK:
            cuts.append([slice(i, i + 1) for i in range(dimension)])
            continue
        rows = max(1, BLOCK // max(rest, 1))
        parts = max(1, -(-dimension // rows))
        ends = [dimension * i // parts for i in range(parts + 1)]
        cuts.append([slice(a, b) for a, b in itertools.pairwise(ends)])
        break
    placed = []
    for index in _product(cuts):
        dimensions = tuple(s.stop - s.start for s in index) + shape[len(index) :]
        places: list[Any] = []
        for input_shape in inputs:
            if not input_shape or all(input_shape[axis] == 1 for axis in range(len(index))):
                places.append(None)
                continue
            places.append(tuple(s if input_shape[axis] != 1 else slice(None) for axis, s in enumerate(index)))
        placed.append((dimensions, index, places))
    return placed


def _product(cuts: list[list[slice]]) -> list[tuple[slice, ...]]:
    index_products: list[tuple[slice, ...]] = [()]
    for choices in cuts:
        index_products = [(*head, choice) for head in index_products for choice in choices]
    return index_products


def _run(layout: _Layout, blocks: Sequence[Any], seen: list[Array], out: Array) -> None:
    dimensions: tuple[int, ...] | None = None
    temporaries: list[Array] = []
    spare: list[Array] = []
    for shape, index, places in blocks:
        if shape != dimensions:
            dimensions = shape
            temporaries, spare = layout.buffers(shape)
        if index:
            registers = [array if place is None else array[place] for array, place in zip(seen, places)]
            registers += temporaries
            registers.append(out[index])
        else:
            registers = [*seen, *temporaries, out]
        for instruction in layout.instructions:
            instruction.formula(*[registers[i] for i in instruction.reads], registers[instruction.writes], spare)
