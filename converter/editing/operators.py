"""Operators as they are written in a text: ``Softmax(axis=-1)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import DATA_TYPES
from converter.onnx_file.schema_table import Schema
from converter.onnx_file.types import onnx_number, spelling
from converter.options.input_forms import OptionError
from converter.options.inputs import suggestions
from ir_runtime.errors import ModelError
from ir_runtime.graph import ElementType, element_types
from ir_runtime.records import record

_FORM = 'an operator such as "Softmax(axis=-1)"'


@record
class OperatorText:
    """An operator with what follows its first input, and its attributes; names are texts in both."""

    op_type: str
    domain: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]

    @classmethod
    def read(cls, text: str) -> OperatorText:
        """Return what the text describes; raises :class:`OptionError`."""
        try:
            call = ast.parse(text if "(" in text else f"{text}()", mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise OptionError(f"insert_after must be {_FORM}, but is {text!r}") from error
        if not isinstance(call, ast.Call) or not re.fullmatch(r"\w+(\.\w+)*", ast.unparse(call.func)):
            raise OptionError(f"insert_after must be {_FORM}, but is {text!r}")
        domain, _, op_type = ast.unparse(call.func).rpartition(".")
        attributes = {str(entry.arg): _value(entry.value, text) for entry in call.keywords}
        return cls(op_type, normalize_domain(domain), tuple(_value(entry, text) for entry in call.args), attributes)

    def schema(self, opset: int) -> Schema | None:
        """Return the operator's schema, None in a domain without schemas.

        Raises :class:`OptionError` where that opset of its domain has no such operator.
        """
        schema = schema_table.find(self.op_type, self.domain, opset)
        if schema is not None and not schema.deprecated:
            return schema
        names = sorted({entry.name for entry in schema_table.all_schemas() if entry.domain == self.domain})
        if not names:
            return None
        where = f"opset {opset}" + (f" of {self.domain}" if self.domain else "")
        later = schema_table.versions(self.op_type, self.domain)
        if later and later[0].since_version > opset:
            raise OptionError(
                f"insert_after: {self.op_type} needs opset {later[0].since_version}, the file has {where}"
            )
        raise OptionError(f"insert_after: {where} has no operator {self.op_type}{suggestions(self.op_type, names)}")

    def checked(
        self, opset: int, element_type: ElementType | None
    ) -> tuple[dict[str, Any], Sequence[ElementType | None]]:
        """Return the attributes as the operator's schema has them, and the types of the further inputs.

        ``element_type`` is that of the first input. Raises :class:`OptionError` for attributes, inputs and types that
        the schema does not have.
        """
        schema, count = self.schema(opset), len(self.inputs) + 1
        if schema is None:
            return dict(self.attributes), [element_type] * len(self.inputs)
        unknown = [name for name in self.attributes if name not in schema.attribute_types]
        if unknown:
            near = suggestions(unknown[0], schema.attribute_types)
            raise OptionError(f"insert_after: {self.op_type} has no attribute '{unknown[0]}'{near}")
        if not schema.least_inputs <= count <= schema.most_inputs:
            raise OptionError(
                f"insert_after: {self.op_type} takes {schema.least_inputs} to {schema.most_inputs} inputs, but has "
                f"{count}: the tensor and {count - 1} more"
            )
        if schema.least_outputs > 1 or not schema.output_types:
            raise OptionError(f"insert_after: {self.op_type} has {schema.least_outputs} outputs, and must have one")
        variables = [schema.input(index).type_str for index in range(count)]
        spelled = None if element_type is None else spelling(element_type)
        allowed = schema.types_of(variables[0])
        if spelled is not None and spelled not in allowed:
            raise OptionError(f"insert_after: {self.op_type} takes {', '.join(allowed)}, but the tensor is {spelled}")
        types = []
        for variable in variables[1:]:
            others = schema.types_of(variable)
            is_index = variable != variables[0] and "tensor(int64)" in others  # axes, shapes and the like
            types.append(element_types.i64 if is_index else element_type)
        return self._typed(schema), types

    def _typed(self, schema: Schema) -> dict[str, Any]:
        values = {}
        for name, value in self.attributes.items():
            type_name = schema.attribute_types[name]
            converted = _FORMS[type_name](value) if type_name in _FORMS else None
            if converted is None:
                raise OptionError(f"insert_after: '{name}' of {self.op_type} must be {type_name}, but is {value!r}")
            values[name] = converted
        return values


def _value(node: ast.expr, text: str) -> Any:
    """Return a literal, or the text of a name."""
    if isinstance(node, ast.Name):
        return {"true": 1, "false": 0}.get(node.id, node.id)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise OptionError(
            f"insert_after: {ast.unparse(node)!r} in {text!r} must be a number, a list or a name in quotes"
        ) from error


def _integer(value: Any) -> int | None:
    if isinstance(value, str):  # a type, as of Cast
        names = {name.lower(): number for name, number in DATA_TYPES.items()}
        try:
            return names.get(value.lower()) or onnx_number(element_types.element_type(value.lower())) or None
        except ModelError:
            return None
    return int(value) if isinstance(value, int) else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _list_of(convert: Any) -> Any:
    def convert_all(values: Any) -> Any:
        items = [convert(value) for value in values] if isinstance(values, Sequence) else [None]
        return None if None in items else items

    return convert_all


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_FORMS = {"INT": _integer, "FLOAT": _real, "STRING": _text}
_FORMS.update({f"{name}S": _list_of(convert) for name, convert in list(_FORMS.items())})
"""Types of attributes -> their values from literals; None for what is none."""
