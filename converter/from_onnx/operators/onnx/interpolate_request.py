"""The request of a Resize or Upsample node, in one record for every version of both."""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.records import record

MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
"""ONNX's modes, and Interpolate's names for them."""
NATIVE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
"""The coordinate transformations that Interpolate has, too."""

_NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_COORDINATES = (*NATIVE_COORDINATES, "tf_crop_and_resize", "half_pixel_symmetric")


@record
class Request:
    """The attributes and inputs; ``scales`` or ``sizes`` (the other is None) and ``roi`` have entries for all ``axes``.

    A region of interest holds the starts of all axes, and then their ends. ``policy`` goes with ``sizes`` alone.
    """

    mode: str
    coordinate_mode: str
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0
    policy: str = "stretch"
    axes: tuple[int, ...] = ()
    scales: Output | None = None
    sizes: Output | None = None
    roi: Output | None = None

    @property
    def is_cropped(self) -> bool:
        """True if a region of interest is resized, and not all of the data."""
        return self.coordinate_mode == "tf_crop_and_resize"

    def check(self, ctx: Context) -> None:
        """Raises what ``ctx.invalid`` returns where a mode is none of ONNX's."""
        for name, value, allowed in (
            ("mode", self.mode, tuple(MODES)),
            ("coordinate_transformation_mode", self.coordinate_mode, _COORDINATES),
            ("nearest_mode", self.nearest_mode, _NEAREST_MODES),
            ("keep_aspect_ratio_policy", self.policy, _POLICIES),
        ):
            if value not in allowed:
                raise ctx.invalid(f"{name} must be one of {', '.join(allowed)}, but is '{value}'")
