"""Options that have no use in a branch of a command: one table, by which they are refused instead of ignored.

An option that a branch does not list is used there. ``tests/test_branches.py`` holds both for every option.
"""

from __future__ import annotations

from typing import NamedTuple

import click
from click.core import ParameterSource

from converter.command_line.options import CLASSES
from converter.options.conversion import FolderOptions, on_command_line, parameter_of
from converter.options.optimization import OptimizationOptions
from converter.options.verification import VerificationOptions


class Branch(NamedTuple):
    """A way through a command: why it refuses options, behind their names, and the names of their parameters."""

    reason: str
    unused: frozenset[str]


def _branch(reason: str, *unused: str) -> Branch:
    return Branch(reason, frozenset(unused))


def _fields(branch: str, *classes: type) -> list[str]:
    """Return the parameters of the options whose fields say that ``branch`` has no use for them."""
    return [parameter_of(entry) for entry in on_command_line(*classes) if branch in entry.metadata["unused_in"]]


_UNCOMPRESSED = _branch(
    "needs --compress",
    *(parameter_of(entry) for entry in on_command_line(*CLASSES) if entry.metadata["requires"] == "compress"),
)

BRANCHES: dict[str, dict[str, Branch]] = {
    "batch": {
        "unverified": _branch("needs --verify or --check", "seed"),
        "uncompressed": _UNCOMPRESSED,
        "check": _branch("cannot be used with --check, which verifies and keeps no IR", "again", "check"),
    },
    "convert": {
        "unverified": _branch("needs --verify", "inputs", "seed"),
        "uncompressed": _UNCOMPRESSED,
        "several": _branch(
            "cannot be used with several models",
            *("inputs", "page", "stateless"),
            *_fields("several", FolderOptions),
        ),
        "model": _branch("needs a folder", *_fields("model", FolderOptions)),
        "stateless": _branch(
            "cannot be used with --stateless",
            *("check", "inputs", "seed", "page"),
            *_fields("stateless", *CLASSES, FolderOptions),
        ),
        "folder": _branch("cannot be used with a folder", "inputs", "page", *_fields("folder", *CLASSES)),
        "stateful_verified": _branch("cannot be used with --stateful --verify, which compares steps", "inputs"),
    },
    "derive": {"json": _branch("cannot be used with --json, which has every difference", "everything")},
    "diff": {"json": _branch("cannot be used with --json, which has every difference", "everything")},
    "export": {
        "unverified": _branch("needs --verify", "inputs", "seed", "page"),
        "folder": _branch(
            "cannot be used with a folder: onnx2ir verify FOLDER/model.onnx FOLDER/openvino_model.xml --steps",
            *("check", "inputs", "seed", "page"),
        ),
    },
    "inspect": {"nodes": _branch("cannot be used with --nodes, which prints lines alone", "report", "as_json")},
    "optimize": {
        "unverified": _branch("needs --verify", "inputs", "seed"),
        "float32": _branch("needs --fp16", *_fields("float32", OptimizationOptions)),
    },
    "run": {
        "given": _branch("cannot be used with --inputs, which are not random", "seed"),
        "steps": _branch("executes calls that start anew, and cannot be combined with --steps", "repeat"),
    },
    "verify": {
        "several": _branch("cannot be used with several models", *_fields("several", VerificationOptions)),
        "given": _branch("cannot be used with --inputs, which are not random", *_fields("given", VerificationOptions)),
        "steps": _branch("cannot be used with --steps", *_fields("steps", VerificationOptions)),
    },
}
"""Command -> branch -> what it refuses."""


def refuse_unused(*branches: str) -> None:
    """Raise :class:`click.UsageError` where the command line has options that a branch of the command has no use for.

    All options of the first such branch are named at once.
    """
    context = click.get_current_context()
    for name in branches:
        branch = BRANCHES[str(context.command.name)][name]
        refused = [
            _spelling(parameter, context.params.get(str(parameter.name)))
            for parameter in context.command.params
            if parameter.name in branch.unused
            and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        ]
        if refused:
            reason = branch.reason if len(refused) == 1 else branch.reason.replace("needs", "need", 1)
            raise click.UsageError(f"{', '.join(refused)} {reason}")


def _spelling(parameter: click.Parameter, value: object) -> str:
    """Return the option as it was written, but for short forms: ``--no-fuse`` for False."""
    forms = parameter.secondary_opts if value is False and parameter.secondary_opts else parameter.opts
    return max(forms, key=len)
