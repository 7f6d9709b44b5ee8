"""Checks a node by its ONNX schema: the number and types of its inputs, its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from converter.errors import InvalidModelError
from converter.onnx_file.messages import ATTRIBUTE_TYPES, NodeProto, attribute_value
from converter.onnx_file.schema_table import Schema, versions
from converter.onnx_file.types import spelling
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations.elementwise import Convert1

from .context import Context
from .registry import Translator
from .values import Value

_IN_PLACE = "consumed_inputs"
"""An attribute of first versions that no result depends on: inputs whose memory the outputs may take."""


def check_counts(node: NodeProto, schema: Schema | None, translator: Translator) -> list[str]:
    """Check the number of inputs and outputs; raises :class:`InvalidModelError`.

    Returns a remark where there are too many inputs and all of these are empty names (no input).
    """
    count = len(node.input)
    low = schema.least_inputs if schema else translator.least_inputs
    high = schema.most_inputs if schema else translator.most_inputs
    expected = f"{low}" if low == high else f"{low} to {high}"
    remarks = []
    if high is not None and count > high and not any(node.input[high:]):
        remarks.append(f"takes {expected} inputs, but got {count}, the last of them empty")
        count = high
    if count < low or (high is not None and count > high):
        raise InvalidModelError(f"takes {expected} inputs, but got {count}")
    if schema is not None and not schema.least_outputs <= len(node.output) <= schema.most_outputs:
        most = f"{schema.least_outputs} to {schema.most_outputs}"
        raise InvalidModelError(f"has {most} outputs, but {len(node.output)} are named")
    return remarks


def checked_attributes(
    node: NodeProto, schema: Schema | None, translator: Translator
) -> tuple[dict[str, Any], list[str]]:
    """The attributes' values by name, and remarks on those that are of another type than the schema's.

    Raises :class:`InvalidModelError` for names and types that are wrong.
    """
    checked: dict[str, Any] = {}
    remarks = []
    for attribute in node.attribute:
        name = attribute.name
        if name in checked:
            raise InvalidModelError(f"attribute '{name}' is given twice")
        value = attribute_value(attribute)
        if name in translator.ignored and translator.ignored[name] in (None, value):
            remarks.append(f"has no attribute '{name}', which means nothing here")
            continue
        expected = schema.attribute_types.get(name) if schema is not None else None
        if name not in translator.attributes:
            if name == _IN_PLACE and expected is not None:
                continue
            raise InvalidModelError(f"has no attribute '{name}'")
        actual = ATTRIBUTE_TYPES.get(attribute.type) or str(attribute.type)
        if expected is not None and actual != expected and not attribute.ref_attr_name:
            remark = f"attribute '{name}' must be of type {expected}, but is {actual}"
            if (actual, expected) not in _CONVERTED:
                raise InvalidModelError(remark)
            value = _CONVERTED[actual, expected](value)
            remarks.append(remark)
        checked[name] = value
    for name in translator.required_attributes:
        if name not in checked:
            raise InvalidModelError(f"attribute '{name}' is required, but missing")
    return checked, remarks


_CONVERTED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("INT", "FLOAT"): float,
    ("INTS", "FLOATS"): lambda values: [float(value) for value in values],
    ("INT", "INTS"): lambda value: [value],
    ("FLOAT", "FLOATS"): lambda value: [value],
    ("STRING", "STRINGS"): lambda value: [value],
}
"""(given type, required type) -> a conversion without loss: of whole numbers to floats, of one value to a list."""


def accepted_inputs(
    ctx: Context, schema: Schema, translator: Translator, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """The inputs, if their types are those of the schema or leave only one possible meaning.

    Accepted with a warning are numbers, which are converted to the only type that the schema has in their place, types
    that another version of the operator takes, and the types in the translator's ``also``.
    """
    if _are_of(schema, inputs):
        return list(inputs)
    values = [_convert(ctx, schema, index, value) for index, value in enumerate(inputs)]
    try:
        _check_types(schema, values)
        return values
    except InvalidModelError as error:
        later = next((s for s in _other_versions(schema) if _takes(s, values)), None)
        if later is not None:
            ctx.tolerate(f"{error}, which it may be from opset {later.since_version} on")
        elif _takes_besides(schema, translator, values):
            ctx.tolerate(str(error))
        else:
            raise
        return values


def _are_of(schema: Schema, inputs: Sequence[Value | None]) -> bool:
    """True if all inputs are tensors of types that the schema allows; a quick answer for most nodes."""
    bound: dict[str, ElementType] = {}
    for formal, value in zip(schema.inputs, inputs):
        if value is None:
            continue
        if not isinstance(value, Output):
            return False
        element_type, type_str = value.type.element_type, formal.type_str
        if (
            spelling(element_type) not in schema.types_of(type_str)
            or bound.setdefault(type_str, element_type) is not element_type
        ):
            return False
    return len(inputs) <= len(schema.inputs)


_INDICES = {"tensor(int32)", "tensor(int64)"}
_SINGLE = ({"tensor(float)"}, {"tensor(int64)"}, {"tensor(int32)"}, _INDICES)


def _convert(ctx: Context, schema: Schema, index: int, value: Value | None) -> Value | None:
    """An input of positions, dimensions or parameters converted to the only type that the schema has for it.

    An input whose type is also the type of an output is not converted.
    """
    if not isinstance(value, Output) or value.element_type.is_dynamic or not schema.inputs:
        return value
    formal = schema.input(index)
    element_type = value.element_type
    allowed_types = schema.types_of(formal.type_str)
    if spelling(element_type) in allowed_types:
        return value
    choices = set(allowed_types)
    if choices not in _SINGLE or (formal.type_str in schema.allowed and formal.type_str in schema.output_types):
        return value
    target_type = element_types.f32 if choices == {"tensor(float)"} else element_types.i64
    if choices == {"tensor(int32)"}:
        target_type = element_types.i32
    if (
        element_type is element_types.boolean
        or element_type.is_real != target_type.is_real
        or not (element_type.is_real or element_type.is_integral)
    ):
        return value
    ctx.tolerate(f"input '{formal.name}' must be one of {_short(choices)}, but is {element_type}")
    return ctx.emit(Convert1(destination_type=target_type), value)


def _short(choices: Iterable[str]) -> str:
    return ", ".join(sorted((c.removeprefix("tensor(").removesuffix(")") for c in choices), key=str))


def _other_versions(schema: Schema) -> list[Schema]:
    """The later versions whose first inputs are those of ``schema``."""
    names = [formal.name for formal in schema.inputs]
    later = (s for s in versions(schema.name, schema.domain) if s.since_version > schema.since_version)
    return [s for s in later if not s.deprecated and [formal.name for formal in s.inputs][: len(names)] == names]


def _takes_besides(schema: Schema, translator: Translator, inputs: Sequence[Value | None]) -> bool:
    """True if the first input, and those of its type variable, have one type of the translator's ``also``."""
    formals = [schema.input(index) for index in range(len(inputs))]
    of_first = [formal.type_str == formals[0].type_str for formal in formals]
    input_types = {value.element_type for value, own in zip(inputs, of_first) if own and isinstance(value, Output)}
    rest = [None if own else value for value, own in zip(inputs, of_first)]
    return len(input_types) == 1 and spelling(next(iter(input_types))) in translator.also and _takes(schema, rest)


def _takes(schema: Schema, inputs: Sequence[Value | None]) -> bool:
    try:
        _check_types(schema, inputs)
    except InvalidModelError:
        return False
    return True


def _check_types(schema: Schema, inputs: Sequence[Value | None]) -> None:
    """Check that the schema allows every input's type, and that inputs of one type variable have one type."""
    bound: dict[str, tuple[str, int]] = {}
    for index, value in enumerate(inputs):
        if not isinstance(value, Output) or value.element_type.is_dynamic or not schema.inputs:
            continue
        formal = schema.input(index)
        type_str = formal.type_str
        actual = spelling(value.element_type)
        choices = schema.types_of(type_str)
        if actual not in choices:
            if any("seq(" in choice or "optional(" in choice for choice in choices):
                continue
            short = ", ".join(c.removeprefix("tensor(").removesuffix(")") for c in choices)
            raise InvalidModelError(f"input '{formal.name}' must be one of {short}, but is {value.element_type}")
        if type_str in schema.allowed and formal.homogeneous:
            first = bound.setdefault(type_str, (actual or "", index))
            if first[0] != actual:
                raise InvalidModelError(
                    f"inputs {first[1]} and {index} must have the same type, but are "
                    f"{inputs[first[1]].element_type} and {value.element_type}"  # type: ignore[union-attr]
                )
