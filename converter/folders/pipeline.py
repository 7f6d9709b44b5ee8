"""The recognised content of a folder: a task, the pipeline that runs it, and the parts to convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from converter.conversion.convert import MakeStates, convert
from converter.errors import UnsupportedModelError
from converter.folders.source import SourceFolder
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from converter.passes.states.stateful import compute_in_float32
from ir_runtime.graph import Model, PartialShape
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


def graph_names(file: OnnxFile) -> tuple[list[str], list[str]]:
    """Return the names of a file's inputs and outputs."""
    graph = file.proto.graph
    fixed = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in fixed], [value.name for value in graph.output]


def convert_part(
    file: OnnxFile,
    options: ConversionOptions,
    outputs: Sequence[str] | None = None,
    *,
    freeze: Mapping[str, Any] | None = None,
    make_states: MakeStates | None = None,
    names: Mapping[str, str] | None = None,
) -> Model:
    """Convert a part of a pipeline to float32, with the ``outputs`` alone where they are given.

    ``names`` maps names of inputs and outputs to those that the pipeline asks for.
    """
    # Attention of a stateful model takes masks and positions as runtimes of language models set them. Models with
    # preprocessing, which are those of images alone, have no such inputs.
    options = replace(options, freeze=freeze, output=outputs, stateful=options.request is None)
    model = convert(file, options, make_states=make_states or _make_no_states).model
    names = names or {}
    for node in model.parameters:  # optimum-intel asks an input for any of its names
        value = node.outputs[0]
        value.names[:] = [names.get(value.names[0], value.names[0])]
    for node in model.results:
        stored = node.output_names or node.inputs[0].names
        stored[:] = [names.get(name, name) for name in stored]
    return model


def check_inputs(
    file: OnnxFile, needed: Sequence[str], expected: Sequence[str], gives: str, *, ignored: str = "\n"
) -> None:
    """Raise :class:`UnsupportedModelError` for a file without a ``needed`` input, or with others than ``expected``.

    ``gives`` says what gives the inputs, and which. Inputs whose names begin with ``ignored`` do not count.
    """
    names = [name for name in graph_names(file)[0] if not name.startswith(ignored)]
    others = [name for name in names if name not in expected]
    missing = [name for name in needed if name not in names]
    if others or missing:
        problem = f"reads '{others[0]}', too" if others else f"has no input '{missing[0]}'"
        raise UnsupportedModelError(f"{file.name} {problem}: {gives}")


def _make_no_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
    """Compute in float32, which runtimes expect of any part."""
    compute_in_float32(model)
