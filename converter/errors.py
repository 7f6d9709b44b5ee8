"""The errors that a conversion can raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ir_runtime.errors import ConversionError as ConversionError
from ir_runtime.errors import InternalError as InternalError
from ir_runtime.records import record


class InvalidModelError(ConversionError):
    """The ONNX model contradicts the ONNX specification."""


class UnsupportedModelError(ConversionError):
    """The ONNX model is valid, but means what neither the IR nor this package can express."""


class VerificationError(ConversionError):
    """The two sides could not be run, or could not be compared."""


class OptionError(ConversionError):
    """An option does not fit the model, or cannot be read."""


EXHAUSTED = (MemoryError, RecursionError)
"""Errors that any model may cause by its size."""


@record
class Problem:
    """A root cause: the node, its operator and the reason."""

    node: str
    op_type: str
    domain: str
    opset: int
    reason: str
    unsupported: bool
    cause: BaseException | None = field(default=None, compare=False)
    """The fault of this package that is behind it, if it is one, or what it lacks: memory, or depth of calls."""

    def __str__(self) -> str:
        operator = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return f"node '{self.node}' ({operator}, opset {self.opset}): {self.reason}"


def error_of(problems: Sequence[Problem]) -> ConversionError:
    """Return one error for all problems: unsupported only if every problem is, an internal one if any is."""
    causes = [p.cause for p in problems if p.cause is not None]
    fault = next((cause for cause in causes if not isinstance(cause, EXHAUSTED)), None)
    error_class: type[ConversionError] = InternalError if fault is not None else InvalidModelError
    if all(p.unsupported for p in problems):
        error_class = UnsupportedModelError
    if len(problems) == 1:
        error = error_class(str(problems[0]), problems)
    else:
        lines = "\n".join(f"  {problem}" for problem in problems)
        error = error_class(f"the model has {len(problems)} problems:\n{lines}", problems)
    error.__cause__ = fault or next(iter(causes), None)
    return error
