"""The values of attributes, as Python's numbers, texts and lists."""

from __future__ import annotations

from typing import Any

from converter.errors import InvalidModelError
from converter.onnx_file.messages import AttributeProto


def attribute_value(attribute: AttributeProto) -> Any:
    """The Python value of an attribute: numbers, texts, lists of them, or a proto."""
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.STRING:
        return _decoded(attribute.s, attribute.name)
    if kind == AttributeProto.INTS:
        return list(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return list(attribute.floats)
    if kind == AttributeProto.STRINGS:
        return [_decoded(item, attribute.name) for item in attribute.strings]
    for number, field in (
        (AttributeProto.TENSOR, "t"),
        (AttributeProto.GRAPH, "g"),
        (AttributeProto.SPARSE_TENSOR, "sparse_tensor"),
        (AttributeProto.TYPE_PROTO, "tp"),
    ):
        if kind == number:
            return getattr(attribute, field)
    for number, field in ((AttributeProto.TENSORS, "tensors"), (AttributeProto.GRAPHS, "graphs")):
        if kind == number:
            return list(getattr(attribute, field))
    raise InvalidModelError(f"attribute '{attribute.name}' has the unknown type {kind}")


def _decoded(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"attribute '{name}' is not UTF-8") from error
