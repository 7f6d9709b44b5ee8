"""Colours of images: from the planes of NV12 and I420 to red, green and blue, and back to NV12.

Images are ``[n, h, w, channels]``. Both formats have one brightness (Y) for each pixel and one pair of
colour differences (U, V) for each square of four pixels, so heights and widths are even. NV12 has the
pairs side by side, I420 has a plane for U and one for V. In a single plane, of one and a half times the
image's height, they stand below the brightness.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/image/nv12-to-rgb-8.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import INFINITY, Array, Dimension, ElementType, PartialShape, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation
from ir_runtime.graph.shapes import require_rank, same_dimension

from .elementwise import merge_types

_TWO = Dimension(2, 2)


def _part(dimension: Dimension, times: int, over: int) -> Dimension:
    """``dimension * times / over``, without what is not whole."""
    low = -(-dimension.low * times // over)
    high = INFINITY if dimension.high == INFINITY else dimension.high * times // over
    if low > high:
        raise InferenceError(f"a dimension of {dimension} cannot be shared by the planes of an image")
    return Dimension(low, high)


def _check_element_type(element_type: ElementType) -> None:
    if not (element_type is element_types.u8 or element_type.is_real or element_type.is_dynamic):
        raise InferenceError(f"images must be of the type u8 or of a floating-point type, but are {element_type}")


def _check_channels(subject: str, shape: PartialShape, count: int) -> None:
    if not shape[3].contains(count):
        raise InferenceError(f"{subject} must have {count} channels, but the shape is {shape}")


def _store(values: Array, dtype: np.dtype[Any], to_whole: Callable[[Array], Array]) -> Array:
    """Colours between 0 and 255 in the images' type."""
    clipped = np.clip(values, 0, 255)
    return (to_whole(clipped) if dtype.kind == "u" else clipped).astype(dtype)


def _halves_up(values: Array) -> Array:
    # The sum values + 0.5 may be rounded up, so the fraction decides.
    whole = np.trunc(values)
    return whole + (values - whole >= 0.5)


def _wide(plane: Array) -> Array:
    return plane if plane.dtype == np.float64 else plane.astype(np.float32)


class _ToColours(Operation):
    """Red, green and blue ``[n, h, w, 3]`` of a single plane ``[n, 1.5 h, w, 1]``, or of separate ones.

    The type is u8 or a floating-point type; values lie between 0 and 255 whatever the type. Those of
    u8 are rounded, halves to the even number, as OpenVINO's CPU plug-in does.
    """

    chroma: ClassVar[int]
    """The number of colour differences side by side in a plane of them."""
    blue_first: ClassVar[bool]

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types(inputs)
        _check_element_type(element_type)
        planes = [require_rank("a plane", source.shape, 4) for source in inputs]
        if self._is_single(len(inputs)):
            _check_channels("the plane", planes[0], 1)
            batch, rows, width, _ = planes[0]
            height = _part(rows, 2, 3)
        else:
            bright, *chroma = planes
            _check_channels("the plane of brightness", bright, 1)
            for plane in chroma:
                _check_channels("a plane of colour differences", plane, self.chroma)
            batch = same_dimension("the batch", *(plane[0] for plane in planes))
            height = same_dimension("the height", bright[1], *(plane[1] * _TWO for plane in chroma))
            width = same_dimension("the width", bright[2], *(plane[2] * _TWO for plane in chroma))
        _part(width, 1, 2)
        return [TensorType(element_type, PartialShape([batch, height, width, 3]))]

    def _is_single(self, count: int) -> bool:
        plane_count = 2 if self.chroma == 2 else 3
        if count not in (1, plane_count):
            raise InferenceError(f"{self.type} takes one plane or {plane_count}, but got {count}")
        return count == 1

    def evaluate(self, *inputs: Array) -> Array:
        y, u, v = self._planes(*inputs)
        c, d, e = y - y.dtype.type(16), u - u.dtype.type(128), v - v.dtype.type(128)
        bright = c * y.dtype.type(1.164)
        red = bright + e * e.dtype.type(1.596)
        green = bright - d * d.dtype.type(0.391) - e * e.dtype.type(0.813)
        blue = bright + d * d.dtype.type(2.018)
        channels = [blue, green, red] if self.blue_first else [red, green, blue]
        return _store(np.stack(channels, -1), inputs[0].dtype, np.rint)

    def _planes(self, *inputs: Array) -> list[Array]:
        """Brightness and both colour differences, each ``[n, h, w]``."""
        bright, *chroma = (_wide(plane) for plane in inputs)
        batch, height, width = bright.shape[:3]
        if not chroma:
            height = height * 2 // 3
            shape = (batch, height // 2, width // 2, 2) if self.chroma == 2 else (batch, 2, height // 2, width // 2)
            below = bright[:, height:].reshape(shape)
            chroma = [below] if self.chroma == 2 else [below[:, 0, ..., None], below[:, 1, ..., None]]
        pairs = chroma[0] if self.chroma == 2 else np.concatenate(chroma, -1)
        spread = pairs.repeat(2, axis=1).repeat(2, axis=2)
        return [bright[:, :height, :, 0], spread[..., 0], spread[..., 1]]


class _FromNV12(_ToColours):
    inputs = (1, 2)
    chroma = 2
    __doc__ = _ToColours.__doc__


class _FromI420(_ToColours):
    inputs = (1, 3)
    chroma = 1
    __doc__ = _ToColours.__doc__


def _to_colours(name: str, base: type[_ToColours], blue_first: bool) -> type[_ToColours]:
    body = {"blue_first": blue_first, "__doc__": _ToColours.__doc__, "__module__": __name__}
    return operation(name, opset=8)(type(f"{name}8", (base,), body))


NV12toRGB8 = _to_colours("NV12toRGB", _FromNV12, False)
NV12toBGR8 = _to_colours("NV12toBGR", _FromNV12, True)
I420toRGB8 = _to_colours("I420toRGB", _FromI420, False)
I420toBGR8 = _to_colours("I420toBGR", _FromI420, True)

# Brightness and the two colour differences out of red, green and blue.
WEIGHTS = np.array([[0.257, 0.504, 0.098], [-0.148, -0.291, 0.439], [0.439, -0.368, -0.071]])
OFFSETS = np.array([16.0, 128.0, 128.0])


class _ToNV12(Operation):
    """NV12 of an image ``[n, h, w, 3]``.

    The output is a single plane ``[n, 1.5 h, w, 1]``, or, without ``single_plane``, the brightness
    ``[n, h, w, 1]`` and the colour differences ``[n, h / 2, w / 2, 2]``, which are the mean of those of
    four pixels. Those of u8 are rounded before and after the mean is taken, halves up.
    """

    inputs = (1, 1)
    blue_first: ClassVar[bool]
    single_plane: bool = boolean(default=True)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = inputs[0].element_type
        _check_element_type(element_type)
        image = require_rank("the image", inputs[0].shape, 4)
        _check_channels("the image", image, 3)
        batch, height, width, _ = image
        halves = [_part(height, 1, 2), _part(width, 1, 2)]
        if self.single_plane:
            return [TensorType(element_type, PartialShape([batch, _part(height, 3, 2), width, 1]))]
        return [
            TensorType(element_type, PartialShape([batch, height, width, 1])),
            TensorType(element_type, PartialShape([batch, *halves, 2])),
        ]

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        image = inputs[0]
        colours = _wide(image)[..., ::-1] if self.blue_first else _wide(image)
        weights = WEIGHTS.astype(colours.dtype)
        converted = sum(colours[..., i, None] * weights[:, i] for i in range(3)) + OFFSETS.astype(colours.dtype)
        planes = _store(converted, image.dtype, _halves_up)
        batch, height, width, _ = image.shape
        squares = _wide(planes[..., 1:]).reshape(batch, height // 2, 2, width // 2, 2, 2)
        pairs = _store(squares.sum((2, 4)) / squares.dtype.type(4), image.dtype, _halves_up)
        bright = planes[..., :1]
        if not self.single_plane:
            return bright, pairs
        return np.concatenate([bright, pairs.reshape(batch, height // 2, width, 1)], 1)


def _to_nv12(name: str, blue_first: bool) -> type[_ToNV12]:
    body = {"blue_first": blue_first, "__doc__": _ToNV12.__doc__, "__module__": __name__}
    return operation(name, opset=17)(type(f"{name}17", (_ToNV12,), body))


RGBtoNV12_17 = _to_nv12("RGBtoNV12", False)
BGRtoNV12_17 = _to_nv12("BGRtoNV12", True)
