"""The ``onnx2ir`` command itself; each command is a module that registers with it."""

from __future__ import annotations

import importlib
import os
from typing import Any

import click

from converter.command_line.state import Command, State, dashed, loudness
from converter.version import __version__

COMMANDS = (
    "batch",
    "convert",
    "derive",
    "diff",
    "edit",
    "export",
    "inspect",
    "ops",
    "optimize",
    "roundtrip",
    "run",
    "verify",
)
"""The commands, each of which is a module of this package."""


class _Group(click.Group):
    """Imports the module of a command, which registers it, when the command is looked up."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += loudness()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # click looks for a similar name among those that are registered.
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            importlib.import_module(f"{__package__}.{name}")
        return super().get_command(ctx, cmd_name)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        # --quiet and --verbose are stored in the State while the options are parsed.
        # https://no-color.org: click itself asks for a terminal alone.
        color = False if os.environ.get("NO_COLOR") else None
        return super().make_context(*args, obj=State(), color=color, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.find_object(State).choose(quiet=False, verbose=False)  # type: ignore[union-attr]
        return super().invoke(ctx)


@click.group(
    cls=_Group,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": dashed,
    },
)
@click.version_option(__version__, prog_name="onnx2ir")
def main() -> None:
    """Convert ONNX models to OpenVINO IR and prove that both compute the same.

    \b
    Examples:
      onnx2ir convert model.onnx -o model.xml --verify
      onnx2ir verify model.onnx model.xml
      onnx2ir export model.xml -o model.onnx
      onnx2ir ops model.onnx
    """
