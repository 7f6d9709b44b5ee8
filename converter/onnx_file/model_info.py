"""Declarations of an ONNX file besides its graph: opsets, producer, metadata, shapes of values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from converter.errors import InvalidModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import TypeProto
from converter.onnx_file.reader import OnnxFile
from ir_runtime.graph import INFINITY, Dimension, PartialShape, RuntimeInfo
from ir_runtime.records import record

NEWEST_OPSET = 28
"""The newest opset of the default domain that can be converted."""


def model_opsets(file: OnnxFile) -> dict[str, int]:
    """The version of every domain that the model imports; raises :class:`InvalidModelError`.

    Of several versions of a domain the highest counts: nodes bind "against the operator with the same-domain/
    same-op_type operator with the HIGHEST version in the referenced operator sets" (``opset_import`` in onnx.proto).
    """
    proto = file.proto
    opsets: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = normalize_domain(entry.domain)
        opsets[domain] = max(opsets.get(domain, entry.version), entry.version)
    if not opsets and not proto.graph.node and not proto.HasField("graph"):
        raise InvalidModelError("the file is not an ONNX model: it has neither a graph nor an opset")
    # Files of IR version 1 and 2 name no opset; they are written against the first one.
    if "" not in opsets and (not proto.opset_import or proto.ir_version < 3):
        opsets[""] = 1
    default = opsets.get("", 1)
    if not 1 <= default <= NEWEST_OPSET:
        raise InvalidModelError(f"opset {default} is out of range: 1 to {NEWEST_OPSET} are supported")
    return opsets


def model_info(file: OnnxFile, opsets: Mapping[str, int]) -> tuple[RuntimeInfo, ...]:
    """Producer, versions and metadata of the model, for the IR's ``rt_info``."""
    proto = file.proto
    entries = [
        ("producer_name", proto.producer_name),
        ("producer_version", proto.producer_version),
        ("model_domain", proto.domain),
        ("doc_string", proto.doc_string),
        ("model_version", str(proto.model_version) if proto.model_version else ""),
        ("ir_version", str(proto.ir_version)),
    ]
    children = [_info(name, value) for name, value in entries if value]
    imported = [_info(domain or "ai.onnx", str(version)) for domain, version in sorted(opsets.items())]
    children.append(RuntimeInfo("opset_import", (), tuple(imported)))
    metadata = [_info(entry.key, entry.value) for entry in proto.metadata_props]
    if metadata:
        children.append(RuntimeInfo("metadata_props", (), tuple(metadata)))
    named = [
        _info(value.name, json.dumps(names))
        for value in (*proto.graph.input, *proto.graph.output)
        if any(names := [dimension.dim_param for dimension in value.type.tensor_type.shape.dim])
    ]
    if named:
        children.append(RuntimeInfo(DIMENSIONS, (), tuple(named)))
    return (RuntimeInfo(ROOT, (), tuple(children)),)


ROOT, DIMENSIONS = "onnx", "dimensions"
"""Tags of ``rt_info`` for the declarations of an ONNX file, and for the names of dimensions of inputs and outputs."""


@record
class DeclaredInfo:
    """The data in ``rt_info`` about the ONNX file that an IR was converted from; empty where there was none."""

    values: Mapping[str, str]
    opsets: Mapping[str, int]
    metadata: Mapping[str, str]
    dimensions: Mapping[str, Sequence[str]]
    """By the name of an input or output; empty for a dimension without a name."""

    @classmethod
    def of(cls, infos: Sequence[RuntimeInfo]) -> DeclaredInfo:
        """Read the data that :func:`model_info` wrote; unreadable entries count as missing."""
        children = next((info.children for info in infos if info.tag == ROOT), ())
        groups = {child.tag: _pairs(child.children) for child in children if child.children}
        opsets = {name: int(value) for name, value in groups.get("opset_import", {}).items() if value.isdecimal()}
        dimensions = {name: _names(value) for name, value in groups.get(DIMENSIONS, {}).items()}
        return cls(_pairs(children), opsets, groups.get("metadata_props", {}), dimensions)


def _pairs(infos: Sequence[RuntimeInfo]) -> dict[str, str]:
    """Names and values: as they were written, or as elements of these names, as OpenVINO writes them."""
    pairs = {}
    for info in infos:
        attributes = dict(info.attributes)
        if "value" in attributes:
            pairs[attributes.get("name", info.tag)] = attributes["value"]
    return pairs


def _names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [name if isinstance(name, str) else "" for name in names] if isinstance(names, list) else []


def _info(name: str, value: str) -> RuntimeInfo:
    return RuntimeInfo("info", (("name", name), ("value", value)))


def declared_shape(type: TypeProto) -> PartialShape:
    """The shape that a tensor type declares; unknown rank where it declares none."""
    tensor = type.tensor_type
    if not tensor.HasField("shape"):
        return PartialShape.dynamic()
    dims = []
    for dim in tensor.shape.dim:
        # Exporters write -1, and rarely other negative numbers, for a dimension that is not known.
        static = dim.HasField("dim_value") and dim.dim_value >= 0
        dims.append(Dimension(dim.dim_value, dim.dim_value) if static else Dimension(0, INFINITY))
    return PartialShape(dims)


def dimension_params(type: TypeProto) -> list[str]:
    """The name that a tensor type gives each of its dimensions; empty for one without."""
    return [dim.dim_param for dim in type.tensor_type.shape.dim]


def dimension_names(type: TypeProto) -> list[list[str]]:
    """The names that a tensor type gives each of its dimensions (``dim_param``), as :func:`names_of_each`."""
    return names_of_each(dimension_params(type))


def names_of_each(params: Sequence[str]) -> list[list[str]]:
    """The names of each dimension of a shape: several where it is their sum.

    None for a name that stands twice in one shape, or is no identifier: exporters write such for any dimension.
    """
    names = [[part.strip() for part in param.split("+")] for param in params]
    return [
        parts if params.count(param) == 1 and all(part.isidentifier() for part in parts) else []
        for param, parts in zip(params, names)
    ]
