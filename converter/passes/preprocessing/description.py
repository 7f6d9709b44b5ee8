"""Descriptions of the steps in front of the inputs and behind the outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from converter.errors import ConversionError
from ir_runtime.errors import ModelError
from ir_runtime.graph import ElementType
from ir_runtime.graph.element_types import element_type
from ir_runtime.records import record

PILLOW_RESIZES = ("bilinear_pillow", "bicubic_pillow")
"""The filters of the Python Imaging Library, which are wider where images shrink."""
RESIZES = ("linear", "cubic", "nearest", *PILLOW_RESIZES)
COLORS = ("rgb", "bgr", "nv12", "i420")
PLANES = ("nv12", "i420")
"""Formats in one plane: brightness, and below it the colour differences, ``[n, 1.5 h, w, 1]``."""


@record
class Preprocess:
    """What is done to one input before the model sees it, in the order in which it is listed here.

    ``layout`` is that of the input that callers give, ``model_layout`` that of the model: letters such as ``"nhwc"``,
    with ``"?"`` for dimensions without a meaning. Without ``layout`` it is the model's. ``element_type`` is the type
    that callers give (``"u8"``); None for the model's own, and u8 for nv12 and i420.

    ``color`` is the format of images: ``"rgb"`` and ``"bgr"``, whose channels are reversed where ``model_color`` is
    the other one, or ``"nv12"`` and ``"i420"`` in a single plane. ``resize`` (``"linear"``, ``"cubic"``,
    ``"nearest"``, and ``"bilinear_pillow"`` and ``"bicubic_pillow"``, which compute whole numbers from whole numbers)
    takes images of any height and width to those of the model, or to ``size`` (height and width) where the model's are
    dynamic. A ``size`` of one number is that of the shorter side, and the ratio of the sides stays, rounded down.
    ``crop`` (height and width) then takes the middle of the resized image. ``reverse_channels`` swaps red and blue
    before ``mean`` is subtracted and ``scale`` divides: one number, or one for each channel in the model's order.

    With ``fold`` mean and scale become part of the first convolutions' weights; the mean stays a layer in front of
    convolutions that pad.

    Numbers are computed in floats as soon as colours are red, green and blue.
    """

    element_type: str | None = None
    color: str | None = None
    model_color: str = "rgb"
    resize: str | None = None
    size: tuple[int, int] | int | None = None
    crop: tuple[int, int] | None = None
    reverse_channels: bool = False
    mean: float | Sequence[float] | None = None
    scale: float | Sequence[float] | None = None
    layout: str | None = None
    model_layout: str | None = None
    fold: bool = False

    def __post_init__(self) -> None:
        for name in ("mean", "scale"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        for name in ("layout", "model_layout"):
            object.__setattr__(self, name, parse_layout(getattr(self, name)))
        object.__setattr__(self, "element_type", _type_name(self.element_type))
        if self.scale is not None and any(value == 0 for value in self.scale):  # type: ignore[union-attr]
            raise ConversionError("scale divides the input, so that it cannot be 0")
        _choice("resize", self.resize, RESIZES)
        _choice("color", self.color, COLORS)
        _choice("model_color", self.model_color, ("rgb", "bgr"))
        for name in ("size", "crop"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.resize is None:
                raise ConversionError(f"{name} is of no use without resize: say how images are to be resized")
            object.__setattr__(self, name, _lengths(name, value))
        if self.crop is not None:
            if self.size is None:
                raise ConversionError("crop needs size, to which images are resized before")
            sides = (self.size, self.size) if isinstance(self.size, int) else self.size
            if any(length > side for length, side in zip(self.crop, sides)):
                raise ConversionError(
                    f"crop takes the middle of resized images, but is {list(self.crop)}, and size is {self.size}"
                )
        for name in ("reverse_channels", "fold"):
            if not isinstance(getattr(self, name), bool):
                raise ConversionError(f"{name} must be True or False, but is {getattr(self, name)!r}")
        if self.fold and self.mean is None and self.scale is None:
            raise ConversionError("fold is of no use without mean or scale: they become part of the first convolution")

    @property
    def swaps_colors(self) -> bool:
        """True if red and blue are swapped by a step of their own."""
        differs = self.color is not None and self.color not in PLANES and self.color != self.model_color
        return self.reverse_channels != differs


@record
class Postprocess:
    """What is done to one output behind the model: another element type, then another layout.

    ``element_type`` and ``layout`` are those of the output that callers get, ``model_layout`` is the model's.
    """

    element_type: str | None = None
    layout: str | None = None
    model_layout: str | None = None

    def __post_init__(self) -> None:
        for name in ("layout", "model_layout"):
            object.__setattr__(self, name, parse_layout(getattr(self, name)))
        object.__setattr__(self, "element_type", _type_name(self.element_type))
        if self.layout is not None and self.model_layout is None:
            raise ConversionError(f"an output in the layout {self.layout} needs the model's layout, too: model_layout")


def parse_layout(text: str | None) -> str | None:
    """The letters of a layout in lower case: ``nhwc``, ``NHWC``, ``[N,H,W,C]`` and ``n??c`` are read."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConversionError(f"a layout must be letters such as nhwc, but is {text!r}")
    letters = "".join(character for character in text.lower() if character not in "[], ")
    if not letters or not all(letter.isalpha() or letter == "?" for letter in letters):
        raise ConversionError(f"a layout must be letters such as nhwc, or n??c, but is {text!r}")
    named = [letter for letter in letters if letter != "?"]
    if len(set(named)) != len(named):
        raise ConversionError(f"the layout {text!r} has a letter twice")
    return letters


def order_between(source: str, target: str, whose: str) -> list[int]:
    """Return the dimension of ``source`` for each dimension of ``target``. Raises :class:`ConversionError`."""
    if "?" in source + target or sorted(source) != sorted(target):
        if source == target:
            return list(range(len(source)))
        raise ConversionError(f"{whose} cannot be brought from the layout {source} to {target}: the letters differ")
    return [source.index(letter) for letter in target]


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        numbers = tuple(float(value) for value in (values if hasattr(values, "__iter__") else [values]))
    except (TypeError, ValueError) as error:
        raise ConversionError(f"{name} must be one number, or one for each channel, but is {values!r}") from error
    if not numbers or isinstance(values, str) or not all(map(math.isfinite, numbers)):
        raise ConversionError(f"{name} must be one number, or one for each channel, but is {values!r}")
    return numbers


def _type_name(requested_type: Any) -> str | None:
    if requested_type is None:
        return None
    if isinstance(requested_type, ElementType):
        return requested_type.name
    try:
        return element_type(requested_type).name
    except (ModelError, TypeError, KeyError) as error:
        raise ConversionError(f"element_type must be a type such as u8 or f32, but is {requested_type!r}") from error


def _choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        raise ConversionError(f"{name} must be {', '.join(allowed[:-1])} or {allowed[-1]}, but is {value!r}")


def _lengths(name: str, value: Any) -> tuple[int, int] | int:
    """Height and width; of ``size`` also the shorter side alone."""
    lengths = [value] if type(value) is int and name == "size" else value
    if (
        not isinstance(lengths, (tuple, list))
        or (len(lengths) != 2 and lengths is value)
        or not all(type(length) is int and length > 0 for length in lengths)
    ):
        raise ConversionError(f"{name} must be the height and the width that images get, but is {value!r}")
    return (lengths[0], lengths[1]) if lengths is value else lengths[0]
