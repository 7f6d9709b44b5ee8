"""Sequences and optionals: values that exist only while a model is converted.

The IR carries tensors alone. A sequence whose length is known while converting is a list of tensors
here, one that a loop has gathered is a tensor with one dimension more, and an optional is a value or
nothing. The IR has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from converter.errors import UnsupportedModelError
from ir_runtime.graph import ElementType, Origin, Output, element_types
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, UniqueNames


@record
class SequenceValue:
    """A sequence of tensors, each with its place in the IR."""

    items: tuple[Output, ...]
    element_type: ElementType = element_types.f32
    """The type of the tensors of an empty sequence."""


@record
class StackedSequence:
    """A sequence whose length is only known at run time: its tensors, all of one shape, in one."""

    stacked: Output
    """``[length, ...]``"""


@record
class JoinedSequence:
    """A sequence whose length is only known at run time: its tensors, which may differ along ``axis``, joined there."""

    joined: Output
    axis: int
    shapes: Output
    """``[length, rank]``: the shape of each tensor, with ``axis`` in front."""


@record
class OptionalValue:
    """A tensor or a sequence that is there, or nothing."""

    content: Output | SequenceValue | StackedSequence | JoinedSequence | None


Value = Union[Output, SequenceValue, StackedSequence, JoinedSequence, OptionalValue]


def kind_of(value: Value) -> str:
    """Describe a value in a message."""
    if isinstance(value, (SequenceValue, StackedSequence, JoinedSequence)):
        return "a sequence"
    return "an optional" if isinstance(value, OptionalValue) else "a tensor"


def tensor_of(value: Value, subject: str) -> Output:
    """``value``, which must be a tensor; raises :class:`UnsupportedModelError` with that reason."""
    if not isinstance(value, Output):
        raise UnsupportedModelError(f"{subject} is {kind_of(value)}, and the IR carries nothing but tensors")
    return value


def name_layers(builder: Builder, unique: UniqueNames, name: str, outputs: Sequence[Value | None]) -> None:
    """Give the layer of the first output the node's name, the others that name and their type."""
    mine = set(builder.emitted)
    main = next((o.node for o in outputs if isinstance(o, Output) and o.node in mine), None)
    if main is not None:
        main.name = unique(name)
    for node in builder.emitted:
        if not node.name:
            node.name = unique(f"{name}/{node.op.type}")


def note_origin(builder: Builder, name: str, op_type: str) -> None:
    """Give the layers the ONNX node that they were made from, where an inner translation has not given them one."""
    origin = Origin(name, op_type)
    for layer in builder.emitted:
        layer.origin = layer.origin or origin
