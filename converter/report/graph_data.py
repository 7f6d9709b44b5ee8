"""The graph of a model as the page's script takes it: layers, their constants, and the blocks they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from converter.report.blocks import blocks_of, flat_blocks
from ir_runtime.graph import Model, Node, Tensor
from ir_runtime.rewriting.fused_names import fused_names

NOT_COMPARED, EQUAL, DRIFTED, WRONG, CHANGED = range(5)
"""Verdicts of layers, as the page's script knows them."""

_BINS = 30
_MOST_SHOWN = 8
"""Constants of so few values are shown as numbers."""
_PIECES = 64
_PIECE = 1024
"""Of larger constants so many pieces of so many values are counted, evenly spread."""


class GraphData:
    """The layers of the main graph, in order and without constants; and all constants, also those of bodies."""

    def __init__(self, model: Model) -> None:
        nodes = model.nodes()
        self.place = {node: index for index, node in enumerate(node for node in nodes if node.op.data is None)}
        """The place of each layer."""
        self.constants: list[dict[str, Any]] = []
        self._constant: dict[Node, int] = {}
        self._readers: dict[str, list[int]] = {}
        self.layers = [self._entry(node) for node in self.place]

    def find(self, name: str) -> list[int]:
        """The places of the layer ``name``; where that is a constant, of the layers that read it, or hold it."""
        return [place for node, place in self.place.items() if node.name == name] or self._readers.get(name, [])

    def find_tensor(self, name: str) -> list[int]:
        """The place of the layer that computes the tensor ``name``, or that returns it."""
        return [place for place, layer in enumerate(self.layers) if any(name in n for n in layer.get("names", ()))]

    def set_states(self, states: Mapping[str, str]) -> None:
        """Note what was found about constants, by their names."""
        for constant in self.constants:
            if constant["n"] in states:
                constant["v"] = states[constant["n"]]

    def values(self) -> dict[str, Any]:
        """Plain values for the page's script."""
        layers = self.layers
        sources = [[source for source, _ in layer["i"]] for layer in layers]
        parts = blocks_of([layer["n"] for layer in layers], [layer["t"] for layer in layers], sources)
        groups, block_of = flat_blocks(parts, len(layers))
        for layer, block in zip(layers, block_of):
            layer["g"] = block
        return {"layers": layers, "groups": groups, "constants": self.constants}

    def _entry(self, node: Node) -> dict[str, Any]:
        place = self.place[node]
        sources = dict.fromkeys(
            (self.place[source.node], source.index) for source in node.inputs if source.node in self.place
        )
        held = dict.fromkeys(source.node for source in node.inputs if source.node.op.data is not None)
        held.update(dict.fromkeys(_constants_inside(node)))
        entry: dict[str, Any] = {
            "n": node.name,
            "t": node.op.type,
            "i": [list(source) for source in sources],
            "s": [str(output.type) for output in node.outputs],
            "v": NOT_COMPARED,
            "a": [list(pair) for pair in node.op.attributes().items()] if not node.op.subgraphs else [],
            "w": [self._constant_of(constant, place) for constant in held],
        }
        names = [list(output.names) for output in node.outputs] or [node.output_names]
        if any(names):
            entry["names"] = names
        if node.origin is not None:
            entry["o"] = node.origin.node
        replaced = fused_names(node)
        if replaced:
            entry["f"] = list(replaced)
        if node.op.subgraphs:
            inside = sum(len(sub.body.nodes()) for sub in node.op.subgraphs)
            entry["a"].append(["layers inside", str(inside)])
        return entry

    def _constant_of(self, node: Node, reader: int) -> int:
        readers = self._readers.setdefault(node.name, [])
        if reader not in readers:
            readers.append(reader)
        if node not in self._constant:
            self._constant[node] = len(self.constants)
            assert node.op.data is not None
            self.constants.append(
                {"n": node.name, "s": str(node.outputs[0].type), "b": node.op.data.byte_size, **_contents(node.op.data)}
            )
        return self._constant[node]


def _constants_inside(node: Node) -> Iterator[Node]:
    """The constants in the bodies of a layer, and in theirs."""
    pending = [sub.body for sub in node.op.subgraphs]
    while pending:
        for inner in pending.pop().nodes():
            if inner.op.data is not None:
                yield inner
            pending += [sub.body for sub in inner.op.subgraphs]


def _contents(data: Tensor) -> dict[str, Any]:
    """The values of a small constant as ``x``, the histogram of a larger one as ``h``; of some values ``of`` them."""
    if data.size > _PIECES * _PIECE and not data.is_stored:
        return {}  # its values would all have to be computed
    values = data.array()
    if values.dtype.kind in "OUST":
        return {}
    if values.size <= _MOST_SHOWN:
        return {"x": ", ".join(f"{value:.6g}" for value in values.astype(np.float64).reshape(-1).tolist())}
    drawn: dict[str, Any] = {}
    if values.size > _PIECES * _PIECE:
        drawn["of"] = values.size
        starts = np.linspace(0, values.size - _PIECE, _PIECES).astype(np.int64)
        values = np.concatenate([values.flat[start : start + _PIECE] for start in starts.tolist()])
    with np.errstate(all="ignore"):
        real = values.astype(np.float64)
    real = real[np.isfinite(real)]
    if not real.size:
        return {}
    low, high = float(real.min()), float(real.max())
    if not np.isfinite(high - low):
        return {}
    counts = np.histogram(real, _BINS, (low, high if high > low else low + 1.0))[0]
    return {**drawn, "h": [low, high, counts.tolist()]}
