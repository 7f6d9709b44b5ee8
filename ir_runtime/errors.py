"""The errors that reading, building, checking or running an IR can raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ModelError(Exception):
    """Root of every error that a caller of :mod:`ir_runtime` or of :mod:`converter` should expect."""


class FormatError(ModelError):
    """A file is not a valid IR: XML, weights, ids, edges, offsets."""


class FileError(ModelError, OSError):
    """The system refuses to read or to write a file: no space, no permission, no such folder."""

    @classmethod
    def of(cls, cause: OSError, path: object = None, done: str = "used") -> FileError:
        """The error for ``cause``, about the file at ``path`` (by default the file that ``cause`` names)."""
        if isinstance(cause, FileError):
            return cause
        named = cause.filename if path is None else path
        reason = cause.strerror or str(cause) or type(cause).__name__
        text = str(named) if named is not None else ""
        text = text if len(text) <= 500 else f"{text[:500]}..."
        error = cls(f"{text!r} cannot be {done}: {reason}" if text else reason)
        error.errno = cause.errno
        return error


class AttributeValueError(ModelError):
    """An operation was given an attribute that it does not have or cannot hold.

    ``value`` is what the attribute cannot hold; None where an attribute is unknown or missing.
    """

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class InferenceError(ModelError):
    """The types or shapes of an operation's inputs contradict its definition."""


class ContradictionError(ModelError):
    """Facts computed about a model's values contradict a layer that reads them: the model, not a pass, is wrong."""


class ExecutionError(ModelError):
    """A compiled model was called with inputs it does not accept, or a kernel failed."""


class UnknownOutputError(ExecutionError, KeyError, IndexError):
    """A result was asked for an output that it does not have."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # a KeyError would quote it


class ConversionError(ModelError):
    """Root of the errors of :mod:`converter`, which exports it.

    ``problems`` lists each root cause where there are several. The class stands here because :class:`InternalError`,
    which both packages raise, is one: ``except converter.ConversionError`` has always caught the converter's faults.
    """

    def __init__(self, message: str, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class InternalError(ConversionError):
    """A fault of this package, which its ``__cause__`` shows where there is one; neither model nor inputs are wrong."""


class UnsupportedError(ModelError):
    """The IR is valid, but names an operation or a feature that this package does not have."""
