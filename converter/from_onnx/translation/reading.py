"""The version of its operator that a node is read as, and its attributes.

It is the version of the model's opset, unless the node does not fit that version but exactly one of these:

- the operator is newer than the opset: its first version;
- inputs or attributes are those of another version alone, such as axes that are an attribute where the opset has an
  input for them: the nearest version that they are right for, older ones first;
- inputs or attributes are those of a form that no version has, but that a translator claims (``onnx_form``).

All three give a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from converter.errors import InvalidModelError
from converter.onnx_file import schema_table
from converter.onnx_file.messages import NodeProto
from converter.onnx_file.schema_table import Schema

from .registry import Translator, find_form, find_schema, find_translator, own_version
from .schema_checks import check_counts, checked_attributes


class Reading:
    """The version of a node's operator, its translator and the node's attributes; one is made for every node.

    ``opset`` is the model's, or that of the other version; ``remarks`` list how the node breaks the model's opset or
    the schema.
    """

    __slots__ = ("attributes", "opset", "remarks", "schema", "translator", "version")

    def __init__(
        self,
        opset: int,
        schema: Schema | None,
        translator: Translator,
        version: int,
        attributes: Mapping[str, Any],
        remarks: Sequence[str],
    ) -> None:
        self.opset = opset
        self.schema = schema
        self.translator = translator
        self.version = version
        self.attributes = attributes
        self.remarks = remarks


def read_node(node: NodeProto, domain: str, opset: int) -> Reading | str:
    """The version of ``node``; the reason as a text where its operator has no translator.

    Raises :class:`InvalidModelError` where the node fits no version.
    """
    own_opset, schema, translator = own_version(node.op_type, domain, opset)
    if isinstance(translator, str):
        return translator
    remarks = [] if own_opset == opset else [early(own_opset)]
    try:
        return _as(node, schema, translator, own_opset, remarks)
    except InvalidModelError as error:
        for schema, other in _other_versions(node.op_type, domain, own_opset):
            remark = f"{error}; it is read as in opset {schema.since_version}"
            try:
                return _as(node, schema, other, schema.since_version, [*remarks, remark])
            except InvalidModelError:
                continue
        form = find_form(node.op_type, domain, translator[1])
        if form is None:
            raise
        try:
            return _as(node, None, (form, translator[1]), own_opset, [*remarks, str(error)])
        except InvalidModelError:
            raise error from None


def early(opset: int) -> str:
    """The remark on an operator that is newer than the model's opset."""
    return f"the operator exists from opset {opset} on, and is read as in that"


def _as(
    node: NodeProto,
    schema: Schema | None,
    translator_and_version: tuple[Translator, int],
    opset: int,
    remarks: list[str],
) -> Reading:
    translator, version = translator_and_version
    empty = check_counts(node, schema, translator)
    attributes, broken = checked_attributes(node, schema, translator)
    return Reading(opset, schema, translator, version, attributes, [*remarks, *empty, *broken])


def _other_versions(op_type: str, domain: str, opset: int) -> Iterator[tuple[Schema, tuple[Translator, int]]]:
    """The versions besides that of ``opset``: the older ones, the newest first, then the newer ones."""
    current = find_schema(op_type, domain, opset)
    if current is None:
        return
    schemas = schema_table.versions(op_type, domain)
    place = next(index for index, schema in enumerate(schemas) if schema.since_version == current.since_version)
    for schema in (*reversed(schemas[:place]), *schemas[place + 1 :]):
        translator = find_translator(op_type, domain, schema.since_version)
        if not isinstance(translator, str):
            yield schema, translator
