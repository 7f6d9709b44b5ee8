"""Operators of the domain ``org.openvinotoolkit``: the IR's own, which exporters write into ONNX files.

Each is one layer of the IR, or one with its inputs put into the IR's order and form.
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import (
    activation,
    convolution,
    detection_output,
    detectron,
    generation,
    movement,
    normalization,
    priors,
    proposals,
    quantization,
)
from ir_runtime.rewriting import layers

OPENVINO = "org.openvinotoolkit"

_CODES = "caffe.PriorBoxParameter."


def _unused(ctx: Context, **values: float) -> None:
    """Attributes that older tools write, and that the IR knows in one value only: as if they were not there."""
    for name, value in values.items():
        if value:
            raise ctx.unsupported(f"the IR has no attribute '{name}', which is {value}")


# --- quantisation, activations and normalisations ---


@onnx_op("FakeQuantize", domain=OPENVINO, versions=(1,))
def fake_quantize(
    ctx: Context,
    x: Output,
    input_low: Output,
    input_high: Output,
    output_low: Output,
    output_high: Output,
    *,
    levels: int,
) -> Output:
    """x quantised to ``levels`` values between two limits, and dequantised between two others."""
    return ctx.emit(quantization.FakeQuantize1(levels=levels), x, input_low, input_high, output_low, output_high)


@onnx_op("Swish", domain=OPENVINO, versions=(1,))
def swish(ctx: Context, x: Output, beta: Output | None = None) -> Output:
    """x sigmoid(beta x); beta is one number, and 1 where it is not given."""
    if beta is None:
        return ctx.emit(activation.Swish4(), x)
    if not beta.shape.element_count().contains(1):
        raise ctx.invalid(f"beta must be one number, but has the shape {beta.shape}")
    scalar = ctx.emit(movement.Reshape1(special_zero=False), beta, ctx.constant(np.empty(0, np.int64)))
    return ctx.emit(activation.Swish4(), x, scalar)


def _group_norm(ctx: Context, x: Output, scale: Output, bias: Output, *, num_groups: int, eps: float = 1e-6) -> Output:
    """Mean 0 and variance 1 over each group of channels; scale and bias may stand among dimensions of 1."""
    listed = [ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([-1])) for value in (scale, bias)]
    return ctx.emit(normalization.GroupNormalization12(num_groups=num_groups, epsilon=eps), x, *listed)


onnx_op("GroupNorm", domain=OPENVINO, versions=(1,))(_group_norm)
onnx_op("ExperimentalDetectronGroupNorm", domain=OPENVINO, versions=(1,))(_group_norm)


@onnx_op("Normalize", domain=OPENVINO, versions=(1,))
def normalize(
    ctx: Context, x: Output, weights: Output, *, eps: float = 0.0, across_spatial: int = 0, channel_shared: int = 0
) -> Output:
    """x divided by its norm over the channels, or over all but the batch, times a weight a channel or one for all."""
    rank = ctx.rank(x, "the data")
    if rank < 2:
        raise ctx.invalid(f"the data must have batches and channels, but have the shape {x.shape}")
    axes = ctx.constant(list(range(1, rank)) if across_spatial else [1])
    made = ctx.emit(normalization.NormalizeL21(eps=eps, eps_mode="add"), x, axes)
    if channel_shared:
        if not weights.shape.element_count().contains(1):
            raise ctx.invalid(f"with channel_shared there must be one weight, but their shape is {weights.shape}")
        shape = [1] * rank
    else:
        shape = [1, -1] + [1] * (rank - 2)
    by_channel = ctx.emit(movement.Reshape1(special_zero=False), weights, ctx.constant(shape))
    return layers.multiply(ctx, made, by_channel)


@onnx_op("DeformableConv2D", domain=OPENVINO, versions=(1,))
def deformable_convolution(
    ctx: Context,
    x: Output,
    offsets: Output,
    weights: Output,
    mask: Output | None = None,
    *,
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    deformable_groups: int = 1,
) -> Output:
    """A convolution that looks for each element of its window at a place of its own."""
    modes = {"NOTSET": "explicit", "": "explicit", "VALID": "valid"}
    mode = modes.get(auto_pad, auto_pad.lower())
    if mode not in ("explicit", "valid", "same_upper", "same_lower"):
        raise ctx.invalid(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, but is '{auto_pad}'")
    for name, values, count in (("strides", strides, 2), ("dilations", dilations, 2), ("pads", pads, 4)):
        if len(values) != count:
            raise ctx.invalid(f"{name} must be {count} numbers, but is {list(values)}")
    window = weights.shape.dims[2:] if weights.shape.has_rank else ()
    if kernel_shape is not None and not all(d.contains(k) for d, k in zip(window, kernel_shape)):
        raise ctx.invalid(f"kernel_shape is {list(kernel_shape)}, but the weights have the shape {weights.shape}")
    op = convolution.DeformableConvolution8(
        strides=strides,
        dilations=dilations,
        pads_begin=pads[:2],
        pads_end=pads[2:],
        auto_pad=mode,
        group=group,
        deformable_group=deformable_groups,
    )
    return ctx.emit(op, x, offsets, weights, *([] if mask is None else [mask]))


# --- single-shot detectors ---


def _image_dimensions(ctx: Context, x: Output, name: str) -> Output:
    """Height and width of ``[n, c, h, w]``."""
    if ctx.rank(x, name) != 4:
        raise ctx.invalid(f"{name} must have 4 dimensions, but has the shape {x.shape}")
    shape = ctx.emit(generation.ShapeOf3(output_type=element_types.i64), x)
    return layers.gather(ctx, shape, ctx.constant([2, 3]), ctx.constant(0))


def _placed(ctx: Context, op: priors.PriorBox8 | priors.PriorBoxClustered1, layer: Output, image: Output) -> Output:
    dimensions = _image_dimensions(ctx, layer, "the layer"), _image_dimensions(ctx, image, "the image")
    return ctx.emit(movement.Unsqueeze1(), ctx.emit(op, *dimensions), ctx.constant([0]))


@onnx_op("PriorBox", domain=OPENVINO, versions=(1,))
def prior_box(
    ctx: Context,
    layer: Output,
    image: Output,
    *,
    min_size: Sequence[float] = (),
    max_size: Sequence[float] = (),
    aspect_ratio: Sequence[float] = (),
    flip: int = 0,
    clip: int = 0,
    step: float = 0.0,
    offset: float = 0.0,
    variance: Sequence[float] = (),
    scale_all_sizes: int = 1,
    fixed_ratio: Sequence[float] = (),
    fixed_size: Sequence[float] = (),
    density: Sequence[float] = (),
    min_max_aspect_ratios_order: int = 1,
    img_size: int = 0,
    img_h: int = 0,
    img_w: int = 0,
    step_h: float = 0.0,
    step_w: float = 0.0,
) -> Output:
    """Boxes of some sizes around every element of ``layer``, in parts of ``image``: ``[1, 2, 4 h w boxes]``."""
    _unused(ctx, img_size=img_size, img_h=img_h, img_w=img_w, step_h=step_h, step_w=step_w)
    op = priors.PriorBox8(
        min_size=min_size,
        max_size=max_size,
        aspect_ratio=aspect_ratio,
        flip=bool(flip),
        clip=bool(clip),
        step=step,
        offset=offset,
        variance=variance,
        scale_all_sizes=bool(scale_all_sizes),
        fixed_ratio=fixed_ratio,
        fixed_size=fixed_size,
        density=density,
        min_max_aspect_ratios_order=bool(min_max_aspect_ratios_order),
    )
    return _placed(ctx, op, layer, image)


@onnx_op("PriorBoxClustered", domain=OPENVINO, versions=(1,))
def prior_box_clustered(
    ctx: Context,
    layer: Output,
    image: Output,
    *,
    width: Sequence[float],
    height: Sequence[float],
    clip: int = 0,
    variance: Sequence[float] = (0.1,),
    step: float = 0.0,
    step_h: float = 0.0,
    step_w: float = 0.0,
    offset: float = 0.0,
    img_h: int = 0,
    img_w: int = 0,
) -> Output:
    """Boxes of given widths and heights around every element of ``layer``, as :func:`prior_box` gives them."""
    _unused(ctx, img_h=img_h, img_w=img_w)
    op = priors.PriorBoxClustered1(
        width=width,
        height=height,
        clip=bool(clip),
        variance=variance,
        step=step,
        step_h=step_h,
        step_w=step_w,
        offset=offset,
    )
    return _placed(ctx, op, layer, image)


@onnx_op("DetectionOutput", domain=OPENVINO, versions=(1,))
def detections(
    ctx: Context,
    boxes: Output,
    scores: Output,
    priors_: Output,
    more_scores: Output | None = None,
    more_boxes: Output | None = None,
    *,
    background_label_id: int = 0,
    top_k: int = -1,
    variance_encoded_in_target: int = 0,
    keep_top_k: int | Sequence[int] = 1,
    code_type: str = "CORNER",
    share_location: int = 1,
    nms_threshold: float,
    confidence_threshold: float = 0.0,
    clip_after_nms: int = 0,
    clip_before_nms: int = 0,
    decrease_label_id: int = 0,
    normalized: int = 1,
    input_height: int = 1,
    input_width: int = 1,
    objectness_score: float = 0.0,
    eta: float = 1.0,
    num_classes: int | None = None,
) -> Output:
    """The best boxes of each class, moved from the priors; rows are image, class, score and corners.

    ``code_type`` may come with or without Caffe's name in front; ``num_classes`` follows from the scores.
    """
    if eta != 1:
        raise ctx.unsupported(f"eta is {eta}, but the IR's threshold stays the same from box to box")
    if (more_scores is None) != (more_boxes is None):
        raise ctx.invalid("the fourth and the fifth input go together, but one is missing")
    op = detection_output.DetectionOutput8(
        background_label_id=background_label_id,
        top_k=top_k,
        variance_encoded_in_target=bool(variance_encoded_in_target),
        keep_top_k=[keep_top_k] if isinstance(keep_top_k, int) else keep_top_k,
        code_type=code_type if code_type.startswith(_CODES) else _CODES + code_type,
        share_location=bool(share_location),
        nms_threshold=nms_threshold,
        confidence_threshold=confidence_threshold,
        clip_after_nms=bool(clip_after_nms),
        clip_before_nms=bool(clip_before_nms),
        decrease_label_id=bool(decrease_label_id),
        normalized=bool(normalized),
        input_height=input_height,
        input_width=input_width,
        objectness_score=objectness_score,
    )
    further = [value for value in (more_scores, more_boxes) if value is not None]
    return ctx.emit(op, boxes, scores, priors_, *further)


# --- proposals, and the parts of Detectron's networks ---


@onnx_op("GenerateProposals", domain=OPENVINO, versions=(1,))
def generate_proposals(
    ctx: Context,
    scores: Output,
    deltas: Output,
    images: Output,
    anchors: Output,
    *,
    min_size: float = 1.0,
    nms_thresh: float = 0.7,
    pre_nms_topN: int = 6000,  # noqa: N803
    post_nms_topN: int = 300,  # noqa: N803
    legacy_plus_one: int = 1,
) -> tuple[Output, ...]:
    """The best boxes made of anchors ``[a, 4]`` at every place: boxes, scores, and how many an image has."""
    if ctx.rank(anchors, "the anchors") != 2:
        raise ctx.invalid(f"the anchors must have the shape [a, 4], but have {anchors.shape}")
    own = ctx.emit(generation.ShapeOf3(output_type=element_types.i64), anchors)
    target = ctx.emit(movement.Concat1(axis=0), _image_dimensions(ctx, scores, "the scores"), own)
    placed = ctx.emit(movement.Broadcast3(mode="numpy"), anchors, target)
    op = proposals.GenerateProposals9(
        min_size=min_size,
        nms_threshold=nms_thresh,
        pre_nms_count=pre_nms_topN,
        post_nms_count=post_nms_topN,
        normalized=not legacy_plus_one,
    )
    return tuple(ctx.emit_all(op, images, placed, deltas, scores))


@onnx_op("ExperimentalDetectronGenerateProposalsSingleImage", domain=OPENVINO, versions=(1,))
def proposals_of_one_image(
    ctx: Context,
    image: Output,
    anchors: Output,
    deltas: Output,
    scores: Output,
    *,
    min_size: float = 0.0,
    nms_threshold: float = 0.7,
    post_nms_count: int = 1000,
    pre_nms_count: int = 1000,
) -> tuple[Output, ...]:
    """The best boxes made of anchors, and their scores."""
    op = detectron.ExperimentalDetectronGenerateProposalsSingleImage6(
        min_size=min_size,
        nms_threshold=nms_threshold,
        post_nms_count=post_nms_count,
        pre_nms_count=pre_nms_count,
    )
    return tuple(ctx.emit_all(op, image, anchors, deltas, scores))


@onnx_op("ExperimentalDetectronPriorGridGenerator", domain=OPENVINO, versions=(1,))
def prior_grid(
    ctx: Context,
    boxes: Output,
    layer: Output,
    image: Output,
    *,
    flatten: int = 1,
    h: int = 0,
    w: int = 0,
    stride_x: float = 0.0,
    stride_y: float = 0.0,
) -> Output:
    """The boxes at every place of a grid."""
    op = detectron.ExperimentalDetectronPriorGridGenerator6(
        flatten=bool(flatten), h=h, w=w, stride_x=stride_x, stride_y=stride_y
    )
    return ctx.emit(op, boxes, layer, image)


@onnx_op("ExperimentalDetectronROIFeatureExtractor", domain=OPENVINO, versions=(1,))
def region_features(
    ctx: Context,
    regions: Output,
    *layers: Output,
    output_size: int = 7,
    sampling_ratio: int = 2,
    aligned: int = 0,
    pyramid_scales: Sequence[int] = (4, 8, 16, 32, 64),
    image_id: int = 0,
    distribute_rois_between_levels: int = 1,
    preserve_rois_order: int = 1,
) -> tuple[Output, ...]:
    """What each region holds, from the layer of a pyramid that fits its size; and the regions."""
    _unused(ctx, image_id=image_id)
    if not (distribute_rois_between_levels and preserve_rois_order):
        raise ctx.unsupported("the IR takes each region from the layer that fits it, and keeps the regions' order")
    op = detectron.ExperimentalDetectronROIFeatureExtractor6(
        output_size=output_size, sampling_ratio=sampling_ratio, aligned=bool(aligned), pyramid_scales=pyramid_scales
    )
    return tuple(ctx.emit_all(op, regions, *layers))


@onnx_op("ExperimentalDetectronTopKROIs", domain=OPENVINO, versions=(1,))
def top_regions(ctx: Context, regions: Output, scores: Output, *, max_rois: int = 1000) -> Output:
    """The regions of the highest scores."""
    return ctx.emit(detectron.ExperimentalDetectronTopKROIs6(max_rois=max_rois), regions, scores)


@onnx_op("ExperimentalDetectronDetectionOutput", domain=OPENVINO, versions=(1,))
def detectron_detections(
    ctx: Context,
    regions: Output,
    deltas: Output,
    scores: Output,
    image: Output,
    *,
    score_threshold: float = 0.05,
    nms_threshold: float = 0.5,
    max_delta_log_wh: float = math.log(1000 / 16),
    num_classes: int = 81,
    post_nms_count: int = 2000,
    max_detections_per_image: int = 100,
    class_agnostic_box_regression: int = 0,
    deltas_weights: Sequence[float] = (10.0, 10.0, 5.0, 5.0),
) -> tuple[Output, ...]:
    """Regions moved for each class, without those that overlap better ones: boxes, classes and scores."""
    op = detectron.ExperimentalDetectronDetectionOutput6(
        score_threshold=score_threshold,
        nms_threshold=nms_threshold,
        max_delta_log_wh=max_delta_log_wh,
        num_classes=num_classes,
        post_nms_count=post_nms_count,
        max_detections_per_image=max_detections_per_image,
        class_agnostic_box_regression=bool(class_agnostic_box_regression),
        deltas_weights=deltas_weights,
    )
    return tuple(ctx.emit_all(op, regions, deltas, scores, image))
