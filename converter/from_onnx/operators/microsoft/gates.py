"""onnxruntime's fused gates, RMS normalizations and hyper-connections.

They compute in float32 and round to the type of the data where the comments of the schemas say so. Letters in shapes:
c streams or branches, h numbers of each.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Literal

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.rewriting.expressions import Expression


@onnx_op("GatedAdd", domain=MICROSOFT, versions=(1,))
def gated_add(
    ctx: Context, x: Expression, y: Expression, gate: Expression, gate_weight: Expression | None = None
) -> Expression:
    """x + y gate, with a gate for each row ``[..., 1]``."""
    if gate_weight is not None:
        raise ctx.unsupported("gates that are projected by gate_weight are not supported")
    return x + y * gate


@onnx_op("ScaledSiLU", domain=MICROSOFT, versions=(1,))
def scaled_silu(ctx: Context, x: Expression, scale: Expression | None = None, *, alpha: float = 1.0) -> Expression:
    """z sigmoid(z) of z = scale x, where the scalar input goes before the attribute."""
    wide = x.as_type("f32")
    scaled = wide * (alpha if scale is None else scale.as_type("f32").reshape())
    scaled = scaled.as_type(x.element_type)
    return scaled * scaled.as_type("f32").sigmoid().as_type(x.element_type)


@onnx_op("GatedRMSNorm", domain=MICROSOFT, versions=(1,))
def gated_rms_norm(
    ctx: Context,
    x: Expression,
    scale: Expression,
    gate: Expression,
    *,
    activation: Literal["silu", "swish", "sigmoid"] = "silu",
    epsilon: float = 1e-5,
) -> Expression:
    """Each group of as many numbers as the scale has, normalized, scaled and gated."""
    groups = x.as_type("f32").reshape(-1, scale.size(0))
    normalized = (_normalize(groups, epsilon) * scale.as_type("f32")).reshape(*x.sizes())
    wide = gate.as_type("f32")
    opened = wide.sigmoid() if activation == "sigmoid" else wide * wide.sigmoid()
    return (normalized * opened).as_type(x.element_type)


def _normalize(x: Expression, epsilon: float) -> Expression:
    """x divided by its root mean square over the last dimension."""
    return x / ((x * x).mean(-1, keep_dims=True) + epsilon).sqrt()


@onnx_op("BranchwiseRMSNorm", domain=MICROSOFT, versions=(1,))
def branchwise_rms_norm(
    ctx: Context, x: Expression, scale: Expression | None = None, *, epsilon: float = 1e-5, num_branches: int = 0
) -> Expression:
    """Each of the branches ``[..., c, h]``, or ``[..., c h]`` with ``num_branches``, normalized."""
    grouped = _streams(ctx, x, num_branches)
    normalized_ = _normalize(grouped.as_type("f32"), epsilon)
    if scale is not None:
        wide = scale.as_type("f32")
        if scale.rank == 1:
            # A scale has one branch or all.
            wide = wide.reshape(-1, grouped.size(-1))
        normalized_ = normalized_ * wide
    return normalized_.as_type(x.element_type).reshape(*x.sizes())


def _streams(ctx: Context, x: Expression, count: int) -> Expression:
    """Streams ``[..., c, h]``, which may be flattened."""
    if count < 0:
        raise ctx.invalid(f"num_branches must not be negative, but is {count}")
    if not count:
        if x.rank < 2:
            raise ctx.invalid(f"streams without num_branches must have two dimensions, but are {x.value.shape}")
        return x
    *outer, width = x.sizes()
    return x.reshape(*outer, count, width // count)


def _gates(x: Expression, grouped: Expression) -> Expression:
    """Gates ``[..., c, 1]`` or ``[..., c, h]`` of streams that have another shape, in float32."""
    wide = x.as_type("f32")
    if x.rank == grouped.rank:
        return wide
    streams = grouped.size(-2)
    return wide.reshape(*grouped.sizes()[:-2], streams, x.size(-1) // streams)


@onnx_op("HyperConnectionPreMix", domain=MICROSOFT, versions=(1,))
def hyper_connection_pre_mix(
    ctx: Context, streams: Expression, pre_mix: Expression, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Expression:
    """The sum of the streams, each with its gates."""
    grouped = _streams(ctx, streams, num_branches)
    mixed = (grouped.as_type("f32") * _gates(pre_mix, grouped)).sum(-2)
    return (mixed * reduction_scale).as_type(streams.element_type)


@onnx_op("HyperConnectionPostMix", domain=MICROSOFT, versions=(1,))
def hyper_connection_post_mix(
    ctx: Context,
    streams: Expression,
    block_output: Expression,
    post_mix: Expression,
    stream_mix: Expression | None = None,
    *,
    num_branches: int = 0,
) -> Expression:
    """The streams, mixed by ``stream_mix`` ``[..., c, c]``, and to each what a block made of them, with its gates."""
    grouped = _streams(ctx, streams, num_branches)
    mixed = grouped.as_type("f32")
    if stream_mix is not None:
        mixed = stream_mix.as_type("f32").matmul(mixed, transpose_a=True)
    mixed_streams = mixed + _gates(post_mix, grouped) * block_output.as_type("f32").unsqueeze(-2)
    return mixed_streams.as_type(streams.element_type).reshape(*streams.sizes())


@onnx_op("EngramGate", domain=MICROSOFT, versions=(1,))
def engram_gate(
    ctx: Context,
    key: Expression,
    query: Expression,
    value: Expression,
    key_norm_scale: Expression,
    query_norm_scale: Expression,
    conv_norm_scale: Expression | None = None,
    *,
    epsilon: float = 1e-5,
) -> list[Expression]:
    """The value ``[b, s, h]`` with a gate for each of the keys and queries ``[b, s, c, h]``; also normalized."""
    element_type = key.element_type
    width = key.size(-1).as_type("f32")
    pair = (
        _normalize(vectors.as_type("f32"), epsilon) * scale.as_type("f32")
        for vectors, scale in ((key, key_norm_scale), (query, query_norm_scale))
    )
    first, second = pair
    agreement = (first * second).sum(-1, keep_dims=True) / width.sqrt()
    gate = (agreement.sign() * abs(agreement).maximum(1e-6).sqrt()).sigmoid()
    gated = gate * value.as_type("f32").unsqueeze(2)
    if conv_norm_scale is None:
        if ctx.wants(1):
            raise ctx.invalid("the output gated_value_normed requires the input conv_norm_scale, which is missing")
        return [gated.as_type(element_type)]
    return [
        gated.as_type(element_type),
        (_normalize(gated, epsilon) * conv_norm_scale.as_type("f32")).as_type(element_type),
    ]
