"""Types that OpenVINO's CPU plug-in does not take in some layers, carried by types that hold all their values.

Which types these are differs from layer to layer, so it is the caller who names them. A conversion to
the wider type and back loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from converter.lowering.layers import in_type
from converter.translation.context import Context
from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Output

_PROMOTIONS = {
    element_types.bf16: element_types.f32,
    element_types.f8e4m3: element_types.f32,
    element_types.f8e5m2: element_types.f32,
    element_types.f8e8m0: element_types.f32,
    element_types.f4e2m1: element_types.f32,
    element_types.i4: element_types.i32,
    element_types.u4: element_types.i32,
    element_types.u2: element_types.i32,
}

NARROW: Collection[ElementType] = tuple(_PROMOTIONS)
"""Every type that has a wider one."""


def carried(ctx: Context, value: Output, kinds: Collection[ElementType] = NARROW) -> Output:
    """The value in its wider type, if its type is one of ``kinds``."""
    kind = value.element_type
    return in_type(ctx, value, _PROMOTIONS[kind]) if kind in kinds else value
