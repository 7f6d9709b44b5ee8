"""onnxruntime's mixtures of experts, and a router for them.

Letters in shapes: t tokens, h numbers a token, e experts, f numbers within an expert.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.from_onnx.operators.onnx.activation import gelu
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import activation as ir
from ir_runtime.operations import indexing, matmul, movement, reduction, scatter, slicing, sorting
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.layers import add, cut, multiply, unsqueeze
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of, shape_of

from .packed_weights import unpacked_weights


@onnx_op("MoE", domain=MICROSOFT, versions=(1,), without=("router_weights",))
def mixture_of_experts(
    ctx: Context,
    x: Output,
    router_probs: Output,
    fc1_experts_weights: Output,
    fc1_experts_bias: Output | None = None,
    fc2_experts_weights: Output | None = None,
    fc2_experts_bias: Output | None = None,
    fc3_experts_weights: Output | None = None,
    fc3_experts_bias: Output | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    swiglu_limit_after_activation: int = 0,
    use_sparse_mixer: int = 0,
    router_weights: Output | None = None,
) -> Output:
    """The ``k`` best experts of each token ``[t, h]`` or ``[b, s, h]``, each with the share that a router gives it.

    All experts are computed for all tokens, and those that are not chosen count 0. The best experts have the greatest
    ``router_probs``, and their shares are those of ``router_weights``, where there are any.
    """
    if use_sparse_mixer:
        raise ctx.unsupported("the sparse mixer is not supported")
    rank = ctx.rank(x, "the input", 2, 3)
    flat = concat_lists(ctx, [ctx.constant([1, -1]), dim_of(ctx, x, rank - 1)])
    tokens = ctx.emit(movement.Reshape1(special_zero=False), x, flat)
    inner = _linear(ctx, tokens, fc1_experts_weights, fc1_experts_bias)
    if activation_type == "geglu":
        if swiglu_fusion == 0 or fc3_experts_weights is not None:
            raise ctx.invalid("geglu needs its two halves in fc1_experts_weights: swiglu_fusion 1 or 2")
        gate, linear = _two_parts(ctx, inner, swiglu_fusion)
        inner = multiply(ctx, gelu(ctx, gate, approximate="tanh"), linear)
    elif activation_type == "swiglu":
        if swiglu_fusion == 0:
            if fc3_experts_weights is None:
                raise ctx.invalid("swiglu that is not fused needs fc3_experts_weights")
            linear = _linear(ctx, tokens, fc3_experts_weights, fc3_experts_bias)
            gate = inner
        else:
            gate, linear = _two_parts(ctx, inner, swiglu_fusion)
        late = bool(swiglu_limit_after_activation)
        inner = _swiglu(ctx, gate, linear, activation_alpha, activation_beta, swiglu_limit, late)
    elif fc3_experts_weights is not None:
        raise ctx.unsupported(f"fc3_experts_weights are not supported with the activation {activation_type!r}")
    else:
        inner = _activate(ctx, inner, activation_type)
    outer = _linear(ctx, inner, ctx.required(fc2_experts_weights, "fc2_experts_weights"), fc2_experts_bias)
    shares = _shares(ctx, router_probs, router_weights, k, bool(normalize_routing_weights))
    column = unsqueeze(ctx, layers.transpose(ctx, shares, ctx.constant([1, 0])), 2)
    total = ctx.emit(reduction.ReduceSum1(), multiply(ctx, outer, column), ctx.constant([0]))
    return total if rank == 2 else ctx.emit(movement.Reshape1(special_zero=False), total, shape_of(ctx, x))


def _linear(ctx: Context, x: Output, weights: Output, bias: Output | None) -> Output:
    """``[e, t, i]`` by ``[e, o, i]`` to ``[e, t, o]``."""
    product = ctx.emit(matmul.MatMul1(transpose_b=True), x, weights)
    return product if bias is None else add(ctx, product, unsqueeze(ctx, bias, 1))


def _two_parts(ctx: Context, inner: Output, fusion: int) -> list[Output]:
    """Gates and what they let pass: neighbours (1), or one after another (2)."""
    if fusion == 1:
        return [cut(ctx, inner, start, None, 2, 2) for start in (0, 1)]
    if fusion == 2:
        return ctx.emit_all(slicing.Split1(num_splits=2), inner, ctx.constant(2))
    raise ctx.invalid(f"swiglu_fusion must be 0, 1 or 2, but is {fusion}")


def _swiglu(
    ctx: Context, gate: Output, linear: Output, alpha: float, beta: float, limit: float | None, late: bool
) -> Output:
    """The Swish of the gate times the other half, both limited: the gate before its Swish, or after it (``late``)."""
    if limit is not None:
        linear = ctx.emit(ir.Clamp1(min=-limit, max=limit), linear)
    if limit is not None and not late:
        gate = layers.minimum(ctx, gate, ctx.like(limit, gate))
    if beta:
        linear = add(ctx, linear, ctx.like(beta, linear))
    slope = gate if alpha == 1 else multiply(ctx, gate, ctx.like(alpha, gate))
    opened = multiply(ctx, gate, ctx.emit(ir.Sigmoid1(), slope))
    if limit is not None and late:
        opened = layers.minimum(ctx, opened, ctx.like(limit, opened))
    return multiply(ctx, opened, linear)


def _activate(ctx: Context, x: Output, name: str) -> Output:
    if name == "identity":
        return x
    if name == "relu":
        return ctx.emit(ir.ReLU1(), x)
    if name == "relu2":
        positive = ctx.emit(ir.ReLU1(), x)
        return multiply(ctx, positive, positive)
    if name == "silu":
        return multiply(ctx, x, ctx.emit(ir.Sigmoid1(), x))
    if name == "gelu":
        return gelu(ctx, x, approximate="tanh")
    names = "relu, relu2, gelu, geglu, silu, swiglu or identity"
    raise ctx.invalid(f"activation_type must be {names}, but is {name!r}")


def _shares(ctx: Context, scores: Output, weights: Output | None, count: int, normalized: bool) -> Output:
    """``[t, e]``: the shares of the ``count`` experts of the highest scores, 0 for all others."""
    everyone = ctx.emit(ir.SoftMax8(axis=1), scores) if weights is None else scores
    best = sorting.TopK11(axis=1, mode="max", sort="value", index_element_type=element_types.i64)
    shares, places = ctx.emit_all(best, everyone, ctx.constant(count))
    if weights is not None:
        shares = ctx.emit(indexing.GatherElements6(axis=1), weights, places)
    if normalized:
        total = ctx.emit(reduction.ReduceSum1(keep_dims=True), shares, ctx.constant([1]))
        shares = layers.divide(ctx, shares, total)
    nobody = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, scores), shape_of(ctx, scores))
    return ctx.emit(scatter.ScatterElementsUpdate3(), nobody, places, shares, ctx.constant(1))


@onnx_op("QMoE", domain=MICROSOFT, versions=(1,))
@attributes_of(mixture_of_experts, without=("router_weights",))
def quantized_mixture_of_experts(
    ctx: Context,
    x: Output,
    router_probs: Output,
    fc1_experts_weights: Output,
    fc1_scales: Output | None = None,
    fc1_experts_bias: Output | None = None,
    fc2_experts_weights: Output | None = None,
    fc2_scales: Output | None = None,
    fc2_experts_bias: Output | None = None,
    fc3_experts_weights: Output | None = None,
    fc3_scales: Output | None = None,
    fc3_experts_bias: Output | None = None,
    fc1_zero_points: Output | None = None,
    fc2_zero_points: Output | None = None,
    fc3_zero_points: Output | None = None,
    router_weights: Output | None = None,
    fc1_global_scale: Output | None = None,
    fc2_global_scale: Output | None = None,
    fc1_act_scale: Output | None = None,
    fc2_act_scale: Output | None = None,
    fc1_act_block_scale: Output | None = None,
    fc2_act_block_scale: Output | None = None,
    *,
    accuracy_level: int = 0,
    block_size: int | None = None,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None,
    quant_type: str = "int",
    weights_prepacked: int = -1,
    **attributes: Any,
) -> Output:
    """As MoE, with weights ``[e, f, h]`` of a few bits, each row or each block of a row with its scale.

    ``accuracy_level`` allows for rounding x, which is not done here.
    """
    if quant_type != "int":
        raise ctx.unsupported(f"weights of the type {quant_type!r} are not supported, only int")
    if weights_prepacked == 1:
        raise ctx.unsupported("weights that are packed for one kind of processor are not supported")
    parts = {
        "fc1": (fc1_experts_weights, fc1_scales, fc1_zero_points, fc1_expert_weight_bits),
        "fc2": (fc2_experts_weights, fc2_scales, fc2_zero_points, fc2_expert_weight_bits),
        "fc3": (fc3_experts_weights, fc3_scales, fc3_zero_points, fc3_expert_weight_bits),
    }
    weights: list[Output | None] = []
    for name, (packed, scales, zero_points, own_bits) in parts.items():
        if packed is None:
            weights.append(None)
            continue
        if not packed.shape.is_static or packed.shape.rank != 3:
            raise ctx.invalid(f"{name}_experts_weights must have 3 known dimensions, but has the shape {packed.shape}")
        bits = own_bits or expert_weight_bits
        experts, rows, stored = packed.shape.static()
        shape = experts * rows, stored * 8 // max(1, bits)
        scale = ctx.required(scales, f"{name}_scales")
        # Without blocks the zero points of an expert are one list.
        lists = None if block_size else experts
        flat = unpacked_weights(
            ctx,
            packed,
            scale,
            zero_points,
            bits,
            shape,
            block_size or shape[1],
            x.element_type,
            f"{name}_experts_weights",
            lists,
        )
        weights.append(layers.reshape(ctx, flat, [experts, rows, shape[1]]))
    if router_weights is None:
        # onnxruntime takes the Softmax of the best scores alone.
        attributes["normalize_routing_weights"] = 1
    first, second, third = weights
    return mixture_of_experts(
        ctx,
        x,
        router_probs,
        ctx.required(first, "fc1_experts_weights"),
        fc1_experts_bias,
        second,
        fc2_experts_bias,
        third,
        fc3_experts_bias,
        router_weights=router_weights,
        **attributes,
    )


@onnx_op("MoEGroupRouter", domain=MICROSOFT, versions=(1,))
def group_router(
    ctx: Context,
    logits: Expression,
    expert_bias: Expression,
    projection_weight: Expression | None = None,
    *,
    group_topk: int = 2,
    n_group: int = 1,
    router_sentinel: float = -10000.0,
    top_k: int,
    topk_group: int = 1,
) -> list[Expression | None]:
    """The logarithms of the sigmoids ``[t, e]`` of the best experts in the best groups, and a number for the others.

    Or, besides, all sigmoids with the bias and without. A group is as good as its ``group_topk`` best experts together.
    """
    element_type = logits.element_type
    wide = logits.as_type("f32")
    if projection_weight is not None:
        wide = wide.matmul(projection_weight.as_type("f32"), transpose_b=True)
    experts = expert_bias.size(0)
    scores = wide.reshape(-1, experts).sigmoid()
    biased = scores + expert_bias
    if not ctx.wants(0):
        return [None, biased, scores]
    count = scores.size(0)
    in_groups = biased.reshape(count, n_group, -1)
    of_group = in_groups.top(in_groups.size(2).minimum(group_topk))[0].sum(2)
    _, groups = of_group.top(min(topk_group, n_group))
    chosen = of_group.of(0.0).broadcast(count, n_group).scatter(groups, groups.as_type("f32") * 0.0 + 1.0, 1)
    allowed = where(chosen.unsqueeze(2).equal(1.0), in_groups, -np.inf).reshape(count, experts)
    _, best = allowed.top(top_k)
    values = scores.gather_elements(best, 1).maximum(1e-20).log()
    scores_of_all = scores.of(router_sentinel).broadcast(count, experts).scatter(best, values, 1)
    return [scores_of_all.as_type(element_type), biased, scores]
