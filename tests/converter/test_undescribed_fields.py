"""A field of options that lacks its description, its place in ``--help`` or its JSON schema is reported."""

from __future__ import annotations

from dataclasses import fields, make_dataclass

import click

from converter import ConversionOptions, SavingOptions
from converter.command_line import main
from converter.options import json_schema, on_command_line, option, summary

CLASSES = (ConversionOptions, SavingOptions)
PYTHON_ONLY = {"freeze", "preprocess", "postprocess"}
"""Fields whose words on the command line are others: ``--input`` has constants, preprocessing has options of its own."""


def undescribed(*classes: type) -> list[str]:
    """Return what the fields of ``classes`` lack, read from what users see and not from the metadata alone."""
    lacks = []
    helps = {name: _help(name) for name in ("convert", "batch")}
    schema = json_schema(*classes)["properties"]
    for cls in classes:
        for entry in fields(cls):
            described = bool(entry.metadata.get("text", "").strip())
            lacks += [] if described else [f"{cls.__name__}.{entry.name} has no text"]
            flag = entry.metadata.get("flags", "").split("/")[0]
            if described and flag:
                lacks += [
                    f"{flag} of {command} is not described"
                    for command, text in helps.items()
                    if f"{flag} " not in text or _plain(summary(entry)).rstrip(".") not in text
                ]
                lacks += [] if entry.name in schema else [f"{entry.name} has no schema"]
    return lacks


def _help(command: str) -> str:
    context = click.Context(main.commands[command], info_name=command, terminal_width=10_000, max_content_width=10_000)
    return _plain(main.commands[command].get_help(context))


def _plain(text: str) -> str:
    return " ".join(text.split())


def test_every_field_is_described() -> None:
    assert undescribed(*CLASSES) == []
    entries = [entry for cls in CLASSES for entry in fields(cls)]
    assert {entry.name for entry in entries if entry not in on_command_line(*CLASSES)} == PYTHON_ONLY


def test_a_field_without_a_description_is_noticed() -> None:
    planted_field = option(False, "", "--no-such-option", schema={"type": "boolean"})
    planted = make_dataclass("Planted", [("nameless", bool, planted_field)])
    assert undescribed(planted) == ["Planted.nameless has no text"]
    planted_field = option(False, "Is on the command line alone.", "--no-such-option", schema={"type": "boolean"})
    planted = make_dataclass("Planted", [("lone", bool, planted_field)])
    assert undescribed(planted) == [
        "--no-such-option of convert is not described",
        "--no-such-option of batch is not described",
    ]
