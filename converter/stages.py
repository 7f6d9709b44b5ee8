"""The stages of a work with their times, and messages that name the model they are about.

Everything is logged as ``converter``. Stages and messages belong to the thread that works.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_logger = logging.getLogger("converter")
_model: ContextVar[str] = ContextVar("model", default="")
_is_silent: ContextVar[bool] = ContextVar("is_silent", default=False)
_stages: ContextVar[tuple[str, ...]] = ContextVar("stages", default=())
"""The stages that are open, the outermost first."""


class Times:
    """The seconds of stages since this was made, and the warnings."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        """The stages, in the order in which they first ended."""
        self.warnings: list[tuple[str, str]] = []
        """The model that each is about, and its text."""
        self._started = time.perf_counter()

    def to_dict(self) -> dict[str, float]:
        """The stages, and ``total``, which has also what is no stage."""
        return {**self.stages, "total": time.perf_counter() - self._started}


_times: ContextVar[Times | None] = ContextVar("times", default=None)
_show: ContextVar[Callable[[str, float], object] | None] = ContextVar("show", default=None)


@contextlib.contextmanager
def about(model: str) -> Iterator[None]:
    """A context whose messages are about ``model``: its path, or the name of its graph."""
    token = _model.set(model)
    try:
        yield
    finally:
        _model.reset(token)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """A context without messages, for conversions that nobody asked for."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def warn(message: str, *values: object) -> None:
    """Log a warning, which names the model. Handlers find both parts in ``record.model`` and ``record.told``."""
    if not _is_silent.get():
        name, text = _model.get(), message % values if values else message
        times = _times.get()
        if times is not None:
            times.warnings.append((name, text))
        _logger.warning("%s", f"{name}: {text}" if name else text, extra={"model": name, "told": text})


def inform(message: str, *values: object) -> None:
    """Log what was done, at INFO."""
    if not _is_silent.get():
        _logger.info(message, *values)


def informs() -> bool:
    """True if :func:`inform` reaches anybody."""
    return not _is_silent.get() and _logger.isEnabledFor(logging.INFO)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """A part of the work: its time is logged at INFO, and is in :func:`timed`. Within another stage it is only logged.

    A stage that comes again adds to its time.
    """
    outer = _stages.get()
    token = _stages.set((*outer, name))
    started = time.perf_counter()
    try:
        yield
    finally:
        _stages.reset(token)
        seconds = time.perf_counter() - started
        times = _times.get()
        if not outer and times is not None:
            times.stages[name] = times.stages.get(name, 0.0) + seconds
        inform("%s: %.3f s", ", ".join((*outer, name)), seconds)


@contextlib.contextmanager
def timed() -> Iterator[Times]:
    """The seconds of stages of the context, and its warnings, but not those of another such context within it."""
    times = Times()
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)


@contextlib.contextmanager
def watched(show: Callable[[str, float], object]) -> Iterator[None]:
    """A context whose work calls ``show`` with the name of a task, and the share of it that is done."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


def progress_of(task: str) -> Callable[[float], object]:
    """A function that takes the share of ``task`` that is done, in any thread, for who watches the present context."""
    show = _show.get()
    return (lambda share: None) if show is None else functools.partial(show, task)


@contextlib.contextmanager
def talking(verbose: bool) -> Iterator[None]:
    """With ``verbose`` messages at INFO are shown: by the caller's logging, or on stderr where it is not set up."""
    if not verbose:
        yield
        return
    level, handler = _logger.level, None
    if not _logger.isEnabledFor(logging.INFO):
        _logger.setLevel(logging.INFO)
    if not _logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        _logger.addHandler(handler)
    try:
        yield
    finally:
        _logger.setLevel(level)
        if handler is not None:
            _logger.removeHandler(handler)


def verbosely(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: the keyword argument ``verbose`` of the function is that of :func:`talking`."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        verbose = kwargs.get("verbose")
        with talking(isinstance(verbose, int) and bool(verbose)):  # the function refuses what is neither
            return function(*args, **kwargs)

    return wrapper
