"""convert_model and save_model: the two calls that most users need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from converter.onnx_file.reader import ModelSource, open_model
from converter.options import InputShapes, make_options
from converter.passes.compression import Halved, halve
from converter.passes.pipeline import passes
from converter.targets.registry import DEFAULT, Target
from converter.translation.extensions import load_extension
from converter.translation.open_extents import translate_open
from converter.translation.translator import translate_model
from ir_runtime.graph import Model
from ir_runtime.rewrite import clone


def convert_model(
    model: ModelSource,
    *,
    input: InputShapes = None,
    freeze: Mapping[str, Any] | None = None,
    output: str | Sequence[str] | None = None,
    batch: int | None = None,
    extensions: Sequence[str | os.PathLike[str]] = (),
    static: bool = False,
    target: str = DEFAULT,
) -> Model:
    """Convert an ONNX model to OpenVINO IR in memory.

    ``model`` is a path, the file's bytes, a binary file object or an ``onnx.ModelProto``. Weights
    stay views of the file, which must not change while the result is used.

    ``input`` sets shapes: ``{"a": [1, 3, 224, 224]}`` or ``[("a", [1, 3])]``, with ``-1``, None or
    ``"1..8"`` for extents that stay open. ``freeze`` gives inputs a constant value. ``output`` names the
    tensors to return instead of the model's outputs, also inner ones; what they do not need is left
    out. ``batch`` sets the first dimension of every input. ``extensions`` are Python files that
    register operators of the user's own.

    What follows from the shapes of the inputs stays computed, so that the model can be given other shapes
    later. With ``static`` all of it is decided now: the smallest file, for the shapes of today alone.

    ``target`` is the runtime that the IR is for: ``"cpu"``, OpenVINO's CPU plug-in, for which layers that it
    gets wrong or runs slowly are said differently, ``"cpu@2024.6"`` and the like, which have no later operations,
    or ``"any"``, the plain IR.

    Raises :class:`converter.ConversionError`, which lists every reason at once.
    """
    return convert(
        model,
        input=input,
        freeze=freeze,
        output=output,
        batch=batch,
        extensions=extensions,
        static=static,
        target=target,
    ).model


@dataclass(frozen=True)
class Conversion:
    """A converted model, and how often which rules of the target acted on it."""

    model: Model
    rules: Mapping[str, int]


def convert(
    model: ModelSource,
    *,
    input: InputShapes,
    freeze: Mapping[str, Any] | None,
    output: str | Sequence[str] | None,
    batch: int | None,
    extensions: Sequence[str | os.PathLike[str]],
    static: bool,
    target: str,
) -> Conversion:
    """As :func:`convert_model`, with what there is to say of it."""
    runtime = Target.parse(target)
    for extension in extensions:
        load_extension(extension)
    options = make_options(input, freeze, output, batch)
    file = open_model(model)
    said: set[str] = set()

    rules: dict[str, int] = {}

    def finish(translated: Model) -> None:
        # A graph may be finished more than once, until its extents are open; the last time counts.
        passes.run(translated)
        rules.clear()
        rules.update(runtime.apply(translated))

    made = translate_open(lambda opens: translate_model(file, options, opens, said), finish, static=static)
    return Conversion(made, rules)


def save_model(model: Model, path: str | os.PathLike[str], *, compress_to_fp16: bool = False) -> None:
    """Write ``model`` to ``path`` (``.xml``) and, beside it, the weights (``.bin``).

    With ``compress_to_fp16`` float32 and float64 weights are stored as float16, each followed by a
    conversion back; nothing is rounded unless asked for. Both files appear complete or not at all.

    Raises :class:`ir_runtime.ModelError` for what the format cannot hold, :class:`OSError` where the
    disk refuses.
    """
    # Converting alone needs no XML.
    from ir_runtime.xml_writer import write_model

    write_model(halved(model)[0] if compress_to_fp16 else model, path)


def halved(model: Model) -> tuple[Model, Halved]:
    """A copy of ``model`` whose weights are float16, and what became of them."""
    made = clone(model)
    return made, halve(made)
