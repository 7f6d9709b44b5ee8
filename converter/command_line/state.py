"""What all commands share: ``--quiet`` and ``--verbose``, progress on a terminal, and how errors end a command."""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar

import click

from converter.command_line.json_output import describe_error, json_text, text_of, versions
from converter.command_line.option_groups import write_options
from converter.stages import Times, timed, watched

T = TypeVar("T")
PATIENCE = 2.0
"""Seconds after which a terminal shows progress."""

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
MODEL_FILE = click.Path(exists=True, path_type=Path)
"""Folders are refused where they are read, with an error that names them."""
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)

_SWITCHES = ("--compress-to-fp16", "--reverse-input-channels")
"""Switches to which ``ovc`` gives a value: ``--compress_to_fp16=False``."""
_OTHER_NAMES = "What to write for options of ovc and mo: docs/from_ovc.md"
_ON = ("true", "1", "yes", "on")
_OFF = ("false", "0", "no", "off")


class State:
    """``--quiet`` and ``--verbose``, which may stand before and after a command."""

    owns_process = False
    """Whether the process runs one command alone, and ends with it."""
    show_task: Callable[[str], object] | None = None
    """Shows a task where there is no terminal, as in a web page."""

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.times = Times()
        """The stages and warnings of the command, or of one of its models."""

    @classmethod
    def keep_objects(cls) -> None:
        """Keep all objects until the process ends, where it runs this command alone.

        Those of a model live until then anyway. Looking for cycles among them, and again at the end, takes a fifth of
        the time.
        """
        if cls.owns_process:
            gc.disable()
            atexit.register(gc.freeze)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """A context with times and warnings of its own."""
        before = self.times
        with timed() as self.times:
            try:
                yield
            finally:
                self.times = before

    def choose(self, quiet: bool, verbose: bool) -> None:
        """Add the switches of one place. Raises :class:`click.UsageError` where both are set."""
        self.quiet |= quiet
        self.verbose |= verbose
        if self.quiet and self.verbose:
            raise click.UsageError("--quiet and --verbose exclude each other")
        level = logging.INFO if self.verbose else logging.WARNING
        handler = _Handler(self)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logging.basicConfig(level=level, handlers=[handler], force=True)

    def inform(self, message: str) -> None:
        """Print a message to stderr, unless ``--quiet`` is set."""
        if not self.quiet:
            click.echo(message, err=True)

    @contextlib.contextmanager
    def working(self, task: str) -> Iterator[None]:
        """Show ``task`` and the time it takes on a terminal, where it takes more than :data:`PATIENCE`."""
        from ir_runtime import threads  # the commands' help needs no runtime

        if self.show_task is not None:
            self.show_task(task)

        if self.quiet or not sys.stderr.isatty() or not threads.are_available():
            yield
            return
        from converter.report.progress import spinner

        with spinner(task, PATIENCE) as update, watched(update):
            yield


class _Handler(logging.Handler):
    """Messages to the present ``sys.stderr``, so that they appear above a progress line."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        if self._state.quiet and record.levelno < logging.ERROR:
            return
        # rich replaces sys.stderr while it draws; click.echo would write to the stream behind it.
        sys.stderr.write(f"{self.format(record)}\n")


def dashed(token: str) -> str:
    """Options may be written with underscores, as ``ovc`` writes them."""
    return token.replace("_", "-")


def _chosen(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if value:
        state = context.find_object(State)
        assert state is not None
        state.choose(quiet=parameter.name == "quiet", verbose=parameter.name == "verbose")
    return value


def loudness() -> list[click.Option]:
    """``--quiet`` and ``--verbose``."""
    texts = {
        ("-q", "--quiet"): "Print results and errors only.",
        ("-v", "--verbose"): "Print details, and tracebacks of errors.",
    }
    return [
        click.Option(flags, is_flag=True, expose_value=False, callback=_chosen, help=text)
        for flags, text in texts.items()
    ]


class Command(click.Command):
    """A command that takes ``--quiet`` and ``--verbose``, and options as ``ovc`` writes them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += loudness()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        prints_json = "--json" in args and any(parameter.name == "as_json" for parameter in self.params)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if prints_json:
                print_json_error(None, error, error.exit_code)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if ctx.params.get("as_json"):
                print_json_error(ctx.find_object(State), error, error.exit_code)
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {option for parameter in self.params for option in parameter.opts}
        try:
            return super().parse_args(ctx, _switched(args) if own & set(_SWITCHES) else args)
        except click.NoSuchOption as error:
            if self.name != "convert":
                raise
            raise click.UsageError(f"{error.format_message()} {_OTHER_NAMES}", ctx) from error


def _switched(args: list[str]) -> list[str]:
    """Switches without the values that they were given."""
    found: list[str] = []
    rest = list(args)
    while rest:
        token = rest.pop(0)
        if token == "--":
            return [*found, token, *rest]
        name, equals, value = token.partition("=")
        name = dashed(name)
        if name not in _SWITCHES:
            found.append(token)
            continue
        if not equals and rest and rest[0].lower() in (*_ON[:1], *_OFF[:1]):
            equals, value = "=", rest.pop(0)
        if equals and value.lower() not in (*_ON, *_OFF):
            raise click.UsageError(f"{name} is True or False, but is {value!r}")
        found.append(f"--no-{name[2:]}" if equals and value.lower() in _OFF else name)
    return found


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every error becomes one message and exit code 1; a traceback only with --verbose."""

    @click.pass_context
    def wrapper(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        state: State = context.obj
        with state.recording():
            result, error = attempt(state, lambda: function(state, *args, **kwargs))
            if error is not None:
                if kwargs.get("as_json"):
                    print_json_error(state, error, 1)
                context.exit(1)
        return result

    return update_wrapper(wrapper, function)


def attempt(state: State, work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Do ``work``, and return its result and its error, whose text is also printed to stderr."""
    from ir_runtime.boundary import boundary
    from ir_runtime.errors import InternalError, ModelError

    try:
        return work(), None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as cause:
        error = boundary("the command", error=ModelError).expected(cause)
        if state.verbose or isinstance(error, InternalError):  # a report of a fault needs it
            from converter.report.tables import print_traceback

            print_traceback()
        click.echo(f"{click.style('error:', fg='red', bold=True)} {text_of(error)}", err=True)
        return None, error


def print_json(state: State, result: Mapping[str, Any]) -> None:
    """Print the result of a command."""
    click.echo(json_text({**result, **work_summary(state), "versions": versions()}))


def print_json_error(state: State | None, error: Exception, exit_code: int) -> None:
    """Print the error that ends a command; there is no ``state`` where its options could not be read."""
    click.echo(json_text({"error": describe_error(error, exit_code), **work_summary(state), "versions": versions()}))


def work_summary(state: State | None) -> dict[str, Any]:
    """Return the warnings and the times of stages until now."""
    if state is None:
        return {"warnings": [], "seconds": {"total": 0.0}}
    warnings = [{"model": model or None, "message": text} for model, text in state.times.warnings]
    return {"warnings": warnings, "seconds": state.times.to_dict()}
