"""The supported operators with their measured results, and the operators that a model needs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from converter.from_onnx.translation.registry import (
    all_translators,
    domain_of_operator,
    find_schema,
    find_translator,
    only_version,
    opset_of_operator,
    refused_operators,
)
from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import has_schema_function, model_functions
from converter.onnx_file.messages import NodeProto
from converter.onnx_file.model_info import model_opsets
from converter.onnx_file.node_order import subgraphs
from converter.onnx_file.reader import ModelSource, open_model
from ir_runtime.records import record

MEASURED = Path(__file__).parent / "measured_support.json"
"""The results of ONNX's node suite by domain and operator; ``docs/generate.py`` writes the file."""


@record
class SupportedOperator:
    """An operator, its versions that can be converted, how, and its results in ONNX's node suite."""

    op_type: str
    domain: str
    versions: tuple[int, ...]
    """Those of its schema that can be converted; none where the operator is refused."""
    how: str
    """``translated``, ``function`` where its schema's function is expanded, or ``refused``."""
    layers: tuple[str, ...] = ()
    """The IR operations, with their opsets, that the suite's cases become."""
    cases: int = 0
    numpy: int = 0
    openvino: int = 0
    """The number of the suite's cases, and of those that pass in each engine."""
    limits: tuple[str, ...] = ()
    """Unsupported cases, and their reasons."""


@record
class NeededOperator:
    """An operator that a model uses ``count`` times; ``problem`` is empty where it can be converted."""

    op_type: str
    domain: str
    opset: int
    count: int
    problem: str


def supported_operators() -> list[SupportedOperator]:
    """Every operator of the registry and of ONNX's own domains, by domain and name."""
    versions: dict[tuple[str, str], set[int]] = {}
    for translator in all_translators():
        versions.setdefault((translator.domain, translator.op_type), set()).update(translator.versions)
    translated = set(versions)
    refused = refused_operators()
    for schema in schema_table.all_schemas():
        key = (schema.domain, schema.name)
        if key not in translated and key not in refused and has_schema_function(schema):
            versions.setdefault(key, set()).add(schema.since_version)
    operators = []
    for domain, op_type in sorted({*versions, *refused}):
        key = (domain, op_type)
        how = "translated" if key in translated else "function" if key in versions else "refused"
        limits = (refused[key],) if how == "refused" else ()
        operators.append(_with_measurements(op_type, domain, tuple(sorted(versions.get(key, ()))), how, limits))
    return operators


def _with_measurements(
    op_type: str, domain: str, versions: tuple[int, ...], how: str, why: tuple[str, ...]
) -> SupportedOperator:
    measured = _measurements().get(f"{domain}.{op_type}", {})
    return SupportedOperator(
        op_type,
        domain,
        versions,
        how,
        layers=tuple(measured.get("layers", ())),
        cases=measured.get("cases", 0),
        numpy=measured.get("numpy", 0),
        openvino=measured.get("openvino", 0),
        limits=(*why, *(measured.get("limits", ()) if how != "refused" else ())),
    )


@cache
def _measurements() -> dict[str, dict[str, Any]]:
    measurements: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text())
    return measurements


def support_columns(operator: SupportedOperator) -> tuple[str, ...]:
    """A row of the table that documentation and command line show, under :data:`SUPPORT_HEADINGS`."""
    layers = ", ".join(operator.layers) if len(operator.layers) <= 12 else f"{len(operator.layers)} kinds"
    shares = [
        f"{passed} of {operator.cases}" if operator.cases else "-" for passed in (operator.numpy, operator.openvino)
    ]
    versions = ", ".join(map(str, operator.versions)) or "-"
    limits = "; ".join(operator.limits)
    if operator.how == "function":
        layers = f"its schema's function: {layers}" if layers else "its schema's function"
    return (operator.op_type, operator.domain or "ai.onnx", versions, layers or "-", *shares, limits)


def support_table(domain: str | None = None) -> str:
    """The table as Markdown, whole or of one domain."""
    operators = [operator for operator in supported_operators() if domain is None or operator.domain == domain]
    rows = [SUPPORT_HEADINGS, ("---",) * len(SUPPORT_HEADINGS), *map(support_columns, operators)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


SUPPORT_HEADINGS = ("operator", "domain", "versions", "layers", "NumPy", "OpenVINO", "not supported")


def needed_operators(source: ModelSource) -> list[NeededOperator]:
    """List the operators that ``source`` needs, bodies and functions included, by domain and name.

    Raises :class:`converter.ConversionError` where the file is not an ONNX model.
    """
    file = open_model(source)
    opsets = model_opsets(file)
    functions = model_functions(file.proto)
    nodes = [*_all_nodes(file.proto.graph.node)]
    for function in functions.values():
        nodes += _all_nodes(function.node)
        for entry in function.opset_import:
            opsets = {normalize_domain(entry.domain): entry.version, **opsets}
    counts: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        named = (normalize_domain(node.domain), node.op_type)
        counts[named if named in functions else (domain_of_operator(node.op_type, named[0]), node.op_type)] += 1
    needed = []
    for (domain, op_type), count in sorted(counts.items()):
        if (domain, op_type) not in functions:
            opset = opsets.get(domain) or only_version(domain) or 0
            needed.append(NeededOperator(op_type, domain, opset, count, _problem(op_type, domain, opset)))
    return needed


def _problem(op_type: str, domain: str, opset: int) -> str:
    if not opset:
        return "the model does not import its domain"
    opset = opset_of_operator(op_type, domain, opset)
    translator = find_translator(op_type, domain, opset)
    if not isinstance(translator, str) or has_schema_function(find_schema(op_type, domain, opset)):
        return ""
    return translator


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for graph in subgraphs(node):
            pending.extend(graph.node)
