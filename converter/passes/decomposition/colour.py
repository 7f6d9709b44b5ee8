"""Colours of images: NV12 and I420 to red, green and blue, and back to NV12.

Each number is computed as the IR's executor does it, product by product, so that whole numbers are rounded alike.
"""

from __future__ import annotations

from typing import Any

from converter.passes.decomposition.registry import decomposes
from ir_runtime.graph import ElementType
from ir_runtime.operations import colour as ir
from ir_runtime.rewriting.expressions import Expression, concat


def _wide(plane: Expression) -> Expression:
    return plane.at_least_float32() if plane.element_type.is_real else plane.as_type("f32")


@decomposes(ir.NV12toRGB8, ir.NV12toBGR8, ir.I420toRGB8, ir.I420toBGR8)
def to_colours(op: Any, *planes: Expression) -> Expression:
    """Sums of the planes times their weights; colour differences are spread over their four pixels by Broadcast"""
    element_type = planes[0].element_type
    y, u, v = _brightness_and_differences(op, *map(_wide, planes))
    bright, d, e = (y - 16) * 1.164, u - 128, v - 128
    colours = [bright + e * 1.596, bright - d * 0.391 - e * 0.813, bright + d * 2.018]
    result = concat(colours[::-1] if op.blue_first else colours, 3).clip(0, 255)
    return (result if element_type.is_real else result.round()).as_type(element_type)


def _brightness_and_differences(op: Any, bright: Expression, *chroma: Expression) -> list[Expression]:
    """Brightness and both colour differences, each ``[n, h, w, 1]``."""
    batch, height, width = bright.sizes()[:3]
    if not chroma:
        height = height * 2 // 3
        bright, below = bright.cut(1, 0, height), bright.cut(1, height)
        if op.chroma == 2:
            chroma = (below.reshape(batch, height // 2, width // 2, 2),)
        else:
            # [n, 2, h / 2, w / 2]: the plane's own dimension becomes that of its channel.
            chroma = tuple(below.reshape(batch, 2, height // 2, width // 2).transpose(0, 2, 3, 1).split(2, 3))
    if op.chroma == 2:
        chroma = tuple(chroma[0].split(2, 3))
    # [n, h / 2, w / 2, 1] -> [n, h / 2, 2, w / 2, 2]
    spread = [plane.unsqueeze(2).broadcast(1, 1, 2, 1, 2).reshape(batch, height, width, 1) for plane in chroma]
    return [bright, *spread]


def _to_whole(values: Expression, element_type: ElementType) -> Expression:
    """Colours between 0 and 255, rounded in whole types, halves up."""
    clipped = values.clip(0, 255)
    if element_type.is_real:
        return clipped
    whole = clipped.floor()
    return whole + (clipped - whole >= 0.5).as_type(whole.element_type)


@decomposes(ir.RGBtoNV12_17, ir.BGRtoNV12_17)
def to_nv12(op: Any, image: Expression) -> list[Expression] | Expression:
    """Sums of the colours times their weights, and the means of four pixels' colour differences"""
    element_type, colours = image.element_type, _wide(image).split(3, 3)
    red, green, blue = (
        colour * weights for colour, weights in zip(colours[::-1] if op.blue_first else colours, ir.WEIGHTS.T)
    )
    # In smaller types the planes are rounded before means are taken.
    planes = _wide(_to_whole(red + green + blue + ir.OFFSETS, element_type).as_type(element_type))
    differences = planes.cut(3, 1)
    corners = [differences.cut(1, row, step=2).cut(2, column, step=2) for row in (0, 1) for column in (0, 1)]
    pairs = _to_whole((corners[0] + corners[1] + corners[2] + corners[3]) / 4, element_type).as_type(element_type)
    bright = planes.cut(3, 0, 1).as_type(element_type)
    if not op.single_plane:
        return [bright, pairs]
    batch, height, width, _ = pairs.sizes()
    return concat([bright, pairs.reshape(batch, height, width * 2, 1)], 1)
