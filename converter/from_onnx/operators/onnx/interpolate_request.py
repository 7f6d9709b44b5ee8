"""The request of a Resize or Upsample node, in one record for every version of both."""

from __future__ import annotations

from typing import Literal

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import activation, elementwise
from ir_runtime.records import record

MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
"""ONNX's modes, and Interpolate's names for them."""
NATIVE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
"""The coordinate transformations that Interpolate has, too."""


@record
class Request:
    """The attributes and inputs; ``scales`` or ``sizes`` (the other is None) and ``roi`` have entries for all ``axes``.

    A region of interest holds the starts of all axes, and then their ends. ``keep_aspect_ratio_policy`` goes with
    ``sizes`` alone.
    """

    mode: Literal["nearest", "linear", "cubic"] = "nearest"
    coordinate_transformation_mode: Literal[
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
        "tf_crop_and_resize", "half_pixel_symmetric",
    ] = "half_pixel"  # fmt: skip
    nearest_mode: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"] = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    antialias: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch"
    axes: tuple[int, ...] = ()
    scales: Output | None = None
    sizes: Output | None = None
    roi: Output | None = None

    @property
    def is_cropped(self) -> bool:
        """True if a region of interest is resized, and not all of the data."""
        return self.coordinate_transformation_mode == "tf_crop_and_resize"

    def rounds_each_dimension(self, element_type: ElementType) -> bool:
        """Return whether integers of this type are rounded after each dimension, from the last to the first.

        ONNX says nothing on it. onnxruntime's antialiasing does so; its int8 is left out, which it clips like uint8.
        """
        return bool(self.antialias) and element_type in (element_types.u8, element_types.i32)

    def rounds(self, element_type: ElementType) -> bool:
        """Return whether integers of this type are rounded, as onnx's evaluator does.

        onnxruntime drops their fractions where it interpolates linearly, in each type for which it has a kernel.
        """
        is_truncated = self.mode == "linear" and not self.antialias
        return not is_truncated or element_type not in (element_types.u8, element_types.i8, element_types.i32)

    def round_off(self, ctx: Context, y: Output, element_type: ElementType) -> Output:
        """Return ``y`` rounded to integers of the type, still as floats."""
        halves = "half_away_from_zero" if self.rounds_each_dimension(element_type) else "half_to_even"
        y = ctx.emit(elementwise.Round5(mode=halves), y)
        if self.mode != "cubic" or element_type.bits > 16:  # f32 does not represent the limits of wider types
            return y
        low, high = element_type.limits
        return ctx.emit(activation.Clamp1(min=low, max=high), y)
