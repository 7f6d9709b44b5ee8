"""From a folder with ONNX models to one that the pipelines of openvino-genai read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from converter.conversion.convert import save
from converter.errors import ConversionError
from converter.folders.image_processors import prepare_images
from converter.folders.language import ENCODER, LANGUAGE_TASKS
from converter.folders.pipeline import Part, Pipeline, TokenizerFiles
from converter.folders.recognition import recognise
from converter.folders.tokenizers import Tokenizers, write_tokenizers
from converter.options.conversion import (
    ConversionOptions,
    FolderOptions,
    SavingOptions,
    both_from,
    refuse_unused,
    takes,
)
from converter.options.input_forms import OptionError
from converter.targets.paged_attention import obstacles
from ir_runtime.boundary import boundary
from ir_runtime.files.whole_files import whole_folder
from ir_runtime.files.xml_writer import check_destination
from ir_runtime.records import record


@record
class ConvertedFolder:
    """What was written, and what is to know about it."""

    pipeline: Pipeline
    """What the folder was recognised as."""
    models: tuple[Path, ...]
    """The IRs, in the order of the pipeline's parts; the weights of each lie beside it."""
    tokenizers: tuple[Tokenizers, ...]
    """What became of the tokenizers."""
    files: tuple[Path, ...]
    """Settings and other files that were written beside the models."""
    without_paged_attention: tuple[str, ...]
    """Why OpenVINO's paged attention cannot run a decoder; empty where it can."""


@record
class LanguageModel:
    """What was written, and what is to know about it."""

    model: Path
    """The IR; its weights lie beside it. Of an encoder-decoder that of the decoder."""
    encoder: Path | None
    """The IR of the encoder, where the model has one."""
    tokenizers: Tokenizers
    """What became of the tokenizer."""
    files: tuple[Path, ...]
    """Settings and files of the tokenizer that were written beside the model."""
    without_paged_attention: tuple[str, ...]
    """Why OpenVINO's paged attention cannot run the model; empty where it can."""


@boundary(error=OptionError)
@takes(FolderOptions, ConversionOptions, SavingOptions)
def convert_folder(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    options: ConversionOptions | None = None,
    saving: SavingOptions | None = None,
    **keywords: Any,
) -> ConvertedFolder:
    """Convert the models in ``folder`` to a folder that a pipeline of openvino-genai reads.

    The files tell the task: ``model_index.json``, ``genai_config.json``, the names of the ONNX files, and the inputs
    and outputs of a single model. ``output``, which is made where there is none, gets an IR for each part, each
    tokenizer as IR (where openvino-tokenizers is installed), and the settings: all files or, where one cannot be
    written, none. Language models become stateful.
    ``options`` and ``saving`` are those of :func:`convert_model` and :func:`save_model`, or the keywords are their
    fields; ``stateful`` refuses folders that hold no language model.

    {options}

    Raises :class:`ConversionError` where the folder is not recognised.
    """
    names = {entry.name for entry in fields(FolderOptions)}
    reading = FolderOptions(**{name: value for name, value in keywords.items() if name in names})
    rest = {name: value for name, value in keywords.items() if name not in names}
    options, saving = both_from(options, saving, rest, "convert_folder")
    pipeline = recognise(Path(folder), reading.task, reading.variant)
    return convert_pipeline(pipeline, Path(output), options, saving, prepares_images=reading.preprocess_images)


@boundary(error=OptionError)
@takes(ConversionOptions, SavingOptions)
def convert_language_model(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    options: ConversionOptions | None = None,
    saving: SavingOptions | None = None,
    **keywords: Any,
) -> LanguageModel:
    """Convert the language model in ``folder`` to a folder that openvino-genai and optimum-intel read.

    As :func:`convert_folder`, for decoders (``genai_config.json`` or ``config.json``) and encoders with decoders
    alone. ``stateful`` is True by default. ``input`` and names for ``stateful`` are for decoders alone.

    Raises :class:`ConversionError` where the folder has no model, or the model no caches.
    """
    if options is None:
        keywords = {"stateful": True, **keywords}
    options, saving = both_from(options, saving, keywords, "convert_language_model")
    written = convert_pipeline(recognise(Path(folder)), Path(output), options, saving)
    encoder = Path(output) / ENCODER
    return LanguageModel(
        written.models[-1],
        encoder if encoder in written.models else None,
        written.tokenizers[0],
        written.files,
        written.without_paged_attention,
    )


def convert_pipeline(
    pipeline: Pipeline,
    target: Path,
    options: ConversionOptions,
    saving: SavingOptions,
    *,
    prepares_images: bool = False,
) -> ConvertedFolder:
    """As :func:`convert_folder`, for a folder that is recognised as ``pipeline``."""
    if target.exists() and target.resolve() == pipeline.path.resolve():
        raise ConversionError(f"the output must be another folder than {pipeline.path}")
    refuse_unused(options, "folder", "a folder")
    if options.stateful and pipeline.task not in LANGUAGE_TASKS:
        raise ConversionError(f"stateful is for language models, but {pipeline.path} is for {pipeline.task}")
    if len(pipeline.parts) > 1 and (options.input or options.request or isinstance(options.stateful, Mapping)):
        parts = ", ".join(part.name for part in pipeline.parts)
        raise ConversionError(
            f"{pipeline.path} has several models ({parts}): shapes and names of inputs cannot be given for all at once"
        )
    if prepares_images:
        pipeline, options = prepare_images(pipeline, options)
    models = {part: part.convert(part.file, options) for part in pipeline.parts}
    limits = [reason for part, model in models.items() if part.is_decoder for reason in obstacles(model)]
    paths = [target / part.target for part in pipeline.parts]
    for path, model in zip(paths, models.values(), strict=True):
        check_destination(model, path)
    with whole_folder(target) as folder_of_parts:
        for part, model in models.items():
            path = folder_of_parts / part.target
            path.parent.mkdir(parents=True, exist_ok=True)
            save(model, path, saving_of(part, saving))
        files = [target / name for name in _write_files(pipeline, folder_of_parts)]
        tokenizers = tuple(_write_tokenizers(entry, folder_of_parts, target) for entry in pipeline.tokenizers)
    return ConvertedFolder(pipeline, tuple(paths), tokenizers, tuple(files), tuple(limits))


def _write_tokenizers(entry: TokenizerFiles, folder: Path, target: Path) -> Tokenizers:
    """Write them to ``folder``, whose files will be in ``target``: there the user runs a command that is missing."""
    written = write_tokenizers(entry.source, folder / entry.target, pads_left=entry.pads_left)
    why_not, command = (text.replace(str(folder), str(target)) for text in (written.why_not, written.command))
    return replace(written, why_not=why_not, command=command)


def saving_of(part: Part, saving: SavingOptions) -> SavingOptions:
    """Return how a part is saved: compression is for the largest, and spares those that little is gained by."""
    if saving.compression is None or part.compression == "requested":
        return saving
    if part.compression == "int8":
        return replace(saving, compress="int8", group_size=None, symmetric=None)
    return replace(saving, compress=None, group_size=None, symmetric=None, compress_to_fp16=True)


def _write_files(pipeline: Pipeline, target: Path) -> list[str]:
    """Copy what stays as it is, and write the settings that are missing; the names of both."""
    written = []
    for file, name in pipeline.copies:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / name)
        written.append(name)
    for name, settings in pipeline.settings.items():
        (target / name).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        written.append(name)
    return written
