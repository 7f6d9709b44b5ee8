"""Patches of images: laid side by side, and added up to an image again."""

from __future__ import annotations

import math

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.patches import Col2Im15, ExtractImagePatches3
from ir_runtime.operations.windows import Window
from ir_runtime.rewriting.expressions import Expression, NotExpressible, positions


@decomposes(Col2Im15)
def col2im(op: Col2Im15, x: Expression, image: Expression, block: Expression) -> Expression:
    """ScatterElementsUpdate of every element to its place in a padded image"""
    sizes, taps = image.elements(), block.elements()
    if sizes is None or taps is None:
        raise NotExpressible("the dimensions of the image and of the blocks must be known")
    windows = [Window(*numbers) for numbers in zip(taps, op.strides, op.dilations, op.pads_begin, op.pads_end)]
    height, width = (size + begin + end for size, begin, end in zip(sizes, op.pads_begin, op.pads_end))
    down, across = (
        np.arange(window.kernel)[:, None] * window.dilation + np.arange(window.count(size)) * window.stride
        for window, size in zip(windows, sizes)
    )
    places = (down[:, None, :, None] * width + across[None, :, None, :]).reshape(-1)
    *lead, _, _ = x.sizes()
    wide = x.at_least_float32()
    columns = wide.reshape(*lead, x.size(-2) // math.prod(taps), places.size)
    outer = columns.sizes()[:-1]
    index = columns.of(places, "i64").broadcast(*columns.sizes())
    total = wide.of(0).broadcast(*outer, height * width).scatter(index, columns, columns.rank - 1, "sum")
    whole = total.reshape(*outer, height, width)
    for axis, (begin, size) in enumerate(zip(op.pads_begin, sizes), len(outer)):
        whole = whole.cut(axis, begin, begin + size)
    return whole.as_type(x.element_type)


@decomposes(ExtractImagePatches3)
def extract_image_patches(op: ExtractImagePatches3, x: Expression) -> Expression:
    """Gather along the height and along the width, and Transpose of the patches' elements in front of the channels"""
    spans = [(size - 1) * rate + 1 for size, rate in zip(op.sizes, op.rates)]
    batch, channels, *sizes = x.sizes()
    if op.auto_pad == "valid":
        counts = [(size - span) // stride + 1 for size, span, stride in zip(sizes, spans, op.strides)]
    else:
        counts = [(size + (stride - 1)) // stride for size, stride in zip(sizes, op.strides)]
        reaches = [(count - 1) * stride + span for count, stride, span in zip(counts, op.strides, spans)]
        totals = [(reach - size).maximum(0) for reach, size in zip(reaches, sizes)]
        pads = [total // 2 for total in totals], [total - total // 2 for total in totals]
        before, behind = pads if op.auto_pad == "same_upper" else pads[::-1]
        x = x.pad([0, 0, *before], [0, 0, *behind])
    # [n, c, h, w] -> [n, c, taps down, rows, w] -> [n, c, taps down, rows, taps across, columns]
    for axis, taps, rate, stride, count in zip((2, 4), op.sizes, op.rates, op.strides, counts):
        x = x.gather(positions(count) * stride + np.arange(taps).reshape(-1, 1) * rate, axis)
    return x.transpose(0, 2, 4, 1, 3, 5).reshape(batch, channels * math.prod(op.sizes), *counts)
