"""From a folder with a language model as ONNX to one that OpenVINO's runtimes of language models read."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.conversion import convert, save
from converter.errors import ConversionError
from converter.from_onnx.input_forms import OptionError
from converter.options import ConversionOptions, SavingOptions, both_from, refuse_unused, takes
from converter.targets.paged_attention import obstacles
from ir_runtime.boundary import boundary
from ir_runtime.records import record

from .encoder_decoders import convert_decoder, convert_encoder
from .settings import configuration_of, generation_of
from .source import CONFIGURATION, GENERATION, SourceFolder
from .tokenizers import Tokenizers, write_tokenizers

MODEL, ENCODER, DECODER = "openvino_model.xml", "openvino_encoder_model.xml", "openvino_decoder_model.xml"
"""The names that the runtimes look for: that of a decoder alone, and those of an encoder and its decoder."""
_logger = logging.getLogger("converter")


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

    ``folder`` is that of onnxruntime-genai's model builder (``genai_config.json``) or of Optimum (``config.json``).
    ``output``, which is made where there is none, gets ``openvino_model.xml`` and ``.bin``, the tokenizer as IR (where
    openvino-tokenizers is installed), the files of the tokenizer, ``config.json`` and ``generation_config.json``. Of
    an encoder-decoder (Whisper, T5, BART; ``encoder_model.onnx`` and a decoder with caches) it gets
    ``openvino_encoder_model.xml`` and ``openvino_decoder_model.xml`` instead. ``options`` and ``saving`` are
    those of :func:`convert_model` and :func:`save_model`, or the keywords are their fields; ``stateful`` is True by
    default. ``input`` and names for ``stateful`` are for decoders alone.

    Raises :class:`ConversionError` where the folder has no model, or the model no caches.
    """
    source, target_folder = SourceFolder.open(Path(folder)), Path(output)
    if target_folder.exists() and target_folder.resolve() == source.path.resolve():
        raise ConversionError(f"the output must be another folder than {source.path}")
    if options is None:
        keywords = {"stateful": True, **keywords}
    options, saving = both_from(options, saving, keywords, "convert_language_model")
    refuse_unused(options, "folder", "a folder")
    if source.parts is None:
        models = {MODEL: convert(source.model, options).model}
        limits = obstacles(models[MODEL])
    elif options.input or isinstance(options.stateful, Mapping):
        raise ConversionError(
            f"{source.path} has an encoder and a decoder: shapes and names of inputs cannot be given for both at once"
        )
    else:
        models = {ENCODER: convert_encoder(source.parts, options), DECODER: convert_decoder(source.parts, options)}
        limits = []  # paged attention is for decoders alone
    target_folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        save(model, target_folder / name, saving)
    files = _write_settings(source, target_folder)
    return LanguageModel(
        target_folder / list(models)[-1],
        target_folder / ENCODER if ENCODER in models else None,
        write_tokenizers(source.path, target_folder, pads_left=source.parts is None),
        tuple(files),
        tuple(limits),
    )


def _write_settings(source: SourceFolder, target: Path) -> list[Path]:
    """Copy what stays as it is, and write the settings that are missing."""
    written = []
    for file in source.kept_files():
        shutil.copyfile(file, target / file.name)
        written.append(target / file.name)
    made = {CONFIGURATION: configuration_of(source.settings), GENERATION: generation_of(source.settings)}
    for name, settings in made.items():
        if settings and not (source.path / name).is_file():
            _write_json(target / name, settings)
            written.append(target / name)
    return written


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
