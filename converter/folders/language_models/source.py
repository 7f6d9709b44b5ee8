"""Folders as exporters leave them: those of onnxruntime-genai, of Optimum and for transformers.js."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from ir_runtime.records import record

from .encoder_decoders import EncoderDecoder
from .files import ModelFiles

MODEL = "openvino_model.xml"
"""The IR of a model that is alone in its folder."""
GENAI_SETTINGS = "genai_config.json"
CONFIGURATION = "config.json"
GENERATION = "generation_config.json"
_DECODERS = ("model", "decoder_model_merged", "decoder_with_past_model", "decoder_model")
"""Names that exporters give to the file of a decoder, the one with a KV cache first."""
_OTHER_PARTS = ("encoder", "vision", "speech", "embedding")
"""Names of parts beside a decoder in ``genai_config.json``."""
_KEPT_ENDINGS = (".json", ".txt", ".jinja", ".model", ".tiktoken")
_MAX_KEPT_BYTES = 1 << 28


@record
class SourceFolder:
    """A folder as an exporter leaves it: ONNX files, and settings beside them."""

    path: Path
    files: ModelFiles
    settings: Mapping[str, Any]
    """``genai_config.json``; empty where there is none."""
    configuration: Mapping[str, Any]
    """``config.json``; empty where there is none."""
    generation: Mapping[str, Any]
    """``generation_config.json``; empty where there is none."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str], variant: str | None = None) -> SourceFolder:
        """Read the settings in ``folder``; ``variant`` chooses among its files.

        Raises :class:`ConversionError` where it is no folder, or where a file of settings is no JSON object.
        """
        path = Path(folder)
        if not path.is_dir():
            raise ConversionError(f"{path} is not a folder")
        settings = (read_json(path / name) for name in (GENAI_SETTINGS, CONFIGURATION, GENERATION))
        return cls(path, ModelFiles.of(path, variant), *settings)

    @property
    def model(self) -> Path:
        """The ONNX file of the decoder; of an encoder-decoder that of the calls with caches.

        Raises :class:`ConversionError` where there is none, or several that none of the settings choose from.
        """
        return _model(self) if self.parts is None else self.parts.others

    @property
    def parts(self) -> EncoderDecoder | None:
        """The files of an encoder-decoder; None for a decoder alone."""
        return None if self.settings else EncoderDecoder.found_in(self.files)


def kept_files(folder: Path) -> list[Path]:
    """Files that stay as they are: tokenizer, chat template, settings of other libraries."""
    return sorted(
        file
        for file in (folder.iterdir() if folder.is_dir() else ())
        if file.suffix in _KEPT_ENDINGS
        and file.name != GENAI_SETTINGS
        and file.is_file()
        and file.stat().st_size <= _MAX_KEPT_BYTES
    )


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a file; empty where there is no file. Raises :class:`ConversionError` for anything else."""
    return _read(path, dict, "a JSON object") if path.is_file() else {}


def read_json_list(path: Path) -> Sequence[Mapping[str, Any]]:
    """The objects in a file with a list. Raises :class:`ConversionError` for anything else."""
    values = _read(path, list, "a JSON list of objects") if path.is_file() else []
    if not all(isinstance(value, dict) for value in values):
        raise ConversionError(f"{path} must hold a JSON list of objects")
    return values


def _read(path: Path, expected: type, noun: str) -> Any:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConversionError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, expected):
        raise ConversionError(f"{path} must hold {noun}, but holds {type(values).__name__}")
    return values


def _model(source: SourceFolder) -> Path:
    path, parts = source.path, source.settings.get("model", {})
    others = [name for name in _OTHER_PARTS if isinstance(parts, dict) and name in parts]
    if others:
        raise UnsupportedModelError(
            f"{path / GENAI_SETTINGS} describes a model of several parts, {', '.join([*others, 'decoder'])}: convert "
            "the file of each part by itself, that of the decoder with --stateful"
        )
    named = parts.get("decoder", {}).get("filename") if isinstance(parts, dict) else None
    if named:
        if source.files.variants:
            raise ConversionError(f"{path / GENAI_SETTINGS} names the model '{named}': no variant can be chosen")
        if not (path / named).is_file():
            raise ConversionError(f"{path / GENAI_SETTINGS} names the model '{named}', but there is no such file")
        return path / str(named)
    for name in _DECODERS:
        file = source.files.get(name)
        if file is not None:
            return file
    files = source.files.all()
    if len(files) == 1:
        return files[0]
    raise ConversionError(
        f"{path} must hold one model, {_DECODERS[0]}.onnx or the like, but its ONNX files are: {source.files.listed()}"
    )
