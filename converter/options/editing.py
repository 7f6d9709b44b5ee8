"""How to edit a model: the options of ``edit``, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

from converter.options.conversion import TEXT, TEXTS, described, option
from ir_runtime.records import record

if TYPE_CHECKING:
    from ir_runtime.graph import Array

STRIPPED = ("names", "docs", "metadata")
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_MAPPING: Mapping[str, Any] = {"type": "object", "additionalProperties": TEXT}


def _repeated(text: str, flags: str, *, schema: Mapping[str, Any] = TEXTS, metavar: str = "NAMES") -> Any:
    return option((), text, flags, schema=schema, multiple=True, metavar=metavar)


@described
@record
class EditOptions:
    """What to change in a model. Steps are done in the order of the fields, whatever the order they are given in.

    Names are those of the file until ``rename``. In texts a backslash stands before a colon, comma or equals sign that
    is part of a name; mappings and lists have names as they are.

    Raises :class:`ConversionError` for a value that fits no model.

    {options}
    """

    merge: str | os.PathLike[str] | None = option(
        None,
        """Another model to put behind this one.

        Names that both models have get a prefix in the other one.
        """,
        "--merge",
        schema=TEXT,
        path="input",
    )
    connect: str | Sequence[str] | Mapping[str, str] = _repeated(
        """With --merge: the output of the model that an input of the other one reads, "y=x".

        The output is none of the result any more. Inputs that are not connected stay inputs.
        """,
        "--connect",
        schema=_MAPPING,
        metavar="OUTPUT=INPUT",
    )
    cut: str | tuple[Sequence[str], Sequence[str]] | None = option(
        None,
        """The model between tensors: "a,b:c" computes c from a and b; ":c" from the inputs; "a:" to the outputs.

        What lies outside is left out.
        """,
        "--cut",
        schema=TEXT,
        metavar="FROM:TO",
    )
    remove_output: str | Sequence[str] = _repeated(
        """Outputs to remove, with what only they need.""",
        "--remove-output",
    )
    add_output: str | Sequence[str] = _repeated(
        """Inner tensors to return, too.""",
        "--add-output",
    )
    insert_after: str | Sequence[str] | Mapping[str, str] = option(
        (),
        """An operator behind a tensor: "logits=Softmax(axis=-1)", "image=Div(255)", "x=com.microsoft.FastGelu()".

        All readers of the tensor read the result. An output keeps its name. Further inputs of the operator are
        numbers, lists or names of tensors, in order; attributes are numbers, lists, texts and types
        ("Cast(to=float16)").
        """,
        "--insert-after",
        schema=_MAPPING,
        multiple=True,
        metavar="TENSOR=OP",
    )
    replace_weight: str | Sequence[str] | Mapping[str, str | os.PathLike[str] | Array] = _repeated(
        """Another value for a weight, of its type and shape, "w=w.npy".

        In Python also an array.
        """,
        "--replace-weight",
        schema=_MAPPING,
        metavar="NAME=FILE",
    )
    cast_weights: bool = option(
        False,
        "Convert the values of --replace-weight to the types of the weights.",
        "--cast-weights",
    )
    set_dim: str | Sequence[str] | Mapping[str, str | int] = _repeated(
        """A dimension of an input, "image:0=batch", "image:0=1", "image:0=?"; or a named dimension, "batch=1".

        What follows from it changes, too.
        """,
        "--set-dim",
        schema={"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        metavar="DIM=VALUE",
    )
    rename: str | Sequence[str] | Mapping[str, str] = _repeated(
        """Other names for inputs, outputs, weights and inner tensors, "old=new".""",
        "--rename",
        schema=_MAPPING,
        metavar="OLD=NEW",
    )
    strip: str | Sequence[str] = _repeated(
        """What to leave out: names (of nodes and inner tensors), docs (descriptions), metadata.""",
        "--strip",
        metavar="WHAT",
    )
    metadata: str | Sequence[str] | Mapping[str, str] = _repeated(
        """A property of the model, "author=me"; "author=" removes it.""",
        "--metadata",
        schema=_MAPPING,
        metavar="KEY=VALUE",
    )

    def pairs(self, name: str) -> dict[str, Any]:
        """Return an option of pairs, such as ``rename``, as a mapping."""
        return self.__dict__[name]

    def names(self, name: str) -> tuple[str, ...]:
        """Return an option of names, such as ``add_output``, as these."""
        return self.__dict__[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name; of weights and models the names alone."""
        values = {e.name: value for e in fields(self) if (value := getattr(self, e.name)) != e.default and value}
        if "replace_weight" in values:
            values["replace_weight"] = list(values["replace_weight"])
        if "merge" in values:
            values["merge"] = _name_of_model(values["merge"])
        return values

    def __post_init__(self) -> None:
        from converter.options.input_forms import OptionError, shown
        from ir_runtime.boundary import boundary

        with boundary("the arguments", error=OptionError, reads=OptionError):
            values = self.__dict__
            for name, form in _PAIRS.items():
                values[name] = _pairs(name, values[name], form)
            for name in LISTS:
                values[name] = _list(name, values[name])
            values["cut"] = None if self.cut is None else _ends(self.cut)
            unknown = [name for name in self.strip if name not in STRIPPED]
            if unknown:
                raise OptionError(f"strip must be of {', '.join(STRIPPED)}, but has {shown(unknown[0])}")
            if self.connect and self.merge is None:
                raise OptionError("connect needs merge, the model that is connected")
            if self.merge is not None and not self.connect:
                raise OptionError('merge needs connect: which output feeds which input, "y=x"')
            if self.cast_weights and not self.replace_weight:
                raise OptionError("cast_weights needs replace_weight")


LISTS = ("remove_output", "add_output", "strip")
"""Options of names."""
_PAIRS = {
    "connect": "OUTPUT=INPUT",
    "insert_after": "TENSOR=OPERATOR(...)",
    "replace_weight": "NAME=FILE.npy",
    "set_dim": "INPUT:AXIS=VALUE or NAME=VALUE",
    "rename": "OLD=NEW",
    "metadata": "KEY=VALUE",
}
"""Options of pairs -> how a pair is written."""
_WHOLE = ("insert_after", "metadata", "replace_weight")
"""Options whose values may have commas: a text is one pair."""


def split(text: str, sign: str, most: int = -1) -> list[str]:
    """Split a text at a sign that no backslash stands before; at most ``most`` times, from the left."""
    parts = re.split(rf"(?<!\\)((?:\\\\)*){re.escape(sign)}", text, maxsplit=max(most, 0))
    return [parts[0], *parts[2::2]] if len(parts) == 1 else [*map("".join, zip(parts[::2], parts[1::2])), parts[-1]]


def plain(text: str) -> str:
    """Return a name without the backslashes that quote signs in it."""
    return re.sub(r"\\([:,=\\])", r"\1", text.strip())


def _list(name: str, value: Any) -> tuple[str, ...]:
    from converter.options.input_forms import OptionError, shown

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


def _pairs(name: str, value: Any, form: str) -> dict[str, Any]:
    from converter.options.input_forms import OptionError, shown

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
        for text in texts if name in _WHOLE else [pair for entry in texts for pair in split(entry, ",")]:
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


def _name_of_model(model: Any) -> str:
    """Return the path of a model, or the name of one in memory."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    return str(getattr(model, "name", "") or getattr(getattr(model, "graph", None), "name", "") or "other")


def _ends(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from converter.options.input_forms import OptionError, shown

    if isinstance(value, str):
        sides = split(value, ":")
        if len(sides) != 2:
            raise OptionError(
                f"cut must be FROM:TO with one ':', but {shown(value)} has {len(sides) - 1}; write \\: in a name"
            )
        ends = [_list("cut", side) if side.strip() else () for side in sides]
    elif isinstance(value, Sequence) and len(value) == 2:
        ends = [_list("cut", side) for side in value]
    else:
        raise OptionError(f"cut must be FROM:TO or two lists of names, but is {shown(value)}")
    both = sorted(set(ends[0]) & set(ends[1]))
    if both:
        raise OptionError(f"cut has '{both[0]}' on both sides: nothing would be computed")
    if not any(ends):
        raise OptionError("cut must name tensors on one side at least")
    return ends[0], ends[1]


@record
class SplitData:
    """How the external data of an edited ONNX model is divided."""

    split_size: str | int | None = option(
        None,
        """The most bytes of a file of external data: 1GB, 500MB, 2GiB. A larger weight has a file of its own.

        The files are ``model.onnx.data``, ``model.onnx.data_1`` and so on.
        """,
        "--split-size",
        schema=TEXT,
        metavar="SIZE",
    )

    @property
    def most_bytes(self) -> int | None:
        """The size as a number."""
        return self.__dict__["_bytes"]

    def __post_init__(self) -> None:
        from converter.options.input_forms import OptionError, shown

        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(self.split_size).strip(), re.IGNORECASE)
        factor = _SIZES.get(match[2].upper()) if match else None
        size = None if self.split_size is None or not match or factor is None else int(float(match[1]) * factor)
        if self.split_size is not None and not size:
            raise OptionError(f"split_size must be a size such as 1GB or 500MB, but is {shown(self.split_size)}")
        self.__dict__["_bytes"] = size
