"""The errors that reading, building, checking or running an IR can raise."""

from __future__ import annotations


class ModelError(Exception):
    """Root of every error a caller of :mod:`ir_runtime` should expect."""


class FormatError(ModelError):
    """A file is not a valid IR: XML, weights, ids, edges, offsets."""


class AttributeValueError(ModelError):
    """An operation was given an attribute that it does not have or cannot hold."""


class InferenceError(ModelError):
    """The types or shapes of an operation's inputs contradict its definition."""


class ExecutionError(ModelError):
    """A compiled model was called with inputs it does not accept, or a kernel failed."""


class UnsupportedError(ModelError):
    """The IR is valid, but names an operation or a feature that this package does not have."""
