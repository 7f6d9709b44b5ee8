"""What callers may expect: whatever a function is given, it returns or raises one of the errors that are promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from .errors import FileError, InternalError, ModelError

Call = TypeVar("Call", bound=Callable[..., Any])

_LONGEST = 1000
"""Characters of another error's text that are passed on."""


def shortened(text: str) -> str:
    """``text`` as a message can hold it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def expected_errors(
    error: type[Exception] = ModelError, passed: tuple[type[Exception], ...] = ()
) -> Callable[[Call], Call]:
    """Decorator: what a function raises is an ``error``, one of ``passed``, or a :class:`ModelError`.

    What the system says of a file becomes a :class:`FileError`; anything else, such as what an object of the
    caller's own raises when it is asked for its elements, an ``error`` with that as its cause.
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
    """A context in which this package works on what it has checked: what fails in it is an :class:`InternalError`."""
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
    return f"{type(error).__name__}: {said(error)}"


def said(error: BaseException) -> str:
    """An error's text, whatever its own ``__str__`` does."""
    try:
        return shortened(str(error)) or "no more is said"
    except Exception:
        return "no more is said"
