"""Folders as exporters leave them: those of onnxruntime-genai, of Optimum and for transformers.js.

Optimum writes ``model.onnx`` beside the settings. Folders for transformers.js and of sentence-transformers have a
folder ``onnx`` with several variants of each file: ``model.onnx``, ``model_q4.onnx``, ``model_qint8_avx512.onnx``.
What onnxruntime-genai reads: https://onnxruntime.ai/docs/genai/reference/config.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.onnx_file.reader import OnnxFile, open_model
from ir_runtime.records import record

MODEL = "openvino_model.xml"
"""The IR of a model that is alone in its folder."""
GENAI_SETTINGS = "genai_config.json"
CONFIGURATION = "config.json"
GENERATION = "generation_config.json"
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
"""The settings of images, alone and, since transformers 5, among others."""
_BASES = (
    *("model", "encoder_model", "decoder_model", "decoder_model_merged", "decoder_with_past_model"),
    *("vision_encoder", "embed_tokens", "decoder_postnet_and_vocoder"),
)
"""Names of files that are no variants of each other, though one may begin as another does."""
_PLACES = ("", "onnx")
PLAIN = "fp32"
"""The variant whose file transformers.js names without a suffix."""
_DECODERS = ("model", "decoder_model_merged", "decoder_with_past_model", "decoder_model")
"""Names that exporters give to the file of a decoder, the one with a KV cache first."""
_OTHER_PARTS = ("encoder", "vision", "speech", "embedding")
"""Names of parts beside a decoder in ``genai_config.json``."""
_KEPT_ENDINGS = (".json", ".txt", ".jinja", ".model", ".tiktoken")
_MAX_KEPT_BYTES = 1 << 28
SEARCH = (
    *("do_sample", "num_beams", "num_return_sequences", "max_length", "min_length", "temperature", "top_k", "top_p"),
    *("repetition_penalty", "length_penalty", "diversity_penalty", "no_repeat_ngram_size", "early_stopping"),
)
"""Settings with the same name and meaning in ``genai_config.json`` and ``generation_config.json``."""
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
_NAMES_IN_CONFIGURATION = {
    "": {"type": "model_type", "vocab_size": "vocab_size", "context_length": "max_position_embeddings"},
    "decoder": {
        **{name: name for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")},
        "head_size": "head_dim",
    },
}
"""Part of ``genai_config.json`` -> its settings, and their names in ``config.json``."""


@record
class ModelFiles:
    """The ONNX files of a folder, each of which is opened once."""

    path: Path
    variants: Mapping[str, str]
    """The requested variant by the name of a file; under ``""`` that of all others. Empty where none is requested."""

    @classmethod
    def of(cls, path: Path, variant: str | None = None) -> ModelFiles:
        """The files in ``path``. ``variant`` is as in ``q4`` or ``q4,vision_encoder=fp16``.

        Raises :class:`ConversionError` for another form, and for a variant of a file that is not there.
        """
        variants: dict[str, str] = {}
        for text in (variant or "").split(",") if variant is not None else ():
            name, sign, value = text.strip().rpartition("=")
            if not value or (sign and not name) or name in variants:
                raise ConversionError(
                    f"variant must be as in 'q4' or 'q4,vision_encoder=fp16', one for each file, but is {variant!r}"
                )
            variants[name.strip()] = value.strip()
        files = cls(path, variants)
        for name in sorted(variants.keys() - {""}):
            if not files.has(name):
                raise ConversionError(f"variant names '{name}', but {path} has {files.listed()}")
        return files

    def has(self, *names: str) -> bool:
        """True if there is a file of each name, in any variant."""
        return all(self._choices(name) for name in names)

    def get(self, name: str) -> OnnxFile | None:
        """The file of this name: the requested variant, else that without an ending, else the only one.

        None where there is none at all. Raises :class:`ConversionError` where the requested variant is not there, and
        where several are there and none is requested.
        """
        choices = self._choices(name)
        if not choices:
            return None
        requested = self.variants.get(name, self.variants.get("", ""))
        offered = ", ".join(sorted(choices))
        if requested and requested not in choices:
            raise ConversionError(f"{self.path} has no variant '{requested}' of {name}.onnx, but {offered}")
        if not requested and PLAIN not in choices and len(choices) > 1:
            raise ConversionError(
                f"{self.path} has no {name}.onnx, but several variants of it: choose with --variant, one of {offered}"
            )
        return self.open(choices.get(requested or PLAIN) or next(iter(choices.values())))

    def open(self, path: Path) -> OnnxFile:
        """Return a file of the folder, opened."""
        if path not in self._opened:
            self._opened[path] = open_model(path)
        return self._opened[path]

    @cached_property
    def _opened(self) -> dict[Path, OnnxFile]:
        return {}

    @cached_property
    def all(self) -> Sequence[Path]:
        """All ONNX files that the folder has at the places where models lie."""
        return [file for place in _PLACES for file in sorted((self.path / place).glob("*.onnx"))]

    def listed(self) -> str:
        """The names of the ONNX files, as messages list them."""
        return listed([str(file.relative_to(self.path)) for file in self.all], "no ONNX file")

    def _choices(self, name: str) -> Mapping[str, Path]:
        """Files by variant."""
        choices: dict[str, Path] = {}
        longer = tuple(base for base in _BASES if base.startswith(f"{name}_"))
        for file in self.all:
            stem = file.stem
            if any(stem == base or stem.startswith(f"{base}_") for base in longer):
                continue
            if stem == name:
                choices.setdefault(PLAIN, file)
            elif stem.startswith(f"{name}_"):
                choices.setdefault(stem.removeprefix(f"{name}_"), file)
        return choices


@record
class SourceFolder:
    """A folder as an exporter leaves it: ONNX files, and settings beside them."""

    path: Path
    files: ModelFiles
    settings: Mapping[str, Any]
    """``genai_config.json``; empty where there is none."""
    configuration: Mapping[str, Any]
    """``config.json``; empty where there is none."""

    @classmethod
    def open(cls, path: Path, variant: str | None = None) -> SourceFolder:
        """Read the settings in the folder ``path``; ``variant`` chooses among its files.

        Raises :class:`ConversionError` where it is no folder, or where a file of settings is no JSON object.
        """
        if not path.is_dir():
            raise ConversionError(f"{path} is not a folder")
        return cls(path, ModelFiles.of(path, variant), *(read_json(path / n) for n in (GENAI_SETTINGS, CONFIGURATION)))

    @cached_property
    def decoder(self) -> OnnxFile:
        """The ONNX file of a decoder alone.

        Raises :class:`ConversionError` where there is none, or several that none of the settings choose from.
        """
        path, parts = self.path, self.settings.get("model", {})
        others = [name for name in _OTHER_PARTS if isinstance(parts, dict) and name in parts]
        if others:
            raise UnsupportedModelError(
                f"{path / GENAI_SETTINGS} describes a model of several parts, {', '.join([*others, 'decoder'])}: "
                "convert the file of each part by itself, that of the decoder with --stateful"
            )
        named = parts.get("decoder", {}).get("filename") if isinstance(parts, dict) else None
        if named:
            if self.files.variants:
                raise ConversionError(f"{path / GENAI_SETTINGS} names the model '{named}': no variant can be chosen")
            if not (path / named).is_file():
                raise ConversionError(f"{path / GENAI_SETTINGS} names the model '{named}', but there is no such file")
            return self.files.open(path / str(named))
        for name in _DECODERS:
            file = self.files.get(name)
            if file is not None:
                return file
        if len(self.files.all) == 1:
            return self.files.open(self.files.all[0])
        raise ConversionError(
            f"{path} must hold one model, {_DECODERS[0]}.onnx or the like, but its ONNX files are: "
            f"{self.files.listed()}"
        )

    @property
    def image_settings(self) -> Mapping[str, Any] | None:
        """The settings by which images are prepared; None where the folder has none."""
        if (self.path / PREPROCESSOR).is_file():
            return read_json(self.path / PREPROCESSOR)
        nested = read_json(self.path / PROCESSOR).get("image_processor")
        return nested if isinstance(nested, dict) else None

    def copied(self, *folders: str) -> tuple[tuple[Path, str], ...]:
        """Files that stay as they are, also those of ``folders``, and their paths in the output.

        They are those of the tokenizer, the chat template, and the settings of other libraries.
        """
        return tuple(
            (file, str(Path(folder) / file.name))
            for folder in ("", *folders)
            for file in sorted((self.path / folder).glob("*"))
            if file.suffix in _KEPT_ENDINGS
            and file.name != GENAI_SETTINGS
            and file.is_file()
            and file.stat().st_size <= _MAX_KEPT_BYTES
        )

    def missing_settings(self, *names: str) -> Mapping[str, Mapping[str, Any]]:
        """Those of :data:`CONFIGURATION` and :data:`GENERATION` that ``genai_config.json`` alone describes."""
        made = {CONFIGURATION: self.made_configuration(), GENERATION: self._made_generation()}
        return {name: made[name] for name in names if made[name] and not (self.path / name).is_file()}

    def made_configuration(self) -> dict[str, Any]:
        """Return ``config.json`` for a model that only ``genai_config.json`` describes."""
        model = self.settings.get("model", {})
        collected: dict[str, Any] = {}
        for part, names in _NAMES_IN_CONFIGURATION.items():
            values = model.get(part, {}) if part else model
            collected |= {name: values[key] for key, name in names.items() if key in values}
        return collected | {name: model[name] for name in TOKENS if name in model}

    def _made_generation(self) -> dict[str, Any]:
        """Return ``generation_config.json`` for such a model."""
        model, search = self.settings.get("model", {}), self.settings.get("search", {})
        collected = {name: model[name] for name in TOKENS if name in model}
        return collected | {name: search[name] for name in SEARCH if name in search}


def listed(names: Sequence[str], none: str, limit: int = 12) -> str:
    """Names for a message, the first ``limit``; ``none`` where there are none."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) or none) + more


def all_files(path: Path) -> list[str]:
    """List the files of a folder and of its subfolders, for a message."""
    return sorted(
        str(entry.relative_to(path)) for place in ("*", "*/*") for entry in path.glob(place) if entry.is_file()
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
