"""ONNX's schemas of each version of each operator, without onnx's library.

``schemas.json`` has the schemas of one release of onnx. So the meaning of a model does not depend on the onnx that is
installed, and onnx is imported (a tenth of a second) only for models that need a schema's function.
``docs/generate.py`` writes the file, and a test compares it with onnx.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ir_runtime.records import record

TABLE = Path(__file__).parent / "schemas.json"


@record
class Formal:
    """An input as the schema declares it."""

    name: str
    type_str: str
    """Its type, or the type variable."""
    homogeneous: bool
    """For an input that may be given any number of times: whether all of them have one type."""


@record
class Schema:
    """One version of one operator."""

    name: str
    domain: str
    since_version: int
    deprecated: bool
    least_inputs: int
    most_inputs: int
    least_outputs: int
    most_outputs: int
    inputs: tuple[Formal, ...]
    output_types: tuple[str, ...]
    """Types or type variables."""
    allowed: Mapping[str, Sequence[str]]
    """The types that each type variable allows."""
    attribute_types: Mapping[str, str]
    """The attributes' types, called as in ``AttributeProto.AttributeType``."""
    has_function: bool
    """True if the operator is made of others."""

    def input(self, index: int) -> Formal:
        """Return what the schema says of an input; the last one may stand for any number."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def output_type(self, index: int) -> str:
        """Return the type or the type variable of an output."""
        return self.output_types[min(index, len(self.output_types) - 1)]

    def types_of(self, variable: str) -> Sequence[str]:
        """Return the types that a type variable allows; of a type itself."""
        return self.allowed.get(variable, (variable,))

    @property
    def has_variadic_output(self) -> bool:
        """True if the last output may stand for any number of outputs."""
        return self.most_outputs > len(self.output_types)


def find(name: str, domain: str, opset: int) -> Schema | None:
    """The newest version of the operator up to that opset; None where there is none.

    Operators of domains that the table does not have are looked for among those registered with onnx, where that
    has been imported.
    """
    schemas = [schema for schema in versions(name, domain) if schema.since_version <= opset]
    return schemas[-1] if schemas else None


def versions(name: str, domain: str) -> tuple[Schema, ...]:
    """All versions of an operator, the oldest first."""
    rows = _table()["domains"].get(domain, {}).get(name)
    if rows is None:
        return _registered_schemas(name, domain)
    return tuple(_schema(name, domain, index) for index in range(len(rows)))


def all_schemas() -> Iterator[Schema]:
    """Every version of every operator of the table."""
    for domain, operators in _table()["domains"].items():
        for name in operators:
            yield from versions(name, domain)


_NEWEST = 2**31 - 1
"""A version that none of an operator exceeds."""


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text())
    return table


@functools.cache
def _schema(name: str, domain: str, index: int) -> Schema:
    table = _table()
    row = table["domains"][domain][name][index]
    counts: tuple[int, int, int, int]
    since, deprecated, counts, inputs, outputs, allowed, attributes, function = row
    formals = tuple(Formal(*formal) for formal in inputs)
    types = {variable: table["types"][place] for variable, place in allowed.items()}
    return Schema(name, domain, since, deprecated, *counts, formals, tuple(outputs), types, attributes, function)


def _registered_schemas(name: str, domain: str) -> tuple[Schema, ...]:
    """The versions that someone has registered with onnx."""
    onnx = sys.modules.get("onnx")
    if onnx is None:
        return ()
    schemas: list[Schema] = []
    while not schemas or schemas[0].since_version > 1:
        before = schemas[0].since_version - 1 if schemas else _NEWEST
        try:
            schemas.insert(0, of_onnx(onnx.defs.get_schema(name, before, domain)))
        except onnx.defs.SchemaError:
            break
    return tuple(schemas)


def of_onnx(schema: Any) -> Schema:
    """The schema that an ``onnx.defs.OpSchema`` describes."""
    return Schema(
        schema.name,
        schema.domain,
        schema.since_version,
        schema.deprecated,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        tuple(
            Formal(f.name, f.type_str, not str(f.option).endswith("Variadic") or f.is_homogeneous)
            for f in schema.inputs
        ),
        tuple(output.type_str for output in schema.outputs),
        {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints},
        {name: str(attribute.type).rsplit(".", 1)[-1] for name, attribute in schema.attributes.items()},
        bool(schema.has_function or schema.has_context_dependent_function),
    )


def table_of(schemas: Sequence[Schema]) -> str:
    """The text of ``schemas.json`` for these: lists of types, which many share, are written once."""
    types: dict[tuple[str, ...], int] = {}
    domains: dict[str, dict[str, list[Any]]] = {}
    for s in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        allowed = {variable: types.setdefault(tuple(kinds), len(types)) for variable, kinds in s.allowed.items()}
        row = [
            *(s.since_version, s.deprecated, [s.least_inputs, s.most_inputs, s.least_outputs, s.most_outputs]),
            [[f.name, f.type_str, f.homogeneous] for f in s.inputs],
            *(list(s.output_types), allowed, dict(s.attribute_types), s.has_function),
        ]
        domains.setdefault(s.domain, {}).setdefault(s.name, []).append(row)
    lines = [
        f"{json.dumps(domain)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in operators.items())
        + "\n}"
        for domain, operators in domains.items()
    ]
    types_text = ",\n".join(json.dumps(type_name) for type_name in types)
    return f'{{"types": [\n{types_text}\n],\n"domains": {{\n' + ",\n".join(lines) + "\n}}\n"
