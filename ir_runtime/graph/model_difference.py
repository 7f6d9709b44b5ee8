"""Differences between two models in layers, attributes, types and weights; ids and the order in the file do not count.

Layers are paired by name where both models have the name once, for outputs of the same types; then by the tensor names
of their outputs, and constants by their data; then by their place: layers of one type that read the same paired values,
or that a pair reads at the same input. What is left is paired by name alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ir_runtime.records import record

from .element_types import Array
from .model import Model, Node
from .tensor import Tensor


@record
class LayerChange:
    """A layer that both models have with differences: ``what`` lists them as sentences."""

    layer: str
    other: str
    type: str
    what: tuple[str, ...]


@dataclass
class ModelDifference:
    """The result of :func:`compare_models`: layers of only one model, as name and type, and changed layers."""

    only_first: list[tuple[str, str]] = field(default_factory=list)
    only_second: list[tuple[str, str]] = field(default_factory=list)
    changed: list[LayerChange] = field(default_factory=list)
    paired: int = 0

    @property
    def same(self) -> bool:
        """True if the models do not differ."""
        return not (self.only_first or self.only_second or self.changed)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"same": self.same, **asdict(self)}


def compare_models(
    first: Model, second: Model, *, names: bool = False, ignored: Collection[str] = ()
) -> ModelDifference:
    """Pair the layers of both models, and list unpaired layers and pairs that differ, those of bodies included.

    With ``names`` the names of layers and tensors and the elements of ``rt_info`` count, too, except the elements of
    the model that have an ``ignored`` tag.
    """
    difference = ModelDifference()
    if names:
        infos = [
            {info.tag: info for info in model.runtime_info if info.tag not in ignored} for model in (first, second)
        ]
        tags = [tag for tag in {**infos[0], **infos[1]} if infos[0].get(tag) != infos[1].get(tag)]
        if tags or first.name != second.name:
            changes = [f"the element '{tag}' of rt_info differs" for tag in tags]
            changes += [f"its name is '{first.name}' where the other model has '{second.name}'"] * (
                first.name != second.name
            )
            difference.changed.append(LayerChange(first.name, second.name, "model", tuple(changes)))
    _compare(first, second, "", difference, names)
    return difference


def _compare(first: Model, second: Model, path: str, difference: ModelDifference, names: bool) -> None:
    pairs = _Pairs(first, second)
    difference.paired += len(pairs.other)
    for node in pairs.nodes[0]:
        if node not in pairs.other:
            difference.only_first.append((path + node.name, node.op.type))
    taken = set(pairs.other.values())
    difference.only_second += [(path + node.name, node.op.type) for node in pairs.nodes[1] if node not in taken]
    for node, other in pairs.other.items():
        changes = (*_differences(node, other, pairs), *(_named_otherwise(node, other) if names else ()))
        if changes:
            difference.changed.append(LayerChange(path + node.name, path + other.name, node.op.type, changes))
        for ours, theirs in zip(node.op.subgraphs, other.op.subgraphs):
            _compare(ours.body, theirs.body, f"{path}{node.name}/", difference, names)


class _Pairs:
    """The pairs: a layer of the first model and its counterpart in the second."""

    def __init__(self, first: Model, second: Model) -> None:
        self.nodes = (first.nodes(), second.nodes())
        self.other: dict[Node, Node] = {}
        self._back: dict[Node, Node] = {}
        self._order: list[tuple[Node, Node]] = []
        self._models = (first, second)
        self._pair_ends()
        for key in (_by_name_and_types, _by_tensor_names, _by_data):
            self._pair_unique(key)
        self._pair_by_place()
        if self._pair_unique(_by_name):
            self._pair_by_place()

    def _pair_ends(self) -> None:
        first, second = self._models
        for ours, theirs, names in (
            (first.parameters, second.parameters, lambda node: node.outputs[0].names),
            (first.results, second.results, lambda node: node.output_names or node.inputs[0].names),
        ):
            left = [node for node in ours if not self._pair_end(node, theirs, names)]
            for node, other in zip(left, [node for node in theirs if node not in self._back]):
                self._add(node, other)

    def _pair_end(self, node: Node, candidates: Iterable[Node], names: Callable[[Node], Iterable[str]]) -> bool:
        output_names = set(names(node))
        for other in candidates:
            if other not in self._back and output_names & set(names(other)):
                self._add(node, other)
                return True
        return False

    def _add(self, node: Node, other: Node) -> None:
        self.other[node], self._back[other] = other, node
        self._order.append((node, other))

    def _left(self, side: int) -> Iterator[Node]:
        done = self._back if side else self.other
        return (node for node in self.nodes[side] if node not in done)

    def _pair_unique(self, key: Callable[[Node], Hashable]) -> int:
        """Pair layers whose key is unique in both models; a layer whose key is None has none. Count the new pairs."""
        before = len(self._order)
        ours, theirs = (_unique(self._left(side), key) for side in (0, 1))
        for name, node in ours.items():
            if name in theirs:
                self._add(node, theirs[name])
        return len(self._order) - before

    def _pair_by_place(self) -> None:
        """Pair the only layers of a type that read the same values, else those that a pair reads at the same input.

        Every pair is processed once for each, so that the time is linear in the size of the models.
        """
        readers = tuple(_Readers(nodes) for nodes in self.nodes)
        noted = placed = 0
        while placed < len(self._order):
            changed: dict[Hashable, None] = {}
            for number in range(noted, len(self._order)):
                for side, node in zip(readers, self._order[number]):
                    changed.update(dict.fromkeys(side.paired(node, number)))
            noted = len(self._order)
            for key in changed:
                ours, theirs = (side.ready.get(key, {}) for side in readers)
                if len(ours) == len(theirs) == 1:
                    self._add(next(iter(ours)), next(iter(theirs)))
            if noted == len(self._order):
                self._pair_sources(*self._order[placed])
                placed += 1

    def _pair_sources(self, node: Node, other: Node) -> None:
        if node.op.type != other.op.type or len(node.inputs) != len(other.inputs):
            return
        for ours, theirs in zip(node.inputs, other.inputs):
            before, behind = ours.node, theirs.node
            if before not in self.other and behind not in self._back and before.op.type == behind.op.type:
                self._add(before, behind)


class _Readers:
    """The layers of one model by what they read: ``ready`` has the unpaired ones that read only paired values."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.ready: dict[Hashable, dict[Node, None]] = {}
        self._keys: dict[Node, Hashable] = {}
        self._numbers: dict[Node, int] = {}
        self._readers: dict[Node, list[Node]] = {}
        self._missing: dict[Node, int] = {}
        for node in nodes:
            sources = {source.node for source in node.inputs}
            self._missing[node] = len(sources)
            for source in sources:
                self._readers.setdefault(source, []).append(node)

    def paired(self, node: Node, number: int) -> Iterator[Hashable]:
        """Note that ``node`` belongs to the pair of that number; the keys of ``ready`` at which that changed it."""
        self._numbers[node] = number
        if node in self._keys:
            key = self._keys.pop(node)
            del self.ready[key][node]
            yield key
        for reader in self._readers.get(node, ()):
            self._missing[reader] -= 1
            if not self._missing[reader] and reader not in self._numbers:
                key = (reader.op.type, tuple((self._numbers[value.node], value.index) for value in reader.inputs))
                self._keys[reader] = key
                self.ready.setdefault(key, {})[reader] = None
                yield key


def _unique(nodes: Iterable[Node], key: Callable[[Node], Hashable]) -> dict[Hashable, Node]:
    nodes_by_name: dict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        name = key(node)
        if name is not None:
            nodes_by_name[name].append(node)
    return {name: nodes[0] for name, nodes in nodes_by_name.items() if len(nodes) == 1}


def _by_name(node: Node) -> Hashable:
    return (node.name, node.op.type) if node.name else None


def _by_name_and_types(node: Node) -> Hashable:
    """Numbers in names shift from model to model: a name alone may be that of another layer."""
    types = tuple((output.element_type, output.shape) for output in node.outputs)
    return (node.name, node.op.type, types) if node.name else None


def _by_tensor_names(node: Node) -> Hashable:
    names = tuple(tuple(sorted(output.names)) for output in node.outputs)
    return (node.op.type, names) if any(names) else None


def _by_data(node: Node) -> Hashable:
    """The contents of a constant: equal weights of two models belong together, whatever their names."""
    data = node.op.data
    if data is None or not data.size:
        return None
    digest = hashlib.sha256()
    for chunk in data.chunks():
        digest.update(chunk)
    return data.element_type.name, data.shape, digest.digest()


def different_entries(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each entry that differs."""
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) != theirs.get(name):
            yield f"{name} is {ours.get(name, 'missing')} where the other model has {theirs.get(name, 'none')}"


def _differences(node: Node, other: Node, pairs: _Pairs) -> Iterator[str]:
    ours, theirs = node.op, other.op
    if (ours.type, ours.opset) != (theirs.type, theirs.opset):
        yield f"it is {ours.type} of opset{ours.opset} where the other model has {theirs.type} of opset{theirs.opset}"
    held, there = ours.data, theirs.data
    if held is not None and there is not None:
        yield from _of_data(held, there)
    else:
        yield from different_entries(ours.attributes(), theirs.attributes())
        for index, (a, b) in enumerate(zip(node.outputs, other.outputs)):
            if (a.element_type, a.shape) != (b.element_type, b.shape):
                yield f"output {index} is {a.element_type}{a.shape} where the other model has {b.element_type}{b.shape}"
    if len(node.inputs) != len(other.inputs):
        yield f"it has {len(node.inputs)} inputs where the other model has {len(other.inputs)}"
    for index, (a, b) in enumerate(zip(node.inputs, other.inputs)):
        paired = pairs.other.get(a.node)
        # A source that only the first model has is listed by itself.
        if (paired is not None and paired is not b.node) or a.index != b.index:
            source, other_source = (f"output {value.index} of '{value.node.name}'" for value in (a, b))
            yield f"input {index} is {source} where the other model has {other_source}"
    if len(ours.subgraphs) != len(theirs.subgraphs):
        yield f"it has {len(ours.subgraphs)} bodies where the other model has {len(theirs.subgraphs)}"
    for sub, body in zip(ours.subgraphs, theirs.subgraphs):
        if (sub.inputs, sub.outputs, sub.back_edges) != (body.inputs, body.outputs, body.back_edges):
            yield "its body is tied to it in another way"


def _named_otherwise(node: Node, other: Node) -> Iterator[str]:
    if node.name != other.name:
        yield f"its name is '{node.name}' where the other model has '{other.name}'"
    if node.runtime_info != other.runtime_info:
        yield "its rt_info differs"
    if node.output_names != other.output_names:
        yield f"the names of the output are {node.output_names} where the other model has {other.output_names}"
    for index, (a, b) in enumerate(zip(node.outputs, other.outputs)):
        if sorted(a.names) != sorted(b.names):
            yield f"output {index} has the tensor names {sorted(a.names)} where the other model has {sorted(b.names)}"
        if a.runtime_info != b.runtime_info:
            yield f"output {index} has another rt_info"


def _of_data(held: Tensor, there: Tensor) -> Iterator[str]:
    if (held.element_type, held.shape) != (there.element_type, there.shape):
        types = [f"{tensor.element_type}{list(tensor.shape)}" for tensor in (held, there)]
        yield f"it holds {types[0]} where the other model has {types[1]}"
        return
    unequal, largest = 0, 0.0
    for ours, theirs in _parts_in_pairs(held, there):
        different = _unequal(ours, theirs, held.element_type.bits)
        if different.any():
            unequal += int(different.sum())
            if ours.dtype.kind not in "OUST":
                with np.errstate(all="ignore"):
                    gaps = np.abs(ours[different].astype(np.float64) - theirs[different].astype(np.float64))
                largest = max(largest, float(gaps[np.isfinite(gaps)].max(initial=0.0)))
    if unequal:
        yield f"{unequal} of {held.size} values differ, by {largest:g} at most"


def _parts_in_pairs(held: Tensor, there: Tensor) -> Iterator[tuple[Array, Array]]:
    """The values of two tensors of one size, as many of the one as of the other.

    How many a tensor gives at a time depends on how it is stored.
    """
    first, second = ((part for part in tensor.parts() if part.size) for tensor in (held, there))
    ours = theirs = np.empty(0, held.element_type.dtype)
    while True:
        ours = ours if ours.size else next(first, ours)
        theirs = theirs if theirs.size else next(second, theirs)
        count = min(ours.size, theirs.size)
        if not count:
            return
        yield ours[:count], theirs[:count]
        ours, theirs = ours[count:], theirs[count:]


def _unequal(ours: Array, theirs: Array, bits: int) -> Array:
    """Return the mask where two arrays differ, bit by bit for elements of a fixed width of ``bits``."""
    if ours.dtype.kind in "OUST":
        return np.asarray(ours != theirs)
    integer_dtype = f"u{ours.dtype.itemsize}"
    different = np.ascontiguousarray(ours).view(integer_dtype) ^ np.ascontiguousarray(theirs).view(integer_dtype)
    if bits < 8:  # in memory an element has a byte, whose other bits mean nothing
        different &= np.uint8((1 << bits) - 1)
    return np.asarray(different != 0)


def types_of(layers: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The number of layers of each type in a list."""
    return dict(sorted(Counter(layer_type for _, layer_type in layers).items()))
