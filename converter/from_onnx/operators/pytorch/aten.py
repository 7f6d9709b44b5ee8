"""PyTorch's own operators, which its exporter falls back to where ONNX has none.

They are named by the attribute ``operator`` of ``ATen``, or are a domain's operators.
https://pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import embedding, movement, pooling
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_i64, as_list, part_of

ATEN = "org.pytorch.aten"


def aten(
    ctx: Context,
    table: Output,
    indices: Output,
    offsets: Output | None = None,
    weights: Output | None = None,
    *,
    operator: str,
    mode: int = 0,
    scale_grad_by_freq: int = 0,
    sparse: int = 0,
    include_last_offset: int = 0,
    padding_idx: int = -1,
    overload_name: str = "",
) -> tuple[Output | None, ...]:
    """``embedding_bag``: sums or means of a table's rows; nothing but the bags themselves is computed.

    A matrix of indices has a bag in each row. A list has one from each offset to the next.
    """
    if operator != "embedding_bag":
        raise ctx.unsupported(f"of PyTorch's own operators 'embedding_bag' is supported, but not '{operator}'")
    if mode not in (0, 1):
        raise ctx.unsupported(f"mode must be 0 (sums) or 1 (means), but is {mode}")
    if padding_idx >= 0:
        raise ctx.unsupported("rows that do not count (padding_idx) are not supported")
    if weights is not None and mode == 1:
        raise ctx.invalid("weights go with sums, but mode is 1 (means)")
    rank = ctx.rank(indices, "the indices")
    reduction = "mean" if mode else "sum"
    per_sample_weights = [] if weights is None else [weights]
    if rank == 2:
        if offsets is not None:
            raise ctx.invalid("a matrix of indices has a bag in each row, but there are offsets, too")
        packed = embedding.EmbeddingBagPacked15(reduction=reduction) if mode else embedding.EmbeddingBagPackedSum3()
        pooled = ctx.emit(packed, table, indices, *per_sample_weights)
    else:
        starts = ctx.required(offsets, "offsets")
        if include_last_offset:
            starts = part_of(ctx, starts, 0, -1)
        if per_sample_weights:
            # -1 leaves bags without indices at zero.
            per_sample_weights.insert(0, ctx.constant(-1, indices.element_type))
        operation = (
            embedding.EmbeddingBagOffsets15(reduction=reduction) if mode else embedding.EmbeddingBagOffsetsSum3()
        )
        pooled = ctx.emit(operation, table, indices, starts, *per_sample_weights)
    return pooled, None, None, None


onnx_op("ATen", versions=(1,))(aten)
onnx_op("ATen", domain=ATEN, versions=(1,))(aten)


@onnx_op("adaptive_avg_pool2d", domain=ATEN, versions=(1,))
def adaptive_average_pool(ctx: Context, x: Output, output_size: Output) -> Output:
    """Images ``[n, c, h, w]`` or ``[c, h, w]`` brought to a height and a width, or to one number for both."""
    rank = ctx.rank(x, "the images", 3, 4)
    target = as_i64(ctx, as_list(ctx, output_size))
    count = target.shape.element_count()
    if count.contains(1) and count.is_static:
        target = ctx.emit(movement.Concat1(axis=0), target, target)
    front = ctx.constant([0])
    images = ctx.emit(movement.Unsqueeze1(), x, front) if rank == 3 else x
    pooled = ctx.emit(pooling.AdaptiveAvgPool8(), images, target)
    return layers.squeeze(ctx, pooled, front) if rank == 3 else pooled
