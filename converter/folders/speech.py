"""Text to speech: SpeechT5, whose decoder reads all frames that it has returned, one of them new in each call.

Exporters write ``encoder_model.onnx``, decoders as of other encoder-decoder models, and one model of postnet and
vocoder, ``decoder_postnet_and_vocoder.onnx``. ``Text2SpeechPipeline`` runs them as two models: the postnet written here
only reshapes the spectrogram, and the vocoder has all layers of the exported model.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from converter.errors import UnsupportedModelError
from converter.folders.encoder_decoders import EncoderDecoder, convert_decoder
from converter.folders.inputs import give_output_rank
from converter.folders.pipeline import Part, Pipeline, TokenizerFiles, convert_part, graph_names
from converter.folders.source import CONFIGURATION, SourceFolder
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from ir_runtime.graph import Model, PartialShape, Tensor, element_types, make_node
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.operations.movement import Reshape1

TASK = "text-to-speech"
VOCODER = "decoder_postnet_and_vocoder"
_CLASS = "SpeechT5ForTextToSpeech"
_BANDS, _FRAMES = 80, 2
"""Defaults of the number of mel bands, and of the frames that one call of the decoder returns."""
_RAW, _SPECTROGRAM, _REFINED, _WAVE = "raw_spectrogram", "spectrogram", "postnet_spectrogram", "waveform"
_SPECTRUM = "spectrum"
_INPUTS = ("output_sequence", "speaker_embeddings", "encoder_attention_mask")
_OUTPUTS = ("output_sequence_out", _SPECTRUM, "prob")
_ENCODER_NAMES = {"encoder_outputs": "last_hidden_state"}
_DECODER_NAMES = {"output_sequence": "inputs_embeds"}
"""Names of exporters, and those of ``Text2SpeechPipeline``."""


def recognise_speech(source: SourceFolder, task: str | None) -> Pipeline | None:
    """Return the pipeline of a folder with a text encoder, a spectrogram decoder and a vocoder; None for others."""
    vocoder = source.files.get(VOCODER)
    if task not in (None, TASK) or vocoder is None or not source.files.has("encoder_model"):
        return None
    parts = EncoderDecoder.found_in(source.files)
    assert parts is not None
    _check(source, parts, vocoder)
    decoder = partial(_convert_decoder, parts)
    bands = int(source.configuration.get("num_mel_bins", _BANDS))

    return Pipeline(
        source,
        TASK,
        "Text2SpeechPipeline",
        (
            Part("encoder", parts.encoder, "openvino_encoder_model.xml", partial(convert_part, names=_ENCODER_NAMES)),
            Part("decoder", parts.others, "openvino_decoder_model.xml", decoder),
            Part("spectrogram", vocoder, "openvino_postnet.xml", lambda *_: _make_postnet(bands)),
            Part("vocoder", vocoder, "openvino_vocoder.xml", convert_part),
        ),
        (TokenizerFiles(source.path),),
        source.copied(),
    )


def _check(source: SourceFolder, parts: EncoderDecoder, vocoder: OnnxFile) -> None:
    """Raise :class:`UnsupportedModelError` for models that ``Text2SpeechPipeline`` does not run."""
    names = source.configuration.get("architectures") or ["none"]
    if names[0] != _CLASS:
        raise UnsupportedModelError(
            f"{source.path / CONFIGURATION} names the architecture '{names[0]}', but of those with an encoder and a "
            f"decoder Text2SpeechPipeline runs {_CLASS} alone"
        )
    steps = source.configuration.get("reduction_factor", _FRAMES)
    if steps != _FRAMES:
        raise UnsupportedModelError(
            f"'reduction_factor' in {source.path / CONFIGURATION} must be {_FRAMES}, the frames of a spectrogram that "
            f"Text2SpeechPipeline takes from a call, but is {steps}"
        )
    inputs, outputs = graph_names(parts.others)
    missing = [name for name in _INPUTS if name not in inputs] + [name for name in _OUTPUTS if name not in outputs]
    if missing:
        raise UnsupportedModelError(
            f"{parts.others.name} has no '{missing[0]}', which Text2SpeechPipeline sets or reads"
        )
    if graph_names(vocoder) != ([_SPECTROGRAM], [_WAVE]):
        raise UnsupportedModelError(f"{vocoder.name} must read '{_SPECTROGRAM}' alone and return '{_WAVE}'")


def _convert_decoder(parts: EncoderDecoder, _: OnnxFile, options: ConversionOptions) -> Model:
    model = convert_decoder(parts, options, names=_DECODER_NAMES, takes_one_token=True)
    give_output_rank(model, _SPECTRUM, 3)
    return model


def _make_postnet(bands: int) -> Model:
    """Return a model that reshapes ``[calls, 1, frames, bands]`` to ``[calls * frames, bands]``."""
    parameter = make_node(
        Parameter1(shape=PartialShape([None, 1, _FRAMES, bands]), element_type=element_types.f32), (), _RAW
    )
    parameter.outputs[0].add_name(_RAW)
    shape = Tensor.from_array(np.array([-1, bands]), element_types.i64)
    target = make_node(Const1(value=shape), (), f"{_REFINED}/shape")
    reshaped = make_node(Reshape1(special_zero=False), [parameter.outputs[0], target.outputs[0]], _REFINED)
    reshaped.outputs[0].add_name(_REFINED)
    return Model("spectrogram", [parameter], [make_node(Result1(), reshaped.outputs, f"{_REFINED}/result")])
