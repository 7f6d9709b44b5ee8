"""The fields of options as options of the command line, and objects of what the user wrote there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any

import click

from converter.command_line.preprocessing import PreprocessingOptions
from converter.options.conversion import ConversionOptions, SavingOptions, on_command_line, parameter_of, summary
from converter.options.verification import VerificationOptions

CLASSES = (ConversionOptions, SavingOptions, PreprocessingOptions)
"""The classes of options that ``convert`` and ``batch`` take."""
_PATHS = {
    "input": click.Path(exists=True, dir_okay=False, path_type=Path),
    "output": click.Path(dir_okay=False, path_type=Path),
    "folder": click.Path(file_okay=False, path_type=Path),
}


def field_options(*classes: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: an option for each field of ``classes`` that has words on the command line."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for entry in reversed(on_command_line(*classes)):
            function = _option(entry)(function)
        return function

    return decorate


def output_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: ``-o``, the path of the one model that a command writes."""
    return click.option("-o", "--output-model", type=click.Path(path_type=Path), metavar="PATH", help=text)


def check_output(target: Path, model: Path) -> None:
    """Raise :class:`ConversionError` where ``target`` cannot be written, or is the ``model`` that is read."""
    from converter.errors import ConversionError
    from ir_runtime.files.whole_files import check_writable

    if not target.parent.is_dir():
        raise ConversionError(f"there is no folder '{target.parent}' to write '{target.name}' to")
    if target.exists() and target.samefile(model):
        raise ConversionError(f"'{target}' is the model that is read: write to another file")
    check_writable(target)


def _option(entry: Field[Any]) -> Callable[..., Any]:
    about = dict(entry.metadata["click"])
    text = summary(entry)
    if about.get("multiple"):
        text = text.removesuffix(".") + "; can be repeated."
        about["default"] = ()
    else:
        about["default"] = entry.default
    if entry.default is True:
        text += f"  [default: {entry.name}]"
    if entry.default is False and "/" not in entry.metadata["flags"]:
        about["is_flag"] = True
    if isinstance(entry.default, (str, int)) and not isinstance(entry.default, bool):
        about["show_default"] = True
    path = about.pop("path", None)
    parameter_type = _type_of(entry.metadata["schema"] or {}) if path is None else _PATHS[path]
    if parameter_type is not None:
        about.setdefault("type", parameter_type)
    return click.option(entry.metadata["flags"], parameter_of(entry), help=text, **about)


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Return the type of a parameter whose value has this JSON schema; None where click infers it."""
    if "enum" in schema:
        return click.Choice(schema["enum"])
    ranges = {"integer": click.IntRange, "number": click.FloatRange}
    if "minimum" in schema:
        return ranges[schema["type"]](min=schema["minimum"])
    return int if schema.get("type") == "integer" else None


def conversion_options(values: Mapping[str, Any]) -> ConversionOptions:
    """Return the options of a conversion; raises :class:`ConversionError`."""
    read = read_fields(ConversionOptions, values)
    processing = PreprocessingOptions(**read_fields(PreprocessingOptions, values))
    return ConversionOptions(**{**read, "preprocess": processing.request()})


def saving_options(values: Mapping[str, Any]) -> SavingOptions:
    """Return the options of saving; raises :class:`click.UsageError`."""
    from converter.errors import ConversionError

    try:
        return SavingOptions(**read_fields(SavingOptions, values))
    except ConversionError as error:
        raise click.UsageError(str(error)) from error


def verification_options(values: Mapping[str, Any]) -> VerificationOptions:
    """Return the options of a comparison; raises :class:`ConversionError` and :class:`click.UsageError`."""
    read = read_fields(VerificationOptions, values)
    ranges, config = dict(map(_named, values["ranges"])), _config(values["configuration"])
    return VerificationOptions(**{**read, "values": ranges, "config": config})


def _config(texts: Sequence[str]) -> dict[str, Any]:
    """Return the properties that ``--config`` gives, later ones instead of earlier ones; the name of a file first."""
    from converter.options.values import read_config

    properties: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or Path(text).is_file():
            properties.update(read_config(text))
        elif not name.strip():
            raise click.UsageError(f"--config must be KEY=VALUE or a JSON file, not {text!r}")
        else:
            properties[name.strip()] = value.strip()
    return properties


def _named(text: str) -> tuple[str, str]:
    name, sign, values_text = text.partition("=")
    if not sign or not name.strip() or not values_text.strip():
        raise click.UsageError(f"--values must be NAME=KIND, such as image=0..1, not {text!r}")
    return name.strip(), values_text.strip()


def read_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of ``cls`` that the command line has; repeated ones are joined by commas."""
    read = {}
    for entry in on_command_line(cls):
        value = values[parameter_of(entry)]
        if entry.metadata["click"].get("multiple"):
            value = ",".join(text for text in value if text.strip()) or entry.default
        read[entry.name] = value
    return read
