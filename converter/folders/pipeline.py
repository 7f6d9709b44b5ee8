"""The recognised content of a folder: a task, the pipeline that runs it, and the parts to convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from converter.folders.source import SourceFolder
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from ir_runtime.graph import Model
from ir_runtime.records import record

OPENVINO = "OpenVINO"
"""The runtime of a task that openvino-genai has no pipeline for."""


@record
class Part:
    """A model of a pipeline."""

    name: str
    """Its name in messages: ``text encoder``."""
    file: OnnxFile
    target: str
    """The IR's path in the output folder."""
    convert: Callable[[OnnxFile, ConversionOptions], Model]
    compression: str = "requested"
    """The effect of ``compress``: as ``requested``, always ``int8``, or ``float16`` instead."""
    is_decoder: bool = False
    """True for a decoder with a KV cache alone, which paged attention may run."""

    @property
    def source(self) -> Path:
        """The ONNX file."""
        assert self.file.path is not None
        return self.file.path


@record
class TokenizerFiles:
    """A tokenizer to convert."""

    source: Path
    target: str = ""
    """Its folder in the output folder."""
    pads_left: bool = False


@record
class Pipeline:
    """What a folder is recognised as."""

    source: SourceFolder
    task: str
    """As Hugging Face names it: ``text-generation``."""
    runtime: str
    """The class of openvino-genai that runs it, or ``OpenVINO`` where there is none for the task."""
    parts: tuple[Part, ...]
    tokenizers: tuple[TokenizerFiles, ...] = ()
    copies: tuple[tuple[Path, str], ...] = ()
    """Files that stay as they are, and their paths in the output folder."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Files of settings to write, as JSON."""
    arguments: str = ""
    """Arguments of the class that the folder tells and openvino-genai does not read."""
    other_tasks: tuple[str, ...] = ()
    """Tasks that the files fit as well, for ``task``."""

    @property
    def path(self) -> Path:
        """The folder."""
        return self.source.path

    @property
    def is_decoder(self) -> bool:
        """True for a decoder alone, which ``verify --steps`` compares."""
        return len(self.parts) == 1 and self.parts[0].is_decoder

    def to_dict(self) -> dict[str, Any]:
        """Return what was recognised as JSON; paths are relative to the folders."""
        return {
            "task": self.task,
            "pipeline": self.runtime,
            "call": self.call,
            "other_tasks": list(self.other_tasks),
            "models": [
                {"part": part.name, "onnx": part.source.relative_to(self.path).as_posix(), "xml": part.target}
                for part in self.parts
            ],
            "tokenizers": [entry.source.relative_to(self.path).as_posix() for entry in self.tokenizers],
        }

    @property
    def call(self) -> str:
        """How Python creates the pipeline; empty where openvino-genai has no class for the task."""
        has_class = self.runtime != OPENVINO
        return f'openvino_genai.{self.runtime}(FOLDER, "CPU"{self.arguments})' if has_class else ""
