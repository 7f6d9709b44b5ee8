"""Operators of the domain ``org.openvinotoolkit``: the IR's own, which exporters write into ONNX files.

Each is one layer of the IR, or one with its inputs put into the IR's order and form.
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.from_onnx.translation.registry import REQUIRED
from ir_runtime.graph import Operation, Output
from ir_runtime.operations import (
    activation,
    convolution,
    detection_output,
    detectron,
    movement,
    normalization,
    priors,
    proposals,
    quantization,
)
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import dimension_list, shape_of

OPENVINO = "org.openvinotoolkit"

_CODES = "caffe.PriorBoxParameter."


def _unused(ctx: Context, **values: float) -> None:
    """Attributes that older tools write, and that the IR knows in one value only: as if they were not there."""
    for name, value in values.items():
        if value:
            raise ctx.unsupported(f"the IR has no attribute '{name}', which is {value}")


def _parameters(
    function: Callable[..., Any], operation: type[Operation], defaults: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """The function's parameters without the operation, and an attribute for each that the operation declares."""
    context, _, *inputs_and_attributes = inspect.signature(function).parameters.values()
    parameters = [context, *inputs_and_attributes]
    for name, attribute in operation.declared.items():
        default = defaults.get(name, REQUIRED if attribute.is_required else attribute.default)
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    return parameters


def _openvino_op(
    op_type: str,
    operation: type[Operation],
    defaults: Mapping[str, Any] | None = None,
    convert: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: register a translator whose attributes are those of the IR operation, by name and default.

    The function takes the context, the operation with the node's attributes, and the inputs; its own keyword-only
    parameters are attributes that the operation does not have. ``defaults`` lists those that differ from the
    operation's, ``convert`` the functions that turn a value into the operation's form.
    """
    defaults = defaults or {}
    converters: dict[str, Callable[[Any], Any]] = dict(convert or {})
    converters.update((name, bool) for name, declared in operation.declared.items() if declared.value_type == "boolean")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def translate(ctx: Context, *inputs: Output, **values: Any) -> Any:
            further = {name: values.pop(name) for name in list(values) if name not in operation.declared}
            own = {name: value for name, value in {**defaults, **values}.items() if value is not REQUIRED}
            op = operation(**{name: converters[name](v) if name in converters else v for name, v in own.items()})
            return function(ctx, op, *inputs, **further)

        parameters = _parameters(function, operation, defaults)
        translate.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return onnx_op(op_type, domain=OPENVINO, versions=(1,))(translate)

    return register


def _same_operation(operation: type[Operation], inputs: str, defaults: Mapping[str, Any]) -> None:
    """Register an operator that has the name, the inputs and the outputs of the IR operation."""

    def emit(ctx: Context, op: Operation, *values: Output) -> tuple[Output, ...]:
        return tuple(ctx.emit_all(op, *values))

    parameter_kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, parameter_kind) for name in ("ctx", "op", *inputs.split())]
    emit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    _openvino_op(operation.type, operation, defaults)(emit)


# --- activations and normalisations ---


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
    vectors = [ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([-1])) for value in (scale, bias)]
    return ctx.emit(normalization.GroupNormalization12(num_groups=num_groups, epsilon=eps), x, *vectors)


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
    normalized = ctx.emit(normalization.NormalizeL21(eps=eps, eps_mode="add"), x, axes)
    if channel_shared:
        if not weights.shape.element_count().contains(1):
            raise ctx.invalid(f"with channel_shared there must be one weight, but their shape is {weights.shape}")
        shape = [1] * rank
    else:
        shape = [1, -1] + [1] * (rank - 2)
    by_channel = ctx.emit(movement.Reshape1(special_zero=False), weights, ctx.constant(shape))
    return layers.multiply(ctx, normalized, by_channel)


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
    ctx.rank(x, name, 4)
    return dimension_list(ctx, x, 2, 3)


def _place(ctx: Context, op: priors.PriorBox8 | priors.PriorBoxClustered1, layer: Output, image: Output) -> Output:
    dimensions = _image_dimensions(ctx, layer, "the layer"), _image_dimensions(ctx, image, "the image")
    return ctx.emit(movement.Unsqueeze1(), ctx.emit(op, *dimensions), ctx.constant([0]))


@_openvino_op("PriorBox", priors.PriorBox8)
def prior_box(
    ctx: Context,
    op: priors.PriorBox8,
    layer: Output,
    image: Output,
    *,
    img_size: int = 0,
    img_h: int = 0,
    img_w: int = 0,
    step_h: float = 0.0,
    step_w: float = 0.0,
) -> Output:
    """Boxes of some sizes around every element of ``layer``, in parts of ``image``: ``[1, 2, 4 h w boxes]``."""
    _unused(ctx, img_size=img_size, img_h=img_h, img_w=img_w, step_h=step_h, step_w=step_w)
    return _place(ctx, op, layer, image)


@_openvino_op("PriorBoxClustered", priors.PriorBoxClustered1, {"clip": 0, "variance": (0.1,)})
def prior_box_clustered(
    ctx: Context, op: priors.PriorBoxClustered1, layer: Output, image: Output, *, img_h: int = 0, img_w: int = 0
) -> Output:
    """Boxes of given widths and heights around every element of ``layer``, as :func:`prior_box` gives them."""
    _unused(ctx, img_h=img_h, img_w=img_w)
    return _place(ctx, op, layer, image)


@_openvino_op(
    "DetectionOutput",
    detection_output.DetectionOutput8,
    {"keep_top_k": 1, "code_type": "CORNER", "nms_threshold": REQUIRED, "normalized": 1},
    {
        "keep_top_k": lambda count: [count] if isinstance(count, int) else count,
        "code_type": lambda name: _CODES + name.removeprefix(_CODES),
    },
)
def detections(
    ctx: Context,
    op: detection_output.DetectionOutput8,
    boxes: Output,
    scores: Output,
    priors_: Output,
    more_scores: Output | None = None,
    more_boxes: Output | None = None,
    *,
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
    further = [value for value in (more_scores, more_boxes) if value is not None]
    return ctx.emit(op, boxes, scores, priors_, *further)


# --- proposals, the parts of Detectron's networks, and operators that are the IR's operations ---


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
    own = shape_of(ctx, anchors)
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


@_openvino_op(
    "ExperimentalDetectronROIFeatureExtractor",
    detectron.ExperimentalDetectronROIFeatureExtractor6,
    {"output_size": 7, "sampling_ratio": 2, "pyramid_scales": (4, 8, 16, 32, 64)},
)
def region_features(
    ctx: Context,
    op: Operation,
    regions: Output,
    *layers: Output,
    image_id: int = 0,
    distribute_rois_between_levels: int = 1,
    preserve_rois_order: int = 1,
) -> tuple[Output, ...]:
    """Extract each region from the layer of a pyramid that fits its size; return the regions, too."""
    _unused(ctx, image_id=image_id)
    if not (distribute_rois_between_levels and preserve_rois_order):
        raise ctx.unsupported("the IR takes each region from the layer that fits it, and keeps the regions' order")
    return tuple(ctx.emit_all(op, regions, *layers))


for _operation, _inputs, _defaults in (
    (quantization.FakeQuantize1, "x input_low input_high output_low output_high", {"levels": REQUIRED}),
    (
        detectron.ExperimentalDetectronGenerateProposalsSingleImage6,
        "image anchors deltas scores",
        {"nms_threshold": 0.7, "post_nms_count": 1000, "pre_nms_count": 1000},
    ),
    (detectron.ExperimentalDetectronPriorGridGenerator6, "boxes layer image", {"flatten": 1}),
    (detectron.ExperimentalDetectronTopKROIs6, "regions scores", {"max_rois": 1000}),
    (
        detectron.ExperimentalDetectronDetectionOutput6,
        "regions deltas scores image",
        {
            "score_threshold": 0.05,
            "nms_threshold": 0.5,
            "max_delta_log_wh": math.log(1000 / 16),
            "num_classes": 81,
            "post_nms_count": 2000,
            "max_detections_per_image": 100,
            "deltas_weights": (10.0, 10.0, 5.0, 5.0),
        },
    ),
):
    _same_operation(_operation, _inputs, _defaults)
