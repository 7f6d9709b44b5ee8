"""How to edit a model: the options of ``edit``, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from converter.errors import OptionError
from converter.options.conversion import TEXT, TEXTS, Options, option

if TYPE_CHECKING:
    from ir_runtime.graph import Array

LISTS = ("remove_output", "add_output", "strip")
"""Options of names."""
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_MAPPING: Mapping[str, Any] = {"type": "object", "additionalProperties": TEXT}


def _names(text: str, flags: str, *, metavar: str = "NAMES", read: str = "edit_names") -> Any:
    return option((), text, flags, schema=TEXTS, multiple=True, metavar=metavar, read=read)


def _pairs(text: str, flags: str, *, schema: Mapping[str, Any] = _MAPPING, metavar: str = "NAMES") -> Any:
    return option((), text, flags, schema=schema, multiple=True, metavar=metavar, read="edit_pairs")


class EditOptions(Options):
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
    connect: str | Sequence[str] | Mapping[str, str] = _pairs(
        """With --merge: the output of the model that an input of the other one reads, "y=x".

        The output is none of the result any more. Inputs that are not connected stay inputs.
        """,
        "--connect",
        metavar="OUTPUT=INPUT",
    )
    cut: str | tuple[Sequence[str], Sequence[str]] | None = option(
        None,
        """The model between tensors: "a,b:c" computes c from a and b; ":c" from the inputs; "a:" to the outputs.

        What lies outside is left out.
        """,
        "--cut",
        schema=TEXT,
        read="edit_ends",
        metavar="FROM:TO",
    )
    remove_output: str | Sequence[str] = _names(
        """Outputs to remove, with what only they need.""",
        "--remove-output",
    )
    add_output: str | Sequence[str] = _names(
        """Inner tensors to return, too.""",
        "--add-output",
    )
    insert_after: str | Sequence[str] | Mapping[str, str] = _pairs(
        """An operator behind a tensor: "logits=Softmax(axis=-1)", "image=Div(255)", "x=com.microsoft.FastGelu()".

        All readers of the tensor read the result. An output keeps its name. Further inputs of the operator are
        numbers, lists or names of tensors, in order; attributes are numbers, lists, texts and types
        ("Cast(to=float16)").
        """,
        "--insert-after",
        metavar="TENSOR=OP",
    )
    replace_weight: str | Sequence[str] | Mapping[str, str | os.PathLike[str] | Array] = _pairs(
        """Another value for a weight, of its type and shape, "w=w.npy".

        In Python also an array.
        """,
        "--replace-weight",
        metavar="NAME=FILE",
    )
    cast_weights: bool = option(
        False,
        "Convert the values of --replace-weight to the types of the weights.",
        "--cast-weights",
    )
    set_dim: str | Sequence[str] | Mapping[str, str | int] = _pairs(
        """A dimension of an input, "image:0=batch", "image:0=1", "image:0=?"; or a named dimension, "batch=1".

        What follows from it changes, too.
        """,
        "--set-dim",
        schema={"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        metavar="DIM=VALUE",
    )
    rename: str | Sequence[str] | Mapping[str, str] = _pairs(
        """Other names for inputs, outputs, weights and inner tensors, "old=new".""",
        "--rename",
        metavar="OLD=NEW",
    )
    strip: str | Sequence[str] = _names(
        """What to leave out: names (of nodes and inner tensors), docs (descriptions), metadata.""",
        "--strip",
        metavar="WHAT",
        read="stripped",
    )
    metadata: str | Sequence[str] | Mapping[str, str] = _pairs(
        """A property of the model, "author=me"; "author=" removes it.""",
        "--metadata",
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

    def _check(self) -> None:
        if self.connect and self.merge is None:
            raise OptionError("connect needs merge, the model that is connected")
        if self.merge is not None and not self.connect:
            raise OptionError('merge needs connect: which output feeds which input, "y=x"')
        if self.cast_weights and not self.replace_weight:
            raise OptionError("cast_weights needs replace_weight")


def _name_of_model(model: Any) -> str:
    """Return the path of a model, or the name of one in memory."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    return str(getattr(model, "name", "") or getattr(getattr(model, "graph", None), "name", "") or "other")


class SplitData(Options):
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

    @cached_property
    def most_bytes(self) -> int | None:
        """The size as a number."""
        if self.split_size is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(self.split_size).strip(), re.IGNORECASE)
        size = int(float(match[1]) * _SIZES.get(match[2].upper(), 0)) if match else 0
        if not size:
            from converter.options.input_forms import shown

            raise OptionError(f"split_size must be a size such as 1GB or 500MB, but is {shown(self.split_size)}")
        return size

    def _check(self) -> None:
        _ = self.most_bytes
