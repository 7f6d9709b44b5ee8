"""Language models: decoders, and encoders with decoders."""

from __future__ import annotations

from dataclasses import replace

from converter.conversion.convert import convert
from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.encoder_decoders import BRANCH, EncoderDecoder, convert_decoder
from converter.folders.pipeline import OPENVINO, Part, Pipeline, TokenizerFiles, convert_part, graph_names
from converter.folders.source import CONFIGURATION, GENERATION, MODEL, SourceFolder
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from ir_runtime.graph import Model

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
    parts = None if source.settings else EncoderDecoder.found_in(source.files)
    if parts is None:
        return None
    inputs = graph_names(parts.encoder)[0]
    reads = next((name for name in _ENCODERS if name in inputs), None)
    if reads is None:
        raise UnsupportedModelError(
            f"{parts.encoder.name} reads '{inputs[0]}', but encoders that can be converted read "
            f"{', '.join(_ENCODERS)}: convert the file of each part by itself"
        )
    own, runtime = _ENCODERS[reads]
    if task not in (None, own):
        return None
    if runtime == WHISPER and source.configuration.get("model_type", "whisper") != "whisper":
        runtime = OPENVINO
    return Pipeline(
        source,
        own,
        runtime,
        (
            Part("encoder", parts.encoder, ENCODER, convert_part),
            Part("decoder", parts.others, DECODER, lambda _, options: convert_decoder(parts, options)),
        ),
        (TokenizerFiles(source.path),),
        source.copied(),
    )


def recognise_decoder(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A decoder alone: ``genai_config.json`` describes it, or its file has a past or is named as decoders are."""
    if task not in (None, GENERATION_TASK):
        return None
    if task is None and not source.settings and not _is_decoder(source):
        return None
    parts = None if source.settings else EncoderDecoder.found_in(source.files)
    file = source.decoder if parts is None else parts.others
    inputs = graph_names(file)[0]
    if "inputs_embeds" in inputs and "input_ids" not in inputs:
        raise ConversionError(
            f"{file.name} reads 'inputs_embeds', but {source.path} has no model of embeddings beside it, such as "
            "embed_tokens.onnx: convert the file by itself, with --stateful"
        )
    if BRANCH in inputs:
        raise UnsupportedModelError(
            f"{file.name} has one branch for the first call and one for the others, which '{BRANCH}' chooses: "
            "language models need a single one, as newer releases of Optimum export it"
        )
    return Pipeline(
        source,
        GENERATION_TASK,
        "LLMPipeline",
        (Part("language model", file, MODEL, convert_language_model, is_decoder=True),),
        (TokenizerFiles(source.path, pads_left=True),),
        source.copied(),
        source.missing_settings(CONFIGURATION, GENERATION),
    )


def convert_language_model(file: OnnxFile, options: ConversionOptions) -> Model:
    """Return the decoder with its KV cache as state."""
    return convert(file, replace(options, stateful=options.stateful or True)).model


def _is_decoder(source: SourceFolder) -> bool:
    files = source.files
    if any(map(files.has, ("decoder_model_merged", "decoder_with_past_model", "decoder_model"))):
        return True
    if not files.all:
        return False
    file = files.get("model") or files.open(files.all[0])
    return any("past" in name or "cache" in name for name in graph_names(file)[0])
