"""Descriptions made complete for the input that they are for: layouts, types, the size that pictures get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from converter.errors import ConversionError
from converter.preprocessing.description import PLANES, Postprocess, Preprocess, order_between
from ir_runtime.graph import Dimension, ElementType, PartialShape
from ir_runtime.graph.element_types import element_type, f32
from ir_runtime.graph.operation import TensorType
from ir_runtime.records import record

_GUESSES = ("nchw", "nhwc")


@record
class Resolved:
    """The steps of one input, with nothing left open."""

    name: str
    steps: Preprocess
    """Complete: layouts and types are given."""
    given: TensorType
    """What callers give."""
    channel_axis: int | None
    """In the layout that callers give; None where no step needs it."""
    sizes: tuple[int, int] | None
    """Height and width that pictures are resized to."""
    order: tuple[int, ...]
    """The dimension of the callers' layout that each dimension of the model's is."""
    works_in: ElementType
    """The type in which numbers are computed."""


def resolve(name: str, steps: Preprocess, wanted: TensorType) -> Resolved:
    """The steps for the input ``name`` of the type ``wanted``. Raises :class:`ConversionError` if they do not fit."""
    where = f"input '{name}'"
    shape = wanted.shape
    if not shape.has_rank:
        raise ConversionError(f"{where} has no known rank: preprocessing needs one, give its shape with input")
    mean, scale = (cast("Sequence[float] | None", values) for values in (steps.mean, steps.scale))
    channels = max(len(mean or ()), len(scale or ()))
    needs_layout = channels > 1 or steps.swaps_colors or steps.color is not None or steps.resize is not None
    model = steps.model_layout
    if model is None and (needs_layout or steps.layout is not None):
        model = _guess(where, shape, 3 if steps.swaps_colors or steps.color in PLANES else max(channels, 1))
    given = steps.layout or ("nhwc" if steps.color in PLANES else model)
    for which, layout in (("its layout", given), ("its layout in the model", model)):
        if layout is not None and len(layout) != shape.rank:
            raise ConversionError(f"{where} has {shape.rank} dimensions {shape}, but {which} is {layout}")
    order = tuple(range(shape.rank)) if model is None or given is None else tuple(order_between(given, model, where))
    own = [Dimension(0)] * shape.rank
    for place, moved in enumerate(order):
        own[moved] = shape[place]
    axis = _channel_axis(where, steps, given, own, mean, scale)
    sizes = None
    if steps.resize is not None:
        sizes = _sizes(where, steps, cast(str, given), own)
        for letter in "hw":
            own[cast(str, given).index(letter)] = Dimension(1)
    kind = element_type(steps.element_type or ("u8" if steps.color in PLANES else wanted.element_type.name))
    if steps.color in PLANES:
        own = _plane(where, steps, cast(str, given), kind, own)
    computes = mean is not None or scale is not None or steps.resize is not None
    if computes and not wanted.element_type.is_real:
        raise ConversionError(
            f"{where} takes {wanted.element_type}: mean, scale and resize need a model that takes floats"
        )
    if not (kind.is_real or kind.is_integral) or not (wanted.element_type.is_real or kind is wanted.element_type):
        raise ConversionError(f"{where} cannot be given as {kind}: the model takes {wanted.element_type}")
    works_in = kind
    if not kind.is_real:  # 16 bits hold no mean exactly
        works_in = f32 if computes and wanted.element_type.bits < f32.bits else wanted.element_type
    complete = replace(steps, layout=given, model_layout=model, element_type=kind.name, size=sizes)
    return Resolved(name, complete, TensorType(kind, PartialShape(own)), axis, sizes, order, works_in)


def order_of_output(name: str, steps: Postprocess, type: TensorType) -> tuple[int, ...] | None:
    """How an output's dimensions are moved; None where they stay. Raises :class:`ConversionError`."""
    where = f"output '{name}'"
    for layout in (steps.layout, steps.model_layout):
        if layout is not None and (not type.shape.has_rank or type.shape.rank != len(layout)):
            raise ConversionError(f"{where} has the shape {type.shape}, which is not of the layout {layout}")
    if steps.layout is None or steps.model_layout is None or steps.layout == steps.model_layout:
        return None
    return tuple(order_between(steps.model_layout, steps.layout, where))


def _guess(where: str, shape: PartialShape, channels: int) -> str:
    """The layout of a picture whose channels are so many. Raises :class:`ConversionError` where two are possible."""
    for wanted in ({channels}, {1, 3}):
        found = [layout for layout in _GUESSES if shape.rank == 4 and _length(shape[layout.index("c")]) in wanted]
        if len(found) == 1:
            return found[0]
    raise ConversionError(f"{where} is {shape}: the model's layout is needed, as in --layout nchw (model_layout=)")


def _length(dimension: Dimension) -> int | None:
    return dimension.value if dimension.is_static else None


def _channel_axis(
    where: str,
    steps: Preprocess,
    given: str | None,
    own: Sequence[Dimension],
    mean: Sequence[float] | None,
    scale: Sequence[float] | None,
) -> int | None:
    counts = {what: len(values) for what, values in (("mean", mean), ("scale", scale)) if values and len(values) > 1}
    if steps.swaps_colors:
        counts["reverse_channels"] = 3
    if not counts:
        return None
    if given is None or "c" not in given:
        raise ConversionError(f"{where}: {next(iter(counts))} needs the channels, but the layout {given} has no c")
    axis = given.index("c")
    length = _length(own[axis])
    for what, count in counts.items():
        if length is None:
            raise ConversionError(
                f"{where}: {what} needs {count} channels, but their number is not known: set the shape"
            )
        if length != count:
            values = "swaps the first and last of 3 channels" if what == "reverse_channels" else f"has {count} values"
            raise ConversionError(
                f"{where}: {what} {values}, but by the layout {given} it has {length} channel{'s' * (length != 1)}"
            )
    return axis


def _sizes(where: str, steps: Preprocess, given: str, own: Sequence[Dimension]) -> tuple[int, int]:
    if "h" not in given or "w" not in given:
        raise ConversionError(f"{where}: resize needs a height and a width, but the layout is {given}")
    dimensions = [own[given.index(letter)] for letter in "hw"]
    if steps.size is not None:
        if not all(dimension.contains(length) for dimension, length in zip(dimensions, steps.size)):
            raise ConversionError(
                f"{where} has the height and width {dimensions[0]}, {dimensions[1]}, but size is {list(steps.size)}"
            )
        return steps.size
    height, width = map(_length, dimensions)
    if height is None or width is None:
        raise ConversionError(
            f"{where}: resize needs the model's height and width, but one is dynamic: give the shape with --input "
            "(input=), or the size"
        )
    return height, width


def _plane(where: str, steps: Preprocess, given: str, kind: ElementType, own: list[Dimension]) -> list[Dimension]:
    """The dimensions of the single plane that colours of these dimensions are made from."""
    if given != "nhwc":
        raise ConversionError(f"{where}: {steps.color} is a plane in the layout nhwc, not {given}")
    if kind.name != "u8" and not kind.is_real:
        raise ConversionError(f"{where}: {steps.color} is given as u8 or floats, not {kind}")
    batch, height, width, channels = own
    if _length(channels) != 3:
        raise ConversionError(f"{where}: {steps.color} becomes 3 channels, but the model has {channels}")
    for what, dimension in (("height", height), ("width", width)):
        if dimension.is_static and dimension.value % 2:
            raise ConversionError(f"{where}: {steps.color} has an even {what}, but the model's is {dimension}")
    rows = Dimension(height.value * 3 // 2, height.value * 3 // 2) if height.is_static else Dimension(1)
    return [batch, rows, width, Dimension(1, 1)]
