"""Models of images and texts: an encoder of images, the embeddings of tokens, and a decoder of embeddings.

transformers.js and Optimum name the files ``vision_encoder.onnx``, ``embed_tokens.onnx`` and
``decoder_model_merged.onnx``. ``VLMPipeline`` prepares the images itself, as ``preprocessor_config.json`` says, and puts
their embeddings in the place of the image tokens of a prompt. How, depends on ``model_type`` of ``config.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from converter.errors import ConversionError, UnsupportedModelError
from converter.language_models.parts import convert_part, graph_names
from converter.language_models.source import CONFIGURATION, SourceFolder
from converter.options import ConversionOptions
from ir_runtime.graph import Model
from ir_runtime.records import record

from .inputs import give_output_rank
from .language import convert_language_model
from .pipeline import Part, Pipeline, TokenizerFiles
from .settings import copied

TASK = "image-text-to-text"
PREPROCESSOR = "preprocessor_config.json"
_VISION, _EMBEDDINGS, _DECODER = "vision_encoder", "embed_tokens", "decoder_model_merged"
_PIXELS, _TOKENS, _EMBEDDED = "pixel_values", "input_ids", "inputs_embeds"
_IMAGE_STATES = "last_hidden_state"


@record
class _Architecture:
    """What ``VLMPipeline`` asks of the models of a type."""

    known_inputs: tuple[str, ...] = (_EMBEDDED, "attention_mask", "position_ids")
    """Inputs that it gives the decoder."""


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "llava": _Architecture(),
}
"""Types of models, as ``config.json`` calls them, whose encoder of images reads pixels alone."""


def recognise_vision_language(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A folder with an encoder of images, the embeddings of tokens and a decoder of embeddings."""
    if task not in (None, TASK) or not source.files.has(_VISION):
        return None
    vision, embeddings, decoder = (_file(source, name) for name in (_VISION, _EMBEDDINGS, _DECODER))
    architecture = _architecture_of(source)
    _check_inputs(vision, [_PIXELS], [_PIXELS])
    _check_inputs(embeddings, [_TOKENS], [_TOKENS])
    _check_inputs(decoder, [_EMBEDDED, "attention_mask"], architecture.known_inputs)
    if not (source.path / PREPROCESSOR).is_file():
        raise ConversionError(f"{source.path} has no {PREPROCESSOR}, by which VLMPipeline prepares images")
    return Pipeline(
        source.path,
        TASK,
        "VLMPipeline",
        (
            Part("image encoder", vision, "openvino_vision_embeddings_model.xml", _convert_vision, "float16"),
            Part("token embeddings", embeddings, "openvino_text_embeddings_model.xml", convert_part, "int8"),
            Part("language model", decoder, "openvino_language_model.xml", convert_language_model, is_decoder=True),
        ),
        (TokenizerFiles(source.path, pads_left=True),),
        copied(source),
    )


def _file(source: SourceFolder, name: str) -> Path:
    path = source.files.get(name)
    if path is None:
        raise ConversionError(f"{source.path} has {_VISION}.onnx, but no {name}.onnx: it has {source.files.listed()}")
    return path


def _architecture_of(source: SourceFolder) -> _Architecture:
    name = source.configuration.get("model_type")
    if name is None:
        raise ConversionError(f"{source.path / CONFIGURATION} must name the 'model_type', by which VLMPipeline works")
    if name not in _ARCHITECTURES:
        raise UnsupportedModelError(
            f"{source.path / CONFIGURATION} is of the type '{name}', but of those of VLMPipeline only "
            f"{', '.join(_ARCHITECTURES)} can be converted: convert the file of each part by itself"
        )
    return _ARCHITECTURES[name]


def _check_inputs(path: Path, needed: Sequence[str], known: Sequence[str]) -> None:
    names = [name for name in graph_names(path)[0] if not name.startswith("past_key_values.")]
    others = [name for name in names if name not in known]
    missing = [name for name in needed if name not in names]
    if others or missing:
        problem = f"reads '{others[0]}', too" if others else f"has no input '{missing[0]}'"
        raise UnsupportedModelError(f"{path} {problem}: VLMPipeline gives this model {', '.join(known)}")


def _convert_vision(path: Path, options: ConversionOptions) -> Model:
    """The images' states, ``[images, tokens, width]``: some exporters leave the first dimension out."""
    features = graph_names(path)[1][0]
    model = convert_part(path, options, [features], names={features: _IMAGE_STATES})
    give_output_rank(model, _IMAGE_STATES, 3)
    return model
