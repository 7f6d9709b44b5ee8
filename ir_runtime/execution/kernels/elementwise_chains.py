"""Chains: neighbouring elementwise layers computed as one step, block by block.

A block goes through all layers while it is in the cache. A chain has one output; every other layer in it is only read
by layers of the chain. Layers whose output is smaller than the chain's, such as the gate of a squeeze-and-excitation,
are computed first, as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ir_runtime.graph import Node, Output

from .formulas import Formula, formula_of, gated, is_product, is_sigmoid, stand_ins
from .registry import Site, is_float32

BLOCK = 1 << 15
"""Elements of a block: a chain's buffers of this size fit the second-level cache."""


@dataclass(frozen=True, eq=False)
class Layer:
    """An elementwise layer of a chain: its formula and its inputs."""

    formula: Formula
    inputs: list[Output]
    output: Output


_NOTHING = Layer(gated, [], None)  # type: ignore[arg-type]


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


def blocks_of(shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """The dimensions and the index of each block: BLOCK elements at most, cut along the outermost dimensions."""
    rest = math.prod(shape)
    cuts: list[list[slice]] = []
    for dimension in shape:
        if rest <= BLOCK:
            break
        rest //= dimension
        parts = -(-dimension // max(1, BLOCK // rest))
        ends = [dimension * i // parts for i in range(parts + 1)]
        cuts.append([slice(a, b) for a, b in itertools.pairwise(ends)])
    return [(tuple(s.stop - s.start for s in i) + shape[len(i) :], i) for i in itertools.product(*cuts)]
