"""Recognize the task of a folder. The first recognition that knows the folder decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from converter.errors import ConversionError
from converter.folders.diffusion import TASK as DIFFUSION_TASK
from converter.folders.diffusion import recognise_diffusion
from converter.folders.language import LANGUAGE_TASKS, recognise_decoder, recognise_encoder_decoder
from converter.folders.pipeline import Pipeline
from converter.folders.single_models import TASKS as SINGLE_TASKS
from converter.folders.single_models import recognise_single_model
from converter.folders.source import SourceFolder, all_files, listed
from converter.folders.speech import TASK as SPEECH_TASK
from converter.folders.speech import recognise_speech
from converter.folders.vision_language import TASK as VISION_TASK
from converter.folders.vision_language import recognise_vision_language
from converter.options.inputs import suggestions
from ir_runtime.files.file_kinds import kind_of_folder

Recognition = Callable[[SourceFolder, "str | None"], "Pipeline | None"]

RECOGNITIONS: Sequence[Recognition] = (
    recognise_diffusion,
    recognise_speech,  # before other encoders with decoders
    recognise_encoder_decoder,  # before the decoders, which may lie beside an encoder
    recognise_vision_language,  # before the decoders, which it has one of
    recognise_decoder,  # before single models: both have a model.onnx with logits
    recognise_single_model,
)
TASKS = (*LANGUAGE_TASKS, SPEECH_TASK, VISION_TASK, DIFFUSION_TASK, *SINGLE_TASKS)
"""The tasks that a folder may be for."""
_SOUGHT = (
    "model_index.json (diffusion), genai_config.json, encoder_model.onnx with a decoder, decoder_model_merged.onnx, "
    "vision_encoder.onnx with embed_tokens.onnx, or a model.onnx whose inputs and outputs tell its task"
)


def recognise(folder: Path, task: str | None = None, variant: str | None = None) -> Pipeline:
    """Recognise what the folder holds; ``task`` says what it is for where several tasks are possible.

    ``variant`` chooses among the variants of a file. Raises :class:`ConversionError` where nothing is recognised, and
    where the folder is not for ``task``.
    """
    if task is not None and task not in TASKS:
        raise ConversionError(f"there is no task {task!r}{suggestions(task, TASKS)}; tasks are {', '.join(TASKS)}")
    file_kind = kind_of_folder(folder)
    if file_kind is not None and file_kind.description != "a folder":
        raise ConversionError(f"{folder} is not an ONNX model, but {file_kind}")
    source = SourceFolder.open(folder, variant)
    for recognition in RECOGNITIONS:
        pipeline = recognition(source, task)
        if pipeline is not None:
            return pipeline
    contents = listed(all_files(source.path), "no files")
    if task is not None:
        own = _task_of(source)
        beside = f", but {own}" if own else ""
        raise ConversionError(f"{source.path} is not recognised as {task}{beside}; it has {contents}")
    hint = "" if file_kind is None else f"; for a single model {file_kind.advice}"
    raise ConversionError(f"{source.path} is not recognised: it has {contents}, but none of {_SOUGHT}{hint}")


def _task_of(source: SourceFolder) -> str:
    """The task that the folder is recognised for by itself; empty where there is none."""
    pipelines = (recognition(source, None) for recognition in RECOGNITIONS)
    return next((pipeline.task for pipeline in pipelines if pipeline is not None), "")
