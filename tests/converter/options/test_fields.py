"""A field is the only place that describes an option: everything else is derived from it, and what it lacks is told."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import Field, fields
from typing import Any

import numpy as np
import pytest

import converter
from converter.command_line.preprocessing import PreprocessingOptions
from converter.equivalence import rederivation
from converter.export_options import ExternalData
from converter.options import SWITCH, json_schema, on_command_line, parameter_of, summary
from tests.commands import onnx2ir

CLASSES = (converter.ConversionOptions, converter.SavingOptions)
EXPORT = (converter.ExportOptions, ExternalData)
TAKERS = {
    converter.ConversionOptions: (converter.convert_model, converter.convert_many),
    converter.SavingOptions: (converter.save_model, converter.convert_many),
    converter.VerificationOptions: (converter.verify,),
    converter.ExportOptions: (converter.export_model, converter.save_onnx, converter.export_language_model),
}
FIELDS = [pytest.param(cls, entry, id=entry.name) for cls in TAKERS for entry in dataclasses.fields(cls)]


@pytest.mark.parametrize(("cls", "entry"), FIELDS)
def test_a_field_is_in_signatures_and_docstrings(cls: type, entry: Field[Any]) -> None:
    assert entry.metadata["text"].strip()
    for function in TAKERS[cls]:
        assert inspect.signature(function).parameters[entry.name].default == entry.default
    assert entry.metadata["text"] in (TAKERS[cls][0].__doc__ or "")
    assert entry.metadata["text"] in (cls.__doc__ or "")


RECORDED = [row for row in FIELDS if row.values[0] in CLASSES and row.values[1].metadata.get("schema") is SWITCH]
NEEDED = {"symmetric": {"compress": "int8"}}
"""Options without which others are refused."""


@pytest.mark.parametrize(("cls", "entry"), RECORDED)
def test_a_switch_becomes_a_bool(cls: type, entry: Field[Any]) -> None:
    """The record in an IR has no values of NumPy."""
    options = cls(**{entry.name: np.bool_(not entry.default), **NEEDED.get(entry.name, {})})
    value = getattr(options, entry.name)
    assert value is (not entry.default), (
        f"{entry.name} is {value!r}: make it a bool in converter/option_values.py, as "
        f'"{entry.name}": bool(options.{entry.name})'
    )


def test_a_recorded_conversion_can_be_repeated_with_each_option() -> None:
    names = {entry.name for entry in dataclasses.fields(converter.ConversionOptions) if entry.init}
    repeatable = {*rederivation._REPEATABLE, *rederivation._WITHOUT_VALUES, "preprocess", "postprocess"}
    assert not names - repeatable, (
        "add these to _REPEATABLE of converter/equivalence/rederivation.py, and rows to test_derivation.py"
    )


ON_COMMAND_LINE = (*CLASSES, PreprocessingOptions)
COMMANDS = {
    "convert": ON_COMMAND_LINE,
    "batch": ON_COMMAND_LINE,
    "verify": (converter.VerificationOptions,),
    "export": EXPORT,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_field_is_in_the_help(command: str) -> None:
    text = " ".join(onnx2ir(command, "--help")[1].split())
    for entry in on_command_line(*COMMANDS[command]):
        assert entry.metadata["flags"].split("/")[0] in text
        assert summary(entry).removesuffix(".") in text, parameter_of(entry)


def test_the_schema_has_what_the_options_become() -> None:
    options = converter.ConversionOptions(
        input={"x": [1, 3]}, output="y", fuse=False, target="any", stateful={"a": "b"}
    )
    assert options.to_dict() == {
        "input": "x[1,3]", "output": ["y"], "fuse": False, "target": "any", "stateful": {"a": "b"}
    }  # fmt: skip
    assert options.to_dict().keys() <= json_schema(*CLASSES)["properties"].keys()
    assert converter.ConversionOptions().to_dict() == {}


def test_there_is_no_such_target() -> None:
    with pytest.raises(converter.ConversionError, match="there is no target 'gpu'"):
        converter.ConversionOptions(target="gpu")


def test_every_field_has_a_schema_and_flags_or_is_for_python_alone() -> None:
    """On the command line ``--input`` has constants, and preprocessing has options of its own."""
    described = {entry.name for entry in on_command_line(*CLASSES)}
    python_only = {"freeze", "preprocess", "postprocess"}
    assert {entry.name for cls in CLASSES for entry in fields(cls)} == described | python_only
    assert described <= json_schema(*CLASSES)["properties"].keys()
