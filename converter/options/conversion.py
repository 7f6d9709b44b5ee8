"""How to convert and how to save a model: frozen objects whose fields are the only place that describes an option.

The signatures and docstrings of the Python API, the options of the command line, their groups in ``--help``, the
branches that refuse them, and the JSON schema are derived from the fields and their metadata. Nothing heavy is imported
at the top, since ``--help`` reads the fields: values are read by :mod:`converter.options.values`, which is imported
when an object is built.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from converter.errors import ConversionError, OptionError
from ir_runtime.boundary import boundary
from ir_runtime.records import bind, dataclass_transform, record

if TYPE_CHECKING:
    from converter.options.input_forms import InputShapes
    from converter.options.inputs import Bindings
    from converter.passes.compression.weight_compression import WeightCompression
    from converter.passes.preprocessing.description import Postprocess, Preprocess
    from converter.passes.preprocessing.request import Request
    from converter.targets.registry import Target

STEPS = 8
"""The tokens that a stateful model is verified with after its conversion."""

T = TypeVar("T")
Call = TypeVar("Call", bound=Callable[..., Any])


def option(
    default: Any,
    text: str,
    flags: str = "",
    *,
    parameter: str = "",
    group: str = "",
    unused_in: Sequence[str] = (),
    requires: str = "",
    schema: Mapping[str, Any] | None = None,
    read: str = "",
    **click: Any,
) -> Any:
    """Return the field of an option.

    The first paragraph of ``text`` is the help of the command line; the documentation of the API has all of it.
    ``flags`` are the words of the command line (none: the option is Python's alone), ``parameter`` is the name of the
    parameter there, by default the field's. ``unused_in`` names branches of commands that refuse the option,
    ``requires`` another field without which it has no meaning. ``schema`` describes the value as JSON, from which the
    type on the command line follows; it is None for a value that has no JSON, and follows from a default that is a
    boolean. ``read`` names the function of :mod:`converter.options.values` that checks a value and returns it in the
    form in which it is kept: by default switches become booleans, other values stay as they are. The other keywords
    are those of ``click.Option``; ``path`` says what a path is to be.
    """
    schema = SWITCH if schema is None and isinstance(default, bool) else schema
    metadata = {
        "text": inspect.cleandoc(text),
        "flags": flags,
        "parameter": parameter,
        "group": group,
        "unused_in": tuple(unused_in),
        "requires": requires,
        "schema": schema,
        "read": read or ("switch" if schema is SWITCH else ""),
        "click": click,
    }
    return field(default=default, metadata=metadata)


def same_option(cls: type, name: str, text: str = "", *, group: str = "", unused_in: Sequence[str] = ()) -> Any:
    """Return the field of an option that ``cls`` has, too, with other branches, and another text where one is given.

    Its value is read when it becomes that of ``cls``.
    """
    entry: Field[Any] = cls.__dataclass_fields__[name]  # type: ignore[attr-defined]
    own_text = inspect.cleandoc(text) or entry.metadata["text"]
    changed = {"text": own_text, "group": group, "unused_in": tuple(unused_in), "read": ""}
    return field(default=entry.default, metadata={**entry.metadata, **changed})


def reference(*classes: type) -> str:
    """Return the paragraphs that document the fields of ``classes``."""
    return "\n\n".join(f"``{entry.name}``: {entry.metadata['text']}" for cls in classes for entry in fields(cls))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Options:
    """A record of options, whose values are read and checked once, when the object is built.

    The texts of the fields replace ``{options}`` in the docstring of a class.
    """

    error: ClassVar[type[ConversionError]] = OptionError
    """What an object of the caller that fails becomes."""

    def __init_subclass__(cls) -> None:
        record(cls)
        if cls.__doc__:  # python -OO has none
            cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{options}", reference(cls))

    def __init__(self, *values: Any, **named: Any) -> None:
        given: dict[str, Any] = {}
        bind(self, given, values, named)
        with boundary("the arguments", error=self.error, reads=self.error):
            self.__dict__.update(self._read(given))
            self._check()

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a caller gives in the form in which they are kept."""
        readers = importlib.import_module("converter.options.values")
        entries = cls.__dataclass_fields__  # type: ignore[attr-defined]
        named = {name: entry.metadata["read"] or "as_given" for name, entry in entries.items() if name in given}
        return {name: getattr(readers, reader)(given[name], entries[name]) for name, reader in named.items()}

    def _check(self) -> None:
        """Raise :class:`ConversionError` for values that do not fit each other."""

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from their defaults as JSON, without the folders of files."""
        from converter.options.values import as_json

        return as_json(self)

    @cached_property
    def bindings(self) -> Bindings:
        """Shapes, types and values by input, of options that have ``input``, ``freeze`` and ``batch``."""
        from converter.options.inputs import bindings_of

        return bindings_of(self, stateful=bool(getattr(self, "stateful", False)))


_SHAPES, _LAYERS, _WEIGHTS, _STATES = "Inputs, outputs and shapes", "Layers", "Weights", "Language models"
_TRANSLATION = ("stateless", "folder")
"""Branches of ``convert`` that take a stateful IR or a folder, where no inputs and outputs can be chosen."""
TEXT: Mapping[str, Any] = {"type": "string"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT}
SWITCH: Mapping[str, Any] = {"type": "boolean"}
"""Schemas of a string, of several and of a switch."""


class ConversionOptions(Options):
    """How to convert a model. The values are checked once, when the object is built.

    Raises :class:`ConversionError` for a value that no model could be converted with.

    {options}
    """

    input: InputShapes = option(
        None,
        """Shapes, types and constant values of inputs: "a[1,3,224,224],b[?,16]{f16},c[1..8]", "[1,3]" for inputs
        in order, "sr=16000", "mask=mask.npy".

        Also ``{"a": [1, 3, 224, 224]}``, ``[("a", [1, 3], "f16")]`` or, for inputs in order, shapes alone:
        ``[1, 3]``, ``[[1, 3], [2]]``; with ``-1``, None, ``"1..8"`` or dimensions for dynamic dimensions. Shapes,
        dimensions and types may be NumPy's or OpenVINO's own. A type replaces the one that the file declares.
        """,
        "--input",
        parameter="input_texts",
        group=_SHAPES,
        unused_in=["stateless"],
        schema=TEXT,
        multiple=True,
        metavar="TEXT",
        read="conversion_inputs",
    )
    freeze: Mapping[str, Any] | None = option(
        None, "Constant values that replace inputs, by name.", schema=TEXTS, read="frozen"
    )
    output: str | Sequence[str] | None = option(
        None,
        """Tensors to return instead of the model's outputs: "a,b".

        Inner tensors, too; what they do not need is left out.
        """,
        "--output",
        parameter="outputs",
        group=_SHAPES,
        unused_in=_TRANSLATION,
        schema=TEXTS,
        multiple=True,
        metavar="NAMES",
        read="output_names",
    )
    batch: int | None = option(
        None,
        "The first dimension of every input.",
        "--batch",
        group=_SHAPES,
        unused_in=_TRANSLATION,
        schema={"type": "integer", "minimum": 1},
        read="batch",
    )
    static: bool = option(
        False,
        """Compute now what depends on the inputs' shapes: a smaller IR, for these shapes alone.

        Without it such values are computed by layers, so that the model can be reshaped later.
        """,
        "--static",
        group=_SHAPES,
        unused_in=_TRANSLATION,
    )
    target: str = option(
        "cpu",
        """The runtime: "cpu" (OpenVINO's CPU plug-in), "cpu@2024.6" (a release), "any" (no replaced layers).

        Layers that the CPU plug-in gets wrong or runs slowly are replaced by others; the IR of a release has no
        later operations.
        """,
        "--target",
        parameter="runtime",
        group=_LAYERS,
        unused_in=["stateless"],
        schema=TEXT,
        metavar="NAME",
    )
    fuse: bool = option(
        True,
        """Fuse node sequences that exporters emit for one operation (LayerNorm, GELU ...) into single layers.

        Otherwise each ONNX node keeps layers of its own.
        """,
        "--fuse/--no-fuse",
        group=_LAYERS,
        unused_in=["stateless"],
    )
    skip_passes: str | Sequence[str] = option(
        (),
        """Passes of cleanup and fusion to leave out: "gelus,clamps".

        To find the pass behind a difference, or to keep the layers of one node sequence. The names are those that
        ``onnx2ir convert`` prints as "Layers replaced by passes".
        """,
        "--skip-pass",
        group=_LAYERS,
        unused_in=["stateless"],
        schema=TEXTS,
        multiple=True,
        metavar="NAMES",
        read="pass_names",
    )
    exact: bool = option(
        False,
        """Keep every weight as the file has it: no scales or factors become part of others.

        Otherwise scales behind convolutions and matrix multiplications become part of their weights.
        """,
        "--exact",
        group=_LAYERS,
        unused_in=["stateless"],
    )
    extensions: Sequence[str | os.PathLike[str]] = option(
        (),
        "Python files that register operators.",
        "--extension",
        group=_LAYERS,
        unused_in=_TRANSLATION,
        schema=TEXTS,
        multiple=True,
        metavar="FILES",
        read="extension_paths",
    )
    stateful: bool | Mapping[str, str] = option(
        False,
        """Turn the KV cache of a language model into state; MODEL may be a folder with such a model.

        OpenVINO's runtimes of language models expect that. Keys then count as ``attention_mask`` says, and
        positions are those of ``position_ids``, which becomes an input where the file has none. A mapping of
        inputs to outputs names the state where names and layers do not show it.
        """,
        "--stateful",
        group=_STATES,
        unused_in=["stateless"],
        schema={"anyOf": [SWITCH, {"type": "object", "additionalProperties": TEXT}]},
        is_flag=True,
        read="states",
    )
    preprocess: Mapping[str, Preprocess] | str | os.PathLike[str] | None = option(
        None,
        """Steps that become layers in front of the model, by input, or the path of a TOML file.

        ``{"image": Preprocess(element_type="u8", layout="nhwc", mean=[...], resize="linear")}``, see
        :class:`converter.Preprocess`.
        """,
    )
    postprocess: Mapping[str, Postprocess] | None = option(
        None, "Steps that become layers behind the model, by output: :class:`converter.Postprocess`."
    )

    @cached_property
    def runtime(self) -> Target:
        """The runtime that ``target`` names."""
        from converter.targets.registry import Target

        return Target.parse(self.target)

    @cached_property
    def request(self) -> Request | None:
        """Preprocessing and postprocessing; None for none."""
        from converter.options.values import request_of

        return request_of(self)

    def _check(self) -> None:
        _ = self.bindings, self.runtime
        if self.request is not None and self.stateful:
            raise OptionError("preprocessing is for models without caches: give no stateful with it")


class SavingOptions(Options):
    """How to save a model. Raises :class:`ConversionError` for compression that does not exist.

    {options}
    """

    compress_to_fp16: bool = option(
        False,
        """Store float weights as float16.

        Each is followed by a conversion back. With ``compress`` the other constants are stored as float16.
        """,
        "--compress-to-fp16/--no-compress-to-fp16",
        group=_WEIGHTS,
        show_default=True,
    )
    compress: str | WeightCompression | None = option(
        None,
        """Store weights of matrix multiplications, embedding lookups and convolutions in 8 or 4 bits.

        With ``"int4"`` embeddings, convolutions and last layers take 8 bits. Or a :class:`WeightCompression`.
        """,
        "--compress",
        group=_WEIGHTS,
        schema={"enum": ["int8", "int4"]},
    )
    group_size: int | None = option(
        None,
        "With --compress: weights of a channel that share a scale; -1 for all [int8: -1, int4: 128].",
        "--group-size",
        group=_WEIGHTS,
        requires="compress",
        schema={"type": "integer"},
        metavar="N",
    )
    symmetric: bool | None = option(
        None,
        "With --compress: codes without or with a zero point [int8: asymmetric, int4: symmetric].",
        "--symmetric/--asymmetric",
        group=_WEIGHTS,
        requires="compress",
        schema=SWITCH,
    )
    record: bool = option(
        True,
        """Record in the IR how it was derived: versions, digest of the source, options, passes and rules.

        The record is the element ``onnx2ir`` of ``rt_info``; it has no times and no folders.
        """,
        "--record/--no-record",
        group="Output",
    )

    @cached_property
    def compression(self) -> WeightCompression | None:
        """The compression that ``compress``, ``group_size`` and ``symmetric`` describe."""
        from converter.options.values import compression_of

        return compression_of(self)

    def _check(self) -> None:
        _ = self.compression


_of_folders = partial(option, group="Folders", unused_in=["stateless", "several", "model"])


class FolderOptions(Options):
    """How to read a folder with models.

    {options}
    """

    task: str | None = _of_folders(
        None,
        """What the models of a folder are for, where that cannot be told: "text-ranking", "feature-extraction".

        ``onnx2ir inspect FOLDER`` shows the task that a folder is recognised for.
        """,
        "--task",
        schema=TEXT,
        metavar="NAME",
        read="text",
    )
    variant: str | None = _of_folders(
        None,
        """Which variant of the files of a folder to take: "q4" for model_q4.onnx, "q4,vision_encoder=fp16" for each.

        By default the file without an ending ("fp32"), or the only one.
        """,
        "--variant",
        schema=TEXT,
        metavar="NAMES",
        read="text",
    )

    preprocess_images: bool = _of_folders(
        False,
        """Put the steps of preprocessor_config.json in front of a model of images, which then takes bytes.

        The IR takes u8 images ``[n, height, width, 3]`` of any size, red first, and resizes with Pillow's filters,
        crops, rescales and normalizes them. The file is not copied.
        """,
        "--preprocess-images",
        read="strict_switch",
    )


def parameter_of(entry: Field[Any]) -> str:
    """Return the name that the command line's parameter for a field has."""
    return str(entry.metadata["parameter"] or entry.name)


def summary(entry: Field[Any]) -> str:
    """Return the first paragraph of a field's text."""
    return " ".join(entry.metadata["text"].split("\n\n")[0].split())


def on_command_line(*classes: type) -> list[Field[Any]]:
    """Return the fields that are options of the command line."""
    return [entry for cls in classes for entry in fields(cls) if entry.metadata["flags"]]


def options_from(cls: type[T], options: T | None, keywords: Mapping[str, Any], function: str) -> T:
    """Return ``options``, or those of the ``keywords`` that ``function`` was called with.

    Raises :class:`ConversionError` where both are set, or a keyword is no field.
    """
    if options is None:
        return cls(**keywords)
    if not isinstance(options, cls):
        raise OptionError(f"options must be {cls.__name__}(...), but is a {type(options).__name__}")
    defaults = {entry.name: entry.default for entry in fields(cls)}  # type: ignore[arg-type]
    # Not compared by value: a caller's array or object may have an __eq__ of any meaning.
    repeated = [name for name, value in keywords.items() if value is not defaults[name]]
    if repeated:
        raise OptionError(f"'{repeated[0]}' cannot be set beside options: use dataclasses.replace(options, ...)")
    return options


def both_from(
    options: ConversionOptions | None, saving: SavingOptions | None, keywords: Mapping[str, Any], function: str
) -> tuple[ConversionOptions, SavingOptions]:
    """Return the options of a conversion and of saving, as :func:`options_from` does for one class."""
    names = {entry.name for entry in fields(SavingOptions)}
    saved = {name: value for name, value in keywords.items() if name in names}
    others = {name: value for name, value in keywords.items() if name not in names}
    return (
        options_from(ConversionOptions, options, others, function),
        options_from(SavingOptions, saving, saved, function),
    )


def refuse_unused(options: ConversionOptions, branch: str, situation: str) -> None:
    """Raise :class:`ConversionError` where an option is set that ``branch`` (``situation``) does not use."""
    refused = {entry.name for entry in fields(ConversionOptions) if branch in entry.metadata["unused_in"]}
    for name in refused.intersection(options.to_dict()):
        raise OptionError(f"{name} cannot be used with {situation}")


def takes(*classes: type) -> Callable[[Call], Call]:
    """Decorator: the function's ``**keywords`` are the fields of ``classes``, in its signature and its docstring.

    The text of the fields replaces ``{options}`` in the docstring.
    """

    def derive(function: Call) -> Call:
        signature = inspect.signature(function)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        entries = [entry for cls in classes for entry in fields(cls)]
        names = {parameter.name for parameter in own}
        own += [
            inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=entry.default, annotation=entry.type)
            for entry in entries
            if entry.name not in names
        ]
        function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        function.option_classes = classes  # type: ignore[attr-defined]
        function.accepted_keywords = frozenset(parameter.name for parameter in own)  # type: ignore[attr-defined]
        if function.__doc__:  # python -OO has none
            function.__doc__ = inspect.cleandoc(function.__doc__).replace("{options}", reference(*classes))
        return function

    return derive


def json_schema(*classes: type) -> dict[str, Any]:
    """Return the JSON schema of the fields that have JSON, each left out where it has its default."""
    properties = {
        entry.name: {"description": summary(entry), **entry.metadata["schema"]}
        for cls in classes
        for entry in fields(cls)
        if entry.metadata["schema"] is not None
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
