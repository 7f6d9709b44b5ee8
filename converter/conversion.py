"""``convert_model`` and ``save_model``, the two calls that most users need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from converter import workflow
from converter.from_onnx.input_forms import InputShapes, OptionError, shown
from converter.from_onnx.options import extension_paths
from converter.onnx_file.reader import ModelSource
from converter.options import ConversionOptions, SavingOptions, options_from, takes
from converter.stages import talking
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model


@boundary(error=OptionError)
@takes(ConversionOptions)
def convert_model(
    model: ModelSource | None = None,
    input: InputShapes = None,
    output: str | Sequence[str] | None = None,
    example_input: Any = None,
    extension: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    verbose: bool = False,
    share_weights: bool = True,
    dynamo: bool = False,
    *,
    options: ConversionOptions | None = None,
    input_model: ModelSource | None = None,
    **keywords: Any,
) -> Model:
    """Convert an ONNX model to OpenVINO IR in memory.

    ``model`` (or ``input_model``) is a path, the file's bytes, a binary file object or an ``onnx.ModelProto``. It may
    also be an IR, as a :class:`ir_runtime.Model` or the path of its ``.xml``: the options, passes and rules are then
    applied to that, whoever wrote it.
    Weights stay views of the file, which must not change while the result is used; without ``share_weights``
    they are read into memory.

    ``options`` are :class:`converter.ConversionOptions`, or the keywords are their fields:

    {options}

    The order of the first arguments, ``example_input`` (which an ONNX model has no use for), ``extension`` (more
    ``extensions``), ``verbose`` (which logs stages with their times and what passes and rules did, at INFO, as
    ``converter``; to stderr where no logging is set up) and ``dynamo`` (which must be False) are those of OpenVINO's
    ``convert_model``.

    Raises :class:`converter.ConversionError`, which lists every reason at once.
    """
    if (model is None) == (input_model is None):
        raise OptionError("convert_model needs one model: a path, bytes, a file object or an onnx.ModelProto")
    if dynamo:
        raise OptionError("dynamo is for PyTorch's modules: export yours with torch.onnx.export and convert the .onnx")
    if extension is not None:
        keywords["extensions"] = (*extension_paths(extension), *extension_paths(keywords.get("extensions")))
    keywords = {"input": input, "output": output, **keywords}
    chosen = options_from(ConversionOptions, options, keywords, "convert_model")
    with talking(bool(verbose)):
        source = model if model is not None else input_model
        return workflow.convert(source, chosen, share_weights=bool(share_weights)).model  # type: ignore[arg-type]


@boundary(error=OptionError)
@takes(SavingOptions)
def save_model(
    model: Model, path: str | os.PathLike[str], *, options: SavingOptions | None = None, **keywords: Any
) -> None:
    """Write ``model`` to ``path`` (``.xml``) and, beside it, the weights (``.bin``).

    Nothing is rounded unless ``options``, or the keywords, which are the fields of
    :class:`converter.SavingOptions`, ask for it:

    {options}

    Both files appear complete or not at all. The path must end in ``.xml``, and the weights may not replace a file that
    the model was read from.

    Raises :class:`converter.ConversionError` for compression that does not exist, :class:`ir_runtime.ModelError`
    for what the format cannot hold, :class:`ir_runtime.FileError`, which is an :class:`OSError`, too, where the disk
    refuses.
    """
    if not isinstance(model, Model):
        raise OptionError(f"save_model needs a model, such as convert_model returns, but got {shown(model)}")
    workflow.save(model, Path(path), options_from(SavingOptions, options, keywords, "save_model"))
