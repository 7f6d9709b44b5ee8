"""Readers of the values of options: each checks what a caller gives and returns it in the form in which it is kept.

:func:`converter.options.conversion.option` names the reader of a field. The classes of options are not imported: that
would be a circle.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from numbers import Integral
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from converter.errors import ConversionError, OptionError, VerificationError
from converter.options.input_forms import InputSpec, input_specs, shown
from converter.options.inputs import batch as batch
from converter.options.inputs import extension_paths as extension_paths
from converter.options.inputs import output_names as output_names
from converter.options.inputs import suggestions
from ir_runtime.boundary import boundary

OLDEST = 7
"""The first opset that can be written: since opset 7 operands broadcast as in NumPy."""
NEWEST = 28
"""The last opset that can be written."""
STRIPPED = ("names", "docs", "metadata")
"""What the option ``strip`` may leave out."""
_FORMS = {
    "insert_after": "TENSOR=OPERATOR(...)",
    "replace_weight": "NAME=FILE.npy",
    "set_dim": "INPUT:AXIS=VALUE or NAME=VALUE",
}
"""How pairs are written, where the help has a shorter form."""
_WHOLE = ("insert_after", "metadata", "replace_weight")
"""Options whose values may have commas: a text is one pair."""

if TYPE_CHECKING:
    from converter.passes.compression.weight_compression import WeightCompression
    from converter.passes.preprocessing.request import Request


def as_given(value: Any, entry: Field[Any]) -> Any:
    return value


def switch(value: Any, entry: Field[Any]) -> bool | None:
    """Return a boolean; None leaves the choice to the work."""
    return None if value is None else bool(value)


def _checked(
    fits: Callable[[Any], object], wanted: str, error: type[ConversionError] = OptionError
) -> Callable[[Any, Field[Any]], Any]:
    """Return a reader of values that are ``wanted`` and stay as they are."""

    def read(value: Any, entry: Field[Any]) -> Any:
        if not fits(value):
            raise error(f"{entry.name} must be {wanted}, but is {shown(value)}")
        return value

    return read


strict_switch = _checked(lambda value: isinstance(value, bool), "True or False")
text = _checked(lambda value: value is None or isinstance(value, str), "a text")
names_of_nodes = _checked(lambda value: all(isinstance(name, str) for name in value), "names of nodes or operators")
whole_number = _checked(
    lambda value: not isinstance(value, bool) and isinstance(value, (int, np.integer)) and value >= 0,
    "a whole number from 0 on",
    VerificationError,
)
device = _checked(
    lambda value: value is None or (isinstance(value, str) and value.strip() and value.isprintable()),
    "the name of a device of OpenVINO",
    VerificationError,
)
path = _checked(
    lambda value: value is None or (isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)),
    "a path",
    VerificationError,
)


def choice(value: Any, entry: Field[Any]) -> Any:
    """Return one of the values that the schema of the option lists."""
    choices = entry.metadata["schema"]["enum"]
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{entry.name} must be one of {', '.join(choices)}, but is {shown(value)}")
    return value


def opset(value: Any, entry: Field[Any]) -> int | None:
    """Return an opset that can be written; None leaves the choice to the export."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not OLDEST <= value <= NEWEST):
        raise ConversionError(f"the opset must be a number from {OLDEST} to {NEWEST}, but is {value!r}")
    return value


def conversion_inputs(value: Any, entry: Field[Any]) -> tuple[InputSpec, ...]:
    """Return the entries of ``input``: an iterator can be read once, and arrays that files hold are read here."""
    return tuple(input_specs(value, with_callers_types=True))


def frozen(value: Any, entry: Field[Any]) -> dict[str, Any] | None:
    """Return the values of inputs by name, which :func:`converter.options.inputs.bindings_of` checks."""
    return None if value is None else dict(value) if isinstance(value, Mapping) else value


def states(value: Any, entry: Field[Any]) -> bool | dict[str, str]:
    """Return ``stateful``: whether caches become states, or the inputs and outputs of the states."""
    if not isinstance(value, Mapping):
        return bool(value)
    if not all(isinstance(end, str) for pair in value.items() for end in pair):
        raise OptionError("stateful must map names of inputs to names of outputs")
    return dict(value)


def pass_names(value: Any, entry: Field[Any]) -> tuple[str, ...]:
    """Return the names of passes of cleanup or fusion."""
    return _names_of_passes(value, "converter.passes.registry", "passes")


def export_pass_names(value: Any, entry: Field[Any]) -> tuple[str, ...]:
    """Return the names of passes before export."""
    return _names_of_passes(value, "converter.passes.before_export.registry", "before_export")


def _names_of_passes(value: Any, module: str, pipeline: str) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else tuple(value)
    names = tuple(part.strip() if isinstance(part, str) else part for part in parts)
    if names:  # the command line reads options before it needs passes
        optional = getattr(importlib.import_module(module), pipeline).optional
        for name in names:
            if name not in optional:
                near = suggestions(str(name), optional)
                raise OptionError(f"skip_passes: {shown(name)} is no pass of cleanup or fusion{near}")
    return names


def request_of(options: Any) -> Request | None:
    """Return the preprocessing and postprocessing of a conversion, and the types that callers pass; None for none."""
    types = [spec for spec in options.input if spec.callers_type]
    if options.preprocess is None and options.postprocess is None and not types:
        return None
    from converter.passes.preprocessing.request import Entry
    from converter.passes.preprocessing.texts import request_of  # few models have it

    request = request_of(options.preprocess, options.postprocess)
    entries = [Entry(spec.name, "element_type", spec.callers_type) for spec in types]
    return replace(request, entries=(*request.entries, *entries)) or None


def compression_of(options: Any) -> WeightCompression | None:
    """Return the compression of weights that options of saving describe."""
    compress, group_size, symmetric = options.compress, options.group_size, options.symmetric
    compression = None
    if compress is not None:
        from converter.passes.compression.weight_compression import WeightCompression

        compression = (
            WeightCompression.named(compress, group_size, symmetric) if isinstance(compress, str) else compress
        )
        if not isinstance(compression, WeightCompression):
            raise OptionError(f'compress must be "int8", "int4" or a WeightCompression, but is {shown(compress)}')
    if group_size is not None or symmetric is not None:
        if compress is None:
            raise OptionError("group_size and symmetric need compress")
        if not isinstance(compress, str):
            raise OptionError("group_size and symmetric are fields of WeightCompression: set them there")
    return compression


def properties(value: Any, entry: Field[Any]) -> dict[str, Any]:
    return {} if value is None else read_config(value)


@boundary("the configuration", reads=VerificationError)
def read_config(config: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """Return properties of a device by name, of a mapping or a JSON file; raises :class:`VerificationError`."""
    values: Any = config
    if not isinstance(config, Mapping):
        path = os.fspath(config)
        try:
            values = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise VerificationError(f"the configuration {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise VerificationError(f"the configuration {path} is no JSON: {error}") from error
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise VerificationError(f"a configuration is an object of properties by name, not {values!r}")
    return dict(values)


@boundary("the tolerance", reads=VerificationError)
def tolerance(value: Any, entry: Field[Any]) -> float | None:
    if value is None or (isinstance(value, (int, float, np.number)) and value >= 0):
        return None if value is None else float(value)
    raise VerificationError(f"{entry.name} must be a number from 0 on, but is {value!r}")


def split(text: str, sign: str, most: int = -1) -> list[str]:
    """Split a text at a sign that no backslash stands before; at most ``most`` times, from the left."""
    parts = re.split(rf"(?<!\\)((?:\\\\)*){re.escape(sign)}", text, maxsplit=max(most, 0))
    return [parts[0], *parts[2::2]] if len(parts) == 1 else [*map("".join, zip(parts[::2], parts[1::2])), parts[-1]]


def plain(text: str) -> str:
    """Return a name without the backslashes that quote signs in it."""
    return re.sub(r"\\([:,=\\])", r"\1", text.strip())


def edit_names(value: Any, entry: Field[Any]) -> tuple[str, ...]:
    """Return the names that an edit is about."""
    name = entry.name
    if isinstance(value, str):
        names = [plain(text) for text in split(value, ",")]
    elif isinstance(value, Sequence) and all(isinstance(text, str) for text in value):
        names = list(value)
    else:
        raise OptionError(f"{name} must be a text or several, but is {shown(value)}")
    if not all(names):
        raise OptionError(f"{name} has an empty name: {shown(value)}")
    twice = sorted({text for text in names if names.count(text) > 1})
    if twice:
        raise OptionError(f"{name} has '{twice[0]}' twice")
    return tuple(names)


def stripped(value: Any, entry: Field[Any]) -> tuple[str, ...]:
    """Return what ``strip`` leaves out."""
    names = edit_names(value, entry)
    unknown = [name for name in names if name not in STRIPPED]
    if unknown:
        raise OptionError(f"strip must be of {', '.join(STRIPPED)}, but has {shown(unknown[0])}")
    return names


def edit_ends(value: Any, entry: Field[Any]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the tensors that ``cut`` begins and ends with."""
    if value is None:
        return None
    if isinstance(value, str):
        sides = split(value, ":")
        if len(sides) != 2:
            raise OptionError(
                f"cut must be FROM:TO with one ':', but {shown(value)} has {len(sides) - 1}; write \\: in a name"
            )
        ends = [edit_names(side, entry) if side.strip() else () for side in sides]
    elif isinstance(value, Sequence) and len(value) == 2:
        ends = [edit_names(side, entry) for side in value]
    else:
        raise OptionError(f"cut must be FROM:TO or two lists of names, but is {shown(value)}")
    both = sorted(set(ends[0]) & set(ends[1]))
    if both:
        raise OptionError(f"cut has '{both[0]}' on both sides: nothing would be computed")
    if not any(ends):
        raise OptionError("cut must name tensors on one side at least")
    return ends[0], ends[1]


def edit_pairs(value: Any, entry: Field[Any]) -> dict[str, Any]:
    """Return the pairs of an edit, such as old and new names."""
    name = entry.name
    form = _FORMS.get(name, entry.metadata["click"]["metavar"])
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if not all(isinstance(key, str) and key for key, _ in pairs):
            raise OptionError(f"{name} must map names, but is {shown(value)}")
        types = {"replace_weight": (object,), "set_dim": (str, Integral)}.get(name, (str,))
        odd = [right for _, right in pairs if not isinstance(right, types) or (name == "rename" and right == "")]
        if odd:
            raise OptionError(f"{name} must be {form}, but has the value {shown(odd[0])}")
    else:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise OptionError(f"{name} must be {form}, several of these or a mapping, but is {shown(value)}")
        pairs = []
        for text in texts if name in _WHOLE else [pair for several in texts for pair in split(several, ",")]:
            key, *rest = split(text, "=", 1)
            key, right = key if name == "set_dim" else plain(key), "".join(rest)
            if not key.strip() or not rest or not (right.strip() or name == "metadata"):
                raise OptionError(f"{name} must be {form}, but is {shown(text)}")
            if name == "rename" and len(split(right, "=")) > 1:
                raise OptionError(f"{name} must be {form} with one '=', but is {shown(text)}; write \\= in a name")
            pairs.append((key.strip(), right.strip() if name in _WHOLE else plain(right)))
    named: dict[str, Any] = {}
    for key, right in pairs:
        if key in named:
            raise OptionError(f"{name} has '{key}' twice")
        named[key] = right
    return named


def as_json(options: Any) -> dict[str, Any]:
    """Return the fields that have JSON and differ from their defaults; of a file its name alone."""
    values: dict[str, Any] = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        if entry.name == "input":
            value = ",".join(_spec_text(spec) for spec in value if not spec.callers_type)
        if entry.metadata["schema"] is None or value in (None, (), "") or value is entry.default:
            continue
        if entry.name == "extensions":
            value = [PurePath(path).name for path in value]
        elif entry.name == "freeze":
            value = sorted(value)
        elif entry.name == "compress" and not isinstance(value, str):
            details = {"group_size": value.group_size, "symmetric": value.symmetric}
            values.update({name: detail for name, detail in details.items() if detail is not None})
            value = f"int{value.bits}"
        elif isinstance(value, tuple):
            value = list(value)
        if value != entry.default:
            values[entry.name] = value
    if getattr(options, "request", None) is not None:
        values["preprocess"] = True  # the model has its steps in an element of their own
    return values


def _spec_text(spec: InputSpec) -> str:
    shape = "" if spec.shape is None else str(spec.shape)
    type_text = "" if spec.element_type is None else f"{{{spec.element_type}}}"
    return f"{spec.name or ''}{shape}{type_text}" + ("" if spec.value is None else "=...")
