"""The groups in which ``--help`` lists the options of commands that have many."""

from __future__ import annotations

from collections.abc import Sequence

import click

from converter.command_line.options import CLASSES
from converter.options.conversion import FolderOptions, on_command_line, parameter_of
from converter.options.verification import VerificationOptions


def _fields(group: str, *others: str, classes: Sequence[type] = CLASSES) -> tuple[str, ...]:
    """Return the parameters of the options whose fields name ``group``, and ``others``."""
    entries = on_command_line(*classes)
    return *(parameter_of(entry) for entry in entries if entry.metadata["group"] == group), *others


_FIELDS = {name: _fields(name) for name in ("Inputs, outputs and shapes", "Layers", "Weights", "Preprocessing")}

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "convert": {
        "Output": ("output_model", *_fields("Output"), "page", "as_json"),
        **_FIELDS,
        "Folders": _fields("Folders", classes=[FolderOptions]),
        "Language models": _fields("Language models", "stateless"),
        "Verification": ("check", "inputs", "seed"),
    },
    "batch": {
        "Output": ("output_dir", *_fields("Output"), "keeps_nothing", "page", "lines", "annotated"),
        "Processes": ("jobs", "time_limit", "memory_limit", "again"),
        **_FIELDS,
        "Language models": _fields("Language models"),
        "Verification": ("check", "seed"),
    },
    "verify": {
        "Output": _fields("Output", "as_json", classes=[VerificationOptions]),
        "Inputs": _fields("Inputs", "steps", classes=[VerificationOptions]),
        "Comparison": _fields("Comparison", classes=[VerificationOptions]),
    },
}
"""Command -> heading -> names of parameters, in the order of ``--help``."""


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command in its groups, or in one list where it has none."""
    parameters = {
        str(parameter.name): parameter
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
    }
    groups = GROUPS.get(str(command.name), {})
    grouped = {name for names in groups.values() for name in names}
    rest = tuple(name for name in parameters if name not in grouped)
    for heading, names in {**groups, "Messages" if groups else "Options": rest}.items():
        records = [record for name in names if (record := parameters[name].get_help_record(context)) is not None]
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
