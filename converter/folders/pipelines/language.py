"""Language models: decoders, and encoders with decoders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from converter.conversion.convert import convert
from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.language_models.encoder_decoders import BRANCH, EncoderDecoder, convert_decoder, convert_encoder
from converter.folders.language_models.parts import graph_names
from converter.folders.language_models.settings import configuration_of, generation_of
from converter.folders.language_models.source import CONFIGURATION, GENERATION, MODEL, SourceFolder
from converter.options.conversion import ConversionOptions
from ir_runtime.graph import Model

from .pipeline import OPENVINO, Part, Pipeline, TokenizerFiles
from .settings import copied, missing_settings

ENCODER, DECODER = "openvino_encoder_model.xml", "openvino_decoder_model.xml"
GENERATION_TASK, TRANSLATION_TASK = "text-generation", "text2text-generation"
SPEECH_TASK, CAPTION_TASK = "automatic-speech-recognition", "image-to-text"
LANGUAGE_TASKS = (GENERATION_TASK, TRANSLATION_TASK, SPEECH_TASK, CAPTION_TASK)
"""Tasks of models with a KV cache, for ``--stateful``."""

WHISPER = "WhisperPipeline"
_ENCODERS = {
    "input_ids": (TRANSLATION_TASK, OPENVINO),
    "input_features": (SPEECH_TASK, WHISPER),
    "input_values": (SPEECH_TASK, OPENVINO),
    "pixel_values": (CAPTION_TASK, OPENVINO),
}
"""Inputs of an encoder -> the task that follows from them, and the class that runs it."""


def recognise_encoder_decoder(source: SourceFolder, task: str | None) -> Pipeline | None:
    """An encoder with a decoder: what the encoder reads tells the task."""
    if task not in (None, *(name for name, _ in _ENCODERS.values())):
        return None
    parts = source.parts
    if parts is None:
        return None
    inputs = graph_names(parts.encoder)[0]
    reads = next((name for name in _ENCODERS if name in inputs), None)
    if reads is None:
        raise UnsupportedModelError(
            f"{parts.encoder} reads '{inputs[0]}', but encoders that can be converted read {', '.join(_ENCODERS)}: "
            "convert the file of each part by itself"
        )
    own, runtime = _ENCODERS[reads]
    if task not in (None, own):
        return None
    if runtime == WHISPER and source.configuration.get("model_type", "whisper") != "whisper":
        runtime = OPENVINO
    return Pipeline(
        source.path,
        own,
        runtime,
        _models(parts),
        (TokenizerFiles(source.path),),
        copied(source),
    )


def _models(parts: EncoderDecoder) -> tuple[Part, ...]:
    def encoder(_: Path, options: ConversionOptions) -> Model:
        return convert_encoder(parts, options)

    def decoder(_: Path, options: ConversionOptions) -> Model:
        return convert_decoder(parts, options)

    return Part("encoder", parts.encoder, ENCODER, encoder), Part("decoder", parts.others, DECODER, decoder)


def recognise_decoder(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A decoder alone: ``genai_config.json`` describes it, or its file has a past or is named as decoders are."""
    if task not in (None, GENERATION_TASK):
        return None
    if task is None and not source.settings and not _is_decoder(source):
        return None
    inputs = graph_names(source.model)[0]
    if "inputs_embeds" in inputs and "input_ids" not in inputs:
        raise ConversionError(
            f"{source.model} reads 'inputs_embeds', but {source.path} has no model of embeddings beside it, such as "
            "embed_tokens.onnx: convert the file by itself, with --stateful"
        )
    if BRANCH in inputs:
        raise UnsupportedModelError(
            f"{source.model} has one branch for the first call and one for the others, which '{BRANCH}' chooses: "
            "language models need a single one, as newer releases of Optimum export it"
        )
    return Pipeline(
        source.path,
        GENERATION_TASK,
        "LLMPipeline",
        (Part("language model", source.model, MODEL, convert_language_model, is_decoder=True),),
        (TokenizerFiles(source.path, pads_left=True),),
        copied(source),
        missing_settings(
            source,
            {CONFIGURATION: configuration_of(source.settings), GENERATION: generation_of(source.settings)},
        ),
    )


def convert_language_model(path: Path, options: ConversionOptions) -> Model:
    """Return the decoder with its KV cache as state."""
    return convert(path, replace(options, stateful=options.stateful or True)).model


def _is_decoder(source: SourceFolder) -> bool:
    files = source.files
    if files.has("decoder_model_merged") or files.has("decoder_with_past_model") or files.has("decoder_model"):
        return True
    path = files.get("model") if files.has("model") else next(iter(files.all()), None)
    if path is None:
        return False
    return any("past" in name or "cache" in name for name in graph_names(path)[0])
