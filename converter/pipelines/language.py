"""Language models: decoders, and encoders with decoders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from converter.conversion import convert
from converter.errors import ConversionError, UnsupportedModelError
from converter.language_models.encoder_decoders import EncoderDecoder, convert_decoder, convert_encoder
from converter.language_models.parts import graph_names
from converter.language_models.settings import configuration_of, generation_of
from converter.language_models.source import CONFIGURATION, GENERATION, MODEL, SourceFolder
from converter.options import ConversionOptions
from ir_runtime.graph import Model

from .pipeline import OPENVINO, Part, Pipeline, TokenizerFiles
from .settings import copied, missing_settings

ENCODER, DECODER = "openvino_encoder_model.xml", "openvino_decoder_model.xml"
GENERATION_TASK, TRANSLATION_TASK = "text-generation", "text2text-generation"
_VOCODER = "decoder_postnet_and_vocoder"
SPEECH_TASK = "automatic-speech-recognition"
LANGUAGE_TASKS = (GENERATION_TASK, TRANSLATION_TASK, SPEECH_TASK)
"""Tasks of models with a KV cache, for ``--stateful``."""


def recognise_encoder_decoder(source: SourceFolder, task: str | None) -> Pipeline | None:
    """An encoder with a decoder: speech where the encoder reads ``input_features``, text otherwise."""
    if task not in (None, SPEECH_TASK, TRANSLATION_TASK):
        return None
    if source.files.has("encoder_model", _VOCODER):
        raise UnsupportedModelError(
            f"{source.path} has {_VOCODER}.onnx, as SpeechT5 has: Text2SpeechPipeline wants what is behind the decoder "
            "as two models, which an exporter joined. The file of each part can be converted by itself"
        )
    parts = source.parts
    if parts is None:
        return None
    is_speech = "input_ids" not in graph_names(parts.encoder)[0]
    own = SPEECH_TASK if is_speech else TRANSLATION_TASK
    if task not in (None, own):
        return None
    return Pipeline(
        source.path,
        own,
        "WhisperPipeline" if is_speech else OPENVINO,
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
