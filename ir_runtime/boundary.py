"""The errors that callers may expect: a public function returns, or raises an error that it documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from .errors import FileError, InternalError, ModelError

Call = TypeVar("Call", bound=Callable[..., Any])

_MAX_MESSAGE_LENGTH = 1000
"""Characters of another error's text that a message repeats."""


def shortened(text: str) -> str:
    """``text``, cut where it is too long for a message."""
    return text if len(text) <= _MAX_MESSAGE_LENGTH else f"{text[:_MAX_MESSAGE_LENGTH]}..."


def expected_errors(
    error: type[Exception] = ModelError, passed: tuple[type[Exception], ...] = ()
) -> Callable[[Call], Call]:
    """Decorator: the function raises only ``error``, one of ``passed``, or :class:`ModelError`.

    An :class:`OSError` becomes a :class:`FileError`. Any other exception, such as one that an object of the caller
    raises when its elements are read, becomes an ``error`` with that exception as its cause.
    """

    expected: tuple[type[Exception], ...] = (ModelError, *passed)

    def decorate(function: Call) -> Call:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except expected:
                raise
            except OSError as cause:
                raise FileError.of(cause) from cause
            except MemoryError as cause:
                raise error(f"{function.__name__} needs more memory than there is") from cause
            except Exception as cause:
                raise error(f"{function.__name__} cannot use what it was given: {described(cause)}") from cause

        return call  # type: ignore[return-value]

    return decorate


@contextmanager
def own_work(work: str) -> Iterator[None]:
    """A context for work on checked inputs: an unexpected exception in it becomes an :class:`InternalError`."""
    try:
        yield
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as error:
        raise InternalError(
            f"{work} failed by a fault of this package ({described(error)}): please report it"
        ) from error


def described(error: BaseException) -> str:
    """An error's type and text."""
    return f"{type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """An error's text, whatever its own ``__str__`` does."""
    try:
        return shortened(str(error)) or "without a message"
    except Exception:
        return "without a message"
