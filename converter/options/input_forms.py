"""The ways to describe inputs: the notation of the command line, and the forms of OpenVINO's ``convert_model``.

OpenVINO's own shapes, dimensions and types are recognised by their methods, so that nothing here imports OpenVINO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from converter.errors import OptionError as OptionError
from ir_runtime import ModelError
from ir_runtime.graph import INFINITY, Array, Dimension, ElementType, PartialShape
from ir_runtime.graph.element_types import element_type, from_dtype
from ir_runtime.records import record

InputShapes = Union[Mapping[Any, Any], Iterable[Any], str, None]


@record
class InputSpec:
    """Shape, type or value of one input; without a ``name`` it is for the next input that no entry names."""

    name: str | None
    shape: PartialShape | None = None
    element_type: ElementType | None = None
    value: Array | None = None
    """The constant that takes the input's place."""
    callers_type: str = ""
    """The type that callers pass, ``image[u8]``: a layer in front of the model converts it."""


_ENTRY = re.compile(
    r"\s*(?P<name>[^,=\[\]{}]*?)\s*"
    r"(?P<shape>\[[^\]]*\])?\s*"
    r"(?:\{\s*(?P<kind>\w+)\s*\})?\s*"
    r"(?:(?:=|->)\s*(?P<value>\[[^\]]*\]|[^,]*?))?\s*(?:,|$)"
)


_CALLERS_TYPE = re.compile(r"\[\s*((?:[uif]\d+|bf16|boolean)\s*)\]")


def parse_inputs(text: str, *, with_callers_types: bool = False) -> list[InputSpec]:
    """The entries of ``--input``: ``a[1,3,224,224]``, ``[1,3]``, ``b[?,16]{f16}``, ``c{i32}``, ``sr=16000``, ``d``.

    ``axes=[1,2]`` freezes a list, ``mask=mask.npy`` what the file holds; ``->`` is the same as ``=``. Dimensions are
    separated by commas or blanks. ``image[u8]`` is an entry ``with_callers_types`` alone. Raises :class:`OptionError`
    for anything else.
    """
    specs: list[InputSpec] = []
    position = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        # A name that ends in "-" has taken the first half of an arrow.
        if entry is None or entry.end() == position or not entry[0].strip(" ,"):
            raise OptionError(
                f"--input cannot be read at {text[position:][:80]!r}: write name[1,3,224,224], name[?,16]{{f16}}, "
                "[1,3] or name=value"
            )
        name, value = entry["name"], entry["value"]
        caller = _CALLERS_TYPE.fullmatch(entry["shape"] or "") if with_callers_types else None
        if caller is not None and value is None and entry["kind"] is None:
            specs.append(InputSpec(name or None, callers_type=caller[1].strip()))
            position = entry.end()
            continue
        if value is not None and name.endswith("-") and text[entry.start("value") - 1] == ">":
            name = name[:-1].rstrip()
        if value is not None and not name:
            raise OptionError(f"--input gives the value {value!r} to an input without a name: write name=value")
        if value is not None and (entry["shape"] or entry["kind"]):
            raise OptionError(f"--input gives '{name}' a shape or a type, and a value; the value is enough")
        specs.append(
            InputSpec(
                name or None,
                None if entry["shape"] is None else _shape(re.sub(r"\s*,\s*|\s+", ",", entry["shape"][1:-1].strip())),
                None if entry["kind"] is None else _element_type(entry["kind"]),
                None if value is None else _value(name, value.strip()),
            )
        )
        position = entry.end()
    return specs


def input_specs(requested: Any, *, with_callers_types: bool = False) -> list[InputSpec]:
    """The entries of the argument ``input`` of ``convert_model``.

    A mapping of names to shapes, types or both; a list or tuple of ``(name, shape, type)`` in any combination,
    of shapes, of types and of names; one of these alone; or the command line's notation. Raises
    :class:`OptionError` for anything else.
    """
    if requested is None or (isinstance(requested, (list, tuple)) and not requested):
        return []
    if isinstance(requested, Mapping):
        specs = []
        for name, value in requested.items():
            if not isinstance(name, str):
                raise OptionError(f"input must map names to shapes, but has the key {shown(name)}")
            parts = value if isinstance(value, (tuple, list)) and not _is_shape(value) else (value,)
            specs.append(_spec([name, *parts]))
        return specs
    if isinstance(requested, str):
        return parse_inputs(requested, with_callers_types=with_callers_types)
    if _is_element_type(requested) or _is_shape(requested):
        return [_spec([requested])]
    if isinstance(requested, tuple) and _is_spec(requested):
        return [_spec(list(requested))]
    if isinstance(requested, Iterable) and not isinstance(requested, (bytes, bytearray)):
        specs = []
        for entry in requested:
            if isinstance(entry, str):
                specs += [InputSpec(entry)] if "[" not in entry and "=" not in entry else parse_inputs(entry)
            elif isinstance(entry, InputSpec):
                specs.append(entry)
            elif isinstance(entry, (tuple, list)) and not _is_shape(entry):
                specs.append(_spec(list(entry)))
            else:
                specs.append(_spec([entry]))
        return specs
    raise OptionError(
        f"input must list pairs of a name and a shape, or map names to shapes, but is {shown(requested)}: "
        "input={'x': [1, 3]}, input=[('x', [1, 3], 'f32')] or input='x[1,3]'"
    )


def _is_spec(parts: Sequence[Any]) -> bool:
    """True if a tuple describes one input (name, shape and type, each at most once) and not several inputs."""
    categories = ["name" if isinstance(part, str) and not index else _sort(part) for index, part in enumerate(parts)]
    return "" not in categories and len(set(categories)) == len(categories) and len(categories) > 0


def _sort(part: Any) -> str:
    if _is_element_type(part):
        return "type"
    return "shape" if isinstance(part, str) or _is_shape(part) else ""


def _spec(parts: list[Any]) -> InputSpec:
    name: str | None = None
    shape: PartialShape | None = None
    requested_type: ElementType | None = None
    for index, part in enumerate(parts):
        if index == 0 and isinstance(part, str):
            name = part
            continue
        if part is None and index:
            continue  # neither shape nor type
        if _is_element_type(part) and requested_type is None:
            requested_type = _element_type(part)
        elif (isinstance(part, str) or _is_shape(part)) and shape is None:
            try:
                shape = _shape(part)
            except OptionError as error:
                raise OptionError(f"the shape of input '{name}': {error}" if name else str(error)) from error
        else:
            raise OptionError(
                f"input must list pairs of a name and a shape, or triples with a type, but has {shown(part)}"
            )
    if not parts:
        raise OptionError("input has an entry that says nothing: write ('x', [1, 3])")
    return InputSpec(name, shape, requested_type)


def _is_element_type(requested: Any) -> bool:
    if isinstance(requested, str):
        try:
            element_type(requested)
        except ModelError:
            return False
        return True
    return isinstance(requested, (ElementType, np.dtype, type)) or callable(getattr(requested, "get_type_name", None))


def _element_type(requested: Any) -> ElementType:
    try:
        if isinstance(requested, (str, ElementType)):
            requested_type = element_type(requested)
        elif isinstance(requested, (np.dtype, type)):
            requested_type = from_dtype(np.dtype(requested))
        else:
            requested_type = element_type(str(requested.get_type_name()))
    except (ModelError, TypeError, ValueError, KeyError) as error:
        raise OptionError(f"the type {shown(requested)} of an input cannot be read: {error}") from error
    if requested_type.is_dynamic:
        raise OptionError("the type of an input must be known, but is given as dynamic")
    return requested_type


def _is_shape(requested: Any) -> bool:
    if isinstance(requested, PartialShape) or type(requested).__name__ in ("PartialShape", "Shape"):
        return True
    if isinstance(requested, np.ndarray):
        return requested.ndim == 1 and requested.dtype.kind in "iu"
    if not isinstance(requested, (list, tuple)):
        return False
    # A list of texts alone is one of names.
    some = [part for part in requested if not isinstance(part, str)]
    return (bool(some) or not requested) and all(_is_dimension(part) for part in some)


def _is_dimension(requested: Any) -> bool:
    if requested is None or (isinstance(requested, (Dimension, int, np.integer)) and not isinstance(requested, bool)):
        return True
    return callable(getattr(requested, "get_min_length", None))


def _shape(requested: Any) -> PartialShape:
    try:
        if isinstance(requested, PartialShape):
            return requested
        if type(requested).__name__ in ("PartialShape", "Shape"):
            requested = str(requested)  # OpenVINO's, which is written as the IR writes it
        if isinstance(requested, str):
            return PartialShape.parse(requested)
        return PartialShape([_dimension(part) for part in requested])
    except (ModelError, TypeError, ValueError) as error:
        raise OptionError(str(error)) from error


def _dimension(requested: Any) -> Dimension:
    if isinstance(requested, Dimension):
        return requested
    if requested is None:
        return Dimension()
    if isinstance(requested, str):
        parsed = PartialShape.parse(requested)
        if not parsed.has_rank or parsed.rank != 1:
            raise OptionError(f"{requested!r} is not a dimension")
        return parsed[0]
    if callable(getattr(requested, "get_min_length", None)):
        high = int(requested.get_max_length())
        return Dimension(int(requested.get_min_length()), INFINITY if high < 0 else high)
    dimension = int(requested)
    if dimension < -1 or dimension > INFINITY:
        raise OptionError(f"{dimension} is not a dimension: it must be -1 (unknown) or from 0 to 2^63 - 1")
    return Dimension() if dimension == -1 else Dimension(dimension, dimension)


def shown(requested: Any) -> str:
    """An object as text for a message, also where its ``repr`` fails."""
    try:
        text = repr(requested)
    except Exception:  # a fault of the user's object
        text = f"an object of type {type(requested).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _value(name: str, text: str) -> Array:
    if text.endswith(".npy"):
        try:
            return np.asarray(np.load(Path(text), allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise OptionError(f"the value of '{name}': {text} cannot be read as .npy: {error}") from error
    parts = re.split(r"[\s,]+", text.strip("[] ")) if text.startswith("[") else [text]
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
