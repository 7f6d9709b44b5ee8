"""Every translator's signature is held against the schema that ONNX has for each version it claims."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from onnx import AttributeProto, defs, helper

import converter
from converter.translation.registry import REQUIRED, Translator, all_translators

assert converter

OF_ONNXRUNTIME = {"SimplifiedLayerNormalization"}
"""Operators that onnxruntime alone has, though it puts them into ONNX's domain; test_microsoft_fused.py has them."""

TAKEN_BACK = {
    *("Affine", "ConstantFill", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"),
    "ATen",
}
"""Operators that ONNX no longer lists in any version; test_experimental.py and test_pytorch_aten.py have them."""

VERSIONS_OF_ONNXRUNTIME = {("LayerNormalization", 1), ("MeanVarianceNormalization", 1), ("ThresholdedRelu", 1)}
"""Versions likewise: its optimiser writes the first into files of opset 16 and below, the others were on trial."""

CLAIMS = [
    (translator, version)
    for translator in all_translators()
    for version in translator.versions
    if translator.domain in ("", "ai.onnx.ml")
    and translator.op_type not in OF_ONNXRUNTIME | TAKEN_BACK
    and (translator.op_type, version) not in VERSIONS_OF_ONNXRUNTIME
]


def schema_of(translator: Translator, version: int) -> defs.OpSchema:
    schema = defs.get_schema(translator.op_type, version, translator.domain)
    assert schema.since_version == version, f"{translator.op_type} has no version {version}"
    return schema


@pytest.mark.parametrize(("translator", "version"), CLAIMS, ids=[f"{t.op_type}-{v}" for t, v in CLAIMS])
def test_claimed_version_has_the_schema_that_the_signature_says(translator: Translator, version: int) -> None:
    schema = schema_of(translator, version)
    assert set(translator.attributes) == set(schema.attributes), "the attributes"
    for name, attribute in schema.attributes.items():
        assert_default(name, attribute, translator.attributes[name])
    variadic = any(i.option == defs.OpSchema.FormalParameterOption.Variadic for i in schema.inputs)
    if variadic:
        assert translator.most_inputs is None, "any number of inputs"
    else:
        assert translator.most_inputs == len(schema.inputs), "the number of inputs"
        assert translator.least_inputs <= sum(
            1 for i in schema.inputs if i.option == defs.OpSchema.FormalParameterOption.Single
        ), "required inputs"


def assert_default(name: str, attribute: defs.OpSchema.Attribute, given: Any) -> None:
    if attribute.required:
        assert given is REQUIRED, f"'{name}' is required by ONNX, but has the default {given!r}"
        return
    assert given is not REQUIRED, f"'{name}' is optional in ONNX, but required here"
    default = attribute.default_value
    if default.type == AttributeProto.UNDEFINED:
        assert given is None or given in (0, 1, (), "", 0.0), f"'{name}' has no default in ONNX, but {given!r} here"
        return
    expected = helper.get_attribute_value(default)
    if isinstance(expected, bytes):
        expected = expected.decode()
    if isinstance(expected, float):
        assert given == pytest.approx(expected, rel=1e-6), name
    elif isinstance(expected, list):
        texts = [item.decode() if isinstance(item, bytes) else item for item in expected]
        assert list(given) == pytest.approx(texts) if texts and isinstance(texts[0], float) else list(given) == texts
    else:
        assert given == expected, f"'{name}' is {expected!r} by default in ONNX, but {given!r} here"


def claimed_operators() -> dict[tuple[str, str], set[int]]:
    found: dict[tuple[str, str], set[int]] = {}
    for translator in all_translators():
        found.setdefault((translator.domain, translator.op_type), set()).update(translator.versions)
    return found


@pytest.mark.parametrize("op", sorted(k for k in claimed_operators() if k[0] == ""), ids=lambda op: op[1])
def test_no_version_of_a_claimed_operator_is_missed(op: tuple[str, str]) -> None:
    versions = {
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if (schema.domain, schema.name) == op and not schema.deprecated
    }
    assert claimed_operators()[op] >= versions


def test_translators_take_the_context_first() -> None:
    for translator in all_translators():
        first = next(iter(inspect.signature(translator.function).parameters))
        assert first == "ctx", f"{translator.op_type} takes {first} first"
