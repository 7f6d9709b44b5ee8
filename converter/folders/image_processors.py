"""The steps of transformers' image processors, as ``preprocessor_config.json`` describes them, for the IR.

The listed classes have the same order: convert to RGB, resize, crop the center, rescale, normalize. Settings of further
steps are refused, and so are other classes, as settings of the same name mean other things there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.pipeline import OPENVINO, Pipeline, graph_names
from converter.folders.source import PREPROCESSOR
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from converter.passes.preprocessing.description import Preprocess
from ir_runtime.records import record

PIXELS = "pixel_values"
_ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")
_FILTERS = {2: "bilinear_pillow", 3: "bicubic_pillow", "bilinear": "bilinear_pillow", "bicubic": "bicubic_pillow"}
"""Pillow's numbers and transformers' names of filters that the IR has."""
_CHANNELS = 3


@record
class _Processor:
    """The steps of a class, and its defaults for settings that the file does not have."""

    is_square: bool = True
    """True if a ``size`` of one number is that of both sides, False if it is that of the shorter one."""
    crops: bool = False
    """The default of ``do_center_crop``."""
    crops_share: bool = False
    """True if below sides of :data:`_LARGE` the image is resized to ``size / crop_pct``, and cropped to ``size``."""
    reverses: bool = False
    """The default of ``do_flip_channel_order``."""
    normalizes: bool = True
    """The default of ``do_normalize``."""


_PROCESSORS: Mapping[str, _Processor] = {
    "Beit": _Processor(crops=True),
    "Bit": _Processor(is_square=False, crops=True),
    "Blip": _Processor(),
    "CLIP": _Processor(is_square=False, crops=True),
    "ConvNext": _Processor(is_square=False, crops_share=True),
    "DPT": _Processor(),
    "DeiT": _Processor(crops=True),
    "MobileNetV1": _Processor(is_square=False, crops=True),
    "MobileNetV2": _Processor(is_square=False, crops=True),
    "MobileViT": _Processor(is_square=False, crops=True, reverses=True, normalizes=False),
    "RTDetr": _Processor(normalizes=False),
    "Segformer": _Processor(),
    "Siglip": _Processor(),
    "ViT": _Processor(),
}
"""Classes by the prefix of their names, which the classes of all backends share."""
_SWITCHES = {
    *("do_convert_rgb", "do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_flip_channel_order"),
    *("do_reduce_labels", "do_convert_annotations"),  # for labels, which training alone reads
}
"""Settings ``do_*`` that are read, or that do not change the input of the model."""
_DEFAULT_SHARE = 224 / 256
"""The default of ``crop_pct``."""
_LARGE = 384
"""The side from which on ConvNext resizes without a crop."""


def prepare_images(pipeline: Pipeline, options: ConversionOptions) -> tuple[Pipeline, ConversionOptions]:
    """Return the pipeline without its image settings, and options that put their steps in front of the model.

    Raises :class:`ConversionError` for a pipeline that prepares images itself or reads none, and for options that have
    preprocessing already.
    """
    model = pipeline.parts[0]
    if pipeline.runtime != OPENVINO or len(pipeline.parts) > 1 or PIXELS not in graph_names(model.file)[0]:
        raise ConversionError(
            f"preprocess_images is for a single model of '{PIXELS}', but {pipeline.path} is for {pipeline.task}, run "
            f"by {pipeline.runtime}"
        )
    if options.request is not None:
        raise ConversionError(f"preprocess_images takes the steps from {PREPROCESSOR}: give no other steps")
    settings = pipeline.source.image_settings
    if settings is None:
        raise ConversionError(f"{pipeline.path} has no {PREPROCESSOR}, from which preprocess_images takes the steps")
    steps, lengths = steps_of(settings, PREPROCESSOR)
    shapes = options.input or {PIXELS: _shape(model.file, [-1, _CHANNELS, *(lengths or (-1, -1))])}
    copies = tuple(entry for entry in pipeline.copies if entry[1] != PREPROCESSOR)
    return replace(pipeline, copies=copies), replace(options, input=shapes, preprocess={PIXELS: steps})


def _shape(file: OnnxFile, lengths: Sequence[int]) -> list[int]:
    """Return the shape of images that the file declares, with ``lengths`` for its dynamic dimensions."""
    inputs = file.proto.graph.input
    declared = next(value.type.tensor_type.shape.dim for value in inputs if value.name == PIXELS)
    if len(declared) != len(lengths):
        raise ConversionError(
            f"{file.name} must read '{PIXELS}' as {len(lengths)}-D images, but reads {len(declared)}-D"
        )
    return [dim.dim_value if dim.HasField("dim_value") else length for dim, length in zip(declared, lengths)]


def steps_of(settings: Mapping[str, Any], file: str) -> tuple[Preprocess, tuple[int, int] | None]:
    """Return the steps that ``settings`` of the file ``file`` describe, and the height and width of the model's input.

    These are None where they depend on the image. Raises :class:`UnsupportedModelError` for a class or a
    setting that the IR does not express, :class:`ConversionError` for settings that are missing or wrong.
    """
    reader = _Reader(settings, file)
    processor = reader.processor()
    reader.refuse_others()
    rescale = reader.number("rescale_factor", 1 / 255) if reader.switch("do_rescale", True) else 1.0
    mean: list[float] | None = None
    scale = [1 / rescale]
    if reader.switch("do_normalize", processor.normalizes):
        mean = [value / rescale for value in reader.channels("image_mean")]
        scale = [value / rescale for value in reader.channels("image_std")]
    size, crop = reader.sizes(processor) if reader.switch("do_resize", True) else (None, None)
    if size is None and reader.switch("do_center_crop", processor.crops):
        reader.fail("do_center_crop without do_resize, which pads images that are smaller")
    steps = Preprocess(
        element_type="u8",
        color="rgb",
        model_color="bgr" if reader.switch("do_flip_channel_order", processor.reverses) else "rgb",
        resize=None if size is None else reader.filter(),
        size=size,
        crop=crop,
        mean=mean,
        scale=None if scale == [1.0] else scale,
        layout="nhwc",
        model_layout="nchw",
    )
    lengths = size if crop is None else crop
    return steps, lengths if isinstance(lengths, tuple) else None


@record
class _Reader:
    """Reads and checks the settings of ``file``."""

    settings: Mapping[str, Any]
    file: str

    def fail(self, steps: str) -> None:
        """Raise :class:`UnsupportedModelError` for steps that the IR does not express."""
        raise UnsupportedModelError(
            f"{self.file} requires {steps}: the IR cannot have these steps in front of the model"
        )

    def processor(self) -> _Processor:
        """Return the class that the settings name."""
        name = self.settings.get("image_processor_type", self.settings.get("feature_extractor_type"))
        if not isinstance(name, str):
            raise ConversionError(f"{self.file} must name its class as 'image_processor_type'")
        stem = next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)
        if stem not in _PROCESSORS:
            raise UnsupportedModelError(
                f"{self.file} is for {name}, but steps can be taken from the settings of {', '.join(_PROCESSORS)}: "
                "describe them in a file for --preprocess, and convert the ONNX file by itself"
            )
        return _PROCESSORS[stem]

    def refuse_others(self) -> None:
        """Refuse steps that no listed class has in common."""
        for name, value in self.settings.items():
            if name.startswith("do_") and name not in _SWITCHES and value:
                self.fail(name)
        if self.settings.get("keep_aspect_ratio"):
            self.fail("keep_aspect_ratio, whose sizes are rounded by another rule")
        multiple = self.settings.get("ensure_multiple_of", 1)
        if multiple not in (None, 1):
            self.fail(f"ensure_multiple_of {multiple}")

    def switch(self, name: str, default: bool) -> bool:
        """Return a boolean setting."""
        value = self.settings.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConversionError(f"'{name}' in {self.file} must be true or false, but is {value!r}")
        return default if value is None else value

    def number(self, name: str, default: float) -> float:
        """Return a setting that is a positive number."""
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ConversionError(f"'{name}' in {self.file} must be a positive number, but is {value!r}")
        return float(value)

    def channels(self, name: str) -> list[float]:
        """Return a setting of one number for each channel; a single number counts for all."""
        values = self.settings.get(name)
        values = [values] * _CHANNELS if isinstance(values, (int, float)) else values
        if not isinstance(values, list) or len(values) != _CHANNELS:
            raise ConversionError(f"'{name}' in {self.file} must be {_CHANNELS} numbers, but is {values!r}")
        return values

    def filter(self) -> str:
        """Return the filter of Pillow that resizes, as the IR names it."""
        number = self.settings.get("resample")
        if number not in _FILTERS:
            self.fail(f"the filter 'resample': {number!r} (it has 2, bilinear, and 3, bicubic)")
        return _FILTERS[number]

    def sizes(self, processor: _Processor) -> tuple[tuple[int, int] | int, tuple[int, int] | None]:
        """Return the height and width, or the shorter side, of resized images, and the height and width of the crop."""
        size = self._lengths("size", processor.is_square)
        if processor.crops_share:
            if not isinstance(size, int):
                raise ConversionError(
                    f"'size' in {self.file} must have 'shortest_edge', but is {self.settings['size']!r}"
                )
            if size >= _LARGE:
                return (size, size), None
            return int(size / self.number("crop_pct", _DEFAULT_SHARE)), (size, size)
        if not self.switch("do_center_crop", processor.crops):
            return size, None
        crop = self._lengths("crop_size", True)
        sides = (size, size) if isinstance(size, int) else size
        if isinstance(crop, int) or any(length > side for length, side in zip(crop, sides)):
            self.fail(f"a crop to {crop} of images of the size {size}, which pads them")
        return size, None if crop == size else crop  # type: ignore[return-value]

    def _lengths(self, name: str, is_square: bool) -> tuple[int, int] | int:
        """Return the height and width, or the shorter side, that a setting such as ``size`` has in one of its forms."""
        value = self.settings.get(name)
        if type(value) is int:
            value = {"height": value, "width": value} if is_square else {"shortest_edge": value}
        sides = {key: side for key, side in value.items() if side is not None} if isinstance(value, dict) else {}
        if sides.keys() == {"shortest_edge", "longest_edge"}:
            self.fail(f"the {name} {value}, whose sides are rounded to integers")
        lengths = [sides[key] for key in ("height", "width", "shortest_edge") if key in sides]
        is_complete = sides.keys() in ({"height", "width"}, {"shortest_edge"})
        if not is_complete or not all(type(length) is int and length > 0 for length in lengths):
            raise ConversionError(
                f"'{name}' in {self.file} must have 'height' and 'width', or 'shortest_edge', but is {value!r}"
            )
        return (lengths[0], lengths[1]) if len(lengths) > 1 else lengths[0]
