"""The values of attributes, as Python's numbers, texts and lists."""

from __future__ import annotations

from typing import Any

from converter.errors import InvalidModelError
from converter.onnx_file.messages import AttributeProto


def attribute_value(attribute: AttributeProto) -> Any:
    """The Python value of an attribute: numbers, texts, lists of them, or a proto."""
    attribute_type = attribute.type
    if attribute_type == AttributeProto.INT:
        return attribute.i
    if attribute_type == AttributeProto.FLOAT:
        return attribute.f
    if attribute_type == AttributeProto.STRING:
        return _decode(attribute.s, attribute.name)
    if attribute_type == AttributeProto.INTS:
        return list(attribute.ints)
    if attribute_type == AttributeProto.FLOATS:
        return list(attribute.floats)
    if attribute_type == AttributeProto.STRINGS:
        return [_decode(item, attribute.name) for item in attribute.strings]
    for number, field in (
        (AttributeProto.TENSOR, "t"),
        (AttributeProto.GRAPH, "g"),
        (AttributeProto.SPARSE_TENSOR, "sparse_tensor"),
        (AttributeProto.TYPE_PROTO, "tp"),
    ):
        if attribute_type == number:
            return getattr(attribute, field)
    for number, field in ((AttributeProto.TENSORS, "tensors"), (AttributeProto.GRAPHS, "graphs")):
        if attribute_type == number:
            return list(getattr(attribute, field))
    raise InvalidModelError(f"attribute '{attribute.name}' has the unknown type {attribute_type}")


def _decode(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"attribute '{name}' is not UTF-8") from error
