"""Blocks of a graph that people read as one: by the scopes in the names of layers, and by structure that repeats.

``/encoder/layer.3/attention/MatMul`` lies in the scopes ``encoder``, ``layer.3`` and ``attention``. Neighbours whose
names differ in a number, and whose layers are alike, become one block: "encoder layer, 12 times". Where names have no
scopes, the longest run of equal sequences of types does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from converter.report.repeats import Repeat, repeats_in

_MIN_LAYERS = 4
"""A scope of fewer layers is no block of its own."""
_LIKENESS = 0.7
"""The share of layers by type that blocks of one stack have in common."""
_MOST_BETWEEN = 0.25
"""A stack may take up so many layers between its blocks, as a share of the layers of these."""
_LONG_ROW = 24
"""A block with more parts than this is searched for repeats."""
_MOST_LEVELS = 12
_NUMBERED = re.compile(r"^(?P<stem>.*?)[._]?(?P<number>\d+)$")


@dataclass(eq=False)
class Block:
    """A block: its parts are layers (as their places in the graph) and other blocks, in the graph's order."""

    title: str
    parts: list[Part] = field(default_factory=list)
    repeats: int = 0
    """The number of equal blocks that it holds; 0 where it is no stack."""
    types: Counter[str] = field(default_factory=Counter)
    first: int = 0
    scope: str = ""
    """The scope that it is; empty where it is none by itself."""

    def settle(self, types: Sequence[str]) -> None:
        """Put the parts into the graph's order, and count the types of all layers inside."""
        self.parts.sort(key=_first)
        self.first = _first(self.parts[0])
        for part in self.parts:
            self.types.update(part.types if isinstance(part, Block) else [types[part]])


Part = Union[int, Block]


def blocks_of(names: Sequence[str], types: Sequence[str], sources: Sequence[Sequence[int]]) -> list[Part]:
    """The parts of the whole graph: layers, and the blocks that the others lie in.

    Layers come in topological order; ``sources`` has for each the places of the layers that it reads.
    """
    scopes = [[part for part in name.split("/") if part][:-1] for name in names]
    return _Grouping(types, scopes, sources).parts(list(range(len(names))), 0, "")


def flat_blocks(parts: Sequence[Part], count: int) -> tuple[list[dict[str, Any]], list[int]]:
    """The blocks as the page's script takes them, each after the one it lies in; and the block of each layer, or -1."""
    blocks: list[dict[str, Any]] = []
    block_of = [-1] * count
    pending = [(part, -1) for part in reversed(parts)]
    while pending:
        part, parent = pending.pop()
        if isinstance(part, int):
            block_of[part] = parent
            continue
        counts = ", ".join(f"{times} {name}" for name, times in part.types.most_common(4))
        entry = {"t": part.title, "p": parent, "c": counts + (" ..." if len(part.types) > 4 else "")}
        if part.repeats:
            entry["r"] = part.repeats
        pending += [(inner, len(blocks)) for inner in reversed(part.parts)]
        blocks.append(entry)
    return blocks, block_of


class _Grouping:
    def __init__(self, types: Sequence[str], scopes: Sequence[Sequence[str]], sources: Sequence[Sequence[int]]) -> None:
        self._types = types
        self._scopes = scopes
        self._sources = sources

    def parts(self, layers: Sequence[int], level: int, title: str) -> list[Part]:
        """The parts of ``layers``, which share their first ``level`` scopes."""
        inside: dict[str, list[int]] = {}
        children: list[Part] = []
        for layer in layers:
            scope = self._scopes[layer]
            if len(scope) > level and level < _MOST_LEVELS:
                inside.setdefault(scope[level], []).append(layer)
            else:
                children.append(layer)
        loose = [part for part in children if isinstance(part, int)]
        for name, members in inside.items():
            if len(members) < _MIN_LAYERS:
                children += members
                continue
            adopted = self._between(members, loose)
            if adopted:
                loose = [layer for layer in loose if layer not in adopted]
                children = [part for part in children if part not in adopted]
                members = sorted({*members, *adopted})
            parts = self.parts(members, level + 1, name)
            if len(parts) == 1 and isinstance(parts[0], Block):
                only = parts[0]  # a scope around one block says nothing by itself
                only.title, only.scope = _join(name, only.title), name
                children.append(only)
            else:
                block = self._block(name, parts)
                block.scope = name
                children.append(block)
        children = self._stack(children, title)
        children.sort(key=_first)
        return self._repeating(children)

    def _between(self, members: Sequence[int], loose: Sequence[int]) -> set[int]:
        """The ``loose`` layers on ways out of ``members`` and back: outside of the block they would close a circle."""
        after, before = set(members), set(members)
        for layer in loose:
            if any(source in after for source in self._sources[layer]):
                after.add(layer)
        readers_of_members = after.difference(members)
        if not readers_of_members:
            return readers_of_members
        needed = {source for member in members for source in self._sources[member]}
        for layer in reversed(loose):
            if layer in needed:
                before.add(layer)
                needed.update(self._sources[layer])
        return readers_of_members & before

    def _block(self, title: str, parts: Sequence[Part], repeats: int = 0) -> Block:
        block = Block(title, list(parts), repeats)
        block.settle(self._types)
        return block

    def _stack(self, parts: Sequence[Part], scope: str) -> list[Part]:
        """Blocks whose names differ in a number, one after the other and alike, in a block of their own."""
        numbered: dict[str, list[tuple[int, Block]]] = {}
        for part in parts:
            match = _NUMBERED.match(part.scope) if isinstance(part, Block) else None
            if isinstance(part, Block) and match is not None:
                numbered.setdefault(match["stem"], []).append((int(match["number"]), part))
        stacked = list(parts)
        for stem, pairs in numbered.items():
            runs: list[list[tuple[int, Block]]] = []
            for number, block in sorted(pairs, key=lambda pair: pair[0]):
                if runs and number == runs[-1][-1][0] + 1 and _alike(runs[-1][0][1], block):
                    runs[-1].append((number, block))
                else:
                    runs.append([(number, block)])
            for run in runs:
                blocks = [block for _, block in run if block in stacked]
                between = self._between_blocks(blocks, stacked) if 1 < len(run) == len(blocks) else None
                if between is None:
                    continue
                whole = "" if len(runs) == 1 else f" {run[0][0]}\N{EN DASH}{run[-1][0]}"
                name = f"{stem or scope or 'block'}{whole} \N{MULTIPLICATION SIGN} {len(run)}"
                inside = [*blocks, *between]
                stacked = [part for part in stacked if part not in inside] + [self._block(name, inside, len(run))]
        return stacked

    def _between_blocks(self, blocks: Sequence[Block], parts: Sequence[Part]) -> list[Part] | None:
        """Those of ``parts`` that lie on ways from one of the blocks to another.

        None where they are large: what stands apart in the graph is not one stack.
        """
        members = {layer for block in blocks for layer in _layers(block)}
        others = [(part, _layers(part)) for part in parts if part not in blocks]
        between = self._between(sorted(members), sorted(layer for _, layers in others for layer in layers))
        between_blocks = [(part, layers) for part, layers in others if not between.isdisjoint(layers)]
        if sum(len(layers) for _, layers in between_blocks) > _MOST_BETWEEN * len(members):
            return None
        return [part for part, _ in between_blocks]

    def _repeating(self, parts: Sequence[Part]) -> list[Part]:
        """``parts`` with the runs of equal sequences among them as blocks."""
        if len(parts) <= _LONG_ROW:
            return list(parts)
        tokens = [part.title if isinstance(part, Block) else self._types[part] for part in parts]
        tokens = [re.sub(r"\d+", "#", token) for token in tokens]
        place = {layer: at for at, part in enumerate(parts) for layer in _layers(part)}
        reads = [
            sorted({place[s] for layer in _layers(part) for s in self._sources[layer] if s in place} - {at})
            for at, part in enumerate(parts)
        ]
        stacked: list[Part] = []
        done = 0
        for run in repeats_in(tokens, reads):
            stacked += parts[done : run.start]
            stacked.append(self._run(parts, run))
            done = run.end
        return [*stacked, *parts[done:]]

    def _run(self, parts: Sequence[Part], run: Repeat) -> Block:
        starts = range(run.start, run.end, run.period)
        blocks = [
            self._block(f"block {number}", self._repeating(parts[at : at + run.period]))
            for number, at in enumerate(starts, 1)
        ]
        return self._block(f"block \N{MULTIPLICATION SIGN} {run.times}", blocks, run.times)


def _join(outer: str, inner: str) -> str:
    """``encoder`` and ``layer.3`` as one title, without saying a word twice."""
    return inner if inner.startswith(outer) else f"{outer} {inner}"


def _alike(block: Block, other: Block) -> bool:
    common = sum((block.types & other.types).values())
    return common >= _LIKENESS * max(block.types.total(), other.types.total())


def _first(part: Part) -> int:
    return part.first if isinstance(part, Block) else part


def _layers(part: Part) -> list[int]:
    """The places of all layers in a part."""
    layers: list[int] = []
    pending = [part]
    while pending:
        piece = pending.pop()
        if isinstance(piece, Block):
            pending += piece.parts
        else:
            layers.append(piece)
    return layers
