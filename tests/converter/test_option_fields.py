"""A field is the only place that describes an option: everything else is derived from it."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import Field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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
        "add these to _REPEATABLE of converter/equivalence/rederivation.py, and rows to tests/converter/equivalence/test_derivation.py"
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


def test_options_and_keywords_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(converter.ConversionError, match="'fuse' cannot be set beside options"):
        converter.convert_model(tmp_path / "m.onnx", options=converter.ConversionOptions(), fuse=False)
    with pytest.raises(converter.ConversionError, match="there is no target 'gpu'"):
        converter.ConversionOptions(target="gpu")


def test_a_scale_of_0_is_not_overlooked(tmp_path: Path) -> None:
    model = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    onnx.save(helper.make_model(model), tmp_path / "m.onnx")
    code, _, errors = onnx2ir("convert", str(tmp_path / "m.onnx"), "--scale", "0")
    assert code == 1
    assert "scale divides the input, so that it cannot be 0" in errors
