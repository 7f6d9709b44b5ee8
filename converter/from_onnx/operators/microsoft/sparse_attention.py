"""onnxruntime's SparseAttention: queries see blocks of keys that a pattern of blocks lists for each head.

Letters in shapes: b batches, s queries, t keys, p patterns, n heads, m blocks.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention
"""

from __future__ import annotations

import itertools

import numpy as np

from converter.from_onnx.lowering.attention import mask_of
from converter.from_onnx.operators.microsoft.attention import group_query_attention
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Array
from ir_runtime.rewriting.expressions import Expression, concat, positions


@onnx_op("SparseAttention", domain=MICROSOFT, versions=(1,))
def sparse_attention(
    ctx: Context,
    query: Expression,
    key: Expression | None = None,
    value: Expression | None = None,
    past_key: Expression | None = None,
    past_value: Expression | None = None,
    block_row_indices: Expression | None = None,
    block_col_indices: Expression | None = None,
    total_sequence_length: Expression | None = None,
    key_total_sequence_lengths: Expression | None = None,
    cos_cache: Expression | None = None,
    sin_cache: Expression | None = None,
    *,
    do_rotary: int | None = None,
    kv_num_heads: int,
    num_heads: int,
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sparse_block_size: int,
) -> tuple[object, ...]:
    """GroupQueryAttention in which a query sees only the keys in some of the blocks before its own.

    The rows of the patterns are lists of blocks, one behind the other, with the places at which they start.
    """
    arguments = {
        "past_key": past_key,
        "past_value": past_value,
        "block_row_indices": block_row_indices,
        "block_col_indices": block_col_indices,
        "total_sequence_length": total_sequence_length,
        "key_total_sequence_lengths": key_total_sequence_lengths,
    }
    values = {
        name: ctx.required(None if argument is None else argument.value, name) for name, argument in arguments.items()
    }
    assert past_key is not None
    assert total_sequence_length is not None
    assert key_total_sequence_lengths is not None
    rows, columns = (ctx.known(values[name], name) for name in ("block_row_indices", "block_col_indices"))
    patterns = _patterns(ctx, rows, columns)
    if num_heads % len(patterns):
        raise ctx.invalid(f"num_heads must be a multiple of the {len(patterns)} patterns, but is {num_heads}")
    lengths = key_total_sequence_lengths.as_type("i64")
    count = query.size(1)
    total = total_sequence_length.as_type("i64").reshape()
    # In the first step all keys are new, and the padding is behind them.
    first = (lengths - count) * (1 - total.equal(count).as_type("i64"))
    of_queries = (first.unsqueeze(1) + positions(count)) // sparse_block_size
    of_keys = (positions(past_key.size(2)) // sparse_block_size).minimum(patterns.shape[-1] - 1)
    seen = query.of(patterns, "boolean").gather(of_queries.minimum(patterns.shape[-1] - 1), 1).gather(of_keys, 3)
    seen = seen.transpose(1, 0, 2, 3)
    if len(patterns) > 1:
        # Heads have the patterns in turn.
        seen = concat([seen] * (num_heads // len(patterns)), 1)
    hidden = mask_of(ctx, seen.value, query.value)
    return group_query_attention(
        ctx,
        query.value,
        None if key is None else key.value,
        None if value is None else value.value,
        values["past_key"],
        values["past_value"],
        (lengths - 1).value,
        total.value,
        None if cos_cache is None else cos_cache.value,
        None if sin_cache is None else sin_cache.value,
        attention_bias=hidden,
        do_rotary=do_rotary,
        kv_num_heads=kv_num_heads,
        num_heads=num_heads,
        rotary_interleaved=rotary_interleaved,
        scale=scale,
    )


def _patterns(ctx: Context, rows: Array, columns: Array) -> Array:
    """Return the blocks of keys that each block of queries sees: booleans ``[p, m, m]``."""
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns):
        raise ctx.invalid(
            f"block_row_indices and block_col_indices must have a row for each pattern, but have {rows.shape} and "
            f"{columns.shape}"
        )
    blocks = rows.shape[1] - 1
    masks = np.zeros((len(rows), blocks, blocks), np.bool_)
    for pattern, (starts, columns_of_pattern) in enumerate(zip(rows.tolist(), columns.tolist())):
        for block, (start, end) in enumerate(itertools.pairwise(starts)):
            if not 0 <= start <= end <= len(columns_of_pattern) or not all(
                0 <= column < blocks for column in columns_of_pattern[start:end]
            ):
                raise ctx.invalid(f"row {block} of pattern {pattern} lists no blocks of {blocks}")
            masks[pattern, block, columns_of_pattern[start:end]] = True
    return masks
