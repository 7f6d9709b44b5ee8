"""Descriptions made complete for the input that they are for: layouts, types, the size that images get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from converter.errors import ConversionError
from converter.passes.preprocessing.description import PLANES, Postprocess, Preprocess, order_between
from ir_runtime.graph import Dimension, ElementType, PartialShape, TensorType
from ir_runtime.graph.element_types import element_type, f32
from ir_runtime.records import record

_GUESSES = ("nchw", "nhwc")


@record
class Resolved:
    """The steps of one input, with nothing left open."""

    name: str
    steps: Preprocess
    """Complete: layouts and types are given."""
    input_type: TensorType
    """The type that callers give."""
    channel_axis: int | None
    """In the layout that callers give; None where no step needs it."""
    sizes: tuple[int, int] | int | None
    """Target height and width of resized images, or that of the shorter side."""
    order: tuple[int, ...]
    """The dimension of the callers' layout that each dimension of the model's is."""
    works_in: ElementType
    """The type in which numbers are computed."""


def resolve(name: str, steps: Preprocess, model_type: TensorType) -> Resolved:
    """Resolve the steps of the input ``name``; raise :class:`ConversionError` where they do not fit ``model_type``."""
    where = f"input '{name}'"
    shape = model_type.shape
    if not shape.has_rank:
        raise ConversionError(f"{where} has no known rank: preprocessing needs one, give its shape with input")
    mean, scale = (cast("Sequence[float] | None", values) for values in (steps.mean, steps.scale))
    channels = max(len(mean or ()), len(scale or ()))
    needs_layout = channels > 1 or steps.swaps_colors or steps.color is not None or steps.resize is not None
    model = steps.model_layout
    if model is None and (needs_layout or steps.layout is not None):
        model = _guess(where, shape, 3 if steps.swaps_colors or steps.color in PLANES else max(channels, 1))
    layout_of_input = steps.layout or ("nhwc" if steps.color in PLANES else model)
    for which, layout in (("its layout", layout_of_input), ("its layout in the model", model)):
        if layout is not None and len(layout) != shape.rank:
            raise ConversionError(f"{where} has {shape.rank} dimensions {shape}, but {which} is {layout}")
    order = (
        tuple(range(shape.rank))
        if model is None or layout_of_input is None
        else tuple(order_between(layout_of_input, model, where))
    )
    own = [Dimension(0)] * shape.rank
    for place, moved in enumerate(order):
        own[moved] = shape[place]
    axis = _channel_axis(where, steps, layout_of_input, own, mean, scale)
    sizes = None
    if steps.resize is not None:
        sizes = _sizes(where, steps, cast(str, layout_of_input), own)
        for letter in "hw":
            own[cast(str, layout_of_input).index(letter)] = Dimension(1)
    source_type = element_type(steps.element_type or ("u8" if steps.color in PLANES else model_type.element_type.name))
    if steps.color in PLANES:
        own = _plane(where, steps, cast(str, layout_of_input), source_type, own)
    computes = mean is not None or scale is not None or steps.resize is not None
    if computes and not model_type.element_type.is_real:
        raise ConversionError(
            f"{where} takes {model_type.element_type}: mean, scale and resize need a model that takes floats"
        )
    if not (source_type.is_real or source_type.is_integral) or not (
        model_type.element_type.is_real or source_type is model_type.element_type
    ):
        raise ConversionError(f"{where} cannot be given as {source_type}: the model takes {model_type.element_type}")
    works_in = source_type
    if not source_type.is_real:  # 16 bits hold no mean exactly
        works_in = f32 if computes and model_type.element_type.bits < f32.bits else model_type.element_type
    complete = replace(steps, layout=layout_of_input, model_layout=model, element_type=source_type.name, size=sizes)
    return Resolved(name, complete, TensorType(source_type, PartialShape(own)), axis, sizes, order, works_in)


def order_of_output(name: str, steps: Postprocess, type: TensorType) -> tuple[int, ...] | None:
    """Return the order of an output's dimensions; None where they stay. Raises :class:`ConversionError`."""
    where = f"output '{name}'"
    for layout in (steps.layout, steps.model_layout):
        if layout is not None and (not type.shape.has_rank or type.shape.rank != len(layout)):
            raise ConversionError(f"{where} has the shape {type.shape}, which is not of the layout {layout}")
    if steps.layout is None or steps.model_layout is None or steps.layout == steps.model_layout:
        return None
    return tuple(order_between(steps.model_layout, steps.layout, where))


def _guess(where: str, shape: PartialShape, channels: int) -> str:
    """Return the layout of an image with so many channels. Raises :class:`ConversionError` where two are possible."""
    for counts in ({channels}, {1, 3}):
        layouts = [layout for layout in _GUESSES if shape.rank == 4 and _length(shape[layout.index("c")]) in counts]
        if len(layouts) == 1:
            return layouts[0]
    raise ConversionError(f"{where} is {shape}: the model's layout is needed, as in --layout nchw (model_layout=)")


def _length(dimension: Dimension) -> int | None:
    return dimension.value if dimension.is_static else None


def _channel_axis(
    where: str,
    steps: Preprocess,
    layout_of_input: str | None,
    own: Sequence[Dimension],
    mean: Sequence[float] | None,
    scale: Sequence[float] | None,
) -> int | None:
    counts = {
        setting_name: len(values)
        for setting_name, values in (("mean", mean), ("scale", scale))
        if values and len(values) > 1
    }
    if steps.swaps_colors:
        counts["reverse_channels"] = 3
    if not counts:
        return None
    if layout_of_input is None or "c" not in layout_of_input:
        raise ConversionError(
            f"{where}: {next(iter(counts))} needs the channels, but the layout {layout_of_input} has no c"
        )
    axis = layout_of_input.index("c")
    length = _length(own[axis])
    for setting, count in counts.items():
        if length is None:
            raise ConversionError(
                f"{where}: {setting} needs {count} channels, but their number is not known: set the shape"
            )
        if length != count:
            values = (
                "swaps the first and last of 3 channels" if setting == "reverse_channels" else f"has {count} values"
            )
            raise ConversionError(
                f"{where}: {setting} {values}, but by the layout {layout_of_input} it has "
                f"{length} channel{'s' * (length != 1)}"
            )
    return axis


def _sizes(where: str, steps: Preprocess, layout_of_input: str, own: Sequence[Dimension]) -> tuple[int, int] | int:
    if "h" not in layout_of_input or "w" not in layout_of_input:
        raise ConversionError(f"{where}: resize needs a height and a width, but the layout is {layout_of_input}")
    dimensions = [own[layout_of_input.index(letter)] for letter in "hw"]
    if steps.size is not None:
        setting = "size" if steps.crop is None else "crop"
        lengths = steps.size if steps.crop is None else steps.crop
        if isinstance(lengths, int):
            if any(dimension.is_static for dimension in dimensions):
                raise ConversionError(
                    f"{where} has the height and width {dimensions[0]}, {dimensions[1]}, but size is that of the "
                    "shorter side alone: say with crop what the model gets of the other one"
                )
        elif not all(dimension.contains(length) for dimension, length in zip(dimensions, lengths)):
            raise ConversionError(
                f"{where} has the height and width {dimensions[0]}, {dimensions[1]}, but {setting} is {list(lengths)}"
            )
        return steps.size
    height, width = map(_length, dimensions)
    if height is None or width is None:
        raise ConversionError(
            f"{where}: resize needs the model's height and width, but one is dynamic: give the shape with --input "
            "(input=), or the size"
        )
    return height, width


def _plane(
    where: str, steps: Preprocess, layout_of_input: str, source_type: ElementType, own: list[Dimension]
) -> list[Dimension]:
    """The dimensions of the single plane that colours of these dimensions are made from."""
    if layout_of_input != "nhwc":
        raise ConversionError(f"{where}: {steps.color} is a plane in the layout nhwc, not {layout_of_input}")
    if source_type.name != "u8" and not source_type.is_real:
        raise ConversionError(f"{where}: {steps.color} is given as u8 or floats, not {source_type}")
    batch, height, width, channels = own
    if _length(channels) != 3:
        raise ConversionError(f"{where}: {steps.color} becomes 3 channels, but the model has {channels}")
    for dimension_name, dimension in (("height", height), ("width", width)):
        if dimension.is_static and dimension.value % 2:
            raise ConversionError(
                f"{where}: {steps.color} has an even {dimension_name}, but the model's is {dimension}"
            )
    rows = Dimension(height.value * 3 // 2, height.value * 3 // 2) if height.is_static else Dimension(1)
    return [batch, rows, width, Dimension(1, 1)]
