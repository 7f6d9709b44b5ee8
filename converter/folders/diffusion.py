"""Diffusion of images: a folder with folders for text encoders, the denoiser and the autoencoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.inputs import take_input
from converter.folders.pipeline import Part, Pipeline, TokenizerFiles, check_inputs, convert_part
from converter.folders.source import CONFIGURATION, MODEL, ModelFiles, SourceFolder, read_json
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from ir_runtime.graph import Model, PartialShape, element_types
from ir_runtime.records import record

TASK = "text-to-image"
INDEX = "model_index.json"
_CLASS, _WRAPPERS = "_class_name", ("ORT", "OV", "Onnx")
"""Optimum's classes are named as those of diffusers, with a prefix."""
_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")
_AUTOENCODER, _DECODER, _ENCODER = "vae", "vae_decoder", "vae_encoder"


@record
class _Architecture:
    """The parts of a pipeline class of diffusers."""

    classes: Mapping[str, str]
    """Component -> the class that openvino-genai looks for in ``model_index.json``."""
    inputs: tuple[str, ...]
    """Inputs of the denoiser that openvino-genai sets."""
    optional: tuple[str, ...] = ()
    """Those that it sets where the denoiser has them."""

    @property
    def denoiser(self) -> str:
        """The folder of the denoiser."""
        return "unet" if "unet" in self.classes else "transformer"


_CLIP, _PROJECTION, _T5 = "CLIPTextModel", "CLIPTextModelWithProjection", "T5EncoderModel"
_UNET = {"unet": "UNet2DConditionModel", "vae": "AutoencoderKL"}
_UNET_INPUTS = ("sample", "timestep", "encoder_hidden_states")
_TRANSFORMER_INPUTS = ("hidden_states", "timestep", "encoder_hidden_states", "pooled_projections")
_ARCHITECTURES: Mapping[str, _Architecture] = {
    "StableDiffusionPipeline": _Architecture({"text_encoder": _CLIP, **_UNET}, _UNET_INPUTS),
    "LatentConsistencyModelPipeline": _Architecture({"text_encoder": _CLIP, **_UNET}, _UNET_INPUTS, ("timestep_cond",)),
    "StableDiffusionXLPipeline": _Architecture(
        {"text_encoder": _CLIP, "text_encoder_2": _PROJECTION, **_UNET},
        (*_UNET_INPUTS, "text_embeds", "time_ids"),
        ("timestep_cond",),
    ),
    "StableDiffusion3Pipeline": _Architecture(
        {
            "text_encoder": _PROJECTION,
            "text_encoder_2": _PROJECTION,
            "text_encoder_3": _T5,
            "transformer": "SD3Transformer2DModel",
            "vae": "AutoencoderKL",
        },
        _TRANSFORMER_INPUTS,
    ),
    "FluxPipeline": _Architecture(
        {
            "text_encoder": _CLIP,
            "text_encoder_2": _T5,
            "transformer": "FluxTransformer2DModel",
            "vae": "AutoencoderKL",
        },
        (*_TRANSFORMER_INPUTS, "img_ids", "txt_ids"),
        ("guidance",),
    ),
}
_MAY_BE_MISSING = ("text_encoder_3", _ENCODER)
"""The pipeline of Stable Diffusion 3 runs without T5, and texts alone need no image encoder."""
_LABELS = {"unet": "denoiser", "transformer": "denoiser", _DECODER: "image decoder", _ENCODER: "image encoder"}


def recognise_diffusion(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A folder with ``model_index.json``, which names a pipeline of diffusers."""
    path = source.path / INDEX
    if task not in (None, TASK) or not path.is_file():
        return None
    index = read_json(path)
    name = str(index.get(_CLASS, ""))
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    architecture = _ARCHITECTURES.get(name)
    if architecture is None:
        architectures = ", ".join(_ARCHITECTURES)
        raise UnsupportedModelError(
            f"{path} names the pipeline '{name}', but those of openvino-genai are {architectures}"
        )
    folders = [*(folder for folder in architecture.classes if folder != _AUTOENCODER), _DECODER, _ENCODER]
    folders = [folder for folder in folders if folder not in _MAY_BE_MISSING or (source.path / folder).is_dir()]
    parts = [_part(source, folder, architecture) for folder in folders]
    tokenizers = sorted(folder.name for folder in source.path.glob("tokenizer*") if folder.is_dir())
    others = [folder for folder in ("scheduler", "feature_extractor") if (source.path / folder).is_dir()]
    copies = [entry for entry in source.copied(*folders, *tokenizers, *others) if entry[1] != INDEX]
    return Pipeline(
        source,
        TASK,
        "Text2ImagePipeline",
        tuple(parts),
        tuple(TokenizerFiles(source.path / folder, folder) for folder in tokenizers),
        tuple(copies),
        {INDEX: _index(name, index, architecture, folders)},
    )


def _part(source: SourceFolder, folder: str, architecture: _Architecture) -> Part:
    files = ModelFiles.of(source.path / folder)
    file = ModelFiles(files.path, source.files.variants).get("model") if files.path.is_dir() else None
    if file is None:
        raise ConversionError(f"{source.path / INDEX} needs {folder}/model.onnx, but {files.path} has {files.listed()}")
    if not (source.path / folder / CONFIGURATION).is_file():
        raise ConversionError(f"{source.path / folder} has no {CONFIGURATION}, which openvino-genai reads")
    convert = _convert_text_encoder if folder in _ENCODERS else convert_part
    if folder == architecture.denoiser:
        inputs = architecture.inputs
        gives = f"openvino-genai gives the denoiser {', '.join(inputs)}"
        check_inputs(file, inputs, (*inputs, *architecture.optional), gives)
        convert = _convert_unet if folder == "unet" else _convert_transformer
    return Part(_LABELS.get(folder, folder.replace("_", " ")), file, f"{folder}/{MODEL}", convert)


def _convert_text_encoder(file: OnnxFile, options: ConversionOptions) -> Model:
    model = convert_part(file, options)
    take_input(model, "input_ids", element_types.i64, PartialShape([None, None]))
    return model


def _convert_unet(file: OnnxFile, options: ConversionOptions) -> Model:
    """The denoiser: exporters trace ``timestep`` as a real number, openvino-genai sets one integer."""
    model = convert_part(file, options)
    take_input(model, "timestep", element_types.i64, PartialShape([None]))
    return model


def _convert_transformer(file: OnnxFile, options: ConversionOptions) -> Model:
    """The denoiser of Stable Diffusion 3 and Flux: openvino-genai sets real numbers alone."""
    model = convert_part(file, options)
    take_input(model, "timestep", element_types.f32, PartialShape([None]))
    for name in ("img_ids", "txt_ids"):  # Flux's positions, which exporters trace as integers
        take_input(model, name, element_types.f32, PartialShape([None, None]))
    return model


def _index(name: str, index: Mapping[str, Any], architecture: _Architecture, folders: list[str]) -> Mapping[str, Any]:
    """``model_index.json`` with the classes of diffusers and transformers, which openvino-genai looks for."""
    changed = {**index, _CLASS: name}
    for component, own in architecture.classes.items():
        library = "transformers" if component in _ENCODERS else "diffusers"
        has_part = component == _AUTOENCODER or component in folders
        changed[component] = [library, own] if has_part else [None, None]
    return changed
