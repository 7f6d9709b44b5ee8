"""Operators of ONNX in a graph of IR layers, and what the file that is written may have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from converter.onnx_file.graph import new_operator
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Output, TensorType
from ir_runtime.records import record
from ir_runtime.rewriting import Builder


@record
class Written:
    """The kind of file that is written."""

    opset: int | None = None
    """The opset that the caller chose; None leaves it to the export, and allows operators of any."""
    contrib: bool = False
    """True if operators of onnxruntime's own domain may be used."""


_ANYTHING = Written()
_written: ContextVar[Written] = ContextVar("the file that is written", default=_ANYTHING)


@contextlib.contextmanager
def written_as(opset: int | None, contrib: bool) -> Iterator[None]:
    """Return a context in which passes write for this opset."""
    token = _written.set(Written(opset, contrib))
    try:
        yield
    finally:
        _written.reset(token)


def may_use(opset: int) -> bool:
    """Return whether operators of that opset may be used."""
    chosen = _written.get().opset
    return chosen is None or chosen >= opset


def may_use_contrib() -> bool:
    """Return whether operators of com.microsoft may be used."""
    return _written.get().contrib


def emit_operator(
    builder: Builder,
    op_type: str,
    inputs: Sequence[Output | None],
    replaced: Sequence[Output | TensorType],
    domain: str = "",
    **attributes: Any,
) -> list[Output]:
    """Emit an operator, whose outputs have the types and the symbolic dimensions of the values that they replace.

    Where an output replaces no value, its type is given. Inputs and attributes that are None are left out.
    """
    types = [TensorType(output.element_type, output.shape) for output in replaced]
    values = {name: value for name, value in attributes.items() if value is not None}
    op = new_operator(op_type, inputs, values, domain=domain, count=len(types), types=types)
    outputs = builder.emit_all(op, *(source for source in inputs if source is not None))
    for output, old in zip(outputs, replaced):
        if isinstance(old, Output):
            symbolic_shapes().take_over(output, old)
    return outputs
