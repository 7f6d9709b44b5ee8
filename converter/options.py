"""What a user can set while converting: shapes, frozen inputs, outputs, the batch size.

The notation of shapes follows OpenVINO's own converter: ``a[1,3,224,224],b[?,16],c[1..8]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Union

import numpy as np

from converter.errors import ConversionError
from ir_runtime import ModelError
from ir_runtime.element_types import Array, ElementType
from ir_runtime.records import record
from ir_runtime.shapes import PartialShape
from ir_runtime.tensor import Tensor

ShapeLike = Union[PartialShape, str, Sequence[Any]]
InputShapes = Union[Mapping[str, ShapeLike], Iterable[tuple[str, ShapeLike]], None]


class OptionError(ConversionError):
    """An option does not fit the model, or cannot be read."""


@record
class Options:
    """Shapes by input name, values of frozen inputs, the outputs to keep (None: the model's own)."""

    shapes: Mapping[str, PartialShape] = field(default_factory=dict)
    frozen: Mapping[str, Array] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    batch: int | None = None

    def check_inputs(self, known: Sequence[str]) -> None:
        """Every input that the options name exists; raises :class:`OptionError` with suggestions."""
        for name in [*self.shapes, *self.frozen]:
            if name not in known:
                raise OptionError(f"the model has no input '{name}'{suggestions(name, known)}")
        both = set(self.shapes) & set(self.frozen)
        if both:
            raise OptionError(f"input '{min(both)}' is given a shape and a value; one of them is enough")

    def shape_of(self, name: str, declared: PartialShape) -> PartialShape:
        """The shape that the input is to have."""
        wanted = self.shapes.get(name)
        if wanted is not None:
            if wanted.has_rank and declared.has_rank and wanted.rank != declared.rank:
                raise OptionError(f"input '{name}' has the shape {declared}, which cannot become {wanted}")
            return wanted
        if self.batch is None or not declared.has_rank or declared.rank == 0:
            return declared
        first = declared[0]
        if first.is_static and first.value not in (1, self.batch):
            raise OptionError(
                f"input '{name}' has {first} as its first dimension, which is no batch: set the shapes with input"
            )
        return declared.replace(0, self.batch)

    def frozen_tensor(self, name: str, kind: ElementType, declared: PartialShape) -> Tensor:
        """The constant that takes the place of an input."""
        value = np.asarray(self.frozen[name])
        if value.dtype != kind.dtype:
            with np.errstate(all="ignore"):
                converted = value.astype(kind.dtype)
            if value.dtype.kind not in "iufb" or not np.array_equal(converted.astype(value.dtype), value):
                raise OptionError(f"the value of '{name}' is {value.dtype} and does not fit into {kind}")
            value = converted
        if not declared.accepts(value.shape):
            raise OptionError(f"the value of '{name}' has the shape {list(value.shape)}, but the input {declared}")
        return Tensor.from_array(value, kind)


def suggestions(name: str, known: Iterable[str]) -> str:
    """The nearest names there are, as the end of a sentence."""
    import difflib  # of use in an error's sentence alone

    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or sorted(names)[:5]
    return f"; near are {', '.join(repr(found) for found in near)}" if near else ""


def make_options(
    input: InputShapes = None,
    freeze: Mapping[str, Any] | None = None,
    output: str | Sequence[str] | None = None,
    batch: int | None = None,
) -> Options:
    """Check the arguments of ``convert_model``; raises :class:`OptionError`."""
    pairs = input.items() if isinstance(input, Mapping) else input or ()
    shapes: dict[str, PartialShape] = {}
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise OptionError(f"input must list pairs of a name and a shape, but has {pair!r}")
        name, shape = pair
        if name in shapes:
            raise OptionError(f"input '{name}' is given two shapes")
        shapes[name] = _shape(name, shape)
    if batch is not None and batch < 1:
        raise OptionError(f"the batch must be a positive number, but is {batch}")
    outputs = None if output is None else ((output,) if isinstance(output, str) else tuple(output))
    if outputs is not None and not outputs:
        raise OptionError("output must name at least one tensor")
    if outputs is not None and len(set(outputs)) != len(outputs):
        raise OptionError("output names a tensor twice")
    return Options(shapes, {name: np.asarray(value) for name, value in (freeze or {}).items()}, outputs, batch)


def _shape(name: str, shape: ShapeLike) -> PartialShape:
    try:
        if isinstance(shape, PartialShape):
            return shape
        if isinstance(shape, str):
            return PartialShape.parse(shape)
        return PartialShape([PartialShape.parse(d)[0] if isinstance(d, str) else d for d in shape])
    except (ModelError, TypeError, ValueError) as error:
        raise OptionError(f"the shape of input '{name}': {error}") from error


_ENTRY = re.compile(r"\s*(?P<name>[^,=\[\]]+?)\s*(?:\[(?P<shape>[^\]]*)\]|=(?P<value>\[[^\]]*\]|[^,]*))\s*(?:,|$)")


def parse_inputs(text: str) -> tuple[dict[str, str], dict[str, Array]]:
    """Shapes and frozen values of a command line's ``--input``.

    ``a[1,3,224,224]`` sets a shape, ``sr=16000`` or ``axes=[1,2]`` freezes a value, ``mask=mask.npy``
    freezes what the file holds. Raises :class:`OptionError` for anything else.
    """
    shapes: dict[str, str] = {}
    values: dict[str, Array] = {}
    position = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise OptionError(f"--input cannot be read at {text[position:]!r}: write name[1,3,224,224] or name=value")
        name = entry["name"]
        if name in shapes or name in values:
            raise OptionError(f"--input names '{name}' twice")
        if entry["shape"] is not None:
            shapes[name] = entry["shape"]
        else:
            values[name] = _value(name, entry["value"].strip())
        position = entry.end()
    return shapes, values


def _value(name: str, text: str) -> Array:
    if text.endswith(".npy"):
        try:
            return np.load(Path(text), allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise OptionError(f"the value of '{name}': {text} cannot be read as .npy: {error}") from error
    parts = [part.strip() for part in text.strip("[]").split(",")] if text.startswith("[") else [text]
    try:
        numbers = [_number(part) for part in parts if part]
    except ValueError as error:
        raise OptionError(f"the value of '{name}' must be a number, a list or a .npy file, but is {text!r}") from error
    if text.startswith("["):
        return np.array(numbers)
    if len(numbers) != 1:
        raise OptionError(f"the value of '{name}' is missing")
    return np.array(numbers[0])


def _number(text: str) -> bool | int | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)
