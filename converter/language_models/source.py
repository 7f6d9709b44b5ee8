"""Folders that hold a language model as ONNX: those of onnxruntime-genai and those of Optimum."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from ir_runtime.records import record

from .encoder_decoders import EncoderDecoder

GENAI_SETTINGS = "genai_config.json"
CONFIGURATION = "config.json"
GENERATION = "generation_config.json"
_DECODERS = ("model.onnx", "decoder_model_merged.onnx", "decoder_with_past_model.onnx", "decoder_model.onnx")
"""What exporters call the file of a decoder, the one with caches first."""
_OTHER_PARTS = ("encoder", "vision", "speech", "embedding")
_KEPT_ENDINGS = (".json", ".txt", ".jinja", ".model", ".tiktoken")
_MAX_KEPT_BYTES = 1 << 28


@record
class SourceFolder:
    """A language model as an exporter leaves it: an ONNX file, and settings beside it."""

    path: Path
    model: Path
    """The ONNX file of the decoder; of an encoder-decoder that of the calls with caches."""
    parts: EncoderDecoder | None
    """The files of an encoder-decoder; None for a decoder alone."""
    settings: Mapping[str, Any]
    """``genai_config.json``; empty where there is none."""
    configuration: Mapping[str, Any]
    """``config.json``; empty where there is none."""
    generation: Mapping[str, Any]
    """``generation_config.json``; empty where there is none."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> SourceFolder:
        """Read the settings in ``folder``, and find its model.

        Raises :class:`ConversionError` where there is none, or where a file of settings is no JSON object.
        """
        path = Path(folder)
        if not path.is_dir():
            raise ConversionError(f"{path} is not a folder")
        settings, configuration, generation = (
            read_json(path / name) for name in (GENAI_SETTINGS, CONFIGURATION, GENERATION)
        )
        parts = None if settings else EncoderDecoder.found_in(path)
        model = _model(path, settings) if parts is None else parts.others
        return cls(path, model, parts, settings, configuration, generation)

    def kept_files(self) -> list[Path]:
        """Files that stay as they are: tokenizer, chat template, settings of other libraries."""
        return sorted(
            file
            for file in self.path.iterdir()
            if file.suffix in _KEPT_ENDINGS
            and file.name != GENAI_SETTINGS
            and file.is_file()
            and file.stat().st_size <= _MAX_KEPT_BYTES
        )


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a file; empty where there is no file. Raises :class:`ConversionError` for anything else."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConversionError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConversionError(f"{path} must hold a JSON object, but holds {type(found).__name__}")
    return found


def _model(path: Path, settings: Mapping[str, Any]) -> Path:
    parts = settings.get("model", {})
    others = [name for name in _OTHER_PARTS if isinstance(parts, dict) and name in parts]
    if others:
        raise UnsupportedModelError(
            f"{path / GENAI_SETTINGS} describes a model of several parts, {', '.join([*others, 'decoder'])}: convert "
            "the file of each part by itself, that of the decoder with --stateful"
        )
    named = parts.get("decoder", {}).get("filename") if isinstance(parts, dict) else None
    if named:
        if not (path / named).is_file():
            raise ConversionError(f"{path / GENAI_SETTINGS} names the model '{named}', but there is no such file")
        return path / str(named)
    found = [path / name for name in _DECODERS if (path / name).is_file()]
    if found:
        return found[0]
    files = sorted(path.glob("*.onnx"))
    if len(files) == 1:
        return files[0]
    listed = ", ".join(file.name for file in files) or "none"
    raise ConversionError(f"{path} must hold one model, {_DECODERS[0]} or the like, but its ONNX files are: {listed}")
