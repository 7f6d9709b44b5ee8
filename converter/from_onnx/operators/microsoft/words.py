"""onnxruntime's convolution over the characters of words, pooling of what a mask leaves, and alignment of texts.

Letters in shapes: s words, l characters of the longest word, f filters.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where

_NO_WINDOW = -1e12


@onnx_op("WordConvEmbedding", domain=MICROSOFT, versions=(1,))
def word_conv_embedding(
    ctx: Context,
    sequence: Expression,
    w: Expression,
    b: Expression,
    c: Expression,
    *,
    char_embedding_size: int | None = None,
    conv_window_size: int | None = None,
    embedding_size: int | None = None,
) -> Expression:
    """The maximum over the windows of each word ``[s, l]`` of tanh(window x weights + bias), ``[s, f]``.

    Characters are rows of ``c``, weights ``w`` are ``[f, 1, characters of a window, numbers of a character]``. A word
    ends where its characters are 0, but has at least one window. onnxruntime writes nothing for words of no
    characters; these are 0 here.
    """
    filters, _, window, width = (dimension.value if dimension.is_static else -1 for dimension in w.value.shape)
    for size, declared, name in (
        (filters, embedding_size, "embedding_size"),
        (window, conv_window_size, "conv_window_size"),
        (width, char_embedding_size, "char_embedding_size"),
    ):
        if declared not in (None, size):
            raise ctx.invalid(f"{name} is {declared}, but the weights are {w.value.shape}")
    if window < 1:
        raise ctx.unsupported("the size of the windows must be known while converting, but is not")
    is_character = sequence.greater(0)
    count = is_character.as_type("i32").sum(1, keep_dims=True)
    count = where(is_character.cut(1, 0, 1), count, 0)
    read = count.maximum(window)
    length = sequence.size(1)
    embedded = c.gather(sequence)
    embedded = where((positions(length).as_type("i32") < read).unsqueeze(2), embedded, 0.0)
    starts = positions(length - (window - 1)).unsqueeze(1)
    windows = embedded.gather(starts + np.arange(window), 1)
    kernel = w.reshape(w.size(0), -1)
    responses = windows.reshape(sequence.size(0), starts.size(0), kernel.size(1)).matmul(kernel, transpose_b=True)
    responses = (responses + b).tanh()
    is_inside = starts.as_type("i32") + window <= read.unsqueeze(1)
    return where(count.greater(0), where(is_inside, responses, _NO_WINDOW).max(1), 0.0)


@onnx_op("MaxpoolWithMask", domain=MICROSOFT, versions=(1,))
def max_pool_with_mask(
    ctx: Context,
    x: Expression,
    m: Expression,
    *,
    auto_pad: Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"] = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> Expression:
    """The maximum of each window of ``[n, c, ...]``, where each row of a window ends at the first 0 of the mask.

    The mask at the first element counts in one dimension alone. A window of which nothing is left has the lowest float.
    """
    if kernel_shape is None:
        raise ctx.invalid("the attribute kernel_shape is required, but missing")
    rank = len(kernel_shape)
    for value, name in ((x, "the input"), (m, "the mask")):
        ctx.rank(value.value, name, rank + 2)
    if any(not dimension.is_static or dimension.value != 1 for dimension in list(m.value.shape)[:2]):
        raise ctx.unsupported(
            f"the mask must be [1, 1, ...], but is {m.value.shape}: onnxruntime reads others at shifted places"
        )
    lowest = float(np.finfo(np.float32).min)
    x = where(x >= lowest, x, lowest)  # NaN is never the maximum
    mask = ~m.equal(0)
    if rank > 1:
        place = positions(x.size(-1))
        for axis in range(2, rank + 1):
            place = positions(x.size(axis)).reshape(-1, *repeat(1, rank + 1 - axis)) + place
        mask = mask | place.equal(0)
    for number in reversed(range(rank)):
        axis, length = number + 2, x.size(number + 2)
        kernel, stride = kernel_shape[number], strides[number] if strides else 1
        if auto_pad.startswith("SAME"):
            count = (length + (stride - 1)) // stride
            total = ((count - 1) * stride + kernel - length).maximum(0)
            before = (total + int(auto_pad == "SAME_LOWER")) // 2
        else:
            ends = (0, 0) if pads is None or auto_pad == "VALID" else (pads[number], pads[number + rank])
            count, before = (length + (sum(ends) - kernel)) // stride + 1, length.of(ends[0])
        starts, is_read, result = positions(count) * stride - before, None, None
        for offset in range(kernel):
            places = starts + offset
            window_indices = places.clip(length.of(0), length - 1)
            is_inside = (window_indices.equal(places)).reshape(-1, *repeat(1, rank - 1 - number))
            if number == rank - 1:
                row = mask.gather(window_indices, axis) | ~is_inside
                is_read = row if is_read is None else is_read & row
                is_inside = is_inside & is_read
            part = where(is_inside, x.gather(window_indices, axis), lowest)
            result = part if result is None else result.maximum(part)
        assert result is not None
        x = result
    return x


@onnx_op("DynamicTimeWarping", domain=MICROSOFT, versions=(1,))
def dynamic_time_warping(ctx: Context, input: Expression) -> Expression:
    """The cheapest way through costs ``[m, n]`` or ``[1, m, n]`` from the first to the last element.

    Rows and columns of its elements, ``[2, steps]``; a step goes to the next row, to the next column, or to both. Of
    ways that cost the same it is the one that onnxruntime takes, which need not be the cheapest then.
    """
    ctx.rank(input.value, "the costs", 2, 3)
    costs = input.reshape(*input.sizes()[-2:])
    rows, columns = costs.sizes()
    # A diagonal depends on the two before it: sums of the elements (i, number - i), with infinity in front.
    across = concat([costs, costs.of(np.inf).broadcast(rows, 1)], 1)
    numbers = positions(rows)
    outside = costs.of(np.inf).broadcast(rows + 1)

    def next_diagonal(number: Expression, last: Expression, second_last: Expression) -> list[Expression]:
        places = number - numbers
        is_inside = (places >= 0) & (places < columns)
        own = across.gather_elements(where(is_inside, places, columns).unsqueeze(1), 1).squeeze(1)
        both, row, column = second_last.cut(0, 0, -1), last.cut(0, 0, -1), last.cut(0, 1)
        # Where two of them are equal, onnxruntime takes the next column, whatever it costs.
        is_row, is_both = (row < both) & (row < column), (both < row) & (both < column)
        before = where(is_both, both, where(is_row, row, column))
        move = where(is_both, numbers.of(0), where(is_row, numbers.of(1), 2))
        sums = own + where((number + numbers).equal(0), costs.of(0.0), before)
        return [concat([costs.of([np.inf]), sums], 0), last, move]

    count = rows + columns - 1
    _, _, moves = loop(count, [outside, outside], next_diagonal)

    def step_back(number: Expression, place: Expression) -> list[Expression]:
        row = place.gather([0])
        move = moves.gather_nd(concat([place.sum(0, keep_dims=True), row], 0)).reshape(1)
        back = concat([(move < 2).as_type("i64"), (~move.equal(1)).as_type("i64")], 0)
        return [place - back, place]

    start = concat([(rows - 1).reshape(1), (columns - 1).reshape(1)], 0)
    _, way = loop(count, [start], step_back)
    steps = (way.min(1) >= 0).as_type("i64").sum(0)
    return way.gather(steps - 1 - positions(steps)).transpose(1, 0).as_type("i32")
