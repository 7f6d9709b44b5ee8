"""Models of images and texts: an encoder of images, the embeddings of tokens, and a decoder of embeddings.

transformers.js names the files ``vision_encoder.onnx``, ``embed_tokens.onnx`` and ``decoder_model_merged.onnx``. In
folders for onnxruntime-genai ``genai_config.json`` names them, and the model of embeddings puts those of images among
those of tokens. ``VLMPipeline`` does so itself, and prepares the images as ``preprocessor_config.json`` says, in a way
that depends on ``model_type`` of ``config.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.deepstack import take_states_of_images
from converter.folders.inputs import add_input, give_output_rank, without_features
from converter.folders.language import convert_language_model
from converter.folders.patches import GRIDS, PATCHES, STATES, Embedded, pass_on, take_embeddings, take_positions
from converter.folders.pipeline import Part, Pipeline, TokenizerFiles, check_inputs, convert_part, graph_names
from converter.folders.source import CONFIGURATION, GENAI_SETTINGS, GENERATION, PREPROCESSOR, PROCESSOR, SourceFolder
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from converter.passes.states.stateful import compute_in_float32
from ir_runtime.graph import Model, PartialShape, element_types
from ir_runtime.records import record

TASK = "image-text-to-text"
_FILES = {"vision_encoder": "vision", "embed_tokens": "embedding", "decoder_model_merged": "decoder"}
"""Names of files, and of the parts of ``genai_config.json``."""
_OUTPUT = "openvino_"
_PIXELS, _TOKENS, _FEATURES, _EMBEDDED = "pixel_values", "input_ids", "image_features", "inputs_embeds"
_SEGMENTS = "token_type_ids"
_STACKED_FEATURES, _STACKED, _STACKED_STATES = "deepstack_features", "deepstack_embeds", "deepstack_feature_lists"
"""States of images that layers of the decoder add: as the encoder returns them, for all tokens, and in VLMPipeline."""


@record
class _Architecture:
    """Requirements of ``VLMPipeline`` on models of a type."""

    name: str
    """The name of the type in ``VLMPipeline``."""
    has_segments: bool = False
    """True if it gives the decoder ``token_type_ids``, which tell tokens of images from those of texts."""
    is_square: bool = False
    """True if it reads the size of images as ``size.shortest_edge``, where the preprocessor has ``size.height``."""
    has_patches: bool = False
    """True if images are rows of patches of any number, whose positions it computes."""
    has_windows: bool = False
    """True if some layers of the encoder see windows of an image alone, whose order it computes."""
    has_deepstack: bool = False
    """True if it adds positions to the embeddings of patches, and layers of the decoder add states of images."""


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "gemma3": _Architecture("gemma3", has_segments=True),
    "internvl": _Architecture("internvl_chat", is_square=True),
    "internvl_chat": _Architecture("internvl_chat", is_square=True),
    "llava": _Architecture("llava"),
    "qwen2_5_vl": _Architecture("qwen2_5_vl", has_patches=True, has_windows=True),
    "qwen2_vl": _Architecture("qwen2_vl", has_patches=True),
    "qwen3_vl": _Architecture("qwen3_vl", has_patches=True, has_deepstack=True),
}
"""Types of models, as ``config.json`` calls them."""
_UNKNOWN = "which VLMPipeline of openvino-genai 2026.4 does not know"
_REFUSED = {
    **dict.fromkeys(("idefics3", "smolvlm"), _UNKNOWN),
    "phi3_v": "whose tiles of an image VLMPipeline joins between an encoder and a projection, which are one model here",
    "minicpmv": "whose encoder and resampler VLMPipeline wants as two models, which are one model here",
}
"""Reasons why others cannot be converted."""


def recognise_vision_language(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A folder with an encoder of images, the embeddings of tokens and a decoder of embeddings."""
    files = _files_of_settings(source) or {name: source.files.get(name) for name in _FILES if source.files.has(name)}
    if task not in (None, TASK) or len(files) < 2:
        return None
    vision, embeddings, decoder = (_file(source, name, files) for name in _FILES)
    configuration = source.configuration or source.made_configuration()
    architecture = _architecture_of(source, configuration)
    preprocessor = _preprocessor_of(source)
    _check_inputs(vision, [_PIXELS], [_PIXELS, *(GRIDS if architecture.has_patches else ())])
    stacked, segments = architecture.has_deepstack, [_SEGMENTS] if architecture.has_segments else []
    _check_inputs(embeddings, [_TOKENS], [_TOKENS, _FEATURES, *([_STACKED_FEATURES] if stacked else [])])
    needed = [_EMBEDDED, "attention_mask", *([_STACKED] if stacked else [])]
    _check_inputs(decoder, needed, [*needed, "position_ids", *segments])
    settings: Mapping[str, Mapping[str, Any]] = {
        CONFIGURATION: {**configuration, "model_type": architecture.name},
        PREPROCESSOR: _with_shortest_edge(source, preprocessor) if architecture.is_square else preprocessor,
        **source.missing_settings(GENERATION),
    }
    vision_parts = [Part("image encoder", vision, f"{_OUTPUT}vision_embeddings_model.xml", _convert_vision, "float16")]
    if architecture.has_patches:
        merge_size = int(preprocessor.get("merge_size", 2))
        window = _window_of(configuration, merge_size) if architecture.has_windows else None
        table = _positions_of(configuration) if stacked else 0
        merger = partial(_convert_patches, merge_size=merge_size, window=window)
        vision_parts = [
            Part("patches", vision, f"{_OUTPUT}vision_embeddings_model.xml", _convert_no_patches, "float16"),
            Part("image encoder", vision, f"{_OUTPUT}vision_embeddings_merger_model.xml", merger, "float16"),
        ]
        if stacked:
            vision_parts = _embedded_parts(vision, merge_size, table)
    convert_decoder: Callable[[OnnxFile, ConversionOptions], Model] = convert_language_model
    if segments:
        convert_decoder = _convert_with_segments
    if stacked:
        layers = len(configuration["vision_config"]["deepstack_visual_indexes"])
        convert_decoder = partial(_convert_with_states, layers=layers)
    return Pipeline(
        source,
        TASK,
        "VLMPipeline",
        (
            *vision_parts,
            Part("token embeddings", embeddings, f"{_OUTPUT}text_embeddings_model.xml", _convert_embeddings, "int8"),
            Part("language model", decoder, f"{_OUTPUT}language_model.xml", convert_decoder, is_decoder=True),
        ),
        (TokenizerFiles(source.path, pads_left=True),),
        tuple(entry for entry in source.copied() if entry[1] not in settings),
        settings,
    )


def _files_of_settings(source: SourceFolder) -> Mapping[str, OnnxFile | None]:
    """The files that ``genai_config.json`` names; empty where it has no part for images."""
    parts = source.settings.get("model", {})
    parts = parts if isinstance(parts, dict) and "vision" in parts else {}
    files: dict[str, OnnxFile | None] = {}
    for name, part in _FILES.items():
        if isinstance(parts.get(part), dict) and "filename" in parts[part]:
            path = source.path / str(parts[part]["filename"])
            if not path.is_file():
                raise ConversionError(f"{source.path / GENAI_SETTINGS} names '{path.name}', but there is no such file")
            files[name] = source.files.open(path)
    return files


def _file(source: SourceFolder, name: str, files: Mapping[str, OnnxFile | None]) -> OnnxFile:
    file = files.get(name)
    if file is None:
        others = " and ".join(Path(other.name).name for other in files.values() if other is not None)
        missing = f"'{_FILES[name]}' in {GENAI_SETTINGS}" if source.settings else f"{name}.onnx"
        raise ConversionError(f"{source.path} has {others}, but no {missing}, which a model of images and texts needs")
    return file


def _architecture_of(source: SourceFolder, configuration: Mapping[str, Any]) -> _Architecture:
    name = configuration.get("model_type")
    if name is None:
        raise ConversionError(f"{source.path / CONFIGURATION} must name the 'model_type', by which VLMPipeline works")
    if name not in _ARCHITECTURES:
        reason = _REFUSED.get(name, "")
        raise UnsupportedModelError(
            f"{source.path} is of the type '{name}'{reason and ', '}{reason}; of those of VLMPipeline "
            f"{', '.join(_ARCHITECTURES)} can be converted. Convert the file of each part by itself"
        )
    return _ARCHITECTURES[name]


def _preprocessor_of(source: SourceFolder) -> Mapping[str, Any]:
    settings = source.image_settings
    if settings is None:
        raise ConversionError(
            f"{source.path} has no {PREPROCESSOR}, and no {PROCESSOR} with an 'image_processor', by which VLMPipeline "
            "prepares images"
        )
    return settings


def _with_shortest_edge(source: SourceFolder, preprocessor: Mapping[str, Any]) -> Mapping[str, Any]:
    size = preprocessor.get("size")
    size = {"height": size} if isinstance(size, int) else size
    if not isinstance(size, dict) or size.keys().isdisjoint(("height", "shortest_edge")):
        raise ConversionError(
            f"{source.path / PREPROCESSOR} must have a 'size' with 'height', the side of the images' tiles"
        )
    return {**preprocessor, "size": {"shortest_edge": size.get("height"), **size}}


def _check_inputs(file: OnnxFile, needed: Sequence[str], expected: Sequence[str]) -> None:
    gives = f"VLMPipeline gives this model {', '.join(expected)}"
    check_inputs(file, needed, expected, gives, ignored="past_key_values.")


def _convert_vision(file: OnnxFile, options: ConversionOptions) -> Model:
    """The images' states, ``[images, tokens, width]``: some exporters leave the first dimension out."""
    features = graph_names(file)[1][0]
    model = convert_part(file, options, [features], names={features: STATES})
    give_output_rank(model, STATES, 3)
    return model


def _window_of(configuration: Mapping[str, Any], merge_size: int) -> int:
    """The side of windows in tokens, from the settings and defaults of openvino-genai."""
    vision = configuration.get("vision_config", {})
    window = int(vision.get("window_size", 112)) // merge_size // int(vision.get("patch_size", 14))
    if window < 1:
        raise ConversionError(
            f"'window_size' in 'vision_config' of {CONFIGURATION} must be at least the side of a token, "
            f"{merge_size} patches, but is {vision.get('window_size', 112)}"
        )
    return window


def _convert_patches(file: OnnxFile, options: ConversionOptions, merge_size: int, window: int | None) -> Model:
    """The states of images as rows, from their patches as rows."""
    features = graph_names(file)[1][0]
    model = convert_part(file, options, [features], names={features: STATES, _PIXELS: PATCHES})
    take_positions(model, merge_size, window)
    return model


def _positions_of(configuration: Mapping[str, Any]) -> int:
    """The number of positions of patches in the table of openvino-genai."""
    vision = configuration.get("vision_config", {})
    for name, expected in (("num_position_embeddings", int), ("deepstack_visual_indexes", list)):
        if not isinstance(vision.get(name), expected):
            raise ConversionError(
                f"'vision_config' in {CONFIGURATION} must have '{name}', by which VLMPipeline computes positions of "
                "patches and states of images"
            )
    return int(vision["num_position_embeddings"])


def _embedded_parts(vision: OnnxFile, merge_size: int, positions: int) -> list[Part]:
    """An encoder in three parts: embeddings of patches, those of positions, and the layers."""
    divided: dict[ConversionOptions, Embedded] = {}

    def convert_whole(file: OnnxFile, options: ConversionOptions) -> Embedded:
        if options not in divided:
            features, *others = graph_names(file)[1]
            names = {features: STATES, _STACKED_FEATURES: _STACKED_STATES}
            if _STACKED_FEATURES not in others:
                raise UnsupportedModelError(f"{file.name} must return '{_STACKED_FEATURES}', which decoder layers add")
            model = convert_part(file, options, [features, _STACKED_FEATURES], names=names)
            embedded = take_embeddings(model, _PIXELS, (STATES, _STACKED_STATES), merge_size, positions)
            take_positions(embedded.encoder, merge_size)
            divided[options] = embedded
        return divided[options]

    def part(name: str, file: str, choose: Callable[[Embedded], Model]) -> Part:
        def convert(file: OnnxFile, options: ConversionOptions) -> Model:
            return choose(convert_whole(file, options))

        return Part(name, vision, f"{_OUTPUT}vision_embeddings_{file}model.xml", convert, "float16")

    return [
        part("patches", "", lambda embedded: embedded.patches),
        part("positions", "pos_", lambda embedded: embedded.positions),
        part("image encoder", "merger_", lambda embedded: embedded.encoder),
    ]


def _convert_no_patches(file: OnnxFile, options: ConversionOptions) -> Model:
    inputs = file.proto.graph.input
    dims = next(value.type.tensor_type.shape.dim for value in inputs if value.name == _PIXELS)
    if len(dims) != 2:
        raise UnsupportedModelError(
            f"{file.name} must read '{_PIXELS}' as rows, one for each patch, but reads {len(dims)}-D"
        )
    return pass_on(int(dims[1].dim_value) if dims[1].HasField("dim_value") else None)


def _convert_embeddings(file: OnnxFile, options: ConversionOptions) -> Model:
    """The embeddings of tokens alone."""
    model = convert_part(file, options)
    if len(model.parameters) > 1:
        model = without_features(model, _TOKENS, _EMBEDDED)
        compute_in_float32(model)  # the output is another value now, which may be of float16
    return model


def _convert_with_states(file: OnnxFile, options: ConversionOptions, layers: int) -> Model:
    """The decoder with the states of images as VLMPipeline gives them."""
    model = convert_language_model(file, options)
    count = take_states_of_images(model, _STACKED, _EMBEDDED)
    if count != layers:
        raise UnsupportedModelError(
            f"'{_STACKED}' has states for {count} layers, but 'deepstack_visual_indexes' in {CONFIGURATION} {layers}"
        )
    return model


def _convert_with_segments(file: OnnxFile, options: ConversionOptions) -> Model:
    """The decoder with ``token_type_ids``, which transformers.js leaves out: then nothing reads them."""
    model = convert_language_model(file, options)
    add_input(model, _SEGMENTS, element_types.i64, PartialShape([None, None]))
    return model
