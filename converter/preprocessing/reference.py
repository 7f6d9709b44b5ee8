"""The same steps in NumPy, written from the operations' specifications: what ``verify`` gives the ONNX side.

Nothing here comes from the executor of the IR, whose results are compared with these.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from converter.preprocessing.description import PLANES, Postprocess, Preprocess
from ir_runtime.graph import Array
from ir_runtime.graph.indices import take

_A = -0.75
"""The coefficient of the cubic kernel."""


def preprocessed(value: Array, steps: Preprocess) -> Array:
    """The model's input for what a caller gives, in wider floats. ``steps`` are complete, with layouts and size."""
    array = np.asarray(value)
    if steps.color in PLANES:
        array = _from_plane(array, steps.color == "nv12", steps.model_color == "bgr")
    if steps.resize or steps.mean is not None or steps.scale is not None:
        array = array.astype(np.float64)
    layout = steps.layout or ""
    model = steps.model_layout or layout
    if steps.resize is not None and steps.size is not None:
        for letter, count in zip("hw", steps.size):
            array = _resize(array, layout.index(letter), count, steps.resize)
    channels = layout.index("c") if "c" in layout else None
    if steps.swaps_colors:
        array = np.flip(array, cast(int, channels))
    if steps.mean is not None:
        array = array - _by_channel(steps.mean, array, channels)
    if steps.scale is not None:
        array = array / _by_channel(steps.scale, array, channels)
    if layout != model:
        array = np.transpose(array, [layout.index(letter) for letter in model])
    return np.ascontiguousarray(array)


def postprocessed(value: Array, steps: Postprocess, dtype: np.dtype[Any]) -> Array:
    """Convert an output of the model to the form that callers get, of the type ``dtype``."""
    array = np.asarray(value)
    if array.dtype != dtype:
        with np.errstate(all="ignore"):
            array = array.astype(dtype)
    if steps.layout is not None and steps.model_layout is not None and steps.layout != steps.model_layout:
        array = np.transpose(array, [steps.model_layout.index(letter) for letter in steps.layout])
    return np.ascontiguousarray(array)


def _by_channel(numbers: object, array: Array, channels: int | None) -> Array:
    values = np.asarray(numbers, array.dtype)
    if values.size == 1:
        return values.reshape(())
    shape = [1] * array.ndim
    shape[cast(int, channels)] = values.size
    return values.reshape(shape)


def _from_plane(plane: Array, is_nv12: bool, blue_first: bool) -> Array:
    """Colours from brightness and colour differences: NV12toRGB-8 and I420toRGB-8, with their BGR twins."""
    batch, rows, width, _ = plane.shape
    height = rows * 2 // 3
    values = plane[..., 0].astype(np.float32)
    bright, rest = values[:, :height], values[:, height:].reshape(batch, -1)
    if is_nv12:
        pairs = rest.reshape(batch, height // 2, width // 2, 2)
        u, v = pairs[..., 0], pairs[..., 1]
    else:
        u, v = (half.reshape(batch, height // 2, width // 2) for half in np.split(rest, 2, axis=1))
    u, v = (np.repeat(np.repeat(chroma, 2, axis=1), 2, axis=2) - np.float32(128) for chroma in (u, v))
    y = np.float32(1.164) * (bright - np.float32(16))
    red = y + np.float32(1.596) * v
    green = y - np.float32(0.391) * u - np.float32(0.813) * v
    blue = y + np.float32(2.018) * u
    colours = np.clip(np.stack([blue, green, red] if blue_first else [red, green, blue], -1), 0, 255)
    return (np.rint(colours) if plane.dtype.kind == "u" else colours).astype(plane.dtype)


def _resize(array: Array, axis: int, count: int, mode: str) -> Array:
    """Interpolate-11 along one axis, with half_pixel coordinates, round_prefer_floor and no antialiasing."""
    length = array.shape[axis]
    if length == count:
        return array
    scale = np.float32(count) / np.float32(length)
    places = (np.arange(count, dtype=np.float32) + np.float32(0.5)) / scale - np.float32(0.5)
    if mode == "nearest":
        return take(array, np.clip(np.ceil(places - np.float32(0.5)), 0, length - 1), axis)
    low = np.floor(places)
    part = (places - low).astype(np.float64)
    if mode == "linear":
        taps = [(low, 1 - part), (low + 1, part)]
    else:
        taps = [(low + offset, _keys(np.abs(part - offset))) for offset in (-1, 0, 1, 2)]
    shape = [1] * array.ndim
    shape[axis] = count
    total = np.zeros(1)
    for position, weight in taps:
        taken = take(array.astype(np.float64), np.clip(position, 0, length - 1), axis)
        total = total + taken * weight.reshape(shape)
    return total.astype(array.dtype)


def _keys(distance: Array) -> Array:
    """The cubic convolution kernel, for distances below 2."""
    near = (_A + 2) * distance**3 - (_A + 3) * distance**2 + 1
    far = _A * distance**3 - 5 * _A * distance**2 + 8 * _A * distance - 4 * _A
    return np.where(distance <= 1, near, far)
