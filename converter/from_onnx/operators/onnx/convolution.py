"""ONNX's convolutions: Conv, ConvTranspose and DeformConv.

Pads are computed here wherever the dimensions are known, so that the IR's ``auto_pad`` is only used
where they are not. Grouped weights ``[O, I, ...]`` become ``[G, O/G, I, ...]`` by a Reshape, which
leaves their data where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Dimension, Output
from ir_runtime.operations import convolution, movement
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import dimension_list

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@record
class _Geometry:
    """The attributes that all convolutions share, one entry a spatial dimension."""

    kernel: list[int] | None
    strides: list[int]
    dilations: list[int]
    begins: list[int]
    ends: list[int]
    auto_pad: str

    @property
    def rank(self) -> int:
        return len(self.strides)

    def spans(self, ctx: Context) -> list[int]:
        if self.kernel is None:
            raise ctx.unsupported("without kernel_shape the dimensions of the weights must be known")
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]


def listed(ctx: Context, name: str, values: Sequence[int] | None, count: int, default: int, least: int) -> list[int]:
    entries = [default] * count if not values else list(values)
    if len(entries) != count or min(entries, default=least) < least:
        raise ctx.invalid(f"{name} must be {count} numbers from {least} on, but is {entries}")
    return entries


def _geometry(
    ctx: Context,
    x: Output,
    w: Output,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> _Geometry:
    """Check the attributes that all convolutions share, and fill in ONNX's defaults."""
    auto_pad = auto_pad or "NOTSET"  # some exporters leave it empty
    if auto_pad not in _AUTO_PADS:
        raise ctx.invalid(f"auto_pad must be one of {', '.join(_AUTO_PADS)}, but is '{auto_pad}'")
    shape = w.shape if w.shape.has_rank else x.shape
    if not shape.has_rank:
        raise ctx.unsupported("the rank of the data or the weights must be known while converting, but is not")
    rank = shape.rank - 2
    if rank < 1:
        raise ctx.invalid(f"the data need at least one spatial dimension, but the weights are {w.shape}")
    if x.shape.has_rank and x.shape.rank != shape.rank:
        raise ctx.invalid(f"the data must have {shape.rank} dimensions like the weights {w.shape}, but are {x.shape}")
    kernel = listed(ctx, "kernel_shape", kernel_shape, rank, 1, 1) if kernel_shape else None
    if w.shape.has_rank:
        dimensions = w.shape.dims[2:]
        if kernel is not None and not all(d.contains(k) for d, k in zip(dimensions, kernel)):
            raise ctx.invalid(f"kernel_shape is {kernel}, but the weights have the shape {w.shape}")
        if kernel is None and all(d.is_static for d in dimensions):
            kernel = [d.value for d in dimensions]
    all_pads = listed(ctx, "pads", pads, 2 * rank, 0, -(2**62))
    if min(all_pads) < 0:
        raise ctx.unsupported(f"pads must not be negative, but are {all_pads}")
    if auto_pad != "NOTSET":
        all_pads = [0] * (2 * rank)
    return _Geometry(
        kernel,
        listed(ctx, "strides", strides, rank, 1, 1),
        listed(ctx, "dilations", dilations, rank, 1, 1),
        all_pads[:rank],
        all_pads[rank:],
        auto_pad,
    )


def _spatial(x: Output) -> list[int] | None:
    if not x.shape.has_rank or not all(d.is_static for d in x.shape.dims[2:]):
        return None
    return [d.value for d in x.shape.dims[2:]]


def _group(ctx: Context, w: Output, group: int, rank: int) -> Output:
    """Weights ``[n, ...]`` of ``rank`` dimensions as ``[group, n / group, ...]``."""
    first = w.shape[0] if w.shape.has_rank else Dimension()
    if first.is_static and first.value % group:
        raise ctx.invalid(f"{first.value} filters cannot be split into {group} groups")
    if w.shape.has_rank and all(d.is_static for d in w.shape.dims[1:]):
        rest = ctx.constant([d.value for d in w.shape.dims[1:]])
    else:
        rest = dimension_list(ctx, w, *range(1, rank))
    per_group = first.value // group if first.is_static else -1
    target = ctx.emit(movement.Concat1(axis=0), ctx.constant([group, per_group]), rest)
    return ctx.emit(movement.Reshape1(special_zero=False), w, target)


def _with_bias(ctx: Context, y: Output, bias: Output | None, rank: int) -> Output:
    if bias is None:
        return y
    if bias.shape.has_rank and bias.shape.rank != 1:
        raise ctx.invalid(f"the bias must be a list, but has the shape {bias.shape}")
    channels = y.shape[1] if y.shape.has_rank else Dimension()
    dimension = bias.shape.element_count()
    if channels.merge(dimension) is None:
        raise ctx.invalid(f"the bias must have {channels} numbers, but has {dimension}")
    column = ctx.emit(movement.Reshape1(special_zero=False), bias, ctx.constant([1, -1] + [1] * rank))
    return layers.add(ctx, y, column)


def _check_group(ctx: Context, group: int) -> None:
    if group < 1:
        raise ctx.invalid(f"group must be positive, but is {group}")


@onnx_op("Conv", versions=(1, 11, 22), also=("int32", "int64"))
@attributes_of(_geometry)
def conv(ctx: Context, x: Output, w: Output, b: Output | None = None, *, group: int = 1, **attributes: Any) -> Output:
    """``[N, C, ...]`` with weights ``[O, C/group, ...]`` and a bias ``[O]`` to ``[N, O, ...]``."""
    geometry = _geometry(ctx, x, w, **attributes)
    _check_group(ctx, group)
    if x.shape.has_rank and w.shape.has_rank and (w.shape[1] * group).merge(x.shape[1]) is None:
        raise ctx.invalid(f"weights of the shape {w.shape} in {group} groups do not fit data of the shape {x.shape}")
    begins, ends, mode = geometry.begins, geometry.ends, "explicit"
    if geometry.auto_pad.startswith("SAME"):
        spatial = _spatial(x)
        if spatial is None or geometry.kernel is None:
            mode = geometry.auto_pad.lower()
        else:
            begins, ends = [], []
            for dimension, stride, span in zip(spatial, geometry.strides, geometry.spans(ctx)):
                total = max((-(-dimension // stride) - 1) * stride + span - dimension, 0)
                less, more = total // 2, total - total // 2
                begins.append(less if geometry.auto_pad == "SAME_UPPER" else more)
                ends.append(more if geometry.auto_pad == "SAME_UPPER" else less)
    cls = convolution.Convolution1 if group == 1 else convolution.GroupConvolution1
    op = cls(strides=geometry.strides, dilations=geometry.dilations, pads_begin=begins, pads_end=ends, auto_pad=mode)
    y = ctx.emit(op, x, w if group == 1 else _group(ctx, w, group, geometry.rank + 2))
    return _with_bias(ctx, y, b, geometry.rank)


@onnx_op("ConvTranspose", versions=(1, 11, 22))
@attributes_of(_geometry)
def conv_transpose(
    ctx: Context,
    x: Output,
    w: Output,
    b: Output | None = None,
    *,
    group: int = 1,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    **attributes: Any,
) -> Output:
    """``[N, C, ...]`` with weights ``[C, O/group, ...]`` and a bias ``[O]`` to ``[N, O, ...]``.

    ``output_shape`` sets the spatial dimensions; the pads follow from it, the odd one in front unless
    ``auto_pad`` is SAME_UPPER. SAME_* without it means the input's dimensions times the strides.
    """
    geometry = _geometry(ctx, x, w, **attributes)
    _check_group(ctx, group)
    if x.shape.has_rank and w.shape.has_rank and w.shape[0].merge(x.shape[1]) is None:
        raise ctx.invalid(f"weights of the shape {w.shape} do not fit data of the shape {x.shape}")
    extra = listed(ctx, "output_padding", output_padding, geometry.rank, 0, 0)
    output_dimensions = None
    if output_shape:
        # Some exporters write batch and channels in front of the spatial dimensions.
        spatial = list(output_shape)[2:] if len(output_shape) == geometry.rank + 2 else output_shape
        output_dimensions = listed(ctx, "output_shape", spatial, geometry.rank, 1, 1)
    weights = w if group == 1 else _group(ctx, w, group, geometry.rank + 2)
    y = _transpose(ctx, x, weights, geometry, group, extra, output_dimensions)
    return _with_bias(ctx, y, b, geometry.rank)


def _transpose(
    ctx: Context,
    x: Output,
    weights: Output,
    geometry: _Geometry,
    group: int,
    extra: list[int],
    output_dimensions: list[int] | None,
) -> Output:
    cls = convolution.ConvolutionBackpropData1 if group == 1 else convolution.GroupConvolutionBackpropData1
    begins, ends = geometry.begins, geometry.ends
    same = geometry.auto_pad.startswith("SAME")

    def layer(begins: list[int], ends: list[int], extra: list[int], mode: str = "explicit") -> convolution._Backprop:
        return cls(
            strides=geometry.strides,
            dilations=geometry.dilations,
            pads_begin=begins,
            pads_end=ends,
            auto_pad=mode,
            output_padding=extra,
        )

    if output_dimensions is None and not same:
        if all(more < max(s, d) for more, s, d in zip(extra, geometry.strides, geometry.dilations)):
            return ctx.emit(layer(begins, ends, extra), x, weights)
        raise ctx.invalid(f"output_padding {extra} must be less than the strides or the dilations")
    front_is_less = geometry.auto_pad == "SAME_UPPER"
    spatial = _spatial(x)
    if output_dimensions is None and spatial is not None:
        output_dimensions = [dimension * stride for dimension, stride in zip(spatial, geometry.strides)]
    if output_dimensions is not None and spatial is not None:
        starts = []
        for dimension, stride, span, more, target in zip(
            spatial, geometry.strides, geometry.spans(ctx), extra, output_dimensions
        ):
            total = max(stride * (dimension - 1) + more + span - target, 0)
            starts.append(total // 2 if front_is_less else total - total // 2)
        zeros = [0] * geometry.rank
        return ctx.emit(layer(starts, zeros, zeros), x, weights, ctx.constant(output_dimensions))
    # The IR cuts the odd element off the other side than ONNX does.
    mode = "same_lower" if front_is_less else "same_upper"
    zeros = [0] * geometry.rank
    if output_dimensions is not None:
        dimensions = ctx.constant(output_dimensions)
    else:
        chosen = dimension_list(ctx, x, *range(2, geometry.rank + 2))
        dimensions = layers.multiply(ctx, chosen, ctx.constant(geometry.strides))
    return ctx.emit(layer(zeros, zeros, extra, mode), x, weights, dimensions)


@onnx_op("DeformConv", versions=(19, 22))
@attributes_of(_geometry, without=("auto_pad",))
def deform_conv(
    ctx: Context,
    x: Output,
    w: Output,
    offset: Output,
    b: Output | None = None,
    mask: Output | None = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    **attributes: Any,
) -> Output:
    """A convolution of images that looks for each kernel element at a place of its own."""
    geometry = _geometry(ctx, x, w, **attributes)
    if geometry.rank != 2:
        raise ctx.unsupported(f"the IR deforms convolutions of images only, not of {geometry.rank} dimensions")
    _check_group(ctx, group)
    _check_group(ctx, offset_group)
    op = convolution.DeformableConvolution8(
        strides=geometry.strides,
        dilations=geometry.dilations,
        pads_begin=geometry.begins,
        pads_end=geometry.ends,
        auto_pad="explicit",
        group=group,
        deformable_group=offset_group,
        bilinear_interpolation_pad=True,
    )
    inputs = [x, offset, w] if mask is None else [x, offset, w, mask]
    return _with_bias(ctx, ctx.emit(op, *inputs), b, geometry.rank)
