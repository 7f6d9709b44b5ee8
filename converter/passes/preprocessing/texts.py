"""Preprocessing as text: the options of ``mo``, and a TOML file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from converter.errors import ConversionError
from converter.passes.preprocessing.description import Postprocess, Preprocess, parse_layout
from converter.passes.preprocessing.request import Entry, Request
from ir_runtime.errors import FileError

_NAMED = re.compile(r"(?P<name>[^()\[\]]*?)\s*(?:\((?P<round>.*)\)|\[(?P<square>[^\[\]]*)\])")
"""``name(value)`` and ``name[value]``; the name may be missing."""


def entries(option: str, text: str) -> Iterator[tuple[str | None, str]]:
    """Names and values of ``data[1,2,3],info(4)``, ``(1,2,3),[4]``, ``255`` or ``image(nhwc->nchw)``.

    The name is None where none is given. Raises :class:`ConversionError`.
    """
    for part in _parts(option, text):
        named = _NAMED.fullmatch(part)
        if named is None and any(bracket in part for bracket in "()"):
            raise ConversionError(f"{option} cannot be read at {part[:60]!r}: write name[...] or name(...)")
        if named is None:
            yield None, part
            continue
        value = named["square"] if named["round"] is None else named["round"]
        yield named["name"] or None, value.strip()


def _parts(option: str, text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            break
        if character == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += character
    parts = [part.strip() for part in pieces]
    if depth or not all(parts):
        raise ConversionError(f"{option} cannot be read: {text[:60]!r} has brackets or commas that do not fit")
    return parts


def numbers(option: str, text: str) -> Iterator[Entry]:
    """``--mean-values`` or ``--scale-values``."""
    field = option.lstrip("-").partition("-")[0]
    for name, value in entries(option, text):
        try:
            values_given = [float(number) for number in re.split(r"[,\s]+", value.strip())]
        except ValueError as error:
            raise ConversionError(f"{option} must be numbers, but has {value!r}") from error
        yield Entry(name, field, values_given)


def layouts(option: str, text: str) -> Iterator[Entry]:
    """``--layout``, ``--source-layout`` or ``--target-layout``: the model's before ``->``, the IR's behind."""
    for name, value in entries(option, text):
        before, arrow, after = (part.strip() for part in value.partition("->"))
        if arrow and option != "--layout":
            raise ConversionError(f"{option} is one layout, but got {value!r}: --layout takes both")
        if option != "--target-layout":
            yield Entry(name, "model_layout", parse_layout(before))
        if arrow or option == "--target-layout":
            yield Entry(name, "layout", parse_layout(after if arrow else before))


def choices(option: str, text: str) -> Iterator[Entry]:
    """``--resize`` or ``--color``: ``linear``, ``image(linear)``, ``image(nv12->bgr)``."""
    for name, value in entries(option, text):
        before, arrow, after = (part.strip().lower() for part in value.partition("->"))
        if arrow and option != "--color":
            raise ConversionError(f"{option} is one word, but got {value!r}")
        yield Entry(name, option.lstrip("-"), before)
        if arrow:
            yield Entry(name, "model_color", after)


def read_file(path: str | os.PathLike[str]) -> Request:
    """A TOML file with a table for each input, ``[inputs.image]``, and for each output, ``[outputs.logits]``.

    Raises :class:`ConversionError` where it cannot be read.
    """
    if sys.version_info < (3, 11):
        raise ConversionError("a file with preprocessing needs Python 3.11, which reads TOML: write options")
    import tomllib

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConversionError(f"{path} is no TOML file: {error}") from error
    unknown = sorted(set(tables) - {"inputs", "outputs"})
    if unknown:
        raise ConversionError(f"{path} may have the tables inputs and outputs, but has '{unknown[0]}'")
    return Request(
        _build_steps(path, "inputs", tables, Preprocess), _build_steps(path, "outputs", tables, Postprocess), ()
    )


def _build_steps(path: object, group: str, tables: Mapping[str, Any], steps_class: type[Any]) -> dict[str, Any]:
    field_names = [field.name for field in fields(steps_class)]
    steps_by_name = {}
    for name, values in (tables.get(group) or {}).items():
        if not isinstance(values, Mapping):
            raise ConversionError(f"{path}: [{group}.{name}] must be a table")
        wrong = [key for key in values if key not in field_names]
        if wrong:
            raise ConversionError(f"{path}: [{group}.{name}] has '{wrong[0]}', but may have {', '.join(field_names)}")
        try:
            steps_by_name[name] = steps_class(**values)
        except ConversionError as error:
            raise ConversionError(f"{path}: [{group}.{name}]: {error}") from error
    return steps_by_name


def request_of(preprocess: Any, postprocess: Any) -> Request:
    """The arguments of ``convert_model``: mappings of names to descriptions, a path, or a request."""
    if isinstance(preprocess, Request):
        request = preprocess
    elif preprocess is None:
        request = Request()
    elif isinstance(preprocess, Mapping):
        _check("preprocess", "Preprocess", preprocess, Preprocess)
        request = Request(dict(preprocess))
    else:
        if not isinstance(preprocess, (str, bytes)) and not hasattr(preprocess, "__fspath__"):
            raise ConversionError(
                f"preprocess must map names of inputs to Preprocess(...), or be a path, but is {preprocess!r}"
            )
        request = read_file(preprocess)
    if postprocess is not None:
        if not isinstance(postprocess, Mapping):
            raise ConversionError(f"postprocess must map names of outputs to Postprocess(...), but is {postprocess!r}")
        _check("postprocess", "Postprocess", postprocess, Postprocess)
        request = replace(request, outputs={**request.outputs, **postprocess})
    return request


def _check(argument: str, class_name: str, described: Mapping[Any, Any], steps_class: type) -> None:
    for name, value in described.items():
        if not isinstance(name, str) or not isinstance(value, steps_class):
            raise ConversionError(f"{argument} must map names to {class_name}(...), but has {name!r}: {value!r}")
