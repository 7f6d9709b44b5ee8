"""Models of images and texts: an encoder of images, the embeddings of tokens, and a decoder of embeddings.

transformers.js names the files ``vision_encoder.onnx``, ``embed_tokens.onnx`` and
``decoder_model_merged.onnx``. ``VLMPipeline`` prepares the images itself, as ``preprocessor_config.json`` says, and
replaces the image tokens of a prompt by their embeddings, in a way that depends on ``model_type`` of ``config.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.language_models.parts import convert_part, graph_names
from converter.language_models.source import CONFIGURATION, SourceFolder, read_json
from converter.options import ConversionOptions
from ir_runtime.graph import Model, PartialShape, element_types
from ir_runtime.records import record

from .inputs import add_input, give_output_rank
from .language import convert_language_model
from .pipeline import Part, Pipeline, TokenizerFiles
from .settings import copied

TASK = "image-text-to-text"
PREPROCESSOR = "preprocessor_config.json"
_VISION, _EMBEDDINGS, _DECODER = "vision_encoder", "embed_tokens", "decoder_model_merged"
_PIXELS, _TOKENS, _EMBEDDED = "pixel_values", "input_ids", "inputs_embeds"
_IMAGE_STATES, _SEGMENTS = "last_hidden_state", "token_type_ids"


@record
class _Architecture:
    """What ``VLMPipeline`` asks of the models of a type."""

    name: str
    """What it calls the type."""
    has_segments: bool = False
    """True if it gives the decoder ``token_type_ids``, which tell tokens of images from those of texts."""
    is_square: bool = False
    """True if it reads the size of images as ``size.shortest_edge``, where the preprocessor has ``size.height``."""


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "gemma3": _Architecture("gemma3", has_segments=True),
    "internvl": _Architecture("internvl_chat", is_square=True),
    "internvl_chat": _Architecture("internvl_chat", is_square=True),
    "llava": _Architecture("llava"),
}
"""Types of models, as ``config.json`` calls them, whose encoder of images reads pixels alone."""


def recognise_vision_language(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A folder with an encoder of images, the embeddings of tokens and a decoder of embeddings."""
    present = [name for name in (_VISION, _EMBEDDINGS, _DECODER) if source.files.has(name)]
    if task not in (None, TASK) or len(present) < 2:
        return None
    vision, embeddings, decoder = (_file(source, name, present) for name in (_VISION, _EMBEDDINGS, _DECODER))
    architecture = _architecture_of(source)
    _check_inputs(vision, [_PIXELS], [_PIXELS])
    _check_inputs(embeddings, [_TOKENS], [_TOKENS])
    segments = [_SEGMENTS] if architecture.has_segments else []
    _check_inputs(decoder, [_EMBEDDED, "attention_mask"], [_EMBEDDED, "attention_mask", "position_ids", *segments])
    settings = _settings(source, architecture)
    return Pipeline(
        source.path,
        TASK,
        "VLMPipeline",
        (
            Part("image encoder", vision, "openvino_vision_embeddings_model.xml", _convert_vision, "float16"),
            Part("token embeddings", embeddings, "openvino_text_embeddings_model.xml", convert_part, "int8"),
            Part(
                *("language model", decoder, "openvino_language_model.xml"),
                _convert_with_segments if segments else convert_language_model,
                is_decoder=True,
            ),
        ),
        (TokenizerFiles(source.path, pads_left=True),),
        tuple(entry for entry in copied(source) if entry[1] not in settings),
        settings,
    )


def _settings(source: SourceFolder, architecture: _Architecture) -> Mapping[str, Mapping[str, Any]]:
    """Settings that ``VLMPipeline`` reads under other names than the folder has them."""
    path = source.path / PREPROCESSOR
    if not path.is_file():
        raise ConversionError(f"{source.path} has no {PREPROCESSOR}, by which VLMPipeline prepares images")
    preprocessor = read_json(path)
    changed: dict[str, Mapping[str, Any]] = {}
    if source.configuration["model_type"] != architecture.name:
        changed[CONFIGURATION] = {**source.configuration, "model_type": architecture.name}
    size = preprocessor.get("size")
    if architecture.is_square and isinstance(size, int):
        size = {"height": size}
    if architecture.is_square and "shortest_edge" not in (size or {}):
        if not isinstance(size, dict) or "height" not in size:
            raise ConversionError(f"{path} must have a 'size' with 'height', the side of the images' tiles")
        changed[PREPROCESSOR] = {**preprocessor, "size": {**size, "shortest_edge": size["height"]}}
    return changed


def _file(source: SourceFolder, name: str, present: Sequence[str]) -> Path:
    path = source.files.get(name)
    if path is None:
        others = " and ".join(f"{other}.onnx" for other in present)
        raise ConversionError(
            f"{source.path} has {others}, but no {name}.onnx, which a model of images and texts needs"
        )
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


def _convert_with_segments(path: Path, options: ConversionOptions) -> Model:
    """The decoder with ``token_type_ids``, which transformers.js leaves out: then nothing reads them."""
    model = convert_language_model(path, options)
    add_input(model, _SEGMENTS, element_types.i64, PartialShape([None, None]))
    return model
