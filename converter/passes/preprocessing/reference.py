"""The same steps in NumPy, written from the operations' specifications: what ``verify`` gives the ONNX side.

Nothing here comes from the executor of the IR, whose results are compared with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from converter.passes.preprocessing.description import PILLOW_RESIZES, PLANES, Postprocess, Preprocess
from ir_runtime.graph import Array
from ir_runtime.graph.indices import take


def preprocessed(value: Array, steps: Preprocess) -> Array:
    """The model's input for what a caller gives, in wider floats. ``steps`` are complete, with layouts and size."""
    array = np.asarray(value)
    if steps.color in PLANES:
        array = _from_plane(array, steps.color == "nv12", steps.model_color == "bgr")
    layout = steps.layout or ""
    model = steps.model_layout or layout
    if steps.resize is not None and steps.size is not None:
        array = _resized(array, steps, [layout.index(letter) for letter in "hw"])
    elif steps.mean is not None or steps.scale is not None:
        array = array.astype(np.float64)
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


def _resized(array: Array, steps: Preprocess, axes: Sequence[int]) -> Array:
    """Images of another height and width, and the middle of them, in float64."""
    mode, size, dtype = cast(str, steps.resize), steps.size, array.dtype
    if isinstance(size, int):
        shorter = min(array.shape[axis] for axis in axes)
        size = array.shape[axes[0]] * size // shorter, array.shape[axes[1]] * size // shorter
    array = array.astype(np.float64)
    is_pillow = mode in PILLOW_RESIZES
    sides = list(zip(axes, cast("tuple[int, int]", size)))
    for axis, count in reversed(sides) if is_pillow else sides:
        array = _filtered(array, axis, count, mode, dtype) if is_pillow else _resize(array, axis, count, mode)
    for (axis, count), length in zip(sides, steps.crop or ()):
        first = (count - length) // 2
        array = array[(slice(None),) * axis + (slice(first, first + length),)]
    return array


def _filtered(array: Array, axis: int, count: int, mode: str, dtype: np.dtype[Any]) -> Array:
    """Pillow's filters along one axis: wider where images shrink, and rounded to whole numbers for integers.

    Weighted sums are in float32, one element after the other, since many of them lie halfway between whole numbers.
    """
    length = array.shape[axis]
    if length == count:
        return array
    width = max(length / count, 1.0)
    reach = width * (2 if mode == "bicubic_pillow" else 1)
    middle = (np.arange(count) + 0.5) * (length / count)
    first, last = np.trunc(middle - reach + 0.5), np.trunc(middle + reach + 0.5)
    places = np.arange(length)
    distance = np.abs((places + 0.5 - middle[:, None]) / width)
    weights = _keys(distance, -0.5) if mode == "bicubic_pillow" else 1 - distance
    weights = np.where((places >= first[:, None]) & (places < last[:, None]), weights, 0)
    weights = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    rows = np.moveaxis(array, axis, 0)
    if not np.issubdtype(dtype, np.integer):
        return np.moveaxis(np.tensordot(weights.astype(np.float64), rows, (1, 0)), 0, axis)
    total = np.zeros((count, *rows.shape[1:]), np.float32)
    for place in range(length):
        weight = weights[:, place].reshape(-1, *[1] * (array.ndim - 1))
        total = total + weight * rows[place].astype(np.float32)
    limits = np.iinfo(dtype)
    return np.moveaxis(np.clip(np.rint(total), limits.min, limits.max).astype(np.float64), 0, axis)


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


def _keys(distance: Array, a: float = -0.75) -> Array:
    """The cubic convolution kernel with the coefficient ``a``, for distances below 2."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, far)
