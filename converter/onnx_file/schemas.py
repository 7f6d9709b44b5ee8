"""Holds a node against its ONNX schema: number and types of inputs, attributes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, NodeProto, defs

from converter.errors import InvalidModelError
from converter.onnx_file.types import spelling
from converter.translation.context import Context
from converter.translation.registry import REQUIRED, Translator
from converter.translation.values import Value
from ir_runtime import element_types
from ir_runtime.graph import Output
from ir_runtime.operations.elementwise import Convert1

_ATTRIBUTE_NAMES = {value: name for name, value in AttributeProto.AttributeType.items()}


@dataclass(frozen=True)
class _Facts:
    """What is asked of a schema for every node, read out of onnx's library once."""

    inputs: int
    outputs: tuple[int, int]
    least_inputs: int
    most_inputs: int
    formals: tuple[defs.OpSchema.FormalParameter, ...]
    type_strs: tuple[str, ...]
    """Of each formal input its type, or the type variable."""
    homogeneous: tuple[bool, ...]
    allowed: Mapping[str, Sequence[str]]
    """The types that each type variable may stand for."""
    attribute_types: Mapping[str, str]


@functools.cache
def _facts(schema: defs.OpSchema) -> _Facts:
    variadic = defs.OpSchema.FormalParameterOption.Variadic
    formals = tuple(schema.inputs)
    return _Facts(
        len(formals),
        (schema.min_output, schema.max_output),
        schema.min_input,
        schema.max_input,
        formals,
        tuple(formal.type_str for formal in formals),
        tuple(formal.option != variadic or formal.is_homogeneous for formal in formals),
        {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints},
        {name: _ATTRIBUTE_NAMES[int(one.type)] for name, one in schema.attributes.items()},  # type: ignore[call-overload]
    )


def check_node(node: NodeProto, schema: defs.OpSchema | None, translator: Translator) -> None:
    """Counts of inputs and outputs, names and types of attributes; raises :class:`InvalidModelError`."""
    count = len(node.input)
    facts = _facts(schema) if schema is not None else None
    low = facts.least_inputs if facts else translator.least_inputs
    high = facts.most_inputs if facts else translator.most_inputs
    if count < low or (high is not None and count > high):
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise InvalidModelError(f"takes {wanted} inputs, but got {count}")
    if facts is not None and not facts.outputs[0] <= len(node.output) <= facts.outputs[1]:
        least, most = facts.outputs
        raise InvalidModelError(f"has {least} to {most} outputs, but {len(node.output)} are named")
    seen = set()
    for attribute in node.attribute:
        if attribute.name in seen:
            raise InvalidModelError(f"attribute '{attribute.name}' is given twice")
        seen.add(attribute.name)
        if attribute.name not in translator.attributes:
            raise InvalidModelError(f"has no attribute '{attribute.name}'")
        _check_attribute_type(attribute, facts)
    for name, default in translator.attributes.items():
        if default is REQUIRED and name not in seen:
            raise InvalidModelError(f"attribute '{name}' is required, but missing")


def _check_attribute_type(attribute: AttributeProto, facts: _Facts | None) -> None:
    expected = facts.attribute_types.get(attribute.name) if facts is not None else None
    if expected is None:
        return
    given = _ATTRIBUTE_NAMES.get(attribute.type, str(attribute.type))
    if given != expected and not attribute.ref_attr_name:
        raise InvalidModelError(f"attribute '{attribute.name}' must be of type {expected}, but is {given}")


def accepted_inputs(
    ctx: Context, schema: defs.OpSchema, translator: Translator, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """The inputs, if their types are those of the schema or say beyond doubt what is meant.

    That is so for numbers that are converted to the one type that the schema has in their place, for types
    that another version of the operator takes, and for those that the translator names.
    """
    values = [_converted(ctx, schema, index, value) for index, value in enumerate(inputs)]
    try:
        _check_types(schema, values)
        return values
    except InvalidModelError as error:
        later = next((s for s in _other_versions(schema) if _takes(s, values)), None)
        kinds = {value.element_type for value in values if isinstance(value, Output)}
        if later is not None:
            ctx.tolerate(f"{error}, which it may be from opset {later.since_version} on")
        elif len(kinds) == 1 and spelling(next(iter(kinds))) in translator.also:
            ctx.tolerate(str(error))
        else:
            raise
        return values


_INDICES = {"tensor(int32)", "tensor(int64)"}
_SINGLE = ({"tensor(float)"}, {"tensor(int64)"}, {"tensor(int32)"}, _INDICES)


def _converted(ctx: Context, schema: defs.OpSchema, index: int, value: Value | None) -> Value | None:
    """Positions, extents and parameters in the type that the schema has for them alone.

    That says nothing about the outputs; where the type of one follows from the input, nothing is converted.
    """
    facts = _facts(schema)
    if not isinstance(value, Output) or value.element_type.is_dynamic or not facts.inputs:
        return value
    place = min(index, facts.inputs - 1)
    kind, type_str = value.element_type, facts.type_strs[place]
    listed = facts.allowed.get(type_str, [type_str])
    if spelling(kind) in listed:
        return value
    formal, choices = facts.formals[place], set(listed)
    if choices not in _SINGLE or any(
        output.type_str == formal.type_str for output in schema.outputs if output.type_str in _names(schema)
    ):
        return value
    wanted = element_types.f32 if choices == {"tensor(float)"} else element_types.i64
    if choices == {"tensor(int32)"}:
        wanted = element_types.i32
    if kind is element_types.boolean or kind.is_real != wanted.is_real or not (kind.is_real or kind.is_integral):
        return value
    ctx.tolerate(f"input '{formal.name}' must be one of {_short(choices)}, but is {kind}")
    return ctx.emit(Convert1(destination_type=wanted), value)


def _names(schema: defs.OpSchema) -> set[str]:
    return {c.type_param_str for c in schema.type_constraints}


def _short(choices: Iterable[str]) -> str:
    return ", ".join(sorted((c.removeprefix("tensor(").removesuffix(")") for c in choices), key=str))


@functools.cache
def _versions(name: str, domain: str) -> tuple[defs.OpSchema, ...]:
    found = (s for s in defs.get_all_schemas_with_history() if s.name == name and s.domain == domain)
    return tuple(sorted(found, key=lambda s: s.since_version))


def _other_versions(schema: defs.OpSchema) -> list[defs.OpSchema]:
    """The later versions whose inputs are those of ``schema``, and maybe more."""
    names = [formal.name for formal in schema.inputs]
    later = (s for s in _versions(schema.name, schema.domain) if s.since_version > schema.since_version)
    return [s for s in later if not s.deprecated and [formal.name for formal in s.inputs][: len(names)] == names]


def _takes(schema: defs.OpSchema, inputs: Sequence[Value | None]) -> bool:
    try:
        _check_types(schema, inputs)
    except InvalidModelError:
        return False
    return True


def _check_types(schema: defs.OpSchema, inputs: Sequence[Value | None]) -> None:
    """Every input's type is one its schema allows, and those of one type variable agree."""
    facts = _facts(schema)
    bound: dict[str, tuple[str, int]] = {}
    for index, value in enumerate(inputs):
        if not isinstance(value, Output) or value.element_type.is_dynamic or not facts.inputs:
            continue
        place = min(index, facts.inputs - 1)
        type_str = facts.type_strs[place]
        given = spelling(value.element_type)
        choices = facts.allowed.get(type_str, [type_str])
        if given not in choices:
            if any("seq(" in choice or "optional(" in choice for choice in choices):
                continue
            short = ", ".join(c.removeprefix("tensor(").removesuffix(")") for c in choices)
            name = facts.formals[place].name
            raise InvalidModelError(f"input '{name}' must be one of {short}, but is {value.element_type}")
        if type_str in facts.allowed and facts.homogeneous[place]:
            first = bound.setdefault(type_str, (given or "", index))
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
