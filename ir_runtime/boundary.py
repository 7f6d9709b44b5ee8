"""The boundary of the package: a public function returns, or raises an error that its callers may expect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from .errors import FileError, InternalError, ModelError

Call = TypeVar("Call", bound=Callable[..., Any])

_MAX_MESSAGE_LENGTH = 1000
"""Characters of another error's text that a message repeats."""


_PACKAGES = ("ir_runtime", "converter")


def shorten(text: str) -> str:
    """``text``, cut where it is too long for a message."""
    return text if len(text) <= _MAX_MESSAGE_LENGTH else f"{text[:_MAX_MESSAGE_LENGTH]}..."


class boundary(ContextDecorator):  # noqa: N801, used as contextlib's own context managers are
    """Decorator and context manager that says whose fault an exception is.

    A :class:`ModelError` passes. Any other exception is a fault of this package and becomes an
    :class:`InternalError`, whose text starts with ``work`` (by default the name of the decorated function).

    ``error`` belongs to public functions, whose body checks the arguments and leaves the work to other functions.
    Lack of memory, and whatever the call, the body or an object of the caller that the body uses raises, become an
    ``error``; an :class:`OSError` becomes a :class:`FileError`. Without it lack of memory and :class:`OSError` reach
    the boundary of the public function.

    ``reads`` is for the other places that use objects of the caller: shapes, arrays, file objects, callbacks. Whatever
    is raised there becomes a ``reads``.

    ``is_fault`` decides for which of the errors that would pass the package is to blame.
    """

    def __init__(
        self,
        work: str = "",
        *,
        error: type[ModelError] | None = None,
        reads: type[ModelError] | None = None,
        is_fault: Callable[[ModelError], bool] = lambda error: False,
    ) -> None:
        self.work = work
        self.error = error
        self.reads = reads
        self.is_fault = is_fault

    def __call__(self, function: Call) -> Call:
        work = self.work or function.__qualname__
        inside = boundary(work, error=self.error, reads=self.reads, is_fault=self.is_fault)

        accepted = getattr(function, "accepted_keywords", None)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with inside:
                if accepted is not None and not accepted.issuperset(kwargs):
                    unexpected = next(name for name in kwargs if name not in accepted)
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unexpected!r}")
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, error_type: type[BaseException] | None, cause: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(cause, Exception):
            error = self.expected(cause, traceback)
            if error is not cause:
                raise error from cause

    def expected(self, cause: Exception, traceback: TracebackType | None = None) -> Exception:
        """The error that callers see instead of ``cause``, which came here by this ``traceback``."""
        if isinstance(cause, ModelError):
            return fault_of(self.work, cause) if self.is_fault(cause) else cause
        if isinstance(cause, (MemoryError, OSError)):
            if self.error is None:
                return cause
            if isinstance(cause, OSError):
                return FileError.of(cause)
            return self.error(f"{self.work} needs more memory than there is")
        if self.reads is not None:
            return self.reads(f"{self.work} cannot be used: {described(cause)}")
        if self.error is not None and traceback is not None and _is_of_the_body(traceback):
            return self.error(f"{self.work} cannot use what it was given: {described(cause)}")
        return fault_of(self.work, cause)


def _is_of_the_body(traceback: TracebackType) -> bool:
    """True where the exception was raised by the call of a public function or in its body, and not in the work."""
    is_decorator = traceback.tb_frame.f_globals.get("__name__") == __name__
    body = traceback.tb_next if is_decorator else traceback
    frame = None if body is None else body.tb_next
    while frame is not None:
        if frame.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
            return False
        frame = frame.tb_next
    return True


def fault_of(work: str, cause: BaseException, advice: str = "") -> InternalError:
    """The error for a fault of this package in ``work``; ``advice`` says what helps until it is fixed."""
    return InternalError(f"{work} failed by a fault of this package ({described(cause)}): please report it{advice}")


def described(error: BaseException) -> str:
    """An error's type and text."""
    return f"{type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """An error's text, whatever its own ``__str__`` does."""
    try:
        return shorten(str(error)) or "without a message"
    except Exception:
        return "without a message"
