"""What is supported: the registry as a table, and what a given model needs of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from . import operators as _operators
from .model_info import model_opsets
from .onnx_file import ModelSource, open_model
from .registry import all_translators, find_translator, normalize_domain

assert _operators  # importing it registers the translators


@dataclass(frozen=True)
class SupportedOperator:
    """An operator that can be converted, in these versions of its schema."""

    op_type: str
    domain: str
    versions: tuple[int, ...]


@dataclass(frozen=True)
class NeededOperator:
    """An operator that a model uses ``count`` times; ``problem`` is empty where it can be converted."""

    op_type: str
    domain: str
    opset: int
    count: int
    problem: str


def supported_operators() -> list[SupportedOperator]:
    """Every operator of the registry, by domain and name."""
    versions: dict[tuple[str, str], set[int]] = {}
    for translator in all_translators():
        versions.setdefault((translator.domain, translator.op_type), set()).update(translator.versions)
    return [
        SupportedOperator(op_type, domain, tuple(sorted(found)))
        for (domain, op_type), found in sorted(versions.items())
    ]


def needed_operators(source: ModelSource) -> list[NeededOperator]:
    """What ``source`` needs, bodies included, by domain and name.

    Raises :class:`converter.ConversionError` where the file is not an ONNX model.
    """
    file = open_model(source)
    opsets = model_opsets(file)
    counts = Counter((normalize_domain(node.domain), node.op_type) for node in _all_nodes(file.proto.graph))
    needed = []
    for (domain, op_type), count in sorted(counts.items()):
        opset = opsets.get(domain, 0)
        found = find_translator(op_type, domain, opset) if opset else "the model does not import its domain"
        needed.append(NeededOperator(op_type, domain, opset, count, found if isinstance(found, str) else ""))
    return needed


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    pending = [graph]
    while pending:
        current = pending.pop()
        for node in current.node:
            yield node
            pending.extend(_subgraphs(node))


def _subgraphs(node: NodeProto) -> Iterable[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
