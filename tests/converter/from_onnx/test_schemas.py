"""Every translator's signature against the schemas of ONNX and onnxruntime, and every schema's version for a translator.

What is compared: the inputs' names, which of them are required, optional or any number; the attributes'
names, which are required, and their defaults.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from onnx import AttributeProto, TensorProto, defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as binding

from converter.from_onnx.translation import families, registry
from converter.from_onnx.translation.registry import REQUIRED, Translator, all_translators, refused_operators
from converter.onnx_file import schema_table
from converter.onnx_file.functions import has_schema_function

WITHOUT_SCHEMAS = {"org.openvinotoolkit", "mmdeploy", "org.pytorch.aten"}
"""Domains that neither of the two has schemas of."""

FORGOTTEN = {("", "ATen"), ("", "ConstantFill")}
"""Operators likewise: exporters wrote them into ONNX's domain."""

RENAMED = {
    name: set(others.split())
    for name, others in {
        "input": "x data shape", "X": "data a inputs", "Y": "b", "data": "x", "data_0": "values", "inputs": "tensors",
        "input_data": "data", "signal": "data", "split": "lengths", "B": "bias", "M": "trip_count", "Q": "query",
        "K": "key", "V": "value", "I": "indices", "R": "rate", "T": "count", "var": "variance", "input_mean": "mean",
        "input_var": "variance",
    }.items()
}  # fmt: skip
"""ONNX's name of an input -> the parameter's, where that is not just the same in lower case and with
underscores. Inputs of one operator (scale and bias, query and key) have different names."""

DEFAULTS_IN_PROSE: dict[tuple[str, int, str], Any] = {
    ("Concat", 1, "axis"): 1,
    ("SequenceEmpty", 11, "dtype"): TensorProto.FLOAT,
    # Not in its documentation; the schema has 0 from version 2 on.
    ("Split", 1, "axis"): 0,
    # "If omitted", every input and output counts as forward, along axis 0: as with an empty list.
    ("Scan", 8, "directions"): (),
    **{("Scan", version, f"scan_{side}_{what}"): () for version in (9, 11, 16, 19, 21, 23, 24, 25)
       for side in ("input", "output") for what in ("axes", "directions")},
}  # fmt: skip
"""Defaults that stand in the operator's description, while its schema has none: (operator, version, attribute)."""

INTERNAL_DOMAINS = {"com.ms.internal.nhwc", "com.microsoft.nchwc"}
"""What onnxruntime's optimiser makes in memory, for itself."""

NAMES = """
DecoderAttention DecoderMaskedSelfAttention DynamicSparseAttention GatedRelativePositionBias LongformerAttention
PackedAttention PackedMultiHeadAttention PackedSparseAttentionIndexer PackedSparseAttentionIndexerMerge RMSNormRotary
PagedAttention RelativePositionBias RemovePadding RestorePadding SparseAttentionIndexer SparsePagedAttention
HyperConnectionLowRankMix Mamba2Verify NhwcFusedConv ConvStateReplay GatedDeltaNetStateReplay SpeculativePrefixCommit
DequantizeBFP DequantizeWithOrder GemmFloat8 MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight
MatMulNBitsMlp MatMulNBitsQLoRA MatMulNBitsQkv MatMulPacked MoEPacked QOrderedAttention QOrderedGelu
QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeWithOrder
BitmaskBiasDropout BitmaskDropout EPContext Snpe"""
NOT_TRANSLATED = {*NAMES.split()}
"""Operators of com.microsoft that converting refuses as not supported, without a reason of their own: attention in forms
of one execution provider, fused layers of single models, guessed tokens that are taken back, packings, training, programs
that are compiled for one engine."""


@dataclass(frozen=True)
class Signature:
    """A schema: (name, ``Single`` | ``Optional`` | ``Variadic``) of inputs, attributes with defaults."""

    inputs: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    """Attribute name -> default, None where there is none, :data:`REQUIRED` where it must be given."""


def signature_of(schema: Any) -> Signature:
    inputs = tuple((formal.name, str(formal.option).rsplit(".", 1)[-1]) for formal in schema.inputs)
    return Signature(inputs, {name: default_of(attribute) for name, attribute in schema.attributes.items()})


def default_of(attribute: Any) -> Any:
    if attribute.required:
        return REQUIRED
    # onnxruntime's schemas give the message's bytes.
    stored = getattr(attribute, "_default_value", None)
    default = attribute.default_value if stored is None else AttributeProto.FromString(stored)
    if default.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(default)
    if isinstance(value, (list, tuple)):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return value.decode() if isinstance(value, bytes) else value


def test_the_table_of_schemas_is_that_of_onnx() -> None:
    installed = [schema_table.of_onnx(schema) for schema in defs.get_all_schemas_with_history()]
    assert schema_table.table_of(installed) == schema_table.TABLE.read_text(), "docs/generate.py writes the table"
    key = operator.attrgetter("domain", "name", "since_version")
    for ours, theirs in zip(sorted(schema_table.all_schemas(), key=key), sorted(installed, key=key), strict=True):
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)


def test_every_folder_of_operators_is_a_package() -> None:
    """Modules of any other folder are not imported: their operators are neither found nor indexed."""
    root = Path(families.__file__).parent.parent / "operators"
    folders = {path.parent for path in root.rglob("*.py")}
    lacking = sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists())
    assert not lacking, f"write an __init__.py with a docstring, then run docs/generate.py --page-only: {lacking}"


def test_the_index_of_operators_names_every_module() -> None:
    script = Path(__file__).parents[3] / "docs" / "index_operators.py"
    done = subprocess.run([sys.executable, str(script), "--print"], capture_output=True, text=True, check=True)
    assert done.stdout == families.INDEX.read_text(), "run docs/generate.py --page-only"


SETUP = """
import sys
from converter import ConversionError
from converter.from_onnx.translation import families, registry
from converter.from_onnx.translation.registry import find_translator, onnx_op
def imported():
    return [name for name in sys.modules if name.startswith(families.PACKAGE + ".") and name.count(".") == 4]
"""
FIND = "print(find_translator('Relu', '', 20)[0].op_type, len(imported()) > 50)"
REPLACE = """
@onnx_op("Relu", versions=(14,), replace=True)
def own(ctx, x): ...
families.import_all_families()
print(find_translator("Relu", "", 20)[0].function is own, find_translator("Relu", "", 13)[0].function is own)
"""
CLAIM = """
try: onnx_op("Relu", versions=(14,))(lambda ctx, x: x)
except ConversionError as error: print(error)
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        # Only the families of an operator are imported.
        ("print(find_translator('Relu', '', 20)[0].op_type, *imported())",
         "Relu converter.from_onnx.operators.onnx.activation"),
        # An operator that is not in the index is found, as is a version; neither is one of a module that is new.
        (f"del families.index()['']['Relu']\n{FIND}", "Relu True"), (f"families.index = dict\n{FIND}", "Relu True"),
        ("families.index()['']['MaxPool'] = ['onnx.activation']\nprint(find_translator('MaxPool', '', 20)[0].op_type)",
         "MaxPool"),
        # A replacing translator stays whenever the family is imported.
        (REPLACE, "True False"), (f"families.index = dict\n{REPLACE}", "True False"),
        # A version that a family claims is refused at once.
        (CLAIM, "version 14 of operator Relu is claimed twice"),
    ],
)  # fmt: skip
def test_families_are_imported_when_they_are_needed(code: str, printed: str) -> None:
    """In a process where no family has been imported before."""
    done = subprocess.run([sys.executable, "-c", SETUP + code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{printed}\n"


def test_schemas_are_found_as_onnx_finds_them() -> None:
    for schema in schema_table.all_schemas():
        for opset in range(max(1, schema.since_version - 1), 29):
            try:
                expected = defs.get_schema(schema.name, opset, schema.domain).since_version
            except defs.SchemaError:
                expected = None
            found = schema_table.find(schema.name, schema.domain, opset)
            assert (None if found is None else found.since_version) == expected


SCHEMAS: dict[tuple[str, str, int], Any] = {
    (schema.domain, schema.name, schema.since_version): schema for schema in binding.get_all_operator_schema()
} | {(schema.domain, schema.name, schema.since_version): schema for schema in defs.get_all_schemas_with_history()}
"""Both sets of schemas; where both have one, ONNX's counts."""

CLAIMS = [
    (translator, version)
    for translator in all_translators()
    for version in translator.versions
    if translator.domain not in WITHOUT_SCHEMAS and (translator.domain, translator.op_type) not in FORGOTTEN
]


def each_claim(check: Callable[[Translator, int], None]) -> Callable[[], None]:
    """Make a test of a check: it fails with the reason for every claim that the check refuses."""

    def test() -> None:
        failures = []
        for translator, version in CLAIMS:
            try:
                check(translator, version)
            except AssertionError as error:
                where = f"{translator.domain or 'ai.onnx'}-{translator.op_type}-{version}"
                failures.append(f"{translator.function.__module__}, {where}: {error}")
        assert not failures, "write these signatures as the schema has them:\n" + "\n".join(failures)

    return test


def claimed_schema(translator: Translator, version: int) -> Signature:
    key = translator.domain, translator.op_type, version
    assert translator.domain in {domain for domain, _, _ in SCHEMAS}, (
        f"neither ONNX nor onnxruntime has schemas of the domain {translator.domain}: add it to WITHOUT_SCHEMAS"
    )
    versions = sorted(number for *name, number in SCHEMAS if name == [*key[:2]])
    assert versions, f"there is no schema of {translator.op_type}: is its name or its domain misspelt?"
    assert key in SCHEMAS, f"{translator.op_type} has no version {version}: its versions are {versions}"
    return signature_of(SCHEMAS[key])


def test_all_domains_are_compared() -> None:
    domains = {translator.domain for translator, _ in CLAIMS}
    assert domains == {"", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"}, (
        "name a new domain here if onnxruntime has schemas of it, and otherwise in WITHOUT_SCHEMAS"
    )
    # Extensions that other tests load are users' own.
    own = {t.domain for t in all_translators() if t.function.__module__.startswith("converter.")}
    assert own == domains | WITHOUT_SCHEMAS, "take a domain without translators off WITHOUT_SCHEMAS"


# --- inputs ---


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def input_parameters(translator: Translator) -> list[inspect.Parameter]:
    return [p for p in translator.parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]


@each_claim
def test_inputs_have_the_names_of_the_schema(translator: Translator, version: int) -> None:
    wanted = [name for name, _ in claimed_schema(translator, version).inputs]
    given = [parameter.name for parameter in input_parameters(translator)]
    assert len(given) == len(wanted), f"{given} must name {wanted}"
    for name, parameter in zip(wanted, given):
        # An underscore keeps a parameter apart from a word of Python.
        fits = parameter.rstrip("_") == snake_case(name) or parameter in RENAMED.get(name, ())
        assert fits, f"input '{name}' is called '{parameter}'"
    assert len(set(given)) == len(given)


def test_every_other_name_is_in_use() -> None:
    used = {
        (name, parameter.name)
        for translator, version in CLAIMS
        for (name, _), parameter in zip(claimed_schema(translator, version).inputs, input_parameters(translator))
    }
    assert {(name, other) for name, others in RENAMED.items() for other in others} <= used


@each_claim
def test_required_inputs_are_those_of_the_schema(translator: Translator, version: int) -> None:
    options = [option for _, option in claimed_schema(translator, version).inputs]
    parameters = input_parameters(translator)
    for position, (option, parameter) in enumerate(zip(options, parameters)):
        assert (parameter.kind is parameter.VAR_POSITIONAL) == (option == "Variadic"), parameter
        # Python has no required parameter after an optional one: there each schema is asked at conversion.
        required = all(set(rest[: position + 1]) == {"Single"} for rest in options_of_all_versions(translator))
        expected = REQUIRED if required or option == "Variadic" else None
        assert parameter.default is expected, parameter
    assert translator.most_inputs == (None if "Variadic" in options else len(options))
    assert translator.least_inputs <= SCHEMAS[translator.domain, translator.op_type, version].min_input


def options_of_all_versions(translator: Translator) -> list[list[str]]:
    return [[option for _, option in claimed_schema(translator, version).inputs] for version in translator.versions]


# --- attributes ---


@each_claim
def test_attributes_are_those_of_the_schema_with_its_defaults(translator: Translator, version: int) -> None:
    wanted = claimed_schema(translator, version).attributes
    if IN_PLACE not in translator.attributes:
        assert wanted.pop(IN_PLACE, None) is None, "no result depends on it, unless it is required"
    assert set(translator.attributes) == set(wanted), "attributes are keyword-only parameters"
    for name, default in wanted.items():
        given = translator.attributes[name]
        if (translator.op_type, version, name) in MAY_BE_MISSING:
            assert default is inspect.Parameter.empty, f"'{name}' is not required"
            assert given is None, name
            continue
        expected = {**DEFAULTS_IN_PROSE, **MISSPELT}.get((translator.op_type, version, name), default)
        is_real = any(isinstance(item, float) for item in (expected if isinstance(expected, tuple) else [expected]))
        # 0, 0.0, False and "" differ, and each of them from none at all.
        same = type(given) is type(expected) and given == (pytest.approx(expected, rel=1e-6) if is_real else expected)
        assert same, f"'{name}' is {expected!r} by default, but {given!r} here"


MISSPELT: dict[tuple[str, int, str], Any] = {("GRU", 1, "direction"): "forward"}
"""Defaults that no reader of the schema can mean."""
IN_PLACE = "consumed_inputs"
MAY_BE_MISSING = {("BatchNormalization", 1, IN_PLACE)}
"""What a schema requires although no value depends on it: its absence is only remarked on."""


def test_defaults_in_words_are_missing_in_the_schemas() -> None:
    """Or misspelt: no value that the attribute takes."""
    keys = {**DEFAULTS_IN_PROSE, **MISSPELT}
    schemas = {key: signature_of(SCHEMAS["", key[0], key[1]]).attributes[key[2]] for key in keys}
    assert {key: value for key, value in schemas.items() if value is not None} == {("GRU", 1, "direction"): "foward"}


# --- versions ---

LISTED = sorted({(s.domain, s.name, s.since_version) for s in defs.get_all_schemas_with_history() if not s.deprecated})


def test_every_version_is_translated_expanded_or_refused_with_a_reason() -> None:
    wrong = []
    for domain, op_type, version in LISTED:
        found = registry.find_translator(op_type, domain, version)
        if not isinstance(found, str):
            is_right = found[1] == version  # and no function for another version
        else:
            is_expanded = has_schema_function(registry.find_schema(op_type, domain, version))
            is_right = is_expanded or found == refused_operators()[domain, op_type]
        wrong += [] if is_right else [f"{op_type}-{version}: {found}"]
    assert not wrong, "\n".join(wrong)


def test_every_operator_of_onnxruntime_is_translated_refused_or_listed() -> None:
    claimed = {(t.domain, t.op_type, version) for t in all_translators() for version in t.versions}
    refused = refused_operators()
    rest = {key for key in SCHEMAS if key not in claimed and key[:2] not in refused and key[0] == "com.microsoft"}
    listed = {("com.microsoft", name, 1) for name in NOT_TRANSLATED}
    assert not listed - rest, "take operators that are translated or refused now off NOT_TRANSLATED"
    assert not rest - listed, "translate these operators, refuse them with a reason, or list them in NOT_TRANSLATED"
    domains = {"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft", *INTERNAL_DOMAINS}
    assert {domain for domain, _, _ in SCHEMAS} <= domains
    assert not {key[:2] for key in claimed} & set(refused), "these operators are both translated and refused"


def test_translators_take_the_context_first() -> None:
    functions = {translator.function for translator in all_translators()}
    assert not [function for function in functions if next(iter(inspect.signature(function).parameters)) != "ctx"]


def test_attributes_of_another_translator() -> None:
    """``**attributes`` stand for the other's attributes; the function's own and those left out are not replaced."""

    def source(ctx: Any, x: Any, *, axis: int = 1, mode: str = "a", size: int) -> None: ...

    @registry.attributes_of(source, without=("mode",))
    def middle(ctx: Any, x: Any, y: Any = None, *, axis: int = 2, **attributes: Any) -> None: ...

    @registry.attributes_of(middle)
    def outer(ctx: Any, x: Any, *, own: int = 3, **attributes: Any) -> None: ...

    assert Translator("Outer", "own", (1,), outer).attributes == {"own": 3, "axis": 2, "size": REQUIRED}
    assert Translator("Outer", "own", (1,), outer).most_inputs == 1
    without_axis = Translator("Outer", "own", (1,), outer, without=frozenset({"axis"}))
    assert without_axis.attributes == {"own": 3, "size": REQUIRED}
