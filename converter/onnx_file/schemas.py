"""Holds a node against its ONNX schema: number and types of inputs, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, defs

from converter.errors import InvalidModelError
from converter.onnx_file.types import spelling
from converter.translation.registry import REQUIRED, Translator
from converter.translation.values import Value
from ir_runtime.graph import Output

_ATTRIBUTE_NAMES = {value: name for name, value in AttributeProto.AttributeType.items()}


def check_node(node: NodeProto, schema: defs.OpSchema | None, translator: Translator) -> None:
    """Counts of inputs and outputs, names and types of attributes; raises :class:`InvalidModelError`."""
    count = len(node.input)
    low = schema.min_input if schema else translator.least_inputs
    high = schema.max_input if schema else translator.most_inputs
    if count < low or (high is not None and count > high):
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise InvalidModelError(f"takes {wanted} inputs, but got {count}")
    if schema is not None and not schema.min_output <= len(node.output) <= schema.max_output:
        raise InvalidModelError(
            f"has {schema.min_output} to {schema.max_output} outputs, but {len(node.output)} are named"
        )
    seen = set()
    for attribute in node.attribute:
        if attribute.name in seen:
            raise InvalidModelError(f"attribute '{attribute.name}' is given twice")
        seen.add(attribute.name)
        if attribute.name not in translator.attributes:
            raise InvalidModelError(f"has no attribute '{attribute.name}'")
        _check_attribute_type(attribute, schema)
    for name, default in translator.attributes.items():
        if default is REQUIRED and name not in seen:
            raise InvalidModelError(f"attribute '{name}' is required, but missing")


def _check_attribute_type(attribute: AttributeProto, schema: defs.OpSchema | None) -> None:
    wanted = schema.attributes.get(attribute.name) if schema is not None else None
    if wanted is None:
        return
    expected = _ATTRIBUTE_NAMES[int(wanted.type)]  # type: ignore[call-overload]
    given = _ATTRIBUTE_NAMES.get(attribute.type, str(attribute.type))
    if given != expected and not attribute.ref_attr_name:
        raise InvalidModelError(f"attribute '{attribute.name}' must be of type {expected}, but is {given}")


def check_types(schema: defs.OpSchema, inputs: Sequence[Value | None]) -> None:
    """Every input's type is one its schema allows, and those of one type variable agree."""
    allowed = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, tuple[str, int]] = {}
    for index, value in enumerate(inputs):
        if not isinstance(value, Output) or value.element_type.is_dynamic or not schema.inputs:
            continue
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        given = spelling(value.element_type)
        choices = allowed.get(formal.type_str, [formal.type_str])
        if given not in choices:
            if any("seq(" in choice or "optional(" in choice for choice in choices):
                continue
            short = ", ".join(c.removeprefix("tensor(").removesuffix(")") for c in choices)
            raise InvalidModelError(f"input '{formal.name}' must be one of {short}, but is {value.element_type}")
        homogeneous = formal.option != defs.OpSchema.FormalParameterOption.Variadic or formal.is_homogeneous
        if formal.type_str in allowed and homogeneous:
            first = bound.setdefault(formal.type_str, (given or "", index))
            if first[0] != given:
                raise InvalidModelError(
                    f"inputs {first[1]} and {index} must have the same type, but are "
                    f"{inputs[first[1]].element_type} and {value.element_type}"  # type: ignore[union-attr]
                )


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
