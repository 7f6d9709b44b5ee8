"""What every command shares: what the options of the whole command say, and what becomes of its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


class State:
    """What the options of the whole command say."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        self.quiet = quiet
        self.verbose = verbose

    def say(self, message: str) -> None:
        if not self.quiet:
            click.echo(message, err=True)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every expected error becomes one message and exit code 1; a traceback only with --verbose."""

    @click.pass_context
    def wrapper(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        from converter.errors import ConversionError
        from ir_runtime import ModelError

        state: State = context.obj
        try:
            return function(state, *args, **kwargs)
        except (ConversionError, ModelError, OSError, MemoryError) as error:
            if state.verbose:
                _print_traceback()
            click.echo(f"{click.style('error:', fg='red', bold=True)} {str(error) or type(error).__name__}", err=True)
            context.exit(1)

    return update_wrapper(wrapper, function)


def _print_traceback() -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print_exception()
